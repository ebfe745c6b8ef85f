"""Two rods on their end and a motor between them: which leans does LQR catch?

Every pixel is a simulation with its own initial state; all of them are one call.

    python examples/caught_or_lost.py [FILE]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy.linalg import solve_continuous_are

import nlink

UP = np.array([np.pi / 2, 0.0])
EFFORT = 20.0


def regulator(robot: nlink.Robot) -> np.ndarray:
    """The gains of the second joint's motor, from Riccati's equation."""
    A, B = nlink.linearize(robot, UP, [0, 0], [0, 0])
    return B[:, 1] @ solve_continuous_are(A, B[:, 1:], np.eye(4), np.eye(1))


def catch_figure(pixels: int = 60) -> Any:
    """Where the rods are after four seconds."""
    from matplotlib.figure import Figure

    robot = nlink.load("double_pendulum")
    K = regulator(robot)

    def balance(t: Any, q: Any, qd: Any) -> list[Any]:
        u = -sum(k * e for k, e in zip(K, [*(q - UP), *qd], strict=True))
        return [0.0, nlink.clip(u, -EFFORT, EFFORT)]

    degrees = np.linspace(-8.0, 8.0, pixels)
    lean = np.stack(np.meshgrid(np.radians(degrees), np.radians(degrees)), axis=-1)
    runs = nlink.simulate(robot, UP + lean, t=4.0, every=4.0, tau=balance, rtol=1e-5, atol=1e-8)
    off = np.degrees(np.abs(runs.q[..., -1, :] - UP).max(axis=-1))
    figure = Figure(figsize=(5.4, 4.6), layout="constrained")
    axes = figure.subplots()
    picture = axes.pcolormesh(degrees, degrees, np.clip(off, 0, 180), cmap="magma_r")
    figure.colorbar(picture, label="angle from upright after 4 s, degrees")
    axes.set(xlabel="lean of the first rod, degrees", ylabel="bend of the second, degrees",
             aspect="equal", title=f"{(off < 1).mean():.0%} are caught, with {EFFORT:g} N m")
    return figure


if __name__ == "__main__":
    catch_figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "caught-or-lost.png", dpi=110)
