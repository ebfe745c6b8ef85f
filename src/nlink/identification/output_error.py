"""Output error: parameters whose simulation passes through the measured positions.

A log is cut into windows. In each, the robot is simulated with the measured torques from an initial
state of its own, and the positions are compared with the measured ones. With tau = Y pi and base
parameters beta, the derivatives s of the positions obey

    M s'' = -dtau/dqd s' - dtau/dq s - Y_b,

and the Gauss-Newton step is that of a linear fit, so bodies stay physical by the same semidefinite
problem as in the first stage. Steps are damped [Levenberg, Marquardt] and bounded. What is
left is weighed as the innovations of a Kalman filter, so that the noise of torques, of positions
and of initial states counts as it should; torques at rest, where dry friction has no sign, hardly
count. Derivatives are taken along the smooth measured motion: along the simulated one, the noise of
torques would be in the accelerations, and bias inertias. Dry friction is that at the measured
rates, because its jumps have no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlink.derivatives.differentials import vjp
from nlink.identification.fit import Score
from nlink.identification.fit_columns import (
    FitColumns,
    contact_torques,
    joint_motion,
    measured,
    moving,
)
from nlink.identification.fit_signals import SignalSetting
from nlink.identification.fit_task import FitTask
from nlink.identification.logs import Log
from nlink.identification.solved_fit import SolvedFit, distance_to_prior, physical_parameters
from nlink.identification.written_robot import payload_parameters, payload_place

Array = np.ndarray
LENGTH = 2.0
"""A window is LENGTH / cut-off long, in seconds."""
FINENESS = 25.0
"""Steps are at most so many times shorter than one period of the cut-off."""
ROUNDS = 12
START = 0.05
"""How well first rates are known, as a share of a joint's usual rate."""
ENOUGH = 0.01
"""The change of the sum of squares, in units of the noise, that ends the search."""
DAMPING = 1e-3
LEAST_SHARE = 1e-6
SMOOTH = ("viscous", "armature", "offset")
"""Columns of joints that are taken at the simulated state."""


@dataclass(frozen=True)
class OutputError:
    """The second stage of a fit: simulated against measured positions."""

    score: Score
    """|measured - simulated| / |measured - mean| of positions over all windows; `.joints` has that
    of each joint."""
    before: Score
    """The same of the parameters that torques gave."""
    base: Array
    """Base parameters by least squares on positions, from the last step."""
    intervals: Array
    """(base parameters, 2): where each is with a confidence of 95 %."""
    rounds: int
    """Steps that were taken."""


@dataclass(frozen=True)
class Windows:
    """Windows of equal numbers of stamps: t (T, W), joint positions (T, W, n), the
    smooth motion there (3, T, W, n), and the mean joint torques between stamps (T - 1, W, n)."""

    t: Array
    q: Array
    smooth: Array
    tau: Array
    load: Array
    """(W, parameters): what known payloads add to the parameters."""
    stride: float
    """Stamps in a step, on average."""


@dataclass(frozen=True)
class Noise:
    """Deviations of positions (n,) and of the mean torques of steps (T - 1, W, n), and the
    covariance of the states in which windows begin."""

    position: Array
    torque: Array
    start: Array


@dataclass(frozen=True)
class SimulatedWindows:
    """What is left of positions (T, W, n), and the simulated positions' derivatives (T, W, n,
    2 n + p) by initial states and base parameters."""

    left: Array
    J: Array
    steps: list[tuple[Array, Array]]
    """For each step what it makes of changes of the state, and of torques: x -> A x + B tau."""

    def plain(self) -> Array:
        """What is left beside what initial states can follow."""
        return self._without_starts(self.left[..., None], self.J)[..., 0]

    def whitened(self, noise: Noise, steps: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """What is left (T, W, n) and its derivatives by base parameters (T, W, n, p) as the
        innovations of a Kalman filter, in units of their deviations: what a step of simulation
        with noisy torques from noisy positions did not know before. The filter is that of `steps`,
        the same for all parameters that are compared."""
        T, W, n = self.left.shape
        z = np.concatenate([self.left[..., None], self.J[..., 2 * n:]], axis=3)
        x = np.zeros((W, 2 * n, z.shape[3]))
        P = np.broadcast_to(noise.start, (W, 2 * n, 2 * n))
        found = np.empty_like(z)
        for k in range(T):
            C = np.linalg.cholesky(P[:, :n, :n] + np.diag(noise.position**2))
            e = z[k] - x[:, :n]
            found[k] = np.linalg.solve(C, e)
            gain = np.linalg.solve(C, P[:, :n])  # K = (C^-T gain)^T
            x = x + gain.transpose(0, 2, 1) @ found[k]
            P = P - gain.transpose(0, 2, 1) @ gain
            if k < T - 1:
                A, B = steps[k]
                B = B * noise.torque[k, :, None]
                x, P = A @ x, A @ P @ A.transpose(0, 2, 1) + B @ B.transpose(0, 2, 1)
        return found[..., 0], found[..., 1:]

    def _without_starts(self, x: Array, starts: Array) -> Array:
        T, W, n, _ = x.shape
        starts = starts[..., :2 * n]
        found = np.empty_like(x)
        for w in range(W):
            A = starts[:, w].reshape(T * n, -1)
            Q = np.linalg.qr(A / np.maximum(np.linalg.norm(A, axis=0), 1e-300))[0]
            flat = x[:, w].reshape(T * n, -1)
            found[:, w] = (flat - Q @ (Q.T @ flat)).reshape(T, n, -1)
        return found


def refined(task: FitTask, logs: Sequence[Log], setting: SignalSetting, fit: SolvedFit,
            ) -> tuple[Array, OutputError, list[str]]:
    """All parameters after the second stage, what it found, and what is to be said."""
    windows = _windows(task, logs, setting)
    if windows.t.shape[1] < 2:
        raise ValueError("output_error: no two windows of the motion are left, expected longer "
                         "logs, with times")
    M = task.base.matrix[:, :len(task.columns.names)] * task.free
    pi, rounds = fit.pi, 0
    noise = _noise(task, logs, setting, fit, windows)
    found = _linearized(task.columns, windows, pi, task.base.columns)
    first, damping = found.plain(), DAMPING
    steps = found.steps
    left, J = found.whitened(noise, steps)
    inflation, values = _inflation(left, J), fit.base_fit.values
    said: list[str] = []

    def cost_of(left: Array, pi: Array) -> float:
        return float((left**2).sum()) / inflation + distance_to_prior(
            task, pi, fit.parameter_size, values)

    while rounds < ROUNDS and damping < 1e6:
        R, c = _factor(left, J, M @ pi, damping, inflation)
        trial, _, notes = physical_parameters(task, R, c, M, fit.parameter_size, values)
        other = _linearized(task.columns, windows, trial, task.base.columns)
        rest, slopes = other.whitened(noise, steps)
        rounds += 1
        cost, lower = cost_of(left, pi), cost_of(rest, trial)
        if not lower < cost:  # NaN, too
            damping *= 10
            continue
        pi, found, left, J, said, damping = trial, other, rest, slopes, notes, damping / 10
        if cost - lower < ENOUGH:
            break
    best, half = _estimated(left, J, M @ pi)
    q = windows.q
    return pi, OutputError(_score(found.plain(), q), _score(first, q), best,
                           np.column_stack([best - half, best + half]), rounds), said


def _noise(task: FitTask, logs: Sequence[Log], setting: SignalSetting, fit: SolvedFit,
           windows: Windows) -> Noise:
    """Of torques from the first stage, of positions from what smoothing takes off them."""
    columns, parts = task.columns, []
    for log in logs:
        if log.t is not None:
            motion, _ = joint_motion(columns, log, setting.cutoff, 0.0)
            q = log.q if columns.to_motors is None else log.q @ columns.to_motors
            parts.append(q[np.searchsorted(log.t, motion.t)] - motion.q)
    rough = np.sqrt((np.concatenate(parts) ** 2).mean(axis=0))
    swing = np.sqrt(windows.q.var(axis=(0, 1)))
    rate = np.sqrt((windows.smooth[1] ** 2).mean(axis=(0, 1)))
    position = np.maximum(rough, LEAST_SHARE * np.maximum(swing, swing.max()))
    torque = np.sqrt((fit.base_fit.sigma**2 * fit.base_fit.inflation) @ columns.A**2
                     / windows.stride)
    start = np.concatenate([10 * position, START * np.maximum(rate, 1e-3 * rate.max())])
    seen = windows.smooth[1]
    dry = any(each.kind in ("coulomb", "stribeck") for each in columns.extras)
    moves = moving(columns, seen.reshape(-1, seen.shape[2]), dry, setting.top).reshape(seen.shape)
    rests = (1 - moves) @ (columns.A != 0) > 0
    usual = np.sqrt((windows.tau**2).mean(axis=(0, 1)))
    return Noise(position, np.where(rests[1:] | rests[:-1], np.maximum(usual, torque), torque),
                 np.diag(start**2))


def _score(left: Array, q: Array) -> Score:
    swing = ((q - q.mean(axis=(0, 1))) ** 2).sum(axis=(0, 1))
    wrong = (left**2).sum(axis=(0, 1))
    return Score(float(np.sqrt(wrong.sum() / max(swing.sum(), 1e-300))),
                 np.sqrt(wrong / np.where(swing > 0, swing, np.inf)))


def _windows(task: FitTask, logs: Sequence[Log], setting: SignalSetting) -> Windows:
    """The logs cut at gaps and into windows; torques are taken at the times of the positions."""
    columns, parts, strides = task.columns, [], []
    for log in logs:
        if log.t is None:
            continue
        motion, _ = joint_motion(columns, log, setting.cutoff, 0.0)
        tau = measured(columns, log, task.gains)
        q = log.q if columns.to_motors is None else log.q @ columns.to_motors
        tau = (tau + contact_torques(columns, q, log.f_ext)) @ columns.A
        q = q[np.searchsorted(log.t, motion.t)]
        area = np.concatenate([np.zeros((1, tau.shape[1])), np.cumsum(
            np.diff(log.t)[:, None] * (tau[1:] + tau[:-1]) / 2, axis=0)])
        load = np.zeros(len(columns.names))
        if log.payload is not None:
            body, T, _ = payload_place(task.robot, log.payload.get("frame", -1))
            load[10 * body:10 * body + 10] = payload_parameters(log.payload, T)
        step = float(np.median(np.diff(log.t)))
        stride = max(1, round(1.0 / (FINENESS * setting.cutoff * step)))
        strides.append(stride)
        count = max(4, round(LENGTH / setting.cutoff / (stride * step)))
        for first, last in motion.pieces:
            for k in range(first, last - stride * count, stride * count):
                at = slice(k, k + stride * count + 1, stride)
                t = motion.t[at]
                late = np.column_stack([np.interp(t + setting.delay, log.t, x) for x in area.T])
                parts.append((t, q[at], np.stack([motion.q[at], motion.qd[at], motion.qdd[at]]),
                              np.diff(late, axis=0) / np.diff(t)[:, None], load))
    least = min((len(part[0]) for part in parts), default=0)
    parts = [part for part in parts if len(part[0]) == least]
    if not parts:
        none = np.zeros((0, 0, 0))
        return Windows(none, none, none, none, none, stride=1.0)
    t, q, smooth, tau, load = zip(*parts, strict=True)
    return Windows(np.stack(t, axis=1), np.stack(q, axis=1), np.stack(smooth, axis=2),
                   np.stack(tau, axis=1), np.array(load), float(np.mean(strides)))


def _dynamics(columns: FitColumns, q: Array, qd: Array, qdd: Array, seen: Array) -> Array:
    """Y (..., n, parameters) of joint torques; dry friction at the rates that were seen."""
    lead = q.shape[:-1]
    q, qd, qdd, seen = (np.broadcast_to(x, q.shape).reshape(-1, q.shape[-1])
                        for x in (q, qd, qdd, seen))
    smooth = np.array([each.kind in SMOOTH for each in columns.extras], dtype=bool)
    values = np.where(smooth, columns.joint_values(qd, qdd), columns.joint_values(seen, qdd))
    own = np.array([each.direction for each in columns.extras]).reshape(-1, q.shape[-1]).T
    Y = np.concatenate([columns.robot.regressor(q, qd, qdd), values[:, None, :] * own], axis=2)
    return Y.reshape(*lead, *Y.shape[1:])


def _accelerations(columns: FitColumns, pi: Array, q: Array, qd: Array, tau: Array, seen: Array,
                   ) -> tuple[Array, Array]:
    """qdd (W, n) and M (W, n, n) of each window's parameters pi (W, parameters)."""
    n = q.shape[-1]
    unit = np.concatenate([np.zeros((1, n)), np.eye(n)])[:, None, :]
    many = [np.broadcast_to(x, (n + 1, *q.shape)) for x in (q, qd, unit, seen)]
    torques = np.einsum("kwip,wp->kwi", _dynamics(columns, *many), pi)
    M = (torques[1:] - torques[0]).transpose(1, 2, 0)
    return np.linalg.solve(M, (tau - torques[0])[..., None])[..., 0], M


def _linearized(columns: FitColumns, windows: Windows, pi: Array, base: Sequence[int],
                ) -> SimulatedWindows:
    """Windows simulated by RK4, each from its first state."""
    T, W, n = windows.q.shape
    own = pi + windows.load
    q, v = windows.q[0], windows.smooth[1, 0]
    steps = []
    p = len(base)
    S = np.zeros((W, 2 * n, 2 * n + p))
    S[:, :, :2 * n] = np.eye(2 * n)
    qs, J = np.empty((T, W, n)), np.empty((T, W, n, 2 * n + p))
    qs[0], J[0] = q, S[:, :n]
    for k in range(T - 1):
        h = (windows.t[k + 1] - windows.t[k])[:, None]
        begin, end = windows.smooth[1, k:k + 2]
        middle, tau = (begin + end) / 2, windows.tau[k]

        def rate(q: Array, v: Array, seen: Array, tau: Array = tau) -> Array:
            return _accelerations(columns, own, q, v, tau, seen)[0]

        a1 = rate(q, v, begin)
        v2 = v + h / 2 * a1
        a2 = rate(q + h / 2 * v, v2, middle)
        v3 = v + h / 2 * a2
        a3 = rate(q + h / 2 * v2, v3, middle)
        v4 = v + h * a3
        a4 = rate(q + h * v3, v4, end)
        S, step = _moved(columns, own, base, windows.smooth[:, k:k + 2].mean(axis=1),
                         h[..., None], S)
        steps.append(step)
        q, v = q + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        qs[k + 1], J[k + 1] = q, S[:, :n]
    return SimulatedWindows(windows.q - qs, J, steps)


def _moved(columns: FitColumns, pi: Array, base: Sequence[int], motion: Array, h: Array, S: Array,
           ) -> tuple[Array, tuple[Array, Array]]:
    """The derivatives after one step along a smooth motion (3, W, n), by the implicit midpoint
    rule, and those of the step."""
    q, qd, qdd = motion
    W, n = q.shape
    _, M = _accelerations(columns, pi, q, qd, np.zeros_like(q), qd)
    m = columns.inertial
    weights = np.zeros((n, W, n, m))
    for i in range(n):
        weights[i, :, i] = pi[:, :m]
    many = [np.broadcast_to(x, (n, W, n)) for x in (q, qd, qdd)]
    by_q, by_qd, _ = (np.asarray(x).transpose(1, 0, 2) for x in vjp(
        columns.robot, "regressor", tuple(many), weights))
    for k, each in enumerate(columns.extras, m):
        if each.kind == "viscous":
            d = np.array(each.direction)
            by_qd = by_qd + pi[:, k, None, None] * np.outer(d, d)
    forced = np.zeros((W, n, S.shape[2]))
    forced[..., 2 * n:] = _dynamics(columns, q, qd, qdd, qd)[..., base]
    A = np.zeros((W, 2 * n, 2 * n))
    A[:, :n, n:] = np.eye(n)
    solved = np.linalg.solve(M, np.concatenate([by_q, by_qd, forced], axis=2))
    A[:, n:] = -solved[..., :2 * n]
    push = np.zeros_like(S)
    push[:, n:] = -solved[..., 2 * n:]
    eye = np.eye(2 * n)
    torque = np.concatenate([np.zeros_like(M), np.linalg.inv(M)], axis=1)
    moved = np.linalg.solve(eye - h / 2 * A, np.concatenate(
        [eye + h / 2 * A, (eye + h / 2 * A) @ S + h * push, h * torque], axis=2))
    return moved[..., 2 * n:-n], (moved[..., :2 * n], moved[..., -n:])


def _factor(left: Array, J: Array, values: Array, damping: float,
            inflation: float) -> tuple[Array, Array]:
    """R and c of the damped linear fit of base parameters: R values = c."""
    p = J.shape[-1]
    root = np.sqrt(inflation)
    rows, target = J.reshape(-1, p) / root, left.ravel() / root
    size = np.linalg.norm(rows, axis=0)
    extra = np.diag(np.sqrt(damping) * np.maximum(size, LEAST_SHARE * size.max(initial=1e-300)))
    whole = np.vstack([np.column_stack([rows, target + rows @ values]),
                       np.column_stack([extra, extra @ values])])
    R = np.asarray(np.linalg.qr(whole, mode="r"))
    return R[:p, :p], R[:p, p]


def _inflation(left: Array, J: Array) -> float:
    """How much more the sums of windows vary than those of white noise: what is left of positions
    comes mostly from torques, so neighbouring rows are alike."""
    g = np.einsum("twi,twip->wp", left, J)
    white = np.einsum("twi,twip->p", left**2, J**2)
    share = (g**2).sum(axis=0)[white > 0] / white[white > 0]
    return max(float(np.median(share)) if len(share) else 1.0, 1.0)


def _estimated(left: Array, J: Array, values: Array) -> tuple[Array, Array]:
    """Base parameters of the last linear fit, without physics, and half of their intervals."""
    T, W, n, p = J.shape
    rows, target = J.reshape(-1, p), left.ravel()
    size = np.linalg.norm(rows, axis=0)
    size = np.where(size > 0, size, 1.0)
    U, s, V = np.linalg.svd(rows / size, full_matrices=False)
    kept = s > 1e-8 * s.max(initial=0.0)
    step = (V[kept].T / s[kept]) @ (U[:, kept].T @ target) / size
    free = max(T * W * n - p, 1)
    after = target - rows @ step
    variance = _inflation(after.reshape(left.shape), J) * float(after @ after) / free
    spread = np.sqrt(variance * ((V[kept].T / s[kept]) ** 2).sum(axis=1)) / size
    lost = (np.abs(V[~kept]) > 1e-3).any(axis=0) if (~kept).any() else np.zeros(p, dtype=bool)
    spread[lost] = np.inf
    return values + step, 1.96 * spread
