"""The statements of an iteration as LLVM, many processes side by side in the lanes of vectors.

The scratch memory of a kernel holds columns, a vector for each element, and cells, a vector
each. An expression is computed once, where it is first needed; what does not depend on the
element stays outside the pass over the elements. Nothing here knows what is iterated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nlink.backends.llvm.emit import Block
from nlink.backends.llvm.ir import Function, Target, repeat, repeat_while
from nlink.iterations.iteration import Layout
from nlink.iterations.recording import (
    Call,
    Pass,
    Recording,
    Repeat,
    SharedNumbers,
    When,
    flat,
    share_columns,
)
from nlink.iterations.statement_emitter import StatementEmitter
from nlink.scalars.graph import Node, operation


class Memory:
    """Where columns and cells are in the scratch memory, in bytes."""

    def __init__(self, layout: Layout, size: int, inputs: int, extra: Sequence[str],
                 recordings: Sequence[Recording], target: Target,
                 blocks: Mapping[str, int]) -> None:
        self.size, self.row = size, 8 * target.width
        self.at = 0
        # what a record keeps comes first, in the order of the record
        self.cells = {name: self._take(1) for name in layout.cells}
        self.columns = {name: self._take(size) for name in layout.columns}
        self.kept = len(layout.cells) + len(layout.columns) * size
        self.cells |= {name: self._take(1) for name in (*layout.brief_cells, *extra)}
        self.columns |= {name: self._take(size) for name in layout.brief_columns}
        # a program sees the inputs of the process, and behind them the cells of the call
        calls = [each for r in recordings for each in flat(r.body) if isinstance(each, Call)]
        self.inputs = self._take(max(1, inputs))
        self.arguments = self.inputs + inputs * self.row
        self._take(max((len(call.cells) for call in calls), default=0))
        self.time = self._take(1)
        self.results = self._take(max((len(call.results) for call in calls), default=0))
        self.blocks = {each: self._take(blocks[each.program]) for call in calls
                       for each in call.results if isinstance(each, SharedNumbers)}
        places = [share_columns(each, self.columns) for each in recordings]
        # behind the column that a call gives there may be cells
        size += max((len(each.results) - 1 for r in recordings for each in flat(r.body)
                     if isinstance(each, Call) and isinstance(each.results[0], Node)
                     and each.results[0].index in r.graph.columns),
                    default=0)
        # columns within a step share places
        free = [self._take(size) for _ in range(max((p + 1 for at in places for p in at.values()),
                                                    default=0))]
        for at in places:
            self.columns |= {name: free[p] for name, p in at.items()}

    def _take(self, rows: int) -> int:
        begin, self.at = self.at, self.at + rows * self.row
        return begin


@dataclass
class StatementWriter(StatementEmitter):
    """Writes statements into a function."""

    f: Function
    target: Target
    memory: Memory
    given: Mapping[str, str]
    """Values of what is given, by name."""
    active: str
    """The lanes that have a process."""

    def __post_init__(self) -> None:
        self.block = Block(self.f, self.target.width, self.target.fma, branch=True)
        self.values: dict[int, str] = {}

    def write(self, recording: Recording) -> None:
        """All statements, then the cells of the new state."""
        self.graph, self.values = recording.graph, {}
        self.emit_body(recording.body)
        cells = {name: self.value(node) for name, node in recording.cells.items()}
        for name, value in cells.items():
            self.f.store(self.block.real, value, "%scratch", self.memory.cells[name])

    def _product(self, node: Node) -> int | None:
        """Which argument of a sum is computed within it, if one is a product: of two, the one
        whose factor was written last, as in w_0 K_0 + w_1 K_1 the second."""
        if not self.target.fma or node.op not in ("add", "sub"):
            return None
        inside = self.graph.elementwise(node)
        fits = [(max(x.index for x in a.args if x.op != "const"), a.index, k)
                for k, a in enumerate(node.args)
                if a.op == "mul" and self.graph.elementwise(a) == inside]
        return max(fits)[-1] if fits else None

    def _needs(self, node: Node) -> Sequence[Node]:
        """What a node is computed from."""
        k = self._product(node)
        return node.args if k is None else (*node.args[k].args, node.args[1 - k])

    def value(self, node: Node) -> str:
        """A cell's value, computed now if it is not known."""
        self._compute([node], self.values)
        return self.values[node.index]

    def _compute(self, nodes: Sequence[Node], values: dict[int, str],
                 load: Callable[[Node], str] | None = None) -> None:
        """Values of nodes, and of what they need; elements of columns by `load`."""
        # what is not known yet, in the order in which nodes were made: arguments come first
        missing, stack = {}, list(nodes)
        while stack:
            node = stack.pop()
            if node.index not in values and node.index not in missing:
                missing[node.index] = node
                stack.extend(self._needs(node))
        for index in sorted(missing):
            node = missing[index]
            if node.op == "const":
                values[index] = self.block.const(node.value)
            elif node.op == "input":
                values[index] = load(node) if load and self.graph.elementwise(
                    node) else self._input(node)
            else:
                values[index] = self._operation(node, values)

    def _operation(self, node: Node, values: Mapping[int, str]) -> str:
        k = self._product(node)
        if k is not None:
            x, y, other = (values[a.index] for a in self._needs(node))
            if node.op == "sub":
                x, other = (self.block.neg(x), other) if k else (x, self.block.neg(other))
            return self.block.muladd(x, y, other)
        return operation(node.op).llvm(self.block, *(values[a.index] for a in node.args))

    def _input(self, node: Node) -> str:
        kind, _, name = node.name.partition(" ")
        if kind == "given":
            return self.given[name]
        assert kind == "cell", node.name  # others are known before they are read
        return self.f.load(self.block.real, "%scratch", self.memory.cells[name])

    def emit_pass(self, statement: Pass) -> None:
        """Element by element: all of an element is read before any of it is written."""
        f, graph, memory = self.f, self.graph, self.memory
        # what is a cell among the operands is computed once, before the elements
        wanted = [value for _, value in statement.stores]
        for _, how, value in statement.reductions:
            wanted += value.args if how == "sum" and value.op == "mul" else [value]
        self._compute(self._outside(wanted), self.values)
        zero = self.block.const(0.0)

        def body(k: str, sums: list[str]) -> list[str]:
            place = f.offset("%scratch", f.let(f"mul i64 {k}, {memory.row}"))

            def load(node: Node) -> str:
                if node.name == "index":
                    return self.block.broadcast(f.let(f"uitofp i64 {k} to double"))
                return f.load(self.block.real, place, memory.columns[graph.columns[node.index]])

            # first all values, of which some are read by the next ones, and then all stores
            inner = dict(self.values)
            for column, value in statement.stores:
                self._compute([value], inner, load)
                inner[column.index] = inner[value.index]  # the next ones may read it
            self._compute(wanted, inner, load)
            for column, value in statement.stores:
                f.store(self.block.real, inner[value.index], place,
                        memory.columns[graph.columns[column.index]])
            return [self._reduced(how, old, value, inner)
                    for old, (_, how, value) in zip(sums, statement.reductions, strict=True)]

        # reductions are handed from element to element
        sums = [(self.block.real, zero)] * len(statement.reductions)
        results = repeat(f, memory.size, sums, body)
        for (cell, _, _), value in zip(statement.reductions, results, strict=True):
            self.values[cell.index] = value

    def _outside(self, nodes: Sequence[Node]) -> list[Node]:
        """The cells among what nodes are computed from."""
        found, seen, stack = [], set(), list(nodes)
        while stack:
            node = stack.pop()
            if node.index not in seen:
                seen.add(node.index)
                if self.graph.elementwise(node):
                    stack.extend(self._needs(node))
                else:
                    found.append(node)
        return found

    def _reduced(self, how: str, old: str, node: Node, values: Mapping[int, str]) -> str:
        if how == "sum" and node.op == "mul":
            x, y = (values[a.index] for a in node.args)
            return self.block.muladd(x, y, old)
        value = values[node.index]
        if how == "sum":
            return self.block.add(old, value)
        return self.block.select(self.block.compare("ogt", value, old), value, old)

    def emit_call(self, call: Call) -> None:
        """The arguments go to memory, and cells come back from there."""
        f, memory, real = self.f, self.memory, self.block.real
        # the time and the cells of the call go where the program looks for them
        first, *more = map(self._place, call.columns)
        f.store(real, self.value(call.time), "%scratch", memory.time)
        for k, cell in enumerate(call.cells):
            f.store(real, self.value(cell), "%scratch", memory.arguments + k * memory.row)
        # the program itself
        to = self._place(call.results[0])
        places = (memory.time, first, memory.inputs, to, *more)
        arguments = ", ".join(f"ptr {f.offset('%scratch', at)}" for at in places)
        f.constants[call.name] = "declare hidden void @{}({}) nounwind".format(
            call.name, ", ".join(["ptr"] * (len(places) + 2)))
        f.do(f"call void @{call.name}({arguments}, ptr %data, ptr %room)")
        if to == memory.results:
            behind, cells = to, call.results
        else:  # cells lie behind the column
            behind, cells = to + memory.size * memory.row, call.results[1:]
        for k, cell in enumerate(cells):
            assert isinstance(cell, Node)
            self.values[cell.index] = f.load(real, "%scratch", behind + k * memory.row)

    def _place(self, x: Node | SharedNumbers) -> int:
        """Where a column is, or what a program shares; cells from a program have one place."""
        if isinstance(x, SharedNumbers):
            return self.memory.blocks[x]
        name = self.graph.columns.get(x.index)
        return self.memory.results if name is None else self.memory.columns[name]

    def emit_when(self, statement: When) -> None:
        """A branch, taken if any lane with a process wants it."""
        f, block = self.f, self.block
        # what both ways need is computed before the branch
        outside = [self.value(node) for _, _, node in statement.merged]
        wanted = f.let(f"and {block.truth} {self.value(statement.truth)}, {self.active}")
        taken, after = f.fresh("taken"), f.fresh("after")
        known, before = dict(self.values), f.label
        f.branch(block.any(wanted), taken, after)
        f.begin(taken)
        self.emit_body(statement.body)
        # what is known only within the body is forgotten after it
        inside = [self.value(node) for _, node, _ in statement.merged]
        last, self.values = f.label, known
        f.go(after)
        f.begin(after)
        for (cell, _, _), a, b in zip(statement.merged, inside, outside, strict=True):
            self.values[cell.index] = f.phi(block.real, (a, last), (b, before))

    def emit_repeat(self, statement: Repeat) -> None:
        """A branch back, taken while any lane with a process wants it and it may."""
        f, block = self.f, self.block
        cells = [cell for cell, _, _ in statement.merged]
        first = [(block.real, self.value(before)) for _, _, before in statement.merged]

        # what is known at the head holds in the body and after it, what the body computes does not
        def go_on(values: list[str]) -> str:
            self.values |= {cell.index: value for cell, value in zip(cells, values[1:],
                                                                     strict=True)}
            wanted = f.let(f"and {block.truth} {self.value(statement.truth)}, {self.active}")
            few = f.let(f"icmp slt i64 {values[0]}, {statement.most}")
            return f.let(f"and i1 {block.any(wanted)}, {few}")

        def body(values: list[str]) -> list[str]:
            known = dict(self.values)
            self.emit_body(statement.body)
            after = [self.value(node) for _, node, _ in statement.merged]
            self.values = known
            return [f.let(f"add i64 {values[0]}, 1"), *after]

        repeat_while(f, [("i64", "0"), *first], go_on, body)
