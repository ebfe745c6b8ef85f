"""What each step with contacts solves, as texts of a moment.

The unknowns are forces, impulses over the size of the step: h G f + g are the velocities at the
end of a step. Dry friction of joints, and limits that hold, are rows of the same problem
(`joint_block`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nlink.algorithms.contact_rows import ContactRows, contact_rows, normal_speeds, respond
from nlink.algorithms.inverse_dynamics import no_wrenches
from nlink.algorithms.sweep import Column, Unrolled
from nlink.iterations.contact_cone import Block, ContactBlock, cleared, sweep, worst
from nlink.iterations.contact_newton import ScaledContacts, newton_step, unscaled
from nlink.iterations.contact_steps import UNKNOWN
from nlink.iterations.iteration import equal
from nlink.iterations.joint_block import JointBlock
from nlink.iterations.recording import Gives
from nlink.scalars.functions import Scalar, Scalars, less, less_equal, maximum, where
from nlink.scalars.graph import Node
from nlink.simulation.modes import friction_levels
from nlink.simulation.moment import Moment, Text, Texts, without_dry_friction

if TYPE_CHECKING:
    from nlink.simulation.contact_piece import Contacts

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
class ContactTexts:
    """The texts of a step in which some of the contacts may have forces."""

    contacts: Contacts
    chosen: tuple[int, ...]
    """The numbers of these contacts, in order."""

    def by_name(self, suffix: str = "") -> Texts:
        """All of them, as iterations call them."""
        rows = f"contact_rows{suffix}"
        found = {"contact_rows": Text(self.rows, cells=1, gives=Gives(shared=True)),
                 "contact_sweep": Text(self.sweep, gives=Gives(cells=2), takes=rows),
                 "contact_move": Text(self.move, cells=1, gives=Gives(cells=3), takes=rows),
                 "contact_newton": Text(self.newton, cells=2, gives=Gives(cells=1), takes=rows),
                 "contact_clear": Text(self.clear, gives=Gives(cells=2), takes=rows)}
        return {f"{name}{suffix}": text for name, text in found.items()}

    def rows(self, at: Moment) -> StepRows:
        """The contact problem of a step whose size is a cell."""
        (h,), (tau, further), driver = at.cells, at.driven, self._driver(at)
        split = driver.mechanism.split
        found = contact_rows(driver, split(at.q, "nq"), split(at.qd, "nv"), split(tau, "nv"),
                             no_wrenches(driver), h, self.contacts.moded)
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
        levels = friction_levels(at.mechanism, at.qd) if self.contacts.rates else []
        for row, each in enumerate(self.contacts.rates, 3 * len(self.chosen)):
            low, high = each.rate_bounds(at.q, at.qd[each.rate], h, self.contacts.restitution)
            yield JointBlock(W[row][row], levels[each.rate] if each.rubs else 0.0,
                             low if math.isfinite(each.lower) else None,
                             high if math.isfinite(each.upper) else None)

    def sweep(self, at: Moment) -> list[Scalar]:
        """The state with the forces and slips after some sweeps; see `_judged`."""
        own: StepRows = at.shared
        slips = [*(at.parts[SLIP][i] for i in self.chosen), *[0.0] * len(self.contacts.rates)]
        forces = self.forces(at)
        for _ in range(SWEEPS):
            forces, slips = sweep(own.blocks, own.W, own.rows.g, forces, slips)
        return self._judged(at, forces, slips)

    def newton(self, at: Moment) -> list[Scalar]:
        """The state with the unknowns of Newton's method in the place of forces, and its eps."""
        own: StepRows = at.shared
        scaled = ScaledContacts.of(own.blocks, own.W, own.rows.g)
        mark = at.t.graph.mark if isinstance(at.t, Node) else lambda: None
        eps, fall = at.cells
        x, eps = newton_step(scaled, self.forces(at), eps, fall, mark)
        return [*at.but(**self._as_parts(x)), eps]

    def clear(self, at: Moment) -> list[Scalar]:
        """The state with forces and slips for those unknowns; see `_judged`."""
        own: StepRows = at.shared
        scaled = ScaledContacts.of(own.blocks, own.W, own.rows.g)
        return self._judged(at, *cleared(own.blocks, own.W, own.rows.g, unscaled(
            scaled, self.forces(at))))

    def forces(self, at: Moment) -> list[Scalar]:
        """The unknowns in a state: forces of contacts, then of joints."""
        forces = at.parts[FORCE]
        return [*(forces[3 * i + k] for i in self.chosen for k in range(3)),
                *at.parts.get(JOINT_FORCE, ())]

    def _as_parts(self, forces: Scalars) -> dict[str, Scalars]:
        first = 3 * len(self.chosen)
        found: dict[str, Scalars] = {FORCE: self._among_all(forces[:first], 3)}
        return found | {JOINT_FORCE: forces[first:]} if self.contacts.rates else found

    def _with_slips(self, forces: Scalars, slips: Scalars) -> dict[str, Scalars]:
        return self._as_parts(forces) | {SLIP: self._among_all(slips[:len(self.chosen)], 1)}

    def _among_all(self, values: Scalars, width: int) -> list[Scalar]:
        """Numbers of the chosen contacts, and zeros of all others."""
        found: list[Scalar] = [0.0] * (width * len(self.contacts.names))
        for k, i in enumerate(self.chosen):
            found[width * i:width * (i + 1)] = values[width * k:width * (k + 1)]
        return found

    def _judged(self, at: Moment, forces: Scalars, slips: Scalars) -> list[Scalar]:
        """The state with these, their residual, and how many times it is what it should be."""
        own: StepRows = at.shared
        residual = worst(own.blocks, own.W, own.rows.g, forces)
        return [*at.but(**self._with_slips(forces, slips)), residual, residual / own.accurate]

    def move(self, at: Moment) -> list[Scalar]:
        """The state after the step with its forces, how deep bodies are in each other before it,
        how many modes change, and whether a contact that was not chosen has to be."""
        (h,), own, space, forces = at.cells, at.shared, at.system.space, self.forces(at)
        driver, moded = self._driver(at), self.contacts.moded
        after = respond(driver, own.rows, [h * f for f in forces], moded)
        missed = self._missed(at, driver, after, h)
        v = [x for each in after for x in each]
        modes = self._settle(at, v)
        q, v = space.step(at.q, v, h)
        depth: Scalar = 0.0
        for gap in own.rows.gaps:
            depth = maximum(depth, -gap)
        first = len(at.q) + len(v)
        moved = [x + h * k for x, k in zip(at.y[first:], own.further, strict=True)]
        switches: Scalar = 0.0
        for old, new in zip(at.y[len(at.y) - len(modes):], modes, strict=True):
            switches = switches + where(equal(old, new) | equal(old, UNKNOWN), 0.0, 1.0)
        return [*q, *v, *moved[:len(moved) - len(modes)], *modes, depth, switches, missed]

    def _missed(self, at: Moment, driver: Unrolled, after: Column, h: Scalar) -> Scalar:
        """1 if the step would lead a contact that was not chosen into what it may touch."""
        rest = [i for i in range(len(self.contacts.names)) if i not in self.chosen]
        if not rest:
            return 0.0
        others = replace(driver.mechanism, contacts=tuple(
            at.mechanism.contacts[i] for i in rest))
        missed: Scalar = 0.0
        for gap, speed in normal_speeds(Unrolled(others, driver.mark), others.split(at.q, "nq"),
                                        after):
            missed = where(less(0.0, gap) & less(0.0, gap + h * speed), missed, 1.0)
        return missed

    def _settle(self, at: Moment, v: list[Scalar]) -> list[Scalar]:
        """What contacts and rates do at the end of the step; rates that are held are so to the
        bit."""
        own: StepRows = at.shared
        found: list[Scalar] = [OPEN] * len(self.contacts.names)
        for i, block in zip(self.chosen, own.blocks, strict=False):
            assert isinstance(block, ContactBlock)
            slides = less(0.0, at.parts[SLIP][i]) | less_equal(block.mu, 0.0)
            found[i] = where(less_equal(at.parts[FORCE][3 * i + 2], 0.0), OPEN,
                             where(slides, SLIDES, STICKS))
        for block, k, force in zip(own.blocks[len(self.chosen):], self.contacts.moded,
                                   at.parts.get(JOINT_FORCE, ()), strict=True):
            assert isinstance(block, JointBlock)
            mode, rate = block.outcome(v[k], force)
            found.append(mode)
            v[k] = where(equal(mode * mode, 1.0), v[k], rate)
        return found

    def _driver(self, at: Moment) -> Unrolled:
        """The sweeps of the mechanism of a moment, without the friction that has rows."""
        mechanism = at.system.bare(at.mechanism).regrouped()
        if any(each.rubs for each in self.contacts.rates):
            mechanism = without_dry_friction(mechanism)
        if len(self.chosen) < len(mechanism.contacts):
            mechanism = replace(mechanism, contacts=tuple(
                mechanism.contacts[i] for i in self.chosen))
        mark = at.t.graph.mark if isinstance(at.t, Node) else lambda: None
        return Unrolled(mechanism, mark)
