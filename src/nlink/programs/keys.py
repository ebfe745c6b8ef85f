"""Keys of kernels: digests of the programs they are compiled from.

A key is made of what is compiled, all of it and nothing else, so two kernels have one key
only if they are the same. Whatever decided the program (a mechanism, a joint type's methods,
a controller) has left its mark there, and need not be known here.

>>> from nlink.scalars.graph import Graph
>>> def square(name):
...     x = Graph().input(name)
...     return x * x
>>> key(square("x")) == key(square("x")), key(square("x")) == key(square("y"))
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from typing import Any

import numpy as np

from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import reachable

PLAIN = (bool, int, float, str, bytes, type(None))


def key(*parts: Any) -> str:
    """A digest of programs, and of names, numbers and arrays, in any nesting.

    Objects of nlink's own classes are taken by their fields, or by their names if they are
    enumerated. Any other raises TypeError: it may have methods that a digest would not see.
    """
    items = list(_flat(parts))
    results: dict[Graph, list[Node]] = {}
    for x in items:
        if isinstance(x, Node):
            results.setdefault(x.graph, []).append(x)
    lines: list[str] = []
    numbers: dict[int, int] = {}  # by identity
    for nodes in results.values():
        for node in reachable(nodes):
            numbers[id(node)] = len(numbers)
            lines.append(f"const {node.value!r}" if node.op == "const" else
                         f"input {_name(node.name)}" if node.op == "input" else
                         f"{node.op} {[numbers[id(a)] for a in node.args]}")
    lines += [f"%{numbers[id(x)]}" if isinstance(x, Node) else x for x in items]
    return sha256("\n".join(lines).encode()).hexdigest()


def _name(name: Any) -> list[str | Node]:
    return [repr(name)] if type(name) is str else [*_flat(name)]


def _flat(x: Any) -> Iterator[str | Node]:
    """The leaves of a part, with marks where it is nested."""
    if isinstance(x, Node):
        yield x
    elif type(x) in PLAIN:
        yield repr(x)
    elif isinstance(x, np.generic):
        yield from _flat(x.item())
    elif isinstance(x, np.ndarray) and x.dtype.hasobject is False:
        yield f"{x.dtype.str} {x.shape} {sha256(x.tobytes()).hexdigest()}"
    elif isinstance(x, tuple | list):
        yield f"[{len(x)}"
        if all(type(y) in PLAIN for y in x):  # the same, faster
            yield "\n".join(map(repr, x))
        else:
            for y in x:
                yield from _flat(y)
    elif isinstance(x, dict):
        yield "{"
        yield from _flat([*x.items()])
    else:
        own = type(x).__module__.partition(".")[0] == "nlink"
        if own and isinstance(x, Enum):
            yield f"{type(x).__qualname__}.{x.name}"
        elif own and is_dataclass(x):
            yield type(x).__qualname__
            for field in fields(x):
                yield from _flat(getattr(x, field.name))
        else:
            raise TypeError(f"a part of a key is a {type(x).__name__}, expected programs, names, "
                            "numbers and arrays")
