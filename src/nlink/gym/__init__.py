"""Environments for learners: thousands of robots as one environment of Gymnasium.

>>> import gymnasium, nlink.gym
>>> envs = gymnasium.make_vec("nlink/DoublePendulumSwingUp-v0", num_envs=16)
>>> seen, infos = envs.reset(seed=0)
>>> seen, rewards, ended, cut, infos = envs.step(envs.action_space.sample())
>>> seen.shape, rewards.shape
((16, 6), (16,))

`VectorEnv` makes environments of your own; `tasks` are those that are registered. Needs Gymnasium:
pip install nlink[gym].
"""

from __future__ import annotations

from importlib.util import find_spec as _find_spec

if _find_spec("gymnasium") is None:
    raise ImportError("nlink.gym needs Gymnasium: pip install nlink[gym]")

from nlink.gym.registered_tasks import TASKS as _TASKS
from nlink.gym.registered_tasks import register as _register
from nlink.gym.single_env import Env as Env
from nlink.gym.vector_env import VectorEnv as VectorEnv
from nlink.studies.drawing import Normal as Normal
from nlink.studies.drawing import Uniform as Uniform

__all__ = ["Env", "Normal", "Uniform", "VectorEnv", "tasks"]

_register()
tasks = tuple(f"nlink/{name}" for name in _TASKS)
"""The ids that are registered."""
