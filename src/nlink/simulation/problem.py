"""What `nlink.simulate` is asked for, checked: states, times, forces, what varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.iterations.integration import Method
from nlink.iterations.methods import METHODS
from nlink.model.mimics import leads
from nlink.robot import expect_robot
from nlink.scalars.arrays import batch
from nlink.scalars.lazy import lazy
from nlink.simulation.applying import apply
from nlink.simulation.closing import closed_start
from nlink.simulation.control_scheme import Controller
from nlink.simulation.dry_friction import FRICTION, Modes, moded_rates
from nlink.simulation.scipy_methods import SCIPY
from nlink.simulation.variation import NOTHING, Variation, Varied
from nlink.simulation.velocities import VELOCITIES, JointRates
from nlink.simulation.wrappers import Saturated

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray

OUTPUTS = 10**8
"""The most output times of a run."""
LONGEST = 128
"""The most joints of a mechanism whose rates have modes: its code is not rolled."""
SCALE = 1e-9
"""The least of what is taken for a moment of inertia, where forces are compared."""
LARGEST = 10**18
"""The most steps, or threads, that can be asked for: what a record has room for."""


@dataclass(frozen=True)
class Problem:
    """The arguments of `simulate`, checked."""

    robot: Robot
    lead: tuple[int, ...]
    y0: Array
    """(count, nq + n)"""
    unclosed: Array
    """(count,): whose loops do not close, so that they never start."""
    times: Array
    controller: Controller | None
    table: Array | None
    """(count or 1, times, n)"""
    method: Method
    velocity: JointRates
    """What is integrated besides q."""
    step: float
    """The size of steps, or of the first; 0 if it is to be found."""
    variation: Variation | None = None
    """Values of (*lead, width)."""

    @staticmethod
    def of(robot: Robot, q0: ArrayLike | None, qd0: ArrayLike | None, t: float | ArrayLike,
           tau: ArrayLike | Controller | None, method: str | Method, velocity: str, every: float,
           step: float | None, vary: Mapping[str, Any] | None = None) -> Problem:
        expect_robot(robot)
        method = _method(method)
        times = output_times(t, every)
        q = batch("q0", robot.neutral if q0 is None else q0, (robot.nq,))
        qd = batch("qd0", np.zeros(robot.n) if qd0 is None else qd0, (robot.n,))
        table = None if tau is None or callable(tau) else np.array(batch(
            "tau", tau, (len(times), robot.n), ": joint forces at each output time"))
        controller = tau if callable(tau) else None
        variation = Variation.of(robot, controller, vary)
        shapes = {"q0": q.shape[:-1], "qd0": qd.shape[:-1],
                  "tau": () if table is None else table.shape[:-2]}
        if variation is not None:
            shapes["vary"] = variation.values.shape[:-1]
        try:
            lead = np.broadcast_shapes(*shapes.values())
        except ValueError:
            raise ValueError("leading shapes do not broadcast: "
                             f"{', '.join(f'{k} {v}' for k, v in shapes.items())}") from None
        y0 = np.concatenate([np.broadcast_to(q, (*lead, robot.nq)),
                             np.broadcast_to(qd, (*lead, robot.n))], axis=-1)
        y0 = np.ascontiguousarray(y0.reshape(-1, robot.nq + robot.n))
        if table is not None:
            whole = table.shape[:-2] == () or np.prod(table.shape[:-2]) == 1
            table = np.ascontiguousarray(
                table.reshape(1, len(times), robot.n) if whole else np.broadcast_to(
                    table, (*lead, len(times), robot.n)).reshape(-1, len(times), robot.n))
        fixed = method.compiles and not method.adaptive
        if step is not None and not (np.isfinite(step) and step > 0):
            raise ValueError(f"step: {step}, expected a positive number of seconds")
        if step is None and fixed:
            step = _interval(every)
        size = 0.0 if step is None else step
        y0, unclosed = closed_start(robot, _unit(robot, y0))
        return Problem(robot, lead, y0, unclosed, times, controller, table, method,
                       _velocity(robot, velocity, method), float(size),
                        None if variation is None else variation.spread(lead))

    @property
    def varied(self) -> Varied:
        return NOTHING if self.variation is None else self.variation.varied

    @property
    def own(self) -> Array:
        """(count, width): what each trajectory has of its own."""
        return (np.empty((len(self.y0), 0)) if self.variation is None
                else self.variation.values.reshape(len(self.y0), self.varied.width))

    @lazy
    def initial(self) -> Array:
        """The states to start from, with the velocities that are integrated in place of qd."""
        nq, y = self.robot.nq, self.y0.copy()
        if self.velocity.velocities is not None:
            y[:, nq:] = self._compute(self.velocity.velocities, y[:, :nq], y[:, nq:])
        elif self.velocity.rates is not None:
            M = self._compute("mass_matrix", y[:, :nq])
            y[:, nq:] = np.einsum("nij,nj->ni", M, y[:, nq:])
        return y

    def _compute(self, name: str, *columns: Array) -> Array:
        """An algorithm on one state of each trajectory, each with its own mechanism."""
        if self.variation is None:
            return self.robot.compute(name, *columns)
        each = self.variation.taken(slice(None))
        return each.compute(self.robot, name, *(x[:, None] for x in columns))[:, 0]

    def inputs(self, trajectory: Array, t: Array) -> Array:
        """What the programs of a simulation have as inputs at some times of trajectories."""
        own = self.own[trajectory]
        if self.table is None:
            return own
        k = np.clip(np.searchsorted(self.times, t) - 1, 0, len(self.times) - 2)
        row = trajectory if len(self.table) > 1 else np.zeros_like(trajectory)
        return np.concatenate([self.times[k, None], self.times[k + 1, None], self.table[row, k],
                               self.table[row, k + 1], own], axis=1)

    def forces(self) -> Any:
        """What `Run.tau` is computed from."""
        if self.table is not None:
            return self.table.reshape(*self.lead, *self.table.shape[1:]) if len(
                self.table) == len(self.y0) else self.table[0]
        return None if self.controller is None else self.controller


def limited(robot: Robot, tau: ArrayLike | Controller | None, effort: str,
            ) -> ArrayLike | Controller | None:
    """Joint forces as `effort` wants them."""
    if effort not in ("ignore", "saturate"):
        raise ValueError(f"effort: {effort!r}, expected 'ignore' or 'saturate'")
    if effort == "ignore" or tau is None:
        return tau
    most = expect_robot(robot).limits.effort
    if not np.isfinite(most).any():
        raise ValueError(f"effort: 'saturate', but {robot.name} has no effort limits, expected "
                         "'ignore', or nlink.simulation.Saturated with limits of your own")
    return Saturated(tau, most) if callable(tau) else np.clip(
        np.asarray(tau, dtype=float), -most, most)


def output_times(t: float | ArrayLike, every: float) -> Array:
    """The times at which states are given."""
    try:
        given = np.asarray(t, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"t: {t!r}, expected a positive number of seconds or a sequence of times"
                         ) from None
    if given.ndim == 1:
        if len(given) < 2 or not np.isfinite(given).all() or (np.diff(given) <= 0).any():
            raise ValueError("t: expected at least two increasing, finite times")
        return np.ascontiguousarray(given)
    if given.ndim or not (np.isfinite(given) and given > 0):
        raise ValueError(f"t: {t}, expected a positive number of seconds or a sequence of times")
    every, end = _interval(every), float(given)
    if end / every > OUTPUTS:
        raise ValueError(f"every: {every} gives {end / every:.1e} outputs until t = {end}, "
                         f"expected at most {OUTPUTS:.0e}")
    whole = int(end / every * (1 + 1e-12))
    times = every * np.arange(whole + 1)
    if whole == 0 or end - times[-1] > 1e-9 * every:
        return np.append(times, end)
    times[-1] = end
    return times


def _interval(every: float) -> float:
    if not (np.isfinite(every) and every > 0):
        raise ValueError(f"every: {every}, expected a positive number of seconds")
    return float(every)


def _unit(robot: Robot, y: Array) -> Array:
    """States with q brought into its space: quaternions of any length but zero, made unit."""
    y, nq = y.copy(), robot.nq
    with np.errstate(all="ignore"):
        for k, x in enumerate(robot.mechanism.space.normalize(tuple(y[:, :nq].T.copy()))):
            y[:, k] = x
    return y


def _method(method: str | Method) -> Method:
    known = METHODS | SCIPY
    if not isinstance(method, str):
        if not hasattr(method, "attempt"):
            raise TypeError(f"method: a {type(method).__name__}, expected a name or a method of "
                            "integration, see docs/adding-an-integrator.md")
        return method
    if method not in known:
        raise ValueError(f"method: {method!r}, expected one of {', '.join(known)}")
    return known[method]


def _velocity(robot: Robot, name: str, method: Method) -> JointRates:
    names = [each for each in VELOCITIES if each != "p"]
    if name not in names:
        raise ValueError(f"velocity: {name!r}, expected one of {', '.join(names)}")
    if not method.canonical:
        return VELOCITIES[name]
    if not robot.mechanism.space.flat:
        raise ValueError(f"method: {method.name!r} needs as many coordinates as rates, and "
                         f"{robot.name} has {robot.nq} and {robot.n}")
    return VELOCITIES["p"] if name == "qd" else VELOCITIES[name]


def rubbing(problem: Problem, friction: str, width: float, limits: str,
            ) -> tuple[Modes | None, float | None]:
    """The modes of rates that rub or are held, or the width of smooth friction."""
    robot, varied = problem.robot, "coulomb" in dict(problem.varied.columns)
    if friction not in FRICTION:
        raise ValueError(f"friction: {friction!r}, expected one of {', '.join(FRICTION)}")
    if not (np.isfinite(width) and width > 0):
        raise ValueError(f"width: {width}, expected a positive rate")
    rough = varied or any(any((*joint.coulomb, *joint.excess)) for joint in robot.mechanism.joints)
    dry = rough and friction == "dry"
    smooth = float(width) if rough and not dry else None
    if not dry and limits != "hold":
        return None, smooth
    what = "limits: 'hold'" if limits == "hold" else "friction: 'dry'"
    other = "limits='ignore'" if limits == "hold" else "friction='smooth'"
    for wrong, why in (
            (robot.mechanism.closures, "a mechanism with loops"),
            (limits == "hold" and leads(robot.joints), "joints that follow others"),
            (problem.velocity.name != "qd", f"velocity={problem.velocity.name!r}"),
            (len(robot.mechanism.joints) > LONGEST,
             f"{len(robot.mechanism.joints)} joints, more than {LONGEST}")):
        if wrong:
            raise ValueError(f"{what} does not go with {why}, expected {other}")
    M = np.reshape(apply(robot, "mass_matrix", robot.neutral.tolist()), (robot.n, robot.n))
    scales = np.maximum(np.diag(M), SCALE).tolist()
    return moded_rates(robot, scales, rubbing=dry, varied=varied,
                       limits=limits == "hold") or None, smooth


def whole_number(name: str, given: Any) -> int:
    if not (isinstance(given, int | float | np.integer | np.floating) and 1 <= given <= LARGEST
            and float(given).is_integer()):
        raise ValueError(f"{name}: {given!r}, expected a whole number from 1 to {LARGEST:.0e}")
    return int(given)
