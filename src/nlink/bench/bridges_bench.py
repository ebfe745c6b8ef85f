"""`nlink bench --bridges`: what a computation costs inside another framework, on one thread.

Each framework has a function in a module of its own, which `BRIDGES` names; it yields lines. A
line compares the same work done by nlink alone and through the bridge, and perhaps by a peer that
is written in the framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module

from nlink.backends.llvm.threads import threads
from nlink.bench.bench_record import BenchRecord
from nlink.bench.dynamics import cpu_name, versions
from nlink.bench.machine_limits import fma_peak

BRIDGES = {
    "float32": "nlink.bench.own_bridges:float32_lines",
    "numba": "nlink.bench.own_bridges:numba_lines",
    "jax": "nlink.bench.framework_bench:jax_lines",
    "torch": "nlink.bench.framework_bench:torch_lines",
    "casadi": "nlink.bench.framework_bench:casadi_lines",
}
"""By the name of the framework: a module and its function, `lines(seconds)`, that raises
ImportError where the framework is not installed."""
HEADINGS = ("what", "nlink alone", "bridge", "through it", "more", "faster", "peer or remark")


@dataclass(frozen=True, slots=True)
class BridgeLine:
    """The same work by nlink alone and through a bridge; seconds for one state, or one step."""

    bridge: str
    what: str
    alone: float | None
    through: float
    peer: str = ""
    """Who else does the work in the framework; without a time, a remark."""
    peer_seconds: float | None = None


@dataclass(slots=True)
class BridgesBench(BenchRecord):
    """The lines of one run and where they were taken."""

    peak: float
    """Measured FMA peak of one core in float64, FLOP/s."""
    lines: list[BridgeLine] = field(default_factory=list)


Lines = Callable[[float], Iterator[BridgeLine]]


def run_bridges_bench(names: tuple[str, ...] = (), *, seconds: float = 0.25,
                      progress: Callable[[str], None] = lambda _message: None) -> BridgesBench:
    """All bridges, or some by their names; `progress` is told what is measured."""
    unknown = [name for name in names if name not in BRIDGES]
    if unknown:
        raise ValueError(f"robots: {unknown[0]!r}, expected some of {', '.join(BRIDGES)}")
    before = threads()
    threads(1)
    try:
        bench = BridgesBench(cpu_name(), versions(), [], fma_peak())
        for name in names or BRIDGES:
            progress(name)
            module, function = BRIDGES[name].split(":")
            try:
                lines: Lines = getattr(import_module(module), function)
                bench.lines += lines(seconds)
            except ImportError:
                bench.missing.append(name)
    finally:
        threads(before)
    return bench


def rows(bench: BridgesBench) -> list[tuple[str, ...]]:
    """The lines as texts, in the order of `HEADINGS`."""
    return [(x.what, _time(x.alone), x.bridge, _time(x.through), *_compared(x), _peer(x))
            for x in bench.lines]


def _compared(line: BridgeLine) -> tuple[str, str]:
    """What the bridge adds, and how many times as fast it is."""
    if line.alone is None:
        return "", ""
    more = line.through - line.alone
    return f"{'-' if more < 0 else '+'}{_time(abs(more))}", f"{line.alone / line.through:.2f}x"


def _peer(line: BridgeLine) -> str:
    """Another library's time, and how many times as long it is."""
    if line.peer_seconds is None:
        return line.peer
    return f"{line.peer} {_time(line.peer_seconds)}, {line.peer_seconds / line.through:.1f}x"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e9:.1f} ns" if seconds < 1e-6 else f"{seconds * 1e6:.2f} us"
