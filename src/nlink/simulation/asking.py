"""Controllers that are ordinary Python, asked at samples only, for a whole ensemble at once.

Between samples the compiled kernel integrates with the forces held; at a sample every trajectory
waits, and Python is called once, with arrays of all that wait:

    tau = controller(t, q, qd)              q (waiting, nq), qd (waiting, n), tau (waiting, n)
    tau = controller(t, q, qd, x)           x (waiting, size), likewise controller.update
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nlink.iterations.integration import STATUS
from nlink.simulation.control_scheme import ControlScheme, advance, over_batch
from nlink.simulation.drives import Asked

if TYPE_CHECKING:
    from nlink.simulation.ensemble import Ensemble

Array = np.ndarray


def asked(scheme: ControlScheme, t: float, q: Array, qd: Array, parts: Array) -> Array:
    """(rows, elements): the parts of the state after a sample, of many trajectories."""
    x, waiting = parts[:, :scheme.size], parts[:, scheme.size + scheme.n:]
    state = (x,) if scheme.size else ()
    tau = _rows("the controller", over_batch(
        scheme.controller, scheme.controller, t, q, qd, *state), len(q), scheme.n)
    if scheme.size:
        assert scheme.period is not None
        x = _rows("update of the controller", advance(
            scheme.controller, scheme.period, t, q, qd, x), len(q), scheme.size)
    return np.concatenate([x, waiting, tau], axis=1)


def _rows(who: str, given: object, count: int, size: int) -> Array:
    try:
        found = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"tau: {who} gave {type(given).__name__}, expected numbers of shape "
                         f"({count}, {size})") from None
    if found.shape not in ((count, size), (1, size), (size,)):
        raise ValueError(f"tau: {who} gave numbers of shape {found.shape}, expected "
                         f"({count}, {size}), a row for each trajectory that waits")
    return np.broadcast_to(found, (count, size))


@dataclass(frozen=True)
class Asking:
    """What happens at the samples of a run whose controller is not traced."""

    ensemble: Ensemble
    least: float
    """Times no further apart are the same."""

    def answer(self, records: Array, out: Array) -> None:
        """Let all trajectories that wait go on, with the forces that Python gives."""
        waiting = np.flatnonzero(records["status"] == STATUS["waiting"])
        t = float(records["t"][waiting[0]])
        y, own = records["y"][waiting], records["own"][waiting]
        system = self.ensemble.system
        (q, qd), mine = self._rates(y, waiting), system.remembered
        assert isinstance(system.drive, Asked)
        # numbers of a trajectory's own are arrays over the batch, parameters p a row each
        scheme = system.drive.varied(system, list(own.T))
        y[:, mine] = asked(scheme, t, q, qd, y[:, mine])
        records["y"][waiting] = y
        row, times = records["next"][waiting], self.ensemble.times
        records["status"][waiting] = np.where(row == len(times), STATUS["done"],
                                              STATUS["running"])
        shown = np.abs(times[row - 1] - t) <= self.least
        out[waiting[shown], row[shown] - 1, mine] = y[shown, mine]

    def _rates(self, y: Array, rows: Array) -> tuple[Array, Array]:
        system, variation = self.ensemble.system, self.ensemble.variation
        q, v, _ = system.layout.split(y)
        q, v = np.ascontiguousarray(q), np.ascontiguousarray(v)
        name = system.velocity.rates
        if name is None:
            return q, v
        return q, (system.robot.compute(name, q, v) if variation is None else variation.taken(
            rows).compute(system.robot, name, q[:, None], v[:, None])[:, 0])
