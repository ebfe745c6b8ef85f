"""The gradient of a cost of a simulation by everything it depends on, backwards: the adjoint.

A trajectory of explicit Runge-Kutta steps,

    K_i = f(t_i, y + h sum_j a_ij K_j, u),      new = N(y + h sum_i b_i K_i),

N bringing coordinates into their space, or closing loops, has a cost C. Let w be dC/d(new). Then
m = N'^T w, and, from the last stage to the first, with
g_i = h b_i m + h sum_(j > i) a_ji f_y^T g_j,

    dC/dy = m + sum_i f_y^T g_i,        dC/du gets sum_i f_u^T g_i.

At an impact the time depends on the numbers, too. Let one step end at te, where g = 0, the state
jump to R, and another step go on from there to the next output. With w = dC/dR, and c the
derivative of C by te, through the second step and R, the first step is gone through backwards with
the weights

    R_y^T w + m g_y,        m = -(c + (R_y^T w) . y') / (g_y . y' + g_t),

y' being the derivative of that step by its size: what te contributes is gone then.

All states are kept; stages are computed again. This is the derivative of the computed steps, not of
the motion that they approximate, so a gradient is exact to rounding; it takes the time of a few
simulations, however many numbers there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nlink.derivatives.traced_functions import function
from nlink.iterations.methods.classical import RK4
from nlink.iterations.projection import CALLS, CLOSED
from nlink.iterations.runge_kutta import weighted
from nlink.programs.derivatives import vjp
from nlink.programs.program import Program
from nlink.programs.tracing import input_nodes
from nlink.simulation.closing import Closing
from nlink.simulation.contact_derivatives import ContactStep
from nlink.simulation.control_scheme import Controller
from nlink.simulation.drives import Untraced
from nlink.simulation.ensemble import Ensemble
from nlink.simulation.run import Run
from nlink.simulation.sensitivity import expect_continuous, expect_derivatives
from nlink.simulation.setting import PHYSICS, SAVING, Physics, Saving, Solver, door, setting
from nlink.simulation.simulator import simulated
from nlink.simulation.system import System, system_of

if TYPE_CHECKING:
    from nlink.robot import Robot
    from nlink.simulation.events import Events

Array = np.ndarray


class Adjoint(NamedTuple):
    """A cost, (...), its gradients by name, and the run they belong to."""

    cost: Array
    gradient: dict[str, Array]
    """By "q0" (in the tangent space) and "qd0", (..., n), by "tau" and "f_ext" in tables, (...,
    times, n) and (..., times, 6 links), and by what varies, (..., numbers)."""
    run: Run


@door(q="q0", qd="qd0", controller="tau", dt="every, the size of the steps",
      method="none: the steps are those of 'rk4'", step="every, the size of the steps")
def adjoint(robot: Robot | System, cost: Callable[..., Any] | None, q0: ArrayLike | None = None,
            qd0: ArrayLike | None = None, t: float | ArrayLike = 10.0,
            tau: ArrayLike | Controller | None = None, every: float = 0.01, *,
            running: Callable[..., Any] | None = None, vary: Mapping[str, Any] | None = None,
            f_ext: Any = None, events: Any = None, motion: Mapping[str, Any] | None = None,
            algorithm: str | None = None, limits: str = "ignore",
            restitution: float | None = None, friction: str = "dry", width: float = 1e-3,
            effort: str = "ignore", closing: Closing = "project", contact: str = "rigid",
            physics: Physics | None = None, saving: Saving | None = None) -> Adjoint:
    """The gradient of cost(q, qd) of the last state, and of the integral of running(q, qd).

    Both are functions as `nlink.function` takes them; the integral is by the trapezoidal rule on
    the output times. The other arguments are those of `nlink.simulate`, with the method "rk4" and
    a step from each output time to the next; with contacts they are steps of "semi_implicit", and
    the gradient that of motions with the same contacts (docs/contact.md). Impacts on limits that
    bounce are passed through, at times that move with what changes.

    >>> import nlink
    >>> arm = nlink.load("double_pendulum")
    >>> found = adjoint(arm, lambda q, qd: q @ q, [0.1, 0.2], t=0.5)
    >>> found.gradient["q0"].shape, found.gradient["qd0"].shape
    ((2,), (2,))
    """
    if cost is None and running is None:
        raise ValueError("cost: None, and so is running, expected a function of q and qd")
    physics = setting(physics, PHYSICS, algorithm=algorithm, limits=limits,
                      restitution=restitution, friction=friction, width=width, effort=effort,
                      closing=closing, contact=contact)
    system = system_of(robot, physics, tau=tau, f_ext=f_ext, vary=vary, events=events,
                       motion=motion)
    solver, saving = Solver("rk4" if system.contacts is None else "semi_implicit"), setting(
        saving, SAVING, t=t, every=every)
    if saving.save is not None:
        raise ValueError("save: not with adjoint, expected None: use Run.save of the run")
    ensemble = Ensemble.of(system, q0, qd0, solver, saving)
    if system.contacts is None:
        expect_derivatives(ensemble.system, ensemble.method, "adjoint")
    elif system.sampling is not None or isinstance(system.drive, Untraced):
        raise ValueError("adjoint: not with a controller that is sampled or not traced, expected "
                         "one that acts at all times")
    if any(each.trigger.action not in ("record", "bounce") for each in system.watched) or (
            system.watched and system.contacts is not None):
        raise ValueError("adjoint: not with events or limits that end a motion, nor with events "
                         "beside contacts, expected limits='bounce' or 'ignore', and events that "
                         "are recorded")
    system, times = ensemble.system, ensemble.times
    run = simulated(replace(ensemble, step=float(np.diff(times).max())), solver)
    value, weights = _costs(run, cost, running)
    count, size = len(ensemble.y0), system.shape.size
    y = np.concatenate([run.q, run.rates, *run.parts.values()], axis=-1)
    y, w = y.reshape(count, len(times), size), weights.reshape(count, len(times), -1)
    passes = _ContactReverse(ensemble) if system.contacts is not None else (
        _Reverse(ensemble, run.log))
    n, own, wide = system.robot.n, np.zeros((count, system.varied.width)), system.columns
    table = np.zeros((count, len(times), wide))
    back = np.zeros((count, size))
    back[:, :w.shape[-1]] = w[:, -1]
    for k in reversed(range(len(times) - 1)):
        back, by_u = passes.step(k, y[:, k:k + 2], back)
        back[:, :w.shape[-1]] += w[:, k]
        if wide:
            table[:, k] += by_u[:, 2:2 + wide]
            table[:, k + 1] += by_u[:, 2 + wide:2 + 2 * wide]
        own += by_u[:, system.shape.timed:]
    if system.motion is not None or system.robot.mechanism.closed:
        # where it begins may depend on what varies, and was projected
        back, by_u = passes.begun(np.full((count, 1), times[0]), y[:, 0], passes.inputs(0), back)
        own += by_u[:, system.shape.timed:]
    found = {"q0": passes.in_tangent_space(y[:, 0], back), "qd0": back[:, system.robot.nq:][:, :n]}
    if system.drive.tabled:
        found["tau"] = table[..., :n]
    if system.wrenches is not None and system.wrenches.table:
        found["f_ext"] = table[..., wide - system.wrenches.columns:]
    at = 0
    for name, wide in system.varied.columns:
        found[name], at = own[:, at:at + wide], at + wide
    return Adjoint(value, {name: x.reshape(*ensemble.lead, *x.shape[1:])
                           for name, x in found.items()}, run)


def _costs(run: Run, cost: Callable[..., Any] | None, running: Callable[..., Any] | None,
           ) -> tuple[Array, Array]:
    """The cost, and its derivatives by q and qd at all times."""
    sizes, columns = (run.robot.nq, run.robot.n), (np.asarray(run.q), np.asarray(run.qd))
    weights = np.zeros((*columns[0].shape[:-1], sum(sizes)))
    value = np.zeros(columns[0].shape[:-2])
    for name, each, last in (("cost", cost, True), ("running", running, False)):
        if each is None:
            continue
        traced = function(each, *sizes)
        if traced.output.size != 1:
            raise ValueError(f"{name}: {traced.output.size} values, expected a number")
        share = np.zeros(len(run.t))
        if last:
            share[-1] = 1.0
        else:
            share[:-1] += np.diff(run.t) / 2
            share[1:] += np.diff(run.t) / 2
        value = value + np.asarray(traced(*columns)).reshape(columns[0].shape[:-1]) @ share
        slopes = [np.reshape(x, column.shape) for x, column in zip(
            traced.gradient(*columns), columns, strict=True)]
        weights += np.concatenate(slopes, axis=-1) * share[:, None]
    return value, weights


class _Backwards:
    """Steps backwards, all trajectories at once."""

    back: Any = None
    """How states that are brought into their space, or onto closed loops, pull gradients back."""
    restores: Any = None
    """How they are brought into their space."""

    def __init__(self, ensemble: Ensemble) -> None:
        system = self.system = ensemble.system
        self.ensemble = ensemble
        if system.contacts is None and (system.restores or system.projects):
            name = "close" if system.projects else "restore"
            self.back = system.kernel(f"{name}, pulled back", lambda: vjp(
                system.straight(name), ("y", "u")))
            self.restores = None if system.projects else system.kernel("restore")

    def inputs(self, k: int) -> Array:
        """What the programs have as inputs up to an output time."""
        count = len(self.ensemble.y0)
        return self.ensemble.inputs(np.arange(count), np.full(count, self.ensemble.times[k]))

    def begun(self, t: Array, y: Array, u: Array, w: Array) -> tuple[Array, Array]:
        """The gradient by q0, qd0 and inputs from that by the state that a motion starts from."""
        if not self.system.robot.mechanism.closed:
            return self.restored(t, y, u, w)
        close = self.system.but(closing="project")
        return close.kernel("close, pulled back", lambda: vjp(close.straight("close"), ("y", "u")))(
            t, y, u, np.column_stack([w, np.zeros(len(w))]))

    def restored(self, t: Array, y: Array, u: Array, w: Array) -> tuple[Array, Array]:
        """The gradient by states, and by the inputs, from that by what they are restored to: in
        the spaces of coordinates, or with loops closed, by as many steps as that takes."""
        if not self.system.projects:
            return self.back(t, y, u, w)
        close, states, takes = self.system.kernel("close"), [y], [np.ones(len(y), dtype=bool)]
        for _ in range(CALLS):
            found = close(t, states[-1], u)
            left = takes[-1] & (found[:, -1] > CLOSED)
            if not left.any() or len(takes) == CALLS:
                break
            states.append(np.where(takes[-1][:, None], found[:, :-1], states[-1]))
            takes.append(left)
        by_u = np.zeros_like(u)
        for state, some in zip(reversed(states), reversed(takes), strict=True):
            by_y, held = self.back(t, state, u, np.column_stack([w, np.zeros(len(w))]))
            w = np.where(some[:, None], by_y, w)
            by_u = by_u + np.where(some[:, None], held, 0.0)
        return w, by_u

    def in_tangent_space(self, y: Array, w: Array) -> Array:
        """Gradients by coordinates as those by rates: T^T w."""
        robot, count = self.system.robot, len(y)
        q = [y[:, k] for k in range(robot.nq)]
        tangents = [np.stack([np.broadcast_to(x, count) for x in robot.mechanism.space.tangent(
            q, unit.tolist())], axis=1) for unit in np.eye(robot.n)]
        return np.stack([(T * w[:, :robot.nq]).sum(axis=1) for T in tangents], axis=1)


class _ContactReverse(_Backwards):
    """Steps with contacts backwards; the forces of each are kept in the state after it."""

    def step(self, k: int, y: Array, w: Array) -> tuple[Array, Array]:
        """The gradient by the state before step k, and by the inputs in it, from that by the
        state after it; y are both states."""
        times = self.ensemble.times
        step = ContactStep(self.system, float(times[k + 1] - times[k]))
        return step.pulled(step.with_forces(y[:, 0], y[:, 1]), self.inputs(k + 1), times[k], w)


class _StepBack(NamedTuple):
    """Gradients by what a step begins with: its state and inputs, its size, and its time."""

    by_y: Array
    by_u: Array
    by_h: Array
    by_t: Array


class _Reverse(_Backwards):
    """Runge-Kutta steps backwards, and the impacts within them."""

    def __init__(self, ensemble: Ensemble, log: Events | None) -> None:
        super().__init__(ensemble)
        system = self.system
        self.rates = system.kernel("rates")
        self.impacts: dict[tuple[int, int], list[tuple[float, int]]] = {}
        """Times and numbers of impacts, by the output time before them and the trajectory."""
        bounces = [each.trigger.action == "bounce" for each in system.watched]
        for row, t, which in () if log is None else zip(log.trajectory, log.t, log.which,
                                                        strict=True):
            if bounces[which]:
                k = int(np.searchsorted(ensemble.times, t)) - 1
                found = self.impacts.setdefault((k, int(row)), [])
                if found and found[-1][0] == t:
                    raise ValueError(f"adjoint: two limits are hit at {t:g} s, where the motion "
                                     "has no derivative, expected another start")
                found.append((float(t), int(which)))
        self._by = ("t", "y", "u") if self.impacts else ("y", "u")
        """What the rates are differentiated by: by time only where an event moves in it."""
        self.pulled = system.kernel(f"rates, pulled back by {', '.join(self._by)}", self._pulled)
        if self.impacts:
            self.impact = system.kernel("impact")
            self.pulled_impact, self.pulled_watch = (system.kernel(
                f"{name}, pulled back", partial(self._pulled_text, name))
                for name in ("impact", "watch"))

    def _pulled(self) -> Program:
        """How the rates pull gradients back."""
        system = self.system
        program = system.program("rates")
        if not isinstance(program, Program):
            raise ValueError(f"adjoint: {system.robot.name} has {system.robot.n} rates, too many "
                             "for a program that is not rolled, expected a smaller robot")
        expect_continuous(program, list(chain(*input_nodes(
            program.results[0].graph, program.inputs[1:]))), "adjoint")
        return vjp(program, self._by)

    def _pulled_text(self, name: str) -> Program:
        return vjp(self.system.straight(name), ("t", "y", "u"))

    def step(self, k: int, y: Array, w: Array) -> tuple[Array, Array]:
        """The gradient by the state before step k, and by the inputs in it, from that by the
        state after it; y are both states."""
        begin, end = self.ensemble.times[k:k + 2]
        t, u = np.full((len(y), 1), begin), self.inputs(k + 1)
        found = self.one(t, np.full((len(y), 1), end - begin), y[:, 0], u, w)
        by_y, by_u = found.by_y, found.by_u
        for row in {row for at, row in self.impacts if at == k}:
            own = slice(row, row + 1)
            by_y[own], by_u[own] = self.through(k, self.impacts[k, row], y[own, 0], u[own], w[own])
        return by_y, by_u

    def one(self, t: Array, h: Array, y: Array, u: Array, w: Array) -> _StepBack:
        """One step of size h (count, 1) from t backwards."""
        stages, K = self.stages(t, h, y, u)
        by_u, last = np.zeros_like(u), weighted(RK4.b, K)
        if self.back is not None:
            w, by_u = self.restored(t + h, y + h * last, u, w)
        by_y, by_h, by_t = w.copy(), (w * last).sum(axis=1), np.zeros(len(y))
        later = [h * float(b) * w for b in RK4.b]
        for i in reversed(range(len(K))):
            *in_time, back, held = self.pulled(t + float(RK4.c[i]) * h, stages[i], u, later[i])
            by_y, by_u = by_y + back, by_u + held
            if in_time:
                by_t = by_t + in_time[0][:, 0]
                by_h = by_h + float(RK4.c[i]) * in_time[0][:, 0]
                by_h = by_h + (back * weighted(RK4.a[i], K)).sum(axis=1) if i else by_h
            for j, a in enumerate(RK4.a[i][:i]):
                later[j] = later[j] + h * float(a) * back
        return _StepBack(by_y, by_u, by_h, by_t)

    def stages(self, t: Array, h: Array, y: Array, u: Array) -> tuple[list[Array], list[Array]]:
        """The states of a step, and the rates there."""
        stages, K = list[Array](), list[Array]()
        for row, node in zip(RK4.a, RK4.c, strict=True):
            stages.append(y + h * weighted(row, K) if K else y)
            K.append(self.rates(t + float(node) * h, stages[-1], u))
        return stages, K

    def through(self, k: int, impacts: list[tuple[float, int]], y: Array, u: Array, w: Array,
                ) -> tuple[Array, Array]:
        """A step of one trajectory with impacts within it backwards: parts of it before and
        between impacts, whose times move."""
        begin, end = self.ensemble.times[k:k + 2]
        inputs, parts = self.system.shape.inputs, []
        for te, which in impacts:
            t, h = np.array([[begin]]), np.array([[te - begin]])
            before = y + h * weighted(RK4.b, self.stages(t, h, y, u)[1])
            if self.restores is not None:
                before = self.restores(t + h, before, u)
            hit = np.concatenate([u, np.eye(len(self.system.watched))[which:which + 1]], axis=1)
            parts.append((t, h, y, before, hit))
            begin, y = te, self.impact(t + h, before, hit)
        found = self.one(np.array([[begin]]), np.array([[end - begin]]), y, u, w)
        by_y, by_u = found.by_y, found.by_u
        by_te = found.by_t - found.by_h
        for t, h, y, before, hit in reversed(parts):
            by_t, by_y, held = self.pulled_impact(t + h, before, hit, by_y)
            by_te = by_te + by_t[:, 0]
            g_t, g_y, g_u = self.pulled_watch(t + h, before, u, hit[:, inputs:])
            straight, late = (self.one(t, h, y, u, each) for each in (by_y, g_y))
            m = -(straight.by_h + by_te) / (late.by_h + g_t[:, 0])
            by_y = straight.by_y + m * late.by_y
            by_u = by_u + held[:, :inputs] + straight.by_u + m * (late.by_u + g_u)
            by_te = straight.by_t + by_te + m * (late.by_t + g_t[:, 0])
        return by_y[0], by_u[0]
