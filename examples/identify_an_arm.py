"""What an arm carries and what its drives give for an ampere, from its logs: friction as found.

    python examples/identify_an_arm.py [FILE]

The logs are those of examples/arm_logs: positions and currents of the motors of an arm whose
masses and friction nobody has told. One run under a known payload gives the gains of the drives,
two runs without it the arm, and the run under the payload, taken as unknown, its mass.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import nlink
from nlink.identification.fit import Fit
from nlink.reports.plots import COLOURS, INK, MUTED, dress, require_matplotlib, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOGS = Path(nlink.__file__).parents[2] / "examples" / "arm_logs"
TRUTH = tomllib.loads((LOGS / "truth.toml").read_text("utf-8"))
A = np.array(TRUTH["transmission"])
FRICTION = ("viscous", "coulomb", "offset", "stribeck")


def fits() -> tuple[Fit, Fit]:
    """The arm, with its drives' gains, and the arm with what it carried."""
    arm, how = nlink.load("ur5"), {"transmission": A, "delay": TRUTH["delay"]}
    first, second, loaded = (nlink.read_log(LOGS / f"{name}.npz", arm)
                             for name in ("run1", "run2", "loaded"))
    known = loaded.with_payload(**TRUTH["payload"])
    fit = nlink.identify(arm, [first, second, known], friction=FRICTION, gains="estimate", **how)
    carried = nlink.identify(fit.robot, loaded, mode="payload", gains=fit.gains, **how)
    return fit, carried


def friction_figure(fit: Fit) -> Figure:
    """Friction of each motor behind its gear: as it is on average, and as found."""
    require_matplotlib()
    from matplotlib.figure import Figure

    true = {name: np.array(x) for name, x in TRUTH["friction"].items()}
    C = A / np.diag(A)[:, None]
    rates = np.outer(np.linspace(-1.5, 1.5, 301), np.ones(6))
    fall = true["excess"] * np.exp(-((rates / true["stribeck"]) ** 2))
    level = (true["dry"] + fall) * np.tanh(rates / 5e-3) + true["viscous"] * rates + true["offset"]
    found = fit.friction(rates @ np.linalg.inv(C).T) @ np.linalg.inv(C)
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True).ravel()
    for j, panel in enumerate(panels):
        panel.plot(rates[:, j], level[:, j], color=COLOURS[0], linewidth=2.4, label="true")
        panel.plot(rates[:, j], found[:, j], color=COLOURS[1], linewidth=1.4,
                   linestyle=(0, (4, 2)), label="found")
        dress(panel, f"motor {j + 1}", "N m over rad/s")
        panel.tick_params(colors=MUTED)
    panels[0].legend(frameon=False, labelcolor=INK)
    return figure


def main(path: str) -> None:
    """Print what was found beside the truth, and draw the friction."""
    fit, carried = fits()
    print(f"error {100 * fit.training:.2g} %, on rows not seen {100 * (fit.validation or 0):.2g} %")
    print("gains", np.array2string(np.array(fit.gains), precision=4), "true", TRUTH["gains"])
    assert carried.payload is not None
    print(f"payload {carried.payload.mass:.3f} kg, true {TRUTH['payload']['mass']} kg")
    save(friction_figure(fit), path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "identify-an-arm.png")
