"""What tests of events and limits share."""

from __future__ import annotations

import numpy as np

import nlink
from nlink.iterations.methods import METHODS

G = 9.81
ACCURATE = [name for name in METHODS if name != "semi_implicit"]
"""Methods whose events are where they should be; a first order puts them where its errors do."""
FIXED = [name for name in ACCURATE if not METHODS[name].adaptive]
EVERY = [*ACCURATE, "lsoda", "radau"]


def slider(low: float = -np.inf, high: float = np.inf) -> nlink.Robot:
    """A mass that falls along a vertical rail."""
    inertia = ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))
    return nlink.Robot(nlink.Description(
        "slider", (nlink.Link("mass", 1.0, (0.0, 0.0, 0.0), inertia),),
        (nlink.Joint("rail", nlink.Prismatic(), limits=nlink.Limits((low, high))),)))
