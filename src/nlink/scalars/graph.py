"""The graph scalar: arithmetic that writes itself down.

Run an algorithm on graph nodes and what remains is a hash-consed expression graph:
equal expressions are one node, zeros, ones and constants are gone, and signs have
moved outwards into additions and subtractions. All simplification happens in the
constructor of a node, so there is nothing to run afterwards and nothing to forget.

A node refuses `bool()`: an algorithm branches on structure, never on values.

>>> g = Graph()
>>> x, y = g.input("x"), g.input("y")
>>> (x * 0 + y * 1) is y, (x * y) is (y * x), (-x * -y) is (x * y)
(True, True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlink.scalars import functions
from nlink.scalars.functions import Scalar
from nlink.scalars.tables import TABLES, Table


@dataclass(frozen=True, slots=True)
class Op:
    """A primitive: its name, number of arguments, and meaning on any scalar."""

    name: str
    arity: int
    apply: Callable[..., Scalar]
    commutes: bool = False


OPS: dict[str, Op] = {
    op.name: op
    for op in (
        Op("add", 2, lambda a, b: a + b, commutes=True),
        Op("sub", 2, lambda a, b: a - b),
        Op("mul", 2, lambda a, b: a * b, commutes=True),
        Op("div", 2, functions.divide),
        Op("neg", 1, lambda a: -a),
        Op("sin", 1, functions.sin),
        Op("cos", 1, functions.cos),
        Op("sqrt", 1, functions.sqrt),
        Op("sign", 1, functions.sign),
    )
}
"""The closed set of primitives. `const` and `input` are the two kinds of leaves."""


def operation(name: str) -> Op | Table:
    """A primitive by its name, tables included."""
    return OPS.get(name) or TABLES[name]


class Node:
    """One value of a graph: a leaf, or a primitive applied to earlier nodes.

    `op` is "const", "input" or a key of `OPS`; `args` are nodes. A constant has its
    `value`, an input its `name`. `offline` says that nothing but constants and
    parameters went into the node, so it can be computed before any state is known.
    """

    __slots__ = ("args", "graph", "index", "name", "offline", "op", "value")
    __array_ufunc__ = None  # NumPy's numbers and arrays defer to the operators below

    graph: Graph
    index: int
    op: str
    args: tuple[Node, ...]
    value: float
    name: Hashable
    offline: bool

    def __add__(self, other):
        if isinstance(other, _MANY):
            return _each(other, lambda x: self + x)
        return self.graph.add(self, self.graph.lift(other))

    def __radd__(self, other):
        if isinstance(other, _MANY):
            return _each(other, lambda x: x + self)
        return self.graph.add(self.graph.lift(other), self)

    def __sub__(self, other):
        if isinstance(other, _MANY):
            return _each(other, lambda x: self - x)
        return self.graph.sub(self, self.graph.lift(other))

    def __rsub__(self, other):
        if isinstance(other, _MANY):
            return _each(other, lambda x: x - self)
        return self.graph.sub(self.graph.lift(other), self)

    def __mul__(self, other):
        if isinstance(other, _MANY):
            return _each(other, lambda x: self * x)
        return self.graph.mul(self, self.graph.lift(other))

    def __rmul__(self, other):
        if isinstance(other, _MANY):
            return _each(other, lambda x: x * self)
        return self.graph.mul(self.graph.lift(other), self)

    def __truediv__(self, other):
        if isinstance(other, _MANY):
            return _each(other, lambda x: self / x)
        return self.graph.div(self, self.graph.lift(other))

    def __rtruediv__(self, other):
        if isinstance(other, _MANY):
            return _each(other, lambda x: x / self)
        return self.graph.div(self.graph.lift(other), self)

    def __pow__(self, exponent):
        """Whole powers, by repeated squares."""
        if isinstance(exponent, _MANY):
            return _each(exponent, lambda x: self ** x)
        if not isinstance(exponent, int | float | np.number) or not float(exponent).is_integer():
            raise TypeError(f"a graph node to the power {exponent!r}, expected a whole number; "
                            "there is nlink.sqrt")
        power, square, rest = self.graph.const(1.0), self, abs(int(exponent))
        while rest:
            power = power * square if rest % 2 else power
            rest //= 2
            square = square * square if rest else square
        return 1 / power if exponent < 0 else power

    def __neg__(self):
        return self.graph.neg(self)

    def __pos__(self):
        return self

    def __abs__(self):
        return self * self.sign()

    def sin(self):
        return self.graph.sin(self)

    def cos(self):
        return self.graph.cos(self)

    def sqrt(self):
        return self.graph.unary("sqrt", self)

    def sign(self):
        return self.graph.unary("sign", self)

    def table(self, table: Table):
        return self.graph.unary(TABLES.setdefault(table.name, table).name, self)

    def __bool__(self):
        raise TypeError("a graph node has no truth value: branch on structure, not on values")

    def __float__(self):
        if self.op == "const":
            return self.value
        raise TypeError(f"{self!r} is an expression, not a number")

    def __repr__(self) -> str:
        if self.op == "const":
            return f"{self.value:g}"
        if self.op == "input":
            return str(self.name)
        return f"%{self.index} = {self.op}({', '.join(_short(a) for a in self.args)})"


_MANY = (np.ndarray, list, tuple)


def _each(many: Any, operate: Callable[[Any], Any]) -> Any:
    """A node beside an array or a list: the operation element by element, as NumPy has it."""
    elements = np.asarray(many, dtype=object)
    result = np.empty(elements.size, dtype=object)
    for k, x in enumerate(elements.ravel()):
        result[k] = operate(x)
    return result.reshape(elements.shape)[()]


def _short(node: Node) -> str:
    return repr(node) if node.op in ("const", "input") else f"%{node.index}"


class Graph:
    """A growing set of distinct nodes, in topological order."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._table: dict[tuple, Node] = {}
        self._operations: dict[str, Op | Table] = {}  # tables live as long as what reads them

    def _node(self, key: tuple, op: str, args: tuple[Node, ...] = (), *,
              value: float = math.nan, name: Hashable = "", offline: bool = True) -> Node:
        node = self._table.get(key)
        if node is None:
            node = Node()
            node.graph, node.index, node.op, node.args = self, len(self.nodes), op, args
            node.value, node.name, node.offline = value, name, offline
            self.nodes.append(node)
            self._table[key] = node
        return node

    def const(self, value: float) -> Node:
        """A constant; zeros are unsigned."""
        value = float(value) + 0.0
        return self._node(("const", value if value == value else "nan"), "const", value=value)

    def input(self, name: Hashable) -> Node:
        """A value known when the program runs; its name is a string or a typed reference."""
        return self._node(("input", name), "input", name=name, offline=False)

    def parameter(self, name: str) -> Node:
        """A value known before: what depends on parameters alone is computed off-line."""
        return self._node(("input", name), "input", name=name, offline=True)

    def lift(self, x: Any) -> Node:
        """The node of a number, or the node itself."""
        if isinstance(x, Node):
            if x.graph is not self:
                raise ValueError("nodes of two graphs do not mix")
            return x
        if isinstance(x, (int, float, np.floating, np.integer)):
            return self.const(float(x))
        raise TypeError(f"a {type(x).__name__} cannot become a graph node")

    def apply(self, op: str, *args: Node) -> Node:
        """The node of a primitive, simplified."""
        simplify = getattr(self, op, None)
        return simplify(*args) if simplify is not None else self.unary(op, *args)

    def unary(self, op: str, a: Node) -> Node:
        if op not in self._operations:
            self._operations[op] = operation(op)
        if a.op == "const":
            return self.const(self._operations[op].apply(a.value))
        return self._node((op, a.index), op, (a,), offline=a.offline)

    def _binary(self, op: str, a: Node, b: Node) -> Node:
        if a.op == "const" and b.op == "const":
            return self.const(OPS[op].apply(a.value, b.value))
        if OPS[op].commutes and (b.op == "const" or (a.index > b.index and a.op != "const")):
            a, b = b, a  # one order for both: a constant first, then by age
        return self._node((op, a.index, b.index), op, (a, b), offline=a.offline and b.offline)

    def add(self, a: Node, b: Node) -> Node:
        if _is(a, 0):
            return b
        if _is(b, 0):
            return a
        if b.op == "neg":
            return self.sub(a, b.args[0])
        if a.op == "neg":
            return self.sub(b, a.args[0])
        return self._binary("add", a, b)

    def sub(self, a: Node, b: Node) -> Node:
        if _is(b, 0):
            return a
        if _is(a, 0):
            return self.neg(b)
        if a is b:
            return self.const(0)
        if b.op == "neg":
            return self.add(a, b.args[0])
        if a.op == "neg":
            return self.neg(self.add(a.args[0], b))
        if ("sub", b.index, a.index) in self._table:  # x - y is there: y - x is its negative
            return self.neg(self._binary("sub", b, a))
        return self._binary("sub", a, b)

    def neg(self, a: Node) -> Node:
        return a.args[0] if a.op == "neg" else self.unary("neg", a)

    def mul(self, a: Node, b: Node) -> Node:
        if b.op == "const":
            a, b = b, a
        if a.op == "const":
            if a.value == 0 or a.value == 1:
                return a if a.value == 0 else b
            if a.value < 0:  # signs move outwards, into the next addition
                return self.neg(self.mul(self.const(-a.value), b))
            if b.op == "mul" and b.args[0].op == "const":
                return self.mul(self.const(a.value * b.args[0].value), b.args[1])
        if a.op == "neg":
            return self.neg(self.mul(a.args[0], b))
        if b.op == "neg":
            return self.neg(self.mul(a, b.args[0]))
        return self._binary("mul", a, b)

    def div(self, a: Node, b: Node) -> Node:
        if _is(a, 0) and not _is(b, 0):
            return a
        if b.op == "const" and b.value != 0:
            return self.mul(self.const(1 / b.value), a)
        if a.op == "neg":
            return self.neg(self.div(a.args[0], b))
        if b.op == "neg":
            return self.neg(self.div(a, b.args[0]))
        return self._binary("div", a, b)

    def sin(self, a: Node) -> Node:
        return self.neg(self.unary("sin", a.args[0])) if a.op == "neg" else self.unary("sin", a)

    def cos(self, a: Node) -> Node:
        return self.unary("cos", a.args[0] if a.op == "neg" else a)


def _is(node: Node, value: float) -> bool:
    return node.op == "const" and node.value == value


def reachable(results: Iterable[Node]) -> list[Node]:
    """All nodes the results depend on, in the order they were made."""
    seen: dict[int, Node] = {}
    stack = list(results)
    while stack:
        node = stack.pop()
        if node.index not in seen:
            seen[node.index] = node
            stack.extend(node.args)
    return [seen[i] for i in sorted(seen)]


def evaluate(results: Sequence[Node], bindings: Mapping[Any, Scalar],
             constant: Callable[[float], Scalar] = float) -> list[Scalar]:
    """The values of nodes on any scalar: floats, arrays, complex, SymPy, another graph.

    `constant` makes a scalar of the graph's numbers, where a plain float does not do.
    Intermediate values are dropped after their last use, so a batch of arrays needs
    little more memory than its width in the graph.
    """
    live = reachable(results)
    uses = dict.fromkeys((node.index for node in live), 0)
    for node in (*(a for n in live for a in n.args), *results):
        uses[node.index] += 1
    values: dict[int, Scalar] = {}
    for node in live:
        if node.op == "const":
            values[node.index] = constant(node.value)
        elif node.op == "input":
            if node.name not in bindings:
                raise KeyError(f"no value for input {node.name!r}")
            values[node.index] = bindings[node.name]
        else:
            values[node.index] = operation(node.op).apply(*(values[a.index] for a in node.args))
            for a in node.args:
                uses[a.index] -= 1
                if not uses[a.index]:
                    del values[a.index]
    return [values[node.index] for node in results]


def substitute(results: Sequence[Node], graph: Graph, replaced: Mapping[int, Node]) -> list[Node]:
    """Copies of nodes in another graph, nodes with the given indices replaced by others."""
    copies: dict[int, Node] = dict(replaced)
    stack = list(results)
    while stack:
        node = stack[-1]
        missing = [a for a in node.args if a.index not in copies]
        if node.index in copies:
            stack.pop()
        elif missing:
            stack.extend(missing)
        elif node.op == "const":
            copies[node.index] = graph.const(node.value)
        elif node.op == "input":
            copies[node.index] = (graph.parameter if node.offline else graph.input)(node.name)
        else:
            copies[node.index] = graph.apply(node.op, *(copies[a.index] for a in node.args))
    return [copies[node.index] for node in results]
