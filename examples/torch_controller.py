"""A controller learned in PyTorch by gradients through simulations: two rods stay on their end.

A small network gives the joint forces. 64 simulations start leaning somewhere; the gradient of how
far they fall, by the network's weights, goes back through every step of all of them.

    python examples/torch_controller.py [FILE]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

import nlink

STEPS, H = 60, 0.02
UPRIGHT = torch.tensor([np.pi / 2, 0.0, 0.0, 0.0])


def learn(rounds: int = 60, simulations: int = 64) -> tuple[list[float], Any, Any]:
    """What the simulations cost in each round, and the states of the first and last one."""
    torch.manual_seed(0)
    step = nlink.torch.step(nlink.load("double_pendulum"), H)
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    costs, motions = list[float](), list[Any]()
    lean = 0.15 * torch.randn(simulations, 4)
    for _ in range(rounds):
        y, states = UPRIGHT + lean, []
        for _ in range(STEPS):
            y = step(y, 30.0 * network(y - UPRIGHT))
            states.append(y)
        motion = torch.stack(states)
        cost = torch.tanh((motion - UPRIGHT)**2).mean()
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        costs.append(cost.item())
        motions.append(motion.detach())
    return costs, motions[0], motions[-1]


def figure() -> Any:
    """How the controller learns, and the first joint before and after."""
    from matplotlib.figure import Figure

    costs, before, after = learn()
    found = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = found.subplots(1, 2)
    left.semilogy(costs)
    left.set(title="64 simulations with one controller", xlabel="round", ylabel="cost")
    times = H * np.arange(1, STEPS + 1)
    for motion, colour, label in ((before, "0.7", "at first"), (after, "C0", "learned")):
        lines = right.plot(times, np.degrees(motion[:, :, 0].numpy()), color=colour, linewidth=0.6)
        lines[0].set_label(label)
    right.set(title="first joint", xlabel="time, s", ylabel="angle, degrees", ylim=(-90, 270))
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return found


if __name__ == "__main__":
    figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "torch-controller.png", dpi=110)
