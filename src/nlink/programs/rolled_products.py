"""Derivatives of rolled programs, as rolled programs: O(n) for chains and trees of any length.

Forward, each step also keeps, passes and writes the rates of what it keeps, passes and writes:
the sweeps stay, their slots double (those that do not vary aside).

Reverse, the sweeps are run once for their values, and then again from the last to the first, each
the other way round. What a step read, its adjoint step adds to. A value that an outward step read
of its parent is a sum over children in the adjoint sweep, which goes inward; a sum over children
that an inward step read is a value of the parent in the adjoint sweep, which goes outward:

    outward  x_i = f(x_parent, y_i):  x*_i += sum over children of (df/dx_parent)^T x*_child,
    inward   s_i = sum of p_child, p_i = f(s_i, y_i):  p*_i = s*_parent,  s*_i = (df/ds)^T p*_i.

Adjoint steps compute the inner values of their steps again from what is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nlink.model.mechanism import Mechanism
from nlink.model.spaces import Space
from nlink.programs.program import Port
from nlink.programs.rolled_columns import NotRolled
from nlink.programs.rolled_program import (
    At,
    Cell,
    ChildSum,
    Domain,
    Element,
    Kept,
    OfParent,
    Parameter,
    Reference,
    RolledProgram,
    Slice,
    Sweep,
    SweepOrder,
    SweepStep,
    Total,
    Write,
)
from nlink.scalars.differentiation import pullback, pushforward
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import reachable, substitute

Value = tuple[str, int, int]
"""What a sweep keeps or passes: which of both, the number of the sweep, the place."""


@dataclass(frozen=True)
class Renamed:
    """The ports of a product: those of the function and what they are called beside it."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    moving: Mapping[str, str]
    """The port of the rates or of the gradient, for each argument."""
    results: Mapping[str, str]
    """The port of the rates or of the weights, for each result."""


def forward(program: RolledProgram, mechanism: Mechanism, names: Renamed) -> RolledProgram:
    """The rolled program of the rates of results."""
    _expect_sweeps(program, (SweepOrder.OUTWARD, SweepOrder.INWARD, SweepOrder.LINKS,
                             SweepOrder.WHOLE))
    spaces = _spaces(program, mechanism)
    varying: set[Value] = set()
    while True:  # what varies, found sweep by sweep until no more does
        steps = [[_rates(program, number, step, space, names, varying) for step, space in zip(
            sweep.steps, spaces if sweep.order.over == "joints" else [None] * len(sweep.steps),
            strict=True)] for number, sweep in enumerate(program.sweeps)]
        found = {(what, number, k) for number, kinds in enumerate(steps) for rates in kinds
                 for what in ("keeps", "passes") for k, x in enumerate(rates[what])
                 if not _is_zero(x)}
        if found <= varying:
            break
        varying |= found
    sweeps = []
    for number, (sweep, kinds) in enumerate(zip(program.sweeps, steps, strict=True)):
        own = [_widened(program, number, step, rates, names, varying)
               for step, rates in zip(sweep.steps, kinds, strict=True)]
        size = len(own[0].keeps)
        sweeps.append(replace(sweep, steps=tuple(own), base=sweep.base and (
            *sweep.base, *(0.0,) * (size - len(sweep.base)))))
    return _finished(program, mechanism, names, sweeps)


def reverse(program: RolledProgram, mechanism: Mechanism, names: Renamed) -> RolledProgram:
    """The rolled program of the gradients of weighted results."""
    _expect_sweeps(program, (SweepOrder.OUTWARD, SweepOrder.INWARD))
    sweeps = [_with_sums(program, number) for number in range(len(program.sweeps))]
    spaces, added = _spaces(program, mechanism), dict[Reference, list[Kept]]()
    bars: list[dict[Reference, Node]] = [{} for _ in spaces]
    for number in reversed(range(len(program.sweeps))):
        adjoint = len(sweeps)
        sweep, bars = _adjoint(program, number, adjoint, names, added)
        for k, reference in enumerate(dict.fromkeys(x for bar in bars for x in bar)):
            if isinstance(reference, Kept | Element):
                added.setdefault(reference, []).append(Kept(adjoint, k))
        sweeps.append(sweep)
    last = sweeps.pop()
    steps = [replace(step, writes=_gradients(
        step.keeps, len(sweeps), space, names, added, bar)) for step, space, bar in zip(
            last.steps, spaces, bars, strict=True)]
    return _finished(program, mechanism, names, [*sweeps, replace(last, steps=tuple(steps))])


def _expect_sweeps(program: RolledProgram, orders: Sequence[SweepOrder]) -> None:
    for sweep in program.sweeps:
        if sweep.order not in orders:
            raise NotRolled(f"differentiates a sweep of order {sweep.order.name}")


def _spaces(program: RolledProgram, mechanism: Mechanism) -> list[Space]:
    """The space of each kind of joint."""
    kinds = program.joints.kind
    return [mechanism.joints[kinds.index(kind)].type.space for kind in range(max(kinds) + 1)]


def _value(program: RolledProgram, number: int, name: Reference) -> Value | None:
    """The value that a step of a sweep reads by a reference."""
    match name:
        case ChildSum(k):
            return "passes", number, k
        case Total(sweep, k):
            return "passes", sweep, k
        case Kept(sweep, k) | OfParent(sweep, k) | At(sweep, k, _) | Cell(sweep, k):
            summed = program.sweeps[sweep].order is SweepOrder.LINKS
            return "passes" if summed else "keeps", sweep, k
    return None


def _width(program: RolledProgram, what: str, number: int) -> int:
    return max(len(getattr(step, what)) for step in program.sweeps[number].steps)


def _inputs(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in reachable(nodes) if node.op == "input"]


def _results(step: SweepStep) -> list[Node]:
    return [*step.keeps, *step.passes, *(write.value for write in step.writes)]


def _rates(program: RolledProgram, number: int, step: SweepStep, space: Space | None,
           names: Renamed, varying: set[Value]) -> dict[str, list[Node]]:
    """The rates of what a step keeps, passes and writes."""
    nodes = _results(step)
    if not nodes:
        return {"keeps": [], "passes": [], "writes": []}
    graph = nodes[0].graph
    tangents = {node: rate for node in _inputs(nodes)
                if (rate := _rate(program, number, node, space, names, varying)) is not None}
    flat = iter(pushforward(nodes, tangents) if tangents else [graph.const(0)] * len(nodes))
    return {what: [next(flat) for _ in getattr(step, what)]
            for what in ("keeps", "passes", "writes")}


def _rate(program: RolledProgram, number: int, node: Node, space: Space | None, names: Renamed,
          varying: set[Value]) -> Node | None:
    """The rate of an input of a step, None if it does not vary."""
    graph, name = node.graph, node.name
    if isinstance(name, Element):
        port = names.moving.get(name.slice.port)
        if port is None:
            return None
        slice = Slice(port, name.slice.axis)
        if name.slice.port != "q":
            return graph.input(Element(slice, name.k))
        assert space is not None  # only joints have coordinates
        q = [graph.input(Element(name.slice, k)) for k in range(space.nq)]
        v = [graph.input(Element(slice, k)) for k in range(space.nv)]
        return graph.lift(space.tangent(q, v)[name.k])
    value = _value(program, number, name)
    if value is None or value not in varying:
        return None
    return graph.input(replace(name, k=_place(program, value, varying)))


def _place(program: RolledProgram, value: Value, varying: set[Value]) -> int:
    """Where the rate of a value is kept or passed: behind all values."""
    what, number, k = value
    before = sum(1 for w, n, j in varying if (w, n) == (what, number) and j < k)
    return _width(program, what, number) + before


def _widened(program: RolledProgram, number: int, step: SweepStep, rates: dict[str, list[Node]],
             names: Renamed, varying: set[Value]) -> SweepStep:
    """A step with the rates behind its values, writing rates only."""
    found = {}
    for what in ("keeps", "passes"):
        own, change = list(getattr(step, what)), rates[what]
        moving = sorted(k for w, n, k in varying if (w, n) == (what, number))
        if moving:
            nothing = _graph(step).const(0)
            own += [nothing] * (_width(program, what, number) - len(own))
            own += [change[k] if k < len(change) else nothing for k in moving]
        found[what] = tuple(own)
    writes = tuple(Write(replace(write.slice, port=names.results[write.slice.port]), write.k, rate)
                   for write, rate in zip(step.writes, rates["writes"], strict=True))
    return SweepStep(**found, writes=writes)


def _graph(step: SweepStep) -> Graph:
    nodes = _results(step)
    return nodes[0].graph if nodes else Graph()


def _with_sums(program: RolledProgram, number: int) -> Sweep:
    """A sweep for its values: nothing written, sums over children kept behind all else."""
    sweep, sums = program.sweeps[number], _read(program, number, ChildSum)
    width = _width(program, "keeps", number)
    steps = []
    for step in sweep.steps:
        graph = _graph(step)
        own = (*step.keeps, *(graph.const(0) for _ in range(width - len(step.keeps))))
        steps.append(SweepStep((*own, *(graph.input(ChildSum(k)) for k in sums)), step.passes))
    return replace(sweep, steps=tuple(steps))


def _read(program: RolledProgram, number: int, kind: type[ChildSum] | type[OfParent]) -> list[int]:
    """The sums, or values of the parent, that some step of a sweep reads."""
    names = {node.name for step in program.sweeps[number].steps
             for node in _inputs(_results(step))}
    if any(isinstance(name, OfParent) and name.sweep != number for name in names) or any(
            isinstance(name, At | Cell | Total) for name in names):
        raise NotRolled("reads what another sweep found elsewhere")
    return sorted(name.k for name in names if isinstance(name, kind))


def _adjoint(program: RolledProgram, number: int, adjoint: int, names: Renamed,
             added: dict[Reference, list[Kept]]) -> tuple[Sweep, list[dict[Reference, Node]]]:
    """The adjoint of a sweep, and by kind what its steps add to what was read."""
    sweep = program.sweeps[number]
    sums, parents = (_read(program, number, kind) for kind in (ChildSum, OfParent))
    # slots that children or parents read must be known before; those of sums come first
    first: list[Reference] = [ChildSum(k) for k in sums]
    bars, passed = [], []
    for step in sweep.steps:
        graph = _graph(step)
        weights = [_sum(graph, [*added.get(Kept(number, k), ()), *(
            [ChildSum(parents.index(k))] if k in parents else [])]) for k in range(len(step.keeps))]
        weights += [graph.input(OfParent(adjoint, sums.index(k))) if k in sums else graph.const(0)
                    for k in range(len(step.passes))]
        weights += [graph.input(Element(replace(
            write.slice, port=names.results[write.slice.port]), write.k)) for write in step.writes]
        sources = [node for node in _inputs(_results(step)) if not isinstance(
            node.name, Parameter) and not (isinstance(node.name, Element)
                                           and node.name.slice.port not in names.moving)]
        found = pullback(_results(step), weights, sources) if sources else []
        width = _width(program, "keeps", number)
        kept = {graph.input(ChildSum(k)).index: graph.input(Kept(number, width + j))
                for j, k in enumerate(sums)}
        found = substitute(found, graph, kept) if kept and found else found
        bar: dict[Reference, Node] = dict.fromkeys(first, graph.const(0))
        bar |= {x.name: value for x, value in zip(sources, found, strict=True)
                if not _is_zero(value) or isinstance(x.name, ChildSum)}
        passed.append([bar.pop(OfParent(number, k), graph.const(0)) for k in parents])
        bars.append(bar)
    slots = list(dict.fromkeys(x for bar in bars for x in bar))
    steps = tuple(SweepStep(tuple(bar.get(x, _graph(step).const(0)) for x in slots), tuple(up))
                  for step, bar, up in zip(sweep.steps, bars, passed, strict=True))
    order = SweepOrder.INWARD if sweep.order is SweepOrder.OUTWARD else SweepOrder.OUTWARD
    return Sweep(order, steps, (0.0,) * len(sums)), bars


def _gradients(keeps: Sequence[Node], number: int, space: Space, names: Renamed,
               added: dict[Reference, list[Kept]], bar: dict[Reference, Node],
               ) -> tuple[Write, ...]:
    """The outputs of the last adjoint step of a kind: for each argument the sum of all parts."""
    graph, writes = keeps[0].graph if keeps else Graph(), []
    for port, gradient in names.moving.items():
        width = space.nq if port == "q" else space.nv
        parts = []
        for k in range(width):
            element = Element(Slice(port, 0), k)
            # what this sweep keeps itself is at hand
            total = _sum(graph, [x for x in added.get(element, ()) if x.sweep != number])
            parts.append(total + bar[element] if element in bar else total)
        if port == "q":
            q = [graph.input(Element(Slice(port, 0), k)) for k in range(width)]
            v = [graph.input(("rate", k)) for k in range(space.nv)]
            parts = pullback([graph.lift(x) for x in space.tangent(q, v)], parts, v)
        writes += [Write(Slice(gradient, 0), k, x) for k, x in enumerate(parts)]
    return tuple(writes)


def _sum(graph: Graph, names: Iterable[Reference]) -> Node:
    total = graph.const(0)
    for name in names:
        total = total + graph.input(name)
    return total


def _is_zero(node: Node) -> bool:
    return node.op == "const" and node.value == 0


def _finished(program: RolledProgram, mechanism: Mechanism, names: Renamed,
              sweeps: Sequence[Sweep]) -> RolledProgram:
    """The program of some sweeps, its new ports in the tables, and what nobody reads left out."""
    rates, at = [], 0
    for joint in mechanism.joints:
        rates.append(at)
        at += joint.type.nv
    ports = {port.name for port in (*names.inputs, *names.outputs)}

    def starts(domain: Domain) -> Domain:
        known = dict(domain.starts)
        for one, other in (*names.moving.items(), *names.results.items()):
            for slice, first in domain.starts.items():
                if slice.port == one:
                    known[replace(slice, port=other)] = (
                        tuple(rates) if one == "q" and one in names.moving else first)
        return replace(domain, starts={slice: first for slice, first in known.items()
                                       if slice.port in ports})

    whole = replace(program, inputs=names.inputs, outputs=names.outputs,
                    sweeps=tuple(sweeps), joints=starts(program.joints),
                    links=starts(program.links))
    return _pruned(whole)


def _pruned(program: RolledProgram) -> RolledProgram:
    """The same program, zero in place of what is kept or passed for nobody."""
    needed: set[Value] = set()
    while True:
        found = {value for number, sweep in enumerate(program.sweeps) for step in sweep.steps
                 for node in _inputs([
                     *(x for what in ("keeps", "passes") for k, x in enumerate(getattr(step, what))
                       if (what, number, k) in needed), *(write.value for write in step.writes)])
                 if (value := _value(program, number, node.name)) is not None}
        if found <= needed:
            break
        needed |= found
    return replace(program, sweeps=tuple(
        replace(sweep, steps=tuple(replace(step, **{
            what: tuple(x if (what, number, k) in needed else x.graph.const(0)
                        for k, x in enumerate(getattr(step, what)))
            for what in ("keeps", "passes")}) for step in sweep.steps))
        for number, sweep in enumerate(program.sweeps)))
