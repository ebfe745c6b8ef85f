"""Helpers that wait for a part of a batch in native code, where it reaches them within a
microsecond; to wake a thread takes a hundred times as long.

    void nlink_serve(int64_t *board, int64_t turns)
    int64_t nlink_offer(int64_t *board, int64_t *job, int64_t places)
    void nlink_lead(int64_t *board, int64_t *job)

The board is memory that a leader and its helpers see. A leader offers so many places of its job,
unless somebody else leads, and wakes those of its helpers who are not waiting. Then it does what it
can itself, takes back what nobody took, and waits for those who did: when it returns, all work is
done and nobody touches the arrays. A helper looks at the board until nothing has happened for so
many turns; then it says that it no longer waits, looks once more, and its thread sleeps. A leader
waits without sleeping: a thread that must answer in time should work alone (`nlink.threads(1)`).

Nothing that writes code is imported here: see `team_code`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nlink.backends.llvm.threads import call_helpers

SERVE, OFFER, LEAD, NOTHING = "nlink_serve", "nlink_offer", "nlink_lead", "nlink_nothing"
BOARD = ("state", "waiting", "job")
"""The board, eight bytes each: `state` has the places on offer in its upper half and the helpers at
work in its lower one, `job` is the address of the leader's job, or 0."""
JOB = ("function", "ports", "strides", "count", "data", "next", "step", "scratch")
"""A job; the scratch memories of all members are last."""
HELPER_PATIENCE = 4e-4
"""Seconds after which a helper that has nothing to do sleeps."""
Board = ctypes.Array[ctypes.c_int64]


class Team:
    """Helpers with a board of their own."""

    def __init__(self) -> None:
        self._board = (ctypes.c_int64 * len(BOARD))()

    def lead(self, job: tuple[int, ...], scratch: Sequence[int]) -> bool:
        """Do a job, function(ports, strides, count, data, scratch, next, step), by as many
        threads as there are scratch memories; not if somebody else leads.

        `job` has these as `JOB` does. The GIL is released, and Ctrl-C is heard when all is done.
        """
        native, places, waiting = _code(), len(scratch) - 1, -1
        words = (ctypes.c_int64 * (len(job) + len(scratch)))(*job, *scratch)
        try:
            waiting = native.offer(self._board, words, places)
            if 0 <= waiting < places:  # whoever serves keeps the board alive
                call_helpers(functools.partial(native.serve, self._board, _turns()),
                             places - waiting, idle=True)
        finally:  # whatever interrupts this, nobody works when it is left
            native.lead(self._board, words)
        return waiting >= 0


class _Native(NamedTuple):
    serve: Callable[[Board, int], None]
    offer: Callable[[Board, Board, int], int]
    """How many helpers are waiting, or -1 if somebody else leads. The GIL is kept."""
    lead: Callable[[Board, Board], None]
    """Nothing, unless the job was offered."""
    nothing: int
    """The address of a job that does nothing."""


@functools.cache
def _code() -> _Native:
    """The functions named above, in code that is never freed: helpers may be in it."""
    from nlink.backends.llvm.host import Image, compile_object
    from nlink.backends.llvm.team_code import emit_team

    image = Image(compile_object(emit_team()))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(image))
    words, number = ctypes.c_void_p, ctypes.c_int64
    return _Native(ctypes.CFUNCTYPE(None, words, number)(image.address(SERVE)),
                   ctypes.PYFUNCTYPE(number, words, words, number)(image.address(OFFER)),
                   ctypes.CFUNCTYPE(None, words, words)(image.address(LEAD)),
                   image.address(NOTHING))


@functools.cache
def _turns() -> int:
    """Looks at the board that take as long as a helper is patient: measured once, on one that
    nobody writes to."""
    turns, empty, least = 1000, (ctypes.c_int64 * len(BOARD))(), 1.0
    for _ in range(8):
        begin = time.perf_counter()
        _code().serve(empty, turns)
        least = min(least, time.perf_counter() - begin)
    return max(turns, int(HELPER_PATIENCE / least * turns))


@functools.cache
def seconds_to_lead() -> float:
    """How long it takes to lead one helper: the least of some times, measured once."""
    least = 1e-3
    for _ in range(64):
        begin = time.perf_counter()
        if team.lead((_code().nothing, 0, 0, 0, 0, 0, 0), (0, 0)):  # else somebody else leads
            least = min(least, time.perf_counter() - begin)
    return least


team = Team()


def _in_child() -> None:
    """A forked child has no helpers, and nobody leads there."""
    global team
    team = Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
