"""What differs between the trajectories of an ensemble besides their initial states.

Payloads, friction, gains and the parameters of a controller may differ between trajectories. They
are inputs of the machine code, so one kernel serves the whole ensemble, and each lane of a vector
has its own mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.model.joints import Free, Spherical
from nlink.model.mechanism import Mechanism
from nlink.programs.program import Port, Program
from nlink.programs.tracing import run
from nlink.scalars.arrays import batch
from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Graph
from nlink.simulation.wrappers import stacked, with_gains
from nlink.spatial import RigidInertia, Symmetric, Vector

if TYPE_CHECKING:
    from nlink.compute.engines import Request
    from nlink.robot import Robot

Array = np.ndarray
JOINTS = ("viscous", "coulomb", "armature")
"""Numbers of each rate of a joint."""
PAYLOAD = ("payload", "com", "inertia")
GAINS = ("kp", "ki", "kd")
PARAMETERS = "p"
NAMES = ("payload", *JOINTS, *GAINS, PARAMETERS)


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
    """Which numbers vary, without their values: this decides the program."""

    columns: tuple[tuple[str, int], ...] = ()
    """Names and widths, in the order of the values."""
    frame: int | str = -1
    """Where a payload is held."""

    @property
    def width(self) -> int:
        return sum(width for _, width in self.columns)

    @property
    def mechanical(self) -> bool:
        """Whether the mechanism itself varies, not only its control."""
        return any(name in (*PAYLOAD, *JOINTS) for name, _ in self.columns)

    def split(self, p: Sequence[Scalar]) -> dict[str, Sequence[Scalar]]:
        """The numbers of a trajectory by their names."""
        flat = iter(p)
        return {name: [next(flat) for _ in range(width)] for name, width in self.columns}

    def mechanism(self, robot: Robot, p: Sequence[Scalar]) -> Mechanism:
        """A robot's mechanism with the numbers p, on any scalars."""
        own, mechanism = self.split(p), robot.mechanism
        joints = list(mechanism.joints)
        for name in JOINTS:
            if name in own:
                joints = [replace(joint, **{name: x}) for joint, x in zip(
                    joints, mechanism.split(own[name], "nv"), strict=True)]
        if "payload" in own:
            at = robot.request("pose", frame=self.frame).frame
            body = RigidInertia.from_com(
                own["payload"][0], Vector(*own.get("com", (0, 0, 0))).rotate(at.R) + at.p,
                Symmetric(*own.get("inertia", (0,) * 6)).rotate(at.R))
            carrier = joints[at.body - 1]
            joints[at.body - 1] = replace(carrier, inertia=carrier.inertia + body)
        return replace(mechanism, joints=tuple(joints))

    def controller(self, controller: Callable[..., Any], p: Sequence[Scalar]) -> Callable[..., Any]:
        """A controller with the numbers p: gains in place of its own, or its last argument."""
        own = self.split(p)
        gains = {name: tuple(own[name]) for name in GAINS if name in own}
        if gains:
            controller = with_gains(controller, gains)
        if PARAMETERS not in own:
            return controller
        return _WithParameters(controller, stacked(own[PARAMETERS]))


NOTHING = Varied()


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


@dataclass(frozen=True)
class Variation:
    """Numbers that vary, and their values for each trajectory: (..., width)."""

    varied: Varied
    values: Array

    @classmethod
    def of(cls, robot: Robot, controller: Any, vary: Mapping[str, Any] | None) -> Variation | None:
        """The argument `vary` of `simulate`, checked."""
        if not vary:
            return None
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
                arrays[name] = _rows(name, vary[name], _width(name, robot, controller))
        if "armature" in arrays:
            _rotors(robot, arrays["armature"])
        try:
            lead = np.broadcast_shapes(*(x.shape[:-1] for x in arrays.values()))
        except ValueError:
            shapes = ", ".join(f"{name} {x.shape[:-1]}" for name, x in arrays.items())
            raise ValueError(f"vary: leading shapes do not broadcast: {shapes}") from None
        values = np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1]))
                                 for x in arrays.values()], axis=-1)
        return cls(Varied(tuple((name, x.shape[-1]) for name, x in arrays.items()), frame), values)

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
        return {"columns": [list(column) for column in self.varied.columns],
                "frame": self.varied.frame}

    @classmethod
    def from_head(cls, head: Mapping[str, Any], values: Array) -> Variation:
        columns = tuple((str(name), int(width)) for name, width in head["columns"])
        return cls(Varied(columns, head["frame"]), values)


def varied_kernel(robot: Robot, varied: Varied, request: Request,
                  change: Callable[[Mechanism], Mechanism] = lambda mechanism: mechanism) -> Any:
    """What a request asks for, with one more input at the end: the numbers that vary; `change`
    is what is done to the mechanism with these."""
    from nlink.backends.llvm.loading import load_kernel

    graph, (inputs, outputs) = Graph(), request.ports
    ports = (*inputs, Port("own", (varied.width,)))
    *values, own = [[graph.input(f"{port.name}[{k}]") for k in range(port.size)]
                    for port in ports]
    mechanism = request.algorithm.prepare(change(varied.mechanism(robot, own)))
    results = tuple(graph.lift(x) for x in run(
        request.algorithm, mechanism, request.options, values))
    return load_kernel(Program(request.algorithm.name, ports, outputs, results))


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


def _width(name: str, robot: Robot, controller: Any) -> int | None:
    """How many numbers a trajectory has under a name; None if any."""
    if name in JOINTS:
        return robot.n
    if controller is None:
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
