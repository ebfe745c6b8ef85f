"""LLVM IR as text: a function being written, and arithmetic on one or several lanes.

Text, not `llvmlite.ir` objects: it is what one reads when a kernel is slow, it is
written ten times faster, and it needs no import until it is compiled.

Code that is written once and run several times: counted, or while a condition holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from nlink.backends.llvm.precision import FLOAT64, Precision

ATTRIBUTES = 'nounwind "no-stack-arg-probe" "no-trapping-math"="true"'
"""No unwinding and no stack probe: object code that refers to no symbol outside itself, but for
the functions of the mathematics library."""

LIBRARY = "nlink_library_"
"""Before the name of a function of the mathematics library: a symbol that `host` resolves."""


@dataclass(frozen=True, slots=True)
class Target:
    """The properties of the host that emitters need."""

    width: int
    """Numbers in a vector register."""
    fma: bool
    """Whether the hardware has fused multiply-add (a library call would be ruinous)."""
    precision: Precision = FLOAT64

    @property
    def vector(self) -> int:
        """Bytes of a vector register."""
        return self.width * self.precision.size

    def computing(self, precision: Precision) -> Target:
        """The same hardware with numbers of another width."""
        return replace(self, width=self.vector // precision.size, precision=precision)


@dataclass(slots=True)
class Function:
    """The body of one LLVM function, written top to bottom."""

    lines: list[str] = field(default_factory=list)
    label: str = "entry"
    _count: int = 0
    constants: dict[str, str] = field(default_factory=dict)
    """Definitions the function needs, by name; see `once`."""

    def fresh(self, stem: str = "") -> str:
        self._count += 1
        return f"{stem or 't'}{self._count}"

    def do(self, text: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {text}")

    def let(self, text: str) -> str:
        """An instruction with a value, and the value's name."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def begin(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def go(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str, *, unlikely: bool = False) -> None:
        weights = ", !prof !0" if unlikely else ""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}{weights}")

    def phi(self, kind: str, *arms: tuple[str, str]) -> str:
        return self.let(f"phi {kind} " + ", ".join(f"[ {v}, %{b} ]" for v, b in arms))

    def offset(self, pointer: str, offset: str | int) -> str:
        """A pointer some bytes further."""
        if offset == 0:
            return pointer
        return self.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def load(self, kind: str, pointer: str, offset: str | int = 0) -> str:
        return self.let(f"load {kind}, ptr {self.offset(pointer, offset)}, "
                        f"align {_alignment(kind)}")

    def store(self, kind: str, value: str, pointer: str, offset: str | int = 0) -> None:
        self.do(f"store {kind} {value}, ptr {self.offset(pointer, offset)}, "
                f"align {_alignment(kind)}")

    def define(self, signature: str) -> str:
        return "\n".join([*self.constants.values(), f"define {signature} {ATTRIBUTES} {{",
                          "entry:", *self.lines, "}", ""])


def _alignment(kind: str) -> int:
    """What an address of numbers is a multiple of: in vectors, too, it is that of one number."""
    return 4 if kind.rstrip(">").endswith(("float", "i32")) else 8


def once(ir: str) -> str:
    """A module in which what several functions define or declare is there once."""
    seen: set[str] = set()
    lines = []
    for line in ir.split("\n"):
        name = line.partition(" = ")[0] if line.startswith(("@", "declare")) else ""
        if not name or name not in seen:
            lines.append(line)
        seen.add(name)
    return "\n".join(lines)


MODULE_BREAK = "\n; the next module\n"
"""Between modules in one text that are compiled one after the other, and loaded together."""

COMMON = "; kernels have this module in common\n"
"""How a module begins that many kernels share: it is compiled once and kept."""

MODULE_TAIL = '!0 = !{!"branch_weights", i32 1, i32 100000}\n!1 = !{i32 1}\n'
"""The metadata that `Function.branch` and stores past the caches refer to."""


def number(value: float) -> str:
    """A double, exactly."""
    return FLOAT64.literal(value)


AVX = 32
"""Bytes of vectors that have no operands broadcast from memory, nor whole literals."""


@dataclass(frozen=True, slots=True)
class Constants:
    """Numbers in memory at `%data`, each in all lanes of a vector.

    AVX cannot broadcast an operand: LLVM would broadcast each literal to a register, from an
    absolute address of ten bytes, and spill that. A whole vector in memory is an operand itself.
    """

    width: int
    precision: Precision
    numbers: dict[float, int] = field(default_factory=dict)

    @classmethod
    def of(cls, target: Target) -> Constants | None:
        """Those of a target, if it needs them."""
        return cls(target.width, target.precision) if target.vector == AVX else None

    def offset(self, value: float) -> int:
        """Where a number is, in bytes."""
        return (self.precision.size * self.width
                * self.numbers.setdefault(value, len(self.numbers)))

    def to_bytes(self) -> bytes:
        return b"".join(self.width * self.precision.to_bytes(value) for value in self.numbers)


@dataclass(slots=True)
class Lanes:
    """Floating-point arithmetic on `width` lanes; every lane does what one lane would do.

    No fast-math flag is ever set, and where a product is fused into a sum is decided by
    the passes, so a scalar and a vector of it round alike.
    """

    function: Function
    width: int
    fma: bool
    constants: Constants | None = None
    """Where constants are read from; None if they are literals."""
    precision: Precision = FLOAT64

    @classmethod
    def on(cls, target: Target, width: int | None = None, constants: Constants | None = None,
           ) -> Lanes:
        """All lanes of a target, or so many, in a function of their own."""
        return cls(Function(), target.width if width is None else width, target.fma, constants,
                   target.precision)

    @property
    def real(self) -> str:
        return self.of(self.precision.real)

    @property
    def integer(self) -> str:
        return self.of(self.precision.integer)

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return self.precision.size

    @property
    def pitch(self) -> int:
        """Bytes of a vector."""
        return self.width * self.size

    @property
    def truth(self) -> str:
        return self.of("i1")

    def of(self, kind: str) -> str:
        return kind if self.width == 1 else f"<{self.width} x {kind}>"

    def splat(self, kind: str, text: str) -> str:
        """A literal in every lane."""
        if self.width == 1:
            return text
        return "<" + ", ".join([f"{kind} {text}"] * self.width) + ">"

    def const(self, value: float) -> str:
        # zero is a register cleared; and -0.0 would be found at its place
        if self.constants is None or value == 0.0 or math.isnan(value):
            return self.splat(self.precision.real, self.precision.literal(value))
        return self.function.load(self.real, "%data", self.constants.offset(value))

    def int(self, value: int) -> str:
        return self.splat(self.precision.integer, str(value))

    def broadcast(self, scalar: str) -> str:
        """A run-time number in every lane."""
        if self.width == 1:
            return scalar
        first = self.function.let(
            f"insertelement {self.real} poison, {self.precision.real} {scalar}, i32 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.function.let(f"shufflevector {self.real} {first}, {self.real} poison, {zeros}")

    def binary(self, op: str, a: str, b: str) -> str:
        return self.function.let(f"{op} {self.real} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        return self.binary("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.binary("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.binary("fmul", a, b)

    def neg(self, a: str) -> str:
        return self.function.let(f"fneg {self.real} {a}")

    def muladd(self, a: str, b: str, c: str) -> str:
        """a*b + c, with one rounding where the hardware can."""
        if not self.fma:
            return self.add(self.mul(a, b), c)
        return self.intrinsic("fma", a, b, c)

    def intrinsic(self, name: str, *args: str) -> str:
        suffix = self.precision.suffix
        suffix = suffix if self.width == 1 else f"v{self.width}{suffix}"
        typed = ", ".join(f"{self.real} {a}" for a in args)
        return self.function.let(f"call {self.real} @llvm.{name}.{suffix}({typed})")

    def compare(self, condition: str, a: str, b: str) -> str:
        return self.function.let(f"fcmp {condition} {self.real} {a}, {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        return self.function.let(
            f"select {self.truth} {condition}, {self.real} {a}, {self.real} {b}")

    def logic(self, op: str, a: str, b: str) -> str:
        """An operation on truths."""
        return self.function.let(f"{op} {self.truth} {a}, {b}")

    def in_doubles(self, written: Callable[..., str], *args: str) -> str:
        """What is written for doubles, `written(lanes, *args)`: narrower numbers are widened for
        it, and the result is rounded."""
        if self.precision == FLOAT64:
            return written(self, *args)
        f, real = self.function, self.real
        wide = replace(self, constants=None, precision=FLOAT64)
        value = written(wide, *(f.let(f"fpext {real} {a} to {wide.real}") for a in args))
        return f.let(f"fptrunc {wide.real} {value} to {real}")

    def library(self, name: str, *args: str) -> str:
        """A function of the mathematics library, called for one lane after the other."""
        return self.in_doubles(lambda lanes, *wide: lanes.of_library(name, *wide), *args)

    def of_library(self, name: str, *args: str) -> str:
        """The same for doubles, which the library's functions are of."""
        f, symbol = self.function, f"{LIBRARY}{name}"
        f.constants[symbol] = (f"declare double @{symbol}"
                               f"({', '.join(['double'] * len(args))}) nounwind")
        found = "poison"
        for k in range(self.width):
            each = [a if self.width == 1 else f.let(f"extractelement {self.real} {a}, i32 {k}")
                    for a in args]
            value = f.let(f"call double @{symbol}({', '.join(f'double {a}' for a in each)})")
            found = value if self.width == 1 else f.let(
                f"insertelement {self.real} {found}, double {value}, i32 {k}")
        return found

    def to_real(self, a: str) -> str:
        """Integers as the numbers nearest to them."""
        return self.function.let(f"sitofp {self.integer} {a} to {self.real}")

    def to_integer(self, a: str) -> str:
        """Numbers without what is behind the point."""
        return self.function.let(f"fptosi {self.real} {a} to {self.integer}")

    def bits(self, op: str, a: str, b: str) -> str:
        """An integer operation."""
        return self.function.let(f"{op} {self.integer} {a}, {b}")

    def as_bits(self, a: str) -> str:
        return self.function.let(f"bitcast {self.real} {a} to {self.integer}")

    def as_real(self, a: str) -> str:
        return self.function.let(f"bitcast {self.integer} {a} to {self.real}")

    def any(self, condition: str) -> str:
        """Whether a condition holds in any lane, as one i1."""
        if self.width == 1:
            return condition
        f, n = self.function, self.width
        word = f.let(f"bitcast {self.truth} {condition} to i{n}")
        return f.let(f"icmp ne i{n} {word}, 0")


def repeat(f: Function, count: int | str, carried: Sequence[tuple[str, str]],
           body: Callable[[str, list[str]], Sequence[str]]) -> list[str]:
    """`count` iterations that hand on values in registers; their values at the end.

    `carried` are types and initial values; `body(k, values)` emits iteration k.
    """

    def step(values: list[str]) -> list[str]:
        results = body(values[0], values[1:])
        return [f.let(f"add i64 {values[0]}, 1"), *results]

    return repeat_while(f, [("i64", "0"), *carried],
                        lambda values: f.let(f"icmp slt i64 {values[0]}, {count}"), step)[1:]


def repeat_while(f: Function, carried: Sequence[tuple[str, str]],
                 go_on: Callable[[list[str]], str],
                 body: Callable[[list[str]], Sequence[str]]) -> list[str]:
    """Iterations while a condition on the values that they hand on holds; the last values."""
    before, head, inside, after = f.label, f.fresh("head"), f.fresh("inside"), f.fresh("after")
    f.go(head)
    f.begin(head)
    names = [f"%{f.fresh('at')}" for _ in carried]
    place = len(f.lines)  # the phis are written here once the last values are known
    f.branch(go_on(names), inside, after)
    f.begin(inside)
    values = body(names)
    f.lines[place:place] = [
        f"  {name} = phi {kind} [ {first}, %{before} ], [ {value}, %{f.label} ]"
        for name, (kind, first), value in zip(names, carried, values, strict=True)]
    f.go(head)
    f.begin(after)
    return names
