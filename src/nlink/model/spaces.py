"""Spaces of coordinates: where the coordinates of a joint live, and how rates move them.

A space has `nq` coordinates and `nv` rates. Coordinates and rates are sequences of any scalar
(floats, NumPy arrays of one shape, graph nodes), methods return tuples, and nothing branches
on values. `mechanism.space` is the product of the spaces of the joints, in their order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from nlink.model import quaternions
from nlink.model.quaternions import normalized, quaternion_matrix, quaternion_rate
from nlink.scalars.functions import Scalar, Scalars, cos, sin
from nlink.spatial import Vector

Coordinates: TypeAlias = tuple[Scalar, ...]
Limits: TypeAlias = tuple[float, float]

UNBOUNDED = (-math.inf, math.inf)


class Space(ABC):
    """The contract of a space.

    1. `nq`, `nv`: how many coordinates and rates.
    2. `neutral`: a valid point.
    3. `random(rng, shape, limits)`: points at random, one array of `shape` for each coordinate;
       those that have a range are within the limits.
    4. `normalize(q)`: the valid point near one that rounding or an integrator has left.
    5. `integrate(q, v)`: q moved for a unit of time by the constant rates v.
    6. `difference(q0, q1)`: the v with integrate(q0, v) = q1.
    7. `tangent(q, v)`: dq/dt when the rates are v.
    8. `rates(q, change)`: the v with tangent(q, v) = change; linearisation needs it.
    9. `step(q, v, h)`: q moved for a time h, and v there, by rates that mean the same velocities in
       the world though they are components along axes that turn; `turning(q, v)`: the derivative
       of such v. Steps with contact need both; where they are missing, rates keep their values.

    `flat` says that coordinates are plain numbers with the rates as derivatives; then 5 to 7
    are q + v, q1 - q0 and v. `labels` and `rate_labels` are what coordinates and rates are
    called beside the name of their joint: nothing where there is one, else numbers from 1.
    """

    nq: int
    nv: int
    flat: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return _numbered(self.nq)

    @property
    def rate_labels(self) -> tuple[str, ...]:
        return self.labels if self.flat else _numbered(self.nv)

    @property
    @abstractmethod
    def neutral(self) -> tuple[float, ...]: ...

    @abstractmethod
    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = (),
               limits: Limits = UNBOUNDED) -> Coordinates: ...

    @abstractmethod
    def normalize(self, q: Scalars) -> Coordinates: ...

    @abstractmethod
    def integrate(self, q: Scalars, v: Scalars) -> Coordinates: ...

    @abstractmethod
    def difference(self, q0: Scalars, q1: Scalars) -> Coordinates: ...

    @abstractmethod
    def tangent(self, q: Scalars, v: Scalars) -> Coordinates: ...

    def step(self, q: Scalars, v: Scalars, h: Scalar) -> tuple[Coordinates, Coordinates]:
        return self.integrate(q, [h * x for x in v]), tuple(v)

    def turning(self, q: Scalars, v: Scalars) -> Coordinates:
        return (0.0,) * self.nv

    def rates(self, q: Scalars, change: Scalars) -> Coordinates:
        if self.flat:
            return tuple(change)
        raise NotImplementedError(f"{type(self).__name__}: linearisation needs its method `rates`")


@dataclass(frozen=True)
class Lines(Space):
    """Plain numbers: lengths, and angles that count their turns.

    >>> Lines(2).integrate((1.0, 2.0), (0.5, -0.5))
    (1.5, 1.5)
    """

    nq: int
    reach: float = 1.0
    """Points at random are within it where no limits are given."""
    given_labels: tuple[str, ...] = ()

    flat = True

    @property
    def labels(self) -> tuple[str, ...]:
        return self.given_labels or _numbered(self.nq)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nv", self.nq)

    @property
    def neutral(self) -> tuple[float, ...]:
        return (0.0,) * self.nq

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = (),
               limits: Limits = UNBOUNDED) -> Coordinates:
        span = within(limits, self.reach)
        return tuple(rng.uniform(*span, shape) for _ in range(self.nq))

    def normalize(self, q: Scalars) -> Coordinates:
        return tuple(q)

    def integrate(self, q: Scalars, v: Scalars) -> Coordinates:
        return tuple(x + y for x, y in zip(q, v, strict=True))

    def difference(self, q0: Scalars, q1: Scalars) -> Coordinates:
        return tuple(y - x for x, y in zip(q0, q1, strict=True))

    def tangent(self, q: Scalars, v: Scalars) -> Coordinates:
        return tuple(v)


@dataclass(frozen=True)
class Circle(Space):
    """An angle without turns, as (cos, sin); the rate is the angle's.

    >>> Circle().integrate((1.0, 0.0), (0.0,))
    (1.0, 0.0)
    """

    nq = 2
    nv = 1

    @property
    def labels(self) -> tuple[str, ...]:
        return ("cos", "sin")

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, 0.0)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = (),
               limits: Limits = UNBOUNDED) -> Coordinates:
        angle = rng.uniform(*within(limits, math.pi), shape)
        return np.cos(angle), np.sin(angle)

    def normalize(self, q: Scalars) -> Coordinates:
        return normalized(tuple(q))

    def integrate(self, q: Scalars, v: Scalars) -> Coordinates:
        (c, s), (dc, ds) = q, (cos(v[0]), sin(v[0]))
        return normalized((c * dc - s * ds, s * dc + c * ds))

    def difference(self, q0: Scalars, q1: Scalars) -> Coordinates:
        (a, b), (c, s) = q0, q1
        return (quaternions.angle(a * c + b * s, a * s - b * c),)

    def tangent(self, q: Scalars, v: Scalars) -> Coordinates:
        return -(q[1] * v[0]), q[0] * v[0]

    def rates(self, q: Scalars, change: Scalars) -> Coordinates:
        return (q[0] * change[1] - q[1] * change[0],)


@dataclass(frozen=True)
class Rotations(Space):
    """Orientations as unit quaternions (w, x, y, z); the rates are the angular velocity in the
    body's axes."""

    nq = 4
    nv = 3

    @property
    def labels(self) -> tuple[str, ...]:
        return ("qw", "qx", "qy", "qz")

    @property
    def rate_labels(self) -> tuple[str, ...]:
        return ("wx", "wy", "wz")

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, 0.0, 0.0, 0.0)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = (),
               limits: Limits = UNBOUNDED) -> Coordinates:
        q = rng.normal(size=(*shape, 4))
        return tuple(np.moveaxis(q / np.linalg.norm(q, axis=-1, keepdims=True), -1, 0))

    def normalize(self, q: Scalars) -> Coordinates:
        return normalized(tuple(q))

    def integrate(self, q: Scalars, v: Scalars) -> Coordinates:
        return normalized(quaternions.product(tuple(q), quaternions.exp(Vector(*v))))

    def difference(self, q0: Scalars, q1: Scalars) -> Coordinates:
        back = quaternions.conjugate(tuple(q0))
        return quaternions.log(normalized(quaternions.product(back, tuple(q1)))).components

    def tangent(self, q: Scalars, v: Scalars) -> Coordinates:
        return quaternion_rate(tuple(q), Vector(*v))

    def rates(self, q: Scalars, change: Scalars) -> Coordinates:
        return tuple(2 * x for x in quaternions.product(
            quaternions.conjugate(tuple(q)), tuple(change))[1:])


@dataclass(frozen=True)
class Placements(Space):
    """Positions in the fixed axes, then unit quaternions; the rates are the twist in the body's
    axes, angular first. A constant twist is a screw motion."""

    nq = 7
    nv = 6

    @property
    def labels(self) -> tuple[str, ...]:
        return ("x", "y", "z", "qw", "qx", "qy", "qz")

    @property
    def rate_labels(self) -> tuple[str, ...]:
        return ("wx", "wy", "wz", "vx", "vy", "vz")

    @property
    def neutral(self) -> tuple[float, ...]:
        return (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = (),
               limits: Limits = UNBOUNDED) -> Coordinates:
        return (*Lines(3).random(rng, shape, limits), *Rotations().random(rng, shape))

    def normalize(self, q: Scalars) -> Coordinates:
        return (*q[:3], *normalized(tuple(q[3:])))

    def integrate(self, q: Scalars, v: Scalars) -> Coordinates:
        turn, velocity = Vector(*v[:3]), Vector(*v[3:])
        shift = quaternion_matrix(*q[3:]) @ quaternions.screw_shift(turn, velocity)
        return (*(Vector(*q[:3]) + shift).components, *Rotations().integrate(q[3:], v[:3]))

    def difference(self, q0: Scalars, q1: Scalars) -> Coordinates:
        turn = Rotations().difference(q0[3:], q1[3:])
        shift = quaternion_matrix(*q0[3:]).T @ (Vector(*q1[:3]) - Vector(*q0[:3]))
        return (*turn, *quaternions.screw_velocity(Vector(*turn), shift).components)

    def tangent(self, q: Scalars, v: Scalars) -> Coordinates:
        position = quaternion_matrix(*q[3:]) @ Vector(*v[3:])
        return (*position.components, *quaternion_rate(tuple(q[3:]), Vector(*v[:3])))

    def step(self, q: Scalars, v: Scalars, h: Scalar) -> tuple[Coordinates, Coordinates]:
        """Along a straight line, as a step of velocities goes, and not along a screw."""
        R, (w, u) = quaternion_matrix(*q[3:]), (Vector(*v[:3]), Vector(*v[3:]))
        turned = Rotations().integrate(q[3:], (w * h).components)
        after = quaternion_matrix(*turned).T @ (R @ u)
        return ((*(Vector(*q[:3]) + (R @ u) * h).components, *turned),
                (*v[:3], *after.components))

    def turning(self, q: Scalars, v: Scalars) -> Coordinates:
        return (0.0, 0.0, 0.0, *Vector(*v[3:]).cross(Vector(*v[:3])).components)

    def rates(self, q: Scalars, change: Scalars) -> Coordinates:
        velocity = quaternion_matrix(*q[3:]).T @ Vector(*change[:3])
        return (*Rotations().rates(q[3:], change[3:]), *velocity.components)


@dataclass(frozen=True)
class Product(Space):
    """Spaces side by side; limits at random are those of every factor.

    >>> Product((Circle(), Lines(1))).neutral
    (1.0, 0.0, 0.0)
    """

    factors: tuple[Space, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nq", sum(space.nq for space in self.factors))
        object.__setattr__(self, "nv", sum(space.nv for space in self.factors))
        object.__setattr__(self, "flat", all(space.flat for space in self.factors))

    @property
    def labels(self) -> tuple[str, ...]:
        return _distinct(label for space in self.factors for label in space.labels)

    @property
    def rate_labels(self) -> tuple[str, ...]:
        return _distinct(label for space in self.factors for label in space.rate_labels)

    @property
    def neutral(self) -> tuple[float, ...]:
        return tuple(x for space in self.factors for x in space.neutral)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = (),
               limits: Limits = UNBOUNDED) -> Coordinates:
        return tuple(x for space in self.factors for x in space.random(rng, shape, limits))

    def normalize(self, q: Scalars) -> Coordinates:
        return tuple(x for space, own in self._parts(q, "nq") for x in space.normalize(own))

    def integrate(self, q: Scalars, v: Scalars) -> Coordinates:
        return tuple(x for (space, own), (_, rate) in zip(
            self._parts(q, "nq"), self._parts(v, "nv"), strict=True)
            for x in space.integrate(own, rate))

    def difference(self, q0: Scalars, q1: Scalars) -> Coordinates:
        return tuple(x for (space, a), (_, b) in zip(
            self._parts(q0, "nq"), self._parts(q1, "nq"), strict=True)
            for x in space.difference(a, b))

    def tangent(self, q: Scalars, v: Scalars) -> Coordinates:
        return tuple(x for (space, own), (_, rate) in zip(
            self._parts(q, "nq"), self._parts(v, "nv"), strict=True)
            for x in space.tangent(own, rate))

    def step(self, q: Scalars, v: Scalars, h: Scalar) -> tuple[Coordinates, Coordinates]:
        pairs = [space.step(own, rate, h) for (space, own), (_, rate) in zip(
            self._parts(q, "nq"), self._parts(v, "nv"), strict=True)]
        return tuple(x for own, _ in pairs for x in own), tuple(x for _, own in pairs for x in own)

    def turning(self, q: Scalars, v: Scalars) -> Coordinates:
        return tuple(x for (space, own), (_, rate) in zip(
            self._parts(q, "nq"), self._parts(v, "nv"), strict=True)
            for x in space.turning(own, rate))

    def rates(self, q: Scalars, change: Scalars) -> Coordinates:
        return tuple(x for (space, own), (_, rate) in zip(
            self._parts(q, "nq"), self._parts(change, "nq"), strict=True)
            for x in space.rates(own, rate))

    def _parts(self, values: Scalars, width: str) -> Iterator[tuple[Space, Coordinates]]:
        """Each factor with its own part of the values."""
        flat = iter(values)
        for space in self.factors:
            yield space, tuple(next(flat) for _ in range(getattr(space, width)))


def _numbered(count: int) -> tuple[str, ...]:
    return ("",) if count == 1 else tuple(str(k + 1) for k in range(count))


def _distinct(labels: Iterable[str]) -> tuple[str, ...]:
    """Labels side by side; one that is missing, a number or there twice becomes its place."""
    known = tuple(labels)
    places = _numbered(len(known))
    return tuple(label if label and not label.isdigit() and known.count(label) == 1 else place
                 for label, place in zip(known, places, strict=True))


def within(limits: Limits, reach: float) -> Limits:
    """Limits; where they are none, or so wide that none is meant, the reach around zero."""
    low, high = limits
    if high - low <= 1e3:
        return low, high
    return min(max(low, -reach), high), max(min(high, reach), low)
