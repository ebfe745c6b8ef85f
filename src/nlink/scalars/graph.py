"""The graph scalar: arithmetic that writes itself down.

Run an algorithm on graph nodes and what remains is a hash-consed expression graph:
equal expressions are one node, zeros, ones and constants are gone, and signs have
moved outwards into additions and subtractions. All simplification happens in the
constructor of a node, so there is nothing to run afterwards and nothing to forget.

A node refuses `bool()`: an algorithm branches on structure, never on values. A comparison of
nodes is a node too, a truth, which `where` takes.

>>> g = Graph()
>>> x, y = g.input("x"), g.input("y")
>>> (x * 0 + y * 1) is y, (x * y) is (y * x), (-x * -y) is (x * y)
(True, True, True)
"""

from __future__ import annotations

import gc
import math
import operator as python
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from nlink.scalars.lookup import TABLES, LookupTable
from nlink.scalars.primitives import FUSED, PRIMITIVES, Primitive, elementwise

_MANY = (np.ndarray, list, tuple)
_NUMBERS = frozenset((float, int))
_INDEX, _OFFLINE = python.attrgetter("index"), python.attrgetter("offline")


def operation(name: str) -> Primitive | LookupTable:
    """An operation by its name: a primitive, a fused one, or a table."""
    return PRIMITIVES.get(name) or FUSED.get(name) or TABLES[name]


@contextmanager
def uncollected() -> Iterator[None]:
    """Python does not look for garbage within: of a graph's many small objects nearly all stay,
    and looking at them again and again takes half of the time of a large one."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


LASTING = frozenset(("const", "input", "sin", "cos", "sqrt"))
"""What is shared by steps that are kept apart."""


class TooManyNodes(Exception):
    """A graph has outgrown its bound."""


class Graph:
    """A growing set of distinct nodes, in topological order, at most `most` of them if given.

    Steps of a graph may be kept `apart`: no step looks at how another one has made a value or at
    what it has computed, so that like steps have the same form.
    """

    def __init__(self, most: int | None = None, *, apart: bool = False) -> None:
        self.nodes: list[Node] = []
        self.marks: list[int] = []
        """Where steps begin: the indices of their first nodes."""
        self._apart, self._own = apart, 0
        self._most = math.inf if most is None else most
        self._table: dict[tuple, Node] = {}
        self._lasting = {} if apart else self._table
        """What all steps share: numbers, inputs, and functions that are costly."""
        self._constants: dict[float, Node] = {}
        self._rows: dict[str, Primitive | LookupTable] = {}  # keeps tables alive

    def _node(self, key: tuple, op: str, args: tuple[Node, ...] = (), *,
              value: float = math.nan, name: Any = "", offline: bool = True,
              is_truth: bool = False) -> Node:
        table = self._lasting if op in LASTING else self._table
        node = table.get(key)
        return self._made(table, key, op, args, value, name, offline, is_truth) if (
            node is None) else node

    def _made(self, table: dict[tuple, Node], key: tuple, op: str, args: tuple[Node, ...],
              value: float, name: Any, offline: bool, is_truth: bool) -> Node:
        """A new node."""
        nodes = self.nodes
        count = len(nodes)
        if count >= self._most:
            raise TooManyNodes
        node = table[key] = Node()
        node.graph, node.index, node.op, node.args = self, count, op, args
        node.value, node.name, node.offline, node.is_truth = value, name, offline, is_truth
        nodes.append(node)
        return node

    def const(self, value: float) -> Node:
        """A constant; zeros are unsigned."""
        node = self._constants.get(value)
        if node is None:
            value = float(value) + 0.0
            node = self._node(("const", value if value == value else "nan"), "const", value=value)
            if value == value:
                self._constants[value] = node
        return node

    def input(self, name: Any) -> Node:
        """A value known when the program runs; its name is a string or another value."""
        return self._node(("input", name), "input", name=name, offline=False)

    def number(self, value: float) -> Node:
        """A number that nothing folds: what is made of it has the same form for every number."""
        node = self.parameter(("number", len(self.nodes), value))  # type: ignore[arg-type]
        node.value = value
        return node

    def mark(self) -> None:
        """A step begins here."""
        if not self.marks or self.marks[-1] < len(self.nodes):
            self.marks.append(len(self.nodes))
            if self._apart:
                self._own = len(self.nodes)
                self._table = {}

    def parameter(self, name: str) -> Node:
        """A value known before: what depends on parameters alone is computed off-line."""
        return self._node(("input", name), "input", name=name, offline=True)

    def lift(self, x: Any) -> Node:
        """The node of a number, or the node itself."""
        if isinstance(x, Node):
            if x.graph is not self:
                raise ValueError("nodes of two graphs do not mix")
            if x.is_truth:
                raise TypeError(f"{x!r} is a truth, expected a number: "
                                "nlink.where(c, 1.0, 0.0) makes one")
            return x
        if isinstance(x, (int, float, np.floating, np.integer)):
            return self.const(float(x))
        raise TypeError(f"a {type(x).__name__} cannot become a graph node")

    def truth(self, x: Any) -> Node:
        """The node of a truth, or the node itself."""
        if isinstance(x, bool | np.bool_):
            return self.apply("true" if x else "false")
        if not isinstance(x, Node) or not x.is_truth:
            raise TypeError(f"{x!r} is no truth, expected one such as nlink.less(a, b)")
        if x.graph is not self:
            raise ValueError("nodes of two graphs do not mix")
        return x

    def primitive(self, name: str, *args: Any) -> Node:
        """The node of a primitive of numbers, truths and nodes."""
        truths = PRIMITIVES[name].truths
        if name == "where" and any(_is_truth(x) for x in args[1:]):  # a choice of truths
            c, a, b = (self.truth(x) for x in args)
            return c & a | ~c & b
        return self.apply(name, *(self.truth(x) if k < truths else self.lift(x)
                                  for k, x in enumerate(args)))

    def apply(self, op: str, *args: Node) -> Node:
        """The node of an operation on nodes of the right kinds, simplified."""
        rule = _RULES.get(op)
        return self._plain(op, *args) if rule is None else rule(self, *args)

    def _plain(self, op: str, *args: Node) -> Node:
        """The node of an operation; that of constants is a constant."""
        row = self._rows.get(op)
        if row is None:
            row = self._rows[op] = operation(op)
        if len(args) == 2:  # nearly all are: written out, it takes half the time
            a, b = args
            if row.commutes and (b.op == "const" or (a.index > b.index and a.op != "const")):
                args = a, b = b, a  # one order for both: a constant first, then by age
            key = op, a.index, b.index
        else:
            key = (op, *map(_INDEX, args))
        table = self._lasting if op in LASTING else self._table
        node = table.get(key)
        if node is not None:
            return node
        offline = all(map(_OFFLINE, args))
        if offline and args and all(a.op == "const" for a in args):
            value = row.floats(*(a.value for a in args))
            return self.truth(value) if row.is_truth else self.const(value)
        return self._made(table, key, op, args, math.nan, "", offline, row.is_truth)

    def add(self, a: Node, b: Node) -> Node:
        if a.op == "const" and a.value == 0:
            return b
        if b.op == "const" and b.value == 0:
            return a
        if b.op == "neg" and b.index >= self._own:
            return self.sub(a, b.args[0])
        if a.op == "neg" and a.index >= self._own:
            return self.sub(b, a.args[0])
        return self._plain("add", a, b)

    def sub(self, a: Node, b: Node) -> Node:
        if b.op == "const" and b.value == 0:
            return a
        if a.op == "const" and a.value == 0:
            return self.neg(b)
        if a is b:
            return self.const(0)
        if b.op == "neg" and b.index >= self._own:
            return self.add(a, b.args[0])
        if a.op == "neg" and a.index >= self._own:
            return self.neg(self.add(a.args[0], b))
        known = self._table.get(("sub", b.index, a.index))
        if known is not None and known.index >= self._own:  # y - x is the negative of x - y
            return self.neg(known)
        return self._plain("sub", a, b)

    def neg(self, a: Node) -> Node:
        return a.args[0] if a.op == "neg" and a.index >= self._own else self._plain("neg", a)

    def mul(self, a: Node, b: Node) -> Node:
        if b.op == "const":
            a, b = b, a
        if a.op == "const":
            if a.value == 0 or a.value == 1:
                return a if a.value == 0 else b
            if a.value < 0:  # signs move outwards, into the next addition
                return self.neg(self.mul(self.const(-a.value), b))
            if b.op == "mul" and b.args[0].op == "const" and b.index >= self._own:
                return self.mul(self.const(a.value * b.args[0].value), b.args[1])
        if a.op == "neg" and a.index >= self._own:
            return self.neg(self.mul(a.args[0], b))
        if b.op == "neg" and b.index >= self._own:
            return self.neg(self.mul(a, b.args[0]))
        return self._plain("mul", a, b)

    def div(self, a: Node, b: Node) -> Node:
        if a.op == "const" and a.value == 0 and not (b.op == "const" and b.value == 0):
            return a
        if b.op == "const" and b.value != 0:
            return self.mul(self.const(1 / b.value), a)
        if a.op == "neg" and a.index >= self._own:
            return self.neg(self.div(a.args[0], b))
        if b.op == "neg" and b.index >= self._own:
            return self.neg(self.div(a, b.args[0]))
        return self._plain("div", a, b)

    def sin(self, a: Node) -> Node:
        if a.op == "neg" and a.index >= self._own:
            return self.neg(self._plain("sin", a.args[0]))
        return self._plain("sin", a)

    def cos(self, a: Node) -> Node:
        return self._plain("cos", a.args[0] if a.op == "neg" and a.index >= self._own else a)

    def abs(self, a: Node) -> Node:
        return a if a.op == "abs" else self._plain("abs", a.args[0] if a.op == "neg" else a)

    def minimum(self, a: Node, b: Node) -> Node:
        return a if a is b else self._plain("minimum", a, b)

    def maximum(self, a: Node, b: Node) -> Node:
        return a if a is b else self._plain("maximum", a, b)

    def less(self, a: Node, b: Node) -> Node:
        return self.truth(False) if a is b else self._plain("less", a, b)

    def where(self, c: Node, a: Node, b: Node) -> Node:
        if a is b or c.op == "true":
            return a
        if c.op == "false":
            return b
        return self.where(c.args[0], b, a) if c.op == "logical_not" else self._plain(
            "where", c, a, b)

    def logical_and(self, a: Node, b: Node) -> Node:
        if a is b or b.op == "true" or a.op == "false":
            return a
        return b if a.op == "true" or b.op == "false" else self._plain("logical_and", a, b)

    def logical_or(self, a: Node, b: Node) -> Node:
        if a is b or b.op == "false" or a.op == "true":
            return a
        return b if a.op == "false" or b.op == "true" else self._plain("logical_or", a, b)

    def logical_not(self, a: Node) -> Node:
        if a.op in ("true", "false"):
            return self.truth(a.op == "false")
        return a.args[0] if a.op == "logical_not" else self._plain("logical_not", a)


_RULES: dict[str, Callable[..., Node]] = {
    name: getattr(Graph, name) for name in PRIMITIVES if hasattr(Graph, name)}
"""What simplifies more than constants, by the name of the primitive."""


def _is_truth(x: Any) -> bool:
    return x.is_truth if isinstance(x, Node) else isinstance(x, bool | np.bool_)


def _operator(name: str, *, swapped: bool = False) -> Callable[[Node, Any], Any]:
    """The method of a binary operator; beside an array or a list it works element by element."""

    rule = _RULES.get(name) or (lambda graph, a, b: graph.apply(name, a, b))
    truths = PRIMITIVES[name].truths > 0

    def method(self: Node, other: Any) -> Any:
        graph = self.graph
        # numbers, and nodes of one graph and kind, need no further look at what they are
        if type(other) in _NUMBERS and not (truths or self.is_truth):
            other = graph.const(other)
        elif not (type(other) is Node and other.graph is graph
                  and self.is_truth is other.is_truth is truths):
            if isinstance(other, _MANY):
                return elementwise(lambda x: method(self, x), other)
            if type(other) is not Node and hasattr(other, "apply_primitive"):
                return NotImplemented  # another kind of scalar, which may be made of nodes
            lift = graph.truth if truths else graph.lift
            other = lift(other)
            if self.is_truth is not truths:
                lift(self)  # says what was expected
        return rule(graph, other, self) if swapped else rule(graph, self, other)

    return method


class Node:
    """One value of a graph: a leaf, or a primitive applied to earlier nodes.

    `op` is "const", "input" or a primitive's name; `args` are nodes. A constant has its
    `value`, an input its `name`. `offline` says that nothing but constants and
    parameters went into the node, so it can be computed before any state is known.
    `is_truth` says that it is no number but a truth, the value of a comparison.
    """

    __slots__ = ("args", "graph", "index", "is_truth", "name", "offline", "op", "value")

    graph: Graph
    index: int
    op: str
    args: tuple[Node, ...]
    value: float
    name: Any
    offline: bool
    is_truth: bool

    __add__, __radd__ = _operator("add"), _operator("add", swapped=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", swapped=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", swapped=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", swapped=True)
    __lt__, __gt__ = _operator("less"), _operator("less", swapped=True)
    __le__, __ge__ = _operator("less_equal"), _operator("less_equal", swapped=True)
    __and__ = __rand__ = _operator("logical_and")
    __or__ = __ror__ = _operator("logical_or")
    __rpow__ = _operator("pow", swapped=True)

    def __pow__(self, exponent: Any) -> Any:
        """Whole powers by repeated squares, others by `pow`."""
        if isinstance(exponent, _MANY):
            return elementwise(lambda x: self ** x, exponent)
        if not isinstance(exponent, int | float | np.number) or not float(exponent).is_integer():
            return self.graph.primitive("pow", self, exponent)
        power, square, rest = self.graph.const(1.0), self, abs(int(exponent))
        while rest:
            power = power * square if rest % 2 else power
            rest //= 2
            square = square * square if rest else square
        return 1 / power if exponent < 0 else power

    def __neg__(self) -> Node:
        graph = self.graph
        return graph.neg(graph.lift(self))

    def __pos__(self) -> Node:
        return self

    def __abs__(self) -> Node:
        return self.graph.primitive("abs", self)

    def __invert__(self) -> Node:
        return self.graph.primitive("logical_not", self)

    def apply_primitive(self, row: Primitive, *args: Any) -> Node:
        """A primitive of this node and others: what the functions of `nlink` call."""
        return self.graph.primitive(row.name, *args)

    def table(self, table: LookupTable) -> Node:
        return self.graph.apply(TABLES.setdefault(table.name, table).name, self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Operators between NumPy's numbers or arrays and nodes; its functions are refused."""
        if method == "__call__" and ufunc.__name__ in _OPERATORS:
            operate = _OPERATORS[ufunc.__name__]
            result = elementwise(lambda a, b: operate(_python_number(a), _python_number(b)),
                                 *inputs)
            (out,) = options.get("out", (None,))
            if out is None or out.dtype != object:
                return result
            out[...] = result  # an array of nodes, changed in place
            return out
        ours = _FUNCTIONS.get(ufunc.__name__)
        raise TypeError(f"numpy.{ufunc.__name__} was given a traced value, expected numbers: use "
                        f"{f'nlink.{ours}' if ours else 'functions of nlink'}, or simulate with "
                        "traced=False")

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a traced value has no truth value: compare with nlink.less, combine truths with "
            "& | ~, choose with nlink.where, nlink.minimum, nlink.maximum, nlink.clip or "
            "nlink.sign, or simulate with traced=False")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | float | np.number):
            raise TypeError(
                "a traced value was compared with a number by ==, whose result is known later: "
                "use nlink.less or nlink.less_equal, or simulate with traced=False")
        return self is other

    __hash__ = object.__hash__

    def __float__(self) -> float:
        if self.op == "const":
            return self.value
        raise TypeError(f"{self!r} is a traced value, not a number: use nlink.sin, nlink.sqrt and "
                        "the other functions of nlink, not those of math, or simulate with "
                        "traced=False")

    __int__ = __index__ = __float__  # type: ignore[assignment]

    def _refuse_rounding(self, *_: Any) -> NoReturn:
        raise TypeError("round, //, % and the like were given a traced value, expected numbers: "
                        "use nlink.floor, or simulate with traced=False")

    __round__ = __floor__ = __ceil__ = __trunc__ = _refuse_rounding
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse_rounding
    __divmod__ = __rdivmod__ = _refuse_rounding

    def __repr__(self) -> str:
        if self.op == "const":
            return f"{self.value:g}"
        if self.op == "input":
            return str(self.name)
        return f"%{self.index} = {self.op}({', '.join(_short(a) for a in self.args)})"


def _python_number(x: Any) -> Any:
    """Not NumPy's, whose operators come here."""
    return x.item() if isinstance(x, np.generic) else x


_OPERATORS = {"add": python.add, "subtract": python.sub, "multiply": python.mul,
              "divide": python.truediv, "power": python.pow, "less": python.lt,
              "less_equal": python.le, "greater": python.gt, "greater_equal": python.ge,
              "bitwise_and": python.and_, "bitwise_or": python.or_}
"""Operators by the names of NumPy's functions for them."""
_FUNCTIONS = {"minimum": "minimum", "maximum": "maximum", "clip": "clip", "sign": "sign"} | {
    row.arrays.__name__: name for name, row in PRIMITIVES.items()
    if isinstance(row.arrays, np.ufunc)}
"""The functions of nlink by the names of NumPy's."""


def _method(name: str) -> Callable[..., Node]:
    return lambda self, *others: self.graph.primitive(name, self, *others)


for _theirs, _ours in _FUNCTIONS.items():  # np.sin of an array of nodes asks each for its sin
    if _ours in PRIMITIVES:
        setattr(Node, _theirs, _method(_ours))


def _short(node: Node) -> str:
    return repr(node) if node.op in ("const", "input") else f"%{node.index}"
