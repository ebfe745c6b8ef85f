"""One state of a system at one time, on any scalars, and what may be written about it.

All that an iteration may call about a system is a text of one `Moment`: its rates first, then what
happens between steps and at their ends. On nodes a text becomes a program; on floats it is called
as it is, around compiled algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.iterations.recording import Gives
from nlink.model.mechanism import Mechanism
from nlink.programs.applying import perform
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Node
from nlink.scalars.lazy import lazy
from nlink.scalars.misuse import explained
from nlink.spatial import Vector

if TYPE_CHECKING:
    from nlink.simulation.assembled_system import AssembledSystem
    from nlink.simulation.control_scheme import StatePart
    from nlink.simulation.prescribed_motion import KnownMotion
    from nlink.simulation.system import System

Array = np.ndarray
Change = Callable[[Mechanism], Mechanism]

WRENCHED, PUSHED = "inverse_dynamics with wrenches", "forward_dynamics with wrenches"
"""The names by which texts perform them."""


def as_it_is(mechanism: Mechanism) -> Mechanism:
    return mechanism


def without_dry_friction(mechanism: Mechanism) -> Mechanism:
    """The same joints, with viscous friction alone."""
    return replace(mechanism, joints=tuple(
        replace(joint, coulomb=(0.0,) * joint.type.nv, excess=(0.0,) * joint.type.nv)
        for joint in mechanism.joints))


def weightless(mechanism: Mechanism) -> Mechanism:
    """How a mechanism at rest yields to impulses: without friction and without weight."""
    return replace(without_dry_friction(mechanism), gravity=Vector.zero())


@dataclass(frozen=True)
class Moment:
    """One state of a system at one time."""

    system: System
    t: Scalar
    y: Scalars
    u: Scalars
    """The table's rows before and after t with their times, what varies, cells of the iteration."""
    kernel: Callable[[str, Change], Callable[..., list[Scalar]] | None] = lambda name, change: None
    """Compiled algorithms for floats; None where the text of the algorithm is run."""
    shared: Any = None
    """What another text has left for this one within the step."""

    @lazy
    def _split(self) -> tuple[Scalars, Scalars, dict[str, Scalars]]:
        q, v, parts = self.system.layout.split(self.y)
        motion = self.system.motion
        return (q, v, parts) if motion is None else (*motion.state(self.known, q, v), parts)

    @lazy
    def known(self) -> list[KnownMotion]:
        """What is known of the joints whose motion is given."""
        assert self.system.motion is not None
        return self.system.motion.known(self.t, self.system.varied.parameters(self.own))

    @property
    def q(self) -> Scalars:
        return self._split[0]

    @property
    def v(self) -> Scalars:
        return self._split[1]

    @property
    def parts(self) -> dict[str, Scalars]:
        """What the pieces of the system remember, by name."""
        return self._split[2]

    @property
    def own(self) -> Scalars:
        """What varies."""
        return self.u[self.system.shape.timed:self.system.shape.inputs]

    @property
    def cells(self) -> Scalars:
        return self.u[self.system.shape.inputs:]

    @lazy
    def mechanism(self) -> Mechanism:
        system = self.system
        found = system.varied.mechanism(system.robot, self.own) if system.varied.mechanical else (
            system.robot.mechanism)
        if system.motion is None or not system.motion.loops:
            return found
        return system.motion.mechanism(self, found)

    @lazy
    def row(self) -> list[Scalar]:
        """The table at this time, linear between output times."""
        wide = self.system.columns
        if not wide:
            return []
        x = (self.t - self.u[0]) / (self.u[1] - self.u[0])
        return [a + (b - a) * x for a, b in zip(self.u[2:2 + wide], self.u[2 + wide:2 + 2 * wide],
                                                strict=True)]

    @lazy
    def qd(self) -> Scalars:
        return self.system.velocity.to_rates(self.perform, self.q, self.v)

    @lazy
    def state(self) -> tuple[Array, Array]:
        """q and qd as arrays, which functions of users get."""
        kind = object if isinstance(self.t, Node) else float
        return np.array(self.q, dtype=kind), np.array(self.qd, dtype=kind)

    def perform(self, name: str, *columns: Scalars, change: Change = as_it_is) -> list[Scalar]:
        """An algorithm on the mechanism of this moment, changed by `change`."""
        compiled = self.kernel(name, change)
        if compiled is not None:
            return compiled(*columns)
        return perform(replace(self.system.request(name), mechanism=change(self.mechanism)),
                       *columns)

    def hybrid(self, q: Scalars, qd: Scalars, tau: Scalars, held: Scalars, qdd: Scalars, *,
               change: Change = without_dry_friction, impact: bool = False,
               ) -> tuple[Scalars, Scalars]:
        """Hybrid dynamics: accelerations, and the forces that hold. What moves as it is given to
        is held besides; in an impact its rate does not change."""
        motion = self.system.motion
        if motion is not None:
            held, qdd = motion.holding(None if impact else self.known, held, qdd)
        found = self.perform("hybrid_dynamics", q, qd, tau, held, qdd, change=change)
        return found[:len(qd)], found[len(qd):]

    @lazy
    def drive(self) -> tuple[Scalars, list[Scalar]]:
        """Joint forces of the drive, less smooth friction, and the rates of what it remembers."""
        system = self.system
        with explained():
            tau, further = system.drive.control(self)
        return system.less_friction(self, tau), [*further, *[0.0] * system.shape.discrete]

    @lazy
    def driven(self) -> tuple[Scalars, list[Scalar]]:
        """The same with the joint forces J^T f of wrenches on links."""
        (tau, further), system = self.drive, self.system
        if system.wrenches is not None:
            tau = [a + b for a, b in zip(tau, system.push(self), strict=True)]
        return tau, further

    @lazy
    def f_ext(self) -> list[Scalar]:
        """Wrenches on links from outside, six numbers each."""
        system, links = self.system, len(self.system.robot.links)
        assert system.wrenches is not None
        with explained():
            return system.wrenches.on_links(
                links, system.varied.split(self.own).get("f_ext", ()),
                self.row[system.columns - system.wrenches.columns:], self.t, *self.state,
                *system.varied.parameters(self.own))

    def but(self, q: Scalars | None = None, v: Scalars | None = None, **parts: Scalars,
            ) -> list[Scalar]:
        """The state, but for what is given."""
        return self.system.layout.joined(self.q if q is None else q, self.v if v is None else v,
                                         self.parts | parts)


ONE_COLUMN = Gives()


@dataclass(frozen=True)
class Text:
    """What an iteration may call: a function of a moment, and what it gives."""

    function: Callable[[Moment], Any]
    """Scalars in the order of what it gives, or, of one that shares what it gives, any value made
    of scalars."""
    cells: int = 0
    """Cells of the iteration that it is called with."""
    gives: Gives = ONE_COLUMN
    takes: str = ""
    """The text whose shared value it is given."""


Texts = Mapping[str, Text]


class SystemPiece:
    """Something a system is made of besides its mechanism: a drive, modes of rates, contacts.

    1. It is a frozen dataclass of numbers and names: its `repr` decides kernels.
    2. `parts(system)` are the elements that it adds to the state.
    3. `texts(system)` are what an iteration may call about it, by name.
    4. `start(system, initial)` has its parts by name in the states (count, nq + n) to start from;
       those it leaves out are zeros.
    """

    def parts(self, system: AssembledSystem) -> tuple[StatePart, ...]:
        return ()

    def texts(self, system: System) -> Texts:
        return {}

    def start(self, system: System, initial: Array) -> dict[str, Array]:
        return {}
