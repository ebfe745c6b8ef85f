"""Straight-line code: the form the passes rewrite and the emitters print.

A graph node is shared and immutable; a pass wants to fuse two nodes into one and to
choose an order. So the nodes of some results are lowered once into a flat list of
instructions whose arguments are positions in the list. Besides the primitives of the
graph there are four fused ones, each a single rounding where the host can do it:

    fma a*b + c      fms a*b - c      fnma c - a*b      fnms -(a*b) - c
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nlink.scalars.graph import Node, operation
from nlink.scalars.primitives import Scalar
from nlink.scalars.traversal import reachable


@dataclass(frozen=True, slots=True)
class Instruction:
    """A constant, an input, or an operation on the results of earlier instructions."""

    op: str
    args: tuple[int, ...] = ()
    value: float = 0.0
    name: Any = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions in an executable order, and which of them are the results."""

    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]

    def uses(self) -> list[int]:
        """How often each instruction is read, by others or as a result."""
        counts = [0] * len(self.instructions)
        for instruction in self.instructions:
            for a in instruction.args:
                counts[a] += 1
        for r in self.results:
            counts[r] += 1
        return counts

    def readers(self) -> list[list[int]]:
        """Which instructions read each one, in order, once for each argument."""
        readers: list[list[int]] = [[] for _ in self.instructions]
        for i, instruction in enumerate(self.instructions):
            for a in instruction.args:
                readers[a].append(i)
        return readers

    def operations(self) -> int:
        """How many instructions compute something."""
        return sum(i.op not in ("const", "input") for i in self.instructions)

    def __call__(self, bindings: Mapping[Any, Scalar]) -> list[Scalar]:
        """The results on any scalar: what every pass must leave unchanged, to rounding."""
        values: list[Scalar] = []
        for i in self.instructions:
            if i.op == "const":
                values.append(i.value)
            elif i.op == "input":
                values.append(bindings[i.name])
            else:
                values.append(operation(i.op).apply(*(values[a] for a in i.args)))
        return [values[r] for r in self.results]


@dataclass(slots=True)
class CodeWriter:
    """Code under construction: equal instructions are written once."""

    instructions: list[Instruction] = field(default_factory=list)
    _table: dict[Instruction, int] = field(default_factory=dict)

    def write(self, instruction: Instruction) -> int:
        index = self._table.setdefault(instruction, len(self.instructions))
        if index == len(self.instructions):
            self.instructions.append(instruction)
        return index

    def op(self, op: str, *args: int) -> int:
        return self.write(Instruction(op, args))

    def const(self, value: float) -> int:
        return self.write(Instruction("const", value=value))

    def finish(self, results: Sequence[int]) -> Code:
        """The code written, without what no result needs."""
        return prune(Code(tuple(self.instructions), tuple(results)))


def lower(results: Sequence[Node]) -> Code:
    """The instructions of some graph nodes; dead code is not among them."""
    live = reachable(results)
    place = {node.index: i for i, node in enumerate(live)}
    return Code(
        tuple(Instruction(node.op, tuple(place[a.index] for a in node.args),
                          node.value if node.op == "const" else 0.0, node.name)
              for node in live),
        tuple(place[node.index] for node in results))


def prune(code: Code) -> Code:
    """Without the instructions that no result depends on."""
    needed = [False] * len(code.instructions)
    for r in code.results:
        needed[r] = True
    for i in reversed(range(len(needed))):
        if needed[i]:
            for a in code.instructions[i].args:
                needed[a] = True
    return reorder(code, [i for i, keep in enumerate(needed) if keep])


def reorder(code: Code, order: Sequence[int]) -> Code:
    """The same instructions in another order; those not mentioned are dropped."""
    place = {old: new for new, old in enumerate(order)}
    return Code(
        tuple(Instruction(i.op, tuple(place[a] for a in i.args), i.value, i.name)
              for i in (code.instructions[old] for old in order)),
        tuple(place[r] for r in code.results))


def rename(code: Code, leaves: Mapping[Any, Instruction]) -> Code:
    """The same code on other inputs: each name is replaced by an input or a constant."""
    writer, place = CodeWriter(), list[int]()
    for i in code.instructions:
        leaf = leaves[i.name] if i.op == "input" else None
        place.append(writer.write(
            leaf or Instruction(i.op, tuple(place[a] for a in i.args), i.value)))
    return writer.finish([place[r] for r in code.results])
