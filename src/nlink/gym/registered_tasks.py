"""The tasks that are registered with Gymnasium, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium

from nlink.gym.arms import four_bar_crank, panda_push, panda_reach
from nlink.gym.quadrupeds import solo12_stand, solo12_trot
from nlink.gym.single_env import Env
from nlink.gym.swing_ups import cart_pole_swing_up, double_pendulum_swing_up
from nlink.gym.vector_env import VectorEnv


@dataclass(frozen=True)
class RegisteredTask:
    """What a name stands for."""

    arguments: Callable[[], dict[str, Any]]
    """Makes the arguments of `VectorEnv`, the robot among them."""
    steps: int
    """Of an episode."""


TASKS = {
    "DoublePendulumSwingUp-v0": RegisteredTask(double_pendulum_swing_up, 200),
    "CartPoleSwingUp-v0": RegisteredTask(cart_pole_swing_up, 500),
    "PandaReach-v0": RegisteredTask(panda_reach, 150),
    "PandaPush-v0": RegisteredTask(panda_push, 250),
    "FourBarCrank-v0": RegisteredTask(four_bar_crank, 250),
    "Solo12Stand-v0": RegisteredTask(solo12_stand, 500),
    "Solo12Trot-v0": RegisteredTask(solo12_trot, 500),
}


def vector_env(num_envs: int = 1, *, task: str, **options: Any) -> VectorEnv:
    """The environment of a registered task; options replace the task's arguments."""
    return VectorEnv(num_envs=num_envs, **(TASKS[task].arguments() | options))


def single_env(*, task: str, **options: Any) -> Env:
    """One robot of a registered task."""
    return Env(**(TASKS[task].arguments() | options))


def register() -> None:
    """Make the tasks known to `gymnasium.make` and `make_vec`, as "nlink/..."."""
    for name, task in TASKS.items():
        if f"nlink/{name}" not in gymnasium.registry:
            gymnasium.register(
                f"nlink/{name}", entry_point=f"{__name__}:single_env",
                vector_entry_point=f"{__name__}:vector_env", max_episode_steps=task.steps,
                kwargs={"task": name})
