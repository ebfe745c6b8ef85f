"""Normal forms of traced programs: expressions as one would write them on a board.

Polynomials in sines and cosines are written over angles, cos(q_1 + q_2). Where a program
divides by sums, the denominators get names, Delta_1, Delta_2, ...; and where those are too
long to read, the factors or the inverse of a symmetric matrix are written as the elimination
that gives them [Saha99b, 45-48]: elements of M, pivots mhat, multipliers alpha and alpha'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations, combinations_with_replacement
from operator import add
from typing import TYPE_CHECKING, Any

from nlink.closed_forms.harmonics import Harmonics, rational
from nlink.closed_forms.ratios import Divisors, Ratio
from nlink.programs.program import Program
from nlink.scalars.graph import Node
from nlink.scalars.traversal import evaluate, reachable

if TYPE_CHECKING:
    import sympy

Definitions = tuple[tuple["sympy.Symbol", "sympy.Expr"], ...]

MOST_TERMS = 12
"""A numerator or denominator with more terms than this is no longer something to read."""
SIMPLE = 60
"""The largest denominator of a fraction that is easier to read than its decimals."""
_RATES = ("qd", "qdd")


def sympy_module() -> Any:
    """SymPy, or a sentence that says how to get it."""
    try:
        import sympy
    except ImportError:
        raise ImportError("closed forms need SymPy: pip install nlink[symbolic]") from None
    return sympy


@dataclass(frozen=True)
class ClosedForm:
    """Named parts in the order of their use, and one expression for each output element."""

    definitions: Definitions
    values: tuple[sympy.Expr, ...]

    def expanded(self) -> tuple[sympy.Expr, ...]:
        """The expressions without the names."""
        values = self.values
        for symbol, expression in reversed(self.definitions):
            values = tuple(value.subs(symbol, expression) for value in values)
        return values


def closed_form(program: Program) -> ClosedForm:
    """The normal form of a program's results.

    Raises OverflowError where it would be too long to read.
    """
    factors = Divisors()
    make = Ratio.maker(factors)
    bindings = {name: make(Harmonics.symbol(symbol_name(name)))
                for name in inputs(program.results)}
    values = [x if isinstance(x, Ratio) else make(x)
              for x in evaluate(program.results, bindings, make)]
    used = {k for value in values for k in value.powers}
    parts = [factors.polynomials[k] for k in used] + [value.top for value in values if used]
    matrix = _MATRICES.get(program.name)
    if matrix is not None and any(len(part.real_terms()) > MOST_TERMS for part in parts):
        return matrix(values, program.outputs[0].shape[0])
    return _quotients(values, factors, used)


def _quotients(values: list[Ratio], factors: Divisors, used: set[int]) -> ClosedForm:
    """Every denominator that is left has a name; numerators use the names too."""
    sp = sympy_module()
    tops = [factors.split(value.top) for value in values]
    used = used | {k for _, powers in tops for k in powers} if used else set()
    names = {k: sp.Symbol(f"Delta_{number}") for number, k in enumerate(sorted(used), 1)}
    if not used:
        tops = [(value.top, {}) for value in values]
    style = NumberStyle.of_harmonics(
        (*(factors.polynomials[k] for k in names), *(rest for rest, _ in tops)))
    definitions = tuple((symbol, harmonics_to_sympy(factors.polynomials[k], style))
                        for k, symbol in names.items())
    expressions = []
    for value, (rest, powers) in zip(values, tops, strict=True):
        above = sp.Mul(*(names[k]**p for k, p in powers.items()))
        below = sp.Mul(*(names[k]**p for k, p in value.powers.items()))
        expressions.append(harmonics_to_sympy(rest, style) * above / below)
    return ClosedForm(definitions, tuple(expressions))


def _factors_by_elimination(values: list[Ratio], n: int) -> ClosedForm:
    """U and D of M = U D U^T in terms of the elements of M."""
    U = [values[n * i:n * i + n] for i in range(n)]
    steps = _Elimination(_times_transposed(U, values[n * n:], lower=False))
    sp = sympy_module()
    upper = [steps.alpha.get((i, j), sp.Integer(int(i == j))) for i in range(n) for j in range(n)]
    return ClosedForm(tuple(steps.definitions), (*upper, *(steps.pivots[k] for k in range(n))))


def _inverse_by_elimination(values: list[Ratio], n: int) -> ClosedForm:
    """M^-1 = V^T D^-1 V with V = U^-1, in terms of the elements of M [Saha99b, 47-48].

    M is recovered from its inverse: the elimination of M^-1 from the front gives V and D^-1.
    """
    rows = [values[n * i:n * i + n] for i in range(n)]
    lower: list[list[Any]] = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    pivots = []
    for k in range(n):
        pivots.append(rows[k][k])
        for i in range(k + 1, n):
            ratio = lower[i][k] = rows[i][k] / rows[k][k]
            rows[i] = [a - ratio * b for a, b in zip(rows[i], rows[k], strict=True)]
    steps = _Elimination(_times_transposed(
        _unit_lower_inverse(lower), [1 / pivot for pivot in pivots], lower=True))
    primed = steps.primed()
    result = {}
    for i, j in combinations_with_replacement(range(n), 2):
        terms = (primed.get((k, i), int(k == i)) * primed.get((k, j), int(k == j))
                 / steps.pivots[k] for k in range(i + 1))
        result[i, j] = result[j, i] = sympy_module().Add(*terms)
    return ClosedForm(tuple(steps.definitions),
                      tuple(result[i, j] for i in range(n) for j in range(n)))


_MATRICES = {"factor_mass_matrix": _factors_by_elimination,
             "inverse_mass_matrix": _inverse_by_elimination}


class _Elimination:
    """Reverse Gaussian elimination of a symmetric matrix, its steps named."""

    def __init__(self, M: list[list[Ratio]]) -> None:
        sp = sympy_module()
        self.definitions: list[tuple[Any, Any]] = []
        n = len(M)
        style = NumberStyle.of_harmonics(element.top for row in M for element in row)
        elements = {(i, j): self._define(f"M_{i + 1}{j + 1}",
                                         harmonics_to_sympy(M[i][j].top, style))
                    for i, j in combinations_with_replacement(range(n), 2)}
        self.pivots: dict[int, Any] = {}
        self.alpha: dict[tuple[int, int], Any] = {}
        for k in reversed(range(n)):
            later = range(k + 1, n)
            self.pivots[k] = self._define(f"mhat_{k + 1}", sp.Add(elements[k, k], *(
                -self.pivots[x] * self.alpha[k, x]**2 for x in later)))
            for i in reversed(range(k)):
                left = sp.Add(elements[i, k], *(
                    -self.pivots[x] * self.alpha[i, x] * self.alpha[k, x] for x in later))
                self.alpha[i, k] = self._define(f"alpha_{i + 1}{k + 1}", left / self.pivots[k])

    def _define(self, name: str, expression: Any) -> Any:
        """A name for a part, unless it is a number."""
        if expression.is_number:
            return expression
        symbol = sympy_module().Symbol(name)
        self.definitions.append((symbol, expression))
        return symbol

    def primed(self) -> dict[tuple[int, int], Any]:
        """-alpha'_ij, the elements of U^-1 above its diagonal [Saha99b, 39]."""
        sp = sympy_module()
        n, result = len(self.pivots), {}
        for i, j in sorted(combinations(range(n), 2), key=lambda ij: ij[1] - ij[0]):
            between = range(i + 1, j)
            whole = sp.Add(self.alpha[i, j], *(result[i, x] * self.alpha[x, j] for x in between))
            known = not between or whole == self.alpha[i, j]
            result[i, j] = -(whole if known else self._define(f"alphap_{i + 1}{j + 1}", whole))
        return result


def _times_transposed(A: list[list[Any]], D: list[Any], *, lower: bool) -> list[list[Ratio]]:
    """A D A^T, or A^T D A if A is lower triangular; D as a list."""
    n = len(D)
    if lower:
        A = [list(column) for column in zip(*A, strict=True)]
    return [[reduce(add, (A[i][k] * D[k] * A[j][k] for k in range(n))) for j in range(n)]
            for i in range(n)]


def _unit_lower_inverse(L: list[list[Any]]) -> list[list[Any]]:
    n = len(L)
    X: list[list[Any]] = [[int(i == j) for j in range(n)] for i in range(n)]
    for i in range(n):
        for j in range(i):
            X[i][j] = -sum((L[i][k] * X[k][j] for k in range(j + 1, i)), L[i][j] * 1)
    return X


def inputs(results: tuple[Node, ...]) -> list[str]:
    return [node.name for node in reachable(results) if node.op == "input"]


def symbol_name(name: str) -> str:
    """q[0] is q_1 on paper; parameters keep their names."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", name)
    return f"{match[1]}_{int(match[2]) + 1}" if match else name


@dataclass(frozen=True)
class NumberStyle:
    """How the numbers of one form are written: 1/2 and 1/12, and 9.81 where `decimals` is false.

    A form with a number that needs a decimal point has `decimals`, in which 1/2 is 0.5 and 981/50
    is 19.62; 1/12, whose digits never end, stays. A value that is not finite is nan or oo.
    """

    decimals: bool

    @classmethod
    def of(cls, numbers: Iterable[float | Fraction]) -> NumberStyle:
        """The style of a form that has these numbers."""
        return cls(any(math.isfinite(x) and _fraction(x).denominator > SIMPLE for x in numbers))

    @classmethod
    def of_harmonics(cls, values: Iterable[Harmonics]) -> NumberStyle:
        return cls.of(c for value in values for c in value.real_terms().values())

    def __call__(self, x: float | Fraction) -> Any:
        sp = sympy_module()
        if not math.isfinite(x):
            return sp.sympify(float(x))
        fraction = _fraction(x)
        if fraction.denominator > SIMPLE or (self.decimals and _ends(fraction.denominator)):
            return sp.Float(float(x))
        return sp.Rational(fraction.numerator, fraction.denominator)

    def applied(self, expression: sympy.Expr) -> Any:
        """An expression whose common factors were taken out while its numbers were fractions."""
        sp = sympy_module()
        return expression.xreplace({x: sp.Float(float(x)) for x in expression.atoms(sp.Rational)
                                    if self.decimals and _ends(x.q)})


def _ends(denominator: int) -> bool:
    """Whether the digits of a fraction end, and it is no whole number."""
    return denominator > 1 and 10**denominator % denominator == 0


def _fraction(x: float | Fraction) -> Fraction:
    return x if isinstance(x, Fraction) else rational(x)


def harmonics_to_sympy(value: Harmonics, style: NumberStyle) -> sympy.Expr:
    """Collected twice: by products of rates, then by sine or cosine; coefficients factored."""
    sp = sympy_module()
    groups: dict[Any, dict[Any, Any]] = {}
    fractions = NumberStyle(decimals=False)
    for (monomial, kind, angle), c in sorted(value.real_terms().items(), key=lambda t: t[0]):
        rates = sp.Mul(*(sp.Symbol(n)**k for n, k in monomial if n.split("_")[0] in _RATES))
        rest = sp.Mul(*(sp.Symbol(n)**k for n, k in monomial if n.split("_")[0] not in _RATES))
        argument = sp.Add(*(k * sp.Symbol(n) for n, k in angle))
        trig = {"": lambda _: sp.Integer(1), "cos": sp.cos, "sin": sp.sin}[kind](argument)
        waves = groups.setdefault(rates, {})
        waves[trig] = waves.get(trig, 0) + fractions(c) * rest
    total = sp.Integer(0)
    for rates, waves in groups.items():
        wave = sp.Add(*(sp.factor_terms(coefficient) * trig for trig, coefficient in waves.items()))
        total += sp.factor_terms(wave, radical=False) * rates if rates != 1 else wave
    return style.applied(total)
