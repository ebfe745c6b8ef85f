"""Where a state y = (q, v, parts) has what: coordinates, velocities, and whatever is remembered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlink.scalars.functions import Scalar, Scalars
from nlink.simulation.control_scheme import StatePart


@dataclass(frozen=True)
class StateLayout:
    """The elements of a state: nq coordinates, n velocities, and parts, first those with rates
    of their own, then those that change at jumps only.

    >>> layout = StateLayout(1, 1, (StatePart("x", 2), StatePart("held", 1, discrete=True)))
    >>> layout.split([0.1, 0.2, 1.0, 2.0, 3.0])
    ([0.1], [0.2], {'x': [1.0, 2.0], 'held': [3.0]})
    >>> layout.size, layout.discrete, layout.place(["held"])
    (5, 1, slice(4, 5, None))
    """

    nq: int
    n: int
    parts: tuple[StatePart, ...]

    @property
    def size(self) -> int:
        return self.nq + self.n + sum(part.size for part in self.parts)

    @property
    def discrete(self) -> int:
        """How many elements, the last ones, change at jumps only."""
        return sum(part.size for part in self.parts if part.discrete)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of parts, by name."""
        return {part.name: part.size for part in self.parts}

    def place(self, names: Collection[str]) -> slice:
        """Where a state has some parts, which lie side by side."""
        begin = self.nq + self.n
        for part in self.parts:
            if part.name in names:
                break
            begin += part.size
        return slice(begin, begin + sum(part.size for part in self.parts if part.name in names))

    def split(self, y: Any) -> tuple[Any, Any, dict[str, Any]]:
        """q, the velocities, and the parts by name, of a state or of rows of states."""
        sizes = {"q": self.nq, "v": self.n} | {part.name: part.size for part in self.parts}
        found, at = {}, 0
        for name, size in sizes.items():
            found[name] = y[..., at:at + size] if isinstance(y, np.ndarray) else y[at:at + size]
            at += size
        return found.pop("q"), found.pop("v"), found

    def joined(self, q: Scalars, v: Scalars, parts: Mapping[str, Scalars]) -> list[Scalar]:
        """A state from what `split` gives."""
        return [*q, *v, *(x for part in self.parts for x in parts[part.name])]
