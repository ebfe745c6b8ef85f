"""The result of `nlink.optimize`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.optimization.optimal_figure import draw
from nlink.reports import plots
from nlink.robot import Robot

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Optimized:
    """Trajectories of least cost, over the leading shape of the problems.

    `t` (knots + 1) are the times of states `q` (..., knots + 1, nq) and `qd`; the forces `u`
    (..., knots, n) are held from t[k] to t[k + 1]. `status` says how each search ended:

    - "solved";
    - "not converged": its iterations are spent;
    - "stuck": no step, however short and damped, lowers the cost;
    - "not finite": the first trajectory already runs away; another `guess` may help.

    `history` (..., iterations + 1) has the cost after each iteration, nan behind the last one of
    a problem. `gap` is the sum of what is left of gaps between knots: 0 unless the guess had some.
    """

    robot: Robot
    t: Array
    q: Array
    qd: Array
    u: Array
    cost: Array
    status: Array
    solved: Array
    iterations: Array
    history: Array
    gap: Array
    parameters: Array
    """The numbers of each problem that its costs were given."""
    search: Callable[..., Optimized]
    """Solves the same task from other states."""

    def again(self, q0: ArrayLike | None = None, qd0: ArrayLike | None = None, *,
              parameters: ArrayLike | None = None, guess: Any = None) -> Optimized:
        """The same task from other states, or with other parameters: nothing is traced.

        >>> import nlink
        >>> arm = nlink.load("planar3")
        >>> found = nlink.optimize(arm, lambda q, qd, u: q @ q + qd @ qd + 1e-3 * (u @ u),
        ...     q0=[0.1, 0.2, 0.3], horizon=0.2)
        >>> found.again([[0.0, 0.1, 0.2], [0.3, 0.2, 0.1]], guess=found)
        <Optimized: 2 solved, 20 knots, costs from 0.0503 to 0.0606>
        """
        if q0 is None:
            q0, qd0 = self.q[..., 0, :], self.qd[..., 0, :] if qd0 is None else qd0
        return self.search(q0, qd0, self.parameters if parameters is None else np.atleast_1d(
            np.asarray(parameters, dtype=float)), guess)

    def __repr__(self) -> str:
        names, counts = np.unique(np.asarray(self.status, dtype=str), return_counts=True)
        ends = ", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True))
        costs = np.ravel(self.cost)[np.isfinite(np.ravel(self.cost))]
        span = "" if not costs.size else (
            f", cost {costs[0]:.3g}" if costs.size == 1 else
            f", costs from {costs.min():.3g} to {costs.max():.3g}")
        return f"<Optimized: {ends or 'no problems'}, {len(self.t) - 1} knots{span}>"

    def __bool__(self) -> bool:
        """Whether every problem is solved."""
        return bool(np.all(self.solved))

    def save(self, path: str | Path) -> None:
        """Write times, states and forces: arrays of .npz, or rows of .csv (a single problem; the
        last forces are those of the knot before)."""
        path = Path(path)
        if path.suffix == ".npz":
            np.savez(path, t=self.t, q=self.q, qd=self.qd, u=self.u, cost=self.cost)
            return
        if path.suffix != ".csv" or np.ndim(self.cost):
            raise ValueError(f"path: {str(path)!r}, expected .npz, or .csv of a single problem")
        u = np.concatenate([self.u, self.u[-1:]])
        names = ["t", *self.robot.q_names, *(f"qd {x}" for x in self.robot.qd_names),
                 *(f"u {x}" for x in self.robot.qd_names)]
        np.savetxt(path, np.column_stack([self.t, self.q, self.qd, u]), delimiter=",",
                   header=",".join(names), comments="", fmt="%.17g")

    def plot(self, path: str | Path | None = None) -> object:
        """A figure with the cost over the iterations, and coordinates and forces over time, of
        the problem or the first ones of a batch; written to `path` if given (.png, .svg, .pdf)."""
        figure = draw(self)
        if path is not None:
            plots.save(figure, path)
        return figure
