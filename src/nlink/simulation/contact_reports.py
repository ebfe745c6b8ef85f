"""What contacts did in a run: forces, gaps, slips and modes, from states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.algorithms.contact_points import contact_points
from nlink.algorithms.kinematics import forward_kinematics, twists
from nlink.algorithms.sweep import Unrolled
from nlink.engines.engines import run_program
from nlink.engines.kernels import kept
from nlink.model.names import did_you_mean
from nlink.programs.program import Port, Program
from nlink.programs.tracing import trace_function
from nlink.scalars.functions import Scalar, Scalars, sqrt
from nlink.scalars.lazy import lazy
from nlink.simulation.contact_texts import ACCURATE, CONTACT_MODE, FORCE
from nlink.simulation.variation import NOTHING, Varied

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
MODES = ("open", "sticks", "slides")
"""What the numbers 0, 1 and 2 of `ContactHistory.mode` mean."""
TOLD = 1e-8
"""A residual above this, in m/s, is a warning of the run."""
PREFIX = "contact_"


@dataclass(frozen=True, slots=True)
class ContactStats:
    """How well contacts were solved; arrays of the ensemble's shape, or numbers."""

    residual: Any
    """The worst of any step, in m/s: how far velocities are from the laws of contact."""
    depth: Any
    """The deepest that bodies were in each other, in m."""
    sweeps: Any
    """Visits of all contacts, and steps of the fallback, each of which counts as two."""
    fallbacks: Any
    """Steps of the motion that needed Newton's method."""

    @classmethod
    def of(cls, numbers: Any, lead: tuple[int, ...]) -> ContactStats | None:
        """From records, or arrays by name; None if they know nothing of contact."""
        names = [each.name for each in fields(cls)]
        known = getattr(getattr(numbers, "dtype", None), "names", None) or numbers
        if PREFIX + names[0] not in known:
            return None
        return cls(*(np.reshape(numbers[PREFIX + name], lead)[()] for name in names))

    def by_name(self) -> dict[str, Any]:
        """The numbers under the names that files have."""
        return {PREFIX + each.name: getattr(self, each.name) for each in fields(self)}

    def doubts(self) -> list[str]:
        """A line if contacts were solved less well than they should be."""
        worst = float(np.fmax.reduce(np.ravel(self.residual), initial=0.0))
        return [f"contacts solved to {worst:.1e} m/s at worst, expected {ACCURATE:g}: more than "
                "one set of forces may be right"] if worst > TOLD else []


@dataclass(frozen=True)
class ContactHistory:
    """One contact of a run, or of a stepper, at its states."""

    name: str
    force: Array
    """(..., 3): on the body, in world axes, in N: that of the step which ended there."""
    point: Array
    """(..., 3): where it acts, in the world, in m."""
    gap: Array
    """(...): the distance, negative inside, in m."""
    slip: Array
    """(...): the speed along the surface, in m/s, where it touches."""
    mode: Array
    """(...): 0 open, 1 sticks, 2 slides; see `MODES`."""
    margin: Array
    """(...): how far that is from another mode: the gap in m where it is open, the friction that
    is left in N where it sticks, the slip in m/s where it slides."""

    def __repr__(self) -> str:
        return f"<contact {self.name}: touches at {np.mean(self.mode > 0):.0%} of the states>"


class ContactHistories(Mapping[str, ContactHistory]):
    """The contacts of a run by name."""

    def __init__(self, robot: Robot, q: Array, qd: Array, parts: Mapping[str, Array],
                 varied: Varied = NOTHING, own: Array | None = None) -> None:
        self._robot, self._states, self._parts = robot, (q, qd), parts
        self._varied, self._own = varied, own
        self._names = [each.name for each in robot.mechanism.contacts] if FORCE in parts else []

    @lazy
    def _numbers(self) -> tuple[Array, ...]:
        varied = self._varied if self._varied.mechanical else NOTHING
        run = kept(self._robot, ("contact report", varied), lambda: run_program(
            report_program(self._robot, varied)))
        states = [np.asarray(x) for x in (*self._states, self._parts[FORCE])]
        own = self._own if varied.mechanical else np.empty(0)
        return run(*states, own)

    def __getitem__(self, name: str) -> ContactHistory:
        if name not in self._names:
            raise KeyError(f"contact {name!r}, expected one of {', '.join(self._names) or 'none'}"
                           f"{did_you_mean(name, self._names)}")
        k = self._names.index(name)
        forces, gaps, slips, points, spare = (each[..., k] if each.ndim < self._numbers[0].ndim
                                              else each[..., k, :] for each in self._numbers)
        mode = np.maximum(np.asarray(self._parts[CONTACT_MODE])[..., k], 0).astype(int)
        margin = np.choose(mode, [gaps, spare, slips])
        return ContactHistory(name, forces, points, gaps, np.where(mode > 0, slips, 0.0), mode,
                              margin)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{len(self)} contacts: {', '.join(self._names)}>"


def report_program(robot: Robot, varied: Varied) -> Program:
    """Forces in world axes, gaps, speeds along the surface, points, and the friction that is left,
    of states, forces, and what varies."""
    shape = robot.mechanism
    count = len(shape.contacts)

    def text(q: Scalars, qd: Scalars, f: Scalars, own: Scalars) -> list[Scalar]:
        mechanism = varied.mechanism(robot, own)
        driver, at = Unrolled(mechanism), mechanism.split(q, "nq")
        places = forward_kinematics(driver, at, mechanism.base.p)
        moving = twists(driver, at, mechanism.split(qd, "nv"))
        touches = contact_points(driver, places, mechanism.base.p)
        forces, slips, spare = list[Scalar](), list[Scalar](), list[Scalar]()
        for k, touch in enumerate(touches):
            t, u = touch.tangents
            total = t * f[3 * k] + u * f[3 * k + 1] + touch.normal * f[3 * k + 2]
            forces += total.components
            along = [sum((moving[body].dot(wrench) for body, wrench in ends), 0.0)
                     for ends in touch.on_bodies()[:2]]
            slips.append(sqrt(along[0] * along[0] + along[1] * along[1]))
            flat = sqrt(f[3 * k] * f[3 * k] + f[3 * k + 1] * f[3 * k + 1])
            spare.append(touch.contact.friction * f[3 * k + 2] - flat)
        return [*forces, *(touch.gap for touch in touches), *slips,
                *(x for touch in touches for x in touch.point.components), *spare]

    return trace_function(
        "contact_report",
        (Port("q", (shape.nq,)), Port("qd", (shape.nv,)), Port("force", (3 * count,)),
         Port("own", (varied.width,))),
        (Port("force", (count, 3)), Port("gap", (count,)), Port("slip", (count,)),
         Port("point", (count, 3)), Port("spare", (count,))), text)
