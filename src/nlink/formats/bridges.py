"""The same mechanism in other libraries: for oracles, benchmarks and moving states across.

`exchange.Exchange` moves states, forces and mass matrices between their order and ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from nlink.model.description import Description, Joint, Link
from nlink.model.joints import Fixed, Prismatic, Revolute
from nlink.model.multi_rate import Free, Helical, Planar, Spherical, Universal
from nlink.model.pose import Pose


def to_pinocchio(description: Description) -> Any:
    """A `pinocchio.Model` with one joint for each moving joint, in the same order.

    Pinocchio's crba and computeMinverse assume that subtrees are numbered contiguously
    (depth first); its rnea and aba do not.
    """
    pin: Any = import_module("pinocchio")
    model = pin.Model()
    model.name = description.name
    model.gravity = pin.Motion(np.array(description.gravity), np.zeros(3))
    places: list[tuple[int, Pose]] = [(0, Pose())]
    armature = []
    for link, joint in zip(description.links, description.joints, strict=True):
        parent, place = places[joint.parent]
        seat = place @ joint.placement.before
        if isinstance(joint.type, Fixed):
            places.append((parent, seat @ joint.placement.after))
        else:
            number = model.addJoint(parent, _pinocchio_joint(joint, pin),
                                    pin.SE3(seat.R, seat.p), joint.name)
            armature += [joint.armature] * joint.type.nv
            places.append((number, joint.placement.after))
        number, pose = places[-1]
        model.appendBodyToJoint(
            number, pin.Inertia(link.mass, np.array(link.com), np.array(link.inertia)),
            pin.SE3(pose.R, pose.p))
        model.addFrame(pin.Frame(link.name, number, 0, pin.SE3(pose.R, pose.p),
                                 pin.FrameType.BODY))
    model.armature = np.array(armature)
    return model


def _pinocchio_joint(joint: Joint, pin: Any) -> Any:
    kind, axis = joint.type, np.array(joint.type.axis or (0.0, 0.0, 1.0))
    aligned = next((letter for k, letter in enumerate("XYZ") if (axis == np.eye(3)[k]).all()), "")
    if isinstance(kind, Revolute | Prismatic):
        name = "Revolute" if isinstance(kind, Revolute) else "Prismatic"
        if aligned:
            return getattr(pin, f"JointModel{name[0]}{aligned}")()
        return getattr(pin, f"JointModel{name}Unaligned")(axis)
    if isinstance(kind, Helical):
        return pin.JointModelHelicalUnaligned(axis, kind.pitch)
    if isinstance(kind, Spherical):
        return pin.JointModelSpherical()
    if isinstance(kind, Free):
        return pin.JointModelFreeFlyer()
    chains = {Universal: (pin.JointModelRZ, pin.JointModelRX),
              Planar: (pin.JointModelPX, pin.JointModelPY, pin.JointModelRZ)}
    if type(kind) not in chains:
        raise ValueError(f"joint {joint.name!r}: a {kind.name} joint has no twin in Pinocchio")
    composite = pin.JointModelComposite()
    for part in chains[type(kind)]:
        composite.addJoint(part())
    return composite


@dataclass(frozen=True, slots=True)
class Order:
    """Where another library keeps our coordinates and rates: its q is q[coordinates], its v is
    qd[rates], and its M is M[rates][:, rates]; the inverse is np.argsort of these."""

    coordinates: np.ndarray
    rates: np.ndarray


def _order(description: Description, blocks: dict[type, tuple[Sequence[int], Sequence[int]]],
           ) -> Order:
    coordinates: list[int] = []
    rates: list[int] = []
    for joint in description.joints:
        nq, nv = joint.type.nq, joint.type.nv
        q, v = blocks.get(type(joint.type), (range(nq), range(nv)))
        at_q, at_v = len(coordinates), len(rates)
        coordinates += [at_q + k for k in q]
        rates += [at_v + k for k in v]
    return Order(np.array(coordinates, dtype=int), np.array(rates, dtype=int))


def pinocchio_order(description: Description) -> Order:
    """Pinocchio puts a quaternion's scalar last and a free joint's linear rates first."""
    return _order(description, {Spherical: ((1, 2, 3, 0), (0, 1, 2)),
                                Free: ((0, 1, 2, 4, 5, 6, 3), (3, 4, 5, 0, 1, 2))})


def mujoco_order(description: Description) -> Order:
    """MuJoCo numbers bodies depth first and puts a free joint's linear rates first.

    Those are in world axes, which no order says: see `exchange.Exchange`.
    """
    order = _order(description, {Free: (range(7), (3, 4, 5, 0, 1, 2))})
    at_q = np.cumsum([0, *(joint.type.nq for joint in description.joints)])
    at_v = np.cumsum([0, *(joint.type.nv for joint in description.joints)])
    children, waiting = _children(description), [0]
    numbers: list[int] = []
    while waiting:
        number = waiting.pop()
        numbers.append(number)
        waiting += children.get(number, [])[::-1]

    def gather(blocks: np.ndarray, at: np.ndarray) -> np.ndarray:
        parts = [blocks[at[n - 1]:at[n]] for n in numbers[1:]]
        return np.concatenate([np.empty(0, dtype=int), *parts])

    return Order(gather(order.coordinates, at_q), gather(order.rates, at_v))


def _children(description: Description) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for number, joint in enumerate(description.joints, 1):
        children.setdefault(joint.parent, []).append(number)
    return children


def to_mjcf(description: Description) -> str:
    """MJCF text of the mechanism: bodies, joints, inertias and frames (as sites), contacts off.

    MuJoCo asks for positive definite inertias; `balanceinertia` stays off, so what it accepts
    it takes as given. Bodies nest, so chains beyond some hundred links need another format.
    """
    children = _children(description)
    gravity = _numbers(description.gravity)
    bodies = "".join(_body(description, children, n) for n in children.get(0, []))
    return (
        f"<mujoco model={quoteattr(description.name)}>"
        '<compiler angle="radian" inertiafromgeom="false" boundmass="0" boundinertia="0"/>'
        f'<option gravity="{gravity}" integrator="RK4" timestep="0.001">'
        '<flag contact="disable" constraint="disable"/></option>'
        f"<worldbody>{_sites(description, 0)}{bodies}</worldbody></mujoco>")


def _body(description: Description, children: dict[int, list[int]], number: int) -> str:
    """A body whose frame is the link's own; the joint sits where the author's joint is.

    A quaternion of MuJoCo's turns the body's own axes, so the body of a ball or free joint has
    the joint's frame, and a link whose frame is elsewhere is a body fixed in it.
    """
    link, joint = description.links[number - 1], description.joints[number - 1]
    before, after = joint.placement.before, joint.placement.after
    inner = "".join((_inertial(link), _sites(description, number),
                     *(_body(description, children, n) for n in children.get(number, []))))
    if isinstance(joint.type, Spherical | Free) and after != Pose():
        inner = f"<body name={quoteattr(link.name)} {_pose(after)}>{inner}</body>"
        return f"<body {_pose(before)}>{_mjcf_joints(joint, Pose())}{inner}</body>"
    return (f"<body name={quoteattr(link.name)} {_pose(before @ after)}>"
            f"{_mjcf_joints(joint, after.inverse())}{inner}</body>")


def _mjcf_joints(joint: Joint, frame: Pose) -> str:
    """The joint's elements, `frame` being its frame in the body's."""
    kind = joint.type
    x, y, z = np.eye(3)
    if isinstance(kind, Free):
        if joint.parent or joint.placement.before != Pose():
            raise ValueError(f"joint {joint.name!r}: MuJoCo's free joint is that of a body of the "
                             "world, placed at its origin")
        parts = [("free", None, "")]
    elif isinstance(kind, Revolute | Prismatic):
        hinge = "hinge" if isinstance(kind, Revolute) else "slide"
        parts = [(hinge, np.array(kind.axis), "")]
    elif isinstance(kind, Spherical):
        parts = [("ball", None, "")]
    elif isinstance(kind, Universal):
        parts = [("hinge", z, "_z"), ("hinge", x, "_x")]
    elif isinstance(kind, Planar):
        parts = [("slide", x, "_x"), ("slide", y, "_y"), ("hinge", z, "_z")]
    elif isinstance(kind, Fixed):
        parts = []
    else:
        raise ValueError(f"joint {joint.name!r}: a {kind.name} joint has no twin in MuJoCo")
    low, high = joint.limits.position
    limits = (f'range="{low!r} {high!r}" ' if math.isfinite(low) and math.isfinite(high)
              and low < high and isinstance(kind, Revolute | Prismatic) else "")
    where = "" if isinstance(kind, Free) else f'pos="{_numbers(frame.p)}" '
    return "".join(
        f'<joint name={quoteattr(joint.name + suffix)} type="{type}" {where}'
        + (f'axis="{_numbers(frame.R @ axis)}" ' if axis is not None else "")
        + limits
        + f'armature="{joint.armature!r}" damping="{joint.friction.viscous!r}" '
        f'frictionloss="{joint.friction.coulomb!r}"/>'
        for type, axis, suffix in parts)


def _sites(description: Description, number: int) -> str:
    return "".join(f"<site name={quoteattr(frame.name)} {_pose(frame.pose)}/>"
                   for frame in description.frames if frame.link == number)


def _inertial(link: Link) -> str:
    """MuJoCo wants a mass: a body without one has no inertial element."""
    if not link.mass:
        return ""
    I = link.inertia
    moments, products = (I[0][0], I[1][1], I[2][2]), (I[0][1], I[0][2], I[1][2])
    inertia = (f'fullinertia="{_numbers((*moments, *products))}"' if any(products)
               else f'diaginertia="{_numbers(moments)}"')  # which may be zero
    return f'<inertial pos="{_numbers(link.com)}" mass="{link.mass!r}" {inertia}/>'


def _pose(pose: Pose) -> str:
    x, y = pose.R[:, 0], pose.R[:, 1]
    return f'pos="{_numbers(pose.origin)}" xyaxes="{_numbers((*x, *y))}"'


def _numbers(values: Any) -> str:
    return " ".join(repr(float(v)) for v in values)
