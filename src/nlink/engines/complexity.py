"""Operation counts: measured on the text of an algorithm, beside the published ones.

A count is of the operations left in the traced graph. `customize=True` counts them for one
robot, its constants folded; `customize=False` for any robot of its shape, what depends on
parameters alone being off-line, which is how the papers count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise, zip_longest

from nlink.algorithms.catalogue import FEW_FOR_COUNTING, Algorithm, Options
from nlink.model.joints import JOINT_TYPES
from nlink.model.mechanism import NO_TURN, Attachment, Mechanism, MovingJoint
from nlink.model.parameters import generic
from nlink.programs.products import find, formulations, split_name
from nlink.programs.tracing import ports, run_text, trace
from nlink.robot import Robot, expect_robot
from nlink.scalars.counting import Count, Counted, count_program
from nlink.spatial import Matrix, RigidInertia, Vector


def count(robot: Robot, name: str = "inverse_dynamics", algorithm: str | None = None, *,
          customize: bool = True, shared: bool = True) -> Count:
    """Operations of an algorithm for a robot.

    `customize=False` counts the general-purpose algorithm for mechanisms of this shape.
    `shared=False` counts the algorithm as written, before common subexpressions are shared.

    >>> import nlink
    >>> robot = nlink.load("puma560")
    >>> str(nlink.count(robot)), str(nlink.count(robot, "inverse_dynamics_vjp"))
    ('175M 142A', '437M 362A')
    """
    request = expect_robot(robot).request(name, algorithm=algorithm)
    mechanism = request.mechanism
    if not shared:
        if split_name(name):
            raise ValueError(f"shared: False, but {name} is written by the graph, which shares")
        return _count_written(request.algorithm, mechanism, request.options, customize)
    lift = None if customize else lambda graph, m: generic(m, graph.parameter)
    return count_program(trace(request.algorithm, mechanism, request.options, lift=lift))


def count_rivals(robot: Robot, name: str) -> dict[str, Count]:
    """Operations of the formulations that compete with the chosen one, for robots of few joints."""
    if len(robot.mechanism.joints) > FEW_FOR_COUNTING:
        return {}
    chosen = robot.request(name).algorithm.formulation
    known = formulations(name, loops=robot.description.closed)
    return {formulation: count(robot, name, formulation) for formulation, entry in known.items()
            if entry.counted and formulation != chosen and not entry.refuses(robot.mechanism)}


def _count_written(algorithm: Algorithm, mechanism: Mechanism, options: Options,
                   customize: bool) -> Count:
    tally: Counter[str] = Counter()
    if not customize:
        mechanism = generic(mechanism, lambda _name: Counted(tally, offline=True))
    mechanism = algorithm.prepare(mechanism)
    inputs, _ = ports(algorithm, mechanism, wrenches=False)
    run_text(algorithm, mechanism, options, [[Counted(tally)] * port.size for port in inputs])
    return Count(**tally)


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
        return cls(_trimmed(total))

    def __add__(self, other: Polynomial) -> Polynomial:
        pairs = zip_longest(self.coefficients, other.coefficients, fillvalue=Fraction(0))
        return Polynomial(_trimmed([a + b for a, b in pairs]))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + Polynomial(tuple(-c for c in other.coefficients))

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


def _trimmed(coefficients: list[Fraction]) -> tuple[Fraction, ...]:
    """Without zeros at the highest powers."""
    while len(coefficients) > 1 and coefficients[-1] == 0:
        coefficients.pop()
    return tuple(coefficients)


@dataclass(frozen=True, slots=True)
class Cost:
    """Multiplications, with divisions and square roots, and additions as polynomials in n."""

    mul: Polynomial
    add: Polynomial

    @classmethod
    def of(cls, mul: Sequence[int | str], add: Sequence[int | str]) -> Cost:
        """From coefficients, the highest power first."""
        return cls(Polynomial.of(*mul), Polynomial.of(*add))

    @property
    def total(self) -> Polynomial:
        return self.mul + self.add

    def at(self, n: int) -> tuple[int, int]:
        return round(self.mul(n)), round(self.add(n))

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.mul + other.mul, self.add + other.add)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.mul - other.mul, self.add - other.add)

    def __str__(self) -> str:
        return f"({self.mul})M ({self.add})A"


@dataclass(frozen=True, slots=True)
class CostFormula:
    """A count as a function of the number of joints of a serial chain."""

    mul: Polynomial
    add: Polynomial
    div: Polynomial
    sqrt: Polynomial
    least: int
    """The formula is exact from this n on; shorter chains may cost less."""

    @classmethod
    def through(cls, counts: Mapping[int, Count], what: str) -> CostFormula:
        """Polynomials through the counts of several lengths; the longest must be predicted."""
        *lengths, longest = sorted(counts)
        fits = {}
        for kind in ("mul", "add", "div", "sqrt"):
            fit = Polynomial.through({n: getattr(counts[n], kind) for n in lengths})
            if len(fit.coefficients) > 4 or fit(longest) != getattr(counts[longest], kind):
                raise ArithmeticError(f"{what}: the {kind} count is no cubic formula in n")
            fits[kind] = fit
        return cls(**fits, least=lengths[0])

    @property
    def cost(self) -> Cost:
        return Cost(self.mul + self.div + self.sqrt, self.add)

    def __call__(self, n: int) -> Count:
        return Count(int(self.mul(n)), int(self.add(n)), int(self.div(n)), int(self.sqrt(n)))

    def __str__(self) -> str:
        extra = "".join(f" ({p}) {name}" for name, p in (("div", self.div), ("sqrt", self.sqrt))
                        if any(p.coefficients))
        return f"({self.mul})M ({self.add})A{extra}"


def cost_formula(name: str = "inverse_dynamics", algorithm: str | None = None,
                 joint: str = "revolute", least: int = 4) -> CostFormula:
    """The exact general-purpose cost of an algorithm for serial chains of `least` joints or more.

    Counts of several lengths are fitted by polynomials; a fit through more points than its
    degree needs, that also predicts a longer chain, is the formula.

    >>> str(cost_formula("inverse_dynamics"))
    '(81n-97)M (69n-88)A'
    """
    return _fitted(find(name, algorithm), joint, least)


@cache
def _fitted(entry: Algorithm, joint: str, least: int) -> CostFormula:
    last = least + 5
    return CostFormula.through({n: count_chain(n, entry, joint)
                                for n in (*range(least, last), last + 3)}, entry.name)


def count_chain(n: int, algorithm: Algorithm, joint: str = "revolute",
                change: Callable[[Mechanism], Mechanism] = lambda mechanism: mechanism) -> Count:
    """Operations for any chain of n equal joints, or any that `change` leaves of its structure."""
    kind = JOINT_TYPES[joint]()
    element = MovingJoint(kind, Vector.zero(), (), NO_TURN, 0, (0,) * kind.nq, RigidInertia.zero(),
                          *((0,) * kind.nv,) * 5)
    here = Attachment(0, Matrix.identity(), Vector.zero())
    links = tuple(Attachment(i, Matrix.identity(), Vector.zero()) for i in range(n + 1))
    chain = Mechanism((element,) * n, tuple(range(n)), Vector.zero(), here, links)
    return count_program(trace(algorithm, chain, Options(links[-1:], links),
                               lift=lambda graph, m: change(generic(m, graph.parameter))))


@dataclass(frozen=True, slots=True)
class Published:
    """A row of a paper's complexity table; divisions are counted as multiplications."""

    algorithm: str
    cost: Cost
    note: str = ""


INVERSE_DYNAMICS_TABLE = (
    Published("Hollerbach (1980)", Cost.of((412, -277), (320, -201))),
    Published("Luh et al. (1980)", Cost.of((150, -48), (131, 48))),
    Published("Walker and Orin (1982)", Cost.of((137, -22), (101, -11))),
    Published("RIDIM (Saha 1999)", Cost.of((120, -44), (97, -55))),
    Published("Khalil et al. (1986)", Cost.of((105, -92), (94, -86))),
    Published("Angeles et al. (1989)", Cost.of((105, -109), (90, -105))),
    Published("Balafoutis et al. (1988)", Cost.of((93, -69), (81, -65))),
)
"""[Saha99] Table 1."""
