"""Vector environments for Stable-Baselines3, which has an interface of its own.

>>> import gymnasium, nlink.gym
>>> from nlink.gym.stable_baselines import RobotsVecEnv
>>> from stable_baselines3 import PPO
>>> envs = RobotsVecEnv(gymnasium.make_vec("nlink/PandaReach-v0", num_envs=64,
...                                        autoreset_mode="SameStep"))
>>> model = PPO("MlpPolicy", envs, n_steps=8, batch_size=64, n_epochs=1).learn(512)
>>> model.num_timesteps
512

Needs Stable-Baselines3: pip install nlink[learn].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError:
    raise ImportError("nlink.gym.stable_baselines needs Stable-Baselines3: pip install nlink[learn]"
                      ) from None

from nlink.gym.vector_env import VectorEnv

Array = np.ndarray


class RobotsVecEnv(VecEnv):
    """A VectorEnv as Stable-Baselines3 wants it: robots start anew within the step that ends an
    episode, so its autoreset mode is "SameStep"."""

    def __init__(self, envs: VectorEnv) -> None:
        if envs.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise ValueError(f"envs: autoreset_mode={envs.autoreset_mode.value!r}, expected "
                             "'SameStep': Stable-Baselines3 resets within a step")
        self.envs, self.render_mode = envs, envs.render_mode
        self._actions, self._seed = np.zeros(envs.action_space.shape or ()), None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Array:
        seen, _ = self.envs.reset(seed=self._seed)
        self._seed = None
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return seen

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """What the next reset begins with; one seed decides what all robots draw."""
        self._seed = seed
        return [seed] * self.num_envs

    def step_async(self, actions: Array) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        seen, rewards, ended, cut, infos = self.envs.step(self._actions)
        done, each = ended | cut, [{} for _ in range(self.num_envs)]
        for k in np.flatnonzero(done):
            each[k] = {"terminal_observation": infos["final_obs"][k],
                       "TimeLimit.truncated": bool(cut[k] and not ended[k])}
        return seen, rewards.astype(np.float32), done, each

    def close(self) -> None:
        self.envs.close()

    def get_images(self) -> Sequence[Array | None]:
        return list(self.envs.render() or ())

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(f"{attr_name}: robots of a vector have nothing of their own, expected "
                             "an argument of VectorEnv")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None,
                   **method_kwargs: Any) -> list[Any]:
        found = getattr(self.envs, method_name)(*method_args, **method_kwargs)
        return [found for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]
