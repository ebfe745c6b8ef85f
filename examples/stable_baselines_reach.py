"""A Panda learns to reach for points: PPO of Stable-Baselines3 on 64 robots at once.

    python examples/stable_baselines_reach.py [FILE] [STEPS]

Needs pip install ".[learn]" in a clone.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor

import nlink.gym  # noqa: F401  (registers the environments)
from nlink.gym.stable_baselines import RobotsVecEnv

STEPS, ROBOTS = 600_000, 64


class Curve(BaseCallback):
    """What episodes are paid, as training goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        episodes = [x["r"] for x in self.model.ep_info_buffer or ()]
        if episodes:
            self.points.append((self.num_timesteps, float(np.mean(episodes))))


def distances(model: Any, robots: int = 64) -> np.ndarray:
    """How far hands are from their points, (steps, robots), without noise."""
    envs = gymnasium.make_vec("nlink/PandaReach-v0", num_envs=robots)
    seen, _ = envs.reset(seed=1)
    found = []
    for _ in range(149):
        seen, *_ = envs.step(model.predict(seen, deterministic=True)[0])
        found.append(np.linalg.norm(seen[:, -3:], axis=1))
    return np.array(found)


def figure(steps: int = STEPS) -> Any:
    """The learning curve, and the distances of hands from their points afterwards."""
    from matplotlib.figure import Figure

    torch.set_num_threads(1)
    envs = VecMonitor(RobotsVecEnv(gymnasium.make_vec(
        "nlink/PandaReach-v0", num_envs=ROBOTS, autoreset_mode="SameStep")))
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=1024, n_epochs=5, learning_rate=1e-3,
                gamma=0.98, seed=0)
    curve = Curve()
    model.learn(steps, callback=curve)
    found = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = found.subplots(1, 2)
    if curve.points:
        left.plot(*np.array(curve.points).T)
    left.set(title="PPO of Stable-Baselines3", xlabel="steps", ylabel="paid in an episode")
    apart = distances(model)
    t = 0.02 * np.arange(1, 1 + len(apart))
    right.plot(t, apart, color="0.7", linewidth=0.6)
    right.plot(t, np.median(apart, axis=1), color="C0", label="median")
    right.set(title="64 points", xlabel="time, s", ylabel="distance of the hand, m", ylim=(0, None))
    right.legend(frameon=False)
    print(f"median distance at the end: {100 * np.median(apart[-1]):.1f} cm")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return found


if __name__ == "__main__":
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else STEPS
    figure(steps).savefig(sys.argv[1] if len(sys.argv) > 1 else "stable-baselines-reach.png",
                          dpi=110)
