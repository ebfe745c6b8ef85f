"""Parameters as a robot, and a robot's sizes as what parameters may plausibly be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nlink.identification.consistent import parameters_of, pseudo_inertia, tensor_of
from nlink.identification.fit_columns import FitColumns, FitRows
from nlink.model.coordinates import frame_place
from nlink.model.description import Description, Friction, Link
from nlink.robot import Robot

Array = np.ndarray


def bodies_of(robot: Robot) -> tuple[int, ...]:
    """For each moving body the number in `links` of the link that its joint carries."""
    carried: dict[int, int] = {}
    for number, link in enumerate(robot.mechanism.links[1:]):
        if link.body:
            carried.setdefault(link.body, number)
    return tuple(carried[body] for body in sorted(carried))


def with_parameters(robot: Robot, columns: FitColumns, pi: Array, rows: Sequence[FitRows] = (),
                    ) -> tuple[Robot, list[str]]:
    """The robot with all parameters changed, and what a robot has no words for.

    The link that a joint carries has all of the body; links fixed to it become massless.
    """
    names = dict(zip(columns.names, pi.tolist(), strict=True))
    shares, apart = _shares_of_joints(robot, columns, pi, rows)
    names |= {name: names.get(name, 0.0) + share for name, share in shares.items()}
    links = list(robot.description.links)
    said: list[str] = []
    carried = bodies_of(robot)
    for body, number in enumerate(carried):
        links[number] = _link(links[number], pi[10 * body:10 * body + 10])
    for number, link in enumerate(robot.mechanism.links[1:]):
        if link.body and number not in carried and links[number].mass:
            said.append(f"the mass of link {links[number].name!r} is now part of link "
                        f"{links[carried[link.body - 1]].name!r}, to which it is fixed")
            links[number] = Link(links[number].name)
    joints, k = list(robot.description.joints), 0
    for number, joint in enumerate(joints):
        if not joint.type.nv:
            continue
        own = robot.qd_names[k:k + joint.type.nv]
        k += joint.type.nv
        if len(own) == 1:
            joints[number] = _joint(joint, own[0], names, columns)
    said += apart
    twofold = [each.name for each in columns.extras
               if each.kind.endswith("_difference") and names[each.name]]
    if twofold:
        said.append("friction that differs between directions is in predict and not in the robot")
    description = replace(robot.description, links=tuple(links), joints=tuple(joints),
                          physical="ignore")
    return Robot(replace(description, physical="warn") if not description.objection
                 else description), said


def _shares_of_joints(robot: Robot, columns: FitColumns, pi: Array, rows: Sequence[FitRows],
                      ) -> tuple[dict[str, float], list[str]]:
    """Numbers of joints that come nearest to motors that turn with several, and what they miss.

    An inertia J along a of A adds J a a^T to the mass matrix: joints get its diagonal. Friction
    along a is shared by least squares on the rows of the logs.
    """
    shares: dict[str, float] = {}
    said: dict[str, list[str]] = {}
    places = {name: k for k, name in enumerate(columns.names)}
    for k, each in enumerate(columns.extras, columns.inertial):
        joints = np.flatnonzero(each.direction)
        if len(joints) < 2 or not pi[k]:
            continue
        own = [f"{robot.qd_names[j]}.{each.kind}" for j in joints]
        if each.kind == "armature":
            share = np.array([pi[k] * each.direction[j] ** 2 for j in joints])
        else:
            share = _nearest(rows, pi[k], k, [places[name] for name in own])
        for name, x in zip(own, share.tolist(), strict=True):
            shares[name] = shares.get(name, 0.0) + x
        turns = " ".join(_term(each.direction[j], robot.qd_names[j], j == joints[0])
                         for j in joints)
        said.setdefault(f"{each.name.split('.')[0]} turns with {turns}", []).append(
            f"{each.kind} {pi[k]:.3g}")
    return shares, [f"{motor}: a robot has no words for its {', '.join(numbers)}; predict has them "
                    "as they are, the robot's joints the nearest of their own"
                    for motor, numbers in said.items()]


def _term(factor: float, name: str, first: bool) -> str:
    """One term of a sum, such as "- 0.5 joint4"."""
    sign = ("-" if factor < 0 else "") if first else ("- " if factor < 0 else "+ ")
    return f"{sign}{name if abs(factor) == 1 else f'{abs(factor):.3g} {name}'}"


def _nearest(rows: Sequence[FitRows], value: float, column: int, others: Sequence[int]) -> Array:
    """Numbers >= 0 of other columns that come nearest to one column's torques."""
    A = np.concatenate([each.X[each.fit][:, others] for each in rows] or [np.zeros((0, 2))])
    y = np.concatenate([each.X[each.fit][:, column] for each in rows] or [np.zeros(0)]) * value
    found = np.linalg.lstsq(A, y, rcond=1e-9)[0] if len(A) else np.zeros(len(others))
    return np.maximum(found, 0.0) if value > 0 else found


def _link(link: Link, pi: Array) -> Link:
    m = max(float(pi[0]), 0.0)
    c = pi[1:4] / m if m else np.zeros(3)
    inertia = tensor_of(pi) - m * (c @ c * np.eye(3) - np.outer(c, c))
    x, y, z = c.tolist()
    return replace(link, mass=m, com=(x, y, z), inertia=tuple(map(tuple, inertia.tolist())))


def _joint(joint, name: str, numbers: Mapping[str, float], columns: FitColumns):
    """A joint with the friction and the armature found, negative numbers as 0."""
    old = joint.friction
    viscous, coulomb, excess = (max(numbers.get(f"{name}.{kind}", 0.0), 0.0)
                                for kind in ("viscous", "coulomb", "stribeck"))
    rate = old.stribeck
    for each, found in zip(columns.extras, columns.stribeck, strict=True):
        if each.name == f"{name}.stribeck" and np.isfinite(found):
            rate = float(found)
    breakaway = coulomb + excess if excess > 1e-9 and rate else 0.0
    armature = numbers.get(f"{name}.armature")
    motor = joint.motor
    if armature is not None and motor.reflected > armature:
        motor = replace(motor, inertia=0.0)
    dry = Friction(viscous, coulomb, breakaway, rate if breakaway else 0.0)
    return replace(joint, friction=dry, armature=joint.armature if armature is None else
                   max(armature - motor.reflected, 0.0), motor=motor)


@dataclass(frozen=True)
class CarriedBody:
    """A payload: mass, its centre and the inertia about it, in the axes of a link."""

    mass: float
    com: Array
    inertia: Array
    frame: str
    mass_interval: tuple[float, float]
    """95 %."""

    def on(self, robot: Robot) -> Robot:
        """A robot that carries it."""
        return robot.with_payload(self.mass, self.com, self.inertia, self.frame)


def in_link(pi: Array, T: Array) -> Array:
    """Ten parameters of a body in other axes: T (4, 4) leads from them to those it is given in,
    P' = T^-1 P T^-T."""
    back = np.linalg.inv(T)
    return parameters_of(back @ pseudo_inertia(pi) @ back.T)


def payload_place(robot: Robot, frame: int | str = -1) -> tuple[int, Array, str]:
    """The body that carries what is fixed in a frame, the frame's pose (4, 4) in the link that
    its joint carries, and its name."""
    description: Description = robot.description
    number, pose = frame_place(description, frame)
    body = robot.mechanism.links[number].body
    if not body:
        raise ValueError(f"frame: {frame!r} never moves, expected one of a link")
    carried = bodies_of(robot)[body - 1] + 1
    q = robot.neutral
    here = robot.pose(q, number) @ pose.matrix
    name = frame if isinstance(frame, str) else robot.frames[number]
    return body - 1, np.linalg.inv(robot.pose(q, carried)) @ here, name


def payload_parameters(payload: Mapping[str, object], T: Array) -> Array:
    """The ten parameters, in the carrying link's axes, of a payload given in a frame at T."""
    m, c = float(payload["mass"]), np.asarray(payload.get("com", (0, 0, 0)), dtype=float)  # type: ignore[arg-type]
    given = payload.get("inertia")
    I = np.zeros((3, 3)) if given is None else np.asarray(given, dtype=float)
    I = np.diag(I) if I.ndim == 1 else I
    P = np.zeros((4, 4))
    P[:3, :3] = np.trace(I) / 2 * np.eye(3) - I + m * np.outer(c, c)
    P[:3, 3] = P[3, :3] = m * c
    P[3, 3] = m
    return parameters_of(T @ P @ T.T)


def plausible_sizes(robot: Robot) -> Array:
    """What inertial parameters may be like: of each body m, m L / 2 and m L^2 / 4, with L the mean
    distance of joints."""
    masses = robot.parameters()[::10]
    mean = float(np.mean(masses[masses > 0])) if (masses > 0).any() else 1.0
    steps = [float(np.linalg.norm(joint.p.components)) for joint in robot.mechanism.joints]
    L = float(np.mean([x for x in steps if x > 1e-6] or [0.3]))
    m = np.maximum(masses, 0.1 * mean)
    return np.concatenate([x * np.array([1.0, *[L / 2] * 3, *[L * L / 4] * 6]) for x in m]) \
        if len(m) else np.zeros(0)
