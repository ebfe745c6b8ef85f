"""One robot as an environment of Gymnasium, with the text of many."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from nlink.gym.vector_env import VectorEnv

Array = np.ndarray


class Env(gymnasium.Env):
    """One robot of a task: the arguments are those of `VectorEnv`, but for num_envs and
    autoreset_mode.

    >>> import gymnasium, nlink.gym
    >>> env = gymnasium.make("nlink/CartPoleSwingUp-v0")
    >>> seen, info = env.reset(seed=0)
    >>> seen, reward, ended, cut, info = env.step(env.action_space.sample())
    >>> seen.shape, ended
    ((5,), False)
    """

    def __init__(self, robot: Any, **options: Any) -> None:
        for name in ("num_envs", "autoreset_mode"):
            if name in options:
                raise TypeError(f"{name}: given for one robot, expected nlink.gym.VectorEnv, or "
                                "gymnasium.make_vec")
        self.vector = VectorEnv(robot, 1, autoreset_mode=AutoresetMode.DISABLED, **options)
        self.robot, self.render_mode = robot, self.vector.render_mode
        self.observation_space = self.vector.single_observation_space
        self.action_space = self.vector.single_action_space
        self.metadata = {name: value for name, value in self.vector.metadata.items()
                         if name != "autoreset_mode"}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None,
              ) -> tuple[Array, dict[str, Any]]:
        """The first observation of an episode."""
        super().reset(seed=seed)
        seen, _ = self.vector.reset(seed=seed)
        return seen[0], {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One step under an action: observation, reward, whether the episode has ended, whether
        it was cut, and infos."""
        seen, rewards, ended, cut, infos = self.vector.step(np.asarray(action)[None])
        return seen[0], float(rewards[0]), bool(ended[0]), bool(cut[0]), {
            name: True for name in infos if name == "failed"}

    def render(self) -> Array | None:
        """A picture (height, width, 3), if `render_mode` is "rgb_array"."""
        frames = self.vector.render()
        return None if frames is None else frames[0]

    def __repr__(self) -> str:
        return f"<Env of {self.robot.name}, {self.vector.step_seconds:g} s a step>"
