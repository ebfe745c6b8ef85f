"""The laws of mechanics, and of the implementation, as functions that return residuals.

A law compares two ways to one quantity, on a batch of states, and returns the largest
difference relative to the largest magnitude: a few eps if it holds, about one if it does not.

Adding an algorithm to the catalogue puts it under the laws of engines, batches, drivers and
formulations at once; a law of its own is one function and one entry in `LAWS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nlink.algorithms.catalogue import ALGORITHMS, Algorithm
from nlink.engines.engines import Engine
from nlink.formats.dh import parse_toml
from nlink.formats.toml_writer import to_toml
from nlink.model.mechanism import Mechanism
from nlink.programs.rolled_columns import NotRolled
from nlink.programs.rolled_tracing import trace_rolled
from nlink.programs.tracing import run, trace
from nlink.robot import Robot
from nlink.testing.samples import (
    EPS,
    STEP,
    Array,
    Samples,
    along,
    condition,
    difference,
    friction,
    inertial_parameters,
    mass_columns,
    partials,
    runner,
    smallest_eigenvalue,
    stack,
    state_partials,
    torque_scale,
    worst,
)

FEW = 64
"""Laws whose cost grows with the square of the joints are for robots with at most this many."""
INVERSE = {"qdd", "Minv", "U", "D", "qd", "nu", "xi", "nud", "xid", "alpha", "mobility", "Lambda",
           "force", "dqdd_dq", "dqdd_dqd", "dqdd_dtau"}
"""Outputs whose rounding error grows with the condition of the mass matrix."""


@dataclass(frozen=True, slots=True)
class Law:
    """A statement that holds for every mechanism, and how far a robot is from it.

    >>> import nlink, nlink.testing
    >>> robot = nlink.load("double_pendulum")
    >>> law = nlink.testing.LAWS[0]
    >>> law(robot, nlink.testing.samples(robot)) <= law.bound(robot)
    True
    """

    name: str
    statement: str
    residual: Callable[[Robot, Samples, Engine | None], float]
    tolerance: float
    """The residual allowed, in multiples of eps and of the number of rates."""
    applies: Callable[[Robot], bool] = lambda robot: True
    thorough: bool = False
    """Whether it runs the whole catalogue, which takes most of the time of a check."""

    def bound(self, robot: Robot) -> float:
        """The largest residual that rounding explains."""
        return self.tolerance * EPS * max(1, robot.n)

    def __call__(self, robot: Robot, x: Samples, engine: Engine | None = None) -> float:
        """The residual; not finite where a singular mass matrix is to be inverted."""
        with np.errstate(all="ignore"):
            return self.residual(robot, x, engine)


def power_is_energy_rate(robot: Robot, x: Samples, engine: Engine | None) -> float:
    tau = robot.inverse_dynamics(x.q, x.qd, x.qdd, engine=engine) - friction(robot, x.qd)
    power = (tau * x.qd).sum(-1)
    rate = along("kinetic_energy", robot, x) + along("potential_energy", robot, x)
    largest = np.abs(tau * x.qd).max(initial=0.0), torque_scale(robot)
    return difference(power, rate, *largest)


def bias_is_inverse_dynamics_at_rest(robot: Robot, x: Samples, engine: Engine | None) -> float:
    tau = robot.inverse_dynamics(x.q, x.qd, np.zeros_like(x.qd), engine=engine)
    return difference(robot.bias(x.q, x.qd, engine=engine), tau - friction(robot, x.qd),
                      torque_scale(robot))


def gravity_is_bias_at_rest(robot: Robot, x: Samples, engine: Engine | None) -> float:
    still = robot.bias(x.q, np.zeros_like(x.qd), engine=engine)
    return difference(robot.gravity_torque(x.q, engine=engine), still, torque_scale(robot))


def gravity_is_potential_gradient(robot: Robot, x: Samples, engine: Engine | None) -> float:
    (gradient,) = partials("potential_energy", robot, x)
    return difference(robot.gravity_torque(x.q, engine=engine), gradient,
                      torque_scale(robot))


def inverse_dynamics_is_linear(robot: Robot, x: Samples, engine: Engine | None) -> float:
    def tau(qdd: Array) -> Array:
        return robot.inverse_dynamics(x.q, x.qd, qdd, engine=engine)

    other = x.qdd[::-1]
    mean = (tau(x.qdd) + tau(other)) / 2
    return difference(tau((x.qdd + other) / 2), mean, torque_scale(robot))


def mass_matrix_is_symmetric(robot: Robot, x: Samples, engine: Engine | None) -> float:
    M = mass_columns(robot, x, engine)
    return difference(M, np.swapaxes(M, -1, -2))


def mass_matrix_is_positive(robot: Robot, x: Samples, engine: Engine | None) -> float:
    return worst(-smallest_eigenvalue(robot, x, engine))


def kinetic_energy_is_quadratic(robot: Robot, x: Samples, engine: Engine | None) -> float:
    M = mass_columns(robot, x, engine)
    half = np.einsum("ni,nij,nj->n", x.qd, M, x.qd) / 2
    return difference(robot.kinetic_energy(x.q, x.qd, engine=engine), half)


def mass_matrix_is_columns_of_inverse_dynamics(robot: Robot, x: Samples,
                                               engine: Engine | None) -> float:
    return difference(robot.mass_matrix(x.q, engine=engine), mass_columns(robot, x, engine))


def mass_matrix_is_its_factors(robot: Robot, x: Samples, engine: Engine | None) -> float:
    M = robot.mass_matrix(x.q, engine=engine)
    U, D = robot.factor_mass_matrix(x.q, engine=engine)
    triangular = difference(U, np.triu(U)) + difference(np.einsum("nii->ni", U), 1.0)
    return triangular + difference((U * D[:, None, :]) @ np.swapaxes(U, -1, -2), M,
                                   *_largest(np.abs(U) @ (np.abs(D)[:, :, None] * np.abs(
                                       np.swapaxes(U, -1, -2)))))


def inverse_mass_matrix_inverts(robot: Robot, x: Samples, engine: Engine | None) -> float:
    M = robot.mass_matrix(x.q, engine=engine)
    inverse = robot.inverse_mass_matrix(x.q, engine=engine)
    return difference(inverse @ M, np.eye(robot.n), *_largest(np.abs(inverse) @ np.abs(M)))


def forward_dynamics_inverts(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """The joint forces that the error of qdd is worth: M (FD(ID(qdd)) - qdd)."""
    tau = robot.inverse_dynamics(x.q, x.qd, x.qdd, f_ext=x.f_ext, engine=engine)
    qdd = robot.forward_dynamics(x.q, x.qd, tau, f_ext=x.f_ext, engine=engine)
    M = robot.mass_matrix(x.q, engine="numpy")
    error = np.einsum("nij,nj->ni", M, qdd - x.qdd)
    return difference(error, 0.0, *_largest(tau), torque_scale(robot)) if robot.n else 0.0


def held_rates_obey(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """Held rates have the accelerations given, free ones no force, and all of it is balanced."""
    held = x.held > 0
    qdd, force = robot.compute("hybrid_dynamics", x.q, x.qd, x.tau, x.held, x.qdd,
                               f_ext=x.f_ext, engine=engine)
    tau = robot.inverse_dynamics(x.q, x.qd, qdd, f_ext=x.f_ext, engine=engine)
    wrong = (qdd != x.qdd)[held].any() or force[~held].any()
    return worst((float(wrong), difference(tau, x.tau + force, torque_scale(robot),
                                           np.abs(tau).max(initial=0.0))))


def coriolis_matrix_gives_the_bias(robot: Robot, x: Samples, engine: Engine | None) -> float:
    C = robot.coriolis_matrix(x.q, x.qd, engine=engine)
    bias = robot.bias(x.q, x.qd, engine=engine)
    velocity = bias - robot.gravity_torque(x.q, engine=engine)
    return difference(np.einsum("nij,nj->ni", C, x.qd), velocity, *_largest(bias),
                      *_largest(mass_columns(robot, x, engine) * np.square(x.qd).max(initial=0.0)),
                      torque_scale(robot))


def mass_rate_is_twice_the_symmetric_part_of_coriolis(robot: Robot, x: Samples,
                                                      engine: Engine | None) -> float:
    C = robot.coriolis_matrix(x.q, x.qd, engine=engine)
    rate = np.moveaxis(along("mass_matrix", robot, x).reshape(robot.n, robot.n, len(x.q)), -1, 0)
    M = robot.mass_matrix(x.q, engine=engine)
    return difference(rate, C + np.swapaxes(C, -1, -2), *_largest(C),
                      *(size * np.abs(x.qd).max(initial=0.0) for size in _largest(M)))


def inverse_dynamics_is_differentiated(robot: Robot, x: Samples, engine: Engine | None) -> float:
    found = robot.inverse_dynamics_derivatives(x.q, x.qd, x.qdd, engine=engine)
    expected = state_partials("inverse_dynamics", robot, x)
    tau = robot.inverse_dynamics(x.q, x.qd, x.qdd, engine=engine)
    return worst(difference(a, b, *_largest(tau), torque_scale(robot))
                 for a, b in zip(found, expected, strict=True))


def forward_dynamics_is_differentiated(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """The joint forces that the derivatives of qdd are worth: M dqdd = -dID, M dqdd/dtau = 1."""
    tau = robot.inverse_dynamics(x.q, x.qd, x.qdd, engine=engine)
    *found, inverse = robot.forward_dynamics_derivatives(x.q, x.qd, tau, engine=engine)
    expected = robot.inverse_dynamics_derivatives(x.q, x.qd, x.qdd, engine="numpy")
    M = robot.mass_matrix(x.q, engine="numpy")
    return worst((difference(inverse @ M, np.eye(robot.n), *_largest(np.abs(inverse) @ np.abs(M))),
                  *(difference(M @ a, -b, *_largest(np.abs(M) @ np.abs(a)), *_largest(tau),
                               torque_scale(robot))  # qdd is known as well as tau is
                    for a, b in zip(found, expected, strict=True))))


def forces_are_linear_in_parameters(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """Friction and armatures among them, and as found from the poses of links."""
    kinds = ("viscous", "coulomb", "stribeck")
    Y = robot.regressor(x.q, x.qd, x.qdd, friction=kinds, armature=True, width=1e-300,
                        engine=engine)
    pi = robot.parameters(kinds, armature=True)
    tau = robot.inverse_dynamics(x.q, x.qd, x.qdd, engine="numpy")
    known = inertial_parameters(robot)
    return worst((difference(Y @ pi, tau, torque_scale(robot)),
                  difference(pi[:len(known)], known)))


def momenta_and_energies_are_linear_in_parameters(robot: Robot, x: Samples,
                                                  engine: Engine | None) -> float:
    rotors = robot.parameters(armature=True)[len(robot.parameters()):] * x.qd
    p = np.einsum("kij,kj->ki", robot.mass_matrix(x.q, engine="numpy"), x.qd)
    T = robot.kinetic_energy(x.q, x.qd, engine="numpy")
    V = robot.potential_energy(x.q, engine="numpy")
    found = robot.momentum_regressor(x.q, x.qd, engine=engine) @ robot.parameters()
    energies = robot.energy_regressor(x.q, x.qd, engine=engine) @ robot.parameters()
    return worst((difference(found + rotors, p),
                  difference(energies[:, 0] + (rotors * x.qd).sum(-1) / 2, T),
                  difference(energies[:, 1], V, torque_scale(robot))))


def pose_is_rigid(robot: Robot, x: Samples, engine: Engine | None) -> float:
    R = robot.pose(x.q, x.frame, engine=engine)[..., :3, :3]
    return worst((difference(R @ np.swapaxes(R, -1, -2), np.eye(3)),
                  difference(np.linalg.det(R), 1.0)))


def jacobian_is_pose_derivative(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """J is (axial part of dR R^T, dp) for each coordinate."""
    J = robot.jacobian(x.q, x.frame, engine=engine)
    change = np.stack(partials("pose", robot, x)).reshape(4, 4, *x.qd.shape)
    R = robot.pose(x.q, x.frame, engine=engine)[..., :3, :3]
    spin = np.einsum("ikna,njk->aijn", change[:3, :3], R)
    angular = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]])
    expected = np.concatenate([angular.transpose(2, 0, 1), change[:3, 3].transpose(1, 0, 2)], 1)
    return difference(J, expected, 1.0)


def jacobian_dot_is_jacobian_rate(robot: Robot, x: Samples, engine: Engine | None) -> float:
    rate = along("jacobian", robot, x).reshape(6, robot.n, len(x.q))
    expected = np.einsum("ian,na->ni", rate, x.qd)
    J = robot.jacobian(x.q, x.frame, engine=engine)
    terms = np.abs(J).max(initial=0.0) * np.square(x.qd).max(initial=0.0)
    return difference(robot.jacobian_dot_qd(x.q, x.qd, x.frame, engine=engine), expected, terms)


def wrenches_act_by_jacobians(robot: Robot, x: Samples, engine: Engine | None) -> float:
    def tau(f_ext: Array | None) -> Array:
        return robot.inverse_dynamics(x.q, x.qd, x.qdd, f_ext=f_ext, engine=engine)

    expected = np.zeros_like(x.qd)
    for link in np.flatnonzero(np.any(x.f_ext != 0, axis=(0, 2))).tolist():
        J = robot.jacobian(x.q, link + 1, engine="numpy")
        expected -= np.einsum("nia,ni->na", J, x.f_ext[:, link])
    free = tau(None)
    return difference(tau(x.f_ext) - free, expected, np.abs(free).max(initial=0.0),
                      torque_scale(robot))


def regrouping_changes_no_force(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """On NumPy arrays, whichever engine is asked for: regrouping happens before engines."""
    request = robot.request("inverse_dynamics")
    flat = [list(a.T) for a in x.arguments(request.algorithm)]

    def tau(mechanism: Mechanism) -> Array:
        values = run(request.algorithm, mechanism, request.options, flat)
        return np.array(np.broadcast_arrays(*values, np.zeros(len(x.q)))[:-1])

    return difference(tau(robot.mechanism.regrouped()), tau(robot.mechanism),
                      torque_scale(robot))


def rolled_is_unrolled(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """By interpretation, whichever engine is asked for: drivers come before engines. One
    formulation of each computation that is O(n): a robot's joints decide, not the algorithm."""
    def compare(algorithm: Algorithm) -> float:
        options = robot.request(algorithm.name).options
        flat = [list(a.T) for a in x.arguments(algorithm)]
        try:
            rolled = trace_rolled(algorithm, robot.mechanism, options)(*flat)
        except NotRolled:
            return 0.0
        straight = trace(algorithm, robot.mechanism, options)(*flat)
        shapes = [(len(x.q), *port.shape) for port in robot.request(
            algorithm.name, algorithm=algorithm.formulation).ports[1]]
        both = ([stack(a, x).T.reshape(shape) for a, shape in zip(values, shapes, strict=True)]
                for values in (rolled, straight))
        return _disagreement(robot, algorithm, x, *both)

    linear = {each.name: each for each in reversed(_algorithms(robot, x)) if each.power == 1}
    return worst(compare(algorithm) for algorithm in linear.values())


def engines_agree(robot: Robot, x: Samples, engine: Engine | None) -> float:
    few = x[:4]
    return worst(_disagreement(robot, algorithm, few, runner(robot, algorithm, few, engine)(few),
                               runner(robot, algorithm, few, "python")(few))
                 for algorithm in _algorithms(robot, x))


def formulations_agree(robot: Robot, x: Samples, engine: Engine | None) -> float:
    found = []
    for entries in ALGORITHMS.values():
        known = [entry for entry in entries.values() if _has_meaning(entry, robot, x)]
        if len(known) > 1:
            expected = runner(robot, known[0], x, engine)(x)
            found += [_disagreement(robot, other, x, runner(robot, other, x, engine)(x), expected)
                      for other in known[1:]]
    return worst(found)


def batch_is_one_by_one(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """Bit for bit: zero if each state alone gives what it gives in the batch, else one."""
    for algorithm in _algorithms(robot, x):
        compute = runner(robot, algorithm, x, engine)
        together = compute(x)
        for i in range(len(x.q)):
            for a, b in zip(together, compute(x[i]), strict=True):
                if not np.array_equal(a[i], b, equal_nan=True):
                    return 1.0
    return 0.0


def rates_move_coordinates(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """States are where they belong, integration starts along the tangent and stays there, and
    differences undo it. On NumPy arrays, whichever engine is asked for: spaces come before it."""
    space, q, qd = robot.mechanism.space, x.q.T, x.qd.T
    v = qd / (1 + np.linalg.norm(qd, axis=0))  # less than half a turn
    moved = space.integrate(q, v)
    slope = np.imag(space.integrate(q, 1j * STEP * qd)) / STEP
    size = 1 + np.abs(q).max(initial=0.0)
    return worst((difference(space.normalize(q), q), difference(space.normalize(moved), moved),
                  difference(space.difference(q, moved), v, size),
                  difference(slope, space.tangent(q, qd), size)))


def toml_is_lossless(robot: Robot, x: Samples, engine: Engine | None) -> float:
    copy = parse_toml(to_toml(robot.description), physical="ignore")
    return float(copy != robot.description)


def _algorithms(robot: Robot, x: Samples) -> list[Algorithm]:
    """The catalogue; for a robot of many joints, that part of it whose cost is linear."""
    return [entry for formulations in ALGORITHMS.values() for entry in formulations.values()
            if (entry.power == 1 or _few(robot)) and _has_meaning(entry, robot, x)]


def _has_meaning(algorithm: Algorithm, robot: Robot, x: Samples) -> bool:
    """Square roots of pivots are for positive definite mass matrices alone."""
    return not algorithm.definite or not _few(robot) or bool(
        (smallest_eigenvalue(robot, x, "numpy") > 0).all())


def _largest(a: Array) -> tuple[float, ...]:
    return (float(np.abs(a).max(initial=0.0)),)


def _disagreement(robot: Robot, algorithm: Algorithm, x: Samples, these: Sequence[Array],
                  those: Sequence[Array]) -> float:
    """The worst of the outputs of one algorithm computed in two ways."""
    outputs = zip(algorithm.outputs, these, those, strict=True)
    return worst(
        difference(*_defined(name, a, b)) / condition(robot, x) if name in INVERSE
        else difference(a, b, torque_scale(robot)) for (name, _), a, b in outputs)


def _defined(name: str, a: Array, b: Array) -> tuple[Array, Array]:
    """Operational inertias where a frame can move in every direction, over their condition."""
    if name != "Lambda":
        return a, b
    exists = np.isfinite(a).all((-2, -1)) & np.isfinite(b).all((-2, -1))
    a, b = a[exists], b[exists]
    spread = np.linalg.cond(b)[:, None, None] * np.abs(b).max((-2, -1), keepdims=True)
    return 1 + (a - b) / spread, np.ones_like(b)


def _few(robot: Robot) -> bool:
    return robot.n <= FEW


def _moves(robot: Robot) -> bool:
    return robot.n > 0


def _few_that_move(robot: Robot) -> bool:
    """Without a joint there is nothing to roll, and no centre of what moves."""
    return 0 < robot.n <= FEW


LAWS: tuple[Law, ...] = (
    Law("power", "qd . (tau - friction) = d/dt (T + V)", power_is_energy_rate, 50),
    Law("bias", "C qd + g = ID(q, qd, 0) - friction", bias_is_inverse_dynamics_at_rest, 50),
    Law("gravity", "g = (C qd + g)(q, 0)", gravity_is_bias_at_rest, 50),
    Law("potential", "g = dV/dq", gravity_is_potential_gradient, 50, _few),
    Law("linearity", "ID is affine in qdd", inverse_dynamics_is_linear, 50),
    Law("symmetry", "M = M^T, by columns of ID", mass_matrix_is_symmetric, 50, _few),
    Law("positivity", "M > 0", mass_matrix_is_positive, 50, _few),
    Law("kinetic energy", "T = 1/2 qd^T M qd", kinetic_energy_is_quadratic, 50, _few),
    Law("mass matrix", "M = columns of ID", mass_matrix_is_columns_of_inverse_dynamics, 50, _few),
    Law("factors", "M = U D U^T", mass_matrix_is_its_factors, 50, _few),
    Law("inverse", "M^-1 M = 1", inverse_mass_matrix_inverts, 50, _few),
    Law("forward", "M (FD(ID(qdd)) - qdd) = 0", forward_dynamics_inverts, 50, _few),
    Law("hybrid", "ID(qdd) = tau + the force that holds", held_rates_obey, 50, _few),
    Law("velocity forces", "C qd = bias - g", coriolis_matrix_gives_the_bias, 50, _few),
    Law("skew symmetry", "Mdot = C + C^T", mass_rate_is_twice_the_symmetric_part_of_coriolis, 50,
        _few),
    Law("derivatives", "dID = complex steps of ID", inverse_dynamics_is_differentiated, 50, _few),
    Law("forward derivatives", "M dFD = -dID", forward_dynamics_is_differentiated, 50, _few),
    Law("regressor", "tau = Y pi", forces_are_linear_in_parameters, 50, _few),
    Law("momenta", "M qd = Y pi, (T, V) = Y pi", momenta_and_energies_are_linear_in_parameters, 50,
        _few),
    Law("rotation", "R R^T = 1, det R = 1", pose_is_rigid, 50),
    Law("jacobian", "J = d pose / dq", jacobian_is_pose_derivative, 50, _few),
    Law("jacobian rate", "Jdot qd = d/dt (J) qd", jacobian_dot_is_jacobian_rate, 50, _few),
    Law("wrenches", "tau(f) - tau(0) = -sum J_i^T f_i", wrenches_act_by_jacobians, 50, _few),
    Law("regrouping", "tau from base parameters = tau", regrouping_changes_no_force, 50, _few),
    Law("space", "difference(q, integrate(q, v)) = v",
        rates_move_coordinates, 50, _moves),
    Law("drivers", "rolled = unrolled", rolled_is_unrolled, 50, _few_that_move,
        thorough=True),
    Law("formulations", "every algorithm = the default one", formulations_agree, 50, _few,
        thorough=True),
    Law("engines", "every engine = python", engines_agree, 50, _few_that_move, thorough=True),
    Law("batch", "batch = one by one, bit for bit", batch_is_one_by_one, 0, thorough=True),
    Law("toml", "read(write(robot)) = robot", toml_is_lossless, 0),
)
"""Every law; `Law.applies` tells which robots it is for."""
