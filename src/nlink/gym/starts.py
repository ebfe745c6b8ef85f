"""Where robots start: states that never change, that are drawn, or that a function makes of those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nlink.derivatives.traced_functions import function
from nlink.gym.draws import drawn, is_draw
from nlink.robot import Robot
from nlink.scalars.arrays import batch

Array = np.ndarray


class Start:
    """States to start from: `q` and `qd` are arrays, or draws, or None; `reset`, a traced function
    of q, qd and p, if there is one, makes the states of what was drawn."""

    def __init__(self, robot: Robot, q: Any, qd: Any, reset: Callable[..., Any] | None,
                 parameters: int) -> None:
        self._robot, self._q, self._qd = robot, q, qd
        self.change = None
        if reset is not None:
            self.change = self._traced(reset, parameters)

    def _traced(self, reset: Callable[..., Any], parameters: int) -> Any:
        robot = self._robot

        def state(q: Array, qd: Array, p: Array) -> Array:
            given = (q, qd, p) if parameters else (q, qd)
            found = reset(*given)
            if not (isinstance(found, tuple | list) and len(found) == 2):
                raise ValueError("reset: expected a pair q, qd, the state to start from")
            values = [np.asarray(x, object).ravel() for x in found]
            if [len(x) for x in values] != [robot.nq, robot.n]:
                raise ValueError(f"reset: {len(values[0])} and {len(values[1])} numbers, expected "
                                 f"q of {robot.nq} and qd of {robot.n}")
            return np.concatenate(values)

        return function(state, robot.nq, robot.n, max(1, parameters))

    def changed(self, states: Array, p: Array) -> Array:
        """What `reset` makes of states (rows, nq + n)."""
        assert self.change is not None
        nq = self._robot.nq
        if not p.shape[1]:
            p = np.zeros((len(states), 1))
        return self.change(states[:, :nq], states[:, nq:], p)

    def drawn(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """q and qd of so many robots."""
        robot = self._robot
        return (self._part("q", self._q, robot.neutral, rng, count),
                self._part("qd", self._qd, np.zeros(robot.n), rng, count))

    @staticmethod
    def _part(name: str, given: Any, default: Array, rng: np.random.Generator, count: int) -> Array:
        if is_draw(given):
            return drawn(name, given, rng, count, len(default))
        values = batch(name, default if given is None else given, (len(default),))
        if values.ndim > 1:
            raise ValueError(f"{name}: shape {values.shape}, expected ({len(default)},), or a draw "
                             "such as nlink.gym.Uniform(low, high)")
        return np.broadcast_to(values, (count, len(default)))
