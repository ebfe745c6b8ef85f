"""An algorithm on the rolled driver, as a program: ports to columns, sweeps to steps and tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nlink.algorithms.catalogue import Algorithm, Options
from nlink.model.mechanism import Mechanism
from nlink.programs.rolled_columns import NotRolled, tabulate
from nlink.programs.rolled_driver import KindsDiffer, Rolled, TracedSweep, axis_of
from nlink.programs.rolled_program import (
    Domain,
    RolledProgram,
    Slice,
    Sweep,
    SweepStep,
)
from nlink.programs.tracing import blocks, ports
from nlink.scalars.graph import Node, uncollected


@runtime_checkable
class RolledText(Protocol):
    """A text that makes its rolled program itself, from those of others."""

    def rolled(self, algorithm: Algorithm, mechanism: Mechanism, options: Options, *,
               wrenches: bool) -> RolledProgram: ...


@uncollected()
def trace_rolled(algorithm: Algorithm, mechanism: Mechanism, options: Options, *,
                 wrenches: bool = False) -> RolledProgram:
    """The rolled program of an algorithm; raises NotRolled if the text is not for this driver."""
    if algorithm.cycles:
        raise NotRolled("goes along cycles, not along the tree")
    if isinstance(algorithm.text, RolledText):
        return algorithm.text.rolled(algorithm, mechanism, options, wrenches=wrenches)
    mechanism = algorithm.prepare(mechanism)
    labels: list[tuple[Hashable, ...]] = [()] * len(mechanism.joints)
    while True:
        try:
            return _trace(Rolled(mechanism, labels), algorithm, mechanism, options, wrenches)
        except KindsDiffer as split:
            labels = [(*label, value) for label, value in zip(labels, split.values, strict=True)]


def _trace(driver: Rolled, algorithm: Algorithm, mechanism: Mechanism, options: Options,
           wrenches: bool) -> RolledProgram:
    inputs, outputs = ports(algorithm, mechanism, wrenches=wrenches,
                            frames=len(options.frames))
    given = {port.name for port in inputs}
    columns: list[Any] = []
    starts: dict[str, dict[Slice, tuple[int, ...]]] = {"joints": {}, "links": {}}
    for name, shape in algorithm.inputs:
        own = blocks(mechanism, shape, len(options.frames))
        if name not in given:
            columns.append(None)
        elif own is None:
            raise NotRolled(f"has an input {name} of shape {shape}, not one for each joint or link")
        else:
            slice = Slice(name, axis_of(shape))
            columns.append(driver.port(slice, own, links="links" in shape))
            starts["links" if "links" in shape else "joints"][slice] = _starts(own)
    result = algorithm.text(driver, options, *columns)
    results = (result,) if len(outputs) == 1 else result
    for port, (_, shape), value in zip(outputs, algorithm.outputs, results, strict=True):
        own = blocks(mechanism, shape, len(options.frames))
        if own is not None:
            starts["links" if "links" in shape else "joints"][
                Slice(port.name, axis_of(shape))] = _starts(own)
        elif shape == ("n", "n"):
            first = _starts(blocks(mechanism, ("n",)) or ())
            starts["joints"][Slice(port.name, 0)] = tuple(x * port.stride(0) for x in first)
            starts["joints"][Slice(port.name, 1)] = first
        driver.write(port, shape, own, value)
    steps, tables = _tabulate(driver)
    sweeps = tuple(Sweep(traced.order, tuple(own), traced.base)
                   for traced, own in zip(driver.sweeps, steps, strict=True))
    joints = Domain(mechanism.parents, driver.kind, tables.get("joints", np.empty((len(
        driver.kind), 0))), starts["joints"], driver.rates)
    program = RolledProgram(algorithm.name, inputs, outputs, joints, sweeps)
    if "links" not in tables:
        return program
    return replace(program, links=Domain(tuple(link.body for link in driver.links),
                                         driver.link_kind, tables["links"], starts["links"]))


def _starts(own: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The element where each block begins; a joint without any has none to read or write."""
    return tuple(block[0] if block else 0 for block in own)


def _tabulate(driver: Rolled) -> tuple[list[list[SweepStep]], dict[str, np.ndarray]]:
    """Replace, kind by kind, what is off-line by columns of one table of numbers.

    Returns the steps of each sweep, and the tables of what the sweeps go over.
    """
    steps: list[list[SweepStep]] = [[] for _ in driver.sweeps]
    tables: dict[str, np.ndarray] = {}
    for over in dict.fromkeys(sweep.order.over for sweep in driver.sweeps):
        sweeps = [n for n, sweep in enumerate(driver.sweeps) if sweep.order.over == over]
        numbers = {"joints": driver.kind, "whole": (0,)}.get(over) or driver.link_kind
        rows = []
        for k, kind in enumerate(driver.over(driver.sweeps[sweeps[0]].order)):
            own, table = tabulate(kind, [_nodes(driver.sweeps[n], k) for n in sweeps])
            rows.append(table)
            for n, step in zip(sweeps, own, strict=True):
                steps[n].append(step)
        table = np.zeros((len(numbers), max((t.shape[1] for t in rows), default=0)))
        for k, part in enumerate(rows):
            table[np.array(numbers) == k, :part.shape[1]] = part
        tables[over] = table
    return steps, tables


def _nodes(traced: TracedSweep, k: int) -> tuple[list[Node], list[Node],
                                             list[tuple[Slice, int, Node]]]:
    return traced.keeps[k], traced.passes[k], traced.writes[k] if traced.writes else []
