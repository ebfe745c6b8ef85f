"""Large code in pieces: short functions that hand values to each other in scratch memory.

The instructions of straight-line code are read once for each vector of states. Where they do
not fit the processor's cache for them, they are fetched anew each time, and LLVM's register
allocator and schedulers take more time for each of them the more there are. A piece is small
enough for both, and goes over several vectors before the next piece begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nlink.backends.llvm.code import Code, Instruction
from nlink.scalars.graph import operation

WHOLE = 3000
"""Operations up to which code stays in one piece."""
PIECE = 600
"""Operations of a piece, about: a cut is made where few values cross it."""
VECTORS = 16
"""Vectors of states that a piece goes over, if the scratch memory for them is not too large."""
ROOM = 1 << 18
"""Bytes of scratch memory that pieces may use: about what a core's own cache holds."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An input of a piece: element k of the scratch memory."""

    k: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Code whose inputs are those of the whole or slots, and the slots that its results go to."""

    code: Code
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Code as pieces: one after the other they leave the whole's results in scratch memory."""

    pieces: tuple[Piece, ...]
    results: tuple[int, ...]
    """The slot of each result of the whole; equal results share one."""
    size: int
    """Slots in all."""

    def vectors(self, width: int) -> int:
        """How many vectors of states a piece goes over."""
        if len(self.pieces) == 1:
            return 1
        return max(1, min(VECTORS, ROOM // (8 * width * self.size)))


def cut(code: Code, piece: int = PIECE, whole: int = WHOLE) -> Pieces:
    """Code in pieces. Constants, inputs and truths are made again in each piece that needs them."""
    instructions = code.instructions
    operations = [i for i, x in enumerate(instructions) if x.args]
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
    bounds = _bounds(last, piece) if len(operations) > whole else [0, len(operations)]
    number = [p for p, end in enumerate(bounds[1:]) for _ in range(bounds[p], end)]

    slots = {r: k for k, r in enumerate(dict.fromkeys(code.results))}
    results, size = tuple(slots[r] for r in code.results), len(slots)
    unread = [r for r in slots if r not in place]  # constants and inputs that are results
    free: list[int] = []
    freed: dict[int, list[int]] = {}
    pieces = []
    for p, end in enumerate(bounds[1:]):
        # a slot is used again only after the piece that reads it last
        free += freed.pop(p - 1, ())
        written: list[int] = []
        for n in range(bounds[p], end):
            i = operations[n]
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
            written += unread
        pieces.append(_piece(code, operations[bounds[p]:end], written, slots))
    return Pieces(tuple(pieces), results, size)


def _bounds(last: Sequence[int], piece: int) -> list[int]:
    """Where pieces begin, and the end: near each multiple of a piece, where few values cross."""
    crossing, ends = [0], [0] * (len(last) + 1)
    for n, end in enumerate(last):
        ends[end] += 1
        crossing.append(crossing[-1] + 1 - ends[n])
    bounds = [0]
    while len(last) - bounds[-1] > piece + piece // 2:
        near = range(bounds[-1] + piece - piece // 4, bounds[-1] + piece + piece // 4)
        bounds.append(min(near, key=crossing.__getitem__))
    return [*bounds, len(last)]


def _piece(code: Code, operations: Sequence[int], written: Sequence[int],
           slots: dict[int, int]) -> Piece:
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

    for i in operations:
        write(i, code.instructions[i])
    results = tuple(map(at, written))
    return Piece(Code(tuple(instructions), results), tuple(slots[i] for i in written))
