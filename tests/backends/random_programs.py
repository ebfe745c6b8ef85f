"""Random programs for the tests of the compiler: every operation, every shape of sharing."""

from __future__ import annotations

import random

import numpy as np

import nlink
from nlink.programs.program import Port, Program
from nlink.programs.rolled_program import (
    At,
    ChildSum,
    Domain,
    Element,
    Kept,
    OfParent,
    Parameter,
    RolledProgram,
    Slice,
    Sweep,
    SweepOrder,
    SweepStep,
    Total,
    Write,
)
from nlink.scalars.graph import Graph, Node


def random_nodes(rng: random.Random, graph: Graph, leaves: list[Node], size: int) -> list[Node]:
    """Leaves and `size` more expressions of them, all of moderate value."""
    nodes = list(leaves)
    for _ in range(size):
        a, b, c = (rng.choice(nodes[-25:] if rng.random() < 0.7 else nodes) for _ in range(3))
        kind = rng.randrange(16)
        if kind < 3:
            value = a * b * 0.5 + c
        elif kind < 5:
            value = c - a * b * 0.5
        elif kind < 6:
            value = -(a * 0.25) - b
        elif kind < 7:
            value = (a - b) * rng.uniform(-1, 1)
        elif kind < 8:
            divisor = b * b + 1
            value = a / divisor - c / divisor
        elif kind < 9:
            value = (a * a + 0.5).sqrt()
        elif kind < 10:
            value = a.sign() * b
        elif kind < 12:
            value = a.sin() if kind == 10 else a.cos()
        elif kind < 13:
            value = nlink.clip(a, -1.0, b)
        elif kind < 14:
            value = nlink.where((a < b) & ~(c <= 0.5) | (b < c), c * 0.5, abs(a))
        elif kind < 15:
            value = nlink.exp(-abs(a)) - nlink.tanh(b)
        else:
            value = nlink.atan2(a, b) * nlink.pow(abs(c), 0.5)
        nodes.append(value if rng.random() < 0.5 else value.sin())
    return nodes


def random_program(seed: int, size: int = 60, shapes: tuple = ((3,), (4,), (2, 3)),
                   outs: tuple = ((3,), (2, 2))) -> Program:
    """A straight-line program with the given port shapes."""
    rng, graph = random.Random(seed), Graph()
    inputs = tuple(Port(name, shape) for name, shape in zip("abcdef", shapes, strict=False))
    outputs = tuple(Port(name, shape) for name, shape in zip("uvwxyz", outs, strict=False))
    leaves = [graph.input(f"{p.name}[{k}]") for p in inputs for k in range(p.size)]
    nodes = random_nodes(rng, graph, leaves, size)
    results = [graph.lift(rng.choice([rng.choice(nodes[-20:]), -rng.choice(nodes[-20:])]))
               for p in outputs for _ in range(p.size)]
    return Program(f"random{seed}", inputs, outputs, tuple(results))


def random_rolled_program(seed: int, n: int, *, kinds: int = 1, serial: bool = True,
                          ) -> RolledProgram:
    """Outward, inward and outward sweeps over n joints whose values stay moderate."""
    rng = random.Random(seed)
    parent = tuple(i if serial else rng.randrange(max(0, i - 4), i + 1) for i in range(n))
    kind = tuple(rng.randrange(kinds) for _ in range(n))
    width = [1 + k % 3 for k in range(kinds)]
    begins = np.concatenate([[0], np.cumsum([width[k] for k in kind])]).astype(int)
    starts = tuple(int(x) for x in begins[:-1])
    total = int(begins[-1])

    a, b, u, t = Slice("a", 0), Slice("b", 0), Slice("u", 0), Slice("t", None)

    def step(number: int, k: int, *, outward: bool, last: bool) -> SweepStep:
        g = Graph()
        leaves = [g.input(Parameter(j)) for j in range(3)]
        leaves += [g.input(Element(slice, j)) for slice in (a, b) for j in range(width[k])]
        for earlier in range(number):
            leaves += [g.input(Kept(earlier, j)) for j in range(3)]
        if outward:
            leaves += [g.input(OfParent(number, j)) for j in range(3)]
            leaves += [g.input(OfParent(0, 0))]
        else:
            leaves += [g.input(ChildSum(j)) for j in range(2)]
        nodes = random_nodes(rng, g, leaves, 25)

        def pick() -> Node:  # bounded, whatever went in
            return rng.choice(nodes[-8:]).sin() * 0.5 + 0.1 * rng.choice(leaves).sin()

        keeps = tuple(pick() for _ in range(3))
        passes = () if outward else tuple(pick() for _ in range(2))
        writes = tuple(Write(u, j, pick()) for j in range(width[k])) if last else ()
        return SweepStep(keeps, passes, writes)

    sweeps = [
        Sweep(SweepOrder.OUTWARD if outward else SweepOrder.INWARD,
              tuple(step(number, k, outward=outward, last=number == 2) for k in range(kinds)),
              base=(0.1, -0.2, 0.3) if outward else ())
        for number, outward in enumerate((True, False, True))]
    g = Graph()
    totals = SweepStep(writes=tuple(Write(t, k, g.input(Total(1, k)) + g.input(At(0, 1, n)))
                                    for k in range(2)))
    table = np.random.default_rng(seed).normal(size=(n, 3))
    return RolledProgram(f"rolled{seed}", (Port("a", (total,)), Port("b", (total,))),
                         (Port("u", (total,)), Port("t", (2,))),
                         Domain(parent, kind, table, {a: starts, b: starts, u: starts}),
                         (*sweeps, Sweep(SweepOrder.WHOLE, (totals,))))


def random_arrays(program: Program | RolledProgram, count: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(count, *port.shape)) for port in program.inputs]


def reference(program: Program | RolledProgram, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs by interpretation, one column of states for each element."""
    count = len(arrays[0])
    columns = program(*(list(x.reshape(count, -1).T) for x in arrays))
    return [np.array([np.broadcast_to(c, count) for c in values]).T.reshape(count, *port.shape)
            for port, values in zip(program.outputs, columns, strict=True)]
