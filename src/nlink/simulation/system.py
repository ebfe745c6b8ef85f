"""A robot under a controller as a system of first order: ydot = f(t, y), on any scalars.

The state is y = (q, qd, parts) with qdot the tangent of the space of q (a quaternion's rate for
spherical and free joints) and qdd from forward dynamics, tau = controller(t, q, qd). Parts are
what controllers remember, and the modes of what rubs.

The state may hold other velocities than qd (`velocities`): momenta for the symplectic method,
or quasi-velocities [Koz95]; a controller still sees qd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.iterations.event_handling import EventHandling
from nlink.iterations.integration import Integration, Method
from nlink.iterations.sampling import Sampling
from nlink.iterations.switching import Switching
from nlink.iterations.text import Shape
from nlink.scalars.functions import Scalar, Scalars, less, where
from nlink.scalars.lazy import lazy
from nlink.simulation.applying import apply, perform
from nlink.simulation.closing import Closing
from nlink.simulation.control_scheme import Controller, ControlScheme, StatePart
from nlink.simulation.dry_friction import Modes, smooth_friction, without_dry_friction
from nlink.simulation.events import Margin, Watched
from nlink.simulation.moded_states import ModedStates
from nlink.simulation.state_layout import StateLayout
from nlink.simulation.system_programs import SystemPrograms
from nlink.simulation.variation import NOTHING, Varied
from nlink.simulation.velocities import VELOCITIES, JointRates

if TYPE_CHECKING:
    from nlink.compute.engines import Request
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot

Array = np.ndarray


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
    """The rate at which smooth friction is almost what dry friction is."""

    @property
    def programs(self) -> SystemPrograms:
        """What is compiled of it."""
        return SystemPrograms(self)

    @property
    def shape(self) -> Shape:
        robot, layout = self.robot, self.layout
        return Shape(layout.size, 2 * robot.n if self.table else 0, self.varied.width, robot.nq,
                     layout.discrete)

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

    @lazy
    def layout(self) -> StateLayout:
        """Where a state has what."""
        return StateLayout(self.robot.nq, self.robot.n, self.parts)

    @lazy
    def moded(self) -> ModedStates:
        """The states, where some rates have modes."""
        assert self.modes is not None
        return ModedStates(self.layout, self.modes, self.restitution)

    @property
    def remembered(self) -> slice:
        """Where a state has the parts of the controller."""
        scheme = self.scheme()
        return self.layout.place(() if scheme is None else [part.name for part in scheme.parts])

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
        """The request of the algorithm that makes the state change."""
        motion = self.velocity.motion
        if self.robot.mechanism.closures and isinstance(self.closing, float):
            return replace(self.robot.request(motion, algorithm="contact"), stiffness=self.closing)
        return self.robot.request(motion, algorithm=self.algorithm)

    def after_sample(self, t: Scalar, y: Scalars, own: Sequence[Scalar]) -> list[Scalar]:
        """The state after the controller has seen it."""
        scheme = self.scheme(own)
        assert scheme is not None
        q, v, parts = self.layout.split(y)
        q, qd = self.joint_rates(y, self.varied.mechanism(self.robot, own))
        mine = iter(scheme.sample(t, q, qd, [x for part in scheme.parts for x in parts[part.name]]))
        return self.layout.joined(q, v, parts | {
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
        return load_kernel(self.programs.sample())(np.full((len(y), 1), begin), y, inputs)

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

    def after_impact(self, y: Scalars, acts: Scalars) -> list[Scalar]:
        """The state after an impact on one of the limits that are watched, for which `acts` is
        1, else 0. The joint, e in the space of rates, is on its limit, and an impulse on it
        has turned its rate round: qd' = qd - (1 + restitution) (e . qd) / (e . M^-1 e) M^-1 e.
        """
        robot = self.robot
        (q, qd), (_, _, parts) = self.joint_rates(y), self.layout.split(y)
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
        return self.layout.joined(
            q, self.velocity.from_rates(self.performer(robot.mechanism), q, after), parts)

    def joint_rates(self, y: Scalars, mechanism: Mechanism | None = None,
                    ) -> tuple[Scalars, Scalars]:
        """q and qd of a state."""
        q, v, _ = self.layout.split(y)
        perform = self.performer(mechanism or self.robot.mechanism)
        return q, self.velocity.to_rates(perform, q, v)

    def performer(self, mechanism: Mechanism) -> Callable[..., list[Scalar]]:
        """Algorithms on a mechanism, by name; the one that makes the state change as asked for."""
        def run(name: str, *columns: Scalars) -> list[Scalar]:
            request = (self.request() if name == self.velocity.motion
                       else self.robot.request(name))
            return perform(replace(request, mechanism=mechanism), *columns)

        return run

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

    def change(self, mechanism: Mechanism, q: Scalars, v: Scalars, qd: Scalars,
               tau: Scalars) -> Scalars:
        """dv/dt of the velocities that the state holds."""
        drag = [x for joint, own in zip(mechanism.joints, mechanism.split(qd, "nv"), strict=True)
                for x in joint.friction(own)]
        return self.velocity.derivative(self.performer(mechanism), q, v, qd, tau, drag)

    def control(self, scheme: ControlScheme | None, t: Scalar, q: Scalars, qd: Scalars,
                parts: Mapping[str, Scalars]) -> tuple[list[Scalar], list[Scalar]]:
        """Joint forces of a controller, and the rates of all parts of the state."""
        if scheme is None:
            return [0.0] * self.robot.n, []
        x = parts.get("x", ())
        tau = list(parts["held"]) if "held" in parts else scheme.tau(t, q, qd, x)
        change = [] if scheme.period is not None or not scheme.size else scheme.rates(t, q, qd, x)
        return tau, [*change, *[0.0] * self.shape.discrete]
