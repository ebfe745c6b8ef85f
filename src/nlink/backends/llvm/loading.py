"""From a program to a kernel: out of the cache, or compiled."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import nlink
from nlink.backends.llvm import cache, native
from nlink.backends.llvm.host import host
from nlink.backends.llvm.kernel import Compiled, Kernel
from nlink.backends.llvm.threads import MAKING
from nlink.programs.keys import key

if TYPE_CHECKING:
    from nlink.programs.program import Program
    from nlink.programs.rolled_program import RolledProgram
    from nlink.programs.staged import StagedProgram
    from nlink.programs.stepped import SteppedProgram

Loaded = TypeVar("Loaded")


def load_kernel(program: Program | StagedProgram | SteppedProgram | RolledProgram,
                dtype: str = "float64") -> Kernel:
    """The kernel of a program, that computes with numbers of a type."""

    def compile_now() -> Compiled:
        from nlink.backends.llvm.translate import compile_program

        return compile_program(program, dtype)

    return load_compiled(f"{key(program)} {dtype}", compile_now, Kernel)


def load_compiled(program: str, compile_now: Callable[[], Compiled],
                  load: Callable[[Compiled], Loaded]) -> Loaded:
    """Object code from the cache or compiled now, loaded into the process.

    `program` is the key (`keys.key`) of all that is compiled. nlink's own source, the
    versions of the tools and the host are added here.
    """
    whole = "\n".join((program, source_digest(), host().identity, native.identity(),
                       f"native {native.supported()} pointer {struct.calcsize('P')}"))
    with MAKING:
        found = _LOADED.get(whole)
        if found is None:
            found = _LOADED[whole] = _load(whole, compile_now, load)
        return found


_LOADED: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Kernels that are still used in this process: equal robots share theirs."""


def _load(whole: str, compile_now: Callable[[], Compiled], load: Callable[[Compiled], Loaded],
          ) -> Loaded:
    payload = cache.read(whole)
    if payload is not None:
        try:
            return load(Compiled.from_bytes(payload))
        except (ValueError, KeyError, LookupError, RuntimeError, struct.error):
            pass  # signed, yet not to be understood: compile again
    with _told_if_slow():
        compiled = compile_now()
    cache.write(whole, compiled.to_bytes())
    return load(compiled)


SLOW = 2.0
"""Seconds after which somebody at a terminal is told what is going on."""


@contextlib.contextmanager
def _told_if_slow() -> Iterator[None]:
    """While something is compiled: one line on a terminal if it takes long."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(SLOW, _tell)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # no more threads: nobody is told
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell() -> None:
    kept = "for the next time, too" if cache.directory() else "and not kept: there is no cache"
    print(f"nlink: still compiling after {SLOW:g} s, {kept} (Ctrl-C stops it)", file=sys.stderr,
          flush=True)


@functools.cache
def source_contents() -> str:
    """A digest of nlink's source: other code may compute other numbers."""
    root, digest = Path(nlink.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()


@functools.cache
def source_digest() -> str:
    """A digest of nlink's own source: other code may generate other kernels.

    Names, sizes and times of change stand for the text: reading it all would cost more than
    loading a kernel does.
    """
    root = Path(nlink.__file__).parent
    stamps = [nlink.__version__]
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                state = os.stat(path)
                stamps.append(f"{path[len(str(root)):]} {state.st_size} {state.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(stamps)).encode()).hexdigest()
