"""MJCF through MuJoCo's own compiler: nlink reads the compiled model, not the language.

MJCF's defaults, includes, geometry and inertia inference are MuJoCo's; what it compiled is a
tree of bodies with zero or more joints each. A body with several joints becomes a chain of
massless links, as MuJoCo composes them: x_parent = body R_1 R_2 ... with each joint's anchor
and axis in the body's frame.

The actuators of a compiled MuJoCo model that act on one joint and have no state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.files import LARGEST, read_text
from nlink.formats.mjcf_bounds import mjcf_root
from nlink.formats.mjcf_geoms import collisions, geoms, surroundings
from nlink.formats.safe_xml import Notes
from nlink.formats.urdf import parse_urdf
from nlink.model.actuators import Actuator
from nlink.model.constraints import Ball, Rigid
from nlink.model.description import (
    Description,
    Frame,
    Friction,
    Joint,
    Limits,
    Link,
    Loop,
    Physical,
)
from nlink.model.gears import Gear
from nlink.model.joints import Fixed, Free, JointType, Prismatic, Revolute, Spherical
from nlink.model.names import fresh
from nlink.model.pose import Mount, Pose
from nlink.model.quaternions import quaternion_matrix

_JOINT, _NO_DYNAMICS, _FIXED, _AFFINE, _NONE = 0, 0, 0, 1, 0
"""MuJoCo's numbers: transmission by a joint, no activation, a constant gain, an affine bias."""


def compiled_actuators(model: Any, joints: Mapping[int, str], notes: Notes) -> Iterator[Actuator]:
    """Those on joints with one coordinate, given by number and name; others are noted."""
    for k in range(int(model.nu)):
        name = model.actuator(k).name or f"actuator{k}"
        number = int(model.actuator_trnid[k][0])
        plain = (model.actuator_trntype[k] == _JOINT and number in joints
                 and model.actuator_dyntype[k] == _NO_DYNAMICS
                 and model.actuator_gaintype[k] == _FIXED
                 and model.actuator_biastype[k] in (_NONE, _AFFINE))
        if not plain:
            notes.add("actuator ignored", name)
            continue
        affine = model.actuator_biastype[k] == _AFFINE
        b0, b1, b2 = model.actuator_biasprm[k][:3].tolist() if affine else (0.0, 0.0, 0.0)
        yield Actuator(
            name, joints[number], float(model.actuator_gainprm[k][0]), (b0, b1, b2),
            float(model.actuator_gear[k][0]),
            _range(model.actuator_ctrllimited[k], model.actuator_ctrlrange[k]),
            _range(model.actuator_forcelimited[k], model.actuator_forcerange[k]))


def _range(limited: Any, bounds: Any) -> tuple[float, float]:
    low, high = bounds.tolist()
    return (low, high) if limited else (-math.inf, math.inf)


_IGNORED = (
    ("tendon", "ntendon", "tendon"),
    ("sensor", "nsensor", "sensor"), ("contact pair", "npair", "pair"),
    ("contact exclusion", "nexclude", "exclude"), ("flexible body", "nflex", ""),
    ("camera", "ncam", "cam"), ("light", "nlight", "light"), ("keyframe", "nkey", "key"),
)
"""What is not read: a word for it, its number and its accessor in a model."""


def read_mjcf(path: str | Path, *, physical: Physical = "warn", includes: bool = False,
              ) -> Description:
    """A description from an MJCF file, or from a URDF file that ends in .xml."""
    return parse_mjcf(read_text(path), origin=str(path), physical=physical, includes=includes)


def parse_mjcf(text: str, *, origin: str = "<mjcf>", physical: Physical = "warn",
               includes: bool = False) -> Description:
    """A description from MJCF text; the files it names are looked for beside `origin`."""
    notes = Notes(strict=physical == "error")
    root, files = mjcf_root(text, origin, notes, includes=includes)
    if root.tag == "robot":
        return parse_urdf(text, origin=origin, physical=physical)
    if root.tag != "mujoco":
        raise ValueError(f"{origin}: root element <{root.tag}>, expected <mujoco> (MJCF) "
                         "or <robot> (URDF)")
    models = _mujoco().MjModel
    try:
        model = models.from_xml_path(origin) if files else models.from_xml_string(text)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ValueError(f"{origin}: MuJoCo refuses it: {' '.join(str(error).split())}") from None
    try:
        return from_mujoco(model, name=root.get("model") or Path(origin).stem, physical=physical,
                           notes=notes)
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from None


def _mujoco() -> Any:
    try:
        return import_module("mujoco")
    except ImportError:
        raise ImportError("MJCF files need MuJoCo: pip install nlink[mjcf]") from None


def from_mujoco(model: Any, *, name: str = "robot", physical: Physical = "warn",
                notes: Notes | None = None) -> Description:
    """A description of a compiled `mujoco.MjModel`; the report begins with `notes`."""
    notes = Notes() if notes is None else notes
    _check_numbers(model)
    names = _Names(model, notes)
    links: list[Link] = []
    joints: list[Joint] = []
    numbers = [0]  # of the link that is body k
    for body in range(1, model.nbody):
        start, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        chain = list(_chain(model, body, range(start, start + count), notes))
        parent = numbers[model.body_parentid[body]]
        for k, (number, type, mount) in enumerate(chain):
            last = k == len(chain) - 1
            joints.append(_joint(model, number, type, mount, parent,
                                 names.joint(number, body)))
            links.append(_link(model, body, names.body(body)) if last
                         else Link(names.between(body, number)))
            parent = len(links)
        numbers.append(parent)
    owners = ["", *(links[number - 1].name for number in numbers[1:])]
    visuals = tuple(geoms(model, owners, _pose, notes))
    around = surroundings(model, _pose, notes)
    touching = tuple(collisions(model, owners, _pose, notes))
    _note(model, notes)
    ends = {f"{model.eq(k).name}.{end}" for k in range(model.neq) for end in ("of", "on")}
    frames = tuple(
        Frame(names.site(site), numbers[model.site_bodyid[site]],
              _pose(model.site_pos[site], model.site_quat[site]))
        for site in range(model.nsite) if model.site(site).name and (
            model.site(site).name not in ends))  # `to_mjcf` makes sites of the ends of loops
    nameless = [site for site in range(model.nsite) if not model.site(site).name]
    if nameless:
        notes.add("site without a name ignored", f"{len(nameless)}")
    single = {number: name for number, name in names.taken.items()
              if model.jnt_type[number] in (2, 3)}
    held = list(_equalities(model, numbers, single, notes))
    actuators = tuple(compiled_actuators(model, single, notes))
    x, y, z = _gravity(model).tolist()
    return Description(name, tuple(links), tuple(joints), frames, (x, y, z),
                       report=notes.lines(), physical=physical, visuals=visuals,
                       loops=tuple(each for each in held if isinstance(each, Loop)),
                       gears=tuple(each for each in held if isinstance(each, Gear)),
                       actuators=actuators, collisions=touching, surroundings=around)


class _Names:
    """Names that are unique here: bodies, then what has none or shares one."""

    def __init__(self, model: Any, notes: Notes) -> None:
        self.model, self.notes = model, notes
        self.frames: set[str] = set()
        self.joints: set[str] = set()
        self.taken: dict[int, str] = {}
        """The names of MuJoCo's joints, by number."""

    def _take(self, wanted: str, used: set[str]) -> str:
        name = fresh(wanted, used)
        used.add(name)
        return name

    def body(self, number: int) -> str:
        return self._take(self.model.body(number).name or f"body{number}", self.frames)

    def between(self, body: int, joint: int | None) -> str:
        owner = self.model.body(body).name or f"body{body}"
        return self._take(f"{owner}:{self.model.joint(joint).name or joint}", self.frames)

    def site(self, number: int) -> str:
        wanted = self.model.site(number).name
        name = self._take(wanted, self.frames)
        if name != wanted:
            self.notes.add("site renamed, since a body has its name", f"{wanted} is {name}")
        return name

    def joint(self, number: int | None, body: int) -> str:
        if number is None:
            return self._take(f"{self.model.body(body).name or f'body{body}'}_fixed", self.joints)
        name = self._take(self.model.joint(number).name or f"joint{number}", self.joints)
        self.taken[number] = name
        return name


def _chain(model: Any, body: int, joints: range, notes: Notes,
           ) -> Iterator[tuple[int | None, JointType, Mount]]:
    """The joints of a body, from its parent outward; a fixed one if it has none."""
    at = _pose(model.body_pos[body], model.body_quat[body])
    if not joints:
        yield None, Fixed(), Mount(at)
    for number in joints:
        kind = int(model.jnt_type[number])
        anchor = model.jnt_pos[number]
        rest = float(model.qpos0[model.jnt_qposadr[number]])
        there, back = Pose.shift(*anchor.tolist()), Pose.shift(*(-anchor).tolist())
        if kind == 0:  # its coordinates are the body's place in the world
            yield number, Free(), Mount()
        elif kind == 1:
            yield number, Spherical(), Mount(at @ there, back)
        else:
            axis = tuple(model.jnt_axis[number].tolist())
            turn = Pose() if rest == 0 else _displacement(kind, model.jnt_axis[number], -rest)
            if rest:
                notes.add("joint reference taken into the placement",
                          model.joint(number).name or f"joint{number}")
            yield number, (Prismatic if kind == 2 else Revolute)(axis), Mount(
                at @ there @ turn, back)
        at = Pose()


def _equalities(model: Any, numbers: list[int], single: dict[int, str], notes: Notes,
                ) -> Iterator[Loop | Gear]:
    """Equality constraints `connect` (a ball) and `weld` between bodies and linear ones between
    joints, exact here where MuJoCo has them soft; the place of the second body is given in the
    first's."""
    kinds, objects = _mujoco().mjtEq, _mujoco().mjtObj
    used: set[str] = set()
    for k in range(model.neq):
        kind, data = int(model.eq_type[k]), model.eq_data[k]
        name = fresh(model.eq(k).name or f"loop{k + 1}", used)
        used.add(name)
        if not model.eq_active0[k]:
            notes.add("equality that is not active ignored", name)
            continue
        if kind == kinds.mjEQ_JOINT and not data[2:5].any():
            notes.add("soft equality taken as exact", name)
            yield _gear(model, name, k, single)
            continue
        if kind not in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
            notes.add("equality of tendons, or not linear in joints, ignored", name)
            continue
        weld = kind == kinds.mjEQ_WELD
        one, two = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
        if int(model.eq_objtype[k]) == objects.mjOBJ_SITE:
            first, second = (_pose(model.site_pos[site], model.site_quat[site])
                             for site in (one, two))
            one, two = (int(model.site_bodyid[site]) for site in (one, two))
        elif weld:
            first = _pose(data[3:6], data[6:10])
            second = Pose.shift(*data[:3].tolist())
        else:
            first, second = (Pose.shift(*data[i:i + 3].tolist()) for i in (0, 3))
        notes.add("soft equality taken as exact", name)
        yield Loop(name, Rigid() if weld else Ball(),
                   Frame(f"{name}.of", numbers[two], second),
                   Frame(f"{name}.on", numbers[one], first))


def _gear(model: Any, name: str, k: int, single: dict[int, str]) -> Gear:
    """An equality of joints: q1 - ref1 = c0 + c1 (q2 - ref2)."""
    c0, c1 = (float(x) for x in model.eq_data[k, :2])
    one, two = (int(ids[k]) for ids in (model.eq_obj1id, model.eq_obj2id))
    ratios, offset = {single[one]: 1.0}, c0 + float(model.qpos0[model.jnt_qposadr[one]])
    if two >= 0 and c1:
        ratios[single[two]] = -c1
        offset -= c1 * float(model.qpos0[model.jnt_qposadr[two]])
    return Gear(name, ratios, offset)


def _displacement(kind: int, axis: np.ndarray, by: float) -> Pose:
    """The displacement of a slide or hinge at a coordinate."""
    if kind == 2:
        return Pose.shift(*(axis * by).tolist())
    half = by / 2
    return _pose(np.zeros(3), np.array([np.cos(half), *(np.sin(half) * axis)]))


def _joint(model: Any, number: int | None, type: JointType, mount: Mount, parent: int,
           name: str) -> Joint:
    if number is None:
        return Joint(name, type, parent, mount)
    dof = model.jnt_dofadr[number]
    low, high = model.jnt_range[number].tolist()
    limited = bool(model.jnt_limited[number]) and isinstance(type, Revolute | Prismatic)
    return Joint(
        name, type, parent, mount,
        Friction(float(model.dof_damping[dof]), float(model.dof_frictionloss[dof])),
        0.0 if isinstance(type, Free) else float(model.dof_armature[dof]),
        Limits((low, high)) if limited else Limits())


def _link(model: Any, body: int, name: str) -> Link:
    """MuJoCo keeps principal moments about the mass centre in axes of their own."""
    inertial = _pose(model.body_ipos[body], model.body_iquat[body])
    tensor = inertial.R @ np.diag(model.body_inertia[body]) @ inertial.R.T
    tensor = (tensor + tensor.T) / 2
    return Link(name, float(model.body_mass[body]), inertial.origin,
                tuple(map(tuple, tensor.tolist())))  # type: ignore[arg-type]


def _pose(position: np.ndarray, quaternion: np.ndarray) -> Pose:
    R = np.array(quaternion_matrix(*quaternion.tolist()).rows)
    return Pose.of(R, position.tolist())


def _gravity(model: Any) -> np.ndarray:
    off = model.opt.disableflags & _mujoco().mjtDisableBit.mjDSBL_GRAVITY
    return np.zeros(3) if off else model.opt.gravity


def _note(model: Any, notes: Notes) -> None:
    """The parts of the compiled model that a tree of rigid bodies cannot express."""
    for kind, size, accessor in _IGNORED:
        for number in range(int(getattr(model, size))):
            named = getattr(model, accessor)(number).name if accessor else ""
            notes.add(f"{kind} ignored", named or f"number {number}")
    for number in range(model.njnt):
        name = model.joint(number).name or f"joint{number}"
        if np.any(model.jnt_stiffness[number]):
            notes.add("joint stiffness ignored", name)
        if np.any(_more(model, "dof_dampingpoly")[model.jnt_dofadr[number]]):
            notes.add("damping beyond the linear ignored", name)
        if model.jnt_type[number] == 0 and model.dof_armature[model.jnt_dofadr[number]]:
            notes.add("armature of a free joint ignored", name)
        if model.jnt_limited[number] and model.jnt_type[number] in (0, 1):
            notes.add("limit of a ball joint ignored", name)
    for number in range(1, model.nbody):
        if model.body_gravcomp[number]:
            notes.add("gravity compensation ignored", model.body(number).name or f"body{number}")
    for name in ("density", "viscosity"):
        if getattr(model.opt, name):
            notes.add("fluid ignored", name)


def _check_numbers(model: Any) -> None:
    """Refuse numbers that no mechanism has and whose squares overflow."""
    for owner, fields in (("body", ("body_mass", "body_inertia", "body_pos", "body_ipos")),
                          ("joint", ("jnt_pos",)), ("site", ("site_pos",)),
                          ("", ("dof_armature", "dof_damping", "dof_frictionloss", "qpos0"))):
        for field in fields:
            values = getattr(model, field)
            unfit = np.argwhere(~(np.abs(values) <= LARGEST))
            if len(unfit):
                number, value = int(unfit[0][0]), values[tuple(unfit[0])]
                name = getattr(model, owner)(number).name if owner else ""
                raise ValueError(f"{field}[{number}]{f' ({name!r})' if name else ''} is "
                                 f"{value:g}, expected at most {LARGEST:g}")
    if not (np.abs(model.opt.gravity) <= LARGEST).all():
        raise ValueError(f"gravity {model.opt.gravity.tolist()}, expected at most {LARGEST:g}")


def _more(model: Any, name: str) -> np.ndarray:
    """A field that newer versions of MuJoCo have; zero where there is none."""
    return getattr(model, name, np.zeros((model.nv, 1)))
