"""Motions that excite, and the numbers they are linear in: Fourier series and splines.

A Fourier series that starts and ends at rest is

    q(t) = q0 + sum a_k / w_k sin(w_k t) - b_k / w_k cos(w_k t),    sum a_k = 0,    sum w_k b_k = 0.

A cubic spline is linear in its waypoints, so the conditions of rest, rates and accelerations of
zero at both ends of a period and the same position there, are linear in them as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.files import write_text
from nlink.identification.excitation_limits import MotionLimits
from nlink.scalars.functions import Scalar, cos, sin
from nlink.simulation.splines import Spline, second_derivatives

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class ExcitingPath(ABC):
    """A motion of all joints: called with t it gives q, qd and qdd, as controllers want them."""

    duration: float
    names: tuple[str, ...]
    condition: float
    """Of the base parameters' rows, those of each joint divided by its usual torque, each column
    by its usual size within the limits; with `after`, of all rows together."""
    limits: MotionLimits

    def __repr__(self) -> str:
        return (f"<{type(self).__name__}: {len(self.names)} joints, {self.duration:g} s, condition "
                f"{self.condition:.3g}>")

    @abstractmethod
    def __call__(self, t: Scalar | Array) -> tuple[Any, Any, Any]: ...

    @abstractmethod
    def at(self, t: Array) -> tuple[Array, Array, Array]:
        """q, qd and qdd at many times, (times, n)."""

    def save(self, path: str | Path, rate: float = 100.0) -> Path:
        """Write a CSV file with t and q, qd, qdd of each joint, `rate` rows a second."""
        t = np.arange(round(self.duration * rate) + 1) / rate
        head = ",".join(["t", *(f"{name}.{kind}" for kind in ("q", "qd", "qdd")
                                for name in self.names)])
        rows = np.column_stack([t, *self.at(t)])
        text = "\n".join([head, *(",".join(f"{x:.9g}" for x in row) for row in rows.tolist())])
        write_text(path, f"{text}\n")
        return Path(path)


@dataclass(frozen=True, eq=False, repr=False)
class FourierPath(ExcitingPath):
    """A Fourier series."""

    frequencies: Array
    """rad/s, (harmonics,)."""
    sines: Array
    """(harmonics, n): a_k / w_k."""
    cosines: Array
    """(harmonics, n): -b_k / w_k."""
    middle: Array
    """(n,)."""

    def __call__(self, t: Scalar | Array) -> tuple[Any, Any, Any]:
        if isinstance(t, np.ndarray):
            return self.at(t)
        q, qd, qdd = list(self.middle.tolist()), [0.0] * len(self.middle), [0.0] * len(self.middle)
        for w, a, b in zip(self.frequencies.tolist(), self.sines.tolist(), self.cosines.tolist(),
                           strict=True):
            s, c = sin(w * t), cos(w * t)
            for j, (x, y) in enumerate(zip(a, b, strict=True)):
                swing = x * s + y * c
                q[j] = q[j] + swing
                qd[j] = qd[j] + w * (x * c - y * s)
                qdd[j] = qdd[j] - w * w * swing
        return tuple(q), tuple(qd), tuple(qdd)

    def at(self, t: Array) -> tuple[Array, Array, Array]:
        """q, qd and qdd at many times, (times, n)."""
        w, angle = self.frequencies, np.multiply.outer(np.asarray(t, dtype=float), self.frequencies)
        s, c = np.sin(angle), np.cos(angle)
        return (self.middle + s @ self.sines + c @ self.cosines,
                (c * w) @ self.sines - (s * w) @ self.cosines,
                -(s * w**2) @ self.sines - (c * w**2) @ self.cosines)


@dataclass(frozen=True, eq=False, repr=False)
class SplinePath(ExcitingPath):
    """A cubic spline."""

    spline: Spline

    def __call__(self, t: Scalar | Array) -> tuple[Any, Any, Any]:
        return self.spline(t)

    def at(self, t: Array) -> tuple[Array, Array, Array]:
        q, qd, qdd = self.spline(np.asarray(t, dtype=float))
        return np.asarray(q), np.asarray(qd), np.asarray(qdd)


@dataclass(frozen=True, eq=False)
class PathShape(ABC):
    """Numbers x of a path and the motion they give, linear in them."""

    n: int
    harmonics: int
    period: float
    samples: int
    """For each of the harmonics."""
    Q: Array = field(init=False)
    """Positions less their mean at the samples of one period, (samples, numbers of a joint)."""
    V: Array = field(init=False)
    A: Array = field(init=False)

    def __post_init__(self) -> None:
        for name, value in zip("QVA", self.matrices(), strict=True):
            object.__setattr__(self, name, value)

    @abstractmethod
    def matrices(self) -> tuple[Array, Array, Array]:
        """Q, V and A."""

    @abstractmethod
    def path(self, x: Array, duration: float, names: Sequence[str], condition: float,
             limits: MotionLimits) -> ExcitingPath:
        """The path that these numbers stand for."""

    def motion(self, x: Array) -> tuple[Array, Array, Array]:
        """q, qd and qdd of the samples of one period."""
        middle, z = x[:self.n], x[self.n:].reshape(-1, self.n)
        return middle + self.Q @ z, self.V @ z, self.A @ z

    def pulled(self, q: Array, qd: Array, qdd: Array) -> Array:
        """The gradient by x from those by the motion."""
        return np.concatenate([q.sum(axis=0), (self.Q.T @ q + self.V.T @ qd
                                               + self.A.T @ qdd).ravel()])

    def random(self, rng: np.random.Generator, bounds: MotionLimits) -> Array:
        x = np.concatenate([bounds.middle, rng.normal(size=self.Q.shape[1] * self.n)])
        return self.shrunk(x, bounds.largest(*self.motion(x)) / rng.uniform(0.5, 0.9, self.n))

    def shrunk(self, x: Array, factor: Array) -> Array:
        """With all swings divided by a factor for each joint."""
        z = x[self.n:].reshape(-1, self.n) / factor
        return np.concatenate([x[:self.n], z.ravel()])


@dataclass(frozen=True, eq=False)
class FourierShape(PathShape):
    """Coefficients of Fourier series that start at rest."""

    @property
    def w(self) -> Array:
        """rad/s."""
        return 2 * math.pi / self.period * np.arange(1, self.harmonics + 1)

    @property
    def free(self) -> Array:
        """The a and b of series that start at rest, as combinations of free numbers."""
        rest = np.zeros((2, 2 * self.harmonics))
        rest[0, :self.harmonics], rest[1, self.harmonics:] = 1.0, self.w / self.w[0]
        return np.linalg.svd(rest)[2][2:].T

    def matrices(self) -> tuple[Array, Array, Array]:
        w, free = self.w, self.free
        count = self.samples * self.harmonics
        angle = np.outer(np.arange(count) * (self.period / count), w)
        s, c = np.sin(angle), np.cos(angle)
        return (np.hstack([s / w, -c / w]) @ free, np.hstack([c, s]) @ free,
                np.hstack([-s * w, c * w]) @ free)

    def path(self, x: Array, duration: float, names: Sequence[str], condition: float,
             limits: MotionLimits) -> FourierPath:
        ab, H, w = self.free @ x[self.n:].reshape(-1, self.n), self.harmonics, self.w
        return FourierPath(duration, tuple(names), condition, limits, w, ab[:H] / w[:, None],
                           -ab[H:] / w[:, None], x[:self.n].copy())


@dataclass(frozen=True, eq=False)
class SplineShape(PathShape):
    """Waypoints of cubic splines, evenly in time, that start and end at rest in the same place."""

    @property
    def knots(self) -> Array:
        """The times of the waypoints."""
        return np.linspace(0.0, self.period, 2 * self.harmonics + 3)

    @property
    def free(self) -> Array:
        """Waypoints of a mean of zero, as combinations of free numbers."""
        t = self.knots
        own = np.eye(len(t))
        m = second_derivatives(t, own, "clamped", np.zeros((2, len(t))))
        rest = np.vstack([own[0] - own[-1], m[[0, -1]] * (t[1] - t[0]) ** 2, np.ones(len(t))])
        return np.linalg.svd(rest)[2][4:].T

    def matrices(self) -> tuple[Array, Array, Array]:
        t = self.knots
        count = self.samples * (len(t) - 1) // 2  # all knots are among them
        at = np.arange(count) * (self.period / count)
        q, qd, qdd = (np.asarray(x) for x in Spline(t, self.free)(at))
        return q, qd, qdd

    def path(self, x: Array, duration: float, names: Sequence[str], condition: float,
             limits: MotionLimits) -> SplinePath:
        """Repeated: at rest, one period goes on smoothly into the next."""
        t, q = self.knots, x[:self.n] + self.free @ x[self.n:].reshape(-1, self.n)
        times = math.ceil(duration / self.period - 1e-9)
        return SplinePath(duration, tuple(names), condition, limits, Spline(
            np.append(np.add.outer(self.period * np.arange(times), t[:-1]).ravel(),
                      self.period * times),
            np.concatenate([*[q[:-1]] * times, q[-1:]])))
