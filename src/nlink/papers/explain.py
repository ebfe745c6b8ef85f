"""The equation of motion of one joint, term by term, with what each term means.

[Koz95, 38-39]: tau = H Phi (M Phi* (H* qdd + a) + b) expands, for the force at joint k, into one
term for each joint's acceleration, one for each joint's bias acceleration a, and one for each
bias force b of a link beyond k. Each can be read from right to left: which body, moved how,
transported where, projected on which axis. Links are numbered from the base, not from the tip
as in the paper; derivatives are in link axes; weights, which the paper puts into b, are kept
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.padding import Padding

from nlink.algorithms.catalogue import QD, QDD, Q
from nlink.algorithms.diagonal_rates import twist_cross_twist, twist_cross_wrench
from nlink.algorithms.kinematics import twists
from nlink.algorithms.matrices import composites, path
from nlink.algorithms.sweep import Column, Unrolled
from nlink.closed_forms.expressions import Symbolic
from nlink.model.mechanism import MovingJoint
from nlink.model.parameters import named
from nlink.programs.program import Port, Program
from nlink.robot import Robot
from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Graph
from nlink.spatial import Twist, Vector, Wrench

if TYPE_CHECKING:
    from rich.console import Console

READABLE = 400
"""Longer expressions are not printed on a terminal."""
SHORT = 60
"""Nodes of a term that is readable without a normal form."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term of the equation: operators, reading, closed form ("" if too long to read)."""

    operators: str
    reading: str
    value: str

    def __str__(self) -> str:
        return f"{self.operators} = {self.value or 'a long expression'}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The force at one joint as a sum of terms that are not zero."""

    robot: str
    joint: int
    name: str
    terms: tuple[Term, ...]
    vanished: int
    """Terms that are zero for this robot."""

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {"robot": self.robot, "joint": self.joint, "name": self.name,
                "vanished": self.vanished,
                "terms": [{"operators": t.operators, "value": t.value, "reading": t.reading}
                          for t in self.terms]}

    def print(self, console: Console) -> None:
        """For a terminal."""
        console.print(f"{self.robot}, joint {self.joint} ({self.name})", style="bold")
        console.print(f"tau_{self.joint} is the sum of {len(self.terms)} terms [Koz95, 39], "
                      "links numbered from the base:\n")
        for number, term in enumerate(self.terms, 1):
            value = term.value if 0 < len(term.value) <= READABLE else (
                f"an expression of {len(term.value)} characters; --json prints it"
                if term.value else "a long expression")
            console.print(f"{number:>3}  {term.operators}", style="bold cyan")
            console.print(Padding(f"= {value}", (0, 2, 0, 5)))
            console.print(Padding(f"{term.reading}\n", (0, 2, 0, 5)), style="dim")
        if self.vanished:
            console.print(f"{self.vanished} more terms of the general equation are zero here.",
                          style="dim")


def explain(robot: Robot, joint: int, *, simplify: bool = True) -> Explanation:
    """The terms of tau at a joint (from 1) in symbols of the robot's own parameters.

    >>> import nlink
    >>> for term in explain(nlink.load("double_pendulum"), 2).terms[1:3]:
    ...     print(term)
    H(2) r(2) H*(2) qdd_2 = qdd_2*(Izz_2 + c_2**2*m_2)
    H(2) r(2) a(2) = -a_1*c_2*m_2*qd_1*qd_2*sin(q_2)
    """
    count = len(robot.mechanism.joints)
    if not 1 <= joint <= count:
        raise ValueError(f"joint: {joint}, expected a number from 1 to {count}")
    for each in robot.mechanism.joints:
        if each.type.nv != 1:
            raise ValueError(f"explain: a {each.type.name} joint has {each.type.nv} rates, "
                             "expected joints of one rate, as in the paper")
    graph = Graph()
    mechanism = named(robot.mechanism, graph.parameter)
    columns = [mechanism.split([graph.input(f"{name}[{k}]") for k in range(count)], "nv")
               for name in ("q", "qd", "qdd")]
    found = list(_terms(Unrolled(mechanism), joint - 1, *columns))
    inputs = tuple(Port(name, (count,)) for name, _ in (Q, QD, QDD))
    terms = []
    for operators, reading, value in found:
        node = graph.lift(value)
        if node.op == "const" and node.value == 0:
            continue
        program = Program("term", inputs, (Port("tau", ()),), (node,))
        form = _closed(program, simplify)
        if form != "0":
            terms.append(Term(operators, reading, form))
    names = [j.name for j in robot.joints if j.type.nv]
    return Explanation(robot.name, joint, names[joint - 1], tuple(terms),
                       len(found) - len(terms))


def _closed(program: Program, simplify: bool) -> str:
    """The closed form; a term that has no normal form is printed as traced, if it is short."""
    forms = Symbolic(program)
    try:
        return str((forms.simplified() if simplify else forms).values[0])
    except (ArithmeticError, OverflowError):
        return str(forms.values[0]) if len(program.live()) <= SHORT else ""


Found = tuple[str, str, Scalar]


def _terms(driver: Unrolled, k: int, q: Column, qd: Column, qdd: Column) -> Iterator[Found]:
    """(operators, reading, value) of every term at joint k (from 0)."""
    bodies, V = composites(driver, q), twists(driver, q, qd)
    inboard = list(path(driver, k))[::-1]
    beyond = [j for j in range(len(bodies)) if j != k and k in path(driver, j)]
    for j in (*inboard, *beyond):
        S = driver.joints[j].rate(q[j], qdd[j])
        yield _moved(driver, bodies, q, k, j, beyond, S, f"H*({j + 1}) qdd_{j + 1}",
                     f"accelerated by joint {j + 1}")
    for j in (*inboard, *beyond):
        s = driver.joints[j].rate(q[j], qd[j])
        yield _moved(driver, bodies, q, k, j, beyond, twist_cross_twist(V[j], s), f"a({j + 1})",
                     f"accelerated because joint {j + 1} moves on a link that moves itself")
    weights = _gravity(driver, q)
    for j in (k, *beyond):
        b = twist_cross_wrench(V[j], driver.joints[j].inertia @ V[j])
        yield _brought(driver, bodies, q, k, j, b, f"b({j + 1})",
                       f"the gyroscopic and centrifugal force of link {j + 1}")
    for j in (k, *beyond):
        weight = (driver.joints[j].inertia @ Twist(Vector.zero(), weights[j])) * -1
        yield _brought(driver, bodies, q, k, j, weight, f"g({j + 1})",
                       f"the support of link {j + 1}'s weight")
    joint, number = driver.joints[k], k + 1
    yield (f"friction_{number}", f"What friction in joint {number} takes.",
           joint.friction(qd[k])[0])
    yield (f"d_{number} qdd_{number}", f"The rotor of joint {number}, which only it accelerates.",
           joint.rotor(qdd[k])[0])


def _moved(driver: Unrolled, bodies: Column, q: Column, k: int, j: int, beyond: list[int],
           twist: Twist, symbol: str, how: str) -> Found:
    """What an acceleration at joint j needs at joint k: at the outer of the two joints stands
    the composite body r that both move."""
    outer = j if j in beyond else k
    for i in _between(driver, j, outer):
        twist = bodies[i].X.twist_to_child(twist)
    f = bodies[outer].I @ twist
    for i in _between(driver, k, outer)[::-1]:
        f = bodies[i].X.wrench_to_parent(f)
    carried = f" Phi*({j + 1}, {outer + 1})" if outer != j else ""
    brought = f"Phi({k + 1}, {outer + 1}) " if outer != k else ""
    reading = (f"{_composite(driver, outer)}, {how}"
               + (f", carried along to joint {outer + 1}" if carried else "")
               + (f"; its force taken to joint {k + 1}" if brought else "")
               + f"; projected on {_axis(driver.joints[k], k)}.")
    return (f"H({k + 1}) {brought}r({outer + 1}){carried} {symbol}", reading,
            driver.joints[k].project(q[k], f)[0])


def _brought(driver: Unrolled, bodies: Column, q: Column, k: int, j: int, f: Wrench,
             symbol: str, what: str) -> Found:
    """A force of link j at joint k."""
    for i in _between(driver, k, j)[::-1]:
        f = bodies[i].X.wrench_to_parent(f)
    brought = f"Phi({k + 1}, {j + 1}) " if j != k else ""
    reading = (what[0].upper() + what[1:] + (f", taken to joint {k + 1}" if brought else "")
               + f"; projected on {_axis(driver.joints[k], k)}.")
    return f"H({k + 1}) {brought}{symbol}", reading, driver.joints[k].project(q[k], f)[0]


def _between(driver: Unrolled, inner: int, outer: int) -> list[int]:
    """The links from the child of `inner` to `outer`, outward."""
    links = list(path(driver, outer))
    return links[:links.index(inner)][::-1]


def _gravity(driver: Unrolled, q: Column) -> Column:
    """The gravity vector in link axes."""
    def outward(joint: MovingJoint, parent: Vector, q):
        g = joint.transform(q).R.to_child(parent)
        return g, g

    return driver.outward(outward, driver.gravity, q)


def _composite(driver: Unrolled, k: int) -> str:
    links = [j + 1 for j in range(len(driver.joints)) if k in path(driver, j)]
    if len(links) == 1:
        return f"Link {links[0]}"
    return f"Links {_listed(links)} as one body"


def _listed(numbers: Iterable[int]) -> str:
    first, *rest = numbers
    if rest == list(range(first + 1, first + 1 + len(rest))):
        return f"{first} to {rest[-1]}"
    return ", ".join(map(str, (first, *rest)))


def _axis(joint: MovingJoint, k: int) -> str:
    return f"the axis of {joint.type.name} joint {k + 1}"
