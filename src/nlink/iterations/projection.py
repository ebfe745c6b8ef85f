"""States taken back to where they belong: into their spaces, and onto closed loops.

A step of integration leaves the unit quaternions and the closed states by its error. The former
come back by one call, `given.restore(t, y)`. The latter solve equations: `given.close(t, y)` is a
state that is closer to them by a step of Newton's, and a cell that says how far the step went, in
radians or sizes of the loops. It is called until a step is so short that the next one, which goes
as its square, would be rounding.

Near closed states one call is enough. Where Newton's steps do not lead to one the state stays open
and the step that led there is rejected: a shorter one ends closer.
"""

from __future__ import annotations

from typing import Any

from nlink.iterations.iteration import Column, State, kept, when
from nlink.scalars.functions import Scalar, less

CALLS = 6
"""After so many a state is closed, or Newton's steps do not lead to one that is."""
CLOSED, OPEN = 1e-9, 1e-8
"""How far the last step to a closed state goes at most, and how far if no more are tried."""

COLUMNS, CELLS = ("restored",), ("opening",)
"""What the state of an integration has for this, forgotten after the step."""


def restored(s: State, time: Scalar, column: Column, given: Any) -> tuple[State, Column]:
    """A state of the system where it belongs, or as near as it could be brought."""
    if "opening" not in s:
        return s, kept(given.restore(time, column))
    new, (opening,) = given.close(time, column)
    s = s.replace(restored=new, opening=opening)
    for _ in range(CALLS - 1):
        s = when(less(CLOSED, s.opening), s, lambda s: _again(s, time, given))
    return s, s.restored


def _again(s: State, time: Scalar, given: Any) -> State:
    new, (opening,) = given.close(time, s.restored)
    return s.replace(restored=new, opening=opening)
