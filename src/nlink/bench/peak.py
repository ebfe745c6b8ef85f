"""The limit: how many floating-point operations a core of this host can do a second.

A loop of independent fused multiply-adds on full vectors, enough of them to hide their
latency; what a kernel reaches is measured against it.
"""

from __future__ import annotations

import ctypes
import time

from nlink.backends.llvm.host import Image, compile_object, host
from nlink.backends.llvm.ir import MODULE_TAIL, Function, Lanes, Target, loop

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

    sums = loop(f, ROUNDS, [(lanes.real, lanes.const(float(k))) for k in range(CHAINS)], body)
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
