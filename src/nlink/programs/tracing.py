"""Running an algorithm's text on graph nodes: the unrolled driver's programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from nlink.algorithms.catalogue import Algorithm, Options, Shape
from nlink.algorithms.matrices import dense
from nlink.algorithms.sweep import Pairs, PerJoint, Unrolled
from nlink.model.mechanism import Mechanism
from nlink.programs.program import Port, Program
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Graph, Node, uncollected
from nlink.scalars.tree import leaves

Blocks = tuple[tuple[int, ...], ...]
"""For each joint or link, elements of a port."""
WRENCHES = "f_ext"
"""The port that may be missing; of products with derivatives, all whose names end so."""


def _sizes(mechanism: Mechanism, shape: Shape, frames: int) -> tuple[int, ...]:
    """The sizes of a port of some shape."""
    known = {"nq": mechanism.nq, "n": mechanism.nv, "links": len(mechanism.links) - 1,
             "rows": mechanism.rows, "closures": len(mechanism.closures) + len(mechanism.gears),
             "task": 6 * frames,
             "frames": frames, "parameters": 10 * len(mechanism.joints)}
    return tuple(known[s] if isinstance(s, str) else s for s in shape)


def ports(algorithm: Algorithm, mechanism: Mechanism, *, wrenches: bool, frames: int = 1,
          ) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """The arrays an algorithm takes and gives for a mechanism; f_ext, and what belongs to it,
    only on request."""
    inputs, outputs = (tuple(Port(name, _sizes(mechanism, shape, frames)) for name, shape in each
                             if wrenches or WRENCHES not in name)
                       for each in (algorithm.inputs, algorithm.outputs))
    return inputs, outputs


def blocks(mechanism: Mechanism, shape: Shape, frames: int = 1) -> Blocks | None:
    """The elements that each joint or link has of a port of some shape: its block along the axis
    that is theirs. None if there is no such axis, or more than one."""
    axes = [axis for axis, size in enumerate(shape) if size in ("nq", "n", "links")]
    if len(axes) != 1:
        return None
    kind = shape[axes[0]]
    widths = ((1,) * (len(mechanism.links) - 1) if kind == "links" else tuple(
        joint.type.nq if kind == "nq" else joint.type.nv for joint in mechanism.joints))
    return _blocks(widths, _sizes(mechanism, shape, frames), axes[0])


@lru_cache(256)
def _blocks(widths: tuple[int, ...], shape: tuple[int, ...], axis: int) -> Blocks:
    elements = np.arange(math.prod(shape)).reshape(shape)
    return tuple(tuple(part.ravel().tolist())
                 for part in np.split(elements, np.cumsum(widths)[:-1], axis)) if widths else ()


def run(algorithm: Algorithm, mechanism: Mechanism, options: Options,
        values: Sequence[Scalars], driver: Unrolled | None = None) -> list[Scalar]:
    """The text on any scalar: flat inputs in port order (without f_ext if not given)."""
    results = run_text(algorithm, mechanism, options, values, driver)
    frames, flat = len(options.frames), []
    wrenches = len(values) == len(algorithm.inputs)
    for (name, shape), value in zip(algorithm.outputs, results, strict=True):
        elements = flat_output(mechanism, shape, frames, value)
        given = wrenches or WRENCHES not in name
        size = math.prod(_sizes(mechanism, shape, frames)) if given else 0
        if len(elements) != size:
            raise ValueError(f"{algorithm.name}: its text gives {len(elements)} numbers for the "
                             f"output {name}, expected {size}")
        flat += elements
    return flat


def run_text(algorithm: Algorithm, mechanism: Mechanism, options: Options,
             values: Sequence[Scalars], driver: Unrolled | None = None) -> Sequence[Any]:
    """The value of each output, in the form that the text gives it."""
    columns: list[Any] = []
    left, wrenches = iter(values), len(values) == len(algorithm.inputs)
    for name, shape in algorithm.inputs:
        flat = next(left) if wrenches or WRENCHES not in name else None
        own = blocks(mechanism, shape, len(options.frames))
        columns.append(flat if flat is None or own is None else
                       [tuple(flat[k] for k in block) for block in own])
    if driver is None:
        node = next((x for flat in values for x in flat if isinstance(x, Node)), None)
        driver = Unrolled(mechanism) if node is None else Unrolled(mechanism, node.graph.mark)
    result = algorithm.text(driver, options, *columns)
    return (result,) if len(algorithm.outputs) == 1 else result


def flat_output(mechanism: Mechanism, shape: Shape, frames: int, value: Any) -> list[Scalar]:
    """The elements of an output port: a matrix by columns, blocks of joints, or all in order."""
    if isinstance(value, Pairs):
        return [x for row in dense(Unrolled(mechanism), value) for x in row]
    if isinstance(value, PerJoint) and len(shape) > 1:
        return flat_input(mechanism, shape, frames, value)
    return list(leaves(value))


def flat_input(mechanism: Mechanism, shape: Shape, frames: int, column: Any) -> list[Scalar]:
    """The elements of an input port in order, from the column that a text is given."""
    own = blocks(mechanism, shape, frames) if len(shape) > 1 else None
    if own is None:
        return list(leaves(column))
    placed = [(k, x) for block, part in zip(own, column, strict=True)
              for k, x in zip(block, leaves(part), strict=True)]
    return [x for _, x in sorted(placed, key=lambda pair: pair[0])]


def input_nodes(graph: Graph, inputs: Sequence[Port]) -> list[list[Node]]:
    """The elements of some ports, as inputs of a graph."""
    return [[graph.input(f"{port.name}[{k}]") for k in range(port.size)] for port in inputs]


def trace_function(name: str, inputs: Sequence[Port], outputs: Sequence[Port],
                   function: Callable[..., Sequence[Any]]) -> Program:
    """The program of a function of one list of nodes for each input, which gives all elements
    of the outputs in order."""
    graph = Graph()
    values = function(*input_nodes(graph, inputs))
    return Program(name, tuple(inputs), tuple(outputs), tuple(graph.lift(x) for x in values))


@uncollected()
def trace(algorithm: Algorithm, mechanism: Mechanism, options: Options, *,
          wrenches: bool = False, most: int | None = None,
          lift: Callable[[Graph, Mechanism], Mechanism] | None = None) -> Program:
    """The program of an algorithm for a mechanism; TooManyNodes if it has more than `most`.

    `lift` may replace the mechanism's numbers by nodes (parameters) before the off-line
    preparation, which then happens on those.
    """
    graph = Graph(most)
    if lift is not None:
        mechanism = lift(graph, mechanism)
    mechanism = algorithm.prepare(mechanism)
    inputs, outputs = ports(algorithm, mechanism, wrenches=wrenches,
                            frames=len(options.frames))
    results: tuple[Node, ...] = tuple(
        graph.lift(x) for x in run(algorithm, mechanism, options, input_nodes(graph, inputs)))
    return Program(algorithm.name, inputs, outputs, results)
