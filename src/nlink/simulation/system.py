"""A robot under a controller as a system of first order: ydot = f(t, y), traced.

The state is y = (q, qd, parts) with qdot the tangent of the space of q (a quaternion's rate for
spherical and free joints) and qdd from forward dynamics; tau = controller(t, q, qd) is traced
into the same graph, so that it shares sines, poses and whatever else it has in
common with the dynamics. Parts are what controllers remember: first those with rates of their
own, then those that change at jumps only.

The state may hold other velocities than qd (`velocities`): momenta for the symplectic method,
or quasi-velocities [Koz95]; a controller still sees qd.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from nlink.backends.llvm.rates import RolledRates
from nlink.backends.llvm.threads import MAKING
from nlink.iterations.event_search import EventHandling
from nlink.iterations.integration import Integration, Method
from nlink.iterations.recording import Gives, RecordedIteration, record
from nlink.iterations.sampling import Sampling
from nlink.iterations.switching import Switching
from nlink.iterations.text import Shape
from nlink.iterations.triggers import Trigger
from nlink.programs.keys import key
from nlink.programs.program import Port, Program
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.tracing import run
from nlink.scalars.functions import Scalar, Scalars, less, where
from nlink.scalars.graph import Graph, Node
from nlink.scalars.lazy import lazy
from nlink.simulation.control_scheme import Controller, ControlScheme, StatePart
from nlink.simulation.dry_friction import (
    Hybrid,
    Modes,
    smooth_friction,
    without_dry_friction,
)
from nlink.simulation.events import Margin, Watched
from nlink.simulation.variation import NOTHING, Varied
from nlink.simulation.velocities import VELOCITIES, JointRates
from nlink.spatial import Vector

if TYPE_CHECKING:
    from nlink.backends.llvm.host import Host
    from nlink.backends.llvm.integrator import Integrator
    from nlink.backends.llvm.kernel import Compiled
    from nlink.compute.engines import Request
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot

Array = np.ndarray
Closing = Literal["project", "drift"] | float
"""What keeps loops closed: a projection after each step, nothing, or Baumgarte's terms with
this rate (1/s)."""


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
    asks: bool = False
    """Whether Python is asked for joint forces at samples, rather than a traced program."""
    modes: Modes | None = None
    """The rates that rub, or that limits hold, if there are any."""
    stepwise: bool = False
    """Whether modes are decided in every step by the method, rather than at events."""
    width: float | None = None
    """Of smooth friction: the rate at which it is almost what dry friction is."""

    @property
    def shape(self) -> Shape:
        robot, parts = self.robot, self.parts
        return Shape(robot.nq + robot.n + sum(part.size for part in parts),
                     2 * robot.n if self.table else 0, self.varied.width, robot.nq,
                     sum(part.size for part in parts if part.discrete))

    def scheme(self, own: Sequence[Scalar] = ()) -> ControlScheme | None:
        """The controller, with the numbers that vary if they are given."""
        if self.controller is None:
            return None
        return ControlScheme.of(self.varied.controller(self.controller, own) if len(own)
                                else self.controller, self.robot.n)

    @property
    def event_names(self) -> list[str]:
        """What a log of events has numbers for: functions watched, and changes of modes."""
        moded = self.modes.rates if self.modes and not self.stepwise else ()
        return [*(each.name for each in self.watched),
                *(f"{each.name} {word}" for each in moded for word in each.words)]

    @lazy
    def sampling(self) -> Sampling | None:
        """When the controller acts; None if always."""
        scheme = self.scheme()
        return None if scheme is None or scheme.period is None else Sampling(
            scheme.period, self.asks)

    @lazy
    def parts(self) -> tuple[StatePart, ...]:
        """What the state has behind q and the velocities: what moves, then what only jumps."""
        scheme = self.scheme()
        found = () if scheme is None else scheme.parts
        if self.modes:
            found += (StatePart("holding", len(self.modes)),
                      StatePart("mode", len(self.modes), discrete=True))
        return tuple(sorted(found, key=lambda part: part.discrete))

    @property
    def remembered(self) -> slice:
        """Where a state has the parts of the controller, which lie side by side."""
        scheme, begin = self.scheme(), self.robot.nq + self.robot.n
        names = () if scheme is None else [part.name for part in scheme.parts]
        for part in self.parts:
            if part.name in names:
                break
            begin += part.size
        size = sum(part.size for part in self.parts if part.name in names)
        return slice(begin, begin + size)

    def split(self, y: Any) -> tuple[Any, Any, dict[str, Any]]:
        """q, the velocities, and the parts by name, of a state or of rows of states."""
        sizes = {"q": self.robot.nq, "v": self.robot.n} | {
            part.name: part.size for part in self.parts}
        found, at = {}, 0
        for name, size in sizes.items():
            found[name] = y[..., at:at + size] if isinstance(y, np.ndarray) else y[at:at + size]
            at += size
        return found.pop("q"), found.pop("v"), found

    def joined(self, q: Scalars, v: Scalars, parts: Mapping[str, Scalars]) -> list[Scalar]:
        """A state from what `split` gives."""
        return [*q, *v, *(x for part in self.parts for x in parts[part.name])]

    def iteration(self, method: Method) -> Integration:
        """What a driver runs: a method, around the programs of this system."""
        # held values, and states that must be closed, want a stop at every output, and a jump
        # leaves a method that remembers nothing to interpolate with
        dense = (method.interpolates and not (method.compiles and self.table)
                 and not self.projects and not (self.sampling and method.remembers))
        switching = Switching(impacts=self.holds) if self.modes and not self.stepwise else None
        method = method.with_modes() if self.stepwise else method
        events = EventHandling([each.trigger for each in self.watched], switching) if (
            self.watched or switching) else None
        return Integration(method, dense=dense, projects=self.projects, events=events,
                           sampling=self.sampling)

    def recorded(self, method: Method) -> RecordedIteration:
        """The statements of an iteration with a method; no program that it calls is traced."""
        gives = {"watch": Gives(False, len(self.watched)), "close": Gives(cells=1),
                 "limited": Gives(False, sum(each.trigger.bounds for each in self.watched))}
        called = {name: gives.get(name, Gives()) for name, needed in self._called().items()
                  if needed}
        if method.solves:
            called |= {"factor": Gives(shared=True), "solve": Gives()}
        return record(self.iteration(method), called, self.shape.discrete)

    def _called(self) -> dict[str, bool]:
        """What iterations call, and whether this one does."""
        return {"rates": True, "restore": self.restores, "close": self.projects,
                "watch": bool(self.watched),
                "sample": self.sampling is not None and not self.asks,
                **dict.fromkeys(("arrest", "propose", "slack"),
                                self.modes is not None and not self.stepwise),
                "advance": self.stepwise,
                **dict.fromkeys(("touch", "impulses", "collide"), self.holds),
                "limited": any(each.trigger.bounds for each in self.watched),
                "impact": any(each.trigger.action == "bounce" for each in self.watched)}

    def programs(self) -> dict[str, Program | RolledRates]:
        """All that an iteration calls, traced."""
        trace = {"rates": self.program, "restore": self.restore_program,
                 "close": self.close_program, "sample": self.sample_program,
                 **{name: partial(self.mode_program, name)
                    for name in ("arrest", "propose", "slack")},
                 "advance": self.advance_program,
                 **{name: partial(self.impact_of_limits, name)
                    for name in ("touch", "impulses", "collide")},
                 "watch": self.watch_program, "limited": self.limited_program,
                 "impact": self.impact_program}
        return {name: trace[name]() for name, needed in self._called().items() if needed}

    def _part(self, name: str, function: Callable[..., Scalars], cells: int = 0,
              gives: str = "column") -> Program:
        """A program of t, y and u, which are the inputs and then so many cells."""
        graph, count = Graph(), self.shape.inputs + cells
        y = [graph.input(f"y[{k}]") for k in range(self.shape.size)]
        u = [graph.input(f"u[{k}]") for k in range(count)]
        values = tuple(graph.lift(x) for x in function(graph.input("t[0]"), y, u))
        return Program(name, (Port("t", (1,)), Port("y", (len(y),)), Port("u", (count,))),
                       (Port(gives, (len(values),)),), values)

    @property
    def holds(self) -> bool:
        """Whether limits hold."""
        return any(each.trigger.action == "hold" for each in self.watched)

    @property
    def restores(self) -> bool:
        return not (self.projects or self.robot.mechanism.space.flat)

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
        control = None if self.controller is None or self.asks else key(self.controller_program())
        watch = key(self.watch_program()) if self.watched else None
        limits = [(each.g, each.rate) for each in self.watched if each.trigger.bounds]
        here = repr((control, self.parts, self.sampling, self.table, self.velocity,
                     self.algorithm, self.closing, self.varied, self.modes, self.width,
                     [each.trigger for each in self.watched], watch, limits, self.restitution))
        known = _KEYS.setdefault(self.robot, {})
        if here not in known:
            known[here] = key(self.shape, self.programs())
        return known[here]

    def controller_program(self, *, rates: bool = True) -> Program:
        """The controller alone: tau from t, q, qd, its state and what varies, and then the
        rates of its state."""
        graph, robot, scheme = Graph(), self.robot, self.scheme()
        assert scheme is not None
        sizes = {"t": 1, "q": robot.nq, "qd": robot.n, "x": scheme.size, "own": self.varied.width}
        columns = {name: [graph.input(f"{name}[{k}]") for k in range(size)]
                   for name, size in sizes.items()}
        scheme = self.scheme(columns.pop("own"))
        assert scheme is not None
        state = (columns.pop("t")[0], *columns.values())
        results = {"tau": scheme.tau(*state)}
        if rates and scheme.size:
            results["change"] = (scheme.rates if scheme.period is None else scheme.advance)(*state)
        return Program("controller", tuple(Port(name, (size,)) for name, size in sizes.items()
                                           if size),
                       tuple(Port(name, (len(values),)) for name, values in results.items()),
                       tuple(graph.lift(x) for values in results.values() for x in values))

    def sample_program(self) -> Program:
        """The state after a sample."""
        return self._part("sample", lambda t, y, u: self.after_sample(
            t, y, u[self.shape.timed:]))

    def after_sample(self, t: Scalar, y: Scalars, own: Sequence[Scalar]) -> list[Scalar]:
        """The state after the controller has seen it."""
        scheme = self.scheme(own)
        assert scheme is not None
        q, v, parts = self.split(y)
        q, qd = self.joint_rates(y, self.varied.mechanism(self.robot, own))
        mine = iter(scheme.sample(t, q, qd, [x for part in scheme.parts for x in parts[part.name]]))
        return self.joined(q, v, parts | {
            part.name: [next(mine) for _ in range(part.size)] for part in scheme.parts})

    def start(self, initial: Array, own: Array, begin: float) -> Array:
        """The states to start from: coordinates and velocities, and what the controller has
        there, the first sample taken if it is traced."""
        y = self.before_sample(initial)
        if self.sampling is None or self.asks:
            return y
        from nlink.backends.llvm.loading import load_kernel

        inputs = np.zeros((len(y), self.shape.inputs))
        inputs[:, self.shape.timed:] = own
        return load_kernel(self.sample_program())(np.full((len(y), 1), begin), y, inputs)

    def before_sample(self, initial: Array) -> Array:
        """Coordinates and velocities to start from, and what is remembered there."""
        scheme, count, at = self.scheme(), len(initial), 0
        mine = np.empty((count, 0)) if scheme is None else scheme.start(count)
        columns = {part.name: np.zeros((count, part.size)) for part in self.parts}
        for part in () if scheme is None else scheme.parts:
            columns[part.name], at = mine[:, at:at + part.size], at + part.size
        if self.modes:
            at = self.robot.nq + np.array([each.rate for each in self.modes.rates])
            columns["mode"] = np.sign(initial[:, at])
        return np.concatenate([initial, *columns.values()], axis=1)

    def watch_program(self) -> Program:
        """The functions whose zeros are events, of t and y."""

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            q, qd = self.joint_rates(y, self.varied.mechanism(self.robot, u[self.shape.timed:]))
            state = [np.array(x, dtype=object) for x in (q, qd)]
            return self.watch(t, state[0], state[1], self.split(y)[2].get("mode", ()))

        return self._part("watch", values, gives="cells")

    def watch(self, t: Scalar, q: Any, qd: Any, modes: Scalars) -> list[Scalar]:
        """What is watched; a limit that holds is not passed."""
        found = [each(t, q, qd) for each in self.watched]
        for k, each in enumerate(self.watched):
            if each.trigger.action == "hold":
                assert self.modes is not None
                (mode,) = [mode for moded, mode in zip(self.modes.rates, modes, strict=True)
                           if moded.rate == each.rate]
                found[k] = where(less(1.0, each.trigger.sign * mode), 1.0, found[k])
        return found

    def limited_program(self) -> Program:
        """The elements of the state that limits bound."""
        return self._part("limited", lambda t, y, u: [
            y[each.trigger.element] for each in self.watched if each.trigger.bounds],
            gives="cells")

    def impact_program(self) -> Program:
        """The state after an impact, of y before it and of which limit it is."""
        return self._part("impact", lambda t, y, u: self.after_impact(y, u[self.shape.inputs:]),
                          len(self.watched))

    def after_impact(self, y: Scalars, acts: Scalars) -> list[Scalar]:
        """The state after an impact on one of the limits that are watched, for which `acts` is
        1, else 0. The joint, e in the space of rates, is on its limit, and an impulse on it
        has turned its rate round: qd' = qd - (1 + restitution) (e . qd) / (e . M^-1 e) M^-1 e.
        """
        robot = self.robot
        (q, qd), (_, _, parts) = self.joint_rates(y), self.split(y)
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
        return self.joined(q, self.velocity.from_rates(self.performer(robot.mechanism), q, after),
                           parts)

    def joint_rates(self, y: Scalars, mechanism: Mechanism | None = None,
                    ) -> tuple[Scalars, Scalars]:
        """q and qd of a state."""
        q, v, _ = self.split(y)
        perform = self.performer(mechanism or self.robot.mechanism)
        return q, self.velocity.to_rates(perform, q, v)

    def performer(self, mechanism: Mechanism) -> Callable[..., list[Scalar]]:
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
        _, rates, parts = self.split(y)
        own = [graph.input(f"u[{k}]") for k in range(shape.timed, shape.inputs)]
        mechanism = self.varied.mechanism(robot, own)
        q, qd = self.joint_rates(y, mechanism)
        tau, further = self.forces(graph, t, q, qd, parts, own)
        tau = self.rubbed(mechanism, qd, tau)
        bare = self.bare(mechanism)
        space = robot.mechanism.space
        velocity = space.tangent(q, qd)

        def part(name: str, values: Scalars) -> Program:
            return Program(name, (Port("t", (1,)), Port("y", (shape.size,)),
                                  Port("u", (shape.inputs,))), (Port("ydot", (len(values),)),),
                           tuple(graph.lift(x) for x in values))

        if self.modes:
            qdd, holding = self.modes.moving(self._hybrid(mechanism), mechanism, q, qd, tau,
                                             parts["mode"])
            return part("rates", (*velocity, *qdd, *self.with_holding(further, holding)))
        if request.rolled and self.velocity.rates is None and not self.varied.mechanical:
            loops = replace(request, mechanism=bare).program()
            assert isinstance(loops, RolledProgram)
            return RolledRates(part("forces", tau), None if space.flat else part(
                "velocity", velocity), loops, part("further", further) if further else None)
        return part("rates", (*velocity, *self.change(bare, q, rates, qd, tau), *further))

    def bare(self, mechanism: Mechanism) -> Mechanism:
        """What algorithms see: friction as it is, or viscous alone where dry friction is the
        business of the system."""
        return mechanism if self.width is None else without_dry_friction(mechanism)

    def rubbed(self, mechanism: Mechanism, qd: Scalars, tau: Scalars) -> Scalars:
        """Joint forces less smooth friction, if that is asked for."""
        if self.width is None:
            return tau
        return [t - x for t, x in zip(tau, smooth_friction(mechanism, qd, self.width),
                                      strict=True)]

    def with_holding(self, further: Scalars, holding: Scalars) -> list[Scalar]:
        """The rates of all parts, those of the holding forces behind what else moves."""
        moving = sum(part.size for part in self.parts if not part.discrete) - len(holding)
        return [*further[:moving], *holding, *[0.0] * self.shape.discrete]

    def _hybrid(self, mechanism: Mechanism) -> Hybrid:
        """Hybrid dynamics of a mechanism, with viscous friction alone."""
        n, bare = self.robot.n, without_dry_friction(mechanism)
        request = replace(self.robot.request("hybrid_dynamics"), mechanism=bare)

        def hybrid(*columns: Scalars) -> tuple[Scalars, Scalars]:
            found = perform(request, *columns)
            return found[:n], found[n:]

        return hybrid

    def mode_program(self, name: str) -> Program:
        """What is called to change modes: see `iterations.switching`."""

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            own = list(u[self.shape.timed:self.shape.inputs])
            mechanism = self.varied.mechanism(self.robot, own)
            q, qd, parts = self.split(y)
            tau, _ = self.forces(y[0].graph, t, q, qd, parts, own)
            tau = self.rubbed(mechanism, qd, tau)
            return self.switched(name, self._hybrid(mechanism), mechanism, y, tau)

        return self._part(name, values)

    def advance_program(self) -> Program:
        """The state after a step of a size that is a cell, but for its coordinates, and the modes
        that it asks for."""

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            own = list(u[self.shape.timed:self.shape.inputs])
            mechanism = self.varied.mechanism(self.robot, own)
            q, qd, parts = self.split(y)
            tau, further = self.forces(y[0].graph, t, q, qd, parts, own)
            tau = self.rubbed(mechanism, qd, tau)
            return self.advanced(self._hybrid(mechanism), mechanism, y, tau, further, u[-1])

        return self._part("advance", values, 1)

    def advanced(self, hybrid: Hybrid, mechanism: Mechanism, y: Scalars, tau: Scalars,
                 further: Scalars, h: Scalar) -> list[Scalar]:
        """The state after a step, with coordinates as they were, and with other modes."""
        assert self.modes is not None
        q, qd, parts = self.split(y)
        after, holding, modes = self.modes.advance(hybrid, mechanism, q, qd, tau,
                                                   parts["mode"], h)
        change = self.with_holding(further, holding)
        moved = [x + h * k for x, k in zip(y[len(q) + len(qd):], change, strict=True)]
        return [*q, *after, *moved[:len(moved) - len(modes)], *modes]

    def impact_of_limits(self, name: str) -> Program:
        """What is called about impacts on limits that hold: see `iterations.switching`."""

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            own = u[self.shape.timed:self.shape.inputs]
            yields = self.yielding(self.varied.mechanism(self.robot, own))
            return self.struck(name, yields, y)

        return self._part(name, values)

    def yielding(self, mechanism: Mechanism) -> Hybrid:
        """How a mechanism at rest yields to impulses where some rates change as they are given:
        hybrid dynamics without weight."""
        return self._hybrid(replace(mechanism, gravity=Vector.zero()))

    def struck(self, name: str, yielding: Hybrid, y: Scalars) -> list[Scalar]:
        """A state that touches its limits, one with the modes its impulses ask for, or the
        state after the impact."""
        assert self.modes is not None
        q, qd, parts = self.split(y)
        modes = parts["mode"]
        if name == "touch":
            q, modes = self.modes.touch(q, qd)
        elif name == "impulses":
            modes = self.modes.impulse_modes(yielding, q, qd, modes, self.restitution)
        else:
            qd, modes = self.modes.collide(yielding, q, qd, modes, self.restitution)
        return self.joined(q, qd, parts | {"mode": modes})

    def switched(self, name: str, hybrid: Hybrid, mechanism: Mechanism, y: Scalars,
                 tau: Scalars) -> list[Scalar]:
        """A state at rest where it has come to rest, one with other modes, or its slacks."""
        assert self.modes is not None
        q, qd, parts = self.split(y)
        if name == "arrest":
            qd, found = self.modes.arrest(q, qd, parts["mode"])
        elif name == "propose":
            found = self.modes.propose(hybrid, mechanism, q, qd, tau, parts["mode"])
        else:
            slack = self.modes.slack(hybrid, mechanism, q, qd, tau, parts["mode"])
            return [*[math.inf] * len(q), *slack, *[math.inf] * (len(y) - len(q) - len(qd))]
        return self.joined(q, qd, parts | {"mode": found})

    def change(self, mechanism: Mechanism, q: Scalars, v: Scalars, qd: Scalars,
               tau: Scalars) -> Scalars:
        """dv/dt of the velocities that the state holds."""
        drag = [x for joint, own in zip(mechanism.joints, mechanism.split(qd, "nv"), strict=True)
                for x in joint.friction(own)]
        return self.velocity.derivative(self.performer(mechanism), q, v, qd, tau, drag)

    def restore_program(self) -> Program:
        """y with q in its space, for a state that left it by an error of integration."""
        return self._part("restore", lambda t, y, u: [
            *self.robot.mechanism.space.normalize(y[:self.robot.nq]), *y[self.robot.nq:]])

    def close_program(self) -> Program:
        """The same with loops closed, or almost, and what they are open by."""

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            robot = self.robot
            q, rates, parts = self.split(y)
            q = robot.mechanism.space.normalize(q)
            mechanism = self.varied.mechanism(robot, u[self.shape.timed:])
            *closed, left = perform(replace(robot.request("project"), mechanism=mechanism),
                                    q, rates)
            return [*self.joined(closed[:robot.nq], closed[robot.nq:], parts), left]

        return self._part("close", values)

    def forces(self, graph: Graph, t: Node, q: Scalars, qd: Scalars, parts: Mapping[str, Scalars],
                own: list[Node]) -> tuple[list[Scalar], list[Scalar]]:
        """Joint forces, and the rates of the parts."""
        if self.table:
            n = self.robot.n
            u = [graph.input(f"u[{k}]") for k in range(2 + 2 * n)]
            x = (t - u[0]) / (u[1] - u[0])
            return [a + (b - a) * x for a, b in zip(u[2:2 + n], u[2 + n:], strict=True)], []
        return self.control(self.scheme(own), t, q, qd, parts)

    def control(self, scheme: ControlScheme | None, t: Scalar, q: Scalars, qd: Scalars,
                parts: Mapping[str, Scalars]) -> tuple[list[Scalar], list[Scalar]]:
        """Joint forces of a controller, and the rates of all parts of the state."""
        if scheme is None:
            return [0.0] * self.robot.n, []
        x = parts.get("x", ())
        tau = list(parts["held"]) if "held" in parts else scheme.tau(t, q, qd, x)
        change = [] if scheme.period is not None or not scheme.size else scheme.rates(t, q, qd, x)
        return tau, [*change, *[0.0] * self.shape.discrete]


def kernel_of(system: System, method: Method, width: int) -> Integrator:
    """The integration kernel of a system: at hand, from the cache, or compiled now."""
    from nlink.backends.llvm.host import host

    # what happens at events is a part of the iteration, not of the programs it calls
    wanted = (system.recipe(), tuple(each.trigger for each in system.watched), method, width,
              system.sampling, host())
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
        from nlink.simulation.implicit import solving_programs

        programs = system.programs() | (solving_programs(system) if method.solves else {})
        return compile_iteration(recorded, programs, system.shape, width, dense=iteration.dense,
                                 evaluations=method.evaluations + method.stages)

    whole = key("iteration", width, iteration.dense, recorded.parts(), system.recipe())
    return load_compiled(whole, compile_now, Integrator)


KEPT = 32
"""Kernels kept in memory; the oldest go first."""
_KERNELS: dict[tuple[str, tuple[Trigger, ...], Method, int, Sampling | None, Host],
               Integrator] = {}
