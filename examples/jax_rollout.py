"""Gradients through simulations in JAX: joint forces that swing a pendulum up, by Adam.

100 plans are improved at once: each is rolled out, and the gradient of what it costs by all of its
forces takes one simulation back.

    python examples/jax_rollout.py [FILE]
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import nlink

STEPS, H = 100, 0.02
HANGING, UPRIGHT = np.array([-np.pi / 2, 0.0, 0.0, 0.0]), np.array([np.pi / 2, 0.0, 0.0, 0.0])
STRENGTH = np.array([20.0, 10.0])
"""The largest joint forces, two thirds of what holds the links level, and all of it."""


def improve(plans: int = 100, rounds: int = 150, rate: float = 0.05) -> tuple[Any, Any]:
    """What plans cost in all rounds, (rounds, plans), and the states of the best, (STEPS, 4)."""
    run = nlink.jax.rollout(nlink.load("double_pendulum"), H)

    def states(plan: Any) -> Any:
        return run(HANGING, STRENGTH * jnp.tanh(plan))

    def cost(plan: Any) -> Any:
        y = states(plan)
        miss = jnp.concatenate([1 - jnp.cos(y[-1, :2] - UPRIGHT[:2]), 0.1 * y[-1, 2:]])
        return (miss**2).sum() + 1e-4 * (plan**2).sum()

    one = jax.vmap(jax.value_and_grad(cost))

    @jax.jit
    def adam(carry: Any, k: Any) -> tuple[Any, Any]:
        plan, m, v = carry
        value, slope = one(plan)
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
        size = rate * jnp.sqrt(1 - 0.999**k) / (1 - 0.9**k)
        return (plan - size * m / (jnp.sqrt(v) + 1e-8), m, v), value

    start = 0.3 * jax.random.normal(jax.random.key(0), (plans, STEPS, 2))
    zero = jnp.zeros_like(start)
    (found, *_), costs = jax.lax.scan(adam, (start, zero, zero), 1.0 + jnp.arange(rounds))
    return costs, states(found[jnp.argmin(costs[-1])])


def figure() -> Any:
    """How plans improve, and what the best one does."""
    from matplotlib.figure import Figure

    costs, states = improve()
    found = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = found.subplots(1, 2)
    left.semilogy(np.asarray(costs), color="0.7", linewidth=0.5)
    left.semilogy(np.asarray(costs).min(axis=1), label="best")
    left.set(title="100 plans, improved by gradients", xlabel="round", ylabel="cost")
    left.legend(frameon=False)
    right.plot(H * np.arange(1, STEPS + 1), np.degrees(np.asarray(states)[:, :2]),
               label=["joint 1", "joint 2"])
    right.set(title="the best plan", xlabel="time, s", ylabel="angle, degrees")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return found


if __name__ == "__main__":
    figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "jax-rollout.png", dpi=110)
