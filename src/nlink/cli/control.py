"""The controllers the command line knows by name."""

from __future__ import annotations

from enum import StrEnum


class Control(StrEnum):
    """Controllers `nlink simulate --control` knows."""

    none = "none"
    forced = "forced"
    pd = "pd"
    computed_torque = "computed-torque"
