"""`nlink bench --loops`: mechanisms with many loops beside Pinocchio, in one run, on one thread.

Ladders of four-bars have a closed form; nets and walkers are compared with a dense solve in
extended precision (`nlink.bench.dense_reference`). Pinocchio's `lcaba` has a cost in O(n) like ours
and a penalty, mu, that costs digits: its error is shown beside its time. Pinocchio knows loops that
hold a point or a whole frame, so the pins of a ladder are balls there; in its plane that is the
same.

What the first call of a mechanism takes, in seconds and megabytes, is measured in a process of its
own: `python -m nlink.bench.loops_bench NAME`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nlink.bench.bench_record import BenchRecord
from nlink.bench.closed_chains_bench import pinocchio_constraints, pinocchio_dynamics
from nlink.bench.dense_reference import dense_accelerations
from nlink.bench.dynamics import cpu_name, missing, versions
from nlink.bench.timing import best, best_call, caller
from nlink.engines.engines import kernel
from nlink.formats.bridges import pinocchio_order, to_pinocchio
from nlink.model.constraints import Ball
from nlink.robot import Robot
from nlink.testing.linkages import ladder, ladder_acceleration, ladder_rates, net, walker

BATCH = 256
ANGLE, RATE = 0.7, -1.3
"""Of a ladder's rods."""
PENALTY = 1e-6
"""The mu of lcaba that its documentation calls typical."""
MOST_BESIDE = 160
"""Loops beyond which Pinocchio is left out: its data of 320 take more than 20 GB."""
MECHANISMS: dict[str, Callable[[], Robot]] = {
    **{f"ladder {n}": partial(lambda n: Robot(ladder(n, ANGLE)), n)
       for n in (2, 5, 10, 20, 40, 80, 160, 320)},
    **{f"net {a}x{b}": partial(lambda a, b: Robot(net(a, b)), a, b)
       for a, b in ((4, 4), (3, 30), (30, 2), (10, 10))},
    **{f"walker {n}": partial(lambda n: Robot(walker(n)), n) for n in (2, 40)}}
HEADINGS = ("mechanism", "loops", "first call", "memory", "a state", "error", "lcaba", "its error",
            "ratio", "constraintDynamics", "ratio")


@dataclass(frozen=True, slots=True)
class LoopsLine:
    """One mechanism: times in seconds, memory in bytes, errors relative to the largest number."""

    name: str
    loops: int
    first_call: float
    memory: float
    """What the process of the first call took in all."""
    seconds: float
    """For one state, in a batch, on one thread."""
    error: float | None = None
    lcaba: float | None = None
    """A call, less what Python's part of one costs."""
    lcaba_error: float | None = None
    dense: float | None = None
    """The same of constraintDynamics."""


@dataclass(slots=True)
class LoopsBench(BenchRecord):
    """The lines of one run and where they were taken."""

    lines: list[LoopsLine] = field(default_factory=list)


def run_loops_bench(names: tuple[str, ...] = (), *, seconds: float = 0.25,
                    progress: Callable[[str], None] = lambda _message: None) -> LoopsBench:
    """All comparisons, or those of some mechanisms; `progress` is told what is measured."""
    unknown = [name for name in names if name not in MECHANISMS]
    if unknown:
        raise ValueError(f"robots: {unknown[0]!r}, expected some of {', '.join(MECHANISMS)}")
    bench = LoopsBench(cpu_name(), versions(), missing())
    for name in names or MECHANISMS:
        progress(name)
        bench.lines.append(_measured(name, MECHANISMS[name](), seconds,
                                     pinocchio="pin" not in bench.missing))
    return bench


def _measured(name: str, robot: Robot, seconds: float, *, pinocchio: bool) -> LoopsLine:
    first, memory = _first_call(name)
    q, qd, tau = _states(name, robot)
    code, out = kernel(robot.request("forward_dynamics")), [np.empty((BATCH, robot.n))]
    line = LoopsLine(name, len(robot.description.loops), first, memory,
                     best(partial(code.run, [q, qd, tau], out, BATCH, 1), seconds) / BATCH)
    found = out[0][0]
    if name.startswith("ladder"):
        loops = len(robot.description.loops)
        exact = np.array(ladder_rates(loops, ladder_acceleration(loops, ANGLE)))
    else:
        exact = dense_accelerations(robot, q[0], tau[0])
    if not pinocchio or line.loops > MOST_BESIDE or name.startswith("walker"):  # pins in space
        return replace(line, error=_relative(found, exact))
    model, order = to_pinocchio(robot.tree.description), pinocchio_order(robot.description)
    state = [np.ascontiguousarray(x) for x in (
        q[0, order.coordinates], qd[0, order.rates], tau[0, order.rates])]
    balls = Robot(replace(robot.description, loops=tuple(
        replace(loop, constraint=Ball()) for loop in robot.description.loops)))
    dense, penalized = pinocchio_dynamics(balls, model), _lcaba(balls, model)
    back = np.argsort(order.rates)
    overhead = _call_overhead(model, state, seconds)
    return replace(
        line, error=_relative(found, exact),
        lcaba_error=_relative(np.array(penalized(*state))[back], exact),
        lcaba=best_call(caller(penalized, [state] * 8), 8, seconds) - overhead,
        dense=best_call(caller(dense, [state] * 8), 8, seconds) - overhead)


def _relative(x: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(x - exact).max() / np.abs(exact).max())


def _states(name: str, robot: Robot) -> tuple[np.ndarray, ...]:
    """A batch of one closed state: of a ladder in motion, others at rest with joint forces."""
    qd, tau = np.zeros(robot.n), np.zeros(robot.n)
    if name.startswith("ladder"):
        qd = np.array(ladder_rates(len(robot.description.loops), RATE))
    else:
        tau = np.random.default_rng(0).normal(size=robot.n)
    return tuple(np.tile(x, (BATCH, 1)) for x in (robot.neutral, qd, tau))


def _lcaba(robot: Robot, model: Any) -> Callable[..., np.ndarray]:
    """qdd of Pinocchio's lcaba as a function of its own q, v and tau."""
    pin: Any = import_module("pinocchio")
    constraints, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for each in pinocchio_constraints(robot, model):
        constraints.append(each)
        datas.append(each.createData())
    data = model.createData()
    pin.computeJointMinimalOrdering(model, data, constraints)
    settings = pin.ProximalSettings(1e-12, PENALTY, 1)
    return lambda q, v, tau: pin.lcaba(model, data, q, v, tau, constraints, datas, settings)


def _call_overhead(model: Any, state: list[np.ndarray], seconds: float) -> float:
    """What Python's part of a call costs, from a function that is also offered for batches."""
    pin: Any = import_module("pinocchio")
    data, pool = model.createData(), pin.ModelPool(model, 1)
    columns = [np.asfortranarray(np.tile(x, (BATCH, 1)).T) for x in state]
    out = np.empty_like(columns[-1])
    call = best_call(caller(lambda q, v, a: pin.rnea(model, data, q, v, a), [state] * 8), 8,
                     seconds)
    alone = best(lambda: pin.rneaInParallel(1, pool, *columns, out), seconds) / BATCH
    return max(0.0, call - alone)


def _first_call(name: str) -> tuple[float, float]:
    """Seconds and bytes of a new process whose cache is empty."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run([sys.executable, "-m", __name__, name], check=True, text=True,
                              capture_output=True, env={**os.environ, "NLINK_CACHE": cache})
    seconds, memory = json.loads(done.stdout)
    return seconds, memory


def _main(name: str) -> None:
    robot = MECHANISMS[name]()
    state = robot.neutral, np.zeros(robot.n), np.zeros(robot.n)
    begin = time.perf_counter()
    robot.forward_dynamics(*state)
    taken = time.perf_counter() - begin
    print(json.dumps((taken, _peak_memory())))


def _peak_memory() -> float:
    """Bytes of this process at most. Linux's `ru_maxrss` would be that of the process which started
    this one, if that was larger; its own record begins anew."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        if "VmHWM" in lines:
            return float(lines["VmHWM"].split()[0]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _size(x: float | None, digits: str = ".1e") -> str:
    return "" if x is None else f"{x:{digits}}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e9:.0f} ns" if seconds < 1e-6 else f"{seconds * 1e6:.2f} us"


def rows(bench: LoopsBench) -> list[tuple[str, ...]]:
    """The table's rows."""
    return [(x.name, str(x.loops), f"{x.first_call:.2f} s", f"{x.memory / 2**20:.0f} MB",
             _time(x.seconds), _size(x.error), _time(x.lcaba), _size(x.lcaba_error),
             "" if x.lcaba is None else f"{x.lcaba / x.seconds:.0f}x", _time(x.dense),
             "" if x.dense is None else f"{x.dense / x.seconds:.0f}x") for x in bench.lines]


if __name__ == "__main__":
    _main(" ".join(sys.argv[1:]))
