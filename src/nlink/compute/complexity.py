"""Operation counts: measured on the text of an algorithm, beside the published ones.

A count is of the operations left in the traced graph. `customize=True` counts them for one
robot, its constants folded; `customize=False` for any robot of its shape, what depends on
parameters alone being off-line, which is how the papers count.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise

from nlink.algorithms.catalogue import Algorithm, Options, find
from nlink.model.joints import JOINT_TYPES
from nlink.model.mechanism import NO_TURN, Attachment, Mechanism, MovingJoint
from nlink.model.parameters import generic
from nlink.programs.tracing import ports, run_text, trace
from nlink.robot import Robot, expect_robot
from nlink.scalars.counting import Count, Counted, Tally, count_program
from nlink.spatial import Matrix, RigidInertia, Vector


def count(robot: Robot, name: str = "inverse_dynamics", algorithm: str | None = None, *,
          customize: bool = True, shared: bool = True) -> Count:
    """Operations of an algorithm for a robot.

    `customize=False` counts the general-purpose algorithm for mechanisms of this shape.
    `shared=False` counts the text as written, before common subexpressions are shared.

    >>> import nlink
    >>> str(nlink.count(nlink.load("puma560")))
    '175M 142A'
    """
    request = expect_robot(robot).request(name, algorithm=algorithm)
    mechanism = request.mechanism
    if not shared:
        return _count_written(request.algorithm, mechanism, request.options, customize)
    lift = None if customize else lambda graph, m: generic(m, graph.parameter)
    return count_program(trace(request.algorithm, mechanism, request.options, lift=lift))


def _count_written(algorithm: Algorithm, mechanism: Mechanism, options: Options,
                   customize: bool) -> Count:
    tally = Tally()
    if not customize:
        mechanism = generic(mechanism, lambda _name: Counted(tally, offline=True))
    mechanism = algorithm.prepare(mechanism)
    inputs, _ = ports(algorithm, mechanism, wrenches=False)
    run_text(algorithm, mechanism, options, [[Counted(tally)] * port.size for port in inputs])
    return Count(**vars(tally))


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A polynomial in n with rational coefficients, lowest power first."""

    coefficients: tuple[Fraction, ...]

    @classmethod
    def of(cls, *highest_first: int | str) -> Polynomial:
        return cls(tuple(Fraction(c) for c in reversed(highest_first)))

    @classmethod
    def through(cls, points: dict[int, int]) -> Polynomial:
        """The polynomial of least degree through all points (Newton's divided differences)."""
        xs = sorted(points)
        column = [Fraction(points[x]) for x in xs]
        basis, total = [Fraction(1)], [Fraction(0)] * len(xs)
        for k, x in enumerate(xs):
            for power, c in enumerate(basis):
                total[power] += column[0] * c
            basis = [a - x * b for a, b in zip([Fraction(0), *basis], [*basis, Fraction(0)],
                                               strict=True)]
            column = [(b - a) / (xs[j + k + 1] - xs[j])
                      for j, (a, b) in enumerate(pairwise(column))]
        while len(total) > 1 and total[-1] == 0:
            total.pop()
        return cls(tuple(total))

    def __call__(self, n: int) -> Fraction:
        return sum((c * n**k for k, c in enumerate(self.coefficients)), Fraction(0))

    def __str__(self) -> str:
        terms = ""
        for power in reversed(range(len(self.coefficients))):
            c = self.coefficients[power]
            if c:
                size = "" if abs(c) == 1 and power else str(abs(c))
                body = "" if power == 0 else "n" if power == 1 else f"n^{power}"
                gap = " " if "/" in size and body else ""
                terms += f"{'-' if c < 0 else '+' if terms else ''}{size}{gap}{body}"
        return terms or "0"


@dataclass(frozen=True, slots=True)
class CostFormula:
    """A count as a function of the number of joints of a serial chain."""

    mul: Polynomial
    add: Polynomial
    div: Polynomial
    sqrt: Polynomial
    least: int
    """The formula is exact from this n on; shorter chains may cost less."""

    def __call__(self, n: int) -> Count:
        return Count(int(self.mul(n)), int(self.add(n)), int(self.div(n)), int(self.sqrt(n)))

    def __str__(self) -> str:
        extra = "".join(f" ({p}) {name}" for name, p in (("div", self.div), ("sqrt", self.sqrt))
                        if any(p.coefficients))
        return f"({self.mul})M ({self.add})A{extra}"


@cache
def cost_formula(name: str = "inverse_dynamics", algorithm: str | None = None,
                 joint: str = "revolute", least: int = 4) -> CostFormula:
    """The exact general-purpose cost of an algorithm for serial chains of `least` joints or more.

    Counts of several lengths are fitted by polynomials; a fit through more points than its
    degree needs, that also predicts a longer chain, is the formula.

    >>> str(cost_formula("inverse_dynamics"))
    '(81n-97)M (69n-88)A'
    """
    last = least + 5
    counts = {n: _chain_count(n, name, algorithm, joint) for n in (*range(least, last), last + 3)}
    fits = {}
    for kind in ("mul", "add", "div", "sqrt"):
        fit = Polynomial.through({n: getattr(counts[n], kind) for n in range(least, last)})
        if len(fit.coefficients) > 4 or fit(last + 3) != getattr(counts[last + 3], kind):
            raise ArithmeticError(f"{name}: the {kind} count is no cubic formula in n")
        fits[kind] = fit
    return CostFormula(**fits, least=least)


def _chain_count(n: int, name: str, algorithm: str | None, joint: str) -> Count:
    entry = find(name, algorithm)
    kind = JOINT_TYPES[joint]()
    element = MovingJoint(kind, Vector.zero(), (), NO_TURN, 0, (0,) * kind.nq, RigidInertia.zero(),
                          (0,) * kind.nv, (0,) * kind.nv, (0,) * kind.nv)
    here = Attachment(0, Matrix.identity(), Vector.zero())
    links = tuple(Attachment(i, Matrix.identity(), Vector.zero()) for i in range(n + 1))
    chain = Mechanism((element,) * n, tuple(range(n)), Vector.zero(), here, links)
    return count_program(trace(entry, chain, Options(links[-1:], links),
                                lift=lambda graph, m: generic(m, graph.parameter)))


@dataclass(frozen=True, slots=True)
class Published:
    """A row of a paper's complexity table; divisions are counted as multiplications."""

    algorithm: str
    mul: Polynomial
    add: Polynomial
    note: str = ""

    @property
    def formula(self) -> str:
        return f"({self.mul})M ({self.add})A"

    def at(self, n: int) -> tuple[int, int]:
        return round(self.mul(n)), round(self.add(n))


INVERSE_DYNAMICS_TABLE = (
    Published("Hollerbach (1980)", Polynomial.of(412, -277), Polynomial.of(320, -201)),
    Published("Luh et al. (1980)", Polynomial.of(150, -48), Polynomial.of(131, 48)),
    Published("Walker and Orin (1982)", Polynomial.of(137, -22), Polynomial.of(101, -11)),
    Published("RIDIM (Saha 1999)", Polynomial.of(120, -44), Polynomial.of(97, -55)),
    Published("Khalil et al. (1986)", Polynomial.of(105, -92), Polynomial.of(94, -86)),
    Published("Angeles et al. (1989)", Polynomial.of(105, -109), Polynomial.of(90, -105)),
    Published("Balafoutis et al. (1988)", Polynomial.of(93, -69), Polynomial.of(81, -65)),
)
"""[Saha99] Table 1."""
