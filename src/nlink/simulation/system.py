"""A robot under a controller as a system of first order: ydot = f(t, y), traced.

The state is y = (q, qd) with qdot the tangent of the space of q (a quaternion's rate for
spherical and free joints) and qdd from forward dynamics; tau = controller(t, q, qd) is traced
into the same graph, so that it shares sines, poses and whatever else it has in
common with the dynamics.

The state may hold other velocities than qd (`velocities`): momenta for the symplectic method,
or quasi-velocities [Koz95]; a controller still sees qd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from nlink.backends.llvm.rates import RolledRates
from nlink.backends.llvm.threads import MAKING
from nlink.iterations.event_search import EventHandling
from nlink.iterations.integration import Integration, Method
from nlink.iterations.recording import RecordedIteration, record
from nlink.iterations.text import Shape
from nlink.iterations.triggers import Trigger
from nlink.programs.keys import key
from nlink.programs.program import Port, Program
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.tracing import run
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Graph, Node
from nlink.simulation.events import Margin, Watched
from nlink.simulation.variation import NOTHING, Varied
from nlink.simulation.velocities import VELOCITIES, JointRates

if TYPE_CHECKING:
    from nlink.backends.llvm.integrator import Integrator
    from nlink.backends.llvm.kernel import Compiled
    from nlink.compute.engines import Request
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot

Closing = Literal["project", "drift"] | float
"""What keeps loops closed: a projection after each step, nothing, or Baumgarte's terms with
this rate (1/s)."""

Controller = Callable[..., Any]
"""tau = controller(t, q, qd), or controller(t, q, qd, p) with parameters that vary, written with
+ - * / and the functions of nlink."""


def apply(robot: Robot, name: str, *columns: Scalars,
          algorithm: str | None = None, frame: int | str = -1) -> list[Scalar]:
    """An algorithm of a robot on any scalars: floats, or nodes inside a controller being traced.

    >>> import nlink
    >>> apply(nlink.load("planar3"), "gravity_torque", [0.0, 0.0, 0.0])
    [44.145, 19.62, 4.905]
    """
    return perform(robot.request(name, algorithm=algorithm, frame=frame), *columns)


def perform(request: Request, *columns: Scalars) -> list[Scalar]:
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


def evaluate_controller(controller: Controller, t: Scalar, q: Sequence[Scalar] | np.ndarray,
                        qd: Sequence[Scalar] | np.ndarray, n: int) -> list[Scalar]:
    """tau of a controller, checked: one number for each rate."""
    robot = getattr(controller, "robot", None)
    if robot is not None and (robot.nq, robot.n) != (len(q), len(qd)):
        raise ValueError(f"tau: a controller for {robot.name}, of {robot.nq} coordinates and "
                         f"{robot.n} rates, expected one for {len(q)} and {len(qd)}")
    kind = object if isinstance(t, Node) else float
    tau = controller(t, np.array(q, dtype=kind), np.array(qd, dtype=kind))
    values = [] if tau is None else list(np.asarray(tau, dtype=object).ravel())
    if len(values) != n:
        given = "None" if tau is None else f"{len(values)} value{'s' * (len(values) != 1)}"
        raise ValueError(f"tau: the controller gave {given}, expected {n} numbers")
    return values


_KEYS: WeakKeyDictionary[Robot, dict[str, str]] = WeakKeyDictionary()
"""Keys of what was traced already, by robot and all else that decides it."""


@dataclass(frozen=True)
class System:
    """What is integrated: a robot, a controller (None is free fall), or forces held in a table."""

    robot: Robot
    controller: Controller | None = None
    table: bool = False
    """Joint forces come from a table on the output times, linear in between."""
    velocity: JointRates = VELOCITIES["qd"]
    """What the state holds besides q."""
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
    def shape(self) -> Shape:
        robot = self.robot
        return Shape(robot.nq + robot.n, 2 * robot.n if self.table else 0, self.varied.width,
                     robot.nq)

    def iteration(self, method: Method) -> Integration:
        """What a driver runs: a method, around the programs of this system."""
        # held values, and states that must be closed, want a stop at every output
        dense = method.interpolates and not (method.compiles and self.table) and not self.projects
        events = EventHandling([each.trigger for each in self.watched]) if self.watched else None
        return Integration(method, dense=dense, restores=self.restores, events=events)

    def recorded(self, method: Method) -> RecordedIteration:
        """The statements of an iteration with a method; no program that it calls is traced."""
        cells = {"watch": len(self.watched),
                 "limited": sum(each.trigger.bounds for each in self.watched)}
        called = [name for name, needed in self._called().items() if needed]
        return record(self.iteration(method), {name: cells.get(name, 0) for name in called})

    def _called(self) -> dict[str, bool]:
        """What iterations call, and whether this one does."""
        return {"rates": True, "restore": self.restores, "watch": bool(self.watched),
                "limited": any(each.trigger.bounds for each in self.watched),
                "impact": any(each.trigger.action == "bounce" for each in self.watched)}

    def programs(self) -> dict[str, Program | RolledRates]:
        """All that an iteration calls, traced."""
        trace = {"rates": self.program, "restore": self.restore_program,
                 "watch": self.watch_program, "limited": self.limited_program,
                 "impact": self.impact_program}
        return {name: trace[name]() for name, needed in self._called().items() if needed}

    def _part(self, name: str, function: Callable[..., Scalars], inputs: int | None = None,
              gives: str = "column") -> Program:
        """A program of t, y and u."""
        graph, count = Graph(), self.shape.inputs if inputs is None else inputs
        y = [graph.input(f"y[{k}]") for k in range(self.shape.size)]
        u = [graph.input(f"u[{k}]") for k in range(count)]
        values = tuple(graph.lift(x) for x in function(graph.input("t[0]"), y, u))
        return Program(name, (Port("t", (1,)), Port("y", (len(y),)), Port("u", (count,))),
                       (Port(gives, (len(values),)),), values)

    @property
    def restores(self) -> bool:
        return self.projects or not self.robot.mechanism.space.flat

    @property
    def projects(self) -> bool:
        return bool(self.robot.mechanism.closures) and self.closing == "project"

    def request(self) -> Request:
        """Of the algorithm that makes the state change."""
        motion = self.velocity.motion
        if self.robot.mechanism.closures and isinstance(self.closing, float):
            return replace(self.robot.request(motion, algorithm="contact"), stiffness=self.closing)
        return self.robot.request(motion, algorithm=self.algorithm)

    def recipe(self) -> str:
        """A digest of all programs that are integrated."""
        control = None if self.controller is None else key(self.controller_program())
        watch = key(self.watch_program()) if self.watched else None
        limits = [(each.g, each.rate) for each in self.watched if each.trigger.bounds]
        here = repr((control, self.table, self.velocity, self.algorithm, self.closing, self.varied,
                     [each.trigger for each in self.watched], watch, limits, self.restitution))
        known = _KEYS.setdefault(self.robot, {})
        if here not in known:
            known[here] = key(self.shape, self.programs())
        return known[here]

    def controller_program(self) -> Program:
        """The controller alone: tau from t, q, qd and what varies."""
        graph, robot = Graph(), self.robot
        t = graph.input("t[0]")
        q = [graph.input(f"q[{k}]") for k in range(robot.nq)]
        qd = [graph.input(f"qd[{k}]") for k in range(robot.n)]
        own = [graph.input(f"own[{k}]") for k in range(self.varied.width)]
        assert self.controller is not None
        tau = evaluate_controller(self.varied.controller(self.controller, own), t, q, qd, robot.n)
        ports = [Port("t", (1,)), Port("q", (robot.nq,)), Port("qd", (robot.n,))]
        if own:
            ports.append(Port("own", (len(own),)))
        return Program("controller", tuple(ports), (Port("tau", (robot.n,)),),
                       tuple(graph.lift(x) for x in tau))

    def watch_program(self) -> Program:
        """The functions whose zeros are events, of t and y."""

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            q, qd = self.joint_rates(y, self.varied.mechanism(self.robot, u[self.shape.timed:]))
            where = [np.array(x, dtype=object) for x in (q, qd)]
            return [each(t, *where) for each in self.watched]

        return self._part("watch", values, gives="cells")

    def limited_program(self) -> Program:
        """The elements of the state that limits bound."""
        return self._part("limited", lambda t, y, u: [
            y[each.trigger.element] for each in self.watched if each.trigger.bounds],
            gives="cells")

    def impact_program(self) -> Program:
        """The state after an impact, of y before it and of which limit it is."""
        return self._part("impact", lambda t, y, u: self.after_impact(y, u), len(self.watched))

    def after_impact(self, y: Scalars, acts: Scalars) -> list[Scalar]:
        """The state after an impact on one of the limits that are watched, for which `acts` is
        1, else 0. The joint, e in the space of rates, is on its limit, and an impulse on it
        has turned its rate round: qd' = qd - (1 + restitution) (e . qd) / (e . M^-1 e) M^-1 e.
        """
        robot = self.robot
        q, qd = self.joint_rates(y)
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
        after = [v + x * impulse for v, x in zip(qd, c, strict=True)]
        return [*q, *self.velocity.from_rates(self._perform(robot.mechanism), q, after)]

    def joint_rates(self, y: Scalars, mechanism: Mechanism | None = None,
                    ) -> tuple[Scalars, Scalars]:
        """q and qd of a state."""
        q, v = y[:self.robot.nq], y[self.robot.nq:]
        perform = self._perform(mechanism or self.robot.mechanism)
        return q, self.velocity.to_rates(perform, q, v)

    def _perform(self, mechanism: Mechanism) -> Callable[..., list[Scalar]]:
        """Algorithms on a mechanism, by name; the one that makes the state change as asked for."""
        def run(name: str, *columns: Scalars) -> list[Scalar]:
            request = (self.request() if name == self.velocity.motion
                       else self.robot.request(name))
            return perform(replace(request, mechanism=mechanism), *columns)

        return run

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
        q, qd = self.joint_rates(y, mechanism)
        tau = self._forces(graph, t, q, qd, own)
        space = robot.mechanism.space
        velocity = space.tangent(q, qd)

        def part(name: str, values: Scalars) -> Program:
            return Program(name, (Port("t", (1,)), Port("y", (shape.size,)),
                                  Port("u", (shape.inputs,))), (Port("ydot", (len(values),)),),
                           tuple(graph.lift(x) for x in values))

        if request.rolled and self.velocity.rates is None and not self.varied.mechanical:
            loops = request.program()
            assert isinstance(loops, RolledProgram)
            return RolledRates(part("forces", tau), None if space.flat else part(
                "velocity", velocity), loops)
        return part("rates", (*velocity, *self.change(mechanism, q, rates, qd, tau)))

    def change(self, mechanism: Mechanism, q: Scalars, v: Scalars, qd: Scalars,
               tau: Scalars) -> Scalars:
        """dv/dt of the velocities that the state holds."""
        drag = [x for joint, own in zip(mechanism.joints, mechanism.split(qd, "nv"), strict=True)
                for x in joint.friction(own)]
        return self.velocity.derivative(self._perform(mechanism), q, v, qd, tau, drag)

    def restore_program(self) -> Program:
        """y with q in its space and loops closed, for a state that left them by an error of
        integration."""

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            robot = self.robot
            q, rates = robot.mechanism.space.normalize(y[:robot.nq]), y[robot.nq:]
            if not self.projects:
                return [*q, *rates]
            mechanism = self.varied.mechanism(robot, u[self.shape.timed:])
            return perform(replace(robot.request("project"), mechanism=mechanism), q, rates)

        return self._part("restore", values)

    def _forces(self, graph: Graph, t: Node, q: Scalars, qd: Scalars,
                own: list[Node]) -> list[Scalar]:
        n = self.robot.n
        if self.table:
            u = [graph.input(f"u[{k}]") for k in range(2 + 2 * n)]
            x = (t - u[0]) / (u[1] - u[0])
            return [a + (b - a) * x for a, b in zip(u[2:2 + n], u[2 + n:], strict=True)]
        if self.controller is not None:
            return evaluate_controller(self.varied.controller(self.controller, own), t, q, qd, n)
        return [0.0] * n


def kernel_of(system: System, method: Method, width: int) -> Integrator:
    """The integration kernel of a system: at hand, from the cache, or compiled now."""
    # what happens at events is a part of the iteration, not of the programs it calls
    wanted = system.recipe(), tuple(each.trigger for each in system.watched), method, width
    with MAKING:
        if wanted not in _KERNELS:
            while len(_KERNELS) >= KEPT:
                _KERNELS.pop(next(iter(_KERNELS)))
            _KERNELS[wanted] = _load(system, method, width)
        return _KERNELS[wanted]


def _load(system: System, method: Method, width: int) -> Integrator:
    from nlink.backends.llvm.integrator import Integrator
    from nlink.backends.llvm.loading import load_compiled

    iteration, recorded = system.iteration(method), system.recorded(method)

    def compile_now() -> Compiled:
        from nlink.backends.llvm.lanes import compile_iteration

        return compile_iteration(recorded, system.programs(), system.shape, width,
                                 dense=iteration.dense,
                                 evaluations=method.evaluations + method.stages)

    whole = key("iteration", width, iteration.dense, recorded.parts(), system.recipe())
    return load_compiled(whole, compile_now, Integrator)


KEPT = 32
"""Kernels kept in memory; the oldest go first."""
_KERNELS: dict[tuple[str, tuple[Trigger, ...], Method, int], Integrator] = {}
