"""The control laws the command line knows by name."""

from __future__ import annotations

from enum import StrEnum


class Control(StrEnum):
    """Laws `nlink simulate --control` knows."""

    none = "none"
    forced = "forced"
    pd = "pd"
    computed_torque = "computed-torque"
