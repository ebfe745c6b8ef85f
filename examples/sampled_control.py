"""One arm under four controllers: what integral action, sampling, delay and noise do.

Three rods in a vertical plane go from rest at zero to a configuration. The figure has the first
joint's angle above and its torque below, on the left with continuous controllers and motors of
limited effort, on the right with a digital one. Run with a path to draw `docs/sampled-control.png`.
"""

from __future__ import annotations

import sys
from typing import Any

import nlink
from nlink.simulation import PD, PID, Noisy, Run, Sampled, Saturated

GOAL = [0.6, -0.8, 0.5]
KP, KI, KD = (300.0, 120.0, 25.0), (500.0, 200.0, 40.0), (60.0, 18.0, 2.0)
EFFORT = (48.0, 22.0, 8.0)


def runs() -> list[dict[str, Run]]:
    """The runs of the two columns, by their labels."""
    arm = nlink.load("planar3")
    pid = PID(arm, GOAL, KP, KI, KD)
    bounded = PID(arm, GOAL, KP, KI, KD, effort=EFFORT)
    columns = [
        {"PD": PD(arm, GOAL, KP, KD), "PID": pid, "PID, cut at 48 N m": Saturated(pid, EFFORT),
         "the same, no windup": bounded},
        {"PID": pid, "every 5 ms": Sampled(pid, 0.005),
         "every 5 ms, one sample late": Sampled(pid, 0.005, delay=1),
         "every 5 ms, with noise": Sampled(Noisy(pid, 1e-3, 0.1, seed=1), 0.005)}]
    return [{label: nlink.simulate(arm, t=3.0, tau=tau, rtol=1e-6, atol=1e-9)
             for label, tau in column.items()} for column in columns]


def control_figure() -> Any:
    """q and tau of the first joint."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 5.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for k, column in enumerate(runs()):
        for label, run in column.items():
            axes[0, k].plot(run.t, run.q[:, 0], label=label, lw=1.3)
            axes[1, k].plot(run.t, run.tau[:, 0], lw=1.0, drawstyle="steps-post"
                            if "held" in run.parts else "default")
        axes[0, k].axhline(GOAL[0], color="0.6", lw=0.8, zorder=0)
        axes[0, k].legend(frameon=False, fontsize="small")
        axes[1, k].set_xlabel("time, s")
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
    axes[1, 0].set_ylim(-60.0, 200.0)
    axes[0, 0].set_ylabel("angle of joint 1, rad")
    axes[1, 0].set_ylabel("torque of joint 1, N m")
    return figure


if __name__ == "__main__":
    from nlink.simulation.figures import save

    save(control_figure(), sys.argv[1] if len(sys.argv) > 1 else "sampled-control.png")
