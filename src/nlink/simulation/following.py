"""What a controlled run was to follow, and how well it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
Target = Callable[[float], Any] | Array
"""A trajectory, or its coordinates on the output times."""


def target_of(controller: Any, robot: Robot) -> Target | None:
    """The trajectory of coordinates that a controller follows; None if it has none, or one of a
    frame. A controller that wraps another one has its `controller`."""
    while controller is not None:
        desired: Any = getattr(controller, "desired", None)
        if callable(desired) and not hasattr(controller, "frame"):
            motion: Any = desired(0.0)
            return desired if len(motion[0]) == robot.nq else None
        controller = getattr(controller, "controller", None)
    return None


def on_times(target: Target | None, t: Array) -> Array | None:
    """The coordinates of a trajectory on output times, (times, nq)."""
    if target is None or not callable(target):
        return target
    return np.array([target(float(time))[0] for time in t], dtype=float)


def peak_share(tau: Array, limit: Array) -> tuple[int, float]:
    """Which rate comes nearest to its effort limit, and by what share of it; 0 if none has one.

    >>> peak_share(np.array([[1.0, -3.0]]), np.array([2.0, 4.0]))
    (1, 0.75)
    """
    peaks = np.nanmax(np.abs(tau.reshape(-1, tau.shape[-1])), axis=0, initial=0.0)
    with np.errstate(all="ignore"):
        shares = np.where(np.isfinite(limit) & (limit > 0), peaks / limit, 0.0)
    worst = int(np.argmax(shares)) if shares.size else 0
    return worst, float(shares[worst]) if shares.size else 0.0
