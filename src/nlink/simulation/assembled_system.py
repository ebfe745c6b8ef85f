"""The pieces of a system, and their consequences before anything is traced.

A system is a robot, what drives it and what acts on it. Here are its pieces, the same under a
method of integration, and the requests that its texts make of algorithms; `system` makes it of
users' arguments and has the texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

from nlink.algorithms.closed_chains import ASKEW
from nlink.iterations.iteration import Shape
from nlink.robot import Robot
from nlink.scalars.lazy import lazy
from nlink.simulation.closing import Closing
from nlink.simulation.contact_piece import Contacts
from nlink.simulation.control_scheme import StatePart
from nlink.simulation.drives import Asked, Drive, Untraced
from nlink.simulation.events import Watched, Watching
from nlink.simulation.modes import Modes, SteppedModes, expect_modes
from nlink.simulation.moment import PUSHED, WRENCHED, SystemPiece, without_dry_friction
from nlink.simulation.numbers import Numbers
from nlink.simulation.prescribed_motion import PrescribedMotion
from nlink.simulation.state_layout import StateLayout
from nlink.simulation.variation import Varied
from nlink.simulation.velocities import VELOCITIES, JointRates
from nlink.simulation.wrenches import AppliedWrenches

if TYPE_CHECKING:
    from nlink.engines.engines import Request
    from nlink.iterations.integration import Method
    from nlink.iterations.sampling import Sampling
    from nlink.model.mechanism import Mechanism
    from nlink.model.spaces import Space
    from nlink.simulation.setting import Physics


@dataclass(frozen=True, init=False, repr=False)
class AssembledSystem:
    """The pieces of a system, and the system as a method integrates it (`under`)."""

    robot: Robot
    drive: Drive
    """The cause of joint forces."""
    wrenches: AppliedWrenches | None
    """Wrenches on links from outside."""
    modes: Modes | None
    """The rates that rub, or that limits hold, if there are any."""
    contacts: Contacts | None
    """The contacts with the world and between links, if there are any."""
    width: float | None
    """The rate at which smooth friction is almost what dry friction is."""
    watching: Watching
    """Functions whose zeros are events, limits among them."""
    motion: PrescribedMotion | None
    """The joints that move as functions of time say."""
    closing: Closing
    """How loops are kept closed."""
    varied: Varied
    """The numbers of each trajectory: the last elements of u."""
    velocity: JointRates
    """The parts of the state besides q."""
    algorithm: str | None
    arguments: Mapping[str, Any] = field(compare=False)
    """The options that it was made with, physics among them."""
    numbers: Numbers = field(compare=False)
    """The values of tables and of what varies: no program depends on them."""

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def but(self, **changes: Any) -> Self:
        """The same with other pieces."""
        return self._made(**{each.name: getattr(self, each.name)
                             for each in fields(self)} | changes)

    @classmethod
    def _made(cls, **values: Any) -> Self:
        system = object.__new__(cls)
        system._set(**values)
        return system

    def under(self, method: Method) -> Self:
        """The system as a method integrates it: momenta in place of rates where it wants them,
        modes decided in its steps if it decides them, and Python asked at samples if it is
        compiled and the controller is not."""
        known = vars(self).setdefault("_under", {})
        if known.get(method.name, (None,))[0] is not method:
            known[method.name] = method, self._formed(method)
        return known[method.name][1]

    def _formed(self, method: Method) -> Self:
        velocity, modes, watching, drive = self.velocity, self.modes, self.watching, self.drive
        compiled, momenta = "python" not in method.needs, "momenta" in method.needs
        closes = compiled and not momenta
        if momenta:
            if not self.space.flat:
                raise ValueError(f"method: {method.name!r} needs as many coordinates as rates, and "
                                 f"{self.robot.name} has {self.robot.nq} and {self.robot.n}")
            velocity = VELOCITIES["p"] if velocity.name == "qd" else velocity
        expect_modes(modes, velocity.name)
        if self.contacts is not None:
            self.contacts.expect(method, velocity.name)
        if self.motion is not None and velocity.name != "qd":
            raise ValueError(f"motion: not with method={method.name!r}, expected one that "
                             "integrates qd")
        traced = not isinstance(drive, Untraced)
        if velocity.velocities is not None and not (
                closes and traced and self.algorithm is None):
            raise ValueError(
                f"velocity: {velocity.name!r} does not go with method={method.name!r}, "
                f"traced={traced}, algorithm={self.algorithm!r}, expected a traced controller, a "
                "Runge-Kutta method or abm, and no algorithm")
        if self.robot.mechanism.closed and (velocity.name != "qd" or not closes):
            raise ValueError(f"method: {method.name!r} with velocity={velocity.name!r} does not "
                             "keep loops closed, expected a Runge-Kutta method or abm, and "
                             "velocity='qd'")
        if modes is not None and method.decides_modes:
            modes, watching = (SteppedModes(modes.rates, modes.restitution),
                               watching.without_holding())
        if isinstance(drive, Untraced) and compiled and drive.sampling is not None:
            drive = Asked(drive.drive)
        return self.but(velocity=velocity, modes=modes, watching=watching, drive=drive)

    @property
    def physics(self) -> Physics:
        """The options that it was made with."""
        return self.arguments["physics"]

    @lazy
    def pieces(self) -> tuple[SystemPiece, ...]:
        """The pieces that add to the state and to the texts."""
        return (self.drive, self.watching, *((self.modes,) if self.modes else ()),
                *((self.contacts,) if self.contacts else ()))

    @lazy
    def shape(self) -> Shape:
        robot, layout = self.robot, self.layout
        return Shape(layout.size, 2 * self.columns, self.varied.width, robot.nq, layout.discrete)

    @lazy
    def parts(self) -> tuple[StatePart, ...]:
        """The parts of the state behind q and the velocities: those with rates, then those that
        only jump."""
        found = [part for piece in self.pieces for part in piece.parts(self)]
        return tuple(sorted(found, key=lambda part: part.discrete))

    @lazy
    def layout(self) -> StateLayout:
        """The places of the parts of a state."""
        return StateLayout(self.robot.nq, self.robot.n, self.parts)

    @property
    def remembered(self) -> slice:
        """The places of the drive's parts in a state."""
        return self.layout.place([part.name for part in self.drive.parts(self)])

    @property
    def columns(self) -> int:
        """Columns of the table on the output times: joint forces, then wrenches."""
        wrenches = 0 if self.wrenches is None else self.wrenches.columns
        return wrenches + (self.robot.n if self.drive.tabled else 0)

    @property
    def watched(self) -> tuple[Watched, ...]:
        """Functions whose zeros are events, limits last."""
        return self.watching.functions

    @property
    def event_names(self) -> list[str]:
        """What a log of events has numbers for: functions watched, and changes of modes."""
        return [*(each.name for each in self.watched),
                *(self.modes.event_names if self.modes else ()),
                *(self.contacts.event_names if self.contacts else ())]

    @property
    def entries(self) -> int:
        """The most entries that a step may add to that log: changes of modes are one."""
        return len(self.watched) + bool(self.event_names[len(self.watched):])

    @property
    def sampling(self) -> Sampling | None:
        """When the drive acts; None if always."""
        return self.drive.sampling

    @lazy
    def space(self) -> Space:
        return self.robot.mechanism.space

    @property
    def holds(self) -> bool:
        """Whether limits hold, between the steps of a method."""
        return any(each.trigger.action == "hold" for each in self.watched)

    @property
    def restores(self) -> bool:
        """Whether steps leave the spaces of coordinates, and are brought back."""
        return not (self.projects or (self.space.flat and self.motion is None))

    @property
    def projects(self) -> bool:
        """Whether steps are projected onto closed loops."""
        return self.robot.mechanism.closed and self.closing == "project"

    @lazy
    def held(self) -> list[float]:
        """1 for rates whose motion is given, else 0."""
        nothing = [0.0] * self.robot.n
        return nothing if self.motion is None else self.motion.held(self.robot.n)

    def bare(self, mechanism: Mechanism) -> Mechanism:
        """What algorithms see: friction as it is, or viscous alone where dry friction is the
        business of the system."""
        return mechanism if self.width is None else without_dry_friction(mechanism)

    def request(self, name: str | None = None) -> Request:
        """The request of an algorithm; of the one that makes the state change, if none is named."""
        motion = self.velocity.motion
        if name == WRENCHED:
            return self._in_axes(self.robot.request("inverse_dynamics", wrenches=True))
        if name not in (None, motion, PUSHED, "hybrid_dynamics"):
            return self.robot.request(name)
        request = self.robot.request(motion if name in (None, PUSHED) else name,
                                     algorithm=self.algorithm, wrenches=name == PUSHED)
        request = self._in_axes(request) if name == PUSHED else request
        if not self.robot.mechanism.closed:
            return request
        stiffness = self.closing if isinstance(self.closing, float) else 0.0
        return replace(request, stiffness=stiffness, closeness=ASKEW)

    def _in_axes(self, request: Request) -> Request:
        """A request whose wrenches are in the axes that they are given in."""
        assert self.wrenches is not None
        return replace(request, axes=self.wrenches.axes)

    @property
    def limited(self) -> bool:
        """Whether limits of joints matter."""
        moded = self.modes.rates if self.modes else self.contacts.rates if self.contacts else ()
        return bool(self.watching.bounded) or any(each.coordinate >= 0 for each in moded)
