"""The statements of an iteration as WebAssembly, for one process.

Columns and cells are in memory, and what a statement computes is on the stack or in a local. A cell
that several statements read is computed once, where it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nlink.backends.llvm.code import Code, Instruction
from nlink.backends.llvm.passes import optimize
from nlink.backends.llvm.statements import Memory
from nlink.backends.wasm.stack_code import Expressions, Sink, Words
from nlink.backends.wasm.wasm_module import F64, I32, Module, StackFunction, assembled
from nlink.iterations.recording import (
    Call,
    Pass,
    Recording,
    Repeat,
    SharedNumbers,
    When,
    flat,
    reads,
)
from nlink.iterations.statement_emitter import StatementEmitter
from nlink.scalars.graph import Node
from nlink.scalars.traversal import reachable


@dataclass(frozen=True)
class LocalValue:
    """A cell that has been computed, and is in a local."""

    local: int


class ProcessWriter(StatementEmitter):
    """Writes a recording into a function of a module."""

    def __init__(self, module: Module, function: StackFunction, memory: Memory, base: int,
                 given: Mapping[str, int], recording: Recording) -> None:
        self.module, self.f, self.memory, self.base = module, function, memory, base
        self.given, self.recording, self.graph = given, recording, recording.graph
        self.values: dict[int, LocalValue] = {}
        """What has been computed, by the index of the node."""
        self.own: list[int] = []
        """Locals that are held by values."""
        self._shared = self._read_often()

    def _read_often(self) -> set[int]:
        """Cells that a statement computes and a later one needs."""
        statements = [*map(reads, flat(self.recording.body)), [*self.recording.cells.values()]]
        known, again = set[int](), set[int]()
        for roots in statements:
            new, stack = set[int](), list(roots)
            while stack:
                node = stack.pop()
                if node.index in known:
                    again.add(node.index)
                elif node.index not in new:
                    if node.args and not self.graph.elementwise(node):
                        new.add(node.index)
                    stack += node.args
            known |= new
        return again

    def write(self) -> None:
        """All statements, then the cells of the new state."""
        self.emit_body(self.recording.body)
        cells = self.recording.cells
        self._compute(cells.values())
        found = [self._new() for _ in cells]
        self._code([*cells.values()], list(map(_to, found)))
        for name, local in zip(cells, found, strict=True):
            self.f.do(f"i32.const 0 local.get {local} f64.store {self._cell(name)}")
        self._forget(0)

    # where things are

    def _cell(self, name: str) -> int:
        return self.base + self.memory.cells[name]

    def _column(self, node: Node) -> int:
        return self.base + self.memory.columns[self.graph.columns[node.index]]

    def _place(self, x: Node | SharedNumbers) -> int:
        if isinstance(x, SharedNumbers):
            return self.base + self.memory.blocks[x]
        if x.index in self.graph.columns:
            return self._column(x)
        return self.base + self.memory.results

    # values

    def _new(self, *, is_truth: bool = False) -> int:
        local = self.f.local(I32 if is_truth else F64)
        self.own.append(local)
        return local

    def _set(self, node: Node, local: int) -> None:
        self.values[node.index] = LocalValue(local)

    def _forget(self, held: int) -> None:
        """Release the locals of values but for the first ones."""
        for local in self.own[held:]:
            self.f.release(local)
        del self.own[held:]

    def _local(self, node: Node) -> int:
        """The local with the value of a cell, computed now if it is not known."""
        if node.index not in self.values:
            self._compute([node])
        if node.index not in self.values:
            local = self._new(is_truth=node.is_truth)
            self._code([node], [_to(local)])
            self._set(node, local)
        return self.values[node.index].local

    def _compute(self, nodes: Iterable[Node]) -> None:
        """The cells that other statements read as well, among what nodes are computed from."""
        missing = [x for x in self._unknown(nodes) if x.index in self._shared]
        if missing:
            locals_ = [self._new(is_truth=x.is_truth) for x in missing]
            self._code(missing, [_to(local) for local in locals_])
            for node, local in zip(missing, locals_, strict=True):
                self._set(node, local)

    def _unknown(self, nodes: Iterable[Node]) -> list[Node]:
        """What nodes are computed from, as far as it is not known, in order."""
        found, stack = dict[int, Node](), list(nodes)
        while stack:
            node = stack.pop()
            if node.index not in found and node.index not in self.values:
                found[node.index] = node
                stack += node.args
        return [found[index] for index in sorted(found)]

    def _code(self, nodes: Sequence[Node], sinks: Sequence[Sink],
              instead: Mapping[int, Node] | None = None, element: int | None = None) -> None:
        """Compute nodes into sinks; columns in `instead` are given by nodes, others are read at
        the local `element`, an offset in bytes."""
        instead = instead or {}
        stands = [instead.get(node.index, node) for node in nodes]
        place = dict[int, int]()
        instructions = list[Instruction]()
        for node in self._unknown_through(stands, instead):
            op, args, name = node.op, node.args, node.name
            if node.index in self.values:
                op, args, name = "input", (), self.values[node.index]
            elif node.op == "input" and node.index in self.graph.columns:
                name = node
            place[node.index] = len(instructions)
            instructions.append(Instruction(
                op, tuple(place[instead.get(a.index, a).index] for a in args),
                node.value if op == "const" else 0.0, name))
        code = optimize(Code(tuple(instructions), tuple(place[x.index] for x in stands)), fma=False)
        Expressions(self.module, self.f).write(code, lambda name: self._load(name, element), sinks)

    def _unknown_through(self, nodes: Sequence[Node], instead: Mapping[int, Node]) -> list[Node]:
        """The same, with what is known as leaves and columns replaced: arguments come first."""
        order, stack = dict[int, Node](), [(x, False) for x in nodes]
        while stack:
            node, ready = stack.pop()
            if node.index in order:
                continue
            if ready or node.index in self.values or not node.args:
                order[node.index] = node
                continue
            stack.append((node, True))
            stack += [(instead.get(a.index, a), False) for a in node.args]
        return list(order.values())

    def _load(self, name: object, element: int | None) -> Words:
        """The words that push an input."""
        if isinstance(name, LocalValue):
            return assembled(f"local.get {name.local}")
        if isinstance(name, Node):
            return assembled(f"local.get {element} f64.load {self._column(name)}")
        if name == "index":
            return assembled(f"local.get {element} i32.const 3 i32.shr_u f64.convert_i32_u")
        kind, _, rest = str(name).partition(" ")
        at = self.given[rest] if kind == "given" else self._cell(rest)
        return assembled(f"i32.const 0 f64.load {at}")

    # statements

    def emit_pass(self, statement: Pass) -> None:
        """Element by element: all of an element is read before any of it is written."""
        values = [*(value for _, value in statement.stores),
                  *(value for _, _, value in statement.reductions)]
        self._compute(self._outside(values))
        held = len(self.own)
        sums = [self._new() for _ in statement.reductions]
        element = self.f.local(I32)
        for local in sums:
            self.f.do(f"f64.const 0 local.set {local}")
        self.f.do(f"i32.const 0 local.set {element} loop")
        fresh = [self._new() for _ in statement.stores]
        instead = {column.index: value for column, value in statement.stores}
        sinks = [_to(local) for local in fresh]
        for local, (_, how, _) in zip(sums, statement.reductions, strict=True):
            sinks.append(_summed(local) if how == "sum" else self._largest(local))
        self._code(values, sinks, instead, element)
        for (column, _), local in zip(statement.stores, fresh, strict=True):
            self.f.do(f"local.get {element} local.get {local} f64.store {self._column(column)}")
        self.f.do(f"local.get {element} i32.const 8 i32.add local.tee {element} "
                  f"i32.const {8 * self.memory.size} i32.ne br_if 0 end")
        self.f.release(element)
        self._forget(held + len(sums))
        for (cell, _, _), local in zip(statement.reductions, sums, strict=True):
            self._set(cell, local)

    def _outside(self, nodes: Sequence[Node]) -> list[Node]:
        """The cells among what elements are computed from."""
        return [x for x in reachable(nodes) if not self.graph.elementwise(x)]

    def _largest(self, local: int) -> Sink:
        value = self.f.local()
        self.f.release(value)
        return Sink([], assembled(f"local.tee {value} local.get {local} local.get {value} "
                                  f"local.get {local} f64.gt select local.set {local}"))

    def emit_call(self, call: Call) -> None:
        """The arguments go to memory, and cells come back from there."""
        memory, base = self.memory, self.base
        self._compute([call.time, *call.cells])
        self._code([call.time, *call.cells], [_at(base + memory.time), *(
            _at(base + memory.arguments + 8 * k) for k in range(len(call.cells)))])
        first, *more = map(self._place, call.columns)
        to = self._place(call.results[0])
        pointers = (base + memory.time, first, base + memory.inputs, *more, to)
        self.f.do(" ".join(f"i32.const {x}" for x in pointers) + f" call ${call.name}")
        cells = call.results
        behind = to
        if to != base + memory.results:  # cells lie behind the column
            behind, cells = to + 8 * memory.size, call.results[1:]
        for k, cell in enumerate(cells):
            if isinstance(cell, Node):
                local = self._new()
                self.f.do(f"i32.const 0 f64.load {behind + 8 * k} local.set {local}")
                self._set(cell, local)

    def emit_when(self, statement: When) -> None:
        """The body where the truth holds; what it merges has its value of before else."""
        self._compute([statement.truth, *(outside for _, _, outside in statement.merged)])
        merged = [self._new() for _ in statement.merged]
        self._code([outside for _, _, outside in statement.merged], list(map(_to, merged)))
        self._code([statement.truth], [Sink([], assembled("if"))])
        known, held = dict(self.values), len(self.own)
        self.emit_body(statement.body)
        inside = [self._local(node) for _, node, _ in statement.merged]
        for local, value in zip(merged, inside, strict=True):
            self.f.do(f"local.get {value} local.set {local}")
        self.f.do("end")
        self._forget(held)
        self.values = known  # what is known only within the body is forgotten after it
        for (cell, _, _), local in zip(statement.merged, merged, strict=True):
            self._set(cell, local)

    def emit_repeat(self, statement: Repeat) -> None:
        """The body while the truth holds, and it may."""
        before = [node for _, _, node in statement.merged]
        self._compute(before)
        heads, count = [self._new() for _ in before], self.f.local(I32)
        self._code(before, list(map(_to, heads)))
        for (cell, _, _), local in zip(statement.merged, heads, strict=True):
            self._set(cell, local)
        self.f.do(f"i32.const 0 local.set {count} block loop")
        # what the truth needs is known in the body and after it, what the body computes is not
        self._compute([statement.truth])
        self._code([statement.truth], [Sink([], assembled(
            f"local.get {count} i32.const {statement.most} i32.lt_s i32.and i32.eqz br_if 1"))])
        known, held = dict(self.values), len(self.own)
        self.emit_body(statement.body)
        after = [self._local(node) for _, node, _ in statement.merged]
        self.f.do(" ".join([*(f"local.get {local}" for local in after),
                            *(f"local.set {local}" for local in reversed(heads))]))
        self.f.do(f"local.get {count} i32.const 1 i32.add local.set {count} br 0 end end")
        self._forget(held)
        self.f.release(count)
        self.values = known


def _to(local: int) -> Sink:
    return Sink([], assembled(f"local.set {local}"))


def _at(address: int) -> Sink:
    return Sink(assembled("i32.const 0"), assembled(f"f64.store {address}"))


def _summed(local: int) -> Sink:
    return Sink(assembled(f"local.get {local}"), assembled(f"f64.add local.set {local}"))
