"""`nlink bench --simulation`: integration beside SciPy around Pinocchio, and MuJoCo.

Free fall of one arm at one tolerance. The motion is chaotic, so errors are compared at 2 s,
against a run at the tightest tolerance; times are for 10 s. Every time is the best of
several runs, all in one process, alternating. The stiff motion is that of the arm on springs and
dampers, beside SciPy's Radau around the same compiled rates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from nlink.bench.bench_record import BenchRecord
from nlink.bench.dynamics import cpu_name, missing, versions
from nlink.formats.bridges import to_pinocchio
from nlink.formats.mjcf_writer import to_mjcf
from nlink.model.names import plain
from nlink.robot import Robot, load
from nlink.scalars.functions import sin
from nlink.simulation.simulator import simulate

RTOL, ATOL = 1e-9, 1e-12
SPAN, CHECK, EVERY = 10.0, 2.0, 0.1
ENSEMBLE, STEP = 1000, 1e-3
SPRING, DAMPER = 1e6, 1e5
"""On every joint, in N m/rad and N m s/rad: rates of 10 per second and of millions."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison: seconds of ours and of a peer for the same work, and both errors."""

    what: str
    ours: float
    peer: str
    theirs: float | None
    error: float | None = None
    peer_error: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.theirs / self.ours if self.theirs else None


@dataclass(slots=True)
class SimulationBench(BenchRecord):
    """The lines of one run and where they were taken."""

    lines: list[Comparison] = field(default_factory=list)

    def derived(self) -> dict[str, Any]:
        return {"lines": [asdict(line) | {"ratio": line.ratio} for line in self.lines]}


def run_simulation_bench(name: str = "puma560", *, repeats: int = 5,
                         progress: Callable[[str], None] = lambda _message: None,
                         ) -> SimulationBench:
    """All comparisons; `progress` is told what is being measured."""
    bench = SimulationBench(cpu_name(), versions(), missing())
    robot, name = load(name, physical="ignore"), plain(name)
    rest = np.zeros(robot.n)
    exact = simulate(robot, rest, t=[0.0, CHECK], method="dop853", rtol=1e-13, atol=1e-15).q[-1]
    progress("one trajectory")
    theirs, peer_error = _scipy(bench, robot, rest, exact, repeats)
    for method in ("dop853", "rkf45"):
        def one(method: str = method) -> Any:
            return simulate(robot, rest, t=SPAN, every=EVERY, method=method, rtol=RTOL, atol=ATOL)

        ours, run = _best(one, 3 * repeats)
        error = float(np.abs(run.q[round(CHECK / EVERY)] - exact).max())
        bench.lines.append(Comparison(
            f"{name}, one trajectory of {SPAN:g} s, {method}", ours,
            "SciPy DOP853 around pin.aba", theirs, error, peer_error))
    progress(f"an ensemble of {ENSEMBLE}")
    q0 = np.random.default_rng(0).normal(scale=0.1, size=(ENSEMBLE, robot.n))
    for method in ("dop853",):
        def many(method: str = method) -> Any:
            return simulate(robot, q0, t=SPAN, every=EVERY, method=method, rtol=RTOL, atol=ATOL,
                            threads=2, progress=False)

        ours, _ = _best(many, repeats)
        bench.lines.append(Comparison(
            f"{name}, one of {ENSEMBLE} trajectories, {method}, two threads", ours / ENSEMBLE,
            "SciPy DOP853 around pin.aba", theirs))
    progress("fixed steps")
    steps = round(1.0 / STEP)

    def fixed() -> Any:
        return simulate(robot, q0, t=1.0, every=0.1, method="rk4", step=STEP, threads=1,
                        progress=False)

    ours, _ = _best(fixed, repeats)
    bench.lines.append(Comparison(
        f"{name}, one RK4 step of {STEP * 1e3:g} ms, ensemble, one thread",
        ours / ENSEMBLE / steps, "mujoco.rollout, RK4", _mujoco(bench, robot, steps)))
    progress("a stiff motion")
    bench.lines.append(_stiff(robot, name, repeats))
    return bench


def _stiff(robot: Robot, name: str, repeats: int) -> Comparison:
    """Joints that springs and dampers pull along."""

    def pulled(t: Any, q: Any, qd: Any) -> list[Any]:
        return [SPRING * (0.3 * sin(2 * t) - x) - DAMPER * v for x, v in zip(q, qd, strict=True)]

    def run(method: str, tight: float = 1.0) -> Any:
        return simulate(robot, np.zeros(robot.n), t=CHECK, every=EVERY, tau=pulled, method=method,
                        rtol=RTOL * tight, atol=ATOL * tight)

    exact = run("rodas5p", 1e-2).q[-1]
    ours, mine = _best(lambda: run("rodas5p"), 3 * repeats)
    theirs, other = _best(lambda: run("radau"), 1)
    error, peer_error = (float(np.abs(each.q[-1] - exact).max()) for each in (mine, other))
    return Comparison(f"{name}, stiff springs, {CHECK:g} s, rodas5p", ours,
                      "SciPy Radau around nlink", theirs, error, peer_error)


def _best(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    call()
    least, result = np.inf, None
    for _ in range(repeats):
        begin = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - begin)
    return least, result


def _scipy(bench: SimulationBench, robot: Robot, q0: np.ndarray, exact: np.ndarray,
           repeats: int) -> tuple[float | None, float | None]:
    try:
        pin: Any = import_module("pinocchio")
        from scipy.integrate import solve_ivp
    except ImportError:
        bench.missing.append("scipy around pin")
        return None, None
    model = to_pinocchio(robot.description)
    data, n, still = model.createData(), robot.n, np.zeros(robot.n)

    def rates(_t: float, y: np.ndarray) -> np.ndarray:
        return np.concatenate([y[n:], pin.aba(model, data, y[:n], y[n:], still)])

    times = np.linspace(0.0, SPAN, round(SPAN / EVERY) + 1)
    seconds, result = _best(lambda: solve_ivp(
        rates, (0.0, SPAN), np.concatenate([q0, still]), "DOP853", times, rtol=RTOL, atol=ATOL),
        repeats)
    return seconds, float(np.abs(result.y[:n, round(CHECK / EVERY)] - exact).max())


def _mujoco(bench: SimulationBench, robot: Robot, steps: int) -> float | None:
    """Seconds for one step of MuJoCo's own RK4 in its own rollout."""
    if "mujoco" in bench.missing:
        return None
    mujoco: Any = import_module("mujoco")
    rollout: Any = import_module("mujoco.rollout")
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot.description))
    model.opt.timestep = STEP
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    data = mujoco.MjData(model)
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    state = np.zeros((4, size))
    seconds, _ = _best(lambda: rollout.rollout(model, data, state, nstep=steps), 3)
    return seconds / 4 / steps


def rows(bench: SimulationBench) -> list[tuple[str, ...]]:
    """What a table shows: what, ours, beside, theirs, ratio, errors at 2 s."""
    shown = []
    for line in bench.lines:
        theirs = "" if line.theirs is None else _seconds(line.theirs)
        ratio = "missing" if line.ratio is None else f"{line.ratio:.0f}x"
        errors = "" if line.error is None else f"{line.error:.0e} / {line.peer_error or 0:.0e}"
        shown.append((line.what, _seconds(line.ours), line.peer, theirs, ratio, errors))
    return shown


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


HEADINGS = ("what", "nlink", "beside", "its time", "ratio", "errors at 2 s")
