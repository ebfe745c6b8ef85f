"""A mechanism as a user gives it: links, joints, frames. Validated once, then immutable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal

import numpy as np

from nlink.model.actuators import Actuator, Motor
from nlink.model.constraints import Constraint
from nlink.model.gears import Gear
from nlink.model.joints import Fixed, Free, JointType, Revolute
from nlink.model.mimics import Mimic, leads
from nlink.model.names import base_name, did_you_mean, first_few, visible
from nlink.model.pose import Mount, Placement, Pose
from nlink.model.visuals import Visual
from nlink.model.world import Collision, World
from nlink.scalars.arrays import single
from nlink.scalars.misuse import tell

Physical = Literal["warn", "error", "ignore"]
Vector3 = tuple[float, float, float]


class NonPhysicalWarning(UserWarning):
    """A warning: no real body can have these masses or inertias; they are used as given.

    >>> import warnings, nlink
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     robot = nlink.load("puma_saha")
    ...
    >>> caught[0].category.__name__
    'NonPhysicalWarning'
    """


@dataclass(frozen=True, slots=True)
class Friction:
    """Joint friction: viscous * qd + coulomb * sign(qd), and Stribeck's curve at low rates.

    A joint at rest breaks away at the force `breakaway` (at `coulomb` if 0, else larger than it);
    while sliding, (breakaway - coulomb) exp(-(qd / stribeck)^2) is added.

    >>> import nlink
    >>> nlink.Friction(viscous=0.1, coulomb=0.5)
    Friction(viscous=0.1, coulomb=0.5, breakaway=0.0, stribeck=0.0)
    """

    viscous: float = 0.0
    coulomb: float = 0.0
    breakaway: float = 0.0
    stribeck: float = 0.0

    @property
    def table(self) -> dict[str, float]:
        """As files have it: viscous and Coulomb friction, and the others if there are any."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: x for name, x in named.items() if x or name in ("viscous", "coulomb")}

    @property
    def excess(self) -> float:
        """The friction at which it breaks away, beyond Coulomb friction."""
        return max(0.0, self.breakaway - self.coulomb)

    @property
    def falloff(self) -> float:
        """1 / stribeck^2, or 0 if there is no excess; infinite for a rate too small to square."""
        if not self.excess:
            return 0.0
        return self.stribeck ** -2 if self.stribeck > 1e-150 else math.inf


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a joint, as data: algorithms do not enforce them.

    >>> import nlink
    >>> nlink.Limits(position=(-1.5, 1.5), effort=80.0).effort
    80.0
    """

    position: tuple[float, float] = (-math.inf, math.inf)
    velocity: float = math.inf
    effort: float = math.inf


@dataclass(frozen=True, slots=True)
class Link:
    """A rigid body: mass, mass centre and inertia about it, in the link's own frame.

    >>> import nlink
    >>> nlink.Link("rod", mass=2.0, com=(0.5, 0.0, 0.0)).mass
    2.0
    """

    name: str
    mass: float = 0.0
    com: Vector3 = (0.0, 0.0, 0.0)
    inertia: tuple[Vector3, ...] = ((0.0, 0.0, 0.0),) * 3


@dataclass(frozen=True, slots=True)
class Joint:
    """The connection of a link to its parent (0 is the base, i the i-th link).

    >>> import nlink
    >>> nlink.Joint("elbow", nlink.Revolute((0, 1, 0)), parent=1).type.name
    'revolute'
    """

    name: str
    type: JointType = field(default_factory=Revolute)
    parent: int = 0
    placement: Placement = field(default_factory=Mount)
    friction: Friction = Friction()
    armature: float = 0.0
    limits: Limits = Limits()
    actuated: bool = True
    """Whether a motor acts on it: what constrained inverse dynamics may use."""
    mimic: Mimic | None = None
    motor: Motor = field(default_factory=Motor)
    """The rotor and its gear; its inertia, as the joint feels it, adds to the armature."""

    @property
    def rotor_inertia(self) -> float:
        """All that the joint feels of rotors: its armature, and its motor's inertia reflected."""
        return self.armature + self.motor.reflected


@dataclass(frozen=True, slots=True)
class Frame:
    """A named frame fixed in a link (0 is the base).

    >>> import nlink
    >>> nlink.Frame("tool", link=3, pose=nlink.Pose(origin=(0.0, 0.0, 0.1))).pose.origin
    (0.0, 0.0, 0.1)
    """

    name: str
    link: int
    pose: Pose = field(default_factory=Pose)


@dataclass(frozen=True, slots=True)
class Loop:
    """A joint that closes a loop: it holds the frame `of` on the frame `on`.

    >>> import nlink
    >>> loop, = nlink.load("four_bar").description.loops
    >>> loop.of.name, loop.on.name
    ('pin.of', 'pin.on')
    """

    name: str
    constraint: Constraint
    of: Frame
    on: Frame


@dataclass(frozen=True, slots=True)
class Description:
    """A kinematic tree as its author gave it: `joints[i]` carries `links[i]`, and the loops
    that close it.

    >>> Description("x", (Link("a", mass=-1.0),), (Joint("j"),))
    Traceback (most recent call last):
    ...
    ValueError: link 'a': mass -1.0, expected a finite number >= 0
    """

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...] = ()
    gravity: Vector3 = (0.0, 0.0, -9.81)
    source: str = ""
    report: tuple[str, ...] = field(default=(), compare=False)
    """Lines about what the file's reader ignored, merged or repaired."""
    physical: Physical = field(default="warn", compare=False)
    """The reaction to numbers that no real body has: warn, refuse, or say nothing."""
    loops: tuple[Loop, ...] = ()
    gears: tuple[Gear, ...] = ()
    """Conditions on coordinates; a mechanism that has some is closed as one with loops is."""
    home: tuple[float, ...] = ()
    """The configuration to start from; the joints' own zeros if empty."""
    visuals: tuple[Visual, ...] = field(default=(), compare=False, repr=False)
    """The shapes and colours of links; mechanisms that differ in nothing else are equal."""
    actuators: tuple[Actuator, ...] = field(default=(), compare=False)
    """The actuators of an MJCF file, which turn commands into joint forces: data only."""
    collisions: tuple[Collision, ...] = field(default=(), repr=False)
    """The shapes of links that touch others where there is a world."""
    world: World | None = None
    """The fixed surroundings of the mechanism; without them, nothing touches."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Links that touch each other, by their names or those of their shapes."""
    surroundings: World | None = field(default=None, compare=False, repr=False)
    """The surroundings in the mechanism's file; the world if collisions are "file"."""

    def __post_init__(self) -> None:
        if self.physical not in ("warn", "error", "ignore"):
            raise ValueError(f"physical: {self.physical!r}, expected 'warn', 'error' or 'ignore'")
        if len(self.links) != len(self.joints):
            raise ValueError(f"{len(self.links)} links and {len(self.joints)} joints, "
                             "expected one joint for each link")
        single("gravity", self.gravity, (3,))
        _unique("frame", self._names)
        _unique("joint", [joint.name for joint in self.joints])
        for number, joint in enumerate(self.joints, 1):
            _check_joint(joint, number)
        leads(self.joints)  # raises where joints follow in circles, or nothing
        _unique("loop", [each.name for each in (*self.loops, *self.gears)])
        if self.gears:
            by_name = {joint.name: joint for joint in self.joints}
            for gear in self.gears:
                gear.check(by_name)
        for frame in (*self.frames, *(end for loop in self.loops for end in (loop.of, loop.on))):
            if not 0 <= frame.link <= len(self.links):
                raise ValueError(f"frame {frame.name!r}: link {frame.link}, "
                                 f"expected 0 to {len(self.links)}")
        if self.home:
            single("home", self.home, (sum(joint.type.nq for joint in self.joints),))
        for link in self.links:
            _check_link(link)
        for collision in self.collisions:
            if collision.link not in self._names and collision.link != self.base:
                known = [*self._names, self.base]
                raise ValueError(f"contacts: link {collision.link!r}, expected one of "
                                 f"{first_few(known, 40)}{did_you_mean(collision.link, known)}")
        if self.physical != "ignore":
            self._check_physics()

    @property
    def closed(self) -> bool:
        """Whether loops or gears tie joints to each other."""
        return bool(self.loops or self.gears)

    @property
    def base(self) -> str:
        """What frame 0, which never moves, is called: "base", or "world" beside a link or
        frame of that name."""
        return base_name(self._names)

    @property
    def motors(self) -> tuple[bool, ...]:
        """Whether a motor acts on each rate; a free joint never has one."""
        return tuple(joint.actuated and not isinstance(joint.type, Free)
                     for joint in self.joints for _ in range(joint.type.nv))

    @property
    def children(self) -> dict[int, list[int]]:
        """The numbers of the links that each link carries, 0 being the base; leaves have no key."""
        below: dict[int, list[int]] = {}
        for number, joint in enumerate(self.joints, 1):
            below.setdefault(joint.parent, []).append(number)
        return below

    @property
    def _names(self) -> list[str]:
        return [*(link.name for link in self.links), *(frame.name for frame in self.frames)]

    @property
    def objection(self) -> str:
        """Why `physical="error"` refuses these numbers, or nothing."""
        try:
            replace(self, physical="error")
        except ValueError as error:
            return str(error).removeprefix(f"{visible(self.name)}: ")
        return ""

    @property
    def massless_joints(self) -> tuple[str, ...]:
        """Joints that move no mass, their own rotor's included: their rows of M are zero."""
        found = []
        massless = [link.mass == 0 and not np.any(link.inertia) for link in self.links]
        still = [True] * len(self.links)  # no mass on the link nor beyond it
        for i in reversed(range(len(self.links))):
            joint = self.joints[i]
            still[i] = still[i] and massless[i]
            if joint.parent:
                still[joint.parent - 1] = still[joint.parent - 1] and still[i]
            if still[i] and joint.type.nv and joint.rotor_inertia == 0:
                found.append(joint.name)
        return tuple(reversed(found))

    def _check_physics(self) -> None:
        massless = self.massless_joints
        if massless and self.physical == "error":
            raise ValueError(f"joint {massless[-1]!r}: moves no mass, so the mass matrix is "
                             "singular; expected a mass on its link or beyond")
        complaints = [c for link in self.links if (c := _complaint(link))]
        said = [f"no mass moves with {first_few(massless)}, so the mass matrix is singular: "
                "inverse dynamics is computed, forward dynamics refused"] if massless else []
        said += [f"not a physical mechanism: {'; '.join(complaints)}"] if complaints else []
        if said:
            message = f"{visible(self.name)}: {'; '.join(said)}"
            if self.physical == "error":
                raise ValueError(message)
            tell(message, NonPhysicalWarning)


def _unique(what: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"{what}: name {name!r}, expected a non-empty string")
        if name in seen:
            raise ValueError(f"{what} {name!r}: the name is used twice")
        seen.add(name)


def _check_joint(joint: Joint, number: int) -> None:
    who = f"joint {joint.name!r}"
    if not isinstance(joint.type, JointType):
        raise TypeError(f"{who}: type {joint.type!r}, expected a JointType")
    if not isinstance(joint.placement, Placement):
        raise TypeError(f"{who}: placement is a {type(joint.placement).__name__}, expected a DH or "
                        "a Mount, such as Mount(pose)")
    if not 0 <= joint.parent < number:
        raise ValueError(f"{who}: parent[{number}] = {joint.parent} must be < {number} and >= 0: "
                         "a link hangs from the base or an earlier link, so there are no cycles")
    for name, value in (("armature", joint.armature), ("viscous friction", joint.friction.viscous),
                        ("coulomb friction", joint.friction.coulomb),
                        ("breakaway friction", joint.friction.breakaway),
                        ("stribeck rate", joint.friction.stribeck)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{who}: {name} {value}, expected a finite number >= 0")
    if 0 < joint.friction.breakaway < joint.friction.coulomb:
        raise ValueError(f"{who}: breakaway friction {joint.friction.breakaway}, expected at least "
                         f"the coulomb friction {joint.friction.coulomb}, or 0 for the same")
    if joint.friction.excess and not math.isfinite(joint.friction.falloff):
        raise ValueError(f"{who}: breakaway friction {joint.friction.breakaway} with the stribeck "
                         f"rate {joint.friction.stribeck}, expected a positive rate at which it "
                         "falls")
    joint.motor.check(who)
    low, high = joint.limits.position
    if not low <= high:
        raise ValueError(f"{who}: position limits {joint.limits.position}, expected low <= high")
    for name, value in (("velocity", joint.limits.velocity), ("effort", joint.limits.effort)):
        if not value >= 0:
            raise ValueError(f"{who}: {name} limit {value}, expected a number >= 0")
    if isinstance(joint.type, Fixed) and (joint.rotor_inertia or joint.friction != Friction()):
        raise ValueError(f"{who}: a fixed joint has no friction and no armature")
    if isinstance(joint.type, Free) and joint.rotor_inertia:
        # in rates of body axes an added mass needs w x v, and no motor turns with a free body
        raise ValueError(f"{who}: armature {joint.rotor_inertia} of a free joint, expected 0; what "
                         "moves with the body belongs to the link's mass and inertia")


def _check_link(link: Link) -> None:
    who = f"link {link.name!r}"
    if not (isinstance(link.mass, int | float) and math.isfinite(link.mass) and link.mass >= 0):
        raise ValueError(f"{who}: mass {link.mass}, expected a finite number >= 0")
    single(f"{who}: com", link.com, (3,))
    inertia = single(f"{who}: inertia", link.inertia, (3, 3))
    if np.abs(inertia - inertia.T).max() > 1e-9 * np.abs(inertia).max():
        raise ValueError(f"{who}: inertia is not symmetric")


def inertia_rounding(mass: float, moments: np.ndarray) -> float:
    """The size of rounding in principal moments: 1e-9 of the largest, or the moment of the mass
    at a micrometre, which files have for point masses they turned or shifted."""
    return float(max(1e-9 * np.abs(moments).max(), 1e-12 * mass, 1e-300))


def _complaint(link: Link) -> str:
    """Why no body has this inertia, or nothing: principal moments a, b >= 0 with a + b >= c."""
    moments = np.linalg.eigvalsh(np.array(link.inertia, dtype=float))
    slack = inertia_rounding(link.mass, moments)
    if moments[0] < -slack:
        return f"link {link.name!r} has the negative moment of inertia {moments[0]:.6g}"
    if moments[0] + moments[1] < moments[2] - slack:
        return (f"link {link.name!r} violates the triangle inequality: "
                f"{moments[0]:.6g} + {moments[1]:.6g} < {moments[2]:.6g}")
    if link.mass == 0 and moments[2] > slack:
        return f"link {link.name!r} has inertia but no mass"
    return ""
