"""`nlink bench --learn`: environments of many robots beside Gymnasium's on MuJoCo, in one run, on
one thread.

Both have the same robot, step, integrator, observation and reward, and episodes of 200 steps; times
are of whole episodes, resets included, the best of many. A robot that fails would not be stepped,
and make a step cheaper: failures are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from warnings import catch_warnings

import numpy as np

from nlink.backends.llvm.threads import threads as set_threads
from nlink.bench.bench_record import BenchRecord
from nlink.bench.dynamics import cpu_name, missing, versions
from nlink.bench.machine_limits import fma_peak
from nlink.derivatives.traced_functions import function
from nlink.formats.load import load_description
from nlink.formats.mjcf_writer import to_mjcf
from nlink.gym.vector_env import VectorEnv
from nlink.robot import Robot
from nlink.scalars.functions import cos, sin, sqrt
from nlink.simulation.stepper import Stepper
from nlink.studies.drawing import Uniform

ROBOTS = {"panda": 0.002, "double_pendulum": 0.01}
"""With the size of a step, in seconds."""
METHODS = {"rk4": 1, "semi_implicit": 0}
"""With MuJoCo's number of the same integrator."""
NAMES = {"rk4": "rk4", "semi_implicit": "Euler"}
EVALUATIONS = {"rk4": 4, "semi_implicit": 1}
COUNTS, PEERS, EPISODE = (1_000, 10_000), 64, 200
GOAL, SPREAD = (0.4, 0.0, 0.4), 0.3
HEADINGS = ("what", "robots", "a step", "Gym", "mj_step", "Stepper", "kernels")


@dataclass(slots=True)
class LearnersRow:
    """Seconds a step of one robot."""

    robot: str
    method: str
    robots: int
    environment: float
    gymnasium: float
    mujoco: float
    stepper: float
    kernels: float
    """Forward dynamics and the sums of a step, each over all robots."""
    failures: int


@dataclass(slots=True)
class LearnersBench(BenchRecord):
    """Rows, and where they were taken."""

    peak: float = 0.0
    """Measured FMA peak of one core, FLOP/s."""
    rows: list[LearnersRow] = field(default_factory=list)


class Best:
    """What is done again and again in `parts` calls: the sum of the least time of each."""

    def __init__(self, work: Callable[[], object], robots: int = 1, parts: int = 1) -> None:
        self.work, self.robots, self.least = work, robots, np.full(parts, np.inf)

    def __call__(self) -> None:
        for k in range(len(self.least)):
            begin = time.perf_counter()
            self.work()
            self.least[k] = min(self.least[k], time.perf_counter() - begin)

    @property
    def seconds(self) -> float:
        """A call, for one robot."""
        return float(self.least.mean()) / self.robots


def run_learners_bench(robots: tuple[str, ...] = (), *, seconds: float = 2.0,
                       counts: tuple[int, ...] = COUNTS,
                       progress: Callable[[str], None] = lambda _message: None) -> LearnersBench:
    """The rows of some robots, or of all, each side for about so many seconds, in turns."""
    unknown = [name for name in robots if name not in ROBOTS]
    if unknown:
        raise ValueError(f"robots: {unknown[0]!r}, expected some of {', '.join(ROBOTS)}")
    try:
        import_module("mujoco")
    except ImportError:
        raise ImportError("bench --learn needs MuJoCo: pip install nlink[mjcf]") from None
    bench, before = LearnersBench(cpu_name(), versions(), missing(), fma_peak()), set_threads()
    set_threads(1)
    try:
        for name in robots or ROBOTS:
            for method in METHODS:
                progress(f"{name}, {method}")
                with catch_warnings(action="ignore"):  # the panda's own zero is out of its limits
                    bench.rows += _rows(name, ROBOTS[name], method, counts, seconds)
    finally:
        set_threads(before)
    return bench


def _rows(name: str, step: float, method: str, counts: tuple[int, ...], seconds: float,
          ) -> list[LearnersRow]:
    robot = Robot(load_description(name))
    model = _model(robot, step, method)
    peer, alone = _peer(robot, model, name), Best(_alone(robot, model), EPISODE)
    environments = {count: _environment(robot, name, step, method, count) for count in counts}
    steppers = {count: _stepper(robot, step, method, count) for count in counts}
    kernels = {count: _kernels(robot, step, method, count) for count in counts}
    # the step after an episode's last one resets
    works = {"gymnasium": Best(_stepping(peer, PEERS), PEERS, EPISODE + 1), "mujoco": alone}
    for count in counts:
        works |= {f"environment {count}": Best(_stepping(environments[count], count), count,
                                               EPISODE + 1),
                  f"stepper {count}": Best(steppers[count].step, count, EPISODE)}
        works |= {f"kernel {k} {count}": Best(work, count)
                  for k, work in enumerate(kernels[count])}
    end, turns = time.perf_counter() + 4 * seconds, 0
    while turns < 3 or time.perf_counter() < end:
        for key, work in works.items():
            for _ in range(20 if key.startswith(("kernel", "mujoco")) else 1):
                work()
        turns += 1

    def kernel(count: int) -> float:
        times = [works[f"kernel {k} {count}"].seconds for k in range(2)]
        return EVALUATIONS[method] * sum(times)

    return [LearnersRow(
        name, method, count, works[f"environment {count}"].seconds, works["gymnasium"].seconds,
        alone.seconds, works[f"stepper {count}"].seconds, kernel(count),
        environments[count].failures + steppers[count].failures) for count in counts]


def _stepping(envs: Any, count: int) -> Callable[[], object]:
    """A step of all robots, under forces that never change."""
    rng = np.random.default_rng(0)
    envs.reset(seed=0)
    actions = rng.uniform(-1, 1, (count, envs.single_action_space.shape[0])).astype(np.float32)
    return lambda: envs.step(actions)


def _environment(robot: Robot, name: str, step: float, method: str, count: int) -> Any:
    """The environment as nlink has it."""
    goal = np.array(GOAL)

    def reaching(_t: Any, q: Any, qd: Any, _action: Any) -> Any:
        hand = robot.pose(q)[:3, 3]
        return [*q, *qd, *hand, *(goal - hand)]

    def near(_t: Any, q: Any, _qd: Any, action: Any) -> Any:
        left = goal - robot.pose(q)[:3, 3]
        return -sqrt(left @ left) - 1e-3 * (action @ action)

    def turning(_t: Any, q: Any, qd: Any, _action: Any) -> Any:
        return [*map(sin, q), *map(cos, q), *qd]

    def high(_t: Any, q: Any, _qd: Any, action: Any) -> Any:
        return sin(q[0]) + sin(q[0] + q[1]) - 1e-3 * (action @ action)

    observation, reward = (reaching, near) if name == "panda" else (turning, high)
    return VectorEnv(
        robot, count, observation=observation, reward=reward,
        forces=lambda _t, _q, _qd, action: action, step=step, method=method,
        q=Uniform(robot.neutral - SPREAD, robot.neutral + SPREAD), max_episode_steps=EPISODE)


class EpisodesOfSteps:
    """Episodes of Stepper alone, and how many robots failed."""

    def __init__(self, robot: Robot, step: float, method: str, count: int) -> None:
        rng = np.random.default_rng(0)
        q = robot.neutral + rng.uniform(-SPREAD, SPREAD, (count, robot.n))
        self.world = Stepper(robot, q, step=step, method=method, friction="smooth", threads=1)
        self.tau, self.done = rng.uniform(-1, 1, (count, robot.n)), 0

    def step(self) -> None:
        if self.done == EPISODE:
            self.world.reset()
            self.done = 0
        self.world.step(self.tau)
        self.done += 1

    @property
    def failures(self) -> int:
        return int((self.world.status != "running").sum())


def _stepper(robot: Robot, step: float, method: str, count: int) -> EpisodesOfSteps:
    return EpisodesOfSteps(robot, step, method, count)


def _kernels(robot: Robot, step: float, method: str, count: int,
             ) -> tuple[Callable[[], object], Callable[[], object]]:
    """What one evaluation of a step needs: forward dynamics, and the sums of states."""
    rng, n = np.random.default_rng(0), robot.n
    q = robot.neutral + rng.uniform(-SPREAD, SPREAD, (count, n))
    qd, tau, qdd = rng.uniform(-1, 1, (3, count, n))
    sums = function(lambda q, qd, qdd: np.concatenate([
        q + step * (qd + step * qdd), qd + step * qdd]), n, n, n)
    rates, states = np.empty((count, n)), np.empty((count, 2 * n))
    return (lambda: robot.forward_dynamics(q, qd, tau, out=rates),
            lambda: sums(q, qd, qdd, out=states))


def _model(robot: Robot, step: float, method: str) -> Any:
    """The same mechanism for MuJoCo, without contacts and constraints."""
    mujoco: Any = import_module("mujoco")
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot.description))
    model.opt.disableflags |= (mujoco.mjtDisableBit.mjDSBL_CONTACT
                               | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    model.opt.timestep, model.opt.integrator = step, METHODS[method]
    return model


def _alone(robot: Robot, model: Any) -> Callable[[], None]:
    """An episode of `mj_step`, called from Python step by step."""
    mujoco: Any = import_module("mujoco")
    data = mujoco.MjData(model)

    def episode() -> None:
        mujoco.mj_resetData(model, data)
        data.qpos[:] = robot.neutral + 0.1
        mujoco.mj_step(model, data, EPISODE)

    return episode


def _peer(robot: Robot, model: Any, name: str) -> Any:
    """Gymnasium's vector of environments on MuJoCo."""
    gymnasium: Any = import_module("gymnasium")
    mujoco: Any = import_module("mujoco")
    n, goal = robot.n, np.array(GOAL)

    class MuJoCoEnv(gymnasium.Env):
        """One robot."""

        observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (2 * n + 6 if name == "panda" else 3 * n,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (n,), np.float32)

        def __init__(self) -> None:
            self.data, self.steps, self.hand = mujoco.MjData(model), 0, model.nbody - 1

        def observation(self) -> np.ndarray:
            q, v = self.data.qpos, self.data.qvel
            if name == "panda":
                hand = self.data.xpos[self.hand]
                return np.concatenate([q, v, hand, goal - hand], dtype=np.float32)
            return np.concatenate([np.sin(q), np.cos(q), v], dtype=np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            mujoco.mj_resetData(model, self.data)
            self.data.qpos[:] = robot.neutral + self.np_random.uniform(-SPREAD, SPREAD, n)
            mujoco.mj_forward(model, self.data)
            self.steps = 0
            return self.observation(), {}

        def step(self, action: Any) -> Any:
            self.data.qfrc_applied[:] = action
            mujoco.mj_step(model, self.data)
            self.steps += 1
            if name == "panda":
                apart = goal - self.data.xpos[self.hand]
                reward = -np.sqrt(apart @ apart) - 1e-3 * (action @ action)
            else:
                q = self.data.qpos
                reward = np.sin(q[0]) + np.sin(q[0] + q[1]) - 1e-3 * (action @ action)
            return self.observation(), float(reward), False, self.steps >= EPISODE, {}

    return gymnasium.vector.SyncVectorEnv([MuJoCoEnv] * PEERS)


def rows(bench: LearnersBench) -> list[tuple[str, ...]]:
    """The table's rows: how many times as long Gymnasium's environments on MuJoCo and `mj_step`
    take as a step, and Stepper as its kernels."""
    def times(x: float) -> str:
        return f"{1e9 * x:,.0f} ns"

    return [(f"{row.robot.replace('_', ' ')}, {NAMES[row.method]}", f"{row.robots:,}",
             times(row.environment),
             f"{row.gymnasium / row.environment:.0f}x", f"{row.mujoco / row.environment:.0f}x",
             times(row.stepper), f"{row.stepper / row.kernels:.2f}") for row in bench.rows]
