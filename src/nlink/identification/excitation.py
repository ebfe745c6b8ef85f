"""Motions that tell most of a robot's parameters: `nlink.excite`.

Every joint follows a Fourier series or a cubic spline that starts and ends at rest, linear in the
numbers that are found (`nlink.identification.exciting_paths`).

With W the rows of the base parameters, those of a joint divided by the torque that the robot's own
parameters usually give it, and each column by its usual size within the limits, the criterion is
the condition number of W, or -log det(W^T W) / 2. With
G = W^T W, d criterion = <Gamma, dG> = <2 W Gamma, dW>, and the gradient of W goes through the
regressor in reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlink.algorithms.joint_columns import column_kinds
from nlink.derivatives.differentials import vjp
from nlink.identification.base_parameters import BaseParameters, base_parameters
from nlink.identification.excitation_limits import MotionLimits
from nlink.identification.exciting_paths import (
    ExcitingPath,
    FourierShape,
    PathShape,
    SplineShape,
)
from nlink.identification.fit import Fit
from nlink.identification.logs import Log, read_log
from nlink.identification.quasi_newton import minimized
from nlink.identification.signals import differentiated, suggested_cutoff
from nlink.model.names import did_you_mean
from nlink.robot import Robot, expect_robot

Array = np.ndarray
CRITERIA = ("condition", "D")
SHAPES = {"fourier": FourierShape, "spline": SplineShape}
VOLUME = 0.3
"""How much the mean of -log of all eigenvalues counts beside the condition number: motions may not
be small."""
PERIOD = 10.0
"""Seconds of one period, if the duration has room for several."""
SHARP = 6.0
"""The p of the p-norms that stand for the largest and the least eigenvalue."""
SAMPLES, FINE = 24, 200
"""For each of the harmonics: for the criterion, and for the limits in the end."""
STARTS = 3
STEPS = 250


def excite(robot: Robot, duration: float = 20.0, harmonics: int = 5, criterion: str = "condition",
           limits: Mapping[str, Any] | None = None, after: Any = None, seed: int = 0, *,
           motion: str = "fourier", friction: Sequence[str] = (), armature: bool = False,
           period: float | None = None) -> ExcitingPath:
    """A motion within a robot's limits from whose log its base parameters can be identified well.

    `criterion` is "condition" (the ratio of what is told best to what is told least) or "D" (the
    volume of the confidence region). `limits` may replace those of the robot: "lower", "upper",
    "velocity", "acceleration", "effort", arrays of n, and "keep_out", a box ((x, y, z), (x, y, z))
    of the world that no link's origin enters. `after` are motions that were or will be driven
    beside this one: paths, logs, or a fit, which it complements. `friction` and `armature` are
    columns to be told, too. `motion` is "fourier", a series of `harmonics`, or "spline", a cubic
    spline with about as many free numbers. It repeats after `period` seconds.

    >>> import nlink
    >>> path = nlink.excite(nlink.load("double_pendulum"), duration=10, seed=1)
    >>> q, qd, qdd = path(0.0)
    >>> bool(max(map(abs, qd)) < 1e-9), bool(path.condition < 10)
    (True, True)
    """
    expect_robot(robot)
    if criterion not in CRITERIA:
        raise ValueError(f"criterion: {criterion!r}, expected one of {', '.join(CRITERIA)}"
                         f"{did_you_mean(criterion, CRITERIA)}")
    if motion not in SHAPES:
        raise ValueError(f"motion: {motion!r}, expected one of {', '.join(SHAPES)}"
                         f"{did_you_mean(motion, SHAPES)}")
    if not (math.isfinite(duration) and duration > 0):
        raise ValueError(f"duration: {duration}, expected a positive number of seconds")
    if harmonics < 2:
        raise ValueError(f"harmonics: {harmonics}, expected at least 2")
    if robot.description.closed or robot.nq != robot.n:
        raise ValueError(f"robot: {robot.name}, expected a tree with joints of plain coordinates")
    length = duration / max(1, round(duration / PERIOD)) if period is None else float(period)
    if not 0 < length <= duration:
        raise ValueError(f"period: {period}, expected a positive number up to {duration}")
    base = base_parameters(robot, friction, armature)
    bounds = MotionLimits.of(robot, limits)
    shape = SHAPES[motion](robot.n, harmonics, length, SAMPLES)
    fine = SHAPES[motion](robot.n, harmonics, length, FINE)
    measure = Information(robot, base, tuple(friction), armature, bounds, criterion, seed)
    measure.known = known_rows(measure, after)
    rng = np.random.default_rng(seed)
    best: tuple[float, Array] | None = None
    for _ in range(STARTS):
        x = shape.random(rng, bounds)
        for stiffness in (10.0, 1e3):
            x = minimized(_objective(shape, measure, bounds, stiffness), x, STEPS)
        x = _within(fine, bounds, x)
        value = measure.value(*shape.motion(x))
        if best is None or value < best[0]:
            best = value, x
    assert best is not None
    return shape.path(best[1], duration, robot.qd_names, measure.condition(*shape.motion(best[1])),
                      bounds)


@dataclass(eq=False)
class Information:
    """What a motion tells of base parameters."""

    robot: Robot
    base: BaseParameters
    friction: tuple[str, ...]
    armature: bool
    bounds: MotionLimits
    criterion: str
    seed: int
    known: Array | None = None
    """W^T W of motions that exist, for one sample."""

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        lower, upper, velocity, acceleration = (self.bounds.lower, self.bounds.upper,
                                                self.bounds.velocity, self.bounds.acceleration)
        u = rng.uniform(-1, 1, (3, 200, self.robot.n))
        q = self.bounds.middle + u[0] * (upper - lower) / 2
        states = q, 0.5 * velocity * u[1], 0.3 * acceleration * u[2]
        size = np.sqrt((self.robot.inverse_dynamics(*states) ** 2).mean(axis=0))
        self.usual = np.maximum(size, 0.02 * max(size.max(initial=0.0), 1e-9))
        self.count, self.column = len(self.base), np.ones(len(self.base))
        W = self.rows(*states).reshape(-1, self.count)
        self.column = 1.0 / np.maximum(np.sqrt((W**2).mean(axis=0)), 1e-12)

    def rows(self, q: Array, qd: Array, qdd: Array) -> Array:
        Y = self.robot.regressor(q, qd, qdd, friction=self.friction, armature=self.armature,
                                 width=0.05)
        return Y[..., self.base.columns] / self.usual[:, None] * self.column

    def gram(self, W: Array) -> Array:
        flat = W.reshape(-1, self.count)
        G = flat.T @ flat / len(W)
        return G if self.known is None else G + self.known

    def value(self, q: Array, qd: Array, qdd: Array) -> float:
        return self.criterion_of(self.gram(self.rows(q, qd, qdd)))[0]

    def condition(self, q: Array, qd: Array, qdd: Array) -> float:
        """The condition number of all rows."""
        values = np.linalg.eigvalsh(self.gram(self.rows(q, qd, qdd)))
        return float(np.sqrt(values[-1] / max(values[0], 1e-300)))

    def criterion_of(self, G: Array) -> tuple[float, Array]:
        """The criterion and Gamma, its derivative by G."""
        if self.criterion == "D":
            A = G + 1e-12 * np.eye(len(G))
            return -0.5 * float(np.linalg.slogdet(A)[1]), -0.5 * np.linalg.inv(A)
        values, V = np.linalg.eigh(G)
        values = np.maximum(values, 1e-14)
        top, low = values[-1], values[0]
        high, small = (values / top) ** SHARP, (low / values) ** SHARP
        value = 0.5 * (np.log(top) + np.log(high.sum()) / SHARP
                       - np.log(low) + np.log(small.sum()) / SHARP)
        slope = 0.5 * (high / high.sum() - small / small.sum()) / values
        value -= VOLUME * float(np.log(values).mean()) / 2
        slope -= VOLUME / (2 * len(values) * values)
        return float(value), (V * slope) @ V.T

    def gradient(self, q: Array, qd: Array, qdd: Array) -> tuple[float, list[Array]]:
        """The criterion, and its derivatives by the motion."""
        W = self.rows(q, qd, qdd)
        value, Gamma = self.criterion_of(self.gram(W))
        slope = (2.0 / len(W)) * (W @ Gamma) * self.column / self.usual[:, None]
        full = np.zeros((*slope.shape[:2], len(self.base.names)))
        full[..., self.base.columns] = slope
        m = 10 * len(self.robot.mechanism.joints)
        found = [np.array(x) for x in vjp(self.robot, "regressor", (q, qd, qdd), full[..., :m])]
        self._joint_slopes(full[..., m:], found, qd)
        return value, found

    def _joint_slopes(self, slope: Array, found: list[Array], qd: Array) -> None:
        """Of the columns of friction and armature, which each joint has by itself."""
        n = self.robot.n
        for k, kind in enumerate(column_kinds(self.friction, self.armature)):
            own = np.einsum("kjj->kj", slope[..., k * n:(k + 1) * n])
            if kind == "viscous":
                found[1] += own
            elif kind == "armature":
                found[2] += own
            elif kind == "coulomb":
                found[1] += own * (1 - np.tanh(qd / 0.05) ** 2) / 0.05


def _objective(shape: PathShape, measure: Information, bounds: MotionLimits, stiffness: float,
               ) -> Callable[[Array], tuple[float, Array]]:
    def value_and_gradient(x: Array) -> tuple[float, Array]:
        motion = shape.motion(x)
        value, slopes = measure.gradient(*motion)
        cost, more = bounds.penalty(*motion)
        return value + stiffness * cost, shape.pulled(*(
            a + stiffness * b for a, b in zip(slopes, more, strict=True)))

    return value_and_gradient


def _within(shape: PathShape, bounds: MotionLimits, x: Array) -> Array:
    """All swings smaller until every limit is kept: joint by joint, then all of them."""
    x = x.copy()
    x[:shape.n] = np.clip(x[:shape.n], bounds.lower, bounds.upper)
    x = shape.shrunk(x, np.maximum(bounds.largest(*shape.motion(x)), 1.0))
    for _ in range(60):
        if bounds.kept(*shape.motion(x)):
            return x
        x = shape.shrunk(x, np.full(shape.n, 1.05))
        x[:shape.n] += 0.05 * (bounds.middle - x[:shape.n])
    raise ValueError("limits: no motion within them was found, expected room around the middle of "
                     "the joints' ranges")


def known_rows(measure: Information, after: Any) -> Array | None:
    """W^T W of motions that exist: paths, logs or fits."""
    if after is None:
        return None
    total = np.zeros((measure.count, measure.count))
    for each in after if isinstance(after, list | tuple) else [after]:
        if isinstance(each, ExcitingPath):
            motions = [each.at(np.linspace(0, each.duration, 400, endpoint=False))]
        else:
            logs = [rows.log for rows in each.rows] if isinstance(each, Fit) else [
                each if isinstance(each, Log) else read_log(each, measure.robot)]
            motions = []
            for log in logs:
                if log.t is None:
                    motions.append((log.q, log.qd, log.qdd))
                    continue
                smooth = differentiated(log.t, log.q, suggested_cutoff(log.t, log.q))
                step = max(1, len(smooth.t) // 500)
                motions.append((smooth.q[::step], smooth.qd[::step], smooth.qdd[::step]))
        for q, qd, qdd in motions:
            W = measure.rows(q, qd, qdd).reshape(-1, measure.count)
            total += W.T @ W / len(q)
    return total
