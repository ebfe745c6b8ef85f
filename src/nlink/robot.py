"""Robot: the object users hold. Words outside, symbols inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.computations import Computations
from nlink.engines.contact_problems import ContactProblems
from nlink.engines.editable import Editable
from nlink.engines.engines import columnwise
from nlink.engines.mechanics import Mechanics
from nlink.engines.regressors import Regressors
from nlink.engines.users_view import INTERNAL, as_methods_of, missing, unsettable
from nlink.engines.whole_body import WholeBody
from nlink.formats.dh import from_rows, read_loops
from nlink.formats.files import write_text
from nlink.formats.load import load_description
from nlink.formats.toml_writer import to_toml
from nlink.model.changes import link_inertias
from nlink.model.description import Description, Joint, Link, Physical
from nlink.model.editing import edited
from nlink.model.gears import Gear, geared, read_gears
from nlink.model.joints import Free
from nlink.model.names import counted, visible
from nlink.model.pose import Convention
from nlink.scalars.arrays import batch, single
from nlink.scalars.lazy import lazy
from nlink.scalars.notebook import Picture, html_table

if TYPE_CHECKING:
    from nlink.kinematics.inverse_kinematics import Reached
    from nlink.kinematics.tasks import Task
    from nlink.loops.loops import Loops
    from nlink.papers.operators import Operators, SpatialOperators
    from nlink.papers.operators.quasi_velocities import Diagonal
    from nlink.viewer.server import RobotView

Array = np.ndarray


class Robot(Editable, Mechanics, Regressors, WholeBody, ContactProblems):
    """A mechanism and its dynamics; immutable.

    Every function takes any leading batch shape, broadcasts like a NumPy gufunc, accepts `out=` and
    returns arrays of float64, or of float32 if all its arrays are. `engine` is "compiled" (machine
    code), "numpy" or "python"; the default is "compiled", or "numpy" for the few computations that
    cannot be compiled for a robot of many joints. `algorithm` names a formulation; the default is
    the one with the fewest operations. Coordinates are in SI units and radians.

    >>> import nlink
    >>> robot = nlink.load("planar3")
    >>> robot
    <Robot planar3: 3 joints, 3 rates, fixed base>
    >>> robot.inverse_dynamics([0, 0, 0], [0, 0, 0], [0, 0, 0])
    array([44.145, 19.62 ,  4.905])
    """

    @classmethod
    def from_dh(cls, rows: Sequence[Mapping[str, Any]], convention: Convention = "standard",
                gravity: Sequence[float] = (0.0, 0.0, -9.81), name: str = "robot",
                physical: Physical = "warn") -> Robot:
        """A robot from rows of a DH table.

        A row is a mapping: `joint` ("revolute", "prismatic" or "fixed"), `a, b, alpha, theta`
        (m, rad; the joint variable is added to `theta` or `b`; also `alpha_deg`, `theta_deg`),
        `mass`, `com`, `inertia` (3x3 or three moments, about the mass centre) in the link's own
        frame, optional `friction`, `armature`, `limits`, `name`.

        >>> rod = dict(joint="revolute", a=1.0, mass=1.0, com=(-0.5, 0, 0), inertia=(0, 1/12, 1/12))
        >>> Robot.from_dh([rod, rod], gravity=(0, -9.81, 0)).gravity_torque([0, 0])
        array([19.62 ,  4.905])
        """
        return cls(from_rows(rows, convention=convention, gravity=gravity, name=name,
                             physical=physical))

    if not TYPE_CHECKING:  # a checker knows all names, and says so by itself
        def __getattr__(self, name: str) -> Any:
            # without `obj`, Python adds no second hint of its own
            raise AttributeError(missing(name, dir(self)), name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property | lazy):
            raise AttributeError(unsettable(name))
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in INTERNAL]

    def __reduce__(self) -> tuple[type[Robot], tuple[Description]]:
        """Pickled and copied by its description; compiled code is found again in the cache."""
        return type(self), (self.description,)

    def __repr__(self) -> str:
        joints = self._mechanism.joints
        base = "floating" if joints and isinstance(joints[0].type, Free) else "fixed"
        counts = ("loop", len(self._mechanism.closures)), ("gear", len(self._mechanism.gears))
        loops = "".join(f", {counted(count, what)}" for what, count in counts if count)
        return (f"<Robot {visible(self.name)}: {counted(len(joints), 'joint')}, "
                f"{counted(self.n, 'rate')}, {base} base{loops}>")

    def _repr_html_(self) -> str:
        rows = [(joint.name, joint.type.name, self.frames[joint.parent], link.name,
                 f"{link.mass:.4g}", f"{joint.limits.position[0]:.4g} to "
                 f"{joint.limits.position[1]:.4g}" if joint.type.nv else "")
                for joint, link in zip(self.joints, self.links, strict=True)]
        from nlink.viewer.pictures import inline_picture

        return inline_picture(self) + html_table(repr(self)[1:-1].removeprefix("Robot "), (
            "joint", "type", "on", "link", "mass, kg", "limits, rad or m"), rows, self.report)

    @lazy
    def n(self) -> int:
        """The number of rates (degrees of freedom), nv."""
        return self._mechanism.nv

    @lazy
    def nq(self) -> int:
        """The number of coordinates; differs from `n` where coordinates are not plain numbers."""
        return self._mechanism.nq

    @property
    def joints(self) -> tuple[Joint, ...]:
        """The joints, one for each link, as given."""
        return self.description.joints

    @property
    def links(self) -> tuple[Link, ...]:
        """The links, base excluded, as given."""
        return self.description.links

    @property
    def inertias(self) -> Array:
        """The inertial parameters of the links, (links, 10): mass, first moments m c, and moments
        of inertia xx, yy, zz, xy, xz, yz about the origin of the link's frame, in its axes.

        >>> import nlink
        >>> nlink.load("planar3").inertias.shape
        (3, 10)
        """
        return link_inertias(self.description)

    @property
    def gravity(self) -> Array:
        """The gravity vector in the base frame."""
        return np.array(self.description.gravity)

    @property
    def report(self) -> list[str]:
        """Elements that the file's reader ignored, merged or repaired; empty if none."""
        return list(self.description.report)

    @lazy
    def loops(self) -> Loops:
        """The loops of a mechanism that has any: errors, forces, assembly, statics."""
        from nlink.loops.loops import Loops

        return Loops(self)

    def with_loops(self, loops: Sequence[Mapping[str, Any]], home: Sequence[float] = ()) -> Robot:
        """The same mechanism with loops that hold frames of it together: mappings with the keys
        of a [[loop]] in a file, name, joint, `of` and `on`.

        >>> import nlink
        >>> bar = nlink.load("planar3").with_loops([dict(name="wall", joint="spherical",
        ...     of=dict(link="link3"), on=dict(link="base", xyz=(2.0, 1.0, 0.0)))])
        >>> bar.loops.mobility(bar.loops.assemble([0.1, 0.5, 0.5])).freedom
        1
        """
        names = [self.description.base, *(link.name for link in self.links)]
        d = self.description
        return Robot(replace(d, loops=(*d.loops, *read_loops(list(loops), names)),
                             home=tuple(home) or d.home))

    def with_gears(self, gears: Sequence[Gear | Mapping[str, Any]], home: Sequence[float] = (),
                   ) -> Robot:
        """The same mechanism with gears, racks or differentials between its joints: `nlink.Gear`,
        or mappings with the keys of a [[gear]] in a file, name, ratios and offset.

        >>> import nlink
        >>> arm = nlink.load("planar3").with_gears([nlink.Gear("belt", {"joint1": 1, "joint2": 2})])
        >>> arm.loops.mobility().freedom
        2
        """
        d = self.description
        return Robot(replace(d, gears=(*d.gears, *read_gears(gears)), home=tuple(home) or d.home))

    @lazy
    def geared(self) -> Robot:
        """The robot whose mimic joints follow: a gear in place of each mimic. Itself if it has
        none; coordinates, rates and forces stay those of all joints.

        >>> import nlink
        >>> nlink.load("planar3").geared.description.gears
        ()
        """
        if not any(joint.mimic for joint in self.joints):
            return self
        return Robot(geared(self.description))

    def lock(self, joints: Mapping[str, Any] | Sequence[str], q: ArrayLike | None = None) -> Robot:
        locked = super().lock(joints, q)
        if not locked.description.closed or locked.loops.closed(locked.neutral):
            return locked
        try:
            home = locked.loops.assemble(locked.neutral).tolist()
        except ValueError as error:
            raise ValueError(f"lock: the loops that are left do not close: {error}") from None
        return Robot(edited(locked.description, home=tuple(home)))

    lock.__doc__ = Editable.lock.__doc__

    @lazy
    def tree(self) -> Robot:
        """The mechanism without its loops and gears; itself if it has none."""
        if not self.description.closed:
            return self
        return Robot(replace(self.description, loops=(), gears=()))

    def random_state(self, rng: np.random.Generator | int | None = None,
                     shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
        """Random q and qd: q within the joint limits (or a turn, or a metre), any
        orientation for quaternions, qd normal. With loops, closed states around home.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> q, qd = robot.random_state(0, shape=(100,))
        >>> q.shape, qd.shape
        ((100, 2), (100, 2))
        """
        rng = np.random.default_rng(rng)
        if self._mechanism.closed:
            return self.loops.random_state(rng, shape)
        q = np.empty((*shape, self.nq))
        for k, x in enumerate(x for joint in self.joints for x in joint.type.space.random(
                rng, shape, joint.limits.position)):
            q[..., k] = x
        return q, rng.normal(size=(*shape, self.n))

    def integrate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """The configuration that rates v lead to in a unit of time.

        For coordinates that are plain numbers it is q + v; quaternions stay unit.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.integrate([0.1, 0.2], [0.3, -0.1]).round(12)
        array([0.4, 0.1])
        """
        space = self._mechanism.space
        return columnwise(space.integrate, q=(q, space.nq), v=(v, space.nv), width=space.nq)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """The rates v that lead from q0 to q1 in a unit of time: integrate(q0, v) is q1.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.difference([0.1, 0.2], [0.4, 0.1]).round(12)
        array([ 0.3, -0.1])
        """
        space = self._mechanism.space
        return columnwise(space.difference, q0=(q0, space.nq), q1=(q1, space.nq), width=space.nv)

    def save(self, path: str | Path, *, dh: Convention | None = None) -> list[str]:
        """Write the robot as .toml, .urdf or .xml (MJCF), atomically; returns what the format
        cannot express, a line for each kind. `dh` asks for a DH table in a .toml file.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/arm.urdf"
        >>> lost = robot.save(path)
        >>> nlink.load(path).n, len(lost)
        (2, 4)
        """
        from nlink.formats.convert import write_description

        return write_description(self.description, path, dh)

    def to_toml(self, path: str | Path | None = None) -> str:
        """The robot as TOML text that reads back to an equal one; written to `path` if given.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.to_toml().splitlines()[0]
        'name = "double_pendulum"'
        """
        text = to_toml(self.description)
        if path is not None:
            write_text(path, text)
        return text

    def png(self, path: str | Path | None = None, q: ArrayLike | None = None, *,
            width: int = 960, height: int = 720, theme: str = "light",
            layers: Sequence[str] = (), packages: Sequence[str | Path] = ()) -> Picture:
        """A picture of the robot at q (`neutral` if not given) as a PNG file, written to `path` if
        given; no display is needed. Meshes that cannot be drawn are named on standard error.

        `theme` is "light" or "dark", `layers` may contain "axes", "frames", "masses",
        "inertias" and "contacts", and `packages` are directories where package:// names of meshes
        are searched, besides those above the robot's file.

        >>> import nlink
        >>> nlink.load("planar3").png(width=40, height=30)[:4]
        b'\\x89PNG'
        """
        from nlink.viewer.pictures import robot_png

        return Picture(robot_png(self, path, q, width=width, height=height, theme=theme,
                                 layers=layers, packages=packages))

    def view(self, q: ArrayLike | None = None, *, host: str = "localhost",
             port: int | None = None, dark: bool = False,
             packages: Sequence[str | Path] = ()) -> RobotView:
        """The robot in the browser, at `.url` until `.close()`: sliders for its joints, frames,
        axes, mass centres and inertias on request, the numbers of a link that is selected.

        `.show(q)` moves it, `.follow()` shows a simulation while it runs. Only this machine can
        open the page unless `host` says otherwise. Needs viser: pip install nlink[viewer].

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> shown = robot.view()                  # doctest: +SKIP
        >>> shown.url                             # doctest: +SKIP
        """
        from nlink.viewer.server import RobotView

        return RobotView(self, q=q, host=host, port=port, dark=dark, packages=packages)

    def ik(self, target: ArrayLike, frame: int | str = -1, q0: ArrayLike | None = None,
           *, tasks: Sequence[Task] | Task = (), posture: ArrayLike | None = None,
           tolerance: float = 1e-6, angle_tolerance: float | None = None, limits: bool = True,
           starts: int = 100, threads: int | None = None) -> Reached:
        """Configurations that bring a frame to a pose or a point: `nlink.ik` of this robot, which
        describes the options.

        >>> import nlink
        >>> robot = nlink.load("planar3")
        >>> found = robot.ik([1.2, 1.0, 0.0])
        >>> bool(abs(robot.pose(found.q)[:3, 3] - [1.2, 1.0, 0.0]).max() < 1e-6)
        True
        """
        from nlink.kinematics.inverse_kinematics import ik

        return ik(self, target, frame, q0, tasks=tasks, posture=posture, tolerance=tolerance,
                  angle_tolerance=angle_tolerance, limits=limits, starts=starts, threads=threads)

    def velocity_ik(self, q: ArrayLike, twist: ArrayLike, frame: int | str = -1,
                    *, damping: float = 1e-3, posture: ArrayLike | None = None,
                    gain: float = 1.0, limits: bool = True, dt: float | None = None,
                    out: Any = None) -> Array:
        """Rates (..., n) that move a frame by a twist, within limits: see
        `nlink.kinematics.differential.velocity_ik`, which describes the options.

        >>> import nlink
        >>> robot = nlink.load("puma560")
        >>> q, twist = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.0, 0.0, 0.1, 0.0, 0.05, 0.0]
        >>> rates = robot.velocity_ik(q, twist)
        >>> (robot.jacobian(q) @ rates).round(6) + 0.0
        array([0.  , 0.  , 0.1 , 0.  , 0.05, 0.  ])
        """
        from nlink.kinematics.differential import velocity_ik

        return velocity_ik(self, q, twist, frame, damping=damping, posture=posture, gain=gain,
                           limits=limits, dt=dt, out=out)

    def operators(self, q: ArrayLike, qd: ArrayLike | None = None,
                  ) -> Operators | SpatialOperators:
        """The objects of the DeNOC papers in one state: Nl, Nd, M, I, U, D, B(i, j), p(i), ...,
        and the spatial operators: phi, psi, H, P, G, K, ..., all of them in `.spatial`.

        `qd` is zero if not given. Bodies are the moving ones, together with the links that fixed
        joints attach to them. The DeNOC papers treat joints of one rate; for a robot with others
        only the spatial operators are given.

        >>> import nlink
        >>> o = nlink.load("planar3").operators([0.1, 0.2, 0.3])
        >>> o.N
        N: 18 x 3, 3 x 3 blocks of 6 x 1; Nl Nd
          # . .
          # # .
          # # #
        """
        from nlink.papers.operators import Operators, SpatialOperators

        rates = np.zeros(self.n) if qd is None else qd
        family = (Operators if all(joint.type.nv == 1 for joint in self._mechanism.joints)
                  else SpatialOperators)
        return family(self._mechanism, _state("q", q, self.nq),
                      _state("qd", rates, self.n), self.name)

    def diagonal(self, q: ArrayLike, qd: ArrayLike | None = None,
                 f_ext: ArrayLike | None = None) -> Diagonal:
        """The diagonalized equations of motion [Koz95] in one state: m with M = m m^T,
        nu = m^T qd and xi, their Coriolis terms, and the maps to and from qd and tau.

        `qd` is zero if not given; `f_ext` as in `forward_dynamics`. Joints of one rate only.

        >>> import nlink
        >>> d = nlink.load("planar3").diagonal([0.1, 0.2, 0.3], [1, -1, 2])
        >>> bool(np.isclose(d.nu @ d.nu, 2 * nlink.load("planar3").kinetic_energy(d.q, d.qd)))
        True
        """
        from nlink.papers.operators.quasi_velocities import Diagonal

        rates = np.zeros(self.n) if qd is None else qd
        wrenches = None if f_ext is None else _state("f_ext", f_ext, len(self.links), 6)
        return Diagonal(self._mechanism, _state("q", q, self.nq),
                        _state("qd", rates, self.n), wrenches, self.name)


as_methods_of("Robot", Computations, Editable, Mechanics, Regressors, WholeBody)


def expect_robot(robot: object) -> Robot:
    """Refuse anything but a robot, in one sentence."""
    if not isinstance(robot, Robot):
        raise TypeError(f"robot: {robot!r:.80}, expected a Robot, as nlink.load gives")
    return robot


def _state(name: str, given: ArrayLike, *shape: int) -> Array:
    """An array of one state, checked as the states of a batch are."""
    return single(name, batch(name, given, shape), shape, ": one state", finite=False)


def load(name_or_path: str | Path, *, physical: Physical = "warn",
         floating: bool = False, includes: bool = False) -> Robot:
    """A robot by its bundled name, or from a .toml, .urdf or .xml (MJCF) file.

    `physical` says what to do about inertias that no real body can have: "warn", "error" or
    "ignore". `floating` frees the base body: a URDF's root link, or the link that a fixed joint
    attaches to the base. `includes` allows an MJCF file to include others from its directory.

    >>> import nlink
    >>> nlink.load("puma560")
    <Robot puma560: 6 joints, 6 rates, fixed base>
    """
    return Robot(load_description(name_or_path, physical=physical, floating=floating,
                                  includes=includes))
