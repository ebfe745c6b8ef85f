"""The same mechanism in other libraries: for oracles, benchmarks and moving states across.

`exchange.Exchange` moves states, forces and mass matrices between their order and ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from nlink.model.description import Description, Joint
from nlink.model.joints import (
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from nlink.model.pose import Pose


def to_pinocchio(description: Description) -> Any:
    """A `pinocchio.Model` with one joint for each moving joint, in the same order.

    Pinocchio's crba and computeMinverse assume that subtrees are numbered contiguously
    (depth first); its rnea and aba do not. Loops are left out: Pinocchio has them beside the
    model.
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
            armature += [joint.rotor_inertia] * joint.type.nv
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
    """The places of our coordinates and rates in another library: its q is q[coordinates], its v is
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
    children, waiting = description.children, [0]
    numbers: list[int] = []
    while waiting:
        number = waiting.pop()
        numbers.append(number)
        waiting += children.get(number, [])[::-1]

    def gather(blocks: np.ndarray, at: np.ndarray) -> np.ndarray:
        parts = [blocks[at[n - 1]:at[n]] for n in numbers[1:]]
        return np.concatenate([np.empty(0, dtype=int), *parts])

    return Order(gather(order.coordinates, at_q), gather(order.rates, at_v))
