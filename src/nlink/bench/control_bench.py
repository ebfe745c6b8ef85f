"""`nlink bench --control`: optimal control beside crocoddyl, on one thread.

A Panda takes its hand to points near the first ones, 100 knots of 10 ms, from many random starts;
so does a Talos on a stand, 50 knots.
crocoddyl solves the same problems one after the other (`crocoddyl_peer`), by CPU time of its
solver; it runs in the Python that the environment variable NLINK_CROCODDYL names (a path), or in
this one: pip's crocoddyl needs libpinocchio 4.0.0. Costs count as the same within 1e-6.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nlink.backends.llvm.threads import threads
from nlink.bench.bench_robots import example_robot
from nlink.bench.dynamics import cpu_name, versions
from nlink.bench.machine_limits import fma_peak
from nlink.formats.load import load_description
from nlink.formats.urdf_writer import to_urdf
from nlink.optimization.mpc import mpc
from nlink.optimization.optimize import optimize
from nlink.optimization.optimized import Optimized
from nlink.robot import Robot, load
from nlink.simulation.stepper import Stepper

Array = np.ndarray
KNOTS, STEP, TOLERANCE = 100, 0.01, 1e-9
HUMANOID, HAND, HUMANOID_KNOTS, HUMANOIDS = "talos_reduced.urdf", "arm_left_7_link", 50, 64
STARTS, ROBOTS, AHEAD, MPC_STEPS = 1000, 1000, 0.2, 60
MIDDLE = (0.0, -0.4, 0.0, -2.0, 0.0, 1.8, 0.7)
GOAL = (0.35, 0.35, 0.35)
LIMITS = (20.0, 40.0, 20.0, 30.0, 6.0, 4.0, 2.0)
"""Bounds on joint forces that act on many of the starts."""
WEIGHTS = {"goal": 1.0, "state": 1e-2, "force": 1e-4, "last_goal": 1e3, "last_state": 1e-2,
           "last_rate": 100.0}
HEADINGS = ("what", "solved", "iterations", "a problem", "crocoddyl", "its iterations",
            "times as fast", "costs")
VARIABLE = "NLINK_CROCODDYL"


@dataclass(slots=True)
class ControlLine:
    """One row: seconds of a solved problem, here and there."""

    what: str
    problems: int
    solved: int
    iterations: float
    seconds: float
    peer_seconds: float | None = None
    peer_solved: int = 0
    peer_iterations: float = 0.0
    same: int = 0
    better: int = 0
    worse: int = 0
    compared: int = 0


@dataclass(slots=True)
class ControlBench:
    """The lines of one run and where they were taken."""

    cpu: str
    versions: dict[str, str]
    peak: float
    """Measured FMA peak of one core, FLOP/s."""
    crocoddyl: str = ""
    lines: list[ControlLine] = field(default_factory=list)
    robot_steps: float = 0.0
    """Steps of one robot that model predictive control makes in a second."""
    lost: int = 0
    """Robots that it lost."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


@dataclass(frozen=True)
class Reach:
    """The problems."""

    robot: Robot
    q0: Array
    goal: Array
    frame: str
    knots: int = KNOTS

    @staticmethod
    def of_talos(count: int) -> Reach | None:
        """A Talos on a stand, without friction, whose left hand reaches; None if its file is not
        installed."""
        path = example_robot(HUMANOID)
        if path is None:
            return None
        robot = Robot(load_description(path, physical="ignore")).with_friction(viscous=0.0, dry=0.0)
        rng = np.random.default_rng(0)
        q0 = rng.uniform(-0.1, 0.1, (count, robot.n))
        goal = robot.pose(0 * q0[0], HAND)[:3, 3] + [0.1, 0.05, 0.1] + rng.uniform(
            -0.05, 0.05, (count, 3))
        return Reach(robot, q0, goal, HAND, HUMANOID_KNOTS)

    @staticmethod
    def of_panda(count: int) -> Reach:
        robot, rng = load("panda"), np.random.default_rng(0)
        q0 = MIDDLE + rng.uniform(-0.3, 0.3, (count, robot.n))
        goal = GOAL + rng.uniform(-0.1, 0.1, (count, 3))
        q0[0], goal[0] = MIDDLE, GOAL
        return Reach(robot, q0, goal, robot.links[-1].name)

    def cost(self, q: Any, qd: Any, u: Any, p: Any) -> Any:
        w = WEIGHTS
        return np.concatenate([
            w["goal"] ** 0.5 * (self.robot.pose(q, self.frame)[:3, 3] - p[:3]),
            w["state"] ** 0.5 * (q - p[3:]), w["state"] ** 0.5 * qd, w["force"] ** 0.5 * u])

    def final(self, q: Any, qd: Any, p: Any) -> Any:
        w = WEIGHTS
        return np.concatenate([
            w["last_goal"] ** 0.5 * (self.robot.pose(q, self.frame)[:3, 3] - p[:3]),
            w["last_state"] ** 0.5 * (q - p[3:]),
            (w["last_state"] * w["last_rate"]) ** 0.5 * qd])

    def solved(self, effort: Any) -> Optimized:
        return optimize(self.robot, self.cost, self.q0, horizon=self.knots * STEP, step=STEP,
                        final=self.final, effort=effort, tolerance=TOLERANCE,
                        parameters=np.concatenate([self.goal, self.q0], axis=-1))

    def by_crocoddyl(self, effort: Any, count: int, repeats: int = 1) -> dict[str, Any] | None:
        """What `crocoddyl_peer` finds for the first problems; None where it is not installed."""
        asked = {
            "urdf": to_urdf(self.robot.description), "floating": False,
            "frame": self.frame, "weights": WEIGHTS, "step": STEP, "knots": self.knots,
            "q0": self.q0[:count].tolist(), "goal": self.goal[:count].tolist(),
            "u0": self.robot.gravity_torque(self.q0[:count]).tolist(),
            "effort": None if effort is None else list(effort), "tolerance": TOLERANCE,
            "solver": "SolverFDDP" if effort is None else "SolverBoxFDDP", "repeats": repeats,
            "iterations": 100}
        done = subprocess.run(
            [os.environ.get(VARIABLE, sys.executable), str(Path(__file__).with_name(
                "crocoddyl_peer.py"))], input=json.dumps(asked), text=True, capture_output=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}, check=False)
        if done.returncode:
            if "No module named" in done.stderr:
                return None
            raise RuntimeError(f"crocoddyl: {done.stderr.strip()[-500:]}")
        return json.loads(done.stdout)


def run_control_bench(*, seconds: float = 1.0, starts: int = STARTS, robots: int = ROBOTS,
                      progress: Callable[[str], None] = lambda _message: None) -> ControlBench:
    """All rows; `progress` is told what is measured."""
    before = threads()
    threads(1)
    try:
        bench = ControlBench(cpu_name(), versions(), fma_peak())
        many = Reach.of_panda(starts)
        one = Reach(many.robot, many.q0[:1], many.goal[:1], many.frame)
        tasks: list[tuple[str, Reach, Any, int]] = [
            (f"Panda, {starts} starts", many, None, 1), ("Panda, one", one, None, 5),
            (f"Panda, bounds on forces, {starts} starts", many, LIMITS, 1)]
        talos = Reach.of_talos(HUMANOIDS)
        if talos is not None:
            tasks.append((f"Talos on a stand, {talos.robot.n} rates", talos, None, 1))
        for what, reach, effort, repeats in tasks:
            progress(what)
            bench.lines.append(_line(bench, what, reach, effort, seconds, repeats))
        progress("model predictive control")
        bench.robot_steps, bench.lost = _predictive(robots)
    finally:
        threads(before)
    return bench


def _line(bench: ControlBench, what: str, reach: Reach, effort: Any, seconds: float,
          repeats: int) -> ControlLine:
    found = reach.solved(effort)
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or best == np.inf:
        begin = time.thread_time()
        found.again()
        best = min(best, time.thread_time() - begin)
    solved, count = int(found.solved.sum()), len(reach.q0)
    line = ControlLine(what, count, solved, float(found.iterations.mean()), best / max(1, solved))
    peer = reach.by_crocoddyl(effort, count, repeats)
    if peer is not None:
        bench.crocoddyl = peer["version"]
        theirs, done = np.array(peer["cost"]), np.array(peer["solved"])
        line.peer_solved = int(done.sum())
        line.peer_seconds = sum(peer["seconds"]) / max(1, line.peer_solved)
        line.peer_iterations = float(np.mean(peer["iterations"]))
        both = done & found.solved
        more = (found.cost - theirs)[both] / theirs[both]
        line.compared, line.same = int(both.sum()), int((abs(more) <= 1e-6).sum())
        line.better, line.worse = int((more < -1e-6).sum()), int((more > 1e-6).sum())
    return line


def _predictive(robots: int) -> tuple[float, int]:
    """Steps of a robot in a second, and robots that did not come to their goals."""
    reach = Reach.of_panda(robots)
    robot, middle = reach.robot, np.array(MIDDLE)

    def cost(q: Any, qd: Any, u: Any, p: Any) -> Any:
        return np.concatenate([3.0 * (robot.pose(q)[:3, 3] - p), 0.3 * qd, 0.01 * u,
                               0.1 * (q - middle)])

    def final(q: Any, qd: Any, p: Any) -> Any:
        return np.concatenate([10.0 * (robot.pose(q)[:3, 3] - p), qd, 0.1 * (q - middle)])

    controller = mpc(robot, cost, AHEAD, STEP, final, "limit", parameters=reach.goal)
    world = Stepper(robot, reach.q0, step=STEP, method="semi_implicit")
    taken = []
    for _ in range(MPC_STEPS + 40):
        begin = time.thread_time()
        tau = controller(world.t, world.q, world.qd)
        taken.append(time.thread_time() - begin)
        world.step(tau)
    away = np.linalg.norm(robot.pose(world.q)[:, :3, 3] - reach.goal, axis=-1)
    # the first step makes the plans
    return robots / float(np.median(taken[1:])), int((~(away < 0.02)).sum())


def rows(bench: ControlBench) -> list[tuple[str, ...]]:
    """The lines as texts, in the order of `HEADINGS`."""
    return [(x.what, f"{x.solved} of {x.problems}", f"{x.iterations:.1f}", _time(x.seconds),
             *(("", "", "", "") if x.peer_seconds is None else (
                 _time(x.peer_seconds), f"{x.peer_iterations:.1f}, {x.peer_solved} solved",
                 f"{x.peer_seconds / x.seconds:.1f}x",
                 f"{x.same} the same, {x.better} lower, {x.worse} higher")))
            for x in bench.lines]


def below(bench: ControlBench) -> str:
    """What the table has no columns for."""
    peer = (f"crocoddyl {bench.crocoddyl}" if bench.crocoddyl else
            f"crocoddyl is not installed; {VARIABLE} may name a Python that has it")
    return (f"model predictive control, {AHEAD / STEP:.0f} knots, one iteration a step: "
            f"{bench.robot_steps:,.0f} steps of a robot in a second, {bench.lost} lost; "
            f"{bench.cpu}, FMA peak {bench.peak / 1e9:.0f} GFLOP/s, one thread; {peer}")


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds < 1.0 else f"{seconds:.2f} s"
