"""Motors and actuators as data: what turns a joint, and what turns a command into a force."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nlink.scalars.functions import Scalar, clip


@dataclass(frozen=True, slots=True)
class Motor:
    """A rotor behind a gear: it turns `ratio` times as fast as the joint, and the joint feels
    its inertia (kg m^2, about its own axis) as ratio^2 inertia.

    >>> Motor(ratio=100.0, inertia=2e-5).reflected
    0.2
    """

    ratio: float = 1.0
    inertia: float = 0.0

    @property
    def reflected(self) -> float:
        """The inertia that the joint feels."""
        return self.ratio * self.ratio * self.inertia

    def check(self, who: str) -> None:
        if not (math.isfinite(self.ratio) and self.ratio):
            raise ValueError(f"{who}: gear ratio {self.ratio}, expected a finite number, not 0")
        if not (math.isfinite(self.inertia) and self.inertia >= 0):
            raise ValueError(f"{who}: rotor inertia {self.inertia}, expected a finite number >= 0")


@dataclass(frozen=True, slots=True)
class Actuator:
    """The effect of a command u on a joint, as MJCF has it:

        force = gain u + b0 + b1 gear q + b2 gear qd,      tau = gear force,

    u and force within their ranges. A "motor" has gain 1 and no bias, a "position" actuator the
    gain kp and b1 = -kp, b2 = -kv, a "velocity" actuator the gain kv and b2 = -kv.
    """

    name: str
    joint: str
    gain: float = 1.0
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    gear: float = 1.0
    command_range: tuple[float, float] = (-math.inf, math.inf)
    force_range: tuple[float, float] = (-math.inf, math.inf)

    @property
    def kind(self) -> str:
        """"motor", "position", "velocity", or "general" if it is none of these."""
        b0, b1, b2 = self.bias
        if (b0, b1, b2) == (0.0, 0.0, 0.0):
            return "motor"
        if b0 == 0.0 and b1 == -self.gain:
            return "position"
        return "velocity" if (b0, b1, b2) == (0.0, 0.0, -self.gain) else "general"

    def force(self, u: Scalar, q: Scalar, qd: Scalar) -> Scalar:
        """The force on the joint at its coordinate and rate.

        >>> Actuator("a", "j", 50.0, (0.0, -50.0, -5.0), force_range=(-20.0, 20.0)).force(
        ...     1.0, 0.0, 0.0)
        20.0
        """
        b0, b1, b2 = self.bias
        u = clip(u, *self.command_range)
        wanted = self.gain * u + b0 + b1 * (self.gear * q) + b2 * (self.gear * qd)
        return self.gear * clip(wanted, *self.force_range)
