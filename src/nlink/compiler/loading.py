"""From a recipe to a kernel: out of the cache, or traced and compiled."""

from __future__ import annotations

import functools
import hashlib
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import nlink
from nlink.compiler import cache, native
from nlink.compiler.host import host
from nlink.compiler.kernel import Compiled, Kernel

if TYPE_CHECKING:
    from nlink.scalars.program import Program
from nlink.scalars.rolled_program import RolledProgram

Loaded = TypeVar("Loaded")


def load_kernel(recipe: str, build: Callable[[], Program | RolledProgram]) -> Kernel:
    """The kernel a recipe stands for; `build` is called only if it is not in the cache."""

    def compile_now() -> Compiled:
        from nlink.compiler.translate import compile_program

        return compile_program(build())

    return load_compiled(recipe, compile_now, Kernel)


def load_compiled(recipe: str, compile_now: Callable[[], Compiled],
                  load: Callable[[Compiled], Loaded]) -> Loaded:
    """Object code from the cache or compiled now, loaded into the process.

    The recipe must say everything that decides the program, apart from nlink's own
    source, the versions of the tools and the host: those are added here.
    """
    key = "\n".join((recipe, source_digest(), host().identity, native.identity(),
                     f"native {native.supported()} pointer {struct.calcsize('P')}"))
    payload = cache.read(key)
    if payload is not None:
        try:
            return load(Compiled.from_bytes(payload))
        except (ValueError, KeyError, LookupError, RuntimeError, struct.error):
            pass  # signed, yet not to be understood: compile again
    compiled = compile_now()
    cache.write(key, compiled.to_bytes())
    return load(compiled)


def recall(question: str, answer: Callable[[], str]) -> str:
    """A short answer that was costly to find: out of the cache, or found now and kept."""
    key = f"{question}\n{source_digest()}"
    known = cache.read(key)
    if known is not None:
        return known.decode()
    found = answer()
    cache.write(key, found.encode())
    return found


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
