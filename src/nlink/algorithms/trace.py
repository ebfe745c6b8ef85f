"""Running an algorithm's text on graph nodes: the unrolled driver's programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nlink.algorithms.catalogue import Algorithm, Options
from nlink.algorithms.sweep import Unrolled
from nlink.model.mechanism import Mechanism
from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Graph, Node
from nlink.scalars.program import Port, Program
from nlink.scalars.tree import leaves
from nlink.spatial import Vector, Wrench


def ports(algorithm: Algorithm, mechanism: Mechanism, *, wrenches: bool,
          ) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """The arrays an algorithm takes and gives for a mechanism; f_ext only on request."""
    sizes = {"nq": mechanism.nq, "n": mechanism.nv, "links": len(mechanism.links) - 1,
             "rows": mechanism.rows, "closures": len(mechanism.closures)}

    def port(name: str, shape: tuple[str | int, ...]) -> Port:
        return Port(name, tuple(sizes[s] if isinstance(s, str) else s for s in shape))

    inputs = (port(*spec) for spec in algorithm.inputs if wrenches or spec[0] != "f_ext")
    return tuple(inputs), tuple(port(*spec) for spec in algorithm.outputs)


def run(algorithm: Algorithm, mechanism: Mechanism, options: Options,
        values: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    """The text on any scalar: flat inputs in port order (without f_ext if not given)."""
    columns: list[Any] = []
    for (name, _), flat in zip(algorithm.inputs, (*values, None), strict=False):
        if name == "f_ext":
            columns.append(None if flat is None else _wrenches(flat))
        else:
            columns.append(mechanism.split(flat, "nq" if name == "q" else "nv"))
    return list(leaves(algorithm.text(Unrolled(mechanism), options, *columns)))


def trace(algorithm: Algorithm, mechanism: Mechanism, options: Options, *,
          wrenches: bool = False,
          lift: Callable[[Graph, Mechanism], Mechanism] | None = None) -> Program:
    """The program of an algorithm for a mechanism.

    `lift` may replace the mechanism's numbers by nodes (parameters) before the off-line
    preparation, which then happens on those.
    """
    graph = Graph()
    if lift is not None:
        mechanism = lift(graph, mechanism)
    mechanism = algorithm.prepare(mechanism)
    inputs, outputs = ports(algorithm, mechanism, wrenches=wrenches)
    values = [[graph.input(f"{port.name}[{k}]") for k in range(port.size)] for port in inputs]
    results: tuple[Node, ...] = tuple(
        graph.lift(x) for x in run(algorithm, mechanism, options, values))
    return Program(algorithm.name, inputs, outputs, results)


def _wrenches(flat: Sequence[Scalar]) -> tuple[Wrench, ...]:
    return tuple(Wrench(Vector(*flat[k:k + 3]), Vector(*flat[k + 3:k + 6]))
                 for k in range(0, len(flat), 6))
