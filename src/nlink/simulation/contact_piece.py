"""Contacts of a system: what each step of semi-implicit Euler solves, as texts.

The unknowns are forces, impulses over the size of the step: h G f + g are the velocities at the
end of a step. Dry friction of joints, and limits that hold, are rows of the same problem
(`joint_block`). All forces and the slips of contacts that slide are parts of the state, from which
the next step starts; so are the modes that it ends with, whose changes are events.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nlink.algorithms.contact_rows import ContactRows, contact_rows, respond
from nlink.algorithms.inverse_dynamics import no_wrenches
from nlink.algorithms.sweep import Unrolled
from nlink.iterations.contact_cone import Block, ContactBlock, cleared, sweep, worst
from nlink.iterations.contact_newton import ScaledContacts, newton_step, unscaled
from nlink.iterations.contact_steps import UNKNOWN
from nlink.iterations.iteration import equal
from nlink.iterations.joint_block import JointBlock
from nlink.iterations.recording import Gives
from nlink.model.names import did_you_mean
from nlink.scalars.functions import Scalar, Scalars, less, less_equal, maximum, where
from nlink.scalars.graph import Node
from nlink.simulation.control_scheme import StatePart
from nlink.simulation.events import WORDS
from nlink.simulation.modes import ModedRate, Modes, friction_levels
from nlink.simulation.moment import (
    Moment,
    SystemPiece,
    Text,
    Texts,
    without_dry_friction,
)

if TYPE_CHECKING:
    from nlink.iterations.integration import Method
    from nlink.robot import Robot
    from nlink.simulation.assembled_system import AssembledSystem
    from nlink.simulation.setting import Physics
    from nlink.simulation.system import System

Array = np.ndarray
CONTACT = ("rigid", "ignore")
"""What `contact=` may say."""
ACCURATE = 1e-10
"""What a step solves its contacts to, in m/s."""
ROUNDING = 1e-13
"""And over its largest velocity."""
SWEEPS = 2
"""Sweeps in a call."""
FORCE, SLIP, JOINT_FORCE = "contact_force", "contact_slip", "joint_force"
"""Parts of the state: three forces along t, u and n of each contact, how fast it slides for its
force along the surface, and the force of dry friction and limits on each rate that has a row."""
CONTACT_MODE, JOINT_MODE = "contact_mode", "mode"
"""Parts of the state: what each contact does, and each rate that has a row (see `joint_block`)."""
OPEN, STICKS, SLIDES = 0.0, 1.0, 2.0
"""Modes of contacts."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """What the texts of one step share."""

    rows: ContactRows
    """Without G."""
    W: tuple[tuple[Scalar, ...], ...]
    """h G: velocities by forces."""
    blocks: tuple[Block, ...]
    accurate: Scalar
    """A residual that is good enough, in m/s."""
    further: tuple[Scalar, ...]
    """The rates of what the state has behind velocities."""


@dataclass(frozen=True)
class Contacts(SystemPiece):
    """The contacts of a mechanism, by name, and the rates that rub, or that limits hold."""

    names: tuple[str, ...]
    rates: tuple[ModedRate, ...] = ()
    restitution: float = 0.0
    """What of a rate is left after an impact on a limit."""

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
        return {"contact_rows": Text(self.rows, cells=1, gives=Gives(shared=True)),
                "contact_sweep": Text(self.sweep, gives=Gives(cells=2), takes="contact_rows"),
                "contact_move": Text(self.move, cells=1, gives=Gives(cells=1),
                                     takes="contact_rows"),
                "contact_newton": Text(self.newton, cells=1, gives=Gives(cells=1),
                                       takes="contact_rows"),
                "contact_clear": Text(self.clear, takes="contact_rows")}

    def rows(self, at: Moment) -> StepRows:
        """The contact problem of a step whose size is a cell."""
        (h,), (tau, further), driver = at.cells, at.driven, self._driver(at)
        mechanism = driver.mechanism
        found = contact_rows(driver, mechanism.split(at.q, "nq"), mechanism.split(at.qd, "nv"),
                             mechanism.split(tau, "nv"), no_wrenches(driver), h, self.moded)
        W = tuple(tuple(h * x for x in row) for row in found.G)
        blocks = [ContactBlock.of([row[3 * i:3 * i + 3] for row in W[3 * i:3 * i + 3]], mu)
                  for i, mu in enumerate(found.friction)]
        fastest: Scalar = 0.0
        for row, x in enumerate(found.g):  # a wide gap is no velocity
            gap = row < 3 * len(found.gaps) and row % 3 == 2
            fastest = maximum(fastest, -x if gap else abs(x))
        return StepRows(replace(found, G=()), W, (*blocks, *self._joint_blocks(at, W, h)),
                        ACCURATE + ROUNDING * fastest, tuple(further))

    def _joint_blocks(self, at: Moment, W: Sequence[Scalars], h: Scalar) -> Iterator[JointBlock]:
        """The rows of rates: Stribeck's level is that of the rate before the step."""
        levels = friction_levels(at.mechanism, at.qd) if self.rates else []
        for row, each in enumerate(self.rates, 3 * len(self.names)):
            low, high = each.rate_bounds(at.q, at.qd[each.rate], h, self.restitution)
            yield JointBlock(W[row][row], levels[each.rate] if each.rubs else 0.0,
                             low if math.isfinite(each.lower) else None,
                             high if math.isfinite(each.upper) else None)

    def sweep(self, at: Moment) -> list[Scalar]:
        """The state with the forces and slips after some sweeps; see `_judged`."""
        own: StepRows = at.shared
        forces, slips = self.forces(at), [*at.parts[SLIP], *[0.0] * len(self.rates)]
        for _ in range(SWEEPS):
            forces, slips = sweep(own.blocks, own.W, own.rows.g, forces, slips)
        return self._judged(at, forces, slips)

    def newton(self, at: Moment) -> list[Scalar]:
        """The state with the unknowns of Newton's method in the place of forces, and its eps."""
        own: StepRows = at.shared
        scaled = ScaledContacts.of(own.blocks, own.W, own.rows.g)
        mark = at.t.graph.mark if isinstance(at.t, Node) else lambda: None
        x, eps = newton_step(scaled, self.forces(at), at.cells[0], mark)
        return [*at.but(**self._as_parts(x)), eps]

    def clear(self, at: Moment) -> list[Scalar]:
        """The state with forces and slips for those unknowns."""
        own: StepRows = at.shared
        scaled = ScaledContacts.of(own.blocks, own.W, own.rows.g)
        forces, slips = cleared(own.blocks, own.W, own.rows.g, unscaled(scaled, self.forces(at)))
        return at.but(**self._with_slips(forces, slips))

    def forces(self, at: Moment) -> list[Scalar]:
        """The unknowns in a state: forces of contacts, then of joints."""
        return [*at.parts[FORCE], *at.parts.get(JOINT_FORCE, ())]

    def _as_parts(self, forces: Scalars) -> dict[str, Scalars]:
        first = 3 * len(self.names)
        found = {FORCE: forces[:first]}
        return found | {JOINT_FORCE: forces[first:]} if self.rates else found

    def _with_slips(self, forces: Scalars, slips: Scalars) -> dict[str, Scalars]:
        return self._as_parts(forces) | {SLIP: slips[:len(self.names)]}

    def _judged(self, at: Moment, forces: Scalars, slips: Scalars) -> list[Scalar]:
        """The state with these, their residual, and how many times it is what it should be."""
        own: StepRows = at.shared
        residual = worst(own.blocks, own.W, own.rows.g, forces)
        return [*at.but(**self._with_slips(forces, slips)), residual, residual / own.accurate]

    def move(self, at: Moment) -> list[Scalar]:
        """The state after the step with its forces, and how deep bodies are in each other before
        it."""
        (h,), own, space, forces = at.cells, at.shared, at.system.space, self.forces(at)
        after = respond(self._driver(at), own.rows, [h * f for f in forces], self.moded)
        v = [x for each in after for x in each]
        modes = self._settle(at, v)
        q, v = space.step(at.q, v, h)
        depth: Scalar = 0.0
        for gap in own.rows.gaps:
            depth = maximum(depth, -gap)
        first = len(at.q) + len(v)
        moved = [x + h * k for x, k in zip(at.y[first:], own.further, strict=True)]
        return [*q, *v, *moved[:len(moved) - len(modes)], *modes, depth]

    def _settle(self, at: Moment, v: list[Scalar]) -> list[Scalar]:
        """What contacts and rates do at the end of the step; rates that are held are so to the
        bit."""
        own: StepRows = at.shared
        normals, slips, found = at.parts[FORCE][2::3], at.parts[SLIP], list[Scalar]()
        for block, force, slip in zip(own.blocks[:len(normals)], normals, slips, strict=True):
            assert isinstance(block, ContactBlock)
            touching = where(less(0.0, slip) | less_equal(block.mu, 0.0), SLIDES, STICKS)
            found.append(where(less_equal(force, 0.0), OPEN, touching))
        for block, k, force in zip(own.blocks[len(self.names):], self.moded,
                                   at.parts.get(JOINT_FORCE, ()), strict=True):
            assert isinstance(block, JointBlock)
            mode, rate = block.outcome(v[k], force)
            found.append(mode)
            v[k] = where(equal(mode * mode, 1.0), v[k], rate)
        return found

    def _driver(self, at: Moment) -> Unrolled:
        """The sweeps of the mechanism of a moment, without the friction that has rows."""
        mechanism = at.system.bare(at.mechanism).regrouped()
        if any(each.rubs for each in self.rates):
            mechanism = without_dry_friction(mechanism)
        mark = at.t.graph.mark if isinstance(at.t, Node) else lambda: None
        return Unrolled(mechanism, mark)


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
    return Contacts(names) if modes is None else Contacts(names, modes.rates, modes.restitution)
