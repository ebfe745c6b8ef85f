"""The events of one trajectory in plain Python, for integration with Python in the loop.

The rules are those of `nlink.compiler.events`, against which this is tested; a crossing is
found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nlink.compiler.events import ENDS, SHORTEST, TOUCHING
from nlink.compiler.integrator import STATUS
from nlink.simulation.system import System

Array = np.ndarray
At = Callable[[float], tuple[float, Array]]
"""The time and the state after a step of a size, all steps from one state."""
WORDS = {code: word for word, code in STATUS.items()}


@dataclass(slots=True)
class Watcher:
    """Watches a trajectory that is stepped from outside."""

    system: System
    least: float
    rows: list[tuple[float, int, Array]] = field(default_factory=list)
    """Events so far: when, which, and the state."""
    status: str = ""
    """Why the trajectory has ended, if it has."""
    _base: list[float] = field(default_factory=list)
    _begin: Array = field(default_factory=lambda: np.zeros(0))
    _impacts: dict[int, float] = field(default_factory=dict)

    def start(self, t: float, y: Array) -> None:
        """Begin at a state; outside a limit, that is the end."""
        self._base, self._begin = self._values(t, y), y.copy()
        for i, each in enumerate(self.system.watched):
            if each.trigger.bounds and self._base[i] == 0:
                self._base[i] = TOUCHING
            if each.trigger.bounds and self._base[i] < 0 and not self.status:
                self.rows.append((t, i, y.copy()))
                self.status = "limit reached"

    def step(self, at: At, size: float, end: tuple[float, Array]) -> tuple[float, Array] | None:
        """What events do to a step that leads to `end`: the time and the state from where to go
        on, or where the trajectory ends, or None if the step is as it was."""
        near = 0.0
        for far, last in (*self._lowest(at, size, end), (size, end)):
            while self._crossed(self._values(*last)):
                near = self._locate(at, near, far)
                t, y = last if near == far else at(near)
                hits = self._crossed(g := self._values(t, y))
                jump = self._act(t, y, g, hits)
                if jump is not None:
                    self._begin = jump
                    return t, jump
            near, self._base = far, self._values(*last)
        self._begin = end[1]
        return None

    def _lowest(self, at: At, size: float, end: tuple[float, Array],
                ) -> list[tuple[float, tuple[float, Array]]]:
        """The steps to the lowest points of limits that are passed and passed again within the
        step, one after the other: see `Watch.dip`."""
        nq, values, found = self.system.robot.nq, self._values(*end), set()
        for each, start, g in zip(self.system.watched, self._base, values, strict=True):
            if each.trigger.bounds and start > 0 and g > 0:
                a, last = (size * each.trigger.sign * y[nq + each.rate]
                           for y in (self._begin, end[1]))
                c = a + last - 2 * (g - start)
                b = g - start - a - c
                if a < 0 < last:
                    s = -a / (b + math.sqrt(b * b - 3 * a * c))
                    if start + s * (a + s * (b + s * c)) <= 0:
                        found.add(s * size)
        return [(x, at(x)) for x in sorted(found)]

    def _values(self, t: float, y: Array) -> list[float]:
        nq = self.system.robot.nq
        return [float(each(t, y[:nq], y[nq:])) for each in self.system.watched]

    def _crossed(self, g: list[float]) -> list[int]:
        return [i for i, (each, a, b) in enumerate(zip(
            self.system.watched, self._base, g, strict=True))
            if (each.trigger.direction >= 0 and a < 0 <= b)
            or (each.trigger.direction <= 0 and b <= 0 < a)]

    def _locate(self, at: At, near: float, far: float) -> float:
        """The size of the step that ends at the first crossing, just past it."""
        while far - near > self.least:
            middle = (near + far) / 2
            if self._crossed(self._values(*at(middle))):
                far = middle
            else:
                near = middle
        return far

    def _act(self, t: float, y: Array, g: list[float], hits: list[int]) -> Array | None:
        """Record what happens at (t, y); the state to go on from if that is another."""
        state = None
        base = [value if i not in hits else old
                for i, (value, old) in enumerate(zip(g, self._base, strict=True))]
        for i in hits:
            each = self.system.watched[i]
            if each.trigger.action == "bounce":
                if state is not None:
                    continue  # the next impact, from the next step on
                acts = [float(k == i) for k in range(len(self.system.watched))]
                state = np.array(self.system.after_impact(y.tolist(), acts))
                if t - self._impacts.get(i, -np.inf) < SHORTEST * self.least:
                    self.status = "at rest on a limit"
                self._impacts[i], base[i] = t, TOUCHING
            else:
                base[i] = g[i]
            self.rows.append((t, i, y.copy()))
            if each.trigger.action in ENDS:
                self.status = WORDS[ENDS[each.trigger.action]]
        self._base = base
        if self.status:
            return y
        if state is not None:
            after = self._values(t, state)
            self._base = [old if each.trigger.bounds else value for each, value, old in zip(
                self.system.watched, after, base, strict=True)]
        return state
