"""The parts of a mechanism by name and as arrays, and other mechanisms made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.computations import Computations
from nlink.model import coordinates, editing
from nlink.model.actuators import Actuator
from nlink.model.coordinates import LimitArrays
from nlink.model.description import Joint
from nlink.model.editing import PerJoint
from nlink.model.pose import Pose
from nlink.model.shapes import MeshShape
from nlink.model.touching import FileShapes, Pairs, ShapesByLink, with_contacts
from nlink.model.world import World
from nlink.scalars.arrays import single
from nlink.scalars.lazy import lazy

Array = np.ndarray


class Editable(Computations):
    """A mechanism, its coordinates by name, and edited copies of it."""

    @property
    def moving_joints(self) -> tuple[Joint, ...]:
        """The joints that have coordinates, in the order of q; `joints` has fixed ones too."""
        return tuple(joint for joint in self.description.joints if joint.type.nv)

    @lazy
    def q_names(self) -> tuple[str, ...]:
        """A name for each coordinate: its joint's, and for joints of several "joint.qw" and such.

        >>> import nlink
        >>> nlink.load("double_pendulum").q_names
        ('joint1', 'joint2')
        """
        return coordinates.coordinate_names(self.description)

    @lazy
    def qd_names(self) -> tuple[str, ...]:
        """A name for each rate; tau and qdd have the same."""
        return coordinates.rate_names(self.description)

    def q_index(self, name: str) -> int | slice:
        """The place of a joint's coordinates in q: an index, or a slice if there are several.
        A name of `q_names` does as well.

        >>> import nlink
        >>> nlink.load("puma560").q_index("joint3")
        2
        """
        return coordinates.place_of(self.description, name, "nq")

    def qd_index(self, name: str) -> int | slice:
        """The place of a joint's rates in qd, tau and qdd: an index or a slice, as `q_index` gives.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.qd_index("joint2")
        1
        """
        return coordinates.place_of(self.description, name, "nv")

    @property
    def actuators(self) -> tuple[Actuator, ...]:
        """The actuators that an MJCF file gives the joints of this robot, with their gains;
        `nlink.simulation.Actuated` turns commands to them into joint forces."""
        names = {joint.name for joint in self.description.joints if joint.type.nv}
        return tuple(each for each in self.description.actuators if each.joint in names)

    @lazy
    def limits(self) -> LimitArrays:
        """Bounds as arrays of n, `lower, upper, velocity, effort`, infinite where there is none.

        `lower` and `upper` are of coordinates that are plain numbers; for joints with other
        coordinates, spherical and free ones, they are infinite.

        >>> import nlink
        >>> nlink.load("planar3").limits.upper
        array([inf, inf, inf])
        """
        return coordinates.limit_arrays(self.description)

    @lazy
    def actuated(self) -> Array:
        """Whether a motor acts on each rate: booleans, n of them."""
        return np.array(self.description.motors, dtype=bool)

    def with_payload(self, mass: float, com: ArrayLike = (0.0, 0.0, 0.0),
                     inertia: ArrayLike | None = None, frame: int | str = -1) -> Self:
        """The same mechanism with a body fixed in a frame: a mass, its centre and its inertia
        about it (3x3 or three moments) in that frame's axes. It becomes part of the link
        that carries it, so links and frames keep their numbers.

        >>> import nlink
        >>> nlink.load("planar3").with_payload(2.0).gravity_torque([0, 0, 0])
        array([103.005,  58.86 ,  24.525])
        """
        return type(self)(editing.with_payload(self.description, mass, com, inertia, frame))

    def with_friction(self, *, viscous: PerJoint | None = None, dry: PerJoint | None = None,
                      **more: PerJoint | None) -> Self:
        """The same mechanism with other friction in its joints: viscous, per rad/s or m/s, and
        dry, in N m or N; `more` are the other fields of `nlink.Friction`, as `breakaway`.

        Each is a number for all joints (except free ones), one for each of `moving_joints`, or
        numbers by the names of joints. What is not given stays.

        >>> import nlink
        >>> arm = nlink.load("planar3").with_friction(viscous=0.5, dry={"joint2": 0.1})
        >>> [(joint.friction.viscous, joint.friction.coulomb) for joint in arm.joints]
        [(0.5, 0.0), (0.5, 0.1), (0.5, 0.0)]
        """
        if "coulomb" in more:
            raise TypeError("friction: coulomb, expected its name here: dry")
        return type(self)(editing.with_friction(
            self.description, viscous=viscous, coulomb=dry, **more))

    def with_armature(self, armature: PerJoint) -> Self:
        """The same mechanism with rotor inertias as the joints feel them, kg m^2 (or kg), given
        as in `with_friction`; they are added to the diagonal of M.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> heavier = robot.with_armature(0.1)
        >>> (heavier.mass_matrix([0.0, 0.0]) - robot.mass_matrix([0.0, 0.0])).round(9) + 0.0
        array([[0.1, 0. ],
               [0. , 0.1]])
        """
        return type(self)(editing.with_armature(self.description, armature))

    def with_gravity(self, gravity: Sequence[float] | ArrayLike) -> Self:
        """The same mechanism under another gravity, m/s^2 in the world's axes.

        >>> import nlink
        >>> nlink.load("planar3").with_gravity((0, 0, -1.62)).gravity_torque([0, 0, 0]).round(9)
        array([0., 0., 0.])
        """
        x, y, z = single("gravity", gravity, (3,)).tolist()
        return type(self)(editing.edited(self.description, gravity=(x, y, z)))

    def with_contacts(self, shapes: ShapesByLink | None = None, world: World | None = None, *,
                      collisions: FileShapes = None, pairs: Pairs = (),
                      packages: Sequence[str | Path] = ()) -> Self:
        """The same mechanism with shapes of its links that touch a world.

        `shapes` are shapes, lists of them, or shapes by names of their own, by the names of links
        or frames;
        `collisions="file"` takes those of the robot's file, too, and a list of names those of
        these links; of a mesh it takes the hull of at most 16 vertices, and `packages` are
        directories where package:// names are searched. `world` is the one that it has, that of
        the file, or the ground z = 0, if not given. `pairs` names links, or shapes, two by two,
        that touch each other: spheres and capsules touch spheres, capsules and boxes. With
        nothing but pairs, shapes stay. What touches has forces in
        `nlink.simulate(..., contact="rigid")`.

        >>> import nlink
        >>> robot = nlink.load("planar3").with_contacts({"link3": nlink.Sphere(0.1)})
        >>> [contact.name for contact in robot.mechanism.contacts]
        ['link3']
        """
        description = with_contacts(self.description, shapes, world, collisions, pairs)
        if any(isinstance(each.shape, MeshShape) for each in description.collisions):
            from nlink.viewer.mesh_hulls import with_hulls

            description = with_hulls(description, [Path(x) for x in packages])
        return type(self)(description)

    def with_base(self, pose: Pose | ArrayLike | None = None, *,
                  floating: bool | None = None) -> Self:
        """The same mechanism with its base elsewhere in the world: moved by a pose (4x4, or a
        `nlink.Pose`), and free or fixed if `floating` is given.

        Frames fixed in the base go with it; gravity stays as it is in the world. With
        `floating=True` the base body becomes free, as with `nlink.load(..., floating=True)`; with
        False a free one is fixed where its coordinates are neutral.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> moved = robot.with_base(nlink.Pose(origin=(0.0, 0.0, 1.0)))
        >>> (moved.pose([0.0, 0.0]) - robot.pose([0.0, 0.0]))[:3, 3].round(9) + 0.0
        array([0., 0., 1.])
        """
        description = self.description
        if floating is not None:
            description = (editing.floated if floating else editing.grounded)(description)
        if pose is not None:
            description = editing.moved_base(description, _pose(pose))
        return type(self)(description)

    def lock(self, joints: Mapping[str, Any] | Sequence[str], q: ArrayLike | None = None) -> Self:
        """The mechanism with some joints fixed: positions by the names of joints, or names and
        the configuration q in which they are held (`neutral` if not given).

        The others keep their names, numbers and data; links stay as links on fixed joints. M of
        it is M without the rows and columns of the locked rates. A joint that mimics a
        locked one is locked at the corresponding position. A loop that no moving joint is part of
        any more is left out if it is closed, and refused if not.

        >>> import nlink
        >>> robot = nlink.load("puma560").lock({"joint5": 0.3, "joint6": 0.0})
        >>> robot.n, robot.q_names
        (4, ('joint1', 'joint2', 'joint3', 'joint4'))
        """
        if isinstance(joints, str):
            raise TypeError(f"joints: {joints!r}, expected positions by name, or a list of names")
        if not isinstance(joints, Mapping):
            held = single("q", self.neutral if q is None else q, (self._mechanism.nq,))
            joints = {name: held[self.q_index(name)] for name in joints}
        elif q is not None:
            raise ValueError("q: joints has positions already, expected one of the two")
        return type(self)(editing.lock(self.description, joints))

    def sub(self, start: int | str, end: int | str | None = None,
            q: ArrayLike | None = None) -> Self:
        """The mechanism from one link to another that it carries: the joints between them, with
        all links that are fixed to those on the way. Without `end`, all that `start` carries.

        `start` stands where it is in the configuration q (`neutral` if not given); joints that
        lead elsewhere are left out with what they carry.

        >>> import nlink
        >>> nlink.load("puma560").sub("link3", "link6").q_names
        ('joint4', 'joint5', 'joint6')
        """
        held = self.neutral if q is None else single("q", q, (self._mechanism.nq,))
        number = coordinates.link_number(self.description, start)
        stand = _pose(self._compute("pose", (held, None), {"engine": "python"}, frame=number))
        return type(self)(editing.sub(self.description, start, end, stand))

    @property
    def neutral(self) -> Array:
        """A valid configuration: the author's home, or the joints' zeros."""
        if self.description.home:
            return np.array(self.description.home)
        return np.array(self._mechanism.space.neutral)


def _pose(given: Pose | ArrayLike) -> Pose:
    """A pose from a 4x4 matrix."""
    if isinstance(given, Pose):
        return given
    matrix = single("pose", given, (4, 4))
    if np.abs(matrix[3] - (0, 0, 0, 1)).max() > 1e-9:
        raise ValueError(f"pose: last row {matrix[3].tolist()}, expected 0, 0, 0, 1")
    return Pose.of(matrix[:3, :3], matrix[:3, 3])
