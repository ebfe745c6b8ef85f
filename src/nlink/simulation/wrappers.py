"""Controllers around controllers: sampled, saturated, with noise on what they measure.

    Sampled(controller, period, delay)     acts every `period` seconds, its forces held in between
    Saturated(controller, effort)          forces no larger than motors give
    Noisy(controller, sigma_q, sigma_qd)   sees q and qd with noise

They can be nested in any order, and the controller inside keeps its state, its gains and its
period.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlink.scalars.functions import Scalar, clip, cos, log, scramble, sin, sqrt
from nlink.simulation.control_scheme import Controller, advance, over_batch, state_values

Array = np.ndarray


class Wrapper:
    """A controller around another; attributes that it does not define are those of the one
    inside."""

    controller: Controller

    def __call__(self, t: Scalar, q: Any, qd: Any, *more: Any) -> Any:
        return over_batch(self.controller, self.controller, t, q, qd, *more)

    def advance(self, period: float, t: Scalar, q: Any, qd: Any, x: Any, *p: Any) -> Any:
        """The state one sample later."""
        return advance(self.controller, period, t, q, qd, x, *p)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "controller":
            raise AttributeError(name)
        return getattr(self.controller, name)


@dataclass(frozen=True, eq=False)
class Sampled(Wrapper):
    """Acts only at the times k period, `delay` samples late, and holds its forces in between.

    What a controller computes from the state at a sample reaches the joints `delay` samples later;
    before the first command arrives the forces are zero. A state that has rates and no `update`
    advances from sample to sample by Euler's rule, x + period * rates.

    >>> import nlink
    >>> from nlink.simulation import PD
    >>> arm = nlink.load("planar3")
    >>> digital = Sampled(PD(arm, [0.1, 0.2, 0.3], 80.0, 20.0), period=0.005)
    >>> nlink.simulate(arm, t=0.1, tau=digital).tau.shape
    (11, 3)
    """

    controller: Controller
    period: float
    delay: int = 0

    def __post_init__(self) -> None:
        if not callable(self.controller):
            raise TypeError(f"controller: a {type(self.controller).__name__}, expected a function "
                            "of t, q, qd")
        inside = getattr(self.controller, "period", None)
        if inside not in (None, self.period):
            raise ValueError(f"period: {self.period}, but the controller inside has the period "
                             f"{inside}, expected the same")
        if not (isinstance(self.period, int | float) and math.isfinite(self.period)
                and self.period > 0):
            raise ValueError(f"period: {self.period!r}, expected a positive number of seconds")
        if not (isinstance(self.delay, int) and self.delay >= 0):
            raise ValueError(f"delay: {self.delay!r}, expected a whole number of samples >= 0")


@dataclass(frozen=True, eq=False)
class Saturated(Wrapper):
    """The forces of a controller, kept within `effort`: one number, or one for each rate; the
    effort limits of the robot's joints if not given.

    >>> Saturated(lambda t, q, qd: -50.0 * q, effort=[5.0, 2.0])(0.0, np.array([1.0, 0.01]), None)
    array([-5. , -0.5])
    """

    controller: Controller
    effort: Any = None

    def __post_init__(self) -> None:
        effort = self.effort
        if effort is None:
            robot = getattr(self.controller, "robot", None)
            if robot is None:
                raise ValueError("effort: none given, and the controller knows no robot, expected "
                                 "numbers")
            effort = robot.limits.effort
            if not np.isfinite(effort).any():
                raise ValueError(f"effort: none given, and {robot.name} has no effort limits, "
                                 "expected numbers")
        effort = np.array(effort, dtype=float)
        if effort.ndim > 1 or not (effort >= 0).all():
            raise ValueError(f"effort: {self.effort!r}, expected a number >= 0, or one for each "
                             "rate")
        object.__setattr__(self, "effort", effort)

    def __call__(self, t: Scalar, q: Any, qd: Any, *more: Any) -> Any:
        tau = np.asarray(super().__call__(t, q, qd, *more))
        if self.effort.ndim and tau.shape[-1:] != self.effort.shape:
            raise ValueError(f"effort: {len(self.effort)} numbers, expected {tau.shape[-1]}, one "
                             "for each joint force")
        return clip(tau, -self.effort, self.effort)


@dataclass(frozen=True, eq=False)
class Noisy(Wrapper):
    """A sampled controller that sees q and qd with Gaussian noise of these standard deviations, one
    number or one for each rate (of a quaternion: as rotation vectors).

    The noise of a sample is a function of the seed, the index of the trajectory in its ensemble and
    the index of the sample: the same on any number of threads and after an interruption.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> from nlink.simulation import Noisy, PDGravity, Sampled
    >>> steady = PDGravity(robot, [0.0, 0.0], 40.0, 20.0)
    >>> drive = Sampled(Noisy(steady, sigma_q=1e-3, seed=1), period=0.01)
    >>> run = nlink.simulate(robot, [0.0, 0.0], t=0.5, tau=drive)
    >>> bool(abs(run.q[-1]).max() > 0)
    True
    """

    controller: Controller
    sigma_q: Any = 0.0
    sigma_qd: Any = 0.0
    seed: int = 0
    sampled_only = True

    def __post_init__(self) -> None:
        for name in ("sigma_q", "sigma_qd"):
            sigma = np.array(getattr(self, name), dtype=float)
            if sigma.ndim > 1 or not (np.isfinite(sigma) & (sigma >= 0)).all():
                raise ValueError(f"{name}: {getattr(self, name)!r}, expected a finite number >= 0, "
                                 "or one for each rate")
            object.__setattr__(self, name, sigma)
        if not (isinstance(self.seed, int) and 0 <= self.seed < 2**53):
            raise ValueError(f"seed: {self.seed!r}, expected a whole number from 0 to 2^53 - 1")

    @property
    def state(self) -> Array:
        """The state of the controller inside, then the numbers of the trajectory and the sample."""
        return np.append(state_values(self.controller), (0.0, 0.0))

    def start(self, trajectories: Array) -> Array:
        inside = getattr(self.controller, "start", None)
        first = (np.tile(state_values(self.controller), (len(trajectories), 1)) if inside is None
                 else inside(trajectories))
        return np.column_stack([first, trajectories, np.zeros(len(trajectories))])

    def __call__(self, t: Scalar, q: Any, qd: Any, *more: Any) -> Any:
        x, *p = more
        q, qd = self.measured(q, qd, x)
        return super().__call__(t, q, qd, *self._inner(x), *p)

    def advance(self, period: float, t: Scalar, q: Any, qd: Any, x: Any, *p: Any) -> Any:
        inner = self._inner(x)
        if inner:
            q, qd = self.measured(q, qd, x)
            inner = [advance(self.controller, period, t, q, qd, *inner, *p)]
        count = stacked([x[..., -2][()], x[..., -1][()] + 1.0])
        return np.concatenate([*(np.asarray(each) for each in inner), count], axis=-1)

    def _inner(self, x: Any) -> list[Any]:
        """The state of the controller inside, if it has one."""
        return [x[..., :-2]] if x.shape[-1] > 2 else []

    def measured(self, q: Any, qd: Any, x: Any) -> tuple[Any, Any]:
        """q and qd with the noise of a sample."""
        trajectory, sample = x[..., -2][()], x[..., -1][()]
        key, n = scramble(scramble(float(self.seed), trajectory), sample), qd.shape[-1]
        noise = stacked(gaussian(key, 2 * n))
        return self._moved(q, noise[..., :n] * self.sigma_q), qd + noise[..., n:] * self.sigma_qd

    def _moved(self, q: Any, step: Any) -> Any:
        robot = getattr(self.controller, "robot", None)
        if q.shape[-1] == step.shape[-1] and (robot is None or robot.mechanism.space.flat):
            return q + step
        if robot is None:
            raise ValueError("sigma_q: the controller knows no robot, and there are other "
                             f"coordinates ({q.shape[-1]}) than rates ({step.shape[-1]}), "
                             "expected one of nlink.simulation's")
        return stacked(robot.mechanism.space.integrate(
            *([x[..., k][()] for k in range(x.shape[-1])] for x in (q, step))))


def gaussian(key: Scalar, count: int) -> list[Scalar]:
    """Numbers from the standard normal distribution, as many as `count`, from one between 0 and 1,
    by Box and Muller: sqrt(-2 log u) times the cosine and the sine of 2 pi w.

    >>> [round(x, 3) for x in gaussian(0.25, 3)]
    [0.251, -1.364, -1.031]
    """
    found: list[Scalar] = []
    for k in range(0, count, 2):
        radius = sqrt(-2.0 * log(scramble(key, float(k))))
        angle = 2 * math.pi * scramble(key, float(k + 1))
        found += [radius * cos(angle), radius * sin(angle)]
    return found[:count]


def stacked(values: Sequence[Scalar]) -> Array:
    """Scalars side by side in the last dimension: numbers, arrays over a batch, or nodes."""
    if any(isinstance(x, np.ndarray) for x in values):
        return np.stack(np.broadcast_arrays(*values), axis=-1)
    plain = all(isinstance(x, int | float | np.number) for x in values)
    return np.array(values, dtype=float if plain else object)


def with_gains(controller: Any, gains: dict[str, Any]) -> Any:
    """A copy of a controller with other gains, of the one inside if it is wrapped."""
    changed = copy(controller)
    if isinstance(controller, Wrapper):
        object.__setattr__(changed, "controller", with_gains(controller.controller, gains))
        return changed
    for name, values in gains.items():
        object.__setattr__(changed, name, values)
    return changed
