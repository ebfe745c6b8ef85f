"""Large code in pieces: short functions that hand values to each other in scratch memory.

The instructions of straight-line code are read once for each vector of states. Where they do
not fit the processor's cache for them, they are fetched anew each time, and LLVM's register
allocator and schedulers take more time for each of them the more there are. A piece is small
enough for both, and goes over several vectors before the next piece begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nlink.backends.llvm.code import Code, Instruction, lower, rename
from nlink.backends.llvm.kernel import BLOCK
from nlink.backends.llvm.passes import interleave, optimize
from nlink.programs.staged import RowValue, SharedValue, StagedProgram, StepResult
from nlink.scalars.graph import operation

PIECE = 1000
"""Operations of a piece, about, and the most of code that is not cut."""
ANGLE = 15
"""Operations of a sine or a cosine."""
ROOM = 1 << 18
"""Bytes of scratch memory that pieces may use: about what a core's own cache holds."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An input of a piece: element k of the scratch memory."""

    k: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Code whose inputs are those of the whole or slots, and where its results go."""

    code: Code
    slots: tuple[int, ...]
    """The slots of the first results."""
    outputs: tuple[int, ...]
    """Which results of the whole the others are."""


@dataclass(frozen=True, slots=True)
class RowSlot:
    """An input of a repeated piece: element k of the row of slots that it is done for."""

    k: int


@dataclass(frozen=True, slots=True)
class RepeatedPiece:
    """Code that is done for each of some rows of slots; its inputs are slots and `RowSlot`s."""

    code: Code
    rows: tuple[tuple[int, ...], ...]
    first: int
    """The slot of the first result for the first row; all others are behind it."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Code as pieces, to be executed one after the other."""

    pieces: tuple[Piece, ...]
    results: tuple[int, ...]
    """The slot of each result of the whole, equal results in one; none if they are outputs."""
    size: int
    """Slots in all."""
    repeated: tuple[RepeatedPiece, ...] = ()
    """Done after all pieces."""

    def vectors(self, pitch: int) -> int:
        """How many vectors of states, of so many bytes, a piece goes over."""
        if len(self.pieces) == 1:
            return 1
        return max(1, min(BLOCK, ROOM // (pitch * max(1, self.size))))


def cut(code: Code, piece: int = PIECE, *, direct: bool = False) -> Pieces:
    """Code in pieces. Constants, inputs and truths are made again in each piece that needs them.

    Results are outputs of the pieces that compute them, if `direct`, or else kept in slots.
    """
    instructions = code.instructions
    operations, angles = _angles_first(code)
    place = {i: n for n, i in enumerate(operations)}
    last = list(range(len(operations)))
    for n, i in enumerate(operations):
        for a in instructions[i].args:
            if a in place:
                last[place[a]] = n
    for i in reversed(operations):
        if operation(instructions[i].op).is_truth:
            for a in instructions[i].args:
                if a in place:
                    last[place[a]] = max(last[place[a]], last[place[i]])
    bounds = _bounds([instructions[i] for i in operations], last, piece, angles)
    number = [p for p, end in enumerate(bounds[1:]) for _ in range(bounds[p], end)]

    slots: dict[int, int] = {}
    outputs: dict[int, list[int]] = {}
    for k, r in enumerate(code.results):
        if direct:
            outputs.setdefault(r, []).append(k)
        else:
            slots.setdefault(r, len(slots))
    results, size = () if direct else tuple(slots[r] for r in code.results), len(slots)
    # constants and inputs that are results
    leaves = [r for r in dict.fromkeys(code.results) if r not in place]
    free: list[int] = []
    freed: dict[int, list[int]] = {}
    pieces = []
    for p, end in enumerate(bounds[1:]):
        # a slot is used again only after the piece that reads it last
        free += freed.pop(p - 1, ())
        written: list[int] = []
        own = operations[bounds[p]:end]
        for n, i in enumerate(own, bounds[p]):
            if i in slots:
                written.append(i)
            elif number[last[n]] > p and not operation(instructions[i].op).is_truth:
                if not free:
                    free.append(size)
                    size += 1
                slots[i] = free.pop()
                freed.setdefault(number[last[n]], []).append(slots[i])
                written.append(i)
        if end == len(operations):
            # a single piece keeps the order of the whole
            own = own + leaves if p else list(range(len(instructions)))
            written += [i for i in leaves if i in slots]
        pieces.append(_piece(code, own, {i: slots[i] for i in written}, slots,
                             {i: outputs[i] for i in own if i in outputs}))
    return Pieces(tuple(pieces), results, size)


def with_steps(program: StagedProgram, first: Pieces, *, fma: bool) -> Pieces:
    """The steps of a program after its first stage, given in pieces that keep all results. Theirs
    take the place of what the pieces kept for each other, which comes last."""
    slots, size, repeated = iter(first.results), 1 + max(first.results), []
    found: dict[StepResult, int] = {}
    for number, step in enumerate(program.steps):
        shared = {SharedValue(k): Slot(next(slots)) for k in step.shared}
        rows = tuple(tuple(next(slots) for _ in row) for row in step.rows)
        own = {RowValue(k): RowSlot(n) for n, k in enumerate(step.rows[0])}
        kept = [k for k, x in enumerate(step.results) if x.op != "const"]
        if kept:
            code = optimize(lower([step.results[k] for k in kept]), fma=fma)
            slotted = rename(code, {name: Instruction("input", name=slot)
                                    for name, slot in (shared | own).items()})
            repeated.append(RepeatedPiece(interleave(slotted), rows, size))
        for row in range(len(rows)):
            found |= {StepResult(number, row, k): size + n for n, k in enumerate(kept)}
            size += len(kept)
    results = tuple(found[x.name] if isinstance(x.name, StepResult) else next(slots)
                    for x in program.results)
    return Pieces(first.pieces, results, max(size, first.size), tuple(repeated))


def _angles_first(code: Code) -> tuple[list[int], int]:
    """The operations in order, but the sines and cosines of inputs before all others, and how many
    these are.

    Beyond the reach of a vector an angle is reduced by a function (`sincos`), and whatever is
    alive at its call LLVM would keep on the stack. Sine and cosine of an angle, which share their
    work, are done at once.
    """
    both: dict[int, list[int]] = {}
    for i, x in enumerate(code.instructions):
        if x.op in ("sin", "cos"):
            both.setdefault(x.args[0], []).append(i)
    first = [i for angle, own in both.items() if code.instructions[angle].op == "input"
             for i in own]
    order = list(first)
    for i, x in enumerate(code.instructions):
        if x.op not in ("sin", "cos"):
            order += [i] if x.args else []
        elif code.instructions[x.args[0]].op != "input":
            order += both.pop(x.args[0], ())
    return order, len(first)


def _bounds(operations: Sequence[Instruction], last: Sequence[int], piece: int,
            angles: int) -> list[int]:
    """Where pieces begin, and the end: about a piece apart, where few values cross, and after the
    angles that come first.

    Sine and cosine of an angle are not parted.
    """
    work, crossing, ends = [0], [0], [0] * len(last)
    for n, (x, end) in enumerate(zip(operations, last, strict=True)):
        ends[end] += 1
        crossing.append(crossing[-1] + 1 - ends[n])
        work.append(work[-1] + (ANGLE if x.op in ("sin", "cos") else 1))
    if work[-1] <= piece:
        return [0, len(last)]
    bounds = [0]
    for stop in sorted({angles, len(last)} - {0}):
        while (left := work[stop] - work[bounds[-1]]) > 1.25 * piece:
            size = left / round(left / piece + 0.25)  # the pieces that are left of one size
            begin, end = (bisect_left(work, work[bounds[-1]] + part * size)
                          for part in (0.75, 1.25))
            near = [n for n in range(begin, end) if operations[n].op not in ("sin", "cos")
                    or operations[n].args != operations[n - 1].args]
            bounds.append(min(near or [end], key=crossing.__getitem__))
        bounds.append(stop)
    return bounds


def _piece(code: Code, own: Sequence[int], written: Mapping[int, int], slots: Mapping[int, int],
           outputs: Mapping[int, Sequence[int]]) -> Piece:
    """The piece with some instructions as its own, of which some are written to slots."""
    instructions: list[Instruction] = []
    local: dict[int, int] = {}

    def at(i: int) -> int:
        """Where the piece has a value: what it does not compute is read when first needed."""
        if i not in local:
            x = code.instructions[i]
            write(i, Instruction("input", name=Slot(slots[i])) if x.args and i in slots else x)
        return local[i]

    def write(i: int, x: Instruction) -> None:
        x = Instruction(x.op, tuple(map(at, x.args)), x.value, x.name)
        local[i] = len(instructions)
        instructions.append(x)

    for i in own:
        if i not in local:
            write(i, code.instructions[i])
    results = [local[i] for i in (*written, *(i for i, ks in outputs.items() for _ in ks))]
    return Piece(interleave(Code(tuple(instructions), tuple(results))), tuple(written.values()),
                 tuple(k for ks in outputs.values() for k in ks))
