"""Traced algorithms: what the engines run and the compiler translates.

A `Program` is one expression graph between named arrays (the unrolled driver made it); see
`rolled_program` for what the rolled driver makes. Both know nothing of mechanics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Node
from nlink.scalars.traversal import evaluate, reachable


@dataclass(frozen=True, slots=True)
class Port:
    """A named array that enters or leaves a program."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def stride(self, axis: int) -> int:
        """How many elements apart neighbours along an axis are."""
        return math.prod(self.shape[axis + 1:])


@dataclass(frozen=True, slots=True)
class Program:
    """Named arrays in, named arrays out, a graph between.

    Element k of port "q" (row-major) is the input node named "q[k]"; `results` are the
    nodes of all output elements, ports in order, row-major within a port.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    results: tuple[Node, ...]

    def live(self) -> list[Node]:
        """The nodes the results need, in topological order: dead code is not among them."""
        return reachable(self.results)

    def operations(self) -> int:
        """The number of operations."""
        return sum(bool(node.args) for node in self.live())

    def __call__(self, *arrays: Sequence[Scalar]) -> list[list[Scalar]]:
        """Run on one flat sequence of scalars for each input port; see `evaluate`."""
        bindings = {f"{port.name}[{k}]": x
                    for port, values in zip(self.inputs, arrays, strict=True)
                    for k, x in enumerate(values)}
        flat = iter(evaluate(self.results, bindings))
        return [[next(flat) for _ in range(port.size)] for port in self.outputs]
