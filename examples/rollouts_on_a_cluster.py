"""Policies that are tried out as a sweep: on this machine, or on the workers of a Dask cluster.

A cart balances its pole with four gains. Each round is a sweep of rollouts: 512 sets of gains, each
from eight starts; the next sets are drawn about the best ones (the cross-entropy method of
Rubinstein). At the end the best gains drive 1,000 robots of a vector environment.

    python examples/rollouts_on_a_cluster.py [FILE] [ADDRESS OF A DASK SCHEDULER]

`python examples/local_cluster.py` starts a scheduler with three workers to try it with.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np

import nlink
from nlink.gym import Uniform, VectorEnv
from nlink.gym.swing_ups import PUSH, TRACK, cart_pole

ROUNDS, SETS, STARTS, BEST = 8, 512, 8, 6
UPRIGHT = np.array([0.0, np.pi, 0.0, 0.0])


def push(t: Any, q: Any, qd: Any, p: Any) -> list[Any]:
    """The force on the cart by gains p, within what the motor gives."""
    force = p[0] * q[0] + p[1] * (q[1] - np.pi) + p[2] * qd[0] + p[3] * qd[1]
    return [PUSH * nlink.tanh(force / PUSH), 0.0]


def tried(robot: nlink.Robot, gains: np.ndarray, seed: int, client: Any) -> np.ndarray:
    """How far from upright and from the middle each set of gains leaves the pole after 5 s."""
    rng = np.random.default_rng(seed)
    starts = UPRIGHT + rng.uniform(-1, 1, (SETS, STARTS, 4)) * [0.3, 0.3, 0.2, 0.2]
    with tempfile.TemporaryDirectory() as place:
        found = nlink.sweep(
            robot, t=5.0, tau=push, sample="table", client=client, out=f"{place}/rollouts.zarr",
            vary={"p": gains.repeat(STARTS, axis=0), "q0": starts[..., :2].reshape(-1, 2),
                  "qd0": starts[..., 2:].reshape(-1, 2)}, method="rk4", step=0.01, progress=False)
        ends = found.open()
        y = np.concatenate([ends.q.values, ends.qd.values], axis=1) - UPRIGHT
    missed = np.tanh((y * [1.0, 2.0, 0.5, 0.5]) ** 2).sum(axis=1)
    return np.nan_to_num(missed, nan=4.0).reshape(SETS, STARTS).mean(axis=1)


def learned(client: Any = None) -> tuple[np.ndarray, list[np.ndarray]]:
    """Gains, and what all sets of each round cost."""
    robot, rng = nlink.Robot(cart_pole()), np.random.default_rng(0)
    mean, deviation, costs = np.zeros(4), np.full(4, 30.0), []
    for k in range(ROUNDS):
        gains = mean + deviation * rng.standard_normal((SETS, 4))
        costs.append(tried(robot, gains, k, client))
        best = gains[np.argsort(costs[-1])[:BEST]]
        mean, deviation = best.mean(axis=0), best.std(axis=0) + 0.5
    return mean, costs


def balanced(gains: np.ndarray, robots: int = 1000) -> np.ndarray:
    """Angles of poles from upright, (steps, robots), in a vector environment."""
    envs = VectorEnv(
        nlink.Robot(cart_pole()), robots, action_size=1, step=0.01, frame_skip=2,
        observation=lambda t, q, qd: [q[0], q[1] - np.pi, *qd],
        reward=lambda t, q, qd: nlink.cos(q[1] - np.pi),
        termination=lambda t, q: nlink.less(TRACK**2, q[0] * q[0]),
        forces=lambda t, q, qd, action: [PUSH * action[0], 0.0],
        q=Uniform([-0.3, np.pi - 0.3], [0.3, np.pi + 0.3]), qd=Uniform([-0.2] * 2, [0.2] * 2))
    seen, _ = envs.reset(seed=0)
    found = []
    for _ in range(200):
        seen, *_ = envs.step(np.tanh(seen @ gains / PUSH)[:, None])
        found.append(seen[:, 1])
    return np.array(found)


def figure(client: Any = None) -> Any:
    """What gains cost from round to round, and the poles that the best ones balance."""
    from matplotlib.figure import Figure

    gains, costs = learned(client)
    found = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = found.subplots(1, 2)
    for k, x in enumerate(costs, 1):
        left.plot(np.full(len(x), k), x, ".", color="0.7", markersize=2)
    left.plot(range(1, ROUNDS + 1), [np.sort(x)[:BEST].mean() for x in costs], label="the best six")
    left.set(title=f"{SETS * STARTS:,} rollouts a round", xlabel="round", ylabel="cost")
    left.legend(frameon=False)
    angles = np.degrees(balanced(gains))
    right.plot(0.02 * np.arange(1, 1 + len(angles)), angles[:, ::20], linewidth=0.6)
    right.set(title="1,000 poles with the best gains", xlabel="time, s", ylabel="angle, degrees")
    print(f"{(np.abs(angles[-1]) < 2).mean():.1%} of the poles stand")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return found


if __name__ == "__main__":
    figure(sys.argv[2] if len(sys.argv) > 2 else None).savefig(
        sys.argv[1] if len(sys.argv) > 1 else "rollouts.png", dpi=110)
