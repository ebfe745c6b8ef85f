"""From a recipe to a kernel: out of the cache, or traced and compiled."""

from __future__ import annotations

import functools
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import nlink
from nlink.compiler import cache, native
from nlink.compiler.host import host
from nlink.compiler.kernel import Compiled, Kernel

if TYPE_CHECKING:
    from nlink.scalars.program import LoopProgram, Program


def load_kernel(recipe: str, build: Callable[[], Program | LoopProgram]) -> Kernel:
    """The kernel a recipe stands for; `build` is called only if it is not in the cache.

    The recipe must say everything that decides the program, apart from nlink's own
    source, the versions of the tools and the host: those are added here.
    """
    key = "\n".join((recipe, source_digest(), host().identity, native.identity(),
                     f"native {native.supported()} pointer {struct.calcsize('P')}"))
    payload = cache.read(key)
    if payload is not None:
        try:
            return Kernel(Compiled.from_bytes(payload))
        except (ValueError, KeyError, LookupError, RuntimeError, struct.error):
            pass  # signed, yet not to be understood: compile again
    from nlink.compiler.translate import compile_program

    compiled = compile_program(build())
    cache.write(key, compiled.to_bytes())
    return Kernel(compiled)


@functools.cache
def source_digest() -> str:
    """A digest of nlink's own text: other code may generate other kernels."""
    root = Path(nlink.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        text = path.read_bytes()
        digest.update(json.dumps([str(path.relative_to(root)), len(text)]).encode() + text)
    return digest.hexdigest()
