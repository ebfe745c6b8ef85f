"""Dry friction, computed in another way: dense matrices, SciPy, and all modes tried one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.integrate import solve_ivp

import nlink

G = 9.81


def block(slope: float = 0.0, coulomb: float = 1.0, mass: float = 1.0, **friction) -> nlink.Robot:
    """A block that slides along a line, which rises by an angle."""
    row = {"joint": "prismatic", "mass": mass, "inertia": (1.0, 1.0, 1.0),
           "friction": {"coulomb": coulomb, **friction}}
    return nlink.Robot.from_dh([row], gravity=(-G * np.cos(slope), 0, -G * np.sin(slope)),
                               name="block")


def arm(*coulomb: float, **friction) -> nlink.Robot:
    """Rods of one metre and one kilogram, hanging."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12)}
    rows = [rod | {"friction": {"coulomb": c, **friction}} for c in coulomb]
    rows[0]["theta"] = -np.pi / 2
    return nlink.Robot.from_dh(rows, gravity=(0, -G, 0), name="arm")


def reference(robot: nlink.Robot, q0, qd0, end, tau=lambda t, q, qd: 0.0 * qd):
    """Phase after phase: (times when modes change, modes from then on, the last state)."""
    n = robot.n
    friction = [joint.friction for joint in robot.joints]
    c, e, w, v = (np.array([getattr(f, name) for f in friction])
                  for name in ("coulomb", "excess", "falloff", "viscous"))

    def forces(t, q, qd, modes):
        """Accelerations, and the friction forces of all rates."""
        M, h = robot.mass_matrix(q), robot.bias(q, qd)
        f = -modes * (c + e * np.exp(-w * qd * qd)) - v * qd
        held = modes == 0
        b = tau(t, q, qd) - h + f
        qdd = np.zeros(n)
        qdd[~held] = np.linalg.solve(M[np.ix_(~held, ~held)], b[~held])
        f[held] = (M @ qdd - b)[held]
        return qdd, f

    def decide(t, q, qd, modes):
        """The modes of rates at rest, tried one after the other."""
        rest = np.flatnonzero(qd == 0)
        for each in sorted(product((0.0, 1.0, -1.0), repeat=len(rest)), key=np.count_nonzero):
            tried = np.where(qd == 0, 0.0, np.sign(qd))
            tried[rest] = each
            qdd, f = forces(t, q, qd, tried)
            slides = tried[rest] * qdd[rest] > 0
            holds = (tried[rest] == 0) & (np.abs(f[rest]) <= (c + e)[rest] * (1 + 1e-9))
            if (slides | holds).all():
                return tried
        raise AssertionError("no modes")

    t, y = 0.0, np.concatenate([q0, qd0]).astype(float)
    modes = decide(t, y[:n], y[n:], None)
    times, found = [], [modes]
    while t < end:
        def rates(t, y, modes=modes):
            return np.concatenate([y[n:], forces(t, y[:n], y[n:], modes)[0]])

        def slack(t, y, i, modes=modes):
            if modes[i]:
                return modes[i] * y[n + i]
            return (c + e)[i] * (1 + 1e-9) - abs(forces(t, y[:n], y[n:], modes)[1][i])

        functions = []
        for i in range(n):
            def g(t, y, i=i, begin=t):
                return slack(t, y, i) if t > begin else 1.0
            g.terminal, g.direction = True, -1
            functions.append(g)
        run = solve_ivp(rates, (t, end), y, "DOP853", rtol=1e-12, atol=1e-14, max_step=0.02,
                        events=functions)
        t, y = run.t[-1], run.y[:, -1].copy()
        if run.status != 1:
            break
        for i in range(n):
            if len(run.t_events[i]) and modes[i]:
                y[n + i] = 0.0
        modes = decide(t, y[:n], y[n:], modes)
        if (modes != found[-1]).any():
            times.append(t)
            found.append(modes)
    return np.array(times), np.array(found), y
