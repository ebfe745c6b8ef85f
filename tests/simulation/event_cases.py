"""What tests of events and limits share."""

from __future__ import annotations

import numpy as np

import nlink
from nlink.iterations.methods import METHODS

G = 9.81
LEFT_OUT = ("semi_implicit", "dopri5", "verner65", "rkf78")
"""A method of first order puts events where its errors do; the others are rkf45 with other
numbers."""
ACCURATE = [name for name in METHODS if name not in LEFT_OUT]
FIXED = [name for name in ACCURATE if not METHODS[name].adaptive]
EVERY = [*ACCURATE, "lsoda", "radau"]


def slider(low: float = -np.inf, high: float = np.inf) -> nlink.Robot:
    """A mass that falls along a vertical rail."""
    inertia = ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))
    return nlink.Robot(nlink.Description(
        "slider", (nlink.Link("mass", 1.0, (0.0, 0.0, 0.0), inertia),),
        (nlink.Joint("rail", nlink.Prismatic(), limits=nlink.Limits((low, high))),)))
