"""Straight-line code on the stack of WebAssembly.

What is read once stays on the stack; a value that is read again is kept in a local, which is
free for others after its last reader. A sine and a cosine of one angle are one call.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from nlink.backends.llvm.code import Code
from nlink.backends.wasm.wasm_module import F64, I32, Module, StackFunction, assembled
from nlink.scalars.graph import operation
from nlink.scalars.lookup import LookupTable

Words = list["bytes | str"]
Load = Callable[[object], Words]
"""The words that push an input, by its name."""


@dataclass(frozen=True)
class Sink:
    """Where a result goes: words before its value and words after it."""

    before: Words
    after: Words


def number(value: float) -> Words:
    """A constant."""
    return [b"\x44" + struct.pack("<d", value)]


@cache
def _parts(template: str) -> tuple[int | bytes | str, ...]:
    """Words with places for arguments: numbers of arguments and bytes."""
    parts: list[int | bytes | str] = []
    place = 0
    for piece in re.split(r"(\{\d?\})", template):
        if piece.startswith("{"):
            parts.append(int(piece[1:-1]) if piece != "{}" else place)
            place += 1
        else:
            parts += assembled(piece)
    return tuple(parts)


class Expressions:
    """Writes code into a function of a module."""

    def __init__(self, module: Module, function: StackFunction) -> None:
        self.module, self.function = module, function

    def template(self, op: str) -> tuple[int | bytes | str, ...]:
        """The words of an operation; a function that they call is written later, by
        `complete_library`."""
        row = operation(op)
        if isinstance(row, LookupTable):
            return _parts(row.wasm(self.module.table(row.name, row.values.tolist())))
        return _parts(row.wasm or " ".join(["{}"] * row.arity) + f" call ${op}")

    def write(self, code: Code, load: Load, sinks: Sequence[Sink]) -> None:
        """Compute all results, each into its sink."""
        _Writing(self, code, load).run(sinks)


class _Writing:
    """One piece of code: what is known of each instruction while it is written."""

    def __init__(self, owner: Expressions, code: Code, load: Load) -> None:
        self.owner, self.f, self.code, self.load = owner, owner.function, code, load
        self.templates = {op: owner.template(op) for op in dict.fromkeys(
            i.op for i in code.instructions) if op not in ("const", "input", "sin", "cos")}
        self.uses = self._uses()
        self.kept: dict[int, int] = {}
        """Locals of instructions."""
        self.pairs: dict[int, dict[str, int]] = {}
        for k, i in enumerate(code.instructions):
            if i.op in ("sin", "cos"):
                self.pairs.setdefault(i.args[0], {})[i.op] = k

    def _uses(self) -> list[int]:
        """How often each instruction is pushed."""
        counts = [0] * len(self.code.instructions)
        for i in self.code.instructions:
            for part in self.templates.get(i.op, i.args):
                if isinstance(part, int):
                    counts[part if i.op in ("sin", "cos") else i.args[part]] += 1
        for r in self.code.results:
            counts[r] += 1
        return counts

    def run(self, sinks: Sequence[Sink]) -> None:
        results: dict[int, list[Sink]] = {}
        for r, sink in zip(self.code.results, sinks, strict=True):
            results.setdefault(r, []).append(sink)
        roots = [k for k, i in enumerate(self.code.instructions) if i.args and (
            self.uses[k] > 1 or k in results or i.op in ("sin", "cos"))]
        last = self._last_readers(roots)
        for position, k in enumerate(roots):
            if k not in self.kept:
                self._root(k, results.pop(k, []))
            else:  # the other one of a sine and a cosine
                for sink in results.pop(k, []):
                    self._sink(k, sink)
            for other in last[position]:
                if other in self.kept:
                    self.f.release(self.kept.pop(other))
        for k, waiting in results.items():  # inputs and constants
            for sink in waiting:
                self._sink(k, sink)
        for local in self.kept.values():
            self.f.release(local)

    def _last_readers(self, roots: Sequence[int]) -> list[list[int]]:
        """After which root each kept value is needed no more, by the root's position."""
        rooted, last = set(roots), dict[int, int]()
        for position, k in enumerate(roots):
            last[k] = max(last.get(k, 0), position)
            stack = list(self.code.instructions[k].args)
            while stack:
                a = stack.pop()
                if a in rooted or self.code.instructions[a].op == "const":
                    last[a] = position
                else:
                    stack += self.code.instructions[a].args
        place = {k: position for position, k in enumerate(roots)}
        for pair in self.pairs.values():  # both are computed with the first
            for k in pair.values():
                last[k] = max(last[k], *(place[x] for x in pair.values()))
        free: list[list[int]] = [[] for _ in roots]
        for k, position in last.items():
            free[position].append(k)
        return free

    def _root(self, k: int, sinks: Sequence[Sink]) -> None:
        i = self.code.instructions[k]
        if i.op in ("sin", "cos"):
            self._pair(i.args[0])
        elif self.uses[k] == len(sinks) == 1:
            self.f.body += sinks[0].before
            self._tree(k)
            self.f.body += sinks[0].after
            return
        else:
            self._tree(k)
            self._keep(k)
        for sink in sinks:
            self._sink(k, sink)

    def _pair(self, angle: int) -> None:
        """Sine and cosine of an angle, each into a local if it is wanted."""
        self._push(angle)
        self.f.body.append("$sincos")
        for name in ("cos", "sin"):  # the last result is on top
            if name in self.pairs[angle]:
                self._keep(self.pairs[angle][name])
            else:
                self.f.do("drop")

    def _keep(self, k: int) -> None:
        truth = self.code.instructions[k].args and operation(self.code.instructions[k].op).is_truth
        self.kept[k] = local = self.f.local(I32 if truth else F64)
        self.f.do(f"local.set {local}")

    def _sink(self, k: int, sink: Sink) -> None:
        self.f.body += sink.before
        self._push(k)
        self.f.body += sink.after

    def _push(self, k: int) -> None:
        """The value of an instruction: a local, a leaf, or computed here."""
        body, i = self.f.body, self.code.instructions[k]
        if k in self.kept:
            self.f.do(f"local.get {self.kept[k]}")
        elif i.op == "const":
            body += number(i.value)
            if self.uses[k] > 1 and i.value == i.value and math.copysign(1.0, i.value) > 0:
                self.kept[k] = local = self.f.local()
                self.f.do(f"local.tee {local}")
        elif i.op == "input":
            body += self.load(i.name)
        else:
            self._tree(k)

    def _tree(self, k: int) -> None:
        """An operation with all that is computed for it alone, without recursion."""
        instructions, stack = self.code.instructions, [iter(self._words(k))]
        while stack:
            for part in stack[-1]:
                if not isinstance(part, int):
                    self.f.body.append(part)
                elif part in self.kept or not instructions[part].args:
                    self._push(part)
                else:
                    stack.append(iter(self._words(part)))
                    break
            else:
                stack.pop()

    def _words(self, k: int) -> list[int | bytes | str]:
        """The words of an operation, arguments as instructions."""
        i = self.code.instructions[k]
        return [i.args[part] if isinstance(part, int) else part for part in self.templates[i.op]]
