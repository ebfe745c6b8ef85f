"""Angles on the command line: in radians, or in degrees where the user says so."""

from __future__ import annotations

import math
import warnings

import numpy as np

from nlink.model.coordinates import coordinate_units, rate_units
from nlink.robot import Robot
from nlink.simulation.doubts import MANY_TURNS


def radians(robot: Robot, name: str, values: np.ndarray, *, degrees: bool) -> np.ndarray:
    """Coordinates ("q") or rates of a robot, any number of them, with angles in radians."""
    units = (coordinate_units if name in ("q", "to") else rate_units)(robot.description)
    angular = np.array([unit == "rad" for unit in units], dtype=bool)
    if degrees:
        return np.where(angular, np.deg2rad(values), values)
    if name in ("q", "to") and (np.abs(values)[..., angular] > MANY_TURNS).any():
        largest = np.abs(values)[..., angular].max()
        warnings.warn(f"--{name}: {largest:g} rad is {largest / (2 * math.pi):.3g} turns; "
                      "--deg takes angles in degrees", stacklevel=2)
    return values
