"""Trajectories of one system: where they start, when they are recorded, and their numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nlink.iterations.integration import Method
from nlink.robot import Robot
from nlink.scalars.arrays import batch, common_type
from nlink.scalars.lazy import lazy
from nlink.simulation.closing import closed_start
from nlink.simulation.doubts import tell_of_start
from nlink.simulation.drives import Untraced
from nlink.simulation.prescribed_loops import closed_around
from nlink.simulation.setting import Saving, Solver, output_times
from nlink.simulation.system import System
from nlink.simulation.variation import Variation

Array = np.ndarray


@dataclass(frozen=True)
class Ensemble:
    """Trajectories of one system, as its method integrates it: where they start and their numbers.
    """

    system: System
    method: Method
    lead: tuple[int, ...]
    y0: Array
    """(count, nq + n)"""
    unclosed: Array
    """(count,): whose loops do not close, so that they never start."""
    times: Array
    table: Array | None
    """(count or 1, times, columns): joint forces, if they are in it, then wrenches."""
    variation: Variation | None
    """Values of (*lead, width)."""
    step: float
    """The size of steps, or of the first; 0 if it is to be found."""
    dtype: str = "float64"
    """What rates are computed in, and states are given back in."""

    @staticmethod
    def of(system: System, q0: ArrayLike | None, qd0: ArrayLike | None, solver: Solver,
           saving: Saving) -> Ensemble:
        """The trajectories of a system from some states, checked."""
        robot, numbers, method = system.robot, system.numbers, solver.integrator
        times, dtype = output_times(saving.t, saving.every), _dtype(system, method, q0, qd0)
        q = batch("q0", robot.neutral if q0 is None else q0, (robot.nq,))
        qd = batch("qd0", np.zeros(robot.n) if qd0 is None else qd0, (robot.n,))
        table = numbers.table(len(times))
        shapes = {"q0": q.shape[:-1], "qd0": qd.shape[:-1]} | numbers.leading_shapes()
        try:
            lead = np.broadcast_shapes(*shapes.values())
        except ValueError:
            raise ValueError("leading shapes do not broadcast: "
                             f"{', '.join(f'{k} {v}' for k, v in shapes.items())}") from None
        y0 = np.concatenate([np.broadcast_to(q, (*lead, robot.nq)),
                             np.broadcast_to(qd, (*lead, robot.n))], axis=-1)
        y0 = np.ascontiguousarray(y0.reshape(-1, robot.nq + robot.n))
        if table is not None:
            whole = table.shape[:-2] == () or np.prod(table.shape[:-2]) == 1
            rows = table.shape[-2:]
            table = np.ascontiguousarray(table.reshape(1, *rows) if whole else np.broadcast_to(
                table, (*lead, *rows)).reshape(-1, *rows))
        step, variation = solver.first_step(saving.every), numbers.variation
        own = np.empty((len(y0), 0)) if variation is None else variation.spread(
            lead).values.reshape(len(y0), system.varied.width)
        y0, unclosed = placed(system, y0, own, float(times[0]))
        tell_of_start(robot, y0[:, :robot.nq], limited=system.limited)
        return Ensemble(system.under(method), method, lead, y0, unclosed, times, table,
                        None if variation is None else variation.spread(lead), step, dtype)

    @property
    def robot(self) -> Robot:
        return self.system.robot

    @property
    def own(self) -> Array:
        """(count, width): what each trajectory has of its own."""
        return (np.empty((len(self.y0), 0)) if self.variation is None
                else self.variation.values.reshape(len(self.y0), self.system.varied.width))

    @lazy
    def initial(self) -> Array:
        """The states to start from, with the velocities that are integrated in place of qd."""
        nq, y, velocity = self.robot.nq, self.y0.copy(), self.system.velocity
        if velocity.velocities is not None:
            y[:, nq:] = self._compute(velocity.velocities, y[:, :nq], y[:, nq:])
        elif velocity.rates is not None:
            M = self._compute("mass_matrix", y[:, :nq])
            y[:, nq:] = np.einsum("nij,nj->ni", M, y[:, nq:])
        return y

    def _compute(self, name: str, *columns: Array) -> Array:
        """An algorithm on one state of each trajectory, each with its own mechanism."""
        if self.variation is None:
            return self.robot.compute(name, *columns)
        each = self.variation.taken(slice(None))
        return each.compute(self.robot, name, *(x[:, None] for x in columns))[:, 0]

    def inputs(self, trajectory: Array, t: Array) -> Array:
        """What the programs of a simulation have as inputs at some times of trajectories."""
        own = self.own[trajectory]
        if self.table is None:
            return own
        k = np.clip(np.searchsorted(self.times, t) - 1, 0, len(self.times) - 2)
        row = trajectory if len(self.table) > 1 else np.zeros_like(trajectory)
        return np.concatenate([self.times[k, None], self.times[k + 1, None], self.table[row, k],
                               self.table[row, k + 1], own], axis=1)


def _dtype(system: System, method: Method, *states: ArrayLike | None) -> str:
    """What rates are computed in: float32 for states of float32 and steps that no error chooses.

    Tables stand at times, whose differences seven digits do not tell, and forces of contacts are
    solved for to more of them.
    """
    double = (method.adaptive or method.needs or system.columns or system.contacts is not None
              or isinstance(system.drive, Untraced))
    given = [x for x in states if x is not None]
    return "float64" if double else common_type(given).name


def placed(system: System, y: Array, own: Array, begin: float) -> tuple[Array, Array]:
    """States (count, nq + n) to start from: in their spaces, where motions that are given begin,
    and closed; and which of them do not close."""
    robot, motion, y = system.robot, system.motion, unit_states(system.robot, y)
    if motion is None:
        return closed_start(robot, y)
    y = motion.start(system, y, own, begin)
    if not robot.mechanism.closed:
        return y, np.zeros(len(y), dtype=bool)
    return closed_around(system, y, own, begin)


def unit_states(robot: Robot, y: Array) -> Array:
    """States with q brought into its space: quaternions of any length but zero, made unit."""
    y, nq = y.copy(), robot.nq
    if robot.mechanism.space.flat:
        return y
    with np.errstate(all="ignore"):
        for k, x in enumerate(robot.mechanism.space.normalize(tuple(y[:, :nq].T.copy()))):
            y[:, k] = x
    return y
