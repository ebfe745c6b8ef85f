"""Proximal policy optimisation in one file, as CleanRL writes it: two rods learn to stand up.

    python examples/ppo_swing_up.py [FILE] [SECONDS]

The environment comes from Gymnasium's `make_vec`; nothing else here knows nlink.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

import nlink.gym  # noqa: F401  (registers the environments)

TASK, ENVS, STEPS = "nlink/DoublePendulumSwingUp-v0", 256, 32
EPOCHS, PARTS, RATE = 4, 4, 2e-3
GAMMA, LAMBDA, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 1e-3, 0.5
SECONDS, SOLVED = 60.0, 0.9
"""How long it may learn, and the mean height of the rods over the second half of an episode, 1 if
both stand."""


def layer(before: int, after: int, gain: float = np.sqrt(2)) -> nn.Linear:
    made = nn.Linear(before, after)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


class Agent(nn.Module):
    """A policy and a value of observations."""

    def __init__(self, seen: int, actions: int, width: int = 64) -> None:
        super().__init__()
        self.policy = nn.Sequential(layer(seen, width), nn.Tanh(), layer(width, width), nn.Tanh(),
                                    layer(width, actions, 0.01))
        self.value = nn.Sequential(layer(seen, width), nn.Tanh(), layer(width, width), nn.Tanh(),
                                   layer(width, 1, 1.0))
        self.deviation = nn.Parameter(torch.full((actions,), -0.5))

    def act(self, seen: torch.Tensor) -> Normal:
        return Normal(self.policy(seen), self.deviation.exp())


def advantages(rewards: Any, values: Any, last: Any, over: Any, ended: Any) -> Any:
    """Generalised advantages [Schulman et al. 2016, eq. 16]; a robot that is reset at the next
    step is worth nothing then if its episode ended, and what was thought of it if it was cut."""
    found, following = torch.zeros_like(rewards), last
    carried = torch.zeros_like(last)
    for k in reversed(range(len(rewards))):
        delta = rewards[k] + GAMMA * following * (1 - ended[k]) - values[k]
        carried = delta + GAMMA * LAMBDA * (1 - over[k]) * carried
        found[k], following = carried, values[k]
    return found


def update(agent: Agent, optimizer: Any, seen: Any, actions: Any, logs: Any, gains: Any,
           returns: Any) -> None:
    """Some steps up the clipped objective [Schulman et al. 2017, eq. 7]."""
    size = len(seen) // PARTS
    for _ in range(EPOCHS):
        order = torch.randperm(len(seen))
        for k in range(PARTS):
            some = order[k * size:(k + 1) * size]
            policy = agent.act(seen[some])
            ratio = (policy.log_prob(actions[some]).sum(-1) - logs[some]).exp()
            gain = gains[some]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            lost = torch.max(-gain * ratio, -gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            wrong = (agent.value(seen[some]).squeeze(-1) - returns[some]).square().mean()
            loss = lost + VALUE * wrong - ENTROPY * policy.entropy().sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def tried(agent: Agent, episodes: int = 64) -> np.ndarray:
    """Heights (steps, robots) in episodes without noise."""
    envs = gymnasium.make_vec(TASK, num_envs=episodes)
    seen, _ = envs.reset(seed=1)
    heights = []
    for _ in range(199):
        with torch.no_grad():
            action = agent.act(torch.from_numpy(seen)).mean
        seen, *_ = envs.step(action.numpy())
        heights.append((2 + seen[:, 0] + seen[:, 2]) / 4)
    return np.array(heights)


def train(seconds: float, seed: int = 0) -> tuple[Agent, list[tuple[float, ...]]]:
    """An agent, and (seconds, steps, mean reward, height) as it learned."""
    torch.manual_seed(seed)
    envs = gymnasium.make_vec(TASK, num_envs=ENVS)
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
    optimizer = torch.optim.Adam(agent.parameters(), lr=RATE, eps=1e-5)
    shape = (STEPS, ENVS)
    seen = torch.zeros(*shape, agent.policy[0].in_features)
    actions = torch.zeros(*shape, agent.deviation.shape[0])
    logs, values, rewards, over, ended, real = (torch.zeros(shape) for _ in range(6))
    now, _ = envs.reset(seed=seed)
    now, done = torch.from_numpy(now), torch.zeros(ENVS)
    curve, begin, steps, height = list[tuple[float, ...]](), time.perf_counter(), 0, 0.0
    while time.perf_counter() - begin < seconds:
        with torch.no_grad():
            for k in range(STEPS):
                seen[k], real[k] = now, 1 - done  # the step of a reset teaches nothing
                policy = agent.act(now)
                actions[k] = policy.sample()
                logs[k] = policy.log_prob(actions[k]).sum(-1)
                values[k] = agent.value(now).squeeze(-1)
                new, reward, end, cut, _ = envs.step(actions[k].numpy())
                now, done = torch.from_numpy(new), torch.from_numpy((end | cut).astype(np.float32))
                rewards[k], over[k] = torch.from_numpy(reward), done
                ended[k] = torch.from_numpy(end.astype(np.float32))
            gains = advantages(rewards, values, agent.value(now).squeeze(-1), over, ended)
        kept = real.flatten() > 0
        flat = [x.flatten(0, 1)[kept] for x in (seen, actions, logs, gains, gains + values)]
        update(agent, optimizer, *flat)
        steps += STEPS * ENVS
        if len(curve) % 10 == 0:
            height = float(tried(agent)[100:].mean())
        curve.append((time.perf_counter() - begin, steps, float(rewards.mean()), height))
        if height > SOLVED:
            break
    return agent, curve


def figure(seconds: float = SECONDS) -> Any:
    """The learning curve, and how the agent swings 64 pairs of rods up."""
    from matplotlib.figure import Figure

    torch.set_num_threads(1)  # the networks are small
    agent, curve = train(seconds)
    taken, steps, _, height = curve[-1]
    print(f"{taken:.1f} s, {steps / 1e6:.2f} million steps, mean height {height:.3f}"
          f"{': solved' if height > SOLVED else ''}")
    found = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = found.subplots(1, 2)
    _, count, rewards, heights = np.array(curve).T
    left.plot(count / 1e6, rewards, color="0.7", label="reward of a step")
    left.plot(count / 1e6, heights, color="C0", label="height without noise")
    left.axhline(SOLVED, color="0.5", linewidth=0.6)
    left.set(title="PPO on 256 robots", xlabel="steps, million", ylim=(-0.1, 1))
    left.legend(frameon=False)
    right.plot(0.04 * np.arange(1, 200), tried(agent), linewidth=0.6)
    right.set(title="64 robots, without noise", xlabel="time, s", ylim=(0, 1.02),
              ylabel="height, 1 if both rods stand")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return found


if __name__ == "__main__":
    figure(float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS).savefig(
        sys.argv[1] if len(sys.argv) > 1 else "ppo-swing-up.png", dpi=110)
