"""How a joint or a loop moves as a function of time: what `motion` of simulations gives by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from nlink.scalars.functions import Scalar
from nlink.scalars.misuse import explained


@dataclass(frozen=True)
class Prescribed:
    """The motion of a joint: its place, its rate or its acceleration, as a function of time.

    The function is written with `nlink.sin` and similar functions, is given t (and p, if `vary` has
    it), and returns a number, or as many as the joint has; numbers are a function that never
    changes. A place is differentiated twice. With a rate or an acceleration the joint starts where
    q0 (and qd0) say.

    >>> import nlink
    >>> run = nlink.simulate(nlink.load("double_pendulum"), t=1.0, every=0.5,
    ...                      motion={"joint1": nlink.Prescribed(rate=lambda t: 2.0 * t)})
    >>> run.q[:, 0].round(9), run.qd[:, 0].round(9)
    (array([0.  , 0.25, 1.  ]), array([0., 1., 2.]))
    """

    place: Any = None
    rate: Any = None
    acceleration: Any = None

    def __post_init__(self) -> None:
        if len(self.given) != 1:
            raise ValueError(f"motion: {' and '.join(self.given) or 'nothing'} given, expected one "
                             "of place, rate and acceleration")

    @property
    def given(self) -> list[str]:
        return [each.name for each in fields(self) if getattr(self, each.name) is not None]

    @property
    def kind(self) -> str:
        """The quantity that is given: "place", "rate" or "acceleration"."""
        return self.given[0]

    def expect_numbers(self, name: str, count: int) -> None:
        """Refuse numbers that are none, or not as many as there should be."""
        x = getattr(self, self.kind)
        if callable(x):
            return
        try:
            values = np.asarray(x, dtype=float).ravel()
        except (TypeError, ValueError):
            raise TypeError(f"motion: {name!r}: a {type(x).__name__}, expected a function of t, "
                            "numbers, or nlink.Prescribed(...)") from None
        if len(values) != count or not np.isfinite(values).all():
            raise ValueError(f"motion: {name!r}: {x!r:.80}, expected {count} finite numbers or a "
                             "function of t")

    def values(self, who: str, count: int, t: Scalar, parameters: Sequence[Any]) -> list[Scalar]:
        """The given quantity at a time."""
        function = getattr(self, self.kind)
        with explained():
            found = function(t, *parameters) if callable(function) else function
            values = list(np.asarray(found, dtype=object).ravel())
        if len(values) != count:
            raise ValueError(f"motion: {who!r}: {self.kind} gave {len(values)} values, expected "
                             f"{count}")
        return values
