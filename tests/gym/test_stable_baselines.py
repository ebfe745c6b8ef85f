"""The adapter for Stable-Baselines3, where that is installed."""

from __future__ import annotations

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3", reason="an extra that is not installed")

import nlink.gym  # noqa: E402, F401
from nlink.gym.stable_baselines import RobotsVecEnv  # noqa: E402


def test_episodes_end_as_stable_baselines_wants_it():
    envs = gymnasium.make_vec("nlink/CartPoleSwingUp-v0", num_envs=5, autoreset_mode="SameStep",
                              max_episode_steps=3)
    peer = gymnasium.make_vec("nlink/CartPoleSwingUp-v0", num_envs=5, autoreset_mode="SameStep",
                              max_episode_steps=3)
    adapter = RobotsVecEnv(envs)
    adapter.seed(4)
    np.testing.assert_array_equal(adapter.reset(), peer.reset(seed=4)[0])
    for k in range(6):
        actions = np.full((5, 1), 0.5, np.float32)
        seen, rewards, done, infos = adapter.step(actions)
        theirs, paid, _, cut, more = peer.step(actions)
        np.testing.assert_array_equal(seen, theirs)
        np.testing.assert_array_equal(rewards, paid.astype(np.float32))
        assert done.tolist() == cut.tolist() == [k % 3 == 2] * 5
        if k % 3 == 2:
            for info, last in zip(infos, more["final_obs"], strict=True):
                np.testing.assert_array_equal(info["terminal_observation"], last)
                assert info["TimeLimit.truncated"]
    assert adapter.get_attr("failures") == [0] * 5
    assert adapter.env_is_wrapped(object) == [False] * 5


@pytest.mark.slow
def test_ppo_learns_some_of_it_and_predicts():
    from stable_baselines3 import PPO

    envs = gymnasium.make_vec("nlink/DoublePendulumSwingUp-v0", num_envs=8,
                              autoreset_mode="SameStep")
    model = PPO("MlpPolicy", RobotsVecEnv(envs), n_steps=16, batch_size=64, seed=0).learn(256)
    assert model.num_timesteps == 256
    assert model.predict(np.zeros((8, 6), np.float32))[0].shape == (8, 2)


def test_other_autoreset_modes_are_refused():
    envs = gymnasium.make_vec("nlink/CartPoleSwingUp-v0", num_envs=2)
    with pytest.raises(ValueError, match="autoreset_mode='NextStep', expected 'SameStep'"):
        RobotsVecEnv(envs)
