"""A batch of states by the functions `block` and `one` of any kernel.

    void nlink_batch(void **ports, int64_t *strides, int64_t count, void *data, void *scratch)
    void nlink_share(void **ports, int64_t *strides, int64_t count, void *data, void *scratch,
                     int64_t *next, int64_t step)

The second one takes `step` states at a time, from *next on, until there are none left: threads
that share `next` share the batch.

Whole vectors first; the last one reaches back over states already computed, which costs
less than a tail and writes the same bits again. Code in pieces takes several vectors at
once. Fewer states than lanes, and blocks with an angle too large for the vector, are computed
one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from nlink.backends.llvm.ir import Function, Target
from nlink.backends.llvm.kernel import BATCH, SHARE
from nlink.programs.program import Port

FAR = 1 << 23
"""Bytes of a batch that a core will not find in its caches when it comes to them."""
VAST = 1 << 25
"""Bytes of a batch whose results nobody will find in caches: they need not go there."""

_PARAMETERS = "ptr %ports, ptr %strides, i64 %count, ptr %data, ptr %scratch"


def emit_batch(ports: Sequence[Port], target: Target, vectors: int | None = None) -> str:
    """The exported entry points of a kernel whose `block` takes so many vectors at most, or one
    and no number of them."""
    rows, more = "ptr, i64, " * len(ports), "" if vectors is None else ", i64, i64, i1"
    block = f"declare hidden i1 @block({rows}ptr, ptr{more}) nounwind"
    one = f"declare hidden void @one({'ptr, ' * len(ports)}ptr, ptr) nounwind"
    return "\n".join([block, one, _states(ports, target, vectors),
                      *_entries(ports, target, vectors)])


def _entries(ports: Sequence[Port], target: Target, vectors: int | None) -> list[str]:
    """The two functions for users of a kernel: what a large batch does otherwise, and parts."""
    bytes_a_state = max(1, target.precision.size * sum(port.size for port in ports))

    def begin(f: Function) -> str:
        """The last two arguments of `states`."""
        far, past = (f.let(f"icmp ugt i64 %count, {limit // bytes_a_state}")
                     for limit in (FAR, VAST))
        ahead = f.let(f"select i1 {far}, i64 {target.width * (vectors or 0)}, i64 0")
        return f"i64 {ahead}, i1 {past}"

    def end(f: Function) -> None:
        """What went past the caches is there for others, too."""
        if vectors is not None:
            f.do("fence seq_cst")
        f.do("ret void")

    f = Function()
    f.do(f"call void @states({_PARAMETERS}, {begin(f)})")
    end(f)
    whole = f.define(f"void @{BATCH}({_PARAMETERS})")
    f = Function()
    large, moved = begin(f), f.let(f"alloca [{len(ports)} x i64]")
    f.go("part")
    f.begin("part")
    first = f.let("atomicrmw add ptr %next, i64 %step seq_cst")
    f.branch(f.let(f"icmp slt i64 {first}, %count"), "some", "end")
    f.begin("some")
    for k in range(len(ports)):
        offset = f.let(f"mul i64 {first}, {f.load('i64', '%strides', 8 * k)}")
        f.store("ptr", f.offset(f.load("ptr", "%ports", 8 * k), offset), moved, 8 * k)
    left = f.let(f"sub i64 %count, {first}")
    size = f.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 %step)")
    f.do(f"call void @states(ptr {moved}, ptr %strides, i64 {size}, ptr %data, ptr %scratch, "
         f"{large})")
    f.go("part")
    f.begin("end")
    end(f)
    return [whole, f.define(f"void @{SHARE}({_PARAMETERS}, ptr %next, i64 %step)")]


def _states(ports: Sequence[Port], target: Target, vectors: int | None) -> str:
    """`states`: some states one after the other, rows fetched %ahead of them, results that are
    copied past the caches if %stream."""
    f, n, width = Function(), len(ports), target.width
    bases = [f.load("ptr", "%ports", 8 * k) for k in range(n)]
    strides = [f.load("i64", "%strides", 8 * k) for k in range(n)]

    def at(state: str) -> list[str]:
        return [f.offset(b, f.let(f"mul i64 {state}, {s}"))
                for b, s in zip(bases, strides, strict=True)]

    def one_by_one(begin: str, end: str, after: str) -> None:
        """The states begin..end - 1, then go to a label."""
        before, head, body = f.label, f.fresh("head"), f.fresh("body")
        state, advanced = f"%{f.fresh('state')}", f"%{f.fresh('next')}"
        f.go(head)
        f.begin(head)
        f.do(f"{state} = phi i64 [ {begin}, %{before} ], [ {advanced}, %{body} ]")
        f.branch(f.let(f"icmp slt i64 {state}, {end}"), body, after)
        f.begin(body)
        arguments = "".join(f"ptr {p}, " for p in at(state))
        f.do(f"call void @one({arguments}ptr %data, ptr %scratch)")
        f.do(f"{advanced} = add i64 {state}, 1")
        f.go(head)

    # fewer states than lanes are computed one by one
    f.branch(f.let(f"icmp slt i64 %count, {width}"), "few", "many")
    f.begin("few")
    one_by_one("0", "%count", "end")
    # vectors from the first state on; the last one reaches back to a whole width
    f.begin("many")
    last = f.let(f"sub i64 %count, {width}")
    f.go("vector")
    f.begin("vector")
    f.do("%reached = phi i64 [ 0, %many ], [ %onward, %advance ]")
    first = f.let(f"call i64 @llvm.smin.i64(i64 %reached, i64 {last})")
    states, count = str(width), ""
    if vectors is not None:
        # as many whole vectors as are left, or the one that reaches back
        left = f.let(f"sdiv i64 {f.let('sub i64 %count, %reached')}, {width}")
        left = f.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 {vectors})")
        left = f.let(f"call i64 @llvm.smax.i64(i64 {left}, i64 1)")
        states = f.let(f"mul i64 {left}, {width}")
        count = f", i64 {left}, i64 %ahead, i1 %stream"
    # a block whose angles were too large for a vector is computed again, state by state
    arguments = "".join(f"ptr {p}, i64 {s}, " for p, s in zip(at(first), strides, strict=True))
    large = f.let(f"call i1 @block({arguments}ptr %data, ptr %scratch{count})")
    f.branch(large, "again", "advance", unlikely=True)
    f.begin("again")
    one_by_one(first, f.let(f"add i64 {first}, {states}"), "advance")
    f.begin("advance")
    f.do(f"%onward = add i64 %reached, {states}")
    f.branch(f.let("icmp slt i64 %onward, %count"), "vector", "end")
    f.begin("end")
    f.do("ret void")
    return f.define(f"internal void @states({_PARAMETERS}, i64 %ahead, i1 %stream)")
