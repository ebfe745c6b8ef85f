"""How well an arm follows when its load and its friction are not known: the picture of
docs/scale.md.

    python examples/payload_monte_carlo.py [FILE] [SCHEDULER]

A PUMA follows a cycloid under PD control with gravity compensation. The controller knows the arm,
but neither what it carries (up to 2.5 kg) nor the friction of its joints.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import nlink
from nlink.reports.plots import COLOURS, INK, MUTED, RULE, require_matplotlib, save
from nlink.simulation import Cycloid, PDGravity
from nlink.studies import LogUniform, SweepResult, Uniform

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START = np.zeros(6)
END = np.array([1.0, -0.6, 0.8, 0.5, 0.7, 0.4])
KP = np.array([900.0, 900.0, 500.0, 40.0, 40.0, 20.0])
KD = np.array([120.0, 120.0, 60.0, 4.0, 4.0, 2.0])
MOTION, SETTLING = 1.0, 0.5
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def study(out: str | Path, *, count: int = 4096, client: Any = None) -> SweepResult:
    """Payloads and friction from a Sobol sequence, states every 20 ms."""
    robot = nlink.load("puma560")
    controller = PDGravity(robot, Cycloid(START, END, MOTION), KP, KD)
    return nlink.sweep(
        robot, START, t=MOTION + SETTLING, every=0.02, tau=controller, sample="sobol", count=count,
        seed=1, method="dop853", rtol=1e-6, atol=1e-9, keep=("q",), out=out, client=client,
        chunk=1024, vary={"payload": Uniform(0.0, 2.5), "viscous": LogUniform(0.1, 10.0)})


def errors(chunk: Any) -> np.ndarray:
    """Desired minus actual angles, (trajectories, times, joints)."""
    path = Cycloid(START, END, MOTION)
    times = np.linspace(0.0, MOTION + SETTLING, chunk["q"].shape[1])
    return np.array([path(t)[0] for t in times], dtype=float) - chunk["q"]


def quantile_figure(result: SweepResult) -> Figure:
    """One panel for each of the three large joints: the median, and the bands in which half and
    nine tenths of all trajectories are."""
    require_matplotlib()
    from matplotlib.figure import Figure

    bands = np.degrees(result.quantiles(errors, LEVELS))
    t = result.open().time.values
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    for k, panel in enumerate(figure.subplots(1, 3, sharey=True)):
        low, quarter, median, three, high = bands[:, :, k]
        panel.axvline(MOTION, color=RULE, linewidth=0.8, zorder=0)
        panel.axhline(0.0, color=RULE, linewidth=0.8, zorder=0)
        panel.fill_between(t, low, high, color=COLOURS[k], alpha=0.18, linewidth=0,
                           label="nine tenths")
        panel.fill_between(t, quarter, three, color=COLOURS[k], alpha=0.38, linewidth=0,
                           label="half")
        panel.plot(t, median, color=COLOURS[k], linewidth=1.6, label="median")
        panel.set_title(f"joint {k + 1}", loc="left", fontsize=9.5, color=INK)
        panel.set_xlabel("time, s", color=MUTED, fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
        panel.spines[["left", "bottom"]].set_color(RULE)
        panel.tick_params(colors=MUTED, labelsize=8.5, length=0)
        panel.legend(frameon=False, fontsize=8, labelcolor=MUTED, loc="upper right")
        if not k:
            panel.set_ylabel("error, degrees", color=MUTED, fontsize=9)
    figure.suptitle(f"{result.trajectories:,} payloads and frictions: desired minus actual angle",
                    x=0.01, ha="left", fontsize=10.5, color=INK)
    return figure


def main(picture: str, scheduler: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = study(Path(folder) / "monte-carlo.zarr", client=scheduler)
        last = result.quantiles(lambda chunk: np.degrees(np.abs(errors(chunk)[:, -1])).max(axis=1),
                                [0.5, 0.95])
        (worst,), (size,) = result.worst(lambda chunk: errors(chunk)[:, -1], 1)
        data = result.open()
        print(f"{result.trajectories} trajectories, {result.status()}")
        print(f"largest error at the end: median {last[0]:.2f}, 95 % below {last[1]:.2f}, worst "
              f"{np.degrees(size):.2f} degrees, with {float(data.payload[worst[0]]):.2f} kg and "
              f"{float(data.viscous[worst[0]]):.2f} N m s")
        save(quantile_figure(result), picture)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "payload-monte-carlo.png",
         sys.argv[2] if len(sys.argv) > 2 else None)
