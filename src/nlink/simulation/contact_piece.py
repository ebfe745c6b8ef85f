"""Contacts of a system: what they add to its state, and to what an iteration may call.

All forces and the slips of contacts that slide are parts of the state, from which the next step
starts; so are the modes that it ends with, whose changes are events. What a step solves is in
`contact_texts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nlink.iterations.contact_steps import UNKNOWN
from nlink.model.names import did_you_mean
from nlink.simulation.contact_texts import (
    CONTACT_MODE,
    FORCE,
    JOINT_FORCE,
    JOINT_MODE,
    SLIP,
    ContactTexts,
)
from nlink.simulation.control_scheme import StatePart
from nlink.simulation.events import WORDS
from nlink.simulation.modes import ModedRate, Modes
from nlink.simulation.moment import SystemPiece, Texts

if TYPE_CHECKING:
    from nlink.iterations.integration import Method
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot
    from nlink.simulation.assembled_system import AssembledSystem
    from nlink.simulation.setting import Physics
    from nlink.simulation.system import System

Array = np.ndarray
CONTACT = ("rigid", "ignore")
"""What `contact=` may say."""
MOST_POINTS = 48
"""Contacts of a system: a step is one program for all of them, which grows with their square."""
WORTH = 3
"""Contacts that are seldom needed are tried last if there are so many."""


@dataclass(frozen=True)
class Contacts(SystemPiece):
    """The contacts of a mechanism, by name, and the rates that rub, or that limits hold."""

    names: tuple[str, ...]
    rates: tuple[ModedRate, ...] = ()
    restitution: float = 0.0
    """What of a rate is left after an impact on a limit."""
    few: tuple[int, ...] = ()
    """Those that are enough in most steps, by number: a step tries them alone, and all contacts
    where the others would be passed. None if all are always there."""

    def expect(self, method: Method, velocity: str) -> None:
        """Refuse methods that know nothing of contact."""
        if not method.decides_modes or velocity != "qd":
            given = f"method={method.name!r}" if velocity == "qd" else f"velocity={velocity!r}"
            raise ValueError(f"contact: 'rigid' does not go with {given}, expected "
                             "method='semi_implicit' with velocity='qd', or contact='ignore'")

    @property
    def modes(self) -> int:
        """How many modes end a state."""
        return len(self.names) + len(self.rates)

    @property
    def event_names(self) -> list[str]:
        """What the log of a run may say: of each contact, then of each rate."""
        return [*(f"{name} {word}" for name in self.names for word in WORDS),
                *(f"{each.name} {word}" for each in self.rates for word in each.words)]

    @property
    def moded(self) -> tuple[int, ...]:
        """The numbers of the rates that have rows."""
        return tuple(each.rate for each in self.rates)

    def parts(self, system: AssembledSystem) -> tuple[StatePart, ...]:
        count, joints = len(self.names), len(self.rates)
        sizes = {FORCE: 3 * count, SLIP: count, JOINT_FORCE: joints, CONTACT_MODE: count,
                 JOINT_MODE: joints}
        return tuple(StatePart(name, size, discrete=True) for name, size in sizes.items() if size)

    def start(self, system: System, initial: Array) -> dict[str, Array]:
        found = {CONTACT_MODE: np.full((len(initial), len(self.names)), UNKNOWN)}
        if self.rates:
            found[JOINT_MODE] = np.sign(initial[:, [system.robot.nq + k for k in self.moded]])
        return found

    def texts(self, system: System) -> Texts:
        found = dict(self.whole.by_name())
        return found | dict(ContactTexts(self, self.few).by_name("_few")) if self.few else found

    @property
    def whole(self) -> ContactTexts:
        """The texts of steps in which any contact may have forces."""
        return ContactTexts(self, tuple(range(len(self.names))))


def contacts_in(robot: Robot, physics: Physics, modes: Modes | None) -> Contacts | None:
    """What touches in a system, None if nothing does."""
    if physics.contact not in CONTACT:
        raise ValueError(f"contact: {physics.contact!r}, expected one of {', '.join(CONTACT)}"
                         f"{did_you_mean(physics.contact, CONTACT)}")
    if not robot.mechanism.contacts or physics.contact == "ignore":
        return None
    for wrong, what, other in (
            (robot.mechanism.closed, "a mechanism with loops", "contact='ignore'"),
            (physics.limits == "bounce", "limits='bounce'",
             "limits='hold' with restitution, 'stop' or 'ignore'"),
            (physics.algorithm is not None, f"algorithm={physics.algorithm!r}",
             "algorithm=None: a step has an elimination of its own")):
        if wrong:
            raise ValueError(f"contact: 'rigid' does not go with {what}, expected {other}")
    names = tuple(each.name for each in robot.mechanism.contacts)
    if len(names) > MOST_POINTS:
        raise ValueError(f"contact: {len(names)} points may touch, expected at most {MOST_POINTS}; "
                         "robot.with_contacts(collisions=['foot', ...]) takes the shapes of some "
                         "links, and a part of the world counts each point once more")
    rates, restitution = ((), 0.0) if modes is None else (modes.rates, modes.restitution)
    return Contacts(names, rates, restitution, _few(robot.mechanism))


def _few(mechanism: Mechanism) -> tuple[int, ...]:
    """The contacts of bodies that end a branch with the world, such as feet, if there are enough
    others."""
    found = tuple(k for k, each in enumerate(mechanism.contacts)
                  if not each.other and each.body not in mechanism.parents)
    return found if len(mechanism.contacts) - len(found) >= WORTH else ()
