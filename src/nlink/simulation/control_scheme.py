"""The properties of a controller that a simulation needs: its state, and its sampling times.

    tau = controller(t, q, qd)                  nothing is remembered
    tau = controller(t, q, qd, x)               it has a state: `controller.state` is how many
                                                numbers, or their first values
    xdot = controller.rates(t, q, qd, x)        a state that moves with the robot's
    x+ = controller.update(t, q, qd, x)         one that changes at samples, `controller.period`
                                                seconds apart; tau is held between them

A controller with a period acts at the times begin + k period, k = 0, 1, ...: then tau and x+ are
computed from one and the same q, qd, x. `controller.delay` is the number of samples by which
tau comes late; before the first one arrives the joints get none.

The elements that this adds to the state of a simulation are its parts: x, and of sampled
controllers also `held`, the forces that act, and `queue`, those on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Node

Array = np.ndarray
Controller = Callable[..., Any]
"""tau = controller(t, q, qd), written with + - * / and the functions of nlink; its state and the
parameters that vary follow as further arguments, if there are any."""


@dataclass(frozen=True)
class StatePart:
    """Elements of a state, behind the coordinates and velocities."""

    name: str
    size: int
    discrete: bool = False
    """Whether they change at jumps only."""


def state_values(controller: Controller) -> Array:
    """The first values of a controller's state."""
    given = getattr(controller, "state", 0)
    if isinstance(given, int | np.integer):
        if given < 0:
            raise ValueError(f"tau: a controller with state = {given}, expected how many numbers "
                             "it has, or their first values")
        return np.zeros(int(given))
    values = np.array(given, dtype=float)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"tau: a controller whose state has the shape {values.shape}, expected "
                         "a number of elements, or their first values, all finite")
    return values


@dataclass(frozen=True)
class ControlScheme:
    """A controller of a robot with n rates."""

    controller: Controller
    n: int
    size: int
    """Elements of the controller's state."""
    period: float | None
    """Seconds between samples; None if it acts at all times."""
    delay: int

    @classmethod
    def of(cls, controller: Controller, n: int) -> ControlScheme:
        """A controller, checked."""
        size, period = len(state_values(controller)), getattr(controller, "period", None)
        delay = getattr(controller, "delay", 0)
        if period is not None and not (np.isfinite(period) and period > 0):
            raise ValueError(f"tau: a controller with period = {period}, expected a positive "
                             "number of seconds")
        if not (isinstance(delay, int | np.integer) and delay >= 0) or (delay and period is None):
            raise ValueError(f"tau: a controller with delay = {delay!r}, expected a whole number "
                             "of samples, of a controller that has a period")
        if period is None and getattr(controller, "sampled_only", False):
            raise ValueError("tau: a controller that sees noise and has no period, expected "
                             "Sampled(controller, period): noise is drawn at samples")
        moves, changes = (hasattr(controller, name) for name in ("rates", "update"))
        if size and period is None and not moves:
            raise ValueError("tau: a controller with a state and neither rates nor a period, "
                             "expected rates(t, q, qd, x), or update(t, q, qd, x) and a period")
        if size and period is not None and not (changes or moves or hasattr(controller, "advance")):
            raise ValueError("tau: a sampled controller with a state and no update, expected "
                             "update(t, q, qd, x)")
        return cls(controller, n, size, None if period is None else float(period), int(delay))

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """The part that it adds to the state."""
        sampled = self.period is not None
        sizes = {"x": self.size}
        if sampled:
            sizes |= {"held": self.n, "queue": self.delay * self.n}
        return tuple(StatePart(name, size, sampled) for name, size in sizes.items() if size)

    def start(self, count: int) -> Array:
        """(count, elements): the parts before the first sample."""
        values = np.zeros((count, sum(part.size for part in self.parts)))
        first = getattr(self.controller, "start", None)
        values[:, :self.size] = (state_values(self.controller) if first is None
                                 else first(np.arange(count)))
        return values

    def tau(self, t: Scalar, q: Scalars | Array, qd: Scalars | Array,
            x: Scalars | Array = ()) -> list[Scalar]:
        """Joint forces, checked: one number for each rate."""
        robot = getattr(self.controller, "robot", None)
        if robot is not None and (robot.nq, robot.n) != (len(q), len(qd)):
            raise ValueError(f"tau: a controller for {robot.name}, of {robot.nq} coordinates and "
                             f"{robot.n} rates, expected one for {len(q)} and {len(qd)}")
        return self._numbers("the controller", self.controller(*self._arguments(t, q, qd, x)),
                             self.n)

    def rates(self, t: Scalar, q: Scalars | Array, qd: Scalars | Array, x: Scalars | Array,
              ) -> list[Scalar]:
        """The rates of a state that moves."""
        change: Any = self.controller
        return self._numbers("rates of the controller",
                             change.rates(*self._arguments(t, q, qd, x)), self.size)

    def advance(self, t: Scalar, q: Scalars | Array, qd: Scalars | Array, x: Scalars | Array,
                ) -> list[Scalar]:
        """The state after a sample."""
        if not self.size:
            return []
        assert self.period is not None
        return self._numbers("update of the controller", advance(
            self.controller, self.period, *self._arguments(t, q, qd, x)), self.size)

    def sample(self, t: Scalar, q: Scalars | Array, qd: Scalars | Array, parts: Scalars | Array,
               ) -> list[Scalar]:
        """All parts after a sample."""
        x, waiting = parts[:self.size], list(parts[self.size + self.n:])
        tau = [*waiting, *self.tau(t, q, qd, x)]
        return [*self.advance(t, q, qd, x), *tau]

    def _arguments(self, t: Scalar, q: Scalars | Array, qd: Scalars | Array,
                   x: Scalars | Array) -> list[Any]:
        kind = object if isinstance(t, Node) else float
        columns = [np.array(values, dtype=kind) for values in (q, qd, x)]
        return [t, *columns[:3 if self.size else 2]]

    @staticmethod
    def _numbers(who: str, given: Any, size: int) -> list[Scalar]:
        values = [] if given is None else list(np.asarray(given, dtype=object).ravel())
        if len(values) != size:
            found = "None" if given is None else f"{len(values)} value{'s' * (len(values) != 1)}"
            raise ValueError(f"tau: {who} gave {found}, expected {size} numbers")
        return values


class OnScalars:
    """A controller written element by element: q[k] may be a number, a node, or an array over a
    batch. Others of many trajectories get arrays with the batch in front."""


def over_batch(controller: Any, function: Callable[..., Any], t: Scalar, *columns: Any) -> Any:
    """A function of a controller at one state, or at many, (batch, elements)."""
    if np.ndim(columns[0]) < 2 or not isinstance(controller, OnScalars):
        return function(t, *columns)
    found = function(t, *(list(x.T) for x in columns))
    return np.stack([np.broadcast_to(x, len(columns[0])) for x in found], axis=-1)


def advance(controller: Any, period: float, t: Scalar, q: Any, qd: Any, x: Any,
            *p: Any) -> Sequence[Scalar] | Array:
    """The state of a controller one sample later: its own update, or, where it has only rates,
    x + period * rates, Euler's rule."""
    if hasattr(controller, "advance"):
        return controller.advance(period, t, q, qd, x, *p)
    if hasattr(controller, "update"):
        return over_batch(controller, controller.update, t, q, qd, x, *p)
    return x + period * np.asarray(over_batch(controller, controller.rates, t, q, qd, x, *p))
