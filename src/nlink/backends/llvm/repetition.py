"""Code that is written once and run several times: counted, or while a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nlink.backends.llvm.ir import Function


def repeat(f: Function, count: int | str, carried: Sequence[tuple[str, str]],
           body: Callable[[str, list[str]], Sequence[str]]) -> list[str]:
    """`count` iterations that hand on values in registers; their values at the end.

    `carried` are types and initial values; `body(k, values)` emits iteration k.
    """

    def step(values: list[str]) -> list[str]:
        results = body(values[0], values[1:])
        return [f.let(f"add i64 {values[0]}, 1"), *results]

    return repeat_while(f, [("i64", "0"), *carried],
                        lambda values: f.let(f"icmp slt i64 {values[0]}, {count}"), step)[1:]


def repeat_while(f: Function, carried: Sequence[tuple[str, str]],
                 go_on: Callable[[list[str]], str],
                 body: Callable[[list[str]], Sequence[str]]) -> list[str]:
    """Iterations while a condition on the values that they hand on holds; the last values."""
    before, head, inside, after = f.label, f.fresh("head"), f.fresh("inside"), f.fresh("after")
    f.go(head)
    f.begin(head)
    names = [f"%{f.fresh('at')}" for _ in carried]
    place = len(f.lines)  # the phis are written here once the last values are known
    f.branch(go_on(names), inside, after)
    f.begin(inside)
    values = body(names)
    f.lines[place:place] = [
        f"  {name} = phi {kind} [ {first}, %{before} ], [ {value}, %{f.label} ]"
        for name, (kind, first), value in zip(names, carried, values, strict=True)]
    f.go(head)
    f.begin(after)
    return names
