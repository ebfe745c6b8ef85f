"""Joint-decoupled control in quasi-velocities [Koz95], on the PUMA.

In nu the mass matrix is the identity, so a controller that looks at one quasi-velocity alone acts
on one equation alone. Two such controllers, gravity compensated in both:

- *cancelling*: eps = C(q, nu) - rate_k nu_k makes every nu_k decay by itself, at its own rate;
- *passive*: eps_k = -rate nu_k cancels nothing. Coriolis forces do no work in nu (C is a skew
  matrix times nu), so the kinetic energy still decays as exp(-2 rate t), exactly.

The state that is integrated is (q, nu): `robot.compile("quasi_motion")`.

    python examples/joint_decoupled_control.py [DIRECTORY]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nlink
from nlink.papers.operators.quasi_velocities import Diagonal

RATES = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
RATE = 2.0
STEP, STEPS = 5e-3, 300

Controller = Callable[[nlink.Robot, Diagonal], np.ndarray]


def cancelling(robot: nlink.Robot, d: Diagonal) -> np.ndarray:
    """nud_k = -rate_k nu_k."""
    return d.C_nu - RATES * d.nu


def passive(robot: nlink.Robot, d: Diagonal) -> np.ndarray:
    """nud = -C(q, nu) - rate nu, the weight held by l g."""
    return d.to_eps(robot.gravity_torque(d.q)) - RATE * d.nu


def coriolis(d: Diagonal) -> np.ndarray:
    """C(q, nu) without gravity: (48), and the part of (V x M) V."""
    momentum = d.Vx @ (d.M @ d.V)
    return d.matrix() @ d.nu + d.H @ (d.Psi @ momentum) / np.sqrt(d.filter.D)


@dataclass(frozen=True)
class Run:
    """A motion: times, nu, and per state nu . C without gravity, relative to its size."""

    t: np.ndarray
    nu: np.ndarray
    work: np.ndarray
    c: np.ndarray

    @property
    def energy(self) -> np.ndarray:
        return (self.nu**2).sum(1) / 2


def simulate(robot: nlink.Robot, controller: Controller, q: np.ndarray, qd: np.ndarray) -> Run:
    """Runge-Kutta of order four on (q, nu)."""
    motion, rates = robot.compile("quasi_motion"), robot.compile("rates_from_quasi_velocities")
    n = robot.n
    out, change = np.empty(n), np.empty(n)

    def diagonal(x: np.ndarray) -> Diagonal:
        rates(x[:n].copy(), x[n:].copy(), out)
        return robot.diagonal(x[:n], out)

    def slope(x: np.ndarray) -> np.ndarray:
        d = diagonal(x)
        motion(x[:n].copy(), x[n:].copy(), d.from_eps(controller(robot, d)), out, change)
        return np.concatenate([out, change])

    x = np.concatenate([q, robot.diagonal(q, qd).nu])
    found, work, largest = [x[n:]], [], np.zeros((n, n))
    for _ in range(STEPS):
        d = diagonal(x)
        C = coriolis(d)
        work.append(abs(d.nu @ C) / (np.linalg.norm(d.nu) * np.linalg.norm(C)))
        c = d.matrix()
        largest = c if np.abs(c).max() > np.abs(largest).max() else largest
        k1 = slope(x)
        k2 = slope(x + STEP / 2 * k1)
        k3 = slope(x + STEP / 2 * k2)
        k4 = slope(x + STEP * k3)
        x = x + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found.append(x[n:])
    return Run(STEP * np.arange(STEPS + 1), np.array(found), np.array(work), largest)


def plot(alone: Run, free: Run, path: Path) -> Path:
    """Decay of each nu, of the energy, and the two faces of skew symmetry."""
    from matplotlib.figure import Figure

    from nlink.reports.plots import INK, MUTED, save

    figure = Figure(figsize=(10.5, 7.0), layout="constrained")
    (a, b), (c, e) = figure.subplots(2, 2)
    lines = a.semilogy(alone.t, np.abs(alone.nu / alone.nu[0]), linewidth=1.8)
    a.legend(lines, [f"$\\nu_{k}$, rate {r:g}/s" for k, r in enumerate(RATES, 1)], fontsize=8,
             frameon=False)
    a.set_title("cancelling controller: each quasi-velocity decays alone", loc="left")
    b.semilogy(free.t, free.energy, linewidth=2.2, label="simulated")
    b.semilogy(free.t, free.energy[0] * np.exp(-2 * RATE * free.t), "k--", linewidth=1.2,
               label="$T_0\\,e^{-2\\,rate\\,t}$")
    b.legend(frameon=False, fontsize=9)
    b.set_title("passive controller: kinetic energy, J", loc="left")
    size = np.abs(free.c).max()
    picture = c.imshow(free.c, cmap="RdBu", vmin=-size, vmax=size)
    figure.colorbar(picture, ax=c, shrink=0.8)
    c.set_title("$c_{ki}$ of eq. (48) at its largest: skew, 1/s", loc="left")
    c.set_xlabel("i")
    c.set_ylabel("k")
    c.set_xticks(range(6), range(1, 7))
    c.set_yticks(range(6), range(1, 7))
    e.semilogy(free.t[:-1], np.maximum(free.work, 1e-19), ".", markersize=3)
    e.set_ylim(1e-19, 1e-12)
    e.set_title("work of Coriolis forces: |nu . C| / |nu| |C|", loc="left")
    for panel in (a, b, c, e):
        panel.title.set_color(INK)
        panel.tick_params(colors=MUTED)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in (a, b, e):
        panel.set_xlabel("time, s", color=MUTED)
    return save(figure, path)


def main(directory: str = ".") -> None:
    robot = nlink.load("puma560")
    q, qd = np.array([0.3, -0.6, 0.9, 0.4, -0.5, 0.2]), np.array([1.0, -1.5, 2.0, -3.0, 2.0, 4.0])
    alone, free = simulate(robot, cancelling, q, qd), simulate(robot, passive, q, qd)
    decay = alone.nu[0] * np.exp(-RATES * alone.t[-1])
    print(f"cancelling: nu(end) off its exponential by "
          f"{np.abs(alone.nu[-1] - decay).max() / np.abs(alone.nu[0]).max():.1e}")
    exact = free.energy[0] * np.exp(-2 * RATE * free.t[-1])
    print(f"passive: T(end) = {free.energy[-1]:.9e} J, T_0 exp(-2 rate t) = {exact:.9e} J")
    print(f"work of Coriolis forces: at most {free.work.max():.1e} relative")
    print(plot(alone, free, Path(directory) / "joint_decoupled_control.png"))


if __name__ == "__main__":
    main(*sys.argv[1:])
