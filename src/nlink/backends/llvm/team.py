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
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nlink.backends.llvm.ir import MODULE_TAIL, Function
from nlink.backends.llvm.threads import call_helpers

SERVE, OFFER, LEAD, NOTHING = "nlink_serve", "nlink_offer", "nlink_lead", "nlink_nothing"
BOARD = ("state", "waiting", "job")
"""The board, eight bytes each: `state` has the places on offer in its upper half and the helpers at
work in its lower one, `job` is the address of the leader's job, or 0."""
JOB = ("function", "ports", "strides", "count", "data", "next", "step", "scratch")
"""A job; the scratch memories of all members are last."""
PLACE = 1 << 32
PATIENCE = 4e-4
"""Seconds after which a helper that has nothing to do sleeps."""
PAUSES = {"x86_64": "@llvm.x86.sse2.pause()", "AMD64": "@llvm.x86.sse2.pause()",
          "aarch64": "@llvm.aarch64.hint(i32 1)", "arm64": "@llvm.aarch64.hint(i32 1)"}
"""What a core does between two looks, so that others get along faster, by machine."""


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
    """The functions of this file, in code that is never freed: helpers may be in it."""
    from nlink.backends.llvm.host import Image, compile_object

    f = Function()
    f.do("ret void")
    nothing = f.define(f"void @{NOTHING}(ptr, ptr, i64, ptr, ptr, ptr, i64)")
    functions = [_emit_serve(), _emit_offer(), _emit_lead(), nothing]
    image = Image(compile_object("\n".join([*functions, MODULE_TAIL])))
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
    return max(turns, int(PATIENCE / least * turns))


@functools.cache
def seconds_to_lead() -> float:
    """How long it takes to lead one helper: the least of some times, measured once."""
    least = 1e-3
    for _ in range(64):
        begin = time.perf_counter()
        if team.lead((_code().nothing, 0, 0, 0, 0, 0, 0), (0, 0)):  # else somebody else leads
            least = min(least, time.perf_counter() - begin)
    return least


def _work(f: Function, job: str, member: str) -> None:
    """Do a job in the scratch memory of a member of the team, 0 being the leader."""
    kinds = {"count": "i64", "step": "i64"}
    word = {name: f.load(kinds.get(name, "ptr"), job, 8 * k) for k, name in enumerate(JOB[:-1])}
    own = f.offset(job, f.let(f"shl i64 {member}, 3"))
    word["scratch"] = f.load("ptr", own, 8 * JOB.index("scratch"))
    arguments = ", ".join(f"{kinds.get(name, 'ptr')} {word[name]}" for name in (
        "ports", "strides", "count", "data", "scratch", "next", "step"))
    f.do(f"call void {word['function']}({arguments})")


def _place(f: Function, name: str) -> str:
    return f.offset("%board", 8 * BOARD.index(name))


def _state(f: Function) -> str:
    return f.let("load atomic i64, ptr %board seq_cst, align 8")


def _pause(f: Function) -> None:
    if platform.machine() in PAUSES:
        f.do(f"call void {PAUSES[platform.machine()]}")


def _emit_serve() -> str:
    f = Function()
    waiting = _place(f, "waiting")
    f.go("arrive")
    f.begin("arrive")
    f.let(f"atomicrmw add ptr {waiting}, i64 1 seq_cst")
    f.go("look")
    f.begin("look")
    f.do("%turn = phi i64 [ 0, %arrive ], [ %another, %idle ], [ %turn, %offered ], [ 0, %work ]")
    state = _state(f)
    places = f.let(f"lshr i64 {state}, 32")
    f.branch(f.let(f"icmp ne i64 {places}, 0"), "offered", "idle")
    # a place is taken, unless somebody was faster
    f.begin("offered")
    taken = f.let(f"sub i64 {state}, {PLACE - 1}")
    answer = f.let(f"cmpxchg ptr %board, i64 {state}, i64 {taken} seq_cst seq_cst")
    f.branch(f.let(f"extractvalue {{ i64, i1 }} {answer}, 1"), "work", "look")
    f.begin("work")
    _work(f, f.load("ptr", _place(f, "job")), places)
    f.let("atomicrmw sub ptr %board, i64 1 seq_cst")
    f.go("look")
    f.begin("idle")
    _pause(f)
    f.do("%another = add i64 %turn, 1")
    f.branch(f.let("icmp slt i64 %another, %turns"), "look", "leave")
    # an offer made before this was known is still taken
    f.begin("leave")
    f.let(f"atomicrmw sub ptr {waiting}, i64 1 seq_cst")
    late = f.let(f"icmp ugt i64 {_state(f)}, {PLACE - 1}")
    f.branch(late, "arrive", "sleep")
    f.begin("sleep")
    f.do("ret void")
    return f.define(f"void @{SERVE}(ptr %board, i64 %turns)")


def _emit_offer() -> str:
    f = Function()
    answer = f.let(f"cmpxchg ptr {_place(f, 'job')}, ptr null, ptr %job seq_cst seq_cst")
    f.branch(f.let(f"extractvalue {{ ptr, i1 }} {answer}, 1"), "free", "taken")
    f.begin("taken")
    f.do("ret i64 -1")
    f.begin("free")
    f.let(f"atomicrmw add ptr %board, i64 {f.let('shl i64 %places, 32')} seq_cst")
    waiting = _place(f, "waiting")
    f.do(f"ret i64 {f.let(f'load atomic i64, ptr {waiting} seq_cst, align 8')}")
    return f.define(f"i64 @{OFFER}(ptr %board, ptr %job, i64 %places)")


def _emit_lead() -> str:
    f = Function()
    leader = f.let(f"load atomic ptr, ptr {_place(f, 'job')} seq_cst, align 8")
    f.branch(f.let(f"icmp eq ptr {leader}, %job"), "work", "end")
    f.begin("work")
    _work(f, "%job", "0")
    f.let(f"atomicrmw and ptr %board, i64 {PLACE - 1} seq_cst")
    f.go("wait")
    f.begin("wait")
    _pause(f)
    f.branch(f.let(f"icmp eq i64 {_state(f)}, 0"), "done", "wait")
    f.begin("done")
    f.do(f"store atomic ptr null, ptr {_place(f, 'job')} seq_cst, align 8")
    f.go("end")
    f.begin("end")
    f.do("ret void")
    return f.define(f"void @{LEAD}(ptr %board, ptr %job)")


team = Team()


def _in_child() -> None:
    """A forked child has no helpers, and nobody leads there."""
    global team
    team = Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
