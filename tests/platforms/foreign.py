"""Machine code for processors that are not here, and a way to run that for 64-bit ARM."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from nlink.backends.llvm import host
from nlink.backends.llvm.ir import Target
from nlink.backends.llvm.kernel import BATCH, Compiled
from nlink.backends.llvm.process_kernel import ENTRY, POINTERS, WORDS

ARM_LINUX, ARM_MAC = "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"
WINDOWS = "x86_64-pc-windows-msvc"
HARNESS = Path(__file__).with_name("harness.c")
GCC, QEMU, LIBRARIES = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"

needs_arm = pytest.mark.skipif(
    shutil.which(GCC) is None or shutil.which(QEMU) is None,
    reason="needs qemu-user, gcc-aarch64-linux-gnu and libc6-dev-arm64-cross")


@contextmanager
def compiling_for(triple: str) -> Iterator[None]:
    """Within this, code is made for another platform: vectors of two on ARM, of four elsewhere."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    arm = triple.startswith("aarch64")
    cpu = "generic" if arm else "x86-64-v3"
    there = host.Host(cpu, "", Target(2 if arm else 4, fma=True))

    def machine(opt: int = 2) -> llvm.TargetMachine:
        return llvm.Target.from_triple(triple).create_target_machine(
            cpu=cpu, features="", opt=opt, reloc="pic")

    def compiled(text: str, opt: int) -> bytes:
        module = llvm.parse_assembly(host.once(text))
        module.triple = triple
        module.verify()
        return machine(opt).emit_object(module)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "host", lambda: there)
        patch.setattr(host, "_compile_module", compiled)
        patch.setattr(host, "_common_object", lambda text: compiled(text, 2))
        yield


def objects(code: bytes) -> list[bytes]:
    return list(host._objects(code))


@dataclass
class Memory:
    """Blocks of memory and the pointers among them, for a call in another process."""

    blocks: list[bytes] = field(default_factory=list)
    pointers: list[tuple[int, int, int, int]] = field(default_factory=list)

    def put(self, data: bytes | np.ndarray) -> int:
        """The number of a new block."""
        self.blocks.append(data if isinstance(data, bytes) else data.tobytes())
        return len(self.blocks) - 1

    def table(self, words: Sequence[tuple[int, int]]) -> int:
        """A block of words, each (block, byte in it) or (-1, a number)."""
        here = self.put(struct.pack(f"<{len(words)}q", *(0 if b >= 0 else x for b, x in words)))
        self.pointers += [(here, 8 * k, b, x) for k, (b, x) in enumerate(words) if b >= 0]
        return here

    def run(self, compiled: Compiled, entry: str, arguments: Sequence[tuple[int, int]],
            place: Path) -> list[bytes]:
        """The blocks after a call of the code under qemu."""
        files = []
        for k, each in enumerate(objects(compiled.code)):
            files.append(place / f"{k}.o")
            files[-1].write_bytes(each)
        program = place / "program"
        subprocess.run([GCC, "-O1", f"-DENTRY={entry}", "-o", program, HARNESS, *files, "-lm"],
                       check=True)
        given = [*arguments, *[(-1, 0)] * (5 - len(arguments))]
        head = [len(self.blocks), *map(len, self.blocks)]
        tail = [len(self.pointers), *(x for each in self.pointers for x in each),
                *(x for each in given for x in each)]
        (place / "in").write_bytes(struct.pack(f"<{len(head)}q", *head) + b"".join(self.blocks)
                                   + struct.pack(f"<{len(tail)}q", *tail))
        subprocess.run([QEMU, "-L", LIBRARIES, program, place / "in", place / "out"], check=True)
        data, found = (place / "out").read_bytes(), list[bytes]()
        for block in self.blocks:
            found.append(data[:len(block)])
            data = data[len(block):]
        return found


def call_batch(compiled: Compiled, arrays: Sequence[np.ndarray], place: Path) -> list[np.ndarray]:
    """The outputs of a kernel for a batch, under qemu."""
    count, memory = len(arrays[0]), Memory()
    rows = [*arrays, *(np.empty((count, *port.shape), compiled.dtype)
                       for port in compiled.outputs)]
    places = [memory.put(x) for x in rows]
    ports = memory.table([(block, 0) for block in places])
    strides = memory.table([(-1, x.strides[0]) for x in rows])
    data, scratch = memory.put(compiled.data), memory.put(bytes(compiled.scratch))
    found = memory.run(compiled, BATCH, [(ports, 0), (strides, 0), (-1, count), (data, 0),
                                         (scratch, 0)], place)
    return [np.frombuffer(found[k], compiled.dtype).reshape(rows[k].shape)
            for k in places[len(arrays):]]


def call_processes(compiled: Compiled, records: np.ndarray, given: np.ndarray, out: np.ndarray,
                   times: np.ndarray, place: Path) -> np.ndarray:
    """The outputs of an iteration's processes, under qemu."""
    memory = Memory()
    rows = memory.put(out)
    scratch = memory.put(bytes(compiled.scratch))
    words = {"records": (memory.put(records), 0), "given": (memory.put(given), 0),
             "out": (rows, 0), "times": (memory.put(times), 0),
             "data": (memory.put(compiled.data), 0), "scratch": (scratch, 0),
             "room": (scratch, compiled.split),
             "count": (-1, len(records)), "outputs": (-1, out.shape[1]), "budget": (-1, 2**62)}
    assert set(POINTERS) - {"held", "log", "seen", "told"} <= set(words)
    argument = memory.table([words.get(name, (-1, 0)) for name in WORDS])
    found = memory.run(compiled, ENTRY, [(argument, 0)], place)
    return np.frombuffer(found[rows]).reshape(out.shape)
