"""What a loop program keeps in memory: decided before any code is written.

Scratch memory decides the speed of long chains, since thousands of joints times a few
vectors leave the caches. So values that nobody reads are not computed, values that only
the next joint of a chain reads stay in registers, and memory whose last reader is done
is used again by later sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nlink.compiler.code import Code, Instruction, lower, rename
from nlink.compiler.passes import optimize
from nlink.scalars.graph import Node, reachable
from nlink.scalars.program import LoopProgram, Port, Step

Kept = tuple[int, int]
"""(sweep, k): value k that a sweep keeps for each joint."""


@dataclass(frozen=True, slots=True)
class StepCode:
    """The code of one kind of joint in one sweep, and where its results go, in order."""

    code: Code
    keeps: tuple[int, ...]
    passes: tuple[int, ...]
    writes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """One sweep with everything that is not needed left out."""

    outward: bool
    steps: tuple[StepCode, ...]
    carried: tuple[int, ...]
    """Values handed from joint to joint in registers: kept ones outward, sums inward."""
    stored: tuple[int, ...]
    """Values k kept in memory."""
    sums: tuple[int, ...]
    """Inward on a tree: sums collected in memory."""
    base: tuple[float, ...]
    totals: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A loop program ready to be emitted."""

    joints: int
    serial: bool
    sweeps: tuple[SweepPlan, ...]
    slots: int
    """Vectors of scratch memory a joint has."""
    kept_slot: dict[Kept, int]
    sum_slot: dict[Kept, int]
    words: tuple[str, ...]
    """What the integer words of a joint's record mean: parent, kind, starts of ports."""
    records: bytes
    """A record for each joint: its integer words, then its parameters."""
    record_size: int
    cleared: tuple[Port, ...]
    """Outputs with elements that no joint writes: those are zero."""


def plan(program: LoopProgram, *, fma: bool) -> Layout:
    """Decide what a loop program computes, keeps and where."""
    serial = all(up == i for i, up in enumerate(program.parent))
    keeps, sums = _needed(program)
    sweeps, readers = [], _readers(program, keeps, sums)
    for number, sweep in enumerate(program.sweeps):
        steps = tuple(_step_code(program, number, kind, keeps, sums, fma=fma)
                      for kind in range(len(sweep.steps)))
        own = sorted(k for s, k in keeps if s == number)
        total = sorted(k for s, k in sums if s == number)
        chained = [k for k in own if (number, True) in readers.get((number, k), ())]
        register_only = {k for k in own if readers.get((number, k), set()) <= {(number, True)}}
        outward_chain, inward_chain = serial and sweep.outward, serial and not sweep.outward
        sweeps.append(SweepPlan(
            sweep.outward, steps,
            carried=tuple(chained if outward_chain else total if inward_chain else ()),
            stored=tuple(k for k in own if not (outward_chain and k in register_only)),
            sums=tuple(() if serial else total),
            base=sweep.base,
            totals=sweep.totals))
    kept_slot, sum_slot, slots = _slots(sweeps, readers)
    words = ("parent", "kind", *program.starts)
    records = _records(program)
    return Layout(len(program.parent), serial, tuple(sweeps), slots, kept_slot, sum_slot, words,
                  records.tobytes(), records.strides[0], _cleared(program))


def _leaf(program: LoopProgram, kind: int, node: Node) -> Node:
    """What an input of a step stands for: a kept value may be a mere constant or parameter.

    Those are at hand in every sweep, so nobody has to keep them.
    """
    while node.op == "input":
        kept = _kept_name(node.name)
        if kept is None or kept[1]:
            break
        number, k = kept[0]
        value = program.sweeps[number].steps[kind].keeps[k]
        own = value.op == "input" and _kept_name(value.name) and not value.name.startswith("^")
        if not (value.op == "const" or own or value.name.startswith("p[")):
            break
        node = value
    return node


def _inputs(program: LoopProgram, kind: int, nodes: Iterable[Node]) -> set[str]:
    leaves = (_leaf(program, kind, node) for node in reachable(nodes) if node.op == "input")
    return {leaf.name for leaf in leaves if leaf.op == "input"}


def _roots(step: Step, number: int, keeps: set[Kept], sums: set[Kept]) -> list[Node]:
    """The results of a step that somebody reads."""
    return [*(x for k, x in enumerate(step.keeps) if (number, k) in keeps),
            *(x for k, x in enumerate(step.passes) if (number, k) in sums),
            *(x for _, _, x in step.writes)]


def _kept_name(name: str) -> tuple[Kept, bool] | None:
    """The kept value an input stands for, and whether it is the parent's."""
    of_parent = name.startswith("^")
    head, _, rest = name.removeprefix("^").partition("[")
    if head[:1] == "s" and head[1:].isdigit():
        return (int(head[1:]), int(rest[:-1])), of_parent
    return None


def _needed(program: LoopProgram) -> tuple[set[Kept], set[Kept]]:
    """Kept values and sums that some output depends on: a fixed point from the outputs."""
    keeps: set[Kept] = set()
    sums = {(number, k) for number, sweep in enumerate(program.sweeps)
            for _, _, k in sweep.totals}
    before = -1
    while len(keeps) + len(sums) > before:
        before = len(keeps) + len(sums)
        for number, sweep in enumerate(program.sweeps):
            for kind, step in enumerate(sweep.steps):
                for name in _inputs(program, kind, _roots(step, number, keeps, sums)):
                    kept = _kept_name(name)
                    if kept:
                        keeps.add(kept[0])
                    elif name.startswith("sum["):
                        sums.add((number, int(name[4:-1])))
    return keeps, sums


def _readers(program: LoopProgram, keeps: set[Kept],
             sums: set[Kept]) -> dict[Kept, set[tuple[int, bool]]]:
    """For each kept value, the sweeps that read it and whether as their parent's."""
    readers: dict[Kept, set[tuple[int, bool]]] = {}
    for number, sweep in enumerate(program.sweeps):
        for kind, step in enumerate(sweep.steps):
            for name in _inputs(program, kind, _roots(step, number, keeps, sums)):
                kept = _kept_name(name)
                if kept:
                    readers.setdefault(kept[0], set()).add((number, kept[1]))
    return readers


def _step_code(program: LoopProgram, number: int, kind: int, keeps: set[Kept],
               sums: set[Kept], *, fma: bool) -> StepCode:
    step = program.sweeps[number].steps[kind]
    roots = _roots(step, number, keeps, sums)
    leaves = {node.name: _leaf(program, kind, node) for node in reachable(roots)
              if node.op == "input"}
    code = rename(lower(roots), {
        name: Instruction(leaf.op, value=leaf.value if leaf.op == "const" else 0.0, name=leaf.name)
        for name, leaf in leaves.items()})
    return StepCode(
        optimize(code, fma=fma),
        tuple(k for k in range(len(step.keeps)) if (number, k) in keeps),
        tuple(k for k in range(len(step.passes)) if (number, k) in sums),
        tuple((port, k) for port, k, _ in step.writes))


def _slots(sweeps: list[SweepPlan], readers: dict[Kept, set[tuple[int, bool]]]
           ) -> tuple[dict[Kept, int], dict[Kept, int], int]:
    """Slots of memory, one used again once all readers of its value are done."""
    free_after: list[int] = []  # for each slot, the last sweep that reads its value
    kept_slot: dict[Kept, int] = {}
    sum_slot: dict[Kept, int] = {}

    def take(number: int, last: int) -> int:
        for slot, busy in enumerate(free_after):
            if busy < number:
                free_after[slot] = last
                return slot
        free_after.append(last)
        return len(free_after) - 1

    for number, sweep in enumerate(sweeps):
        for k in sweep.stored:
            last = max((s for s, _ in readers.get((number, k), ())), default=number)
            kept_slot[number, k] = take(number, last)
        for k in sweep.sums:
            sum_slot[number, k] = take(number, number)
    return kept_slot, sum_slot, len(free_after)


def _records(program: LoopProgram) -> np.ndarray:
    """Integer words (starts in bytes) and parameters of each joint, side by side."""
    integers = np.array([program.parent, program.kind,
                         *(8 * np.array(s, dtype=np.int64) for s in program.starts.values())],
                        dtype=np.int64).T
    table = np.asarray(program.table, dtype=float).reshape(len(program.parent), -1)
    return np.concatenate([np.ascontiguousarray(integers).view(np.float64), table], axis=1)


def _cleared(program: LoopProgram) -> tuple[Port, ...]:
    written = {port.name: np.zeros(port.size, dtype=bool) for port in program.outputs}
    kinds = np.array(program.kind)
    for sweep in program.sweeps:
        for port, element, _ in sweep.totals:
            written[port][element] = True
        for kind, step in enumerate(sweep.steps):
            for port, k, _ in step.writes:
                written[port][np.array(program.starts[port])[kinds == kind] + k] = True
    return tuple(port for port in program.outputs if not written[port.name].all())
