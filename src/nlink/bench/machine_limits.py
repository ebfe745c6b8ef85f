"""What bounds a kernel: its instructions by kind, beside what this core does of each kind.

The instructions are counted in the assembly of the code for a vector of states, without the
blocks for large angles; the rates are measured, each by a short piece of code that does nothing
else. No kernel is faster than the slowest of its kinds alone.

The limit: how many floating-point operations a core of this host can do a second.

Independent fused multiply-adds on full vectors, enough of them to hide their
latency; what a kernel reaches is measured against it.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nlink.backends.llvm.host import Image, assembly, compile_object, host
from nlink.backends.llvm.ir import MODULE_TAIL, Function, Lanes, Target, repeat
from nlink.backends.llvm.translate import module
from nlink.programs.program import Program

CHAINS = 12
"""Independent sums: more than latency times units, fewer than registers."""
ROUNDS = 100_000


def peak_module(target: Target) -> str:
    """`double peak(double x)`: ROUNDS times CHAINS multiply-adds on vectors."""
    f = Function()
    lanes = Lanes(f, target.width, target.fma)
    x = lanes.broadcast("%x")

    def body(_: str, sums: list[str]) -> list[str]:
        return [lanes.muladd(s, x, x) for s in sums]

    sums = repeat(f, ROUNDS, [(lanes.real, lanes.const(float(k))) for k in range(CHAINS)], body)
    total = sums[0]
    for s in sums[1:]:
        total = lanes.add(total, s)
    f.do(f"ret double {f.let(f'extractelement {lanes.real} {total}, i32 0')}")
    return f.define("double @peak(double %x)") + MODULE_TAIL


def fma_peak(seconds: float = 0.2) -> float:
    """Measured FLOP/s of one core, a multiply-add counted as two: the best of many runs."""
    target = host().target
    image = Image(compile_object(peak_module(target)))
    run = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(image.address("peak"))
    best, deadline = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        begin = time.perf_counter()
        run(0.5)
        best = min(best, time.perf_counter() - begin)
    return 2.0 * ROUNDS * CHAINS * target.width / best


KINDS = {
    "products": ("vfm", "vfn", "vmul"),
    "sums": ("vadd", "vsub"),
    "divisions": ("vdiv", "vsqrt"),
    "shuffles": ("vunpck", "vinsert", "vextract", "vperm", "vshuf", "vbroadcast"),
}
"""Instructions of x86 by what they begin with; a fused multiply-add is a product."""
MEASURED = ("products", "sums", "divisions", "shuffles", "loads", "stores")
ROUNDS, CHAINS, MOVES = 20_000, 12, 16


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """One kernel: instructions for one vector, and the least time for one state by each kind."""

    kernel: str
    instructions: dict[str, int]
    """By kind; `all` counts every one."""
    code: int
    """Bytes of object code."""
    scratch: int
    """Bytes of scratch memory."""
    bounds: dict[str, float]
    """Seconds for one state by kind, if nothing else took time."""

    @property
    def strictest(self) -> str:
        return max(self.bounds, key=self.bounds.__getitem__)


def machine_limits(kernel: str, program: Program, rates: Mapping[str, float]) -> MachineLimits:
    """Count a straight-line program's instructions, and divide by the rates of a core."""
    target = host().target
    ir, _, scratch, _ = module(program, target)
    found = count_instructions(assembly(ir))
    return MachineLimits(kernel, dict(found), len(compile_object(ir)), scratch, {
        kind: found[kind] / rates[kind] / target.width for kind in MEASURED})


def count_instructions(text: str) -> Counter[str]:
    """Vector instructions by kind in the functions `block` of an assembly, calls left out."""
    found: Counter[str] = Counter()
    for function in re.split(r"^(?=[A-Za-z_]\w*:)", text, flags=re.MULTILINE):
        if not function.partition(":")[0].endswith("block"):
            continue
        for part in re.split(r"^\.L\w+:", function, flags=re.MULTILINE):
            lines = [line.strip() for line in part.splitlines()]
            if not any(line.startswith("call") and "reduce_large" in line for line in lines):
                for line in lines:
                    found += _kinds(line)
    return found


def _kinds(line: str) -> Counter[str]:
    """What one instruction computes, and whether it reads or writes memory."""
    name, _, operands = line.partition("\t")
    if not re.fullmatch(r"[a-z]\w*", name):
        return Counter()
    kinds = [kind for kind, begins in KINDS.items() if name.startswith(begins)]
    if name.startswith("v") and "(" in operands:
        # the last operand is the one that is written
        kinds.append("stores" if operands.split("#")[0].rstrip().endswith(")") else "loads")
        kinds += ["spills"] if kinds[-1] == "stores" and "(%rsp)" in operands else []
    return Counter(["all", *kinds])


def measured_rates(seconds: float = 0.05) -> dict[str, float]:
    """Vector instructions a second of one core, by kind: the best of many runs."""
    target = host().target

    def arithmetic(operation: Callable[[Lanes, str, str], str]
                   ) -> Callable[[Lanes, str, list[str]], list[str]]:
        return lambda lanes, x, sums: [operation(lanes, s, x) for s in sums]

    def shuffle(lanes: Lanes, a: str, b: str) -> str:
        order = ", ".join(f"i32 {k + lanes.width * (k % 2)}" for k in
                          (k ^ 1 for k in range(lanes.width)))
        return lanes.function.let(f"shufflevector {lanes.real} {a}, {lanes.real} {b}, "
                                  f"<{lanes.width} x i32> <{order}>")

    def load(lanes: Lanes, _: str, sums: list[str]) -> list[str]:
        for k in range(MOVES):
            lanes.function.let(f"load volatile {lanes.real}, ptr "
                               f"{lanes.function.offset('%room', 64 * k)}, align 8")
        return sums

    def store(lanes: Lanes, x: str, sums: list[str]) -> list[str]:
        for k in range(MOVES):
            lanes.function.do(f"store volatile {lanes.real} {x}, ptr "
                              f"{lanes.function.offset('%room', 64 * k)}, align 8")
        return sums

    bodies = {"products": (CHAINS, arithmetic(lambda lanes, s, x: lanes.muladd(s, x, x))),
              "sums": (CHAINS, arithmetic(Lanes.add)),
              "divisions": (CHAINS, arithmetic(lambda lanes, s, x: lanes.binary("fdiv", s, x))),
              "shuffles": (CHAINS, arithmetic(shuffle)),
              "loads": (MOVES, load), "stores": (MOVES, store)}
    return {kind: _rate(target, body, seconds) * count for kind, (count, body) in bodies.items()}


def _rate(target: Target, body: Callable[[Lanes, str, list[str]], list[str]],
          seconds: float) -> float:
    """How often a second a body runs that hands on some vectors."""
    f = Function()
    lanes = Lanes(f, target.width, target.fma)
    x = lanes.broadcast("%x")
    first = [(lanes.real, lanes.const(1.0 + k)) for k in range(CHAINS)]
    sums = repeat(f, ROUNDS, first, lambda _, sums: body(lanes, x, sums))
    total = sums[0]
    for s in sums[1:]:
        total = lanes.add(total, s)
    f.do(f"ret double {f.let(f'extractelement {lanes.real} {total}, i32 0')}")
    image = Image(compile_object(f.define("double @rate(double %x, ptr %room)") + MODULE_TAIL))
    run = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)(
        image.address("rate"))
    room = np.zeros(64 * (MOVES + 1))
    address = room.__array_interface__["data"][0]
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run(1.0 + 2.0**-40, address + -address % 64)
        least = min(least, time.perf_counter() - begin)
    return ROUNDS / least
