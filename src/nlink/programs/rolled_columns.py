"""What an algorithm holds of joints and links while it is rolled: columns without single values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn


class NotRolled(Exception):
    """Why an algorithm cannot be rolled, as a clause that follows its name."""


class RolledColumn:
    """A column of the rolled driver: it has a value for each kind, and no joint of its own."""

    values: tuple[Any, ...]

    def _refuse(self, *_: object) -> NoReturn:
        raise NotRolled("takes the values of single joints, not by the driver's `at`")

    __iter__ = __len__ = __getitem__ = _refuse


@dataclass(frozen=True, slots=True)
class Slots(RolledColumn):
    """A column of values that a sweep kept: for each kind, the value its steps see."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class GivenColumn(RolledColumn):
    """A column known without a sweep: input ports, constants and functions of other columns."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OfLinks(RolledColumn):
    """A column with a value for each link: an input port, or what a sweep over links found."""

    values: tuple[Any, ...]
    sweep: int | None = None


@dataclass(frozen=True, slots=True)
class RolledPairs:
    """A matrix by its columns: what the sweeps of each column find, kind by kind."""

    sweep: int
    """The first of its sweeps, of order COLUMNS."""
    own: tuple[Any, ...]
    """For each kind the elements of each rate's column in the joint's own rows."""
    found: tuple[Any, ...]
    """For each kind (rows, across) of joints on the path; of answers, of all before."""
    seen: tuple[Any, ...] = ()
    """For each kind the rows as the sweep of answers reads them."""

    @property
    def columns(self) -> Any:
        raise NotRolled("takes single columns of a matrix")
