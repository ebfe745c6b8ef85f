"""A robot, what drives it and what acts on it, as a system of first order: y' = f(t, y).

The state is y = (q, v, parts), v being qd, momenta for the symplectic method, or quasi-velocities
[Koz95] (`velocities`). Parts are what its pieces remember: controllers, and the modes of what rubs.

A system is one value with one text of its rates. On nodes a text becomes a program, in which the
controller shares sines and poses with the dynamics (`program`); on floats it is called as it is
(`interpreted`), around compiled algorithms. A program is of t, y and u, the latter (t0, t1, row0,
row1) if there is a table, then what varies, and then cells of the iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.backends.llvm.rates import RolledRates
from nlink.engines.kernels import kept
from nlink.iterations.event_handling import EventHandling
from nlink.iterations.integration import Integration, Method
from nlink.iterations.recording import Gives, RecordedIteration, record
from nlink.programs.program import Port, Program
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.shared import PORT, CarriedValue
from nlink.programs.tracing import input_nodes
from nlink.robot import Robot, expect_robot
from nlink.scalars.arrays import SINGLE, batch, common_type
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Graph
from nlink.scalars.lazy import lazy
from nlink.scalars.misuse import explained
from nlink.simulation.assembled_system import AssembledSystem
from nlink.simulation.closing import Closing, check_closing
from nlink.simulation.contact_piece import contacts_in
from nlink.simulation.control_scheme import Controller, ControlScheme
from nlink.simulation.drives import FREE, Constant, Controlled, Drive, Tabled, Untraced
from nlink.simulation.events import Watching, watched
from nlink.simulation.integration_kernels import one_step
from nlink.simulation.modes import friction_of, smooth_friction
from nlink.simulation.moment import PUSHED, WRENCHED, Moment, Text, weightless
from nlink.simulation.numbers import given_numbers
from nlink.simulation.prescribed_motion import prescribed_motion
from nlink.simulation.recipes import recipe_of
from nlink.simulation.setting import PHYSICS, Physics, Solver, door, setting
from nlink.simulation.velocities import velocity_of

if TYPE_CHECKING:
    from nlink.model.mechanism import Mechanism
    from nlink.simulation.run import Run

Array = np.ndarray


@dataclass(frozen=True, init=False, repr=False)
class System(AssembledSystem):
    """The system that `simulate`, `Stepper` and `linearize` integrate: a robot and all
    that acts on it.

    The arguments are those of `nlink.simulate`; each of these functions takes a system in place of
    a robot. `rates(t, y)` are the rates of states, `step(y, h)` is the state a step later, and
    `program(name)` is a text of the system as a program: `texts` has their names.

    >>> import nlink
    >>> arm = nlink.load("planar3")
    >>> system = nlink.System(arm, lambda t, q, qd: arm.gravity_torque(q) - 5.0 * qd)
    >>> y = system.start([0.1, 0.2, 0.3], [1.0, 0.0, 0.0])
    >>> system.rates(0.0, y).shape, system.program("rates").outputs[0].size
    ((6,), 6)
    >>> nlink.simulate(system, [0.1, 0.2, 0.3], t=0.1).status
    'done'
    """

    @door(controller="tau", q0="nlink.simulate(system, q0)", method="it in nlink.simulate")
    def __init__(self, robot: Robot, tau: ArrayLike | Controller | None = None, *,
                 f_ext: Any = None, vary: Mapping[str, Any] | None = None, events: Any = None,
                 motion: Mapping[str, Any] | None = None, traced: bool = True,
                 algorithm: str | None = None, velocity: str = "qd", limits: str = "ignore",
                 restitution: float | None = None, friction: str = "dry", width: float = 1e-3,
                 effort: str = "ignore", closing: Closing = "project", contact: str = "rigid",
                 physics: Physics | None = None) -> None:
        physics = setting(physics, PHYSICS, algorithm=algorithm, velocity=velocity,
                          limits=limits, restitution=restitution, friction=friction, width=width,
                          effort=effort, closing=closing, contact=contact)
        arguments = {"tau": tau, "f_ext": f_ext, "vary": vary, "events": events, "motion": motion,
                     "traced": traced, "physics": physics}
        tau = physics.limited(expect_robot(robot), tau)
        controller = tau if callable(tau) else None
        moved = prescribed_motion(robot, motion)
        numbers, varied, wrenches = given_numbers(robot, tau, f_ext, vary,
                                                  functions=moved is not None)
        drive: Drive = FREE
        if controller is not None:
            drive = Controlled(ControlScheme.of(controller, robot.n))
        elif numbers.forces is not None:
            drive = Tabled()
        elif varied.has("tau"):
            drive = Constant()
        if not (traced and getattr(controller, "traced", True)):
            drive = Untraced(drive)
        bounce = physics.impact
        modes, smooth = friction_of(robot, physics.friction, physics.width, physics.limits, bounce,
                                    varied=varied.has("coulomb"),
                                    known=() if moved is None else moved.rates)
        if physics.limits == "bounce" and varied.mechanical:
            raise ValueError("limits: 'bounce' does not go with a mechanism that varies, expected "
                             "'stop', 'ignore', or only gains and p in vary")
        contacts, watching = contacts_in(robot, physics, modes), Watching(
            watched(robot, events, physics.limits), bounce)
        if contacts is not None:  # limits and dry friction are rows of theirs
            modes, watching = None, watching.without_holding()
        self._set(robot=robot, drive=drive, wrenches=wrenches, modes=modes, width=smooth,
                  contacts=contacts, watching=watching, motion=moved, varied=varied,
                  closing=check_closing(robot, physics.closing),
                  velocity=velocity_of(physics.velocity), algorithm=physics.algorithm,
                  arguments=arguments, numbers=numbers)
        if moved is not None:
            self._expect_motion()

    def _expect_motion(self) -> None:
        """Refuse what motions that are given do not go with."""
        physics, tabled = self.physics, self.columns > 0
        for wrong, why, other in (
                (isinstance(self.drive, Untraced), "traced=False", "a traced controller"),
                (tabled, "a table in tau or f_ext", "numbers or functions of t, q, qd"),
                (self.velocity.name != "qd", f"velocity={self.velocity.name!r}", "'qd'"),
                (physics.limits == "bounce", "limits='bounce'", "'hold', 'stop' or 'ignore'"),
                (self.contacts is not None, "contacts", "contact='ignore'"),
                (physics.algorithm is not None, f"algorithm={physics.algorithm!r}", "none")):
            if wrong:
                raise ValueError(f"motion: not with {why}, expected {other}")

    def __repr__(self) -> str:
        drive = "free fall" if self.drive == FREE else f"{type(self.drive).__name__} drive"
        return (f"<System of {self.robot.name}: {drive}, state of {self.shape.size}, "
                f"{', '.join(self.texts)}>")

    @property
    def plain(self) -> System:
        """The system whose states are those of the robot: without derivatives, if it has any."""
        return self

    # what users call

    def start(self, q: ArrayLike | None = None, qd: ArrayLike | None = None) -> Array:
        """The states (..., size) with coordinates q and rates qd: what `rates` and `step` take.

        Behind q and qd they have what is remembered, as a simulation that starts there has it.
        """
        values = [batch(name, default if given is None else given, (len(default),))
                  for name, given, default in (("q", q, self.robot.neutral),
                                               ("qd", qd, np.zeros(self.robot.n)))]
        lead = np.broadcast_shapes(*(x.shape[:-1] for x in values))
        flat = np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])).reshape(
            -1, x.shape[-1]) for x in values], axis=1)
        return self.before_sample(flat).reshape(*lead, self.shape.size)

    def rates(self, t: ArrayLike, y: ArrayLike) -> Array:
        """y' of states (..., size) at times t: the rates that are integrated.

        >>> import nlink
        >>> system = System(nlink.load("double_pendulum"), [1.0, 0.0], friction="smooth")
        >>> system.rates(0.0, [0.1, 0.2, 0.3, 0.4])[:2]
        array([0.3, 0.4])
        """
        if self.contacts is not None:
            raise ValueError("rates: of a system with contacts, where velocities jump, expected "
                             "contact='ignore', or nlink.Stepper")
        times, states, lead = self._states(t, y)
        found = self.kernel("rates")(times[:, None], states, self._own(lead))
        return found.reshape(*lead, self.shape.size)

    def step(self, y: ArrayLike, step: float, t: float = 0.0, method: str | Method = "rk4",
             ) -> Array:
        """The states (..., size) one step of a method later; nan where it fails.

        States of float32 are advanced in float32: a step and a method have code of their own then,
        friction has to be smooth, and loops are not of the system.

        >>> import nlink
        >>> pendulum = System(nlink.load("double_pendulum"))
        >>> pendulum.step(pendulum.start([0.1, 0.2]), 1e-3).shape
        (4,)
        """
        each = Solver(method).integrator
        if each.needs & {"python", "momenta"} or self.sampling is not None or (
                self.modes is not None or self.contacts is not None):
            raise ValueError(f"method: {each.name!r}, expected one that is compiled and integrates "
                             "qd, of a system without samples, modes and contacts; nlink.Stepper "
                             "has those")
        if not (np.ndim(step) == 0 and np.isfinite(step) and step > 0):
            raise ValueError(f"step: {step!r:.80}, expected a positive number of seconds")
        if common_type([y]) is SINGLE:
            from nlink.simulation.step_programs import single_step

            return single_step(self, y, float(step), t, each.name)
        times, states, lead = self._states(t, y)
        return one_step(self.under(each), each, states, self._own(lead), float(times.flat[0]),
                        float(step)).reshape(*lead, self.shape.size)

    def _states(self, t: ArrayLike, y: ArrayLike) -> tuple[Array, Array, tuple[int, ...]]:
        """Times and states, (count,) and (count, size), and their leading shape."""
        if self.columns:
            raise ValueError("robot: a System with a table, expected numbers or functions of t, q, "
                             "qd: a table stands at the output times of nlink.simulate")
        states = batch("y", y, (self.shape.size,))
        times = batch("t", t, ())
        numbers = self.numbers.variation
        lead = np.broadcast_shapes(times.shape, states.shape[:-1],
                                   () if numbers is None else numbers.values.shape[:-1])
        states = np.broadcast_to(states, (*lead, self.shape.size)).reshape(-1, self.shape.size)
        return np.broadcast_to(times, lead).ravel(), states, lead

    def _own(self, lead: tuple[int, ...]) -> Array:
        """What varies, (count, width)."""
        numbers, width = self.numbers.variation, self.varied.width
        if numbers is None:
            return np.empty((int(np.prod(lead)), 0))
        return np.broadcast_to(numbers.values, (*lead, width)).reshape(-1, width)

    # how it starts

    def initial(self, initial: Array, own: Array, begin: float) -> Array:
        """The states (count, size) to start from, of coordinates and velocities: with what is
        remembered there, the first sample taken if it is traced."""
        y = self.before_sample(initial)
        inputs = np.zeros((len(y), self.shape.inputs))
        inputs[:, self.shape.timed:] = own
        if "sample" in self.texts:
            y = self.kernel("sample")(np.full((len(y), 1), begin), y, inputs)
        return y

    def before_sample(self, initial: Array) -> Array:
        """Coordinates and velocities to start from, and what is remembered there."""
        found = {name: x for piece in self.pieces for name, x in piece.start(self, initial).items()}
        return np.concatenate([initial, *(
            found[part.name] if part.name in found else np.zeros((len(initial), part.size))
            for part in self.parts)], axis=1)

    # its texts

    @lazy
    def texts(self) -> dict[str, Text]:
        """All that an iteration may call."""
        known = {"rates": Text(self.derivative), "coordinate_rates": Text(self.moving)}
        if self.restores:
            known["restore"] = Text(self.restore)
        if self.projects:
            known["close"] = Text(self.close, gives=Gives(cells=1))
        for piece in self.pieces:
            known |= piece.texts(self)
        return known

    def less_friction(self, at: Moment, tau: list[Scalar]) -> list[Scalar]:
        """Joint forces less smooth friction."""
        if self.width is None:
            return tau
        return [a - b for a, b in zip(tau, smooth_friction(at.mechanism, at.qd, self.width),
                                      strict=True)]

    def push(self, at: Moment) -> Scalars:
        """The joint forces J^T f of all wrenches on links: what inverse dynamics needs less at
        rest and without weight [Saha99, eq. 30]."""
        rest = [0.0] * self.robot.n
        return [-x for x in at.perform(WRENCHED, at.q, rest, rest, at.f_ext, change=weightless)]

    def derivative(self, at: Moment) -> Scalars:
        """y': the only place where it is written."""
        velocity = at.qd if self.space.flat else self.space.tangent(at.q, at.qd)
        if self.modes:
            tau, further = at.driven
            qdd, holding = self.modes.moving(at, tau)
            return [*velocity, *qdd, *self.modes.rates_of_parts(at, further, holding)]
        if self.motion:
            (tau, further), nothing = at.driven, [0.0] * len(at.qd)
            qdd, _ = at.hybrid(at.q, at.qd, tau, nothing, nothing, change=self.bare)
            return [*velocity, *qdd, *further]
        perform = partial(at.perform, change=self.bare)
        if self.wrenches is not None and self.velocity.name == "qd":  # they go along with the bias
            tau, further = at.drive
            return [*velocity, *perform(PUSHED, at.q, at.qd, tau, at.f_ext), *further]
        tau, further = at.driven
        change = self.velocity.derivative(perform, at.q, at.v, at.qd, tau,
                                          lambda: _drag(self.bare(at.mechanism), at.qd))
        return [*velocity, *change, *further]

    def moving(self, at: Moment) -> Scalars:
        """The rates of the coordinates, as in y'; nothing of what else the state has."""
        velocity = at.qd if self.space.flat else self.space.tangent(at.q, at.qd)
        return [*velocity, *[0.0] * (self.shape.size - self.robot.nq)]

    def restore(self, at: Moment) -> Scalars:
        """The state with q in its space, where an error of integration left it."""
        return at.but(self.space.normalize(at.q))

    def close(self, at: Moment) -> Scalars:
        """The same with loops closed, or almost, and what they are open by."""
        q, nq = self.space.normalize(at.q), self.robot.nq
        held = self.held if self.modes is None else [
            a + b for a, b in zip(self.held, self.modes.held(at), strict=True)]
        *closed, left = at.perform("project", q, at.v) if not (self.motion or self.modes) else (
            at.perform("hybrid_projection", q, at.v, held))
        return [*at.but(closed[:nq], closed[nq:]), left]

    # its texts on nodes

    @lazy
    def programs(self) -> dict[str, Program | RolledRates]:
        """All that an iteration calls, traced: for its digest, and to be compiled."""
        return {name: self.program(name) for name in self.texts}

    def forget_programs(self) -> None:
        """Graphs are large, and nobody needs them once there is a kernel."""
        vars(self).pop("programs", None)

    def moment(self, cells: int = 0) -> tuple[tuple[Port, ...], Moment]:
        """A moment of nodes."""
        shape, graph = self.shape, Graph()
        ports = (Port("t", (1,)), Port("y", (shape.size,)), Port("u", (shape.inputs + cells,)))
        (t,), y, u = input_nodes(graph, ports)
        return ports, Moment(self, t, y, u)

    def program(self, name: str) -> Program | RolledRates:
        """A text as a program; the rates of a long chain in parts, around a rolled one."""
        if name not in self.texts:
            raise ValueError(f"name: {name!r}, expected one of {', '.join(self.texts)}")
        if (name == "rates" and not self.modes and not self.motion and self.velocity.rates is None
                and not self.varied.mechanical and self.request().rolled):
            return self._rolled_rates()
        return self.straight(name)

    def straight(self, name: str) -> Program:
        """A text as a program that is not rolled."""
        text = self.texts[name]
        if text.gives.shared:
            ports, shared = self.shared[name]
            return Program(name, ports, (Port(PORT, (len(shared.nodes),)),), tuple(shared.nodes))
        ports, at = self.moment(text.cells)
        if text.takes:
            _, shared = self.shared[text.takes]
            ports = (*ports, Port(PORT, (len(shared.nodes),)))
            at = replace(at, shared=shared.inside(at.t.graph))
        with explained():
            values = text.function(at)
        gives = "ydot" if name == "rates" else "column" if text.gives.column else "cells"
        return _program(name, ports, at, gives, values)

    def program_of(self, name: str, function: Callable[[Moment], Scalars]) -> Program:
        """A function of a moment as a program."""
        ports, at = self.moment()
        return _program(name, ports, at, "values", function(at))

    @lazy
    def shared(self) -> dict[str, tuple[tuple[Port, ...], CarriedValue]]:
        """What texts leave for others, traced once: their ports, and the values."""
        found = {}
        for name, text in self.texts.items():
            if text.gives.shared:
                ports, at = self.moment(text.cells)
                with explained():
                    found[name] = ports, CarriedValue(text.function(at))
        return found

    def kernel(self, name: str, make: Callable[[], Program] | None = None) -> Any:
        """A text, or what `make` makes of texts, compiled for arrays of states; made once."""
        from nlink.backends.llvm.loading import load_kernel

        try:
            return kept(self.robot, ("text of a system", name, self.recipe()), lambda: load_kernel(
                self.straight(name) if make is None else make()))
        finally:
            self.forget_programs()

    def _rolled_rates(self) -> RolledRates:
        ports, at = self.moment()
        tau, further = at.driven
        part = partial(_program, ports=ports, at=at, gives="ydot")
        rolled = replace(self.request(), mechanism=self.bare(at.mechanism)).program()
        assert isinstance(rolled, RolledProgram)
        return RolledRates(
            part("forces", values=tau), None if self.space.flat else part(
                "velocity", values=self.space.tangent(at.q, at.qd)), rolled,
            part("further", values=further) if further else None)

    def along(self, name: str, function: Callable[[Moment], Scalars], run: Run) -> Array:
        """A function of moments at the states of a run, (..., times, values)."""
        y = np.concatenate([np.asarray(run.q), np.asarray(run.rates), *map(
            np.asarray, run.parts.values())], axis=-1)[..., :self.shape.size]
        own = np.empty((1, 0)) if run.variation is None else run.variation.values[..., None, :]
        kernel = self.kernel(name, lambda: self.program_of(name, function))
        return kernel(run.t[:, None], y, own)

    @lazy
    def control_program(self) -> Program:
        """The controller alone, traced once; see `drives.Controlled`."""
        controlled = self.drive.controlled
        assert controlled is not None
        return controlled.program(self)

    @lazy
    def _recipe(self) -> str:
        return recipe_of(self)

    def recipe(self) -> str:
        """A digest of all programs that are integrated; only what users wrote is traced for it if
        an equal system has been integrated before."""
        return self._recipe

    # how it is integrated

    def iteration(self, method: Method) -> Integration:
        """What a driver runs: a method, around the texts of this system."""
        # held values, and states that must be closed, want a stop at every output, and a jump
        # leaves a method that remembers nothing to interpolate with
        dense = (method.interpolates and not ("python" not in method.needs and self.columns)
                 and not self.projects and not (self.sampling and "history" in method.needs))
        switching = self.modes.switching if self.modes else None
        method = method.with_modes() if "advance" in self.texts else method
        if self.contacts is not None:
            method = method.with_contacts(self.contacts.modes, few=bool(self.contacts.few))
        events = EventHandling(self.watching.triggers, switching) if (
            self.watched or switching) else None
        return Integration(method, dense=dense, projects=self.projects, events=events,
                           sampling=self.sampling)

    def recorded(self, method: Method) -> RecordedIteration:
        """The statements of an iteration with a method; no program that it calls is traced."""
        called = {name: text.gives for name, text in self.texts.items()}
        if "derivatives" in method.needs:
            called |= {"factor": Gives(shared=True), "solve": Gives()}
        return record(self.iteration(method), called, self.shape.discrete)


def system_of(given: Robot | System, physics: Physics, **own: Any) -> System:
    """The system given in place of a robot, or the one of a robot and these arguments."""
    if not isinstance(given, System):
        if any(value is not None for name, value in own.items() if name != "traced") or not own.get(
                "traced", True):
            return System(given, physics=physics, **own)
        return kept(expect_robot(given), ("falling system", physics),
                    lambda: System(given, physics=physics))
    beside = [name for name, value in own.items() if value is not None and name != "traced"]
    beside += ["traced"] if not own.get("traced", True) else []
    if beside:
        raise ValueError(f"{beside[0]}: given beside a System, which has its own, expected it in "
                         f"nlink.System(robot, {beside[0]}=...)")
    return given


def _program(name: str, ports: tuple[Port, ...], at: Moment, gives: str, values: Scalars,
             ) -> Program:
    return Program(name, ports, (Port(gives, (len(values),)),),
                   tuple(at.t.graph.lift(x) for x in values))


def _drag(mechanism: Mechanism, qd: Scalars) -> list[Scalar]:
    """The forces of friction in the joints of a mechanism."""
    return [x for joint, own in zip(mechanism.joints, mechanism.split(qd, "nv"), strict=True)
            for x in joint.friction(own)]
