"""From a recipe to a kernel: out of the cache, or traced and compiled."""

from __future__ import annotations

import functools
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import nlink
from nlink.compiler import cache, native
from nlink.compiler.host import host
from nlink.compiler.kernel import Compiled, Kernel

if TYPE_CHECKING:
    from nlink.scalars.program import LoopProgram, Program

Loaded = TypeVar("Loaded")


def load_kernel(recipe: str, build: Callable[[], Program | LoopProgram]) -> Kernel:
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


@functools.cache
def source_digest() -> str:
    """A digest of nlink's own text: other code may generate other kernels."""
    root = Path(nlink.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        text = path.read_bytes()
        digest.update(json.dumps([str(path.relative_to(root)), len(text)]).encode() + text)
    return digest.hexdigest()
