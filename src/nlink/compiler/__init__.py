"""The compiler: expression graphs to machine code or C. It knows no mechanics.

Importing this package imports neither llvmlite nor any module that needs it; the names
below are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlink.compiler.c import export_c
    from nlink.compiler.calling import call
    from nlink.compiler.kernel import Kernel
    from nlink.compiler.loading import load_kernel
    from nlink.compiler.peak import fma_peak
    from nlink.compiler.translate import compile_program

__all__ = ["Kernel", "call", "compile_program", "export_c", "fma_peak", "load_kernel"]

_HOME = {"Kernel": "kernel", "call": "calling", "compile_program": "translate",
         "export_c": "c", "fma_peak": "peak", "load_kernel": "loading"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
