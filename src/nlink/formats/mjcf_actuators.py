"""The actuators of a compiled MuJoCo model that act on one joint and have no state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from nlink.formats.safe_xml import Notes
from nlink.model.actuators import Actuator

_JOINT, _NO_DYNAMICS, _FIXED, _AFFINE, _NONE = 0, 0, 0, 1, 0
"""MuJoCo's numbers: transmission by a joint, no activation, a constant gain, an affine bias."""


def compiled_actuators(model: Any, joints: Mapping[int, str], notes: Notes) -> Iterator[Actuator]:
    """Those on joints with one coordinate, given by number and name; others are noted."""
    for k in range(int(model.nu)):
        name = model.actuator(k).name or f"actuator{k}"
        number = int(model.actuator_trnid[k][0])
        plain = (model.actuator_trntype[k] == _JOINT and number in joints
                 and model.actuator_dyntype[k] == _NO_DYNAMICS
                 and model.actuator_gaintype[k] == _FIXED
                 and model.actuator_biastype[k] in (_NONE, _AFFINE))
        if not plain:
            notes.add("actuator ignored", name)
            continue
        affine = model.actuator_biastype[k] == _AFFINE
        b0, b1, b2 = model.actuator_biasprm[k][:3].tolist() if affine else (0.0, 0.0, 0.0)
        yield Actuator(
            name, joints[number], float(model.actuator_gainprm[k][0]), (b0, b1, b2),
            float(model.actuator_gear[k][0]),
            _range(model.actuator_ctrllimited[k], model.actuator_ctrlrange[k]),
            _range(model.actuator_forcelimited[k], model.actuator_forcerange[k]))


def _range(limited: Any, bounds: Any) -> tuple[float, float]:
    low, high = bounds.tolist()
    return (low, high) if limited else (-math.inf, math.inf)
