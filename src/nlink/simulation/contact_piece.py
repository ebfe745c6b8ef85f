"""Contacts of a system: what each step of semi-implicit Euler solves, as texts.

The unknowns are forces, impulses over the size of the step: h G f + g are the velocities at the
end of a step. They and the slips of contacts that slide are parts of the state, from which the next
step starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nlink.algorithms.contact_rows import ContactRows, contact_rows, respond
from nlink.algorithms.inverse_dynamics import no_wrenches
from nlink.algorithms.sweep import Unrolled
from nlink.iterations.contact_cone import ContactBlock, cleared, sweep, worst
from nlink.iterations.contact_newton import ScaledContacts, newton_step, unscaled
from nlink.iterations.recording import Gives
from nlink.model.names import did_you_mean
from nlink.scalars.functions import Scalar, Scalars, maximum
from nlink.scalars.graph import Node
from nlink.simulation.control_scheme import StatePart
from nlink.simulation.moment import Moment, SystemPiece, Text, Texts

if TYPE_CHECKING:
    from nlink.iterations.integration import Method
    from nlink.robot import Robot
    from nlink.simulation.assembled_system import AssembledSystem
    from nlink.simulation.modes import Modes
    from nlink.simulation.setting import Physics
    from nlink.simulation.system import System

CONTACT = ("rigid", "ignore")
"""What `contact=` may say."""
ACCURATE = 1e-10
"""What a step solves its contacts to, in m/s."""
ROUNDING = 1e-13
"""And over its largest velocity."""
SWEEPS = 2
"""Sweeps in a call."""
FORCE, SLIP = "contact_force", "contact_slip"
"""Parts of the state: three forces along t, u and n of each contact, and how fast it slides for
its force along the surface."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """What the texts of one step share."""

    rows: ContactRows
    """Without G."""
    W: tuple[tuple[Scalar, ...], ...]
    """h G: velocities by forces."""
    blocks: tuple[ContactBlock, ...]
    accurate: Scalar
    """A residual that is good enough, in m/s."""
    further: tuple[Scalar, ...]
    """The rates of what the state has behind velocities."""


@dataclass(frozen=True)
class Contacts(SystemPiece):
    """The contacts of a mechanism, by name."""

    names: tuple[str, ...]

    def expect(self, method: Method, velocity: str) -> None:
        """Refuse methods that know nothing of contact."""
        if not method.decides_modes or velocity != "qd":
            given = f"method={method.name!r}" if velocity == "qd" else f"velocity={velocity!r}"
            raise ValueError(f"contact: 'rigid' does not go with {given}, expected "
                             "method='semi_implicit' with velocity='qd', or contact='ignore'")

    def parts(self, system: AssembledSystem) -> tuple[StatePart, ...]:
        count = len(self.names)
        return (StatePart(FORCE, 3 * count, discrete=True), StatePart(SLIP, count, discrete=True))

    def texts(self, system: System) -> Texts:
        return {"contact_rows": Text(self.rows, cells=1, gives=Gives(shared=True)),
                "contact_sweep": Text(self.sweep, gives=Gives(cells=2), takes="contact_rows"),
                "contact_move": Text(self.move, cells=1, gives=Gives(cells=1),
                                     takes="contact_rows"),
                "contact_newton": Text(self.newton, cells=1, gives=Gives(cells=1),
                                       takes="contact_rows"),
                "contact_clear": Text(self.clear, gives=Gives(cells=2), takes="contact_rows")}

    def rows(self, at: Moment) -> StepRows:
        """The contact problem of a step whose size is a cell."""
        (h,), (tau, further), driver = at.cells, at.driven, _driver(at)
        mechanism = driver.mechanism
        found = contact_rows(driver, mechanism.split(at.q, "nq"), mechanism.split(at.qd, "nv"),
                             mechanism.split(tau, "nv"), no_wrenches(driver), h)
        W = tuple(tuple(h * x for x in row) for row in found.G)
        blocks = tuple(ContactBlock.of([row[3 * i:3 * i + 3] for row in W[3 * i:3 * i + 3]], mu)
                       for i, mu in enumerate(found.friction))
        fastest: Scalar = 0.0
        for x in found.g:
            fastest = maximum(fastest, abs(x))
        return StepRows(replace(found, G=()), W, blocks, ACCURATE + ROUNDING * fastest,
                        tuple(further))

    def sweep(self, at: Moment) -> list[Scalar]:
        """The state with the forces and slips after some sweeps; see `_judged`."""
        own: StepRows = at.shared
        forces, slips = at.parts[FORCE], at.parts[SLIP]
        for _ in range(SWEEPS):
            forces, slips = sweep(own.blocks, own.W, own.rows.g, forces, slips)
        return self._judged(at, forces, slips)

    def newton(self, at: Moment) -> list[Scalar]:
        """The state with the unknowns of Newton's method in the place of forces, and its eps."""
        own: StepRows = at.shared
        scaled = ScaledContacts.of(own.blocks, own.W, own.rows.g)
        mark = at.t.graph.mark if isinstance(at.t, Node) else lambda: None
        x, eps = newton_step(scaled, at.parts[FORCE], at.cells[0], mark)
        return [*at.but(**{FORCE: x}), eps]

    def clear(self, at: Moment) -> list[Scalar]:
        """The state with forces and slips for those unknowns; see `_judged`."""
        own: StepRows = at.shared
        scaled = ScaledContacts.of(own.blocks, own.W, own.rows.g)
        return self._judged(at, *cleared(own.blocks, own.W, own.rows.g, unscaled(
            scaled, at.parts[FORCE])))

    def _judged(self, at: Moment, forces: Scalars, slips: Scalars) -> list[Scalar]:
        """The state with these, their residual, and how many times it is what it should be."""
        own: StepRows = at.shared
        residual = worst(own.blocks, own.W, own.rows.g, forces)
        return [*at.but(**{FORCE: forces, SLIP: slips}), residual, residual / own.accurate]

    def move(self, at: Moment) -> list[Scalar]:
        """The state after the step with its forces, and how deep bodies are in each other before
        it."""
        (h,), own, space = at.cells, at.shared, at.system.space
        after = respond(_driver(at), own.rows, [h * f for f in at.parts[FORCE]])
        q, v = space.step(at.q, [x for each in after for x in each], h)
        first, depth = len(at.q) + len(v), 0.0
        for gap in own.rows.gaps:
            depth = maximum(depth, -gap)
        return [*q, *v, *(x + h * k for x, k in zip(at.y[first:], own.further, strict=True)),
                depth]


def _driver(at: Moment) -> Unrolled:
    """The sweeps of the mechanism of a moment."""
    mechanism = at.system.bare(at.mechanism).regrouped()
    return Unrolled(mechanism, at.t.graph.mark) if isinstance(at.t, Node) else Unrolled(mechanism)


def contacts_in(robot: Robot, physics: Physics, modes: Modes | None) -> Contacts | None:
    """What touches in a system, None if nothing does."""
    if physics.contact not in CONTACT:
        raise ValueError(f"contact: {physics.contact!r}, expected one of {', '.join(CONTACT)}"
                         f"{did_you_mean(physics.contact, CONTACT)}")
    if not robot.mechanism.contacts or physics.contact == "ignore":
        return None
    for wrong, what, other in (
            (robot.mechanism.closures, "a mechanism with loops", "contact='ignore'"),
            (physics.limits in ("hold", "bounce"), f"limits={physics.limits!r}",
             "limits='stop' or 'ignore'"),
            (modes is not None, "friction='dry'", "friction='smooth'"),
            (physics.algorithm is not None, f"algorithm={physics.algorithm!r}",
             "algorithm=None: a step has an elimination of its own")):
        if wrong:
            raise ValueError(f"contact: 'rigid' does not go with {what}, expected {other}")
    return Contacts(tuple(each.name for each in robot.mechanism.contacts))
