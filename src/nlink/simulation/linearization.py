"""Linear models of a system around a state: of its motion, or of one step of a method.

The state is x = (q, qd, c), c being that of a controller, the input u are joint forces beside
whatever drives the system, and small changes of q are rates in the tangent space at q: dx and du
obey

    dx' = A dx + B du,      or      dx(t + h) = A dx(t) + B du

for one step of size h with u held. Where coordinates are the integrals of rates, the upper part
of the continuous A is (0, 1, 0). Elsewhere axes turn: with q' = T(q) qd and dq = T(q) d,

    T' d + T d' = (dT) qd + T dqd,      so      d' = dqd + T^+ ((dT) qd - T' d),

for a quaternion d' = dqd - qd x d.

Modes stay as they are: what sticks goes on sticking, what slides slides on. A robot under joint
forces alone has the programs of `linear_programs`. Any other system is differentiated as its text
is; a step of a Runge-Kutta method is one step of the system that integrates its derivatives
(`sensitivity`), and of many joints, whose machine code would be too long, one on arrays of such
states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.kernels import kept
from nlink.iterations.box_problem import CELLS, pivot
from nlink.iterations.integration import Method
from nlink.iterations.iteration import State
from nlink.programs.calling import call
from nlink.programs.derivatives import jvp
from nlink.programs.program import Port, Program
from nlink.robot import Robot
from nlink.scalars.arrays import batch
from nlink.scalars.differentiation import pushforward
from nlink.scalars.graph import Node
from nlink.scalars.lazy import lazy
from nlink.simulation.closing import Closing
from nlink.simulation.contact_derivatives import ContactStep
from nlink.simulation.control_scheme import Controller
from nlink.simulation.drives import FREE, Beside, Untraced
from nlink.simulation.events import Watching
from nlink.simulation.integration_kernels import one_step
from nlink.simulation.linear_programs import (
    coordinate_rows,
    motion_program,
    step_program,
    turning_program,
)
from nlink.simulation.modes import StandingModes
from nlink.simulation.sensitivity import MOST_DERIVATIVES, SensitiveSystem, in_tangent_space
from nlink.simulation.setting import PHYSICS, Physics, door, setting
from nlink.simulation.step_programs import attempted, method_of_step
from nlink.simulation.system import System, system_of

Array = np.ndarray
MOST_JOINTS = 64
"""Beyond, programs of matrices are too long to be compiled."""


@door("tau", dt="step", q0="q", qd0="qd", x0="x", controller="tau")
def linearize(robot: Robot | System, q: ArrayLike, qd: ArrayLike,
              tau: ArrayLike | Controller | None = None, step: float | None = None,
              method: str | None = None, *, t: float = 0.0, x: ArrayLike | None = None,
              f_ext: Any = None, vary: Mapping[str, Any] | None = None,
              motion: Mapping[str, Any] | None = None, algorithm: str | None = None,
              limits: str = "ignore", friction: str = "dry",
              width: float = 1e-3, effort: str = "ignore", closing: Closing = "project",
              contact: str = "rigid", physics: Physics | None = None, smooth: float = 0.0,
              out: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
    """A, (..., 2n, 2n), and B, (..., 2n, n), of the motion around a state, or of one step.

    Without `step` they are those of dx/dt; with it, those of the state after a step of that size by
    a one-step method of `nlink.simulate` ("semi_implicit" if not given, "rk4", "dopri5", ...).
    `tau` are joint forces, or a controller: then A is that of the closed loop, and B that of joint
    forces beside it. A controller with a state, `x` (as it starts if not given), has rows and
    columns behind those of q and qd; `t` is the time that it sees. Other options are those of
    `nlink.simulate`. What dry friction or a limit holds in the state is held in the model.

    Changes of q are in the tangent space, at q before the step and at the new q after it. For a
    mechanism with loops it is the step before its projection onto closed states. With contacts it
    is a step of "semi_implicit", in which what is open, sticks or slides goes on doing so;
    `smooth` > 0, in sqrt(N m/s), is for the laws with rounded corners, which have derivatives
    between modes (docs/contact.md). A and B are written to `out` if given: for large batches, new
    memory costs as much as the matrices.

    >>> import nlink, numpy as np
    >>> pendulum = nlink.load("double_pendulum")
    >>> A, B = linearize(pendulum, [-np.pi / 2, 0], [0, 0], [0, 0])
    >>> abs(np.linalg.eigvals(A)).round(3)  # radians per second
    array([5.785, 5.785, 2.397, 2.397])
    >>> damped = lambda t, q, qd: pendulum.gravity_torque(q) - 2.0 * qd
    >>> linearize(pendulum, [0.3, 0.2], [0, 0], damped)[0][:2, 2:]
    array([[1., 0.],
           [0., 1.]])
    """
    asked = {"algorithm": algorithm, "limits": limits, "friction": friction, "width": width,
             "effort": effort, "closing": closing, "contact": contact}

    def make() -> LinearModel:
        system = system_of(robot, setting(physics, PHYSICS, **asked), f_ext=f_ext, vary=vary,
                           tau=tau if callable(tau) else None, events=None, motion=motion)
        return LinearModel.of(system, step, method, t, smooth)

    alone = not callable(tau) and all(x is None for x in (f_ext, vary, motion, physics))
    key = (step, method, t, smooth, *asked.values())
    model = _kept_model(robot, key, make) if alone else make()
    return model.at_forces(q, qd, tau, x, out)


def _kept_model(robot: Robot | System, asked: tuple[Any, ...], make: Callable[[], LinearModel],
                ) -> LinearModel:
    """The linear model of a robot or a System with options that are plain values."""
    try:
        return kept(robot, ("linear model", asked), make)
    except TypeError:  # an array among them; or no robot
        return make()


def _with_rest(model: LinearModel, given: Sequence[Array], found: tuple[Array, Array],
               ) -> tuple[Array, Array]:
    """Linear models of robots with dry friction: those of states in which something that rubs is
    at rest are computed anew, with its modes."""
    assert model.system.modes is not None
    rubbing = [each.rate for each in model.system.modes.rates]
    q, qd, tau = (np.broadcast_to(x, (*found[0].shape[:-2], x.shape[-1])) for x in given)
    still = (qd[..., rubbing] == 0).any(axis=-1)
    if still.any():
        ports = (q[still], qd[still], tau[still], *[np.empty((int(still.sum()), 0))] * 2)
        for x, at_rest in zip(found, call(model.ports, model.matrices, ports, None, model.compute),
                              strict=True):
            x[still] = at_rest
    return found


def _method_of(step: float | None, method: str | None) -> tuple[Method | None, float | None]:
    """The method of a step and its size; none without one."""
    if step is None:
        if method is not None:
            raise ValueError(f"step: None, expected the size of the step of method={method!r:.80}")
        return None, None
    return method_of_step(step, "semi_implicit" if method is None else method)


def _expect_derivatives(system: System) -> None:
    """Refuse systems that have no linear model here."""
    robot = system.robot
    if len(robot.mechanism.joints) > MOST_JOINTS:
        raise ValueError(f"robot: {len(robot.mechanism.joints)} joints, expected at most "
                         f"{MOST_JOINTS} for matrices; nlink.jvp gives products with them")
    for wrong, why, other in (
            (system.velocity.name != "qd", f"velocity={system.velocity.name!r}", "'qd'"),
            (system.columns, "forces or wrenches in a table", "those of one state"),
            (isinstance(system.drive, Untraced), "traced=False", "a traced controller"),
            (system.sampling is not None, "a controller with a period", "one that acts at all "
             "times")):
        if wrong:
            raise ValueError(f"linearize: not with {why}, expected {other}")


def _expect_contacts(system: System, method: Method | None, smooth: float) -> None:
    """Refuse what contacts have no derivatives of, and smoothness without any."""
    if not (np.isfinite(smooth) and smooth >= 0):
        raise ValueError(f"smooth: {smooth}, expected a number >= 0")
    if system.contacts is None:
        if smooth:
            raise ValueError(f"smooth: {smooth} without contacts, expected 0")
    elif method is None:
        raise ValueError("linearize: not with contact='rigid' without a step, where velocities "
                         "jump, expected step=..., or contact='ignore'")
    else:
        system.contacts.expect(method, system.velocity.name)


def _loaded(program: Any) -> Any:
    from nlink.backends.llvm.loading import load_kernel

    return load_kernel(program)


class LinearModel:
    """The linear model of a system with anything that simulations have."""

    def __init__(self, system: System, method: Method | None, h: float, t: ArrayLike,
                 smooth: float = 0.0) -> None:
        varied = system.varied.with_numbers("tau", system.robot.n)
        self.given, self.method, self.h, self.t = system, method, h, float(np.asarray(t))
        self.smooth = smooth
        self.moded = system.but(varied=varied, drive=Beside(system.drive))
        modes = None if system.modes is None else StandingModes(system.modes.rates)
        closing = "drift" if system.projects else system.closing
        self.system = self.moded.but(modes=modes, watching=Watching(), closing=closing)
        self.states = sum(part.size for part in system.drive.parts(system))
        self.size = 2 * system.robot.n + self.states

    @staticmethod
    def of(system: System, step: float | None, method: str | None, t: ArrayLike,
           smooth: float = 0.0) -> LinearModel:
        """That of the motion or of a step, as users ask for it, checked."""
        _expect_derivatives(system)
        chosen, h = _method_of(step, method)
        _expect_contacts(system, chosen, smooth)
        return LinearModel(system, chosen, 0.0 if h is None else h, batch("t", t, ()), smooth)

    @lazy
    def recursive(self) -> bool:
        """Whether the recursions of derivatives know all that acts: joint forces, and dry friction
        where it slides, the same at any rate."""
        given = self.given
        curved = any(any(joint.excess) for joint in given.robot.mechanism.joints)
        return (given.drive is FREE and given.wrenches is None and given.width is None
                and given.motion is None and not given.varied.width and given.contacts is None
                and (given.modes is None or not (given.modes.holds or curved)))

    @property
    def ports(self) -> tuple[Port, ...]:
        """q, qd, forces, the state of the controller, what varies."""
        robot = self.given.robot
        return tuple(Port(name, (size,)) for name, size in (
            ("q", robot.nq), ("qd", robot.n), ("tau", robot.n), ("x", self.states),
            ("vary", self.given.varied.width)))

    @property
    def matrices(self) -> tuple[Port, Port]:
        return (Port("A", (self.size, self.size)), Port("B", (self.size, self.system.robot.n)))

    @property
    def first_state(self) -> Array:
        """The state of the controller as it starts."""
        drive, robot = self.system.drive, self.system.robot
        found = drive.start(self.system, np.zeros((1, robot.nq + robot.n)))
        return np.concatenate([np.empty(0), *(x[0] for x in found.values())])

    def at_forces(self, q: ArrayLike, qd: ArrayLike, tau: Any, x: ArrayLike | None,
                  out: tuple[Array, Array] | None) -> tuple[Array, Array]:
        """A and B at states, as users give them."""
        system, robot = self.given, self.given.robot
        forces = np.zeros(robot.n) if callable(tau) or tau is None else batch("tau", tau,
                                                                              (robot.n,))
        given = [batch("q", q, (robot.nq,)), batch("qd", qd, (robot.n,)), forces]
        if system.physics.effort != "ignore":
            given[2] = system.physics.limited(robot, forces)
        if system.modes and self.recursive:
            sliding = LinearModel(system.but(modes=None), self.method, self.h, self.t)
            return _with_rest(self, given, sliding.at(given, out=out))
        return self.at(given, x, out=out)

    def at(self, given: Sequence[Array], x: ArrayLike | None = None, *,
           out: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
        """A and B at states: q, qd and forces, and the state of the controller."""
        robot, method = self.given.robot, self.method
        if self.recursive and (method is None or method.decides_modes or not robot.n):
            # without joints all steps are one
            kind, make = ("motion", motion_program) if method is None else ("step", step_program)
            kernel = kept(robot, ("linear model", kind), lambda: _loaded(make(robot)))
            return kernel(*given, *(() if method is None else (self.h,)), out=out)
        values = self.given.numbers.variation
        states = self.first_state if x is None else batch("x", x, (self.states,))
        return call(self.ports, self.matrices, [*given, states, np.empty(0) if values is None
                                                else values.values], out, self.compute)

    def compute(self, inputs: Sequence[Array], outputs: Sequence[Array], count: int) -> None:
        """A and B of states."""
        q, qd, tau, x, own = (np.broadcast_to(a, (count, a.shape[-1])) for a in inputs)
        own = np.concatenate([own, tau], axis=1)
        y = self._with_modes(self.system.before_sample(np.concatenate([q, qd], axis=1)), own)
        y[:, self.system.remembered] = x
        if self.system.contacts is not None:
            step = ContactStep(self.system, self.h, self.smooth)
            A, B = step.matrices(y, own, self.t, self._rows())
            outputs[0][:], outputs[1][:] = A.reshape(outputs[0].shape), B.reshape(outputs[1].shape)
            return
        few = (self.size + q.shape[1]) * self.system.shape.size <= MOST_DERIVATIVES
        if self.method is not None and not (few and self.method.decides_modes):
            A, B = self._of_step(y, own, few=few)
        elif not few:
            A, B = self._of_motion(y, own)
        else:
            kind = "linear motion" if self.method is None else "linear step"
            A, B = self.system.kernel(kind, self._program)(
                np.full((count, 1), self.t), y, own, np.full((count, 1), self.h))
        outputs[0][:], outputs[1][:] = A.reshape(outputs[0].shape), B.reshape(outputs[1].shape)

    def _with_modes(self, y: Array, own: Array) -> Array:
        """States with the modes that their forces ask for."""
        if self.moded.modes is None:
            return y
        times = np.full((len(y), 1), self.t)
        y = self.moded.kernel("arrest")(times, y, own)
        propose, given = self.moded.kernel("propose"), SimpleNamespace(index=np.arange(y.shape[1]))
        for k in range(len(y)):
            state, found = State({"status": 0.0, **CELLS}), np.False_
            while not (found or state.status):
                here = y[k:k + 1]
                state, y[k], found = pivot(state, y[k], propose(times[:1], here, own[k:k + 1])[0],
                                           given)
        return y

    def _rows(self) -> list[int]:
        """The elements of the state that the model has behind q."""
        nq, n, mine = self.system.robot.nq, self.system.robot.n, self.system.remembered
        return [*range(nq, nq + n), *range(mine.start, mine.stop)]

    def _program(self) -> Program:
        """A and B of the motion, or of a step of semi-implicit Euler: the text, differentiated."""
        system, space = self.system, self.system.space
        rates = system.straight("rates")
        graph, n, nq = rates.results[0].graph, system.robot.n, system.robot.nq
        y = [graph.input(f"y[{k}]") for k in range(system.shape.size)]
        h, rows, f = graph.input("h[0]"), self._rows(), rates.results
        q, v = y[:nq], y[nq:nq + n]
        directions = [dict(zip(q, _lifted(graph, space.tangent(q, unit)), strict=True))
                      for unit in np.eye(n).tolist()]
        first = system.shape.inputs - n
        directions += [{x: graph.const(1)} for x in (
            *(y[k] for k in rows), *(graph.input(f"u[{first + k}]") for k in range(n)))]
        if self.method is None:
            columns: list[list[Any]] = [
                list(pushforward([f[k] for k in rows], moved)) for moved in directions]
            upper = coordinate_rows(space, graph, q, v)
            unit = [[float(i == j) for j in range(n)] for i in range(n)]
            for j in range(n):
                columns[j] = [*(row[j] for row in upper), *columns[j]]
                columns[n + j] = [*((1 - x) * e for x, e in zip(system.held, unit[j], strict=True)),
                                  *columns[n + j]]
            columns[2 * n:] = [[*[0.0] * n, *column] for column in columns[2 * n:]]
        else:
            after = [y[k] + h * f[k] for k in rows]
            moved_q = _lifted(graph, space.normalize([a + h * b for a, b in zip(
                q, space.tangent(q, after[:n]), strict=True)]))
            columns = []
            for moved in directions:
                change = pushforward([*moved_q, *after], moved)
                columns.append([*space.rates(moved_q, change[:nq]), *change[nq:]])
        by_state, by_force = columns[:self.size], columns[self.size:]
        return Program("linear_model", (*rates.inputs, Port("h", (1,))), self.matrices, tuple(
            graph.lift(x) for part in (by_state, by_force) for row in zip(*part, strict=True)
            for x in row))

    @property
    def _changes(self) -> SensitiveSystem:
        """The system with its derivatives by the state and by forces."""
        names = ("q0", "qd0", *(("x0",) if self.states else ()), "tau")
        key = ("sensitive step", self.system.recipe())
        return kept(self.system.robot, key, lambda: SensitiveStep.of(self.system, names))

    def _of_motion(self, y: Array, own: Array) -> tuple[Array, Array]:
        """A and B of the motion, column by column: many joints have one program of a product."""
        system, n, nq, size = self.system, self.system.robot.n, self.system.robot.nq, y.shape[1]
        rates = moving_with_units(self._changes, y, own)
        start = self._changes.with_units(y).reshape(len(y), -1, size)
        change = rates("rates", self.t, start)[:, 1:, self._rows()].swapaxes(1, 2)
        space, q, v = system.space, y[:, :nq], y[:, nq:nq + n]
        upper = np.zeros((len(y), n, self.size + n))
        upper[:, :, n:2 * n] = np.diag(1 - np.array(system.held))
        if not space.flat:
            kernel = kept(system.robot, ("turning axes",), lambda: _loaded(turning_program(space)))
            upper[:, :, :n] = kernel(q, v)
        rows = np.concatenate([upper, change], axis=1)
        return rows[:, :, :self.size], rows[:, :, self.size:]

    def _of_step(self, y: Array, own: Array, *, few: bool) -> tuple[Array, Array]:
        """A and B of a step of a method."""
        assert self.method is not None
        system, nq = self.system, self.system.robot.nq
        if few:
            states = self._changes.with_units(y)
            moved = one_step(self._changes, self.method, states, own, self.t, self.h)
            y, change = moved[:, :y.shape[1]], moved[:, y.shape[1]:].reshape(
                len(y), self.size + system.robot.n, -1).swapaxes(1, 2)
        else:
            y, change = step_on_arrays(self._changes, self.method, y, own, self.t, self.h)
        rows = np.concatenate([in_tangent_space(system.robot, y[:, :nq], change[:, :nq]),
                               change[:, self._rows()]], axis=1)
        return rows[:, :, :self.size], rows[:, :, self.size:]


class SensitiveStep(SensitiveSystem):
    """A system with its derivatives within one step: forces that jump have the derivative that
    they have between their jumps."""

    def _plain_rates(self) -> Program:
        return self.plain.straight("rates")


def moving_with_units(system: SensitiveSystem, y: Array, own: Array) -> Callable[..., Array]:
    """A text of a system on arrays (states, 1 + changes, elements): its values, and how they
    change along the units of `system`."""
    plain, kernels = system.plain, {}
    du = np.zeros((sum(system.widths.values()), own.shape[1]))
    du[-plain.robot.n:, -plain.robot.n:] = np.eye(plain.robot.n)

    def called(name: str, t: float, y: Array) -> Array:
        if name not in kernels:
            kernels[name] = plain.kernel(name), plain.kernel(
                f"{name}, moved", lambda: jvp(plain.straight(name), ("y", "u")))
        value, moved = kernels[name]
        times = np.full((len(y), 1, 1), t)
        return np.concatenate([value(times, y[:, :1], own[:, None]),
                               moved(times, y[:, :1], own[:, None], y[:, 1:], du)], axis=1)

    return called


def step_on_arrays(system: SensitiveSystem, method: Any, y: Array, own: Array, t: float, h: float,
                   ) -> tuple[Array, Array]:
    """The states after one step, and how they change along the units of a system, by the method's
    text on arrays."""
    size, called = y.shape[1], moving_with_units(system, y, own)
    start = system.with_units(y).reshape(len(y), -1, size)
    restore = partial(called, "restore") if system.plain.restores else None
    with np.errstate(all="ignore"):
        new = attempted(method, start, t, h, system.robot.nq, partial(called, "rates"), restore,
                        partial(called, "coordinate_rates"))
    return new[:, 0], new[:, 1:].swapaxes(1, 2)


def _lifted(graph: Any, values: Sequence[Any]) -> list[Node]:
    return [graph.lift(x) for x in values]
