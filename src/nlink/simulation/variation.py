"""The numbers that differ between the trajectories of an ensemble, besides initial states.

Payloads, friction, gains and the parameters of a controller may differ between trajectories. They
are inputs of the machine code, so one kernel serves the whole ensemble, and each lane of a vector
has its own mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.model.changes import CHANGES
from nlink.model.contacts import Contact, WorldFeature
from nlink.model.joints import Free, Spherical
from nlink.model.mechanism import Mechanism, MovingJoint
from nlink.programs.program import Port
from nlink.programs.tracing import run, trace_function
from nlink.scalars.arrays import batch
from nlink.scalars.functions import Scalar, Scalars
from nlink.simulation.wrappers import stacked, with_gains
from nlink.simulation.wrenches import wrench_numbers
from nlink.spatial import RigidInertia, Symmetric, Vector

if TYPE_CHECKING:
    from nlink.engines.engines import Request
    from nlink.model.description import Joint
    from nlink.robot import Robot

Array = np.ndarray
JOINTS = ("viscous", "coulomb", "armature")
"""Numbers of each rate of a joint."""
MOMENTS = 6
"""Numbers of a payload's inertia."""
PAYLOAD = ("payload", "com", "inertia")
MODEL = ("gravity", "inertia", "placement")
"""Parameters of the model as `parameter_derivatives` knows them. The inertias of links, and that of
a payload, which has six numbers, have one name."""
SURFACE = ("contact_friction", "ground")
"""Coulomb's coefficient of all contacts, and by how much the world is raised along z."""
GAINS = ("kp", "ki", "kd")
PARAMETERS = "p"
APPLIED = ("tau", "f_ext")
"""Joint forces and wrenches that never change."""
NAMES = ("payload", *JOINTS, *MODEL, *SURFACE, *GAINS, PARAMETERS, *APPLIED)


@dataclass(frozen=True)
class Payload:
    """A body held in a frame: masses (...,), mass centres (..., 3) in the frame and inertias
    (..., 3, 3) about them, a point mass at the frame's origin if not given.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> from nlink.simulation import Payload
    >>> runs = nlink.simulate(robot, t=0.2, vary={"payload": Payload([0.0, 1.0, 2.0])})
    >>> runs.q.shape[0]
    3
    """

    mass: ArrayLike
    com: ArrayLike | None = None
    inertia: ArrayLike | None = None
    frame: int | str = -1


@dataclass(frozen=True)
class Varied:
    """The kinds of numbers that vary, without values: they decide the program."""

    columns: tuple[tuple[str, int], ...] = ()
    """Names and widths, in the order of the values."""
    frame: int | str = -1
    """Where a payload is held."""
    links: tuple[int, ...] = ()
    """The links that wrenches act on."""

    def with_numbers(self, name: str, width: int) -> Varied:
        """The same with more numbers, behind all others."""
        return replace(self, columns=(*self.columns, (name, width)))

    def has(self, name: str) -> bool:
        """Whether numbers vary under this name."""
        return any(name == each for each, _ in self.columns)

    @property
    def width(self) -> int:
        return sum(width for _, width in self.columns)

    @property
    def mechanical(self) -> bool:
        """Whether the mechanism itself varies, not only its control."""
        return any(name in (*PAYLOAD, *JOINTS, *MODEL, *SURFACE) for name, _ in self.columns)

    def split(self, p: Scalars) -> dict[str, Sequence[Scalar]]:
        """The numbers of a trajectory by their names."""
        flat = iter(p)
        return {name: [next(flat) for _ in range(width)] for name, width in self.columns}

    def mechanism(self, robot: Robot, p: Scalars) -> Mechanism:
        """A robot's mechanism with the numbers p, on any scalars."""
        own, mechanism = self.split(p), robot.mechanism
        for name in MODEL:
            if name in own and (name != "inertia" or len(own[name]) > MOMENTS):
                mechanism = _changed(robot, mechanism, name, own[name])
        joints = list(mechanism.joints)
        for name in JOINTS:
            if name in own:
                joints = [replace(joint, **{name: x}) for joint, x in zip(
                    joints, mechanism.split(own[name], "nv"), strict=True)]
        if "coulomb" in own:
            joints = [_same_breakaway(joint, seen) for joint, seen in zip(
                joints, _moving(robot), strict=True)]
        if "payload" in own:
            at = robot.request("pose", frame=self.frame).frame
            moments = own.get("inertia", ())
            moments = moments if len(moments) == MOMENTS else (0,) * MOMENTS
            body = RigidInertia.from_com(
                own["payload"][0], Vector(*own.get("com", (0, 0, 0))).rotate(at.R) + at.p,
                Symmetric(*moments).rotate(at.R))
            carrier = joints[at.body - 1]
            joints[at.body - 1] = replace(carrier, inertia=carrier.inertia + body)
        return replace(mechanism, joints=tuple(joints), contacts=tuple(
            _on_surface(each, own) for each in mechanism.contacts))

    def controller(self, controller: Callable[..., Any], p: Scalars) -> Callable[..., Any]:
        """A controller with the numbers p: gains in place of its own, or its last argument."""
        own = self.split(p)
        gains = {name: tuple(own[name]) for name in GAINS if name in own}
        if gains:
            controller = with_gains(controller, gains)
        parameters = self.parameters(p)
        return _WithParameters(controller, *parameters) if parameters else controller

    def parameters(self, p: Scalars) -> tuple[Array, ...]:
        """The last argument of a user's functions, if there is one."""
        own = self.split(p)
        return (stacked(own[PARAMETERS]),) if PARAMETERS in own else ()


NOTHING = Varied()


def _changed(robot: Robot, mechanism: Mechanism, name: str, values: Scalars) -> Mechanism:
    """The mechanism with other parameters of its model."""
    change = CHANGES[name]
    now = change.values(robot.description, robot.mechanism).ravel().tolist()
    return change.apply(robot.description, mechanism, [
        x - old if old else x for x, old in zip(values, now, strict=True)])


def _moving(robot: Robot) -> list[Joint]:
    """The joints that the mechanism's are made of."""
    return [joint for joint in robot.joints if joint.type.nv]


def _same_breakaway(joint: MovingJoint, seen: Joint) -> MovingJoint:
    """A joint with other Coulomb friction that breaks away at the force it did before, as
    `Robot.with_friction(dry=...)` gives it."""
    if not seen.friction.breakaway:
        return joint
    falloff = seen.friction.stribeck ** -2 if seen.friction.stribeck else 0.0
    return replace(joint, falloff=(falloff,) * joint.type.nv, excess=tuple(
        seen.friction.breakaway - x for x in joint.coulomb))


def _expect_below_breakaway(robot: Robot, coulomb: Array) -> None:
    at, coulomb = 0, np.broadcast_to(coulomb, (*coulomb.shape[:-1], robot.n))
    for joint in _moving(robot):
        known, at = coulomb[..., at:at + joint.type.nv], at + joint.type.nv
        most = joint.friction.breakaway
        if most and (known > most).any():
            raise ValueError(f"vary: coulomb {known.max():g} for joint {joint.name!r}, expected at "
                             f"most its breakaway friction {most:g}")
        if most and not joint.friction.stribeck and (known < most).any():
            raise ValueError(f"vary: coulomb {known.min():g} for joint {joint.name!r} with the "
                             f"breakaway friction {most:g}, expected a stribeck rate at which "
                             "it falls")


def _on_surface(contact: Contact, own: Mapping[str, Sequence[Scalar]]) -> Contact:
    """A contact with the friction and the ground of a trajectory."""
    if "contact_friction" in own:
        contact = replace(contact, friction=own["contact_friction"][0])
    if "ground" in own and isinstance(contact.two, WorldFeature) and not contact.other:
        contact = replace(contact, two=contact.two.raised(own["ground"][0]))
    return contact


class _WithParameters:
    """A controller whose last argument is given, in all its functions."""

    def __init__(self, controller: Any, values: Array) -> None:
        self._controller, self._values = controller, values

    def __call__(self, *arguments: Any) -> Any:
        return self._controller(*arguments, self._values)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._controller, name)
        if name not in ("rates", "update", "advance"):
            return found
        return lambda *arguments: found(*arguments, self._values)


def with_coulomb(vary: Mapping[str, Any]) -> dict[str, Any]:
    """What varies, with dry friction (as `with_friction` calls it) under its name coulomb."""
    if "dry" in vary and "coulomb" in vary:
        raise ValueError("vary: dry and coulomb, expected one of them: they are the same")
    return {"coulomb" if name == "dry" else name: x for name, x in vary.items()}


@dataclass(frozen=True)
class Variation:
    """Numbers that vary, and their values for each trajectory: (..., width)."""

    varied: Varied
    values: Array

    @classmethod
    def of(cls, robot: Robot, controller: Any, vary: Mapping[str, Any] | None,
           functions: bool = False) -> Variation | None:
        """The argument `vary` of `simulate`, checked; `functions` other than the controller may
        have parameters, too."""
        if not vary:
            return None
        vary = with_coulomb(vary)
        unknown = [name for name in vary if name not in NAMES]
        if unknown:
            raise ValueError(f"vary: {unknown[0]!r}, expected some of {', '.join(NAMES)}")
        arrays: dict[str, Array] = {}
        frame: int | str = -1
        if "payload" in vary:
            given = vary["payload"]
            payload = given if isinstance(given, Payload) else Payload(given)
            frame = payload.frame
            arrays |= _payload(robot, payload)
        for name in (*JOINTS, *GAINS, PARAMETERS):
            if name in vary:
                arrays[name] = _rows(name, vary[name], _width(name, robot, controller,
                                                              functions=functions))
        for name in MODEL:
            if name in vary:
                if name in arrays:
                    raise ValueError("vary: 'inertia' beside the inertia of a payload, expected "
                                     "one of them")
                arrays[name] = _model(name, robot, vary[name])
        for name in SURFACE:
            if name in vary:
                if not robot.mechanism.contacts:
                    raise ValueError(f"vary: {name!r}, but {robot.name} has no contacts, expected "
                                     "a robot from robot.with_contacts(shapes, world)")
                arrays[name] = batch(f"vary: {name}", vary[name], ())[..., None]
        if "contact_friction" in arrays:
            _not_negative("contact_friction", arrays["contact_friction"])
        links: tuple[int, ...] = ()
        if "tau" in vary:
            if controller is not None:
                raise ValueError("vary: 'tau' beside joint forces in tau, expected one of them")
            arrays["tau"] = batch("vary: tau", vary["tau"], (robot.n,))
        if "f_ext" in vary:
            links, arrays["f_ext"] = wrench_numbers(robot, vary["f_ext"])
        if "coulomb" in arrays:
            _expect_below_breakaway(robot, arrays["coulomb"])
        if "armature" in arrays:
            _rotors(robot, arrays["armature"])
        try:
            lead = np.broadcast_shapes(*(x.shape[:-1] for x in arrays.values()))
        except ValueError:
            shapes = ", ".join(f"{name} {x.shape[:-1]}" for name, x in arrays.items())
            raise ValueError(f"vary: leading shapes do not broadcast: {shapes}") from None
        values = np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1]))
                                 for x in arrays.values()], axis=-1)
        columns = tuple((name, x.shape[-1]) for name, x in arrays.items())
        return cls(Varied(columns, frame, links), values)

    def spread(self, lead: tuple[int, ...]) -> Variation:
        """The same for every trajectory of an ensemble."""
        return replace(self, values=np.ascontiguousarray(
            np.broadcast_to(self.values, (*lead, self.values.shape[-1]))))

    def taken(self, trajectories: slice | Array) -> Variation:
        """What varies between some trajectories, given by places in the flattened ensemble."""
        return replace(self, values=self.values.reshape(-1, self.varied.width)[trajectories])

    def compute(self, robot: Robot, name: str, *arrays: Array) -> Array:
        """What `robot.compute` gives along trajectories, each with its own mechanism."""
        if not self.varied.mechanical:
            return robot.compute(name, *arrays)
        kernel = varied_kernel(robot, self.varied, robot.request(name))
        return kernel(*arrays, self.values[..., None, :])

    def head(self) -> dict[str, Any]:
        """All but the values, as JSON knows it."""
        links = {"links": list(self.varied.links)} if self.varied.links else {}
        return {"columns": [list(column) for column in self.varied.columns],
                "frame": self.varied.frame} | links

    @classmethod
    def from_head(cls, head: Mapping[str, Any], values: Array) -> Variation:
        columns = tuple((str(name), int(width)) for name, width in head["columns"])
        return cls(Varied(columns, head["frame"], tuple(head.get("links", ()))), values)


def varied_kernel(robot: Robot, varied: Varied, request: Request,
                  change: Callable[[Mechanism], Mechanism] = lambda mechanism: mechanism) -> Any:
    """What a request asks for, with one more input at the end: the numbers that vary; `change`
    is what is done to the mechanism with these."""
    from nlink.backends.llvm.loading import load_kernel

    def varied_text(*columns: Sequence[Scalar]) -> list[Scalar]:
        *values, own = columns
        mechanism = request.algorithm.prepare(change(varied.mechanism(robot, own)))
        return run(request.algorithm, mechanism, request.options, values)

    inputs, outputs = request.ports
    return load_kernel(trace_function(request.algorithm.name, (*inputs, Port(
        "own", (varied.width,))), outputs, varied_text))


def _payload(robot: Robot, payload: Payload) -> dict[str, Array]:
    at = robot.request("pose", frame=payload.frame).frame
    if at.body == 0:
        raise ValueError(f"vary: payload at frame {payload.frame!r}, expected one that moves")
    mass = batch("vary: payload", payload.mass, ())
    _not_negative("payload", mass)
    arrays = {"payload": mass[..., None]}
    if payload.com is not None:
        arrays["com"] = _rows("com", payload.com, 3)
    if payload.inertia is not None:
        J = batch("vary: inertia", payload.inertia, (3, 3))
        _inertias(J)
        arrays["inertia"] = np.stack([J[..., i, j] for i, j in (
            (0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))], axis=-1)
    return arrays


def _inertias(J: Array) -> None:
    """Refuse matrices that are no inertias; what is not finite fails later, and alone."""
    J = J[np.isfinite(J).all(axis=(-2, -1))]
    rounding = 1e-9 * np.abs(J).max(initial=0.0)
    if (np.abs(J - J.swapaxes(-2, -1)) > rounding).any():
        raise ValueError("vary: inertia not symmetric, expected symmetric matrices")
    least = np.linalg.eigvalsh(J).min(initial=0.0)
    if least < -rounding:
        raise ValueError(f"vary: inertia with the principal moment {least}, expected numbers >= 0")


def _rotors(robot: Robot, armature: Array) -> None:
    """Refuse what no rotor has where rates are in body axes: a ball's is the same about all of
    them, a free joint has none."""
    at = 0
    for joint in robot.joints:
        own = armature[..., at:at + joint.type.nv]
        at += joint.type.nv
        if isinstance(joint.type, Free) and (own != 0).any():
            raise ValueError(f"vary: armature of the free joint {joint.name!r}, expected 0 there")
        if isinstance(joint.type, Spherical) and (own != own[..., :1]).any():
            raise ValueError(f"vary: armature of the spherical joint {joint.name!r} differs from "
                             "axis to axis, expected one number three times")


def _model(name: str, robot: Robot, given: ArrayLike) -> Array:
    """Parameters of the model, (..., numbers): their last dimensions may be flat already."""
    shape = CHANGES[name].shape(robot.description, robot.mechanism)
    x, size = batch(f"vary: {name}", given, ()), math.prod(shape)
    if x.shape[-len(shape):] == shape or x.shape[-1:] != (size,):
        x = batch(f"vary: {name}", given, shape)
        x = x.reshape(*x.shape[:x.ndim - len(shape)], size)
    if name == "inertia":
        _not_negative("inertia: the mass", x[..., ::10])
    return x


def _width(name: str, robot: Robot, controller: Any, *, functions: bool) -> int | None:
    """The count of numbers that a trajectory has under a name; None if any."""
    if name in JOINTS:
        return robot.n
    if name == PARAMETERS and functions:
        return None
    if controller is None or not callable(controller):
        raise ValueError(f"vary: {name!r} needs a controller as tau")
    if name == PARAMETERS:
        return None
    own = getattr(controller, name, None)
    if not isinstance(own, tuple):
        raise ValueError(f"vary: {name!r}, but tau is a controller without this gain, expected one "
                         "of nlink.simulation's, or 'p' for a controller(t, q, qd, p)")
    return len(own)


def _rows(name: str, given: ArrayLike, width: int | None) -> Array:
    """(..., width) from an array whose last dimension may be one."""
    x = batch(f"vary: {name}", given, ())
    if x.ndim < 1 or (width is not None and x.shape[-1] not in (1, width)):
        expected = "k" if width is None else f"{width}) or (..., 1"
        raise ValueError(f"vary: {name}: shape {x.shape}, expected (..., {expected})")
    if name in JOINTS:
        _not_negative(name, x)
    return x if width is None else np.broadcast_to(x, (*x.shape[:-1], width))


def _not_negative(name: str, x: Array) -> None:
    if (x < 0).any():
        raise ValueError(f"vary: {name} {x.min()}, expected numbers >= 0, or nan")
