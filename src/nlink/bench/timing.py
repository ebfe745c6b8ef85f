"""Timings: the best of many repeats, and where they were taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.bench.bench_record import BenchRecord

if TYPE_CHECKING:
    from nlink.bench.machine_limits import MachineLimits

CPP = "Pinocchio C++ batch, 1 thread"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds for one state, by one method, of one computation on one robot."""

    robot: str
    what: str
    method: str
    seconds: float


@dataclass(slots=True)
class Bench(BenchRecord):
    """The timings of one run and where they were taken."""

    peak: float
    """Measured FMA peak of one core, FLOP/s."""
    timings: list[Timing] = field(default_factory=list)
    operations: dict[str, int] = field(default_factory=dict)
    """Arithmetic operations for one state, by "robot what"."""
    limits: list[MachineLimits] = field(default_factory=list)
    """What bounds some kernels, by "robot what"."""

    def seconds(self, robot: str, what: str, method: str) -> float | None:
        for timing in self.timings:
            if (timing.robot, timing.what, timing.method) == (robot, what, method):
                return timing.seconds
        return None

    def ratio(self, robot: str, what: str, method: str, peer: str) -> float | None:
        """How many times faster `method` is than `peer`."""
        ours, theirs = self.seconds(robot, what, method), self.seconds(robot, what, peer)
        return theirs / ours if ours and theirs else None

    def in_cpp(self, robot: str, what: str) -> float | None:
        """Pinocchio's time without Python: its C++ batch, or where it has none its call less
        what a call of inverse dynamics costs more than the batch of it."""
        direct = self.seconds(robot, what, CPP)
        call = self.seconds(robot, what, "Pinocchio call")
        known = (self.seconds(robot, "inverse_dynamics", "Pinocchio call"),
                 self.seconds(robot, "inverse_dynamics", CPP))
        if direct or not call or not known[0] or not known[1]:
            return direct
        return call - (known[0] - known[1])


def best(function: Callable[[], Any], seconds: float = 0.25) -> float:
    """The least time of one call within a budget, at least five calls."""
    function()
    least, calls, end = np.inf, 0, time.perf_counter() + seconds
    while calls < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        function()
        least, calls = min(least, time.perf_counter() - begin), calls + 1
    return least


def best_call(call: Callable[[int], Any], states: int, seconds: float = 0.25) -> float:
    """The least time of one of many single calls, states cycled, in chunks of all states."""
    def chunk() -> None:
        for k in range(states):
            call(k)

    empty = best(lambda: [None for _ in range(states)], 0.02)
    return max(best(chunk, seconds) - empty, 0.0) / states


def adder(bench: Bench, robot: str, what: str) -> Callable[[str, float], None]:
    return lambda method, t: bench.timings.append(Timing(robot, what, method, t))


def caller(function: Callable[..., Any], arguments: list[list[Any]]) -> Callable[[int], Any]:
    """A call with the k-th arguments, one lambda more than the function, for us and the peers.

    Arguments are written out as users do: a star makes a tuple and costs Python functions more
    than builtin ones.
    """
    match [*zip(*arguments, strict=True)]:
        case [a]:
            return lambda k: function(a[k])
        case [a, b]:
            return lambda k: function(a[k], b[k])
        case [a, b, c]:
            return lambda k: function(a[k], b[k], c[k])
        case [a, b, c, d]:
            return lambda k: function(a[k], b[k], c[k], d[k])
        case [a, b, c, d, e]:
            return lambda k: function(a[k], b[k], c[k], d[k], e[k])
        case _:
            return lambda k: function(*arguments[k])


def filler(function: Callable[..., Any], arguments: list[list[Any]],
           out: np.ndarray) -> Callable[[int], Any]:
    """A call with the k-th three arguments and `out`."""
    a, b, c = zip(*arguments, strict=True)
    return lambda k: function(a[k], b[k], c[k], out=out)
