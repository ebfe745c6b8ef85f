"""The functions by which a leader and its helpers share a batch, as LLVM: see `team`."""

from __future__ import annotations

import platform

from nlink.backends.llvm.ir import MODULE_TAIL, Function
from nlink.backends.llvm.team import BOARD, JOB, LEAD, NOTHING, OFFER, SERVE

PLACE = 1 << 32
PAUSES = {"x86_64": "@llvm.x86.sse2.pause()", "AMD64": "@llvm.x86.sse2.pause()",
          "aarch64": "@llvm.aarch64.hint(i32 1)", "arm64": "@llvm.aarch64.hint(i32 1)"}
"""What a core does between two looks, so that others get along faster, by machine."""


def emit_team() -> str:
    """The module of all functions, with a job that does nothing."""
    f = Function()
    f.do("ret void")
    nothing = f.define(f"void @{NOTHING}(ptr, ptr, i64, ptr, ptr, ptr, i64)")
    return "\n".join([_emit_serve(), _emit_offer(), _emit_lead(), nothing, MODULE_TAIL])


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
