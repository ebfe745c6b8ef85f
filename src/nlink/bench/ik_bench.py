"""`nlink bench --ik`: inverse kinematics beside peers, the same targets and tolerance.

Targets are poses of configurations at random within the limits, so all can be reached; every
solver starts cold. What counts is the number of targets solved a second, on one core.
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
from nlink.kinematics.inverse_kinematics import ik
from nlink.kinematics.steps import Reaching
from nlink.model.names import plain
from nlink.robot import Robot, load

TOLERANCE = 1e-6
TARGETS, PEER_TARGETS = 4096, 200
ROBOTS = ("panda", "ur5", "puma560")
HEADINGS = ("what", "targets", "solved", "a target", "targets solved a second", "ratio")


@dataclass(frozen=True, slots=True)
class SolverLine:
    """One solver on one robot."""

    robot: str
    solver: str
    targets: int
    solved: float
    """The share of them."""
    seconds: float
    """For one target."""

    @property
    def rate(self) -> float:
        return self.solved / self.seconds


@dataclass(slots=True)
class ReachingBench(BenchRecord):
    """The lines of one run and where they were taken."""

    lines: list[SolverLine] = field(default_factory=list)

    def derived(self) -> dict[str, Any]:
        return {"lines": [asdict(line) | {"rate": line.rate} for line in self.lines]}


def run_ik_bench(names: tuple[str, ...] = ROBOTS, *, targets: int = TARGETS, repeats: int = 5,
                 progress: Callable[[str], None] = lambda _message: None) -> ReachingBench:
    """All comparisons; `progress` is told what is being measured."""
    bench = ReachingBench(cpu_name(), versions(), missing())
    peers = {"Pinocchio, damped least squares in Python": _pinocchio,
             "Robotics Toolbox ik_LM": _toolbox}
    for name in names:
        robot, shown = load(name, physical="ignore"), plain(name)
        progress(shown)
        lower, upper = Reaching(robot, (), posture=False).ranges()
        q = np.random.default_rng(0).uniform(lower, upper, (targets, robot.n))
        q = q + np.array(robot.mechanism.space.neutral)
        T = robot.pose(q)
        found, least = ik(robot, T), np.inf  # the first call compiles, and is not measured
        for _ in range(repeats):
            begin = time.perf_counter()
            found = ik(robot, T, tolerance=TOLERANCE, threads=1)
            least = min(least, time.perf_counter() - begin)
        bench.lines.append(SolverLine(shown, "nlink.ik", targets, float(found.solved.mean()),
                                      least / targets))
        for peer, measure in peers.items():
            progress(f"{shown}, {peer}")
            try:
                solve = measure(robot, lower, upper)
            except ImportError:
                if peer not in bench.missing:
                    bench.missing.append(peer)
                continue
            count, few = 0, T[:PEER_TARGETS]
            begin = time.perf_counter()
            for each in few:
                count += _fulfils(robot, solve(each), each)
            bench.lines.append(SolverLine(shown, peer, len(few), count / len(few),
                                          (time.perf_counter() - begin) / len(few)))
    return bench


def _fulfils(robot: Robot, q: np.ndarray | None, T: np.ndarray) -> bool:
    if q is None:
        return False
    error = robot.pose(q) - T
    return bool(np.linalg.norm(error[:3, 3]) <= 1.01 * TOLERANCE
                and np.linalg.norm(error[:3, :3]) <= 1.01 * np.sqrt(2) * TOLERANCE)


def _pinocchio(robot: Robot, lower: np.ndarray, upper: np.ndarray) -> Callable[..., Any]:
    """The loop that Pinocchio's users write: damped least squares, clamped, with restarts."""
    pin: Any = import_module("pinocchio")
    model = to_pinocchio(robot.description)
    data, rng = model.createData(), np.random.default_rng(1)
    tip = model.njoints - 1
    q0 = np.zeros(robot.n)
    offset = pin.SE3(np.linalg.inv(pin.SE3(*_joint(pin, model, data, q0, tip)).homogeneous)
                     @ robot.pose(q0))

    def solve(T: np.ndarray) -> np.ndarray | None:
        target = pin.SE3(T) * offset.inverse()
        for _ in range(30):
            q = rng.uniform(lower, upper)
            for _ in range(50):
                pin.forwardKinematics(model, data, q)
                error = data.oMi[tip].actInv(target)
                e = pin.log6(error).vector
                if np.linalg.norm(e[:3]) <= TOLERANCE and np.linalg.norm(e[3:]) <= TOLERANCE:
                    return q
                J = pin.computeJointJacobian(model, data, q, tip)
                damping = 1e-2 * float(e @ e) + 1e-9
                q = np.clip(q + J.T @ np.linalg.solve(J @ J.T + damping * np.eye(6), e), lower,
                            upper)
        return None

    return solve


def _joint(pin: Any, model: Any, data: Any, q: np.ndarray, joint: int) -> tuple[Any, Any]:
    pin.forwardKinematics(model, data, q)
    place = data.oMi[joint]
    return place.rotation, place.translation


def _toolbox(robot: Robot, lower: np.ndarray, upper: np.ndarray) -> Callable[..., Any]:
    """Robotics Toolbox's solver in C++, on a chain of elementary transforms of the same arm."""
    toolbox: Any = import_module("roboticstoolbox")
    base: Any = import_module("spatialmath")
    links, before = [], np.eye(4)
    zero = np.zeros(robot.n)
    moving = [k for k, joint in enumerate(robot.joints, 1) if joint.type.nv]
    for number, k in enumerate(moving):
        joint = robot.joints[k - 1]
        here = robot.pose(zero, joint.parent) @ joint.placement.before.matrix
        axis = here[:3, :3] @ np.array(joint.type.axis)
        frame = np.eye(4)
        z = axis / np.linalg.norm(axis)
        x = np.linalg.svd(z[None])[2][-1]
        frame[:3, :3], frame[:3, 3] = np.column_stack([x, np.cross(z, x), z]), here[:3, 3]
        step = toolbox.ET.SE3(base.SE3(np.linalg.inv(before) @ frame, check=False))
        links.append(step * toolbox.ET.Rz(jindex=number))
        before = frame
    chain = links[0]
    for link in links[1:]:
        chain = chain * link
    chain = chain * toolbox.ET.SE3(base.SE3(np.linalg.inv(before) @ robot.pose(zero), check=False))
    chain.qlim = np.array([lower, upper])

    def solve(T: np.ndarray) -> np.ndarray:
        return chain.ik_LM(T, tol=1e-13, ilimit=30, slimit=100)[0]

    return solve


def rows(bench: ReachingBench) -> list[tuple[str, ...]]:
    """The table's rows; the ratio is that of targets solved a second."""
    ours = {line.robot: line.rate for line in bench.lines if line.solver == "nlink.ik"}
    return [(f"{line.robot}, {line.solver}", str(line.targets), f"{100 * line.solved:.2f} %",
             f"{line.seconds * 1e6:.2f} us", f"{line.rate:,.0f}",
             "" if line.solver == "nlink.ik" else f"{ours[line.robot] / line.rate:.0f}x"
             if line.rate else "none solved") for line in bench.lines]
