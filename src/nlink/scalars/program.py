"""Traced algorithms: what the engines run and the compiler translates.

A `Program` is one expression graph between named arrays (the unrolled driver made it).
A `LoopProgram` is a sequence of sweeps over the joints of a mechanism, each a small
graph per kind of joint (the rolled driver made it). Both know nothing of mechanics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Node, evaluate, reachable


@dataclass(frozen=True, slots=True)
class Port:
    """A named array that enters or leaves a program."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


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

    def __call__(self, *arrays: Sequence[Scalar]) -> list[list[Scalar]]:
        """Run on one flat sequence of scalars for each input port; see `evaluate`."""
        bindings = {f"{port.name}[{k}]": x
                    for port, values in zip(self.inputs, arrays, strict=True)
                    for k, x in enumerate(values)}
        flat = iter(evaluate(self.results, bindings))
        return [[next(flat) for _ in range(port.size)] for port in self.outputs]


@dataclass(frozen=True, slots=True)
class Step:
    """What one kind of joint does in one sweep, as expressions of named inputs:

    - ``p[k]``: off-line parameter k of the joint, a number in `LoopProgram.table`;
    - ``q[k]``: element k of the joint's own slice of input port q;
    - ``s2[k]``: value k that sweep 2 kept for this joint, ``^s2[k]`` for its parent;
    - ``sum[k]``: sum over the joint's children of what they passed in this inward sweep.
    """

    keeps: tuple[Node, ...]
    """Values kept for this joint, for its children and for later sweeps."""
    passes: tuple[Node, ...]
    """Inward only: values added to the sums of the parent."""
    writes: tuple[tuple[str, int, Node], ...]
    """(port, k, value): element k of the joint's own slice of an output port."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One pass over the joints: outward visits parents first, inward children first."""

    outward: bool
    steps: tuple[Step, ...]
    """One for each kind of joint."""
    base: tuple[float, ...] = ()
    """Outward: the values the base keeps."""
    totals: tuple[tuple[str, int, int], ...] = ()
    """Inward: (port, element, k): the port's element is sum k at the base."""


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """Sweeps over joints 1..n with `parent[i - 1] < i`, joint 0 being the base."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parent: tuple[int, ...]
    kind: tuple[int, ...]
    table: np.ndarray
    """Off-line parameters, one row a joint (rows of small kinds are padded)."""
    starts: dict[str, tuple[int, ...]]
    """For each per-joint port, where the slice of joint i begins (entry i - 1)."""
    sweeps: tuple[Sweep, ...]

    def __call__(self, *arrays: Sequence[Scalar]) -> list[list[Scalar]]:
        """Run by interpretation, on any scalar: the meaning the compiler must keep."""
        ports = {p.name: a for p, a in zip(self.inputs, arrays, strict=True)}
        outs: dict[str, list[Scalar]] = {p.name: [0.0] * p.size for p in self.outputs}
        kept: list[dict[str, Scalar]] = [{} for _ in range(len(self.parent) + 1)]
        for number, sweep in enumerate(self.sweeps):
            kept[0].update({f"s{number}[{k}]": x for k, x in enumerate(sweep.base)})
            sums: list[list[Scalar]] = [[0.0] * len(sweep.steps[0].passes) for _ in kept]
            order = range(1, len(kept))
            for i in order if sweep.outward else reversed(order):
                step, up = sweep.steps[self.kind[i - 1]], self.parent[i - 1]
                results = (*step.keeps, *step.passes, *(node for _, _, node in step.writes))
                values = iter(evaluate(results, self._bindings(results, i, kept, sums[i], ports)))
                for k in range(len(step.keeps)):
                    kept[i][f"s{number}[{k}]"] = next(values)
                for k in range(len(step.passes)):
                    sums[up][k] = sums[up][k] + next(values)
                for (name, k, _), x in zip(step.writes, values, strict=True):
                    outs[name][self.starts[name][i - 1] + k] = x
            for name, element, k in sweep.totals:
                outs[name][element] = sums[0][k]
        return [outs[p.name] for p in self.outputs]

    def _bindings(self, results: Sequence[Node], i: int, kept: list[dict[str, Scalar]],
                  sums: list[Scalar], ports: Mapping[str, Sequence[Scalar]],
                  ) -> dict[str, Scalar]:
        """The values of the inputs that a step of joint i names; see `Step`."""
        found: dict[str, Scalar] = {}
        for node in reachable(results):
            if node.op != "input":
                continue
            name, k = node.name[:-1].split("[")
            if name.startswith("^"):
                found[node.name] = kept[self.parent[i - 1]][node.name[1:]]
            elif node.name in kept[i]:
                found[node.name] = kept[i][node.name]
            elif name == "sum":
                found[node.name] = sums[int(k)]
            elif name == "p":
                found[node.name] = float(self.table[i - 1, int(k)])
            else:
                found[node.name] = ports[name][self.starts[name][i - 1] + int(k)]
        return found
