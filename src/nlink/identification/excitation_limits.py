"""Limits of a motion, as numbers to be kept and as a penalty with exact gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nlink.derivatives.differentials import vjp
from nlink.model.names import did_you_mean
from nlink.robot import Robot
from nlink.scalars.arrays import single

Array = np.ndarray
NAMES = ("lower", "upper", "velocity", "acceleration", "effort", "keep_out")
MARGIN = 0.03
"""The share of a joint's range that is left free at each end, unless limits are given."""
FULL_TURN, USUAL_RATE, RISE = np.pi, 2.0, 4.0
"""Without limits: positions within +- pi, rates of 2 rad/s, and rates that rise within 1/4 s."""


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Bounds of q, qd, qdd and tau, and a box that no link enters."""

    robot: Robot = field(repr=False)
    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    effort: Array
    keep_out: Array | None

    @classmethod
    def of(cls, robot: Robot, given: Mapping[str, Any] | None) -> MotionLimits:
        """The robot's, with those given in their place."""
        given = dict(given or {})
        for name in given:
            if name not in NAMES:
                raise ValueError(f"limits: {name!r}, expected some of {', '.join(NAMES)}"
                                 f"{did_you_mean(name, NAMES)}")
        n, own = robot.n, robot.limits
        low, high = own.lower, own.upper
        known = np.isfinite(low) & np.isfinite(high)
        rate = np.where(np.isfinite(own.velocity) & (own.velocity > 0), own.velocity, USUAL_RATE)
        edge = np.where(known, MARGIN * (high - low), 0.0)
        usual = {"lower": np.where(known, low + edge, -FULL_TURN),
                 "upper": np.where(known, high - edge, FULL_TURN),
                 "velocity": rate, "effort": own.effort.copy()}

        def of_joints(name: str, default: Array) -> Array:
            if name not in given:
                return default
            x = np.asarray(given[name], dtype=float)
            if x.shape not in ((), (n,)) or np.isnan(x).any():
                raise ValueError(f"limits: {name} {given[name]!r:.60}, expected a number or {n} of "
                                 "them")
            return np.broadcast_to(x, (n,)).copy()

        found = {name: of_joints(name, x) for name, x in usual.items()}
        rise = of_joints("acceleration", RISE * found["velocity"])
        if not (found["lower"] < found["upper"]).all():
            raise ValueError("limits: lower is not below upper for all joints")
        for name, x in (("velocity", found["velocity"]), ("acceleration", rise),
                        ("effort", found["effort"])):
            if not (x > 0).all():
                raise ValueError(f"limits: {name} {x.tolist()}, expected positive numbers")
        box = given.get("keep_out")
        if box is not None:
            box = single("limits: keep_out", box, (2, 3))
            if not (box[0] < box[1]).all():
                raise ValueError("limits: keep_out, expected two corners, the lower one first")
        return cls(robot, **found, acceleration=rise, keep_out=box)

    @property
    def middle(self) -> Array:
        return (self.lower + self.upper) / 2

    def largest(self, q: Array, qd: Array, qdd: Array) -> Array:
        """For each joint how far it goes of what it may, about its mean: 1 is just allowed."""
        middle = q.mean(axis=0)
        up, down = q.max(axis=0) - middle, middle - q.min(axis=0)
        room = np.maximum(np.minimum(self.upper - middle, middle - self.lower), 1e-9)
        return np.maximum.reduce([np.maximum(up, down) / room, np.abs(qd).max(axis=0)
                                  / self.velocity, np.abs(qdd).max(axis=0) / self.acceleration])

    def kept(self, q: Array, qd: Array, qdd: Array) -> bool:
        """Whether all limits are kept, to 1e-6."""
        slack = 1e-6
        if (q < self.lower - slack).any() or (q > self.upper + slack).any():
            return False
        if (np.abs(qd) > self.velocity + slack).any() or (
                np.abs(qdd) > self.acceleration + slack).any():
            return False
        if np.isfinite(self.effort).any() and (np.abs(self.robot.inverse_dynamics(
                q, qd, qdd)) > self.effort + slack).any():
            return False
        return self.keep_out is None or not (self._depths(q)[0] > 0).any()

    def penalty(self, q: Array, qd: Array, qdd: Array) -> tuple[float, list[Array]]:
        """Mean squares of what goes beyond, relative to the limits, and derivatives."""
        count = len(q)
        span = (self.upper - self.lower) / 2
        over = [((q - self.middle) / span, 1 / span), (qd / self.velocity, 1 / self.velocity),
                (qdd / self.acceleration, 1 / self.acceleration)]
        total, slopes = 0.0, []
        for x, scale in over:
            beyond = np.sign(x) * np.maximum(np.abs(x) - 0.99, 0.0)
            total += float((beyond**2).sum()) / count
            slopes.append(2 * beyond * scale / count)
        if np.isfinite(self.effort).any():
            x = self.robot.inverse_dynamics(q, qd, qdd) / self.effort
            beyond = np.sign(x) * np.maximum(np.abs(x) - 0.97, 0.0)
            if beyond.any():
                total += float((beyond**2).sum()) / count
                more = vjp(self.robot, "inverse_dynamics", (q, qd, qdd),
                           2 * beyond / self.effort / count)
                slopes = [a + b for a, b in zip(slopes, more, strict=True)]
        if self.keep_out is not None:
            depth, by_q = self._depths(q)
            beyond = np.maximum(depth + 0.02, 0.0)
            total += 100.0 * float((beyond**2).sum()) / count
            slopes[0] = slopes[0] + 200.0 / count * np.einsum("kl,klj->kj", beyond, by_q)
        return total, slopes

    def _depths(self, q: Array) -> tuple[Array, Array]:
        """How deep each link's origin is in the box (states, links), and that by q."""
        assert self.keep_out is not None
        links = range(1, len(self.robot.links) + 1)
        depth, by_q = [], []
        for link in links:
            p = self.robot.pose(q, link)[..., :3, 3]
            faces = np.concatenate([p - self.keep_out[0], self.keep_out[1] - p], axis=1)
            nearest = np.argmin(faces, axis=1)
            depth.append(faces[np.arange(len(q)), nearest])
            J = self.robot.jacobian(q, link)[..., 3:, :]
            sign = np.where(nearest < 3, 1.0, -1.0)
            by_q.append(sign[:, None] * J[np.arange(len(q)), nearest % 3])
        return np.stack(depth, axis=1), np.stack(by_q, axis=1)
