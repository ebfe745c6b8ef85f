"""The primitives: every operation a traced program can hold, one row each.

A row says what an operation is everywhere: on floats, on arrays, its derivative, what it counts
as, in LLVM, in C and in SymPy. The graph, the engines, the compiler and the exports read this
table and list nothing themselves.

Comparisons are values. `less(a, b)` is a truth, truths combine by & | ~, and `where(c, a, b)`
chooses. NaN goes through everything but a choice: a comparison with NaN is false, and `where`
picks what its truth says.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nlink.scalars import scrambling

Scalar = Any
"""Anything with + - * / and the functions of `nlink.scalars.functions`; see
docs/adding-a-scalar.md."""
Scalars = Sequence[Scalar] | np.ndarray

_NUMBERS = (float, int, np.bool_)
_MANY = (np.ndarray, list, tuple)
_PLAIN = (float, int, complex, np.generic, *_MANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """An operation of fixed arity, with its meaning on every kind of scalar."""

    name: str
    arity: int
    floats: Callable[..., Any]
    """The value on Python's numbers: never an exception, nan and inf as IEEE has them."""
    arrays: Callable[..., Any]
    """The value on NumPy's arrays and numbers, complex ones where that makes sense."""
    partials: Callable[..., tuple[Scalar, ...]] | None = None
    """(*arguments, result) to the partial derivatives, on any scalar; None where they vanish."""
    counts: str | None = None
    """The field of `Count` it adds to; None costs nothing."""
    llvm: Callable[..., str]
    """(block, *arguments) to the LLVM value, see `nlink.backends.llvm.emit.Block`."""
    c: str
    """An expression of C99 with a place for each argument."""
    c_helper: str = ""
    """The definition of the C function it calls, if math.h has none."""
    wasm: str = ""
    """Words of WebAssembly with a place for each argument; without them the module gets a function
    from the text in `nlink.scalars.elementary`."""
    wasm_helper: str = ""
    """The body of the function that these words call; its one local is an i64."""
    sympy: Callable[..., Any]
    """(sympy, *arguments) to an expression."""
    operator: Callable[..., Any] | None = None
    """Python's operator, for those that every scalar has."""
    commutes: bool = False
    truths: int = 0
    """So many of the arguments, the first ones, are truths; the others are numbers."""
    is_truth: bool = False
    """Whether the result is a truth."""
    library: str = ""
    """The function of the mathematics library that compiled code calls, a lane at a time."""
    casadi: str = ""
    """CasADi's function; empty where Python's operator does it, or where CasADi has none."""
    apply: Callable[..., Scalar] = field(init=False, repr=False)
    """The value on any scalar."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "apply", self.operator or self._dispatch)

    def derivatives(self, *arguments: Scalar, result: Scalar) -> tuple[Scalar, ...]:
        """The partial derivatives; with respect to truths they are zero."""
        if self.partials is None:
            return (0.0,) * self.arity
        return (0.0,) * self.truths + self.partials(*arguments, result)

    def _dispatch(self, *arguments: Scalar) -> Scalar:
        """By the kind of the arguments: numbers, scalars with methods, SymPy, arrays."""
        for x in arguments:
            if not isinstance(x, _NUMBERS):
                break
        else:
            return self.floats(*arguments)
        own = [x for x in arguments if not isinstance(x, _PLAIN)]
        own.sort(key=lambda x: not hasattr(x, "change"))  # a dual number is made of the others
        if any(isinstance(x, _MANY) and (own or np.asarray(x).dtype == object)
               for x in arguments):
            return elementwise(self.apply, *arguments)
        for x in own:
            if hasattr(x, "apply_primitive"):
                return x.apply_primitive(self, *arguments)
            if hasattr(x, "free_symbols"):
                import sympy

                return self.sympy(sympy, *arguments)
            method = getattr(type(x), self.name, None)
            if method is not None:  # called on the class: the first argument may be a number
                return method(*arguments)
        return self.arrays(*arguments)


def elementwise(function: Callable[..., Any], *arguments: Any) -> Any:
    """A function of scalars on arrays and lists of them, broadcast as NumPy does it."""
    arrays = np.broadcast_arrays(*(np.asarray(x, dtype=object) for x in arguments))
    result = np.empty(arrays[0].shape, dtype=object)
    for index in np.ndindex(result.shape):
        result[index] = function(*(x[index] for x in arrays))
    return result[()]


def divide(a: Scalar, b: Scalar) -> Scalar:
    """a / b with IEEE results for floats: 1/0 is inf and 0/0 is nan, as in arrays and kernels."""
    try:
        return a / b
    except ZeroDivisionError:
        return math.copysign(math.inf, a) * math.copysign(1.0, b) if a and a == a else math.nan


def c_number(value: float) -> str:
    """A double as C99 has it, exactly."""
    if math.isnan(value):
        return "NAN"
    text = "INFINITY" if math.isinf(value) else repr(abs(value))
    return f"(-{text})" if math.copysign(1, value) < 0 else text


def on(name: str, *arguments: Scalar) -> Scalar:
    """A primitive by its name, on any scalar."""
    return PRIMITIVES[name].apply(*arguments)


def _total(function: Callable[..., float], ufunc: np.ufunc) -> Callable[..., float]:
    """A function of `math` that returns what NumPy does where `math` raises."""

    def total(*arguments: float) -> float:
        try:
            return function(*arguments)
        except (ValueError, OverflowError):
            with np.errstate(all="ignore"):
                return float(ufunc(*map(float, arguments)))

    return total


def _arithmetic(name: str, arity: int, meaning: Callable[..., Any], **columns: Any) -> Primitive:
    """A row whose meaning is one operator of Python for every scalar."""
    return Primitive(name=name, arity=arity, floats=meaning, arrays=meaning, operator=meaning,
                     sympy=lambda _, *arguments: meaning(*arguments), **columns)


def _library(name: str, arity: int, ufunc: np.ufunc, **columns: Any) -> Primitive:
    """A row whose values come from the mathematics library."""
    return Primitive(
        name=name, arity=arity, floats=_total(getattr(math, name), ufunc), arrays=ufunc,
        counts="trig", llvm=lambda block, *x: block.library(name, *x), library=name,
        casadi="power" if name == "pow" else name,
        c=f"{name}({', '.join(['{}'] * arity)})", **columns)


def _extreme(name: str, short: str, better: Callable[..., Any], ufunc: np.ufunc, condition: str,
             sign: str) -> Primitive:
    """`minimum` or `maximum`: the first argument where it is better or nan, else the second."""

    def partials(a: Scalar, b: Scalar, _: Scalar) -> tuple[Scalar, Scalar]:
        second = on("less", b, a) if better(0, 1) else on("less", a, b)
        return on("where", second, 0.0, 1.0), on("where", second, 1.0, 0.0)

    return Primitive(
        name=name, arity=2, counts="compare", partials=partials, casadi=f"f{short.lower()}",
        floats=lambda a, b: a if a != a or better(a, b) else b,
        arrays=lambda a, b: np.where(np.not_equal(a, a) | ufunc(a, b), a, b)[()],
        llvm=lambda block, a, b: block.select(
            block.compare("uno", a, a), a, block.select(block.compare(condition, a, b), a, b)),
        wasm=f"{{0}} {{1}} {{0}} {{1}} f64.{condition[1:]} {{0}} {{0}} f64.ne i32.or select",
        c=f"nlink_{name}({{}}, {{}})",
        c_helper=f"static double nlink_{name}(double a, double b)\n{{\n"
                 f"    return a != a || a {sign} b ? a : b;\n}}\n",
        sympy=lambda sp, a, b: getattr(sp, short)(a, b))


def _sign_llvm(block: Any, a: str) -> str:
    zero = block.const(0.0)
    # a itself where it is neither above nor below zero: 0 or nan
    below = block.select(block.compare("olt", a, zero), block.const(-1.0), a)
    return block.select(block.compare("ogt", a, zero), block.const(1.0), below)


def _truth(value: Any) -> np.bool_:
    """A truth of numbers: NumPy's, because ~ of Python's own is an integer."""
    return np.True_ if value else np.False_


def _choose(condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, bool | np.bool_):
        raise TypeError(f"where: the condition is {condition!r}, expected a truth, "
                        "such as nlink.less(a, b)")
    return a if condition else b


def _choose_arrays(condition: Any, a: Any, b: Any) -> Any:
    condition = np.asarray(condition)
    if condition.dtype != bool:
        raise TypeError(f"where: the condition is an array of {condition.dtype}, expected truths, "
                        "such as nlink.less(a, b)")
    return np.where(condition, a, b)[()]


BINADE = 2.0**52
"""How much `float_bits` grows from a number to its double."""
_BIT_RANGE = 2.0**63


def _float_bits(x: float) -> float:
    return x if x != x else float(struct.unpack("<q", struct.pack("<d", x))[0])


def _float_bits_arrays(x: Any) -> Any:
    x = np.asarray(x, dtype=float)
    return np.where(np.isnan(x), x, x.view(np.int64).astype(float))[()]


def _float_bits_llvm(block: Any, x: str) -> str:
    return block.select(block.compare("uno", x, x), x, block.to_real(block.as_bits(x)))


def _from_float_bits(y: float) -> float:
    return struct.unpack("<d", struct.pack("<q", int(y)))[0] if abs(y) < _BIT_RANGE else math.nan


def _from_float_bits_arrays(y: Any) -> Any:
    y = np.asarray(y, dtype=float)
    inside = np.abs(y) < _BIT_RANGE
    return np.where(inside, np.where(inside, y, 0.0).astype(np.int64).view(float), np.nan)[()]


def _from_float_bits_llvm(block: Any, y: str) -> str:
    # beyond 64 bits the conversion has no defined result
    inside = block.compare("olt", block.intrinsic("fabs", y), block.const(_BIT_RANGE))
    value = block.as_real(block.to_integer(block.select(inside, y, block.const(0.0))))
    return block.select(inside, value, block.const(math.nan))


def _binade(bits: Scalar) -> Scalar:
    """The power of two at or below a number, from its bits."""
    return on("from_float_bits", on("floor", bits * (1 / BINADE)) * BINADE)


def _float_bits_sympy(sp: Any, x: Any) -> Any:
    exponent = sp.floor(sp.log(x, 2))
    return 2**52 * (1022 + exponent + x / 2**exponent)


def _from_float_bits_sympy(sp: Any, y: Any) -> Any:
    exponent = sp.floor(y / 2**52)
    return 2**(exponent - 1023) * (1 + y / 2**52 - exponent)


PRIMITIVES: dict[str, Primitive] = {row.name: row for row in (
    _arithmetic("add", 2, operator.add, commutes=True, counts="add",
                wasm="{} {} f64.add", c="{} + {}",
                partials=lambda a, b, _: (1.0, 1.0),
                llvm=lambda block, a, b: block.add(a, b)),
    _arithmetic("sub", 2, operator.sub, counts="add", wasm="{} {} f64.sub", c="{} - {}",
                partials=lambda a, b, _: (1.0, -1.0),
                llvm=lambda block, a, b: block.sub(a, b)),
    _arithmetic("mul", 2, operator.mul, commutes=True, counts="mul",
                wasm="{} {} f64.mul", c="{} * {}",
                partials=lambda a, b, _: (b, a),
                llvm=lambda block, a, b: block.mul(a, b)),
    _arithmetic("div", 2, divide, counts="div", wasm="{} {} f64.div", c="{} / {}",
                partials=lambda a, b, y: (divide(1.0, b), -divide(y, b)),
                llvm=lambda block, a, b: block.binary("fdiv", a, b)),
    _arithmetic("neg", 1, operator.neg, wasm="{} f64.neg", c="-{}",
                partials=lambda a, _: (-1.0,),
                llvm=lambda block, a: block.neg(a)),
    Primitive(name="sin", arity=1, casadi="sin",
              floats=_total(math.sin, np.sin), arrays=np.sin, counts="trig",
              partials=lambda x, _: (on("cos", x),),
              llvm=lambda block, x: block.sin(x), c="sin({})", sympy=lambda sp, x: sp.sin(x)),
    Primitive(name="cos", arity=1, casadi="cos",
              floats=_total(math.cos, np.cos), arrays=np.cos, counts="trig",
              partials=lambda x, _: (-on("sin", x),),
              llvm=lambda block, x: block.cos(x), c="cos({})", sympy=lambda sp, x: sp.cos(x)),
    Primitive(name="sqrt", arity=1, casadi="sqrt",
              floats=_total(math.sqrt, np.sqrt), arrays=np.sqrt,
              counts="sqrt", partials=lambda x, y: (divide(0.5, y),),
              llvm=lambda block, x: block.intrinsic("sqrt", x), wasm="{} f64.sqrt", c="sqrt({})",
              sympy=lambda sp, x: sp.sqrt(x)),
    Primitive(name="sign", arity=1, casadi="sign",
              floats=lambda x: 1.0 if x > 0 else -1.0 if x < 0 else x,
              arrays=lambda x: np.sign(np.real(x)), counts="sign", llvm=_sign_llvm,
              wasm="f64.const 1 f64.const -1 {0} {0} f64.const 0 f64.lt select "
                   "{0} f64.const 0 f64.gt select",
              c="nlink_sign({})",
              c_helper="static double nlink_sign(double x)\n{\n"
                       "    return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;\n}\n",
              sympy=lambda sp, x: sp.sign(x)),
    Primitive(name="abs", arity=1, casadi="fabs", floats=abs, arrays=np.abs, counts="compare",
              partials=lambda x, _: (on("sign", x),),
              llvm=lambda block, x: block.intrinsic("fabs", x), wasm="{} f64.abs", c="fabs({})",
              sympy=lambda sp, x: sp.Abs(x)),
    Primitive(name="floor", arity=1, casadi="floor",
              floats=lambda x: float(np.floor(x)), arrays=np.floor,
              counts="compare", llvm=lambda block, x: block.intrinsic("floor", x),
              wasm="{} f64.floor", c="floor({})", sympy=lambda sp, x: sp.floor(x)),
    _library("exp", 1, np.exp, partials=lambda x, y: (y,), sympy=lambda sp, x: sp.exp(x)),
    _library("log", 1, np.log, partials=lambda x, _: (divide(1.0, x),),
             sympy=lambda sp, x: sp.log(x)),
    _library("tanh", 1, np.tanh, partials=lambda x, y: (1.0 - y * y,),
             sympy=lambda sp, x: sp.tanh(x)),
    _library("atan2", 2, np.arctan2, partials=lambda y, x, _: (
        divide(x, x * x + y * y), -divide(y, x * x + y * y)),
        sympy=lambda sp, y, x: sp.atan2(y, x)),
    _library("pow", 2, np.power, partials=lambda a, b, y: (
        b * on("pow", a, b - 1.0), on("where", on("less", 0.0, a), y * on("log", a), 0.0)),
        sympy=lambda sp, a, b: sp.Pow(a, b)),
    _extreme("minimum", "Min", operator.lt, np.less, "olt", "<"),
    _extreme("maximum", "Max", operator.gt, np.greater, "ogt", ">"),
    Primitive(name="less", arity=2, casadi="lt", is_truth=True, floats=lambda a, b: _truth(a < b),
              arrays=np.less, counts="compare",
              llvm=lambda block, a, b: block.compare("olt", a, b), wasm="{} {} f64.lt", c="{} < {}",
              sympy=lambda sp, a, b: sp.StrictLessThan(a, b)),
    Primitive(name="less_equal", arity=2, casadi="le",
              is_truth=True, floats=lambda a, b: _truth(a <= b),
              arrays=np.less_equal, counts="compare",
              llvm=lambda block, a, b: block.compare("ole", a, b),
              wasm="{} {} f64.le", c="{} <= {}",
              sympy=lambda sp, a, b: sp.LessThan(a, b)),
    Primitive(name="where", arity=3, casadi="if_else",
              truths=1, floats=_choose, arrays=_choose_arrays,
              partials=lambda c, a, b, _: (on("where", c, 1.0, 0.0), on("where", c, 0.0, 1.0)),
              counts="compare", llvm=lambda block, c, a, b: block.select(c, a, b),
              wasm="{1} {2} {0} select", c="{} ? {} : {}",
              sympy=lambda sp, c, a, b: sp.Piecewise((a, c), (b, True))),
    _arithmetic("logical_and", 2, operator.and_, casadi="logic_and",
                commutes=True, truths=2, is_truth=True,
                llvm=lambda block, a, b: block.logic("and", a, b),
                wasm="{} {} i32.and", c="{} && {}"),
    _arithmetic("logical_or", 2, operator.or_, casadi="logic_or",
                commutes=True, truths=2, is_truth=True,
                llvm=lambda block, a, b: block.logic("or", a, b),
                wasm="{} {} i32.or", c="{} || {}"),
    _arithmetic("logical_not", 1, operator.invert, casadi="logic_not", truths=1, is_truth=True,
                llvm=lambda block, a: block.logic("xor", a, block.splat("i1", "true")),
                wasm="{} i32.eqz", c="!{}"),
    Primitive(name="true", arity=0, is_truth=True, floats=lambda: np.True_,
              arrays=lambda: np.True_, llvm=lambda block: block.splat("i1", "true"),
              wasm="i32.const 1", c="1",
              sympy=lambda sp: sp.true),
    Primitive(name="false", arity=0, is_truth=True, floats=lambda: np.False_,
              arrays=lambda: np.False_, llvm=lambda block: block.splat("i1", "false"),
              wasm="i32.const 0", c="0",
              sympy=lambda sp: sp.false),
    Primitive(name="float_bits", arity=1, floats=_float_bits, arrays=_float_bits_arrays,
              partials=lambda x, y: (divide(BINADE, _binade(y)),), counts="compare",
              llvm=lambda block, x: block.in_doubles(_float_bits_llvm, x), c="nlink_float_bits({})",
              wasm="{0} {0} i64.reinterpret_f64 f64.convert_i64_s {0} {0} f64.ne select",
              c_helper="static double nlink_float_bits(double x)\n{\n    int64_t bits;\n"
                       "    memcpy(&bits, &x, 8);\n    return x != x ? x : (double)bits;\n}\n",
              sympy=_float_bits_sympy),
    Primitive(name="from_float_bits", arity=1, floats=_from_float_bits,
              arrays=_from_float_bits_arrays,
              partials=lambda x, _: (_binade(x) * (1 / BINADE),), counts="compare",
              llvm=lambda block, y: block.in_doubles(_from_float_bits_llvm, y),
              c="nlink_from_float_bits({})",
              wasm="{0} i64.trunc_sat_f64_s f64.reinterpret_i64 f64.const nan "
                   f"{{0}} f64.abs f64.const {_BIT_RANGE!r} f64.lt select",
              c_helper="static double nlink_from_float_bits(double y)\n{\n    int64_t bits;\n"
                       f"    double x;\n    if (!(fabs(y) < {_BIT_RANGE!r})) return NAN;\n"
                       "    bits = (int64_t)y;\n    memcpy(&x, &bits, 8);\n    return x;\n}\n",
              sympy=_from_float_bits_sympy),
    Primitive(name="scramble", arity=2, floats=scrambling.floats, arrays=scrambling.arrays,
              counts="compare", c="nlink_scramble({}, {})",
              llvm=lambda block, a, b: block.in_doubles(scrambling.llvm, a, b),
              c_helper=scrambling.C, wasm="{} {} call $scramble", wasm_helper=scrambling.WASM,
              sympy=scrambling.expression),
)}
"""All of them by name. `const` and `input` are the two kinds of leaves besides."""

FUSED: dict[str, Primitive] = {row.name: row for row in (
    _arithmetic("fma", 3, lambda a, b, c: a * b + c, c="{} * {} + {}",
                llvm=lambda block, a, b, c: block.muladd(a, b, c)),
    _arithmetic("fms", 3, lambda a, b, c: a * b - c, c="{} * {} - {}",
                llvm=lambda block, a, b, c: block.muladd(a, b, block.neg(c))),
    _arithmetic("fnma", 3, lambda a, b, c: c - a * b, c="{2} - {0} * {1}",
                llvm=lambda block, a, b, c: block.muladd(block.neg(a), b, c)),
    _arithmetic("fnms", 3, lambda a, b, c: -(a * b) - c, c="-({} * {}) - {}",
                llvm=lambda block, a, b, c: block.muladd(block.neg(a), b, block.neg(c))),
)}
"""What only the compiler's passes write: a product and a sum with one rounding where the host
can do it; on other scalars the rounding aside."""
