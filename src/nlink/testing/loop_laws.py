"""The laws of mechanisms with loops, in closed states, as functions that return residuals."""

from __future__ import annotations

import numpy as np

from nlink.algorithms.catalogue import CLOSED
from nlink.engines.engines import Engine
from nlink.model.constraints import ANGLE_TOLERANCE
from nlink.robot import Robot
from nlink.testing.laws import Law
from nlink.testing.samples import (
    EPS,
    Array,
    Samples,
    along,
    difference,
    partials,
    runner,
    torque_scale,
    worst,
)


def loops_close(robot: Robot, x: Samples, engine: Engine | None) -> float:
    size = robot.loops.scale
    return worst(np.abs(robot.compute("closure_error", x.q, engine=engine) / size).ravel())


def jacobian_is_error_derivative(robot: Robot, x: Samples, engine: Engine | None) -> float:
    J = robot.compute("closure_jacobian", x.q, engine=engine)
    held = [(row, k) for k, row in enumerate(partials("closure_error", robot, x)) if row.any()]
    return worst(difference(row, J[:, k], 1.0) for row, k in held)


def velocity_is_jacobian_times_rates(robot: Robot, x: Samples, engine: Engine | None) -> float:
    J = robot.compute("closure_jacobian", x.q, engine=engine)
    terms = np.einsum("nij,nj->ni", np.abs(J), np.abs(x.qd))
    return difference(robot.compute("closure_velocity", x.q, x.qd, engine=engine),
                      np.einsum("nij,nj->ni", J, x.qd), float(terms.max(initial=0.0)))


def acceleration_is_velocity_rate(robot: Robot, x: Samples, engine: Engine | None) -> float:
    J = robot.compute("closure_jacobian", x.q, engine=engine)
    whole = np.einsum("nij,nj->ni", J, x.qdd) + robot.compute(
        "closure_acceleration", x.q, x.qd, engine=engine)
    return difference(np.reshape(along("closure_velocity", robot, x), (-1, len(x.q))).T, whole, 1.0)


def loops_stay_closed(robot: Robot, x: Samples, engine: Engine | None) -> float:
    qdd = robot.forward_dynamics(x.q, x.qd, x.tau, engine=engine)
    J = robot.compute("closure_jacobian", x.q, engine=engine)
    c = robot.compute("closure_acceleration", x.q, x.qd, engine=engine)
    terms = np.einsum("nij,nj->ni", np.abs(J), np.abs(qdd)) + np.abs(c)
    left = np.einsum("nij,nj->ni", J, qdd) + c
    return worst((np.abs(left).max(-1) / (terms.max(-1) * _spread(robot, x))).tolist())


def forces_balance(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """M qdd + h - tau is what the loops' wrenches do, link by link."""
    qdd = robot.forward_dynamics(x.q, x.qd, x.tau, engine=engine)
    f = robot.compute("closure_forces", x.q, x.qd, x.tau, engine=engine)
    whole = robot.inverse_dynamics(x.q, x.qd, qdd, engine=engine)
    given, largest = x.tau.copy(), np.abs(whole).max(-1)
    loops = robot.description.loops
    ratios = robot.loops.jacobian(x.q)[:, robot.mechanism.rows - len(robot.description.gears):]
    given += np.einsum("nij,ni->nj", ratios, f[:, len(loops):, 0])
    for k, loop in enumerate(loops):
        pose = robot.pose(x.q, loop.of.link, engine=engine)
        point = pose[:, :3, 3] + np.einsum("nij,j->ni", pose[:, :3, :3], loop.of.pose.p)
        for link, sense in ((loop.of.link, -1.0), (loop.on.link, 1.0)):
            J = robot.jacobian(x.q, link, engine=engine)
            arm = point - robot.pose(x.q, link, engine=engine)[:, :3, 3]
            moment = f[:, k, :3] + np.cross(arm, f[:, k, 3:])
            part = sense * np.einsum("nij,ni->nj", J, np.concatenate([moment, f[:, k, 3:]], -1))
            given += part
            largest = np.maximum(largest, np.abs(part).max(-1))
    scale = np.maximum(largest, torque_scale(robot)) * _spread(robot, x)
    return worst((np.abs(whole - given).max(-1) / scale).tolist())


def projection_leaves_closed_states(robot: Robot, x: Samples, engine: Engine | None) -> float:
    q, qd, _ = robot.compute("project", x.q, x.qd, engine=engine)
    return worst([difference(q, x.q, 1.0), difference(qd, x.qd, 1.0)]) / float(
        _spread(robot, x).max())


def closed_engines_agree(robot: Robot, x: Samples, engine: Engine | None) -> float:
    """Every formulation in every engine, over the condition of J M^-1 J^T."""
    few, found = x[:4], []
    spread = float(_spread(robot, few).max())
    for entries in CLOSED.values():
        for entry in entries.values():
            if entry.refuses(robot.mechanism):
                continue
            ours = runner(robot, entry, few, engine)(few)
            theirs = runner(robot, next(iter(entries.values())), few, "python")(few)
            which = _clear(robot, few) if entry.name == "hybrid_dynamics" else slice(None)
            found += [difference(a[which], b[which], 1.0) / spread
                      for a, b in zip(ours, theirs, strict=True) if np.isfinite(a).all()]
    return worst(found)


def _clear(robot: Robot, x: Samples) -> Array:
    """The states in which rates are held that loops leave free. Where loops decide them already,
    it is a matter of rounding which of both counts."""
    clear = []
    for M, J, held in zip(robot.mass_matrix(x.q), robot.compute("closure_jacobian", x.q), x.held,
                          strict=True):
        rows = J / np.sqrt(np.maximum(np.diag(J @ np.linalg.solve(M, J.T)), 1e-300))[:, None]
        free = held == 0
        ranks = [int((np.linalg.eigvalsh(G @ np.linalg.solve(A, G.T)) > least).sum())
                 for G, A, least in ((rows, M, 1e-9), (rows[:, free], M[np.ix_(free, free)], 1e-6))]
        clear.append(ranks[0] == ranks[1])
    return np.array(clear)


def _spread(robot: Robot, x: Samples) -> Array:
    """The condition of the tree's M, and of its mobility in the directions that loops hold."""
    M = robot.mass_matrix(x.q)
    J = robot.compute("closure_jacobian", x.q)
    S = J @ np.linalg.solve(M, np.swapaxes(J, -1, -2))
    scale = 1 / np.sqrt(np.maximum(np.einsum("nii->ni", S), 1e-300))
    values = np.linalg.eigvalsh(S * scale[:, :, None] * scale[:, None, :])
    least = np.where(values > 1e-9, values, np.inf).min(-1)
    return np.linalg.cond(M) * values.max(-1) / np.minimum(least, 1.0)


LOOP_LAWS: tuple[Law, ...] = (
    Law("closure", "error(q) = 0 in assembled states", loops_close, ANGLE_TOLERANCE / EPS),
    Law("loop jacobian", "J = d error / dq", jacobian_is_error_derivative, 1e-9 / EPS),
    Law("loop velocity", "d error / dt = J qd", velocity_is_jacobian_times_rates, 50),
    Law("loop rate", "d/dt (J qd) = J qdd + Jdot qd", acceleration_is_velocity_rate, 1e-9 / EPS),
    Law("held", "J FD(tau) + Jdot qd = 0", loops_stay_closed, 50),
    Law("loop forces", "M qdd + h - tau = sum J^T f", forces_balance, 1000),
    Law("projection", "closed states stay", projection_leaves_closed_states, 1e-9 / EPS),
    Law("loop engines", "every formulation and engine agree", closed_engines_agree, 50,
        thorough=True),
)
"""Every law of loops; states are closed, to an error that tolerances of some allow for."""
