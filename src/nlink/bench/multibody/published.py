"""The problems by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nlink.bench.multibody.car_axis import car_axis
from nlink.bench.multibody.governor import governor
from nlink.bench.multibody.in_space import bricard, heavy_top, slider_crank
from nlink.bench.multibody.pendulums import four_bars, pendulum
from nlink.bench.multibody.problem import Problem
from nlink.bench.multibody.squeezer import library_squeezer, squeezer

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "A01": pendulum,
    "A02-2": partial(four_bars, 2),
    "A02-40": partial(four_bars, 40),
    "A03": library_squeezer,
    "A04": bricard,
    "A05": governor,
    "Andrews": squeezer,
    "car-axis": car_axis,
    "top": partial(heavy_top, held=False),
    "top-held": partial(heavy_top, held=True),
    "slider-crank": slider_crank,
}
"""Those of the IFToMM library first."""


def problem(name: str) -> Problem:
    """A problem by its name, in any case.

    >>> problem("a04").title
    "Bricard's mechanism"
    """
    for known, make in PROBLEMS.items():
        if known.lower() == name.lower():
            return make()
    raise ValueError(f"problem: {name!r}, expected one of {', '.join(PROBLEMS)}")
