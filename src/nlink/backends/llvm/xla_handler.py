"""Kernels as handlers of XLA's typed FFI, written without a C compiler.

    XLA_FFI_Error *nlink_xla(XLA_FFI_CallFrame *frame)

XLA calls a handler to ask for its metadata, and then for each execution. The layout of its
structures is that of `xla/ffi/api/c_api.h`, of which `expect_known_api` knows some versions. A
buffer has the dimensions of its port, after one for the states or none: then all states share it.
Scratch memory belongs to the call, so any number of XLA's threads may be here at once.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nlink.backends.llvm.host import Image, compile_object
from nlink.backends.llvm.ir import MODULE_TAIL, Function
from nlink.backends.llvm.precision import PRECISIONS
from nlink.programs.program import Port

if TYPE_CHECKING:
    from nlink.backends.llvm.kernel import Kernel

HANDLER = "nlink_xla"
KNOWN = (0, range(1, 4))
"""The major version of XLA's FFI whose layout this is, and its minor versions; 0.1 is the oldest
that answers for a handler of this layout, and later ones only have fields behind these."""
ANSWER = (0, 1)
"""The version that handlers say they are written for."""

EXTENSION, API, ARGS, RETS = 8, 16, 72, 112
"""Bytes from the beginning of a call frame to pointers: to its extension, to functions of XLA, to
the arrays of arguments and of results."""
DATA, RANK, DIMS = 24, 32, 40
"""Within a buffer."""
EXTENSION_TYPE, METADATA, METADATA_TYPE = 8, 24, 1
MAJOR, MINOR, TRAITS = 24, 28, 32
"""Within the metadata."""
ERROR_CREATE, ERROR_ARGUMENTS, EXHAUSTED = 48, 32, 8
"""Within the functions: that which makes an error; the size of its arguments, and a code."""
ON_STACK = 1 << (12 if sys.platform == "win32" else 16)
"""Bytes of scratch memory that are on the stack at most; it is not probed: on Windows, a page."""


def expect_known_api(include: Path) -> None:
    """Refuse versions of XLA's FFI that are not known: their calls could not be understood."""
    header = include / "xla" / "ffi" / "api" / "c_api.h"
    try:
        text = header.read_text("utf-8")
        major, minor = (int(re.search(rf"#define XLA_FFI_API_{part} (\d+)", text)[1])  # type: ignore
                        for part in ("MAJOR", "MINOR"))
    except (OSError, TypeError):
        raise ImportError(f"jaxlib: no version of XLA's FFI in {header.name}, expected "
                          f"{_versions()}") from None
    if major != KNOWN[0] or minor not in KNOWN[1]:
        raise ImportError(f"jaxlib: its XLA has version {major}.{minor} of the FFI, expected "
                          f"{_versions()}: a newer nlink may know it, or an older jaxlib does")


def _versions() -> str:
    major, minors = KNOWN
    return f"{major}.{minors[0]} to {major}.{minors[-1]}"


class XlaHandler:
    """The handler of a kernel, for as long as this object lives."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._image = Image(compile_object(_emit(kernel)))
        self.address = self._image.address(HANDLER)


def _emit(kernel: Kernel) -> str:
    f, signature = Function(), kernel.signature
    ports, inputs = signature.ports, signature.inputs
    size = PRECISIONS[signature.dtype].size
    # a call that asks for metadata has an extension of that type
    extension = f.load("ptr", "%frame", EXTENSION)
    f.branch(f.let(f"icmp eq ptr {extension}, null"), "compute", "extended")
    f.begin("extended")
    kind = f.load("i32", extension, EXTENSION_TYPE)
    f.branch(f.let(f"icmp eq i32 {kind}, {METADATA_TYPE}"), "answer", "compute", unlikely=True)
    f.begin("answer")
    metadata = f.load("ptr", extension, METADATA)
    for offset, value in ((MAJOR, ANSWER[0]), (MINOR, ANSWER[1]), (TRAITS, 0)):
        f.store("i32", str(value), metadata, offset)
    f.do("ret ptr null")
    # one dimension more than the port has: a row for each state
    f.begin("compute")
    places, strides = (f.let(f"alloca [{len(ports)} x i64]") for _ in range(2))
    counts = []
    for k, (port, buffer) in enumerate(zip(ports, _buffers(f, inputs, signature.outputs),
                                           strict=True)):
        several = f.let(f"icmp ugt i64 {f.load('i64', buffer, RANK)}, {len(port.shape)}")
        stride = size * port.size
        f.store("ptr", f.load("ptr", buffer, DATA), places, 8 * k)
        f.store("i64", f.let(f"select i1 {several}, i64 {stride}, i64 0"), strides, 8 * k)
        counts.append((several, f.load("ptr", buffer, DIMS)))
    # the last result has a row for each state, if there are several
    several, dims = counts[-1]
    f.branch(several, "batch", "single")
    f.begin("batch")
    rows = f.load("i64", dims)
    f.go("run")
    f.begin("single")
    f.go("run")
    f.begin("run")
    count = f.phi("i64", (rows, "batch"), ("1", "single"))
    # scratch memory of this call
    call = (f"call void {_pointer(kernel.address)}(ptr {places}, ptr {strides}, i64 {count}, "
            f"ptr {_pointer(signature.data)}, ptr ")
    room = max(signature.scratch, 1)
    if room <= ON_STACK:
        scratch = f.let(f"alloca [{room} x i8], align {signature.alignment}")
        f.do(f"{call}{scratch})")
        f.do("ret ptr null")
    else:
        allocate, free = (_pointer(ctypes.cast(each, ctypes.c_void_p).value or 0) for each in (
            ctypes.pythonapi.PyMem_RawMalloc, ctypes.pythonapi.PyMem_RawFree))
        memory = f.let(f"call ptr {allocate}(i64 {room + signature.alignment})")
        f.branch(f.let(f"icmp eq ptr {memory}, null"), "exhausted", "roomy", unlikely=True)
        f.begin("roomy")
        begin = f.let(f"ptrtoint ptr {memory} to i64")
        begin = f.let(f"add i64 {begin}, {signature.alignment - 1}")
        begin = f.let(f"and i64 {begin}, {-signature.alignment}")
        f.do(f"{call}{f.let(f'inttoptr i64 {begin} to ptr')})")
        f.do(f"call void {free}(ptr {memory})")
        f.do("ret ptr null")
        f.begin("exhausted")
        _fail(f)
    message = b"nlink: no memory for a computation\0"
    text = "".join(f"\\{byte:02X}" for byte in message)
    return (f'@message = private constant [{len(message)} x i8] c"{text}"\n'
            + f.define(f"ptr @{HANDLER}(ptr %frame)") + MODULE_TAIL)


def _buffers(f: Function, inputs: Sequence[Port], outputs: Sequence[Port]) -> list[str]:
    found = []
    for ports, offset in ((inputs, ARGS), (outputs, RETS)):
        array = f.load("ptr", "%frame", offset) if ports else ""
        found += [f.load("ptr", array, 8 * k) for k in range(len(ports))]
    return found


def _fail(f: Function) -> None:
    """Return an error of XLA's own."""
    arguments = f.let(f"alloca [{ERROR_ARGUMENTS // 8} x i64]")
    for offset, kind, value in ((0, "i64", ERROR_ARGUMENTS - 4), (8, "i64", 0),
                                (16, "ptr", "@message"), (24, "i32", EXHAUSTED)):
        f.store(kind, str(value), arguments, offset)
    make = f.load("ptr", f.load("ptr", "%frame", API), ERROR_CREATE)
    f.do(f"ret ptr {f.let(f'call ptr {make}(ptr {arguments})')}")


def _pointer(address: int) -> str:
    return f"inttoptr (i64 {address} to ptr)"
