"""Base parameters: the combinations of a robot's parameters that joint forces depend on.

The columns of the regressor Y are dependent for all motions alike. Going from the base to the tip,
of each body the second moments first and the mass last, a column that depends on those before it
is absorbed by them [Gautier, Khalil 1990],

    Y pi = Y_b beta,    beta = pi_b + K pi_d    where    Y_d = Y_b K.

Which columns these are is decided in exact arithmetic, modulo a prime, from the structure of the
mechanism: what is within 2e-4 of quarter turns is meant as such, as 1.5708 in a file, and lengths
below 1e-5 of the largest are zeros. K is then computed from the numbers as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.algorithms.regressor import regressor
from nlink.algorithms.sweep import Unrolled
from nlink.identification.model_columns import JointColumn, joint_columns
from nlink.model.canonical import align
from nlink.model.description import Description
from nlink.model.joints import Fixed
from nlink.model.mechanism import NO_TURN, Attachment, Mechanism, MovingJoint
from nlink.model.pose import Pose
from nlink.model.rotations import quaternion_from_matrix
from nlink.model.spaces import Circle, Product
from nlink.robot import Robot, expect_robot
from nlink.scalars.residues import PRIME, Residue, cos, reduced, residue_of, sin
from nlink.spatial import Matrix, RigidInertia, Spin, Vector

Array = np.ndarray
FIRST = (4, 5, 6, 7, 8, 9, 1, 2, 3, 0)
"""The ten parameters of a body in the order in which their columns are looked at."""
FINE = 10**9
"""Elements of quaternions and lengths are seen in steps of 1 / FINE."""
NEARLY = 2e-4
"""Quarter turns are meant by matrices that differ from theirs by no more."""
SHORT = 1e-5
"""Shorter lengths, in parts of the largest, are zeros."""
SPARE, FEW = 3, 4
"""Batches of few states that must leave the rank as it is."""


@dataclass(frozen=True, repr=False)
class BaseParameters:
    """The independent combinations of a robot's parameters.

    With Y and pi of `robot.regressor` and `robot.parameters`, Y pi is
    Y[..., columns] @ (matrix @ pi).
    """

    names: tuple[str, ...]
    """Of all parameters."""
    columns: tuple[int, ...]
    """The columns of the regressor that are independent."""
    matrix: Array
    """(base parameters, parameters): beta = matrix @ pi."""

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        return f"<BaseParameters: {len(self)} of {len(self.names)} parameters>"

    @property
    def formulas(self) -> tuple[str, ...]:
        """Each base parameter in words, as link2.Jzz + 0.1866 (link3.m + link4.m)."""
        return tuple(_formula(self.names, kept, row)
                     for kept, row in zip(self.columns, self.matrix, strict=True))

    @property
    def absorbed(self) -> Mapping[str, tuple[str, ...]]:
        """The parameters that are no base parameters, and which of those contain each: none where
        it moves no joint."""
        kept = set(self.columns)
        return {name: tuple(self.names[self.columns[i]]
                            for i in np.flatnonzero(self.matrix[:, k]).tolist())
                for k, name in enumerate(self.names) if k not in kept}

    def __str__(self) -> str:
        unseen = [name for name, where in self.absorbed.items() if not where]
        lines = [f"{len(self)} base parameters of {len(self.names)}:",
                 *(f"  {formula}" for formula in self.formulas)]
        return "\n".join([*lines, f"without effect: {', '.join(unseen)}"] if unseen else lines)


def base_parameters(robot: Robot, friction: Sequence[str] = (), armature: bool = False, *,
                    transmission: ArrayLike | None = None) -> BaseParameters:
    """The base parameters of a robot: the combinations of its inertial parameters that joint forces
    depend on, with friction and rotors on request, as in `robot.regressor`.

    `transmission` is A of motor = A q: motors that turn with several joints have friction and
    inertia of their own.

    >>> import nlink
    >>> base = nlink.base_parameters(nlink.load("double_pendulum"))
    >>> len(base), base.formulas[-1]
    (6, 'link2.Jzz - link2.m')
    """
    extra = joint_columns(expect_robot(robot), friction, armature, transmission)
    return independent_parameters(robot, extra)


def independent_parameters(robot: Robot, extra: Sequence[JointColumn],
                           among: Sequence[int] | None = None) -> BaseParameters:
    """The base parameters where only those of some numbers are unknown: all if not given."""
    names = (*robot.parameter_names(), *(column.name for column in extra))
    columns, echelon = _independent(robot, extra, among)
    return BaseParameters(names, columns, _combinations(robot, extra, columns, echelon))


def _independent(robot: Robot, extra: Sequence[JointColumn], among: Sequence[int] | None,
                 ) -> tuple[tuple[int, ...], Array]:
    """The independent columns, and how each column is made of them modulo a prime; columns that
    are not among those that count are zero there."""
    mechanism, rng = exact_mechanism(robot.description), np.random.default_rng(0)
    count = 10 * len(mechanism.joints) + len(extra)
    order = [10 * k + i for k in range(len(mechanism.joints)) for i in FIRST]
    order += range(len(order), count)
    if among is not None:
        order = [k for k in order if k in set(among)]
    known = np.zeros((0, len(order)), dtype=np.int64)
    if not order:
        return (), np.zeros((0, count), dtype=np.int64)
    pivots: list[int] = []
    spare, first = 0, -(-count // max(1, robot.n)) + 2
    while spare < SPARE:
        fresh = _exact_rows(mechanism, robot.n, extra, first + SPARE * FEW, rng)[:, order]
        cuts = [robot.n * (first + k * FEW) for k in range(SPARE)]
        for rows in np.split(fresh, cuts):
            before = len(pivots)
            pivots, known = reduced(np.concatenate([known, rows]))
            spare = spare + 1 if len(pivots) == before else 0
    columns = np.array(order, dtype=int)[pivots]
    rows = np.argsort(columns)
    found = np.zeros((len(rows), count), dtype=np.int64)
    found[:, order] = known[rows]
    return tuple(columns[rows].tolist()), found


def _exact_rows(mechanism: Mechanism, n: int, extra: Sequence[JointColumn], states: int,
                rng: np.random.Generator) -> Array:
    """Rows of the regressor in random states, modulo a prime: (rows, columns)."""
    q = [tuple(x for x in _point(joint.type.space, states, rng)) for joint in mechanism.joints]
    qd, qdd = ([Residue.random((states,), rng) for _ in range(n)] for _ in range(2))
    width, stribeck = (Residue.random((1,), rng) for _ in range(2))
    Y = regressor(Unrolled(mechanism), q, mechanism.split(qd, "nv"),
                  mechanism.split(qdd, "nv"), mechanism.links)
    for column in extra:
        value = column.value(qd, qdd, width, stribeck)
        for row, a in zip(Y, column.direction, strict=True):
            row.append(value * a if a else 0)
    return np.array([[np.broadcast_to(x.values if isinstance(x, Residue) else residue_of(x),
                                      (states,)) for x in row] for row in Y],
                    dtype=np.int64).transpose(2, 0, 1).reshape(states * n, -1)


def _point(space: Any, states: int, rng: np.random.Generator) -> list[Residue]:
    """Coordinates at random; quaternions need not have the length 1."""
    if isinstance(space, Product):
        return [x for factor in space.factors for x in _point(factor, states, rng)]
    if isinstance(space, Circle):
        angle = Residue.random((states,), rng)
        return [cos(angle), sin(angle)]
    return [Residue.random((states,), rng) for _ in range(space.nq)]


def exact_mechanism(description: Description) -> Mechanism:
    """The structure of a tree in exact numbers: rotations are rational and orthogonal, and those
    that lead to a body are multiplied exactly, so that axes stay parallel to one another and to
    gravity."""
    size = max([abs(x) for joint in description.joints
                for pose in (joint.placement.before, joint.placement.after)
                for x in pose.origin], default=0.0) or 1.0
    places = [(0, ExactPose.of(Pose(), size))]
    joints, parents = [], []
    for joint in description.joints:
        parent, place = places[joint.parent]
        seat = place @ ExactPose.of(joint.placement.before, size)
        after = ExactPose.of(joint.placement.after, size)
        if isinstance(joint.type, Fixed):
            places.append((parent, seat @ after))
            continue
        turn = ExactPose.of(align(joint.type.axis), size)
        at = (seat @ turn).attached(parent)
        nothing = (0,) * joint.type.nv
        turns: Any = (Spin(at.R),)
        joints.append(MovingJoint(joint.type, at.p, turns, NO_TURN, 0, (0,) * joint.type.nq,
                                  RigidInertia.zero(), *(nothing,) * 5))
        parents.append(parent)
        places.append((len(joints), turn.T @ after))
    g = np.array(description.gravity)
    strength = float(np.abs(g).max()) or 1.0
    base, *links = (pose.attached(body) for body, pose in places)
    weight = [round(x / strength * FINE) if abs(x) > SHORT * strength else 0 for x in g.tolist()]
    return Mechanism(tuple(joints), tuple(parents), Vector(*map(_residue, weight)), base,
                     (base, *links))


@dataclass(frozen=True, slots=True)
class ExactPose:
    """A rotation (3, 3) and an origin (3,), of whole numbers modulo the prime."""

    R: Array
    p: Array

    @classmethod
    def of(cls, pose: Pose, size: float) -> ExactPose:
        """From numbers; a quaternion of any length has an orthogonal matrix."""
        R = np.round(pose.R)
        if np.abs(pose.R - R).max() > NEARLY:
            w, x, y, z = (round(v * FINE) for v in quaternion_from_matrix(pose.R).tolist())
            s = 2 * pow(w * w + x * x + y * y + z * z, -1, PRIME)
            R = np.array(((1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)),
                          (s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)),
                          (s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y))),
                         dtype=object) % PRIME
        p = [round(x / size * FINE) if abs(x) > SHORT * size else 0 for x in pose.origin]
        return cls(R.astype(int).astype(object) % PRIME, np.array(p, dtype=object) % PRIME)

    def __matmul__(self, other: ExactPose) -> ExactPose:
        return ExactPose(self.R @ other.R % PRIME, (self.p + self.R @ other.p) % PRIME)

    @property
    def T(self) -> ExactPose:
        """The inverse."""
        return ExactPose(self.R.T, -(self.R.T @ self.p) % PRIME)

    def attached(self, body: int) -> Attachment:
        rows = [[_residue(x) for x in row] for row in self.R.tolist()]
        return Attachment(body, Matrix.from_rows(rows), Vector(*map(_residue, self.p.tolist())))


def _residue(x: int) -> Residue:
    return Residue(np.array([x % PRIME]))


def _combinations(robot: Robot, extra: Sequence[JointColumn], columns: Sequence[int],
                  echelon: Array) -> Array:
    """beta = matrix @ pi: K by least squares over random states, where it is not zero."""
    count = echelon.shape[1]
    matrix = np.zeros((len(columns), count))
    matrix[np.arange(len(columns)), columns] = 1.0
    dependent = [k for k in range(count) if k not in set(columns) and echelon[:, k].any()]
    if not dependent:
        return matrix
    Y = _float_rows(robot, extra, 3 * count // max(1, robot.n) + 20)
    own = Y[:, columns]
    size = np.linalg.norm(own, axis=0)
    K = np.linalg.lstsq(own / size, Y[:, dependent], rcond=None)[0] / size[:, None]
    K[echelon[:, dependent] == 0] = 0.0
    short = np.vectorize(lambda x: float(f"{x:.10g}"))(K)  # where few digits say the same
    matrix[:, dependent] = np.where(np.abs(K - short) < 1e-13 * np.maximum(1.0, np.abs(K)),
                                    short, K)
    return matrix


def _float_rows(robot: Robot, extra: Sequence[JointColumn], states: int) -> Array:
    rng = np.random.default_rng(1)
    q = np.array(np.broadcast_arrays(*robot.mechanism.space.random(rng, (states,)))).T
    qd, qdd = rng.normal(size=(2, states, robot.n))
    Y = robot.regressor(q, qd, qdd, engine="numpy")
    more = [np.array(np.broadcast_to(column.value(qd.T, qdd.T, 0.5, 0.7), (states,)))[:, None]
            * np.array(column.direction) for column in extra]
    return np.concatenate([Y, *(x[..., None] for x in more)], axis=-1).reshape(
        states * robot.n, -1)


def _formula(names: Sequence[str], kept: int, row: Array) -> str:
    """A combination in words, the base parameter first, terms of one factor together."""
    groups: dict[str, list[int]] = {"1": [kept]}
    for k in np.flatnonzero(row).tolist():
        if k != kept:
            groups.setdefault(f"{row[k]:.4g}", []).append(k)
    text = ""
    for factor, own in groups.items():
        size, sum_ = factor.removeprefix("-"), " + ".join(names[k] for k in own)
        sign = "-" if factor.startswith("-") else "+"
        if len(own) > 1 and factor != "1":
            sum_ = f"({sum_})"
        term = sum_ if size == "1" else f"{size} {sum_}"
        text += f" {sign} {term}" if text else term
    return text
