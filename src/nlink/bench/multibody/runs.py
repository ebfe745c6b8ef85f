"""`nlink benchmarks`: every problem at three tolerances, and their table.

What the first simulation of a problem takes, with tracing and compilation, is measured in a process
of its own without kernels on disk: `python -m nlink.bench.multibody.runs NAME`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nlink.bench.dynamics import cpu_name, versions
from nlink.bench.multibody.problem import MODELS, Problem, Solution, solve
from nlink.bench.multibody.published import PROBLEMS, problem
from nlink.formats.files import write_text

TOLERANCES = (1e-6, 1e-9, 1e-12)
HEADINGS = ("problem", "method", "compiled", *(f"{x:.0e}" for x in TOLERANCES))


@dataclass(slots=True)
class Benchmarks:
    """The solutions of one run and where they were computed."""

    cpu: str
    versions: dict[str, str]
    solutions: list[Solution] = field(default_factory=list)
    first_calls: dict[str, float] = field(default_factory=dict)
    """Seconds of a problem's first simulation."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def of(self, name: str, method: str) -> list[Solution]:
        """The solutions of a problem by a method, the loosest tolerance first."""
        return [each for each in self.solutions
                if each.problem == name and each.method == method]

    @property
    def names(self) -> list[str]:
        """The problems, each once."""
        return list(dict.fromkeys(each.problem for each in self.solutions))


def run_benchmarks(names: Sequence[str] = (), tolerances: Sequence[float] = TOLERANCES, *,
                   repeats: int = 5, first: bool = True,
                   progress: Callable[[str], None] = lambda _message: None) -> Benchmarks:
    """All problems, or some, by all their methods; `progress` is told what is solved.

    Without `first`, no processes measure first calls.
    """
    bench = Benchmarks(cpu_name(), versions())
    for each in [problem(name) for name in names or PROBLEMS]:
        progress(each.name)
        if first:
            bench.first_calls[each.name] = _first_call(each.name)
        robot = each.robot()
        bench.solutions += [solve(each, robot, method, tolerance, repeats)
                            for method in each.methods for tolerance in tolerances]
    return bench


def _first_call(name: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run([sys.executable, "-m", __name__, name], check=True, text=True,
                              capture_output=True, env={**os.environ, "NLINK_CACHE": cache})
    return float(done.stdout)


def _main(name: str) -> None:
    each = problem(name)
    robot, begin = each.robot(), time.perf_counter()
    each.simulate(robot, each.methods[0], TOLERANCES[1])
    print(time.perf_counter() - begin)


def write_models(directory: str | Path) -> list[Path]:
    """Write every problem's mechanism as a TOML file, for `nlink.load` and for other programs."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in PROBLEMS:
        robot = problem(name).robot()
        known = MODELS / f"{robot.name}.toml"
        text = known.read_text("utf-8") if known.is_file() else robot.to_toml()
        path = place / f"{robot.name}.toml"
        if path not in paths:
            write_text(path, text)
            paths.append(path)
    return paths


def short_time(seconds: float) -> str:
    """To two digits: "1.2 ms".

    >>> short_time(0.00123), short_time(12.3)
    ('1.2 ms', '12 s')
    """
    unit, name = next(((size, name) for size, name in (
        (1.0, "s"), (1e-3, "ms")) if seconds >= size), (1e-6, "us"))
    value = seconds / unit
    return f"{value:.1f} {name}" if value < 9.95 else f"{value:.0f} {name}"


def rows(bench: Benchmarks, methods: int = 1) -> list[tuple[str, ...]]:
    """The table's rows, of the first method or methods: error and time at each tolerance."""
    lines = []
    for name in bench.names:
        for method in problem(name).methods[:methods]:
            first = bench.first_calls.get(name)
            lines.append((name, method, "" if first is None else short_time(first), *(
                f"{x.error:.0e} {short_time(x.seconds):>6}" for x in bench.of(name, method))))
    return lines


def markdown(bench: Benchmarks) -> str:
    """The table, and below it what is measured and by whom the reference is."""
    used = ", ".join(f"{name} {version}" for name, version in bench.versions.items()
                     if name in ("python", "numpy", "llvmlite"))
    lines = [f"{bench.cpu}; {used}.", "",
             "| problem | loops | compiled | "
             + " | ".join(f"at {x:.0e} | time" for x in TOLERANCES) + " |",
             "|---|---:|---:|" + "---:|" * (2 * len(TOLERANCES))]
    for name in bench.names:
        each = problem(name)
        first = bench.first_calls.get(name)
        cells = [cell for x in bench.of(name, each.methods[0])
                 for cell in (f"{x.error:.1e}", short_time(x.seconds))]
        loops = len(each.robot().description.loops)
        lines.append("| " + " | ".join([name, str(loops),
                                        "" if first is None else short_time(first), *cells]) + " |")
    lines += ["", "| problem | measured | reference | by |", "|---|---|---|---|"]
    for name in bench.names:
        each = problem(name)
        lines.append(f"| {name}, {each.title} | {each.measured}, at {_times(each)} | "
                     f"{each.reference.kind} | {each.reference.source} |")
    return "\n".join([*lines, ""])


def _times(each: Problem) -> str:
    times = each.reference.times[1:]
    return (", ".join(f"{t:g}" for t in times) + " s" if len(times) < 8 else
            f"{len(times)} times up to {times[-1]:g} s")


if __name__ == "__main__":
    _main(" ".join(sys.argv[1:]))
