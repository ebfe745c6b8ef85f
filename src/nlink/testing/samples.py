"""What laws are made of: batches of states, exact derivatives, fair relative differences.

Derivatives are taken by the complex step on the traced program: f'(x) = Im f(x + ih) / h has no
cancellation, so h = 1e-40 gives all digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nlink.algorithms.catalogue import Algorithm
from nlink.engines.engines import Engine, prepare
from nlink.engines.kernels import kept
from nlink.model.description import Description
from nlink.programs.products import find
from nlink.robot import Robot

EPS = float(np.finfo(float).eps)
STEP = 1e-40
LOADED = 8
"""External wrenches act on at most this many links."""

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Samples:
    """A batch of states, accelerations, joint forces and wrenches that go with them, a frame.

    >>> import nlink, nlink.testing
    >>> x = nlink.testing.samples(nlink.load("double_pendulum"), 3)
    >>> x.q.shape, x.tau.shape
    ((16, 2), (16, 2))
    """

    q: Array
    qd: Array
    qdd: Array
    tau: Array
    f_ext: Array
    frame: int | str = -1

    def __getitem__(self, which: Any) -> Samples:
        """Some of the states."""
        return Samples(self.q[which], self.qd[which], self.qdd[which], self.tau[which],
                       self.f_ext[which], self.frame)

    @property
    def nu(self) -> Array:
        """Quasi-velocities: any rates do."""
        return self.qd

    xi = nu

    @property
    def held(self) -> Array:
        """Which rates are held: about half of them."""
        return np.where(self.tau > 0, 1.0, 0.0)

    def arguments(self, algorithm: Algorithm) -> list[Array]:
        """The arguments of an algorithm, without external wrenches."""
        return [getattr(self, name) for name, _ in algorithm.inputs if name != "f_ext"]


def samples(robot: Robot, seed: int = 0, states: int = 16, frame: int | str = -1) -> Samples:
    """Random states of a robot, within its limits.

    >>> import nlink, nlink.testing
    >>> nlink.testing.samples(nlink.load("double_pendulum"), 3).qdd.shape
    (16, 2)
    """
    rng = np.random.default_rng(seed)
    q, qd = robot.random_state(rng, (states,))
    f_ext = np.zeros((states, len(robot.links), 6))
    loaded = rng.permutation(len(robot.links))[:LOADED]
    f_ext[:, loaded] = rng.normal(size=(states, len(loaded), 6))
    qdd, tau = rng.normal(size=(2, *qd.shape))
    return Samples(q, qd, qdd, tau, f_ext, frame)


def runner(robot: Robot, algorithm: Algorithm, x: Samples,
           engine: Engine | None) -> Callable[[Samples], tuple[Array, ...]]:
    """Any entry of the catalogue as a function of samples, without external wrenches."""
    name, formulation = algorithm.name, algorithm.formulation
    run = kept(robot, ("law", name, formulation, x.frame, engine), lambda: prepare(
        robot.request(name, algorithm=formulation, frame=x.frame), engine))

    def compute(x: Samples) -> tuple[Array, ...]:
        result = run(*x.arguments(algorithm))
        return result if isinstance(result, tuple) else (result,)

    return compute


def friction(robot: Robot, qd: Array) -> Array:
    """The joint forces that friction takes: viscous qd + Stribeck's curve times sign(qd)."""
    moving = [joint.friction for joint in robot.joints for _ in range(joint.type.nv)]
    viscous, coulomb, excess, falloff = (
        np.array([getattr(each, name) for each in moving])
        for name in ("viscous", "coulomb", "excess", "falloff"))
    return viscous * qd + (coulomb + excess * np.exp(-falloff * qd * qd)) * np.sign(qd)


def inertial_parameters(robot: Robot) -> Array:
    """The ten parameters of each body, as `robot.regressor` has them, from the poses of links."""
    moving = [k for k, joint in enumerate(robot.joints, 1) if joint.type.nv]
    carrier, rows = [0], {k: np.zeros(10) for k in moving}
    poses = robot.poses(robot.neutral, engine="python")
    for k, (link, joint) in enumerate(zip(robot.links, robot.joints, strict=True), 1):
        carrier.append(k if joint.type.nv else carrier[joint.parent])
        if not carrier[k]:
            continue
        seen = np.linalg.inv(poses[carrier[k]]) @ poses[k]
        R, c = seen[:3, :3], (seen @ (*link.com, 1.0))[:3]
        J = R @ np.array(link.inertia) @ R.T + link.mass * (c @ c * np.eye(3) - np.outer(c, c))
        rows[carrier[k]] += [link.mass, *(link.mass * c), J[0, 0], J[0, 1], J[1, 1], J[0, 2],
                             J[1, 2], J[2, 2]]
    return np.concatenate([*rows.values(), np.zeros(0)])


def mass_columns(robot: Robot, x: Samples, engine: Engine | None) -> Array:
    """M(q) by columns of inverse dynamics, which is linear in qdd.

    Large accelerations of both signs cancel gravity to the last digit of M.
    """
    large = 2.0**40 * np.eye(robot.n)
    q = x.q[:, None, :]
    tau = (robot.inverse_dynamics(q, np.zeros(robot.n), sign * large, engine=engine)
           for sign in (1.0, -1.0))
    return np.swapaxes(next(tau) - next(tau), -1, -2) / 2.0**41


def smallest_eigenvalue(robot: Robot, x: Samples, engine: Engine | None = None) -> Array:
    """That of M scaled to a unit diagonal: metres and radians compare; -1 if M_ii < 0."""
    M = mass_columns(robot, x, engine)
    negative = (np.einsum("nii->ni", M) < 0).any(-1)
    return np.where(negative, -1.0, _scaled_eigenvalues(M).min(-1, initial=np.inf))


def condition(robot: Robot, x: Samples) -> float:
    """The largest condition number of M scaled to a unit diagonal."""
    values = np.abs(_scaled_eigenvalues(robot.mass_matrix(x.q, engine="numpy")))
    ratios = values.max(-1, initial=0.0) / values.min(-1, initial=np.inf)
    return float(np.maximum(1.0, ratios.max()))  # 1 also where nothing moves


def _scaled_eigenvalues(M: Array) -> Array:
    if not np.isfinite(M).all():
        return np.full(M.shape[:-1], np.nan)
    diagonal = np.abs(np.einsum("nii->ni", M))
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return np.linalg.eigvalsh(scale[:, :, None] * M * scale[:, None, :])


def torque_scale(robot: Robot) -> float:
    """The weight of all links at full reach: what may cancel in a joint force."""
    description = robot.description
    mass = sum(link.mass for link in description.links)
    return mass * float(np.linalg.norm(description.gravity)) * reach(description)


def reach(description: Description) -> float:
    """The length of the longest branch from its first joint that moves, mass centres included."""
    lengths, moving, longest = [0.0], [False], 0.0
    for link, joint in zip(description.links, description.joints, strict=True):
        place, carried = joint.placement, moving[joint.parent]
        moving.append(carried or joint.type.nv > 0)
        offset = (carried * np.linalg.norm(place.before.p)
                  + moving[-1] * np.linalg.norm(place.after.p))
        lengths.append(lengths[joint.parent] + float(offset))
        longest = max(longest, lengths[-1] + moving[-1] * float(np.linalg.norm(link.com)))
    return longest


def worst(residuals: Iterable[float]) -> float:
    """The largest residual, and nan if any is."""
    return float(np.max([0.0, *residuals]))


def difference(a: Any, b: Any, *magnitudes: float) -> float:
    """max |a - b| relative to the largest of |a|, |b| and the magnitudes; nan stays nan."""
    a, b = np.asarray(a), np.asarray(b)
    error = float(np.abs(a - b).max(initial=0.0))
    scale = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)), *magnitudes)
    return float(error / scale) if error else 0.0


def coordinate_rates(robot: Robot, q: Array, qd: Array) -> Array:
    """The rates of the coordinates themselves, which are qd in a flat space."""
    rates = robot.mechanism.space.tangent(np.moveaxis(q, -1, 0), np.moveaxis(qd, -1, 0))
    return np.stack(np.broadcast_arrays(*rates), -1) if rates else np.zeros_like(q)


def along(name: str, robot: Robot, x: Samples) -> Array:
    """The time derivative of an algorithm's results, flat, along the motion qd, qdd."""
    moved = replace(x, q=x.q + 1j * STEP * coordinate_rates(robot, x.q, x.qd),
                    qd=x.qd + 1j * STEP * x.qdd)
    (values,) = robot.request(name, frame=x.frame).program()(
        *([*a.T] for a in moved.arguments(find(name, loops=robot.description.closed))))
    rates = np.imag(stack(values, x)) / STEP
    return rates[0] if len(values) == 1 else rates


def partials(name: str, robot: Robot, x: Samples) -> list[Array]:
    """The change of each flat result of a function of q by a unit of each rate: (states, n)."""
    q = np.broadcast_to(x.q[:, None, :], (len(x.q), robot.n, robot.nq))
    unit = np.broadcast_to(np.eye(robot.n), (len(x.q), robot.n, robot.n))
    moved = q + 1j * STEP * coordinate_rates(robot, q, unit)
    (values,) = robot.request(name, frame=x.frame).program()([*np.moveaxis(moved, -1, 0)])
    return [np.broadcast_to(np.imag(value) / STEP, moved.shape[:2]) for value in values]


def state_partials(name: str, robot: Robot, x: Samples) -> tuple[Array, Array]:
    """The change of each result of a function of (q, qd, one more) by a unit of each rate of q,
    and by one of qd: (states, results, n)."""
    algorithm = find(name, loops=robot.description.closed)
    q, qd, more = (np.broadcast_to(a[:, None, :], (len(a), robot.n, a.shape[1]))
                   for a in x.arguments(algorithm))
    unit = 1j * STEP * np.eye(robot.n)
    program = robot.request(name).program()

    def change(q: Array, qd: Array) -> Array:
        (values,) = program(*([*np.moveaxis(a, -1, 0)] for a in (q, qd, more)))
        changes = [np.broadcast_to(np.imag(value) / STEP, q.shape[:2]) for value in values]
        return np.stack(changes, 1)

    tangent = coordinate_rates(robot, q, np.broadcast_to(np.eye(robot.n), qd.shape))
    return change(q + 1j * STEP * tangent, qd), change(q, qd + unit)


def stack(values: list[Any], x: Samples) -> Array:
    rows = [np.broadcast_to(value, (len(x.q),)) for value in values]
    return np.reshape(rows, (len(values), len(x.q)))
