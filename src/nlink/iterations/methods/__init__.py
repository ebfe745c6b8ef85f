"""The methods of integration by name, each in a file of this folder that lists its `METHODS`.

A new method is a new file: Runge-Kutta methods are tableaux (`classical`), others write the
methods of `nlink.iterations.integration.Method` (`adams`, `semi_implicit`).
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from nlink.iterations.integration import Method

METHODS: dict[str, Method] = {
    method.name: method for found in iter_modules(__path__)
    for method in import_module(f"{__name__}.{found.name}").METHODS}
