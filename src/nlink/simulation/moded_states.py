"""States with modes: what sticks, slides, or rests on a limit, and how that changes a state.

All of it is on any scalars, and takes the hybrid dynamics that it needs as a function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nlink.scalars.functions import Scalar, Scalars
from nlink.simulation.applying import perform
from nlink.simulation.dry_friction import Hybrid, Modes, without_dry_friction
from nlink.simulation.state_layout import StateLayout
from nlink.spatial import Vector

if TYPE_CHECKING:
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot

SWITCHES = ("arrest", "propose", "slack")
"""What is called to change modes: see `iterations.switching`."""
IMPACTS = ("touch", "impulses", "collide")
"""What is called about impacts on limits that hold: see there."""


@dataclass(frozen=True)
class ModedStates:
    """States whose last part is a mode for each rate that rubs, or that limits hold."""

    layout: StateLayout
    modes: Modes
    restitution: float
    """What of a joint's rate is left after an impact on its limit."""

    def with_holding(self, further: Scalars, holding: Scalars) -> list[Scalar]:
        """The rates of all parts, those of the holding forces behind what else moves."""
        moving = sum(part.size for part in self.layout.parts if not part.discrete) - len(holding)
        return [*further[:moving], *holding, *[0.0] * self.layout.discrete]

    def switched(self, name: str, hybrid: Hybrid, mechanism: Mechanism, y: Scalars,
                 tau: Scalars) -> list[Scalar]:
        """A state at rest where it has come to rest, one with other modes, or its slacks."""
        q, qd, parts = self.layout.split(y)
        if name == "arrest":
            qd, found = self.modes.arrest(q, qd, parts["mode"])
        elif name == "propose":
            found = self.modes.propose(hybrid, mechanism, q, qd, tau, parts["mode"])
        else:
            slack = self.modes.slack(hybrid, mechanism, q, qd, tau, parts["mode"])
            return [*[math.inf] * len(q), *slack, *[math.inf] * (len(y) - len(q) - len(qd))]
        return self.layout.joined(q, qd, parts | {"mode": found})

    def struck(self, name: str, impulse_response: Hybrid, y: Scalars) -> list[Scalar]:
        """A state that touches its limits, one with the modes its impulses ask for, or the
        state after the impact."""
        q, qd, parts = self.layout.split(y)
        modes = parts["mode"]
        if name == "touch":
            q, modes = self.modes.touch(q, qd)
        elif name == "impulses":
            modes = self.modes.impulse_modes(impulse_response, q, qd, modes, self.restitution)
        else:
            qd, modes = self.modes.collide(impulse_response, q, qd, modes, self.restitution)
        return self.layout.joined(q, qd, parts | {"mode": modes})

    def advanced(self, hybrid: Hybrid, mechanism: Mechanism, y: Scalars, tau: Scalars,
                 further: Scalars, h: Scalar) -> list[Scalar]:
        """The state after a step, with coordinates as they were, and with other modes."""
        q, qd, parts = self.layout.split(y)
        after, holding, modes = self.modes.advance(hybrid, mechanism, q, qd, tau,
                                                   parts["mode"], h)
        change = self.with_holding(further, holding)
        moved = [x + h * k for x, k in zip(y[len(q) + len(qd):], change, strict=True)]
        return [*q, *after, *moved[:len(moved) - len(modes)], *modes]


def hybrid_dynamics(robot: Robot, mechanism: Mechanism) -> Hybrid:
    """Hybrid dynamics of a mechanism, with viscous friction alone."""
    n, bare = robot.n, without_dry_friction(mechanism)
    request = replace(robot.request("hybrid_dynamics"), mechanism=bare)

    def hybrid(*columns: Scalars) -> tuple[Scalars, Scalars]:
        found = perform(request, *columns)
        return found[:n], found[n:]

    return hybrid


def impulse_response(robot: Robot, mechanism: Mechanism) -> Hybrid:
    """How a mechanism at rest yields to impulses where some rates change as they are given:
    hybrid dynamics without weight."""
    return hybrid_dynamics(robot, replace(mechanism, gravity=Vector.zero()))
