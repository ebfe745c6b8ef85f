"""Programs of steps that are alike: a long graph as a few short functions that are called in turn.

Along the cycles of a net the same operations come again and again, but neither in the order of the
joints nor with the same structure for all of one type, so they are no sweep that could be rolled.
Traced straight on, with a mark in the graph where a step begins (`Unrolled.mark`), they are a long
graph in pieces. Pieces with the same operations become one function of the values they read and of
the numbers they contain, and a table says which values and numbers each call has. Nothing else is
needed of a text: derivatives mark their own steps.

- Numbers that like steps do not share are opaque while they are traced (`open_numbers`): zeros are
  structure, others must not decide what folds.
- Steps are done where they are first needed, so that what one computes is still at hand in the next
  one, and neighbours that come again as neighbours become one step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from nlink.algorithms.catalogue import Algorithm, Options
from nlink.model.mechanism import Mechanism
from nlink.programs.program import Port
from nlink.programs.tracing import input_nodes, ports, run
from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Graph, Node, operation, uncollected
from nlink.scalars.traversal import evaluate, reachable
from nlink.scalars.tree import leaves, rebuild

STEP = 300
"""Operations of a step, at most, that is made of several."""
CODE, GROWTH = 3_000, 1.2
"""Operations of all functions together, up to which steps are joined that also stay alone; or how
many times those before."""


@dataclass(frozen=True, slots=True)
class StepValue:
    """An input of a step: value k of those that a call reads."""

    k: int


@dataclass(frozen=True, slots=True)
class StepNumber:
    """An input of a step: number k of a call."""

    k: int


@dataclass(frozen=True, slots=True)
class LikeStep:
    """Steps with the same operations: their results, which values and numbers they have in each
    call, and where the first of the results goes."""

    results: tuple[Node, ...]
    values: np.ndarray
    """(calls, values): places in memory."""
    numbers: np.ndarray
    """(calls, numbers)"""
    first: np.ndarray
    """(calls,): the place of the first result; the others are behind it."""

    def operations(self) -> int:
        """Of one call."""
        return sum(bool(node.args) for node in reachable(self.results))


@dataclass(frozen=True, slots=True)
class SteppedProgram:
    """Named arrays in, named arrays out, and calls of steps between.

    Memory holds the elements of the inputs, ports in order, then constants that are results, then
    what steps compute.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    kinds: tuple[LikeStep, ...]
    calls: np.ndarray
    """The kind of each call, in order; calls of one kind have its rows in turn."""
    constants: tuple[float, ...]
    results: tuple[int, ...]
    """The place of each element of the outputs."""
    size: int
    """Places in all."""

    def length(self) -> int:
        """Instructions, those of like steps once."""
        return sum(len(reachable(kind.results)) for kind in self.kinds)

    def operations(self) -> int:
        """How many operations are done, in all calls."""
        return sum(kind.operations() * len(kind.first) for kind in self.kinds)

    def __call__(self, *arrays: Sequence[Scalar]) -> list[list[Scalar]]:
        """Run on one flat sequence of scalars for each input port; see `evaluate`."""
        memory: list[Scalar] = [x for values in arrays for x in values]
        memory += self.constants
        memory += [0.0] * (self.size - len(memory))
        turns = [iter(zip(kind.values.tolist(), kind.numbers.tolist(), kind.first.tolist(),
                          strict=True)) for kind in self.kinds]
        for k in self.calls.tolist():
            places, numbers, first = next(turns[k])
            bindings: dict[Any, Scalar] = {StepValue(n): memory[p] for n, p in enumerate(places)}
            bindings |= {StepNumber(n): x for n, x in enumerate(numbers)}
            results = self.kinds[k].results
            memory[first:first + len(results)] = evaluate(results, bindings)
        flat = iter(self.results)
        return [[memory[next(flat)] for _ in range(port.size)] for port in self.outputs]


def open_numbers(graph: Graph, mechanism: Mechanism) -> Mechanism:
    """The mechanism with numbers that nothing folds, in place of those that joints of one type, or
    loops, do not share."""
    joints = _opened(graph, [joint.type for joint in mechanism.joints],
                     [replace(joint, type=None) for joint in mechanism.joints])
    closures = _opened(graph, [closure.constraint for closure in mechanism.closures],
                       [(c.a.R, c.a.p, c.b.R, c.b.p) for c in mechanism.closures])
    gears = _opened(graph, [len(gear.joints) for gear in mechanism.gears],
                    [(gear.ratios, gear.offset) for gear in mechanism.gears])
    return replace(
        mechanism,
        joints=tuple(replace(new, type=old.type)
                     for new, old in zip(joints, mechanism.joints, strict=True)),
        closures=tuple(replace(old, a=replace(old.a, R=new[0], p=new[1]),
                               b=replace(old.b, R=new[2], p=new[3]))
                       for new, old in zip(closures, mechanism.closures, strict=True)),
        gears=tuple(replace(old, ratios=new[0], offset=new[1])
                    for new, old in zip(gears, mechanism.gears, strict=True)))


def _opened(graph: Graph, kinds: Sequence[Any], things: Sequence[Any]) -> list[Any]:
    """Things whose kinds and zeros are equal share some of their numbers; the others are opened."""
    rows = [list(leaves(thing)) for thing in things]
    groups: dict[Any, list[int]] = {}
    for i, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
        groups.setdefault((kind, *(x == 0 for x in row)), []).append(i)
    result = list(things)
    for same in groups.values():
        differs = [len({rows[i][k] for i in same}) > 1 for k in range(len(rows[same[0]]))]
        for i in same:
            numbers = (graph.number(x) if differs[k] else x for k, x in enumerate(rows[i]))
            result[i] = rebuild(things[i], numbers)
    return result


@uncollected()
def trace_stepped(algorithm: Algorithm, mechanism: Mechanism, options: Options, *,
                  wrenches: bool = False, apart: bool = False, most: int | None = None,
                  ) -> SteppedProgram:
    """The program of an algorithm in steps, which may be kept `apart` (`Graph`); TooManyNodes if
    its graph has more than `most`."""
    graph = Graph(most, apart=apart)
    mechanism = open_numbers(graph, algorithm.prepare(mechanism))
    inputs, outputs = ports(algorithm, mechanism, wrenches=wrenches, frames=len(options.frames))
    results = [graph.lift(x) for x in run(
        algorithm, mechanism, options, input_nodes(graph, inputs))]
    return in_steps(algorithm.name, inputs, outputs, results)


def in_steps(name: str, inputs: Sequence[Port], outputs: Sequence[Port],
             results: Sequence[Node]) -> SteppedProgram:
    """The program of some nodes of a graph that has marks."""
    steps = _Steps(results)
    steps.arrange()
    steps.join()
    return steps.program(name, tuple(inputs), tuple(outputs))


NUMBER, VALUE = -1, -2
"""Arguments of an operation that is not of its step: a number, a value of another step."""
Operation = tuple[str, tuple[int, ...]]
"""An operation and its arguments: results of the step by number, or NUMBER or VALUE."""


@dataclass(slots=True)
class _Code:
    """What a step does, and the numbers and values that it takes, one for each argument."""

    operations: tuple[Operation, ...]
    numbers: list[float]
    values: list[int]
    """Nodes, by index."""
    place: dict[int, int]
    """The number of each node that the step computes."""


class _Steps:
    """The nodes that some results need, by steps."""

    def __init__(self, results: Sequence[Node]) -> None:
        self.results, self.live = results, reachable(results)
        marks = results[0].graph.marks if results else []
        self.steps: list[list[Node]] = []
        numbers = {}
        last = -1
        bounds = iter([*marks, math.inf])
        bound = next(bounds)
        for node in self.live:
            if node.index >= bound:
                while node.index >= bound:
                    bound = next(bounds)
                last = -1
            if node.op == "input" or node.offline:
                continue
            if last < 0:
                self.steps.append([])
                last = 0
            self.steps[-1].append(node)
            for a in node.args:
                if a.offline and not a.is_truth:
                    numbers[a.index] = a
        numbers |= {node.index: node for node in results if node.offline}
        offline = list(numbers.values())
        given = {node.name: node.value for node in reachable(offline) if node.op == "input"}
        self.number = dict(zip(numbers, evaluate(offline, given), strict=True))
        self.codes = [self._code(nodes) for nodes in self.steps]

    def _code(self, nodes: Sequence[Node]) -> _Code:
        operations: list[Operation] = []
        numbers: list[float] = []
        values: list[int] = []
        place: dict[int, int] = {}
        known = self.number

        def add(node: Node) -> None:
            args = []
            for a in node.args:
                at = place.get(a.index)
                if at is None and a.is_truth:  # truths are made again where they are read
                    add(a)
                    at = place[a.index]
                if at is None:
                    at = NUMBER if a.offline else VALUE
                args.append(at)
            if len(args) == 2 and operation(node.op).commutes:
                # numbers first, then values, whatever their age
                first, second = args
                swap = first < second if first < 0 and second < 0 else second < 0
                args = [second, first] if swap else args
                given = node.args[::-1] if swap else node.args
            else:
                given = node.args
            for at, a in zip(args, given, strict=True):
                if at == NUMBER:
                    numbers.append(known[a.index])
                elif at == VALUE:
                    values.append(a.index)
            place[node.index] = len(operations)
            operations.append((node.op, tuple(args)))

        for node in nodes:
            if not node.is_truth:
                add(node)
        return _Code(tuple(operations), numbers, values, place)

    def arrange(self) -> None:
        """Steps where they are first needed: depth first from those with results."""
        home = {node.index: k for k, nodes in enumerate(self.steps) for node in nodes}
        needs = [sorted({home[i] for i in code.values if i in home} - {k})
                 for k, code in enumerate(self.codes)]
        order: list[int] = []
        seen = [False] * len(self.steps)
        wanted = dict.fromkeys(home[node.index] for node in self.results if node.index in home)
        for step in sorted(wanted):
            stack = [(step, iter(needs[step]))]
            if seen[step]:
                continue
            seen[step] = True
            while stack:
                step, rest = stack[-1]
                for other in rest:
                    if not seen[other]:
                        seen[other] = True
                        stack.append((other, iter(needs[other])))
                        break
                else:
                    order.append(step)
                    stack.pop()
        self.steps = [self.steps[k] for k in order]
        self.codes = [self.codes[k] for k in order]

    def join(self) -> None:
        """Neighbours that come again as neighbours become one step, the most frequent ones first,
        as long as that makes neither a step nor the code of all of them too long."""
        kinds: dict[tuple[Operation, ...], int] = {}
        sequence = [kinds.setdefault(code.operations, len(kinds)) for code in self.codes]
        sizes = [len(operations) for operations in kinds]
        runs = [[k] for k in range(len(sequence))]
        most = max(CODE, int(GROWTH * sum(sizes)))
        while True:
            used = Counter(sequence)
            total = sum(sizes[k] for k in used)
            pairs = Counter(pairwise(sequence))
            best = max(((count, -a, -b) for (a, b), count in pairs.items()
                        if sizes[a] + sizes[b] <= STEP and self._pays(
                            a, b, count, used, sizes, most - total)), default=None)
            if best is None:
                break
            a, b = -best[1], -best[2]
            sizes.append(sizes[a] + sizes[b])
            joined: list[int] = []
            own: list[list[int]] = []
            k = 0
            while k < len(sequence):
                if k + 1 < len(sequence) and sequence[k] == a and sequence[k + 1] == b:
                    joined.append(len(sizes) - 1)
                    own.append(runs[k] + runs[k + 1])
                    k += 2
                else:
                    joined.append(sequence[k])
                    own.append(runs[k])
                    k += 1
            sequence, runs = joined, own
        steps = [[node for k in run for node in self.steps[k]] for run in runs]
        codes = [self.codes[run[0]] if len(run) == 1 else self._code(nodes)
                 for run, nodes in zip(runs, steps, strict=True)]
        self.steps, self.codes = steps, codes

    @staticmethod
    def _pays(a: int, b: int, count: int, used: Counter[int], sizes: Sequence[int],
              room: int) -> bool:
        """Whether two kinds are joined: what is left of them alone is code besides."""
        left = sum(sizes[k] for k in {a, b} if used[k] > count * (1 + (a == b)))
        return left <= room and (count > 1 or not left)

    def program(self, name: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...],
                ) -> SteppedProgram:
        """What is alike as functions, and where each call has its values."""
        kinds: dict[tuple[Operation, ...], list[int]] = {}
        for k, code in enumerate(self.codes):
            kinds.setdefault(code.operations, []).append(k)
        kind_of = {k: n for n, same in enumerate(kinds.values()) for k in same}
        home = {i: k for k, code in enumerate(self.codes) for i in code.place}
        read = {i for code in self.codes for i in code.values} | {
            node.index for node in self.results if not node.offline}
        # what somebody reads of a kind is kept by all of it
        kept: list[list[int]] = [[] for _ in kinds]
        own = [set[int]() for _ in kinds]
        for i in read:
            if i in home:
                k = home[i]
                own[kind_of[k]].add(self.codes[k].place[i])
        kept = [sorted(each) for each in own]
        # memory: inputs, constants, steps in order
        place: dict[int, int] = {}
        at = 0
        names = {f"{port.name}[{n}]": at + n for at, port in zip(
            accumulate((port.size for port in inputs), initial=0), inputs, strict=False)
            for n in range(port.size)}
        for node in self.live:
            if node.op == "input" and not node.offline:
                place[node.index] = names[node.name]
        at = sum(port.size for port in inputs)
        constants: dict[float, int] = {}
        for node in self.results:
            if node.offline:
                place[node.index] = at + constants.setdefault(
                    self.number[node.index], len(constants))
        at += len(constants)
        first = []
        for k, code in enumerate(self.codes):
            first.append(at)
            back = {number: i for i, number in code.place.items()}
            for n, number in enumerate(kept[kind_of[k]]):
                place[back[number]] = at + n
            at += len(kept[kind_of[k]])
        found = tuple(self._kind(operations, same, keeps, place, first)
                      for (operations, same), keeps in zip(kinds.items(), kept, strict=True))
        return SteppedProgram(
            name, inputs, outputs, found,
            np.array([kind_of[k] for k in range(len(self.codes))], dtype=np.int32),
            tuple(constants), tuple(place[node.index] for node in self.results), at)

    def _kind(self, operations: tuple[Operation, ...], same: Sequence[int], keeps: Sequence[int],
              place: dict[int, int], first: Sequence[int]) -> LikeStep:
        """Like steps as a function of as few values and numbers as all calls together need."""
        values = np.array([[place[i] for i in self.codes[k].values] for k in same],
                          dtype=np.int64).reshape(len(same), -1)
        numbers = np.array([self.codes[k].numbers for k in same],
                           dtype=float).reshape(len(same), -1)
        values, value_of = _distinct(values)
        numbers, number_of = _distinct(numbers)
        steady = (numbers == numbers[:1]).all(axis=0)
        graph = Graph()
        moving = np.cumsum(~steady) - 1
        number_nodes = [graph.const(float(x)) if fixed else graph.input(StepNumber(int(k)))
                        for x, fixed, k in zip(numbers[0], steady, moving, strict=True)]
        value_nodes = [graph.input(StepValue(k)) for k in range(values.shape[1])]
        nodes: list[Node] = []
        next_number, next_value = iter(number_of), iter(value_of)
        for op, args in operations:
            given = [number_nodes[next(next_number)] if a == NUMBER else
                     value_nodes[next(next_value)] if a == VALUE else nodes[a] for a in args]
            nodes.append(graph.apply(op, *given))
        return LikeStep(tuple(nodes[k] for k in keeps), values, numbers[:, ~steady],
                        np.array([first[k] for k in same], dtype=np.int64))


def _distinct(table: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """The columns of a table that differ, in order, and which one each was."""
    known: dict[bytes, int] = {}
    which, kept = [], []
    for k, column in enumerate(np.ascontiguousarray(table.T)):
        n = known.setdefault(column.tobytes(), len(kept))
        if n == len(kept):
            kept.append(k)
        which.append(n)
    return table[:, kept], which
