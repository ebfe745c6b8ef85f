"""A robot under a control law as a system of first order: ydot = f(t, y), traced.

The state is y = (q, qd) with qdot = velocity(q, qd) of each joint (a quaternion's rate for
spherical and free joints) and qdd from forward dynamics; the law's tau = law(t, q, qd) is
traced into the same graph, so that it shares sines, poses and whatever else it has in
common with the dynamics.

For the symplectic method the state is (q, p) with the momenta p = M qd:

    qdot = M^-1 p,   pdot = tau - friction + C(q, qd)^T qd - g(q)

which are Hamilton's equations, since Mdot = C + C^T and d(T)/dq = C^T qd.

With quasi-velocities [Koz95] it is (q, nu) or (q, xi), and `quasi_motion` gives qd and nud at
once; a law still sees qd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from nlink.algorithms.trace import run
from nlink.compiler.rates import RolledRates
from nlink.compiler.states import Shape
from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Graph, Node, reachable
from nlink.scalars.program import Port, Program
from nlink.scalars.rolled_program import RolledProgram
from nlink.simulation.events import Margin, Watched
from nlink.simulation.variation import NOTHING, Varied

if TYPE_CHECKING:
    from nlink.compiler.integrator import Integrator
    from nlink.compiler.kernel import Compiled
    from nlink.engines import Request
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot

Closing = Literal["project", "drift"] | float
"""What keeps loops closed: a projection after each step, nothing, or Baumgarte's terms with
this rate (1/s)."""

Law = Callable[..., Any]
"""tau = law(t, q, qd), or law(t, q, qd, p) with parameters that vary, written with + - * / and
nlink.sin, cos, sqrt, sign."""

RATES_FROM = {"p": "solve", "nu": "rates_from_quasi_velocities",
              "xi": "rates_from_unnormalized_quasi_velocities"}
"""Velocities a state may hold instead of qd -> the algorithm that gives qd from q and them."""
RATES_TO = {"nu": "quasi_velocities", "xi": "unnormalized_quasi_velocities"}
"""The other way round."""
MOTION = {"nu": "quasi_motion", "xi": "unnormalized_quasi_motion"}
"""Quasi-velocities -> the algorithm of (q, nu, tau) -> (qd, nud)."""


def apply(robot: Robot, name: str, *columns: Sequence[Scalar],
          algorithm: str | None = None, frame: int | str = -1) -> list[Scalar]:
    """An algorithm of a robot on any scalars: floats, or nodes inside a law being traced.

    >>> import nlink
    >>> apply(nlink.load("planar3"), "gravity_torque", [0.0, 0.0, 0.0])
    [44.145, 19.62, 4.905]
    """
    return perform(robot.request(name, algorithm=algorithm, frame=frame), *columns)


def perform(request: Request, *columns: Sequence[Scalar]) -> list[Scalar]:
    """What a request asks for, on any scalars."""
    inputs, _ = request.ports
    if len(columns) != len(inputs):
        raise TypeError(f"{request.algorithm.name}: {len(columns)} arguments, expected "
                        f"{', '.join(port.name for port in inputs)}")
    for port, column in zip(inputs, columns, strict=True):
        if len(column) != port.size:
            raise ValueError(f"{port.name}: {len(column)} values, expected {port.size} "
                             f"for {request.algorithm.name}")
    mechanism = request.algorithm.prepare(request.mechanism)
    return run(request.algorithm, mechanism, request.options, columns)


def evaluate_law(law: Law, t: Scalar, q: Sequence[Scalar] | np.ndarray,
                 qd: Sequence[Scalar] | np.ndarray, n: int) -> list[Scalar]:
    """tau of a law, checked: one number a rate."""
    robot = getattr(law, "robot", None)
    if robot is not None and (robot.nq, robot.n) != (len(q), len(qd)):
        raise ValueError(f"tau: a control law for {robot.name}, of {robot.nq} coordinates and "
                         f"{robot.n} rates, expected one for {len(q)} and {len(qd)}")
    kind = object if isinstance(t, Node) else float
    tau = law(t, np.array(q, dtype=kind), np.array(qd, dtype=kind))
    values = list(np.asarray(tau, dtype=object).ravel())
    if len(values) != n:
        raise ValueError(f"tau: the control law gave {len(values)} values, expected {n}")
    return values


_RECIPES: WeakKeyDictionary[Robot, dict[tuple[str, str | None, Closing], str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class System:
    """What is integrated: a robot, a law (None is free fall), or forces held in a table."""

    robot: Robot
    law: Law | None = None
    table: bool = False
    """Joint forces come from a table on the output times, linear in between."""
    velocity: str = "qd"
    """What the state holds besides q: qd, or a key of `RATES_FROM`."""
    algorithm: str | None = None
    closing: Closing = "project"
    """How loops are kept closed."""
    varied: Varied = NOTHING
    """What each trajectory has of its own: the last elements of u."""
    watched: tuple[Watched, ...] = ()
    """Functions whose zeros are events."""
    restitution: float = 1.0
    """What of a joint's rate is left after an impact on its limit."""

    @property
    def dynamics(self) -> str:
        """The algorithm that makes the state change."""
        return MOTION.get(self.velocity, "forward_dynamics")

    @property
    def shape(self) -> Shape:
        robot = self.robot
        units, at = [], 0
        for joint in robot.mechanism.joints:
            at += joint.type.nq
            if joint.type.nq != joint.type.nv:
                units.append(at - 4)
        return Shape(robot.nq + robot.n, 2 * robot.n if self.table else 0, tuple(units),
                     self.varied.width, self._projects,
                     tuple(each.trigger for each in self.watched))

    @property
    def _projects(self) -> bool:
        return bool(self.robot.mechanism.closures) and self.closing == "project"

    def request(self) -> Request:
        """Of the algorithm that makes the state change."""
        if self.robot.mechanism.closures and isinstance(self.closing, float):
            return replace(self.robot.request(self.dynamics, algorithm="contact"),
                           stiffness=self.closing)
        return self.robot.request(self.dynamics, algorithm=self.algorithm)

    def recipe(self) -> str:
        """All that decides the program, as a digest."""
        known = _RECIPES.setdefault(self.robot, {})
        key = self.dynamics, self.algorithm, self.closing
        if key not in known:
            request = self.request()
            known[key] = f"{request.recipe()} {request.rolled}"
        law = "" if self.law is None else _digest(self.law_program().results)
        watch = _digest(self.watch_program().results) if self.watched else ""
        limits = [(each.g, each.rate) for each in self.watched if each.trigger.bounds]
        parts = ("rates", known[key], self.table, self.velocity, self._projects, law, self.varied,
                 self.shape.triggers, watch, limits, self.restitution if limits else None)
        return sha256(repr(parts).encode()).hexdigest()

    def law_program(self) -> Program:
        """The law alone: tau from t, q, qd and what varies."""
        graph, robot = Graph(), self.robot
        t = graph.input("t[0]")
        q = [graph.input(f"q[{k}]") for k in range(robot.nq)]
        qd = [graph.input(f"qd[{k}]") for k in range(robot.n)]
        own = [graph.input(f"own[{k}]") for k in range(self.varied.width)]
        assert self.law is not None
        tau = evaluate_law(self.varied.law(self.law, own), t, q, qd, robot.n)
        ports = [Port("t", (1,)), Port("q", (robot.nq,)), Port("qd", (robot.n,))]
        if own:
            ports.append(Port("own", (len(own),)))
        return Program("law", tuple(ports), (Port("tau", (robot.n,)),),
                       tuple(graph.lift(x) for x in tau))

    def event_programs(self) -> list[Program]:
        """What the loop calls because of events: `watch`, and `impact` if limits bounce."""
        bounce = any(each.trigger.action == "bounce" for each in self.watched)
        programs = [self.watch_program()] if self.watched else []
        return [*programs, self.impact_program()] if bounce else programs

    def watch_program(self) -> Program:
        """The functions whose zeros are events, of t and y."""
        graph, shape = Graph(), self.shape
        size, own = shape.size, [graph.input(f"u[{k}]") for k in range(shape.timed, shape.inputs)]
        q, qd = self._joint_rates([graph.input(f"y[{k}]") for k in range(size)],
                                  self.varied.mechanism(self.robot, own))
        where = [np.array(x, dtype=object) for x in (q, qd)]
        values = [each(graph.input("t[0]"), *where) for each in self.watched]
        return Program("watch", (Port("t", (1,)), Port("y", (size,)),
                                 Port("u", (self.shape.inputs,))), (Port("g", (len(values),)),),
                       tuple(graph.lift(x) for x in values))

    def impact_program(self) -> Program:
        """The state after an impact, of y before it and of which limit it is."""
        graph, size, count = Graph(), self.shape.size, len(self.watched)
        after = self.after_impact([graph.input(f"y[{k}]") for k in range(size)],
                                  [graph.input(f"u[{k}]") for k in range(count)])
        return Program("impact", (Port("t", (1,)), Port("y", (size,)), Port("u", (count,))),
                       (Port("after", (size,)),), tuple(graph.lift(x) for x in after))

    def after_impact(self, y: Sequence[Scalar], acts: Sequence[Scalar]) -> list[Scalar]:
        """The state after an impact on one of the limits that are watched, for which `acts` is
        1, else 0. The joint, e in the space of rates, is on its limit, and an impulse on it
        has turned its rate round: qd' = qd - (1 + restitution) (e . qd) / (e . M^-1 e) M^-1 e.
        """
        robot = self.robot
        q, qd = self._joint_rates(y, robot.mechanism)
        q, e = list(q), [0.0] * robot.n
        for each, act in zip(self.watched, acts, strict=True):
            if isinstance(each.g, Margin) and each.trigger.action == "bounce":
                e[each.rate] = e[each.rate] + act
                q[each.g.at] = q[each.g.at] * (1 - act) + each.g.bound * act
        # how the mechanism yields to a force on the joint, whatever holds it together: M^-1 e
        rest = [0.0] * robot.n
        pushed, still = (apply(robot, "forward_dynamics", q, rest, tau, algorithm=self.algorithm)
                         for tau in (e, rest))
        c = [a - b for a, b in zip(pushed, still, strict=True)]
        reach = sum((a * b for a, b in zip(e, c, strict=True)), 0.0)
        speed = sum((a * b for a, b in zip(e, qd, strict=True)), 0.0)
        impulse = -(1 + self.restitution) * speed / reach
        if self.velocity == "p":
            return [*q, *(p + a * impulse for p, a in zip(y[robot.nq:], e, strict=True))]
        after = [v + x * impulse for v, x in zip(qd, c, strict=True)]
        if self.velocity in RATES_TO:
            after = apply(robot, RATES_TO[self.velocity], q, after)
        return [*q, *after]

    def _joint_rates(self, y: Sequence[Scalar], mechanism: Mechanism,
                     ) -> tuple[Sequence[Scalar], Sequence[Scalar]]:
        """q and qd of a state."""
        q, rates = y[:self.robot.nq], y[self.robot.nq:]
        if self.velocity == "qd":
            return q, rates
        request = self.robot.request(RATES_FROM[self.velocity])
        return q, perform(replace(request, mechanism=mechanism), q, rates)

    def program(self) -> Program | RolledRates:
        """ydot from t, y and u, the latter (t0, t1, tau0, tau1) if there is a table, and then
        what varies."""
        robot, shape = self.robot, self.shape
        request = self.request()
        graph = Graph()
        t = graph.input("t[0]")
        y = [graph.input(f"y[{k}]") for k in range(shape.size)]
        rates = y[robot.nq:]
        own = [graph.input(f"u[{k}]") for k in range(shape.timed, shape.inputs)]
        mechanism = self.varied.mechanism(robot, own)
        q, qd = self._joint_rates(y, mechanism)
        tau = self._forces(graph, t, q, qd, own)
        velocity = [x for joint, own, rate in zip(
            robot.mechanism.joints, robot.mechanism.split(q, "nq"),
            robot.mechanism.split(qd, "nv"), strict=True) for x in joint.velocity(own, rate)]

        def part(name: str, values: Sequence[Scalar]) -> Program:
            return Program(name, (Port("t", (1,)), Port("y", (shape.size,)),
                                  Port("u", (shape.inputs,))), (Port("ydot", (len(values),)),),
                           tuple(graph.lift(x) for x in values))

        if request.rolled and self.velocity == "qd" and not self.varied.mechanical:
            loops = request.program()
            assert isinstance(loops, RolledProgram)
            return RolledRates(part("forces", tau), None if robot.nq == robot.n else part(
                "velocity", velocity), loops)
        change = self._momentum_rates(mechanism, q, qd, tau) if self.velocity == "p" else perform(
            replace(request, mechanism=mechanism), q, rates, tau)[-robot.n:]
        return part("rates", (*velocity, *change))

    def close(self) -> Program | None:
        """y with its loops closed, for a state that left them by an error of integration."""
        if not self._projects:
            return None
        robot, shape, graph = self.robot, self.shape, Graph()
        y = [graph.input(f"y[{k}]") for k in range(shape.size)]
        own = [graph.input(f"u[{k}]") for k in range(shape.timed, shape.inputs)]
        request = replace(robot.request("project"), mechanism=self.varied.mechanism(robot, own))
        closed = perform(request, y[:robot.nq], y[robot.nq:])
        return Program("close", (Port("t", (1,)), Port("y", (shape.size,)),
                                 Port("u", (shape.inputs,))), (Port("y", (shape.size,)),),
                       tuple(graph.lift(x) for x in closed))

    def _forces(self, graph: Graph, t: Node, q: Sequence[Scalar], qd: Sequence[Scalar],
                own: list[Node]) -> list[Scalar]:
        n = self.robot.n
        if self.table:
            u = [graph.input(f"u[{k}]") for k in range(2 + 2 * n)]
            x = (t - u[0]) / (u[1] - u[0])
            return [a + (b - a) * x for a, b in zip(u[2:2 + n], u[2 + n:], strict=True)]
        if self.law is not None:
            return evaluate_law(self.varied.law(self.law, own), t, q, qd, n)
        return [0.0] * n

    def _momentum_rates(self, mechanism: Mechanism, q: Sequence[Scalar], qd: Sequence[Scalar],
                        tau: Sequence[Scalar]) -> list[Scalar]:
        n = self.robot.n
        C, g = (perform(replace(self.robot.request(name), mechanism=mechanism), *columns)
                for name, columns in (("coriolis_matrix", (q, qd)), ("gravity_torque", (q,))))
        drag = [x for joint, own in zip(mechanism.joints, mechanism.split(qd, "nv"), strict=True)
                for x in joint.friction(own)]
        return [tau[k] - drag[k] - g[k] + sum((C[i * n + k] * qd[i] for i in range(n)), 0.0)
                for k in range(n)]


def _digest(nodes: Sequence[Node]) -> str:
    """All that a traced program computes, as a digest."""
    lines = [(n.op, [a.index for a in n.args], repr(n.value), n.name, n.index)
             for n in reachable(nodes)]
    return sha256(repr((lines, [n.index for n in nodes])).encode()).hexdigest()


def kernel_of(system: System, method: str, width: int) -> Integrator:
    """The integration kernel of a system: at hand, from the cache, or compiled now."""
    from nlink.compiler.integrator import Integrator
    from nlink.compiler.loading import load_compiled

    recipe = f"integrate {method} {width} {system.recipe()}"
    if recipe not in _KERNELS:

        def compile_now() -> Compiled:
            from nlink.compiler.integrate import compile_integration
            from nlink.simulation.methods import METHODS

            return compile_integration(system.program(), METHODS[method], system.shape, width,
                                       system.close(), system.event_programs())

        while len(_KERNELS) >= KEPT:
            _KERNELS.pop(next(iter(_KERNELS)))
        _KERNELS[recipe] = load_compiled(recipe, compile_now, Integrator)
    return _KERNELS[recipe]


KEPT = 32
"""Kernels kept in memory; the oldest go first."""
_KERNELS: dict[str, Integrator] = {}
