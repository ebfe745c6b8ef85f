"""Programs in two stages: a graph, and steps that are done again for many rows of its values.

Code of O(n^3) operations is too long to be straight-line for a humanoid, and it is not a sweep
along the tree that could be rolled. But most of it is the same few hundred operations for one
column of a matrix after the other (`Unrolled.repeat`). So such a step is traced once, in a graph of
its own, and called with each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nlink.algorithms.catalogue import Algorithm, Options
from nlink.algorithms.sweep import Unrolled
from nlink.model.mechanism import Mechanism
from nlink.programs.program import Port, Program
from nlink.programs.tracing import input_nodes, ports, run
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Graph, Node, uncollected
from nlink.scalars.traversal import evaluate, reachable
from nlink.scalars.tree import leaves, rebuild


@dataclass(frozen=True, slots=True)
class SharedValue:
    """An input of a repeated step: element k of what all repetitions share."""

    k: int


@dataclass(frozen=True, slots=True)
class RowValue:
    """An input of a repeated step: element k of the row it is done for."""

    k: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """A result of a repeated step, as an input of the first stage's graph."""

    step: int
    row: int
    k: int


@dataclass(frozen=True, slots=True)
class RepeatedStep:
    """A step, in a graph of its own, and the values of the first stage that it is done with."""

    results: tuple[Node, ...]
    shared: dict[int, Node]
    """By number (`SharedValue`), those that it reads."""
    rows: tuple[dict[int, Node], ...]
    """For each repetition by number (`RowValue`), those that it reads."""

    def operations(self) -> int:
        """Of one repetition."""
        return sum(bool(node.args) for node in reachable(self.results))


@dataclass(frozen=True, slots=True)
class StagedProgram:
    """Named arrays in, named arrays out: `results` are nodes of the first stage, or inputs of its
    graph that are `StepResult`s."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    results: tuple[Node, ...]
    steps: tuple[RepeatedStep, ...]

    @property
    def first_stage(self) -> tuple[Node, ...]:
        """The results of the first stage: shared values and rows of each step, then results that no
        step gives."""
        return (*(x for step in self.steps for values in (step.shared, *step.rows)
                  for x in values.values()),
                *(x for x in self.results if not isinstance(x.name, StepResult)))

    def length(self) -> int:
        """Instructions, those of repeated steps once."""
        return (len(reachable(self.first_stage))
                + sum(len(reachable(step.results)) for step in self.steps))

    def operations(self) -> int:
        """The number of operations, in all repetitions."""
        return (sum(bool(node.args) for node in reachable(self.first_stage))
                + sum(step.operations() * len(step.rows) for step in self.steps))

    def __call__(self, *arrays: Sequence[Scalar]) -> list[list[Scalar]]:
        """Run on one flat sequence of scalars for each input port; see `evaluate`."""
        bindings = {f"{port.name}[{k}]": x
                    for port, values in zip(self.inputs, arrays, strict=True)
                    for k, x in enumerate(values)}
        first = iter(evaluate(self.first_stage, bindings))
        found: dict[StepResult, Scalar] = {}
        for number, step in enumerate(self.steps):
            shared = {SharedValue(k): next(first) for k in step.shared}
            for r, row in enumerate(step.rows):
                own = {RowValue(k): next(first) for k in row}
                for k, x in enumerate(evaluate(step.results, shared | own)):
                    found[StepResult(number, r, k)] = x
        flat = [found[x.name] if isinstance(x.name, StepResult) else next(first)
                for x in self.results]
        at = iter(flat)
        return [[next(at) for _ in range(port.size)] for port in self.outputs]


class Repeating(Unrolled):
    """The unrolled driver, with the steps of `repeat` traced once."""

    def __init__(self, mechanism: Mechanism, graph: Graph) -> None:
        super().__init__(mechanism)
        self.graph = graph
        self.steps: list[RepeatedStep] = []

    def repeat(self, step: Callable[..., Scalars], shared: Any, rows: Sequence[Scalars],
               ) -> list[list[Scalar]]:
        own, rows = Graph(), [[self.graph.lift(x) for x in row] for row in rows]
        values = [self.graph.lift(x) for x in leaves(shared)]
        # numbers stay numbers: zeros are structure
        inside = [own.const(x.value) if x.op == "const" else own.input(SharedValue(k))
                  for k, x in enumerate(values)]
        row = [own.const(each[0].value) if len({x.index for x in each}) == 1
               and each[0].op == "const" else own.input(RowValue(k))
               for k, each in enumerate(zip(*rows, strict=True))]
        results = [own.lift(x) for x in step(rebuild(shared, iter(inside)), row)]
        used = {x.name for x in reachable(results)}
        number = len(self.steps)
        self.steps.append(RepeatedStep(
            tuple(results), {k: x for k, x in enumerate(values) if SharedValue(k) in used},
            tuple({k: x for k, x in enumerate(each) if RowValue(k) in used} for each in rows)))
        return [[x.value if x.op == "const" else self.graph.input(StepResult(number, r, k))
                 for k, x in enumerate(results)] for r in range(len(rows))]


@uncollected()
def trace_staged(algorithm: Algorithm, mechanism: Mechanism, options: Options, *,
                 wrenches: bool = False, most: int | None = None) -> StagedProgram | Program:
    """The program of an algorithm that repeats steps, the straight-line one if it repeats none;
    TooManyNodes if its first stage has more than `most`."""
    graph, mechanism = Graph(most), algorithm.prepare(mechanism)
    inputs, outputs = ports(algorithm, mechanism, wrenches=wrenches, frames=len(options.frames))
    driver = Repeating(mechanism, graph)
    results = tuple(graph.lift(x) for x in run(
        algorithm, mechanism, options, input_nodes(graph, inputs), driver))
    if not driver.steps:
        return Program(algorithm.name, inputs, outputs, results)
    program = StagedProgram(algorithm.name, inputs, outputs, results, tuple(driver.steps))
    for node in reachable(program.first_stage):
        if isinstance(node.name, StepResult):
            raise ValueError(f"{algorithm.name}: computes with results of a repeated step, "
                             "expected to give them as they are")
    return program
