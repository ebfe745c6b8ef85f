"""`nlink benchmarks`: every problem at three tolerances, its table and its plot.

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
from typing import TYPE_CHECKING

from nlink.bench.dynamics import cpu_name, versions
from nlink.bench.multibody.catalogue import PROBLEMS, problem
from nlink.bench.multibody.problem import MODELS, Problem, Solution, solve
from nlink.formats.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLERANCES = (1e-6, 1e-9, 1e-12)
HEADINGS = ("problem", "method", "compiled", *(f"{x:.0e}" for x in TOLERANCES))
PANELS = 4
"""In a row of the plot."""


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
             "| problem | mechanism | loops | with compilation | "
             + " | ".join(f"error at {x:.0e} | time" for x in TOLERANCES) + " |",
             "|---|---|---:|---:|" + "---:|" * (2 * len(TOLERANCES))]
    for name in bench.names:
        each = problem(name)
        first = bench.first_calls.get(name)
        cells = [cell for x in bench.of(name, each.methods[0])
                 for cell in (f"{x.error:.1e}", short_time(x.seconds))]
        loops = len(each.robot().description.loops)
        lines.append("| " + " | ".join([name, each.title, str(loops),
                                        "" if first is None else short_time(first), *cells]) + " |")
    lines += ["", "| problem | measured | reference | by |", "|---|---|---|---|"]
    for name in bench.names:
        each = problem(name)
        lines.append(f"| {name} | {each.measured}, at {_times(each)} | {each.reference.kind} | "
                     f"{each.reference.source} |")
    return "\n".join([*lines, ""])


def _times(each: Problem) -> str:
    times = each.reference.times[1:]
    return (", ".join(f"{t:g}" for t in times) + " s" if len(times) < 8 else
            f"{len(times)} times up to {times[-1]:g} s")


def draw(bench: Benchmarks) -> Figure:
    """Small multiples: the error over the time it takes, a point for each tolerance."""
    from nlink.reports.plots import COLOURS, MUTED, RULE, STYLES, dress, figure_class, head

    names = bench.names
    methods = list(dict.fromkeys(each.method for each in bench.solutions))
    high = -(-len(names) // PANELS)
    figure = figure_class()(figsize=(10.2, 0.75 + 2.2 * high))
    panels = figure.subplots(high, PANELS, sharex=True, sharey=True, squeeze=False)
    for name, panel in zip(names, panels.flat, strict=False):
        panel.loglog()
        for k, method in enumerate(methods):
            line = bench.of(name, method)
            panel.plot([1e3 * x.seconds for x in line], [x.error for x in line], "o",
                       linestyle=STYLES[k], color=COLOURS[k], linewidth=1.3, markersize=4,
                       label=method)
        dress(panel, name, "", log=True)
        panel.set_title(problem(name).title, loc="right", fontsize=8, color=MUTED)
        panel.set_ylim(1e-15, 20.0)
        panel.tick_params(labelbottom=True)
        panel.grid(axis="x", color=RULE, linewidth=0.5, alpha=0.7)
    for panel in panels.flat[len(names):]:
        panel.set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("error, m or rad", fontsize=8.5, color=MUTED)
    for column in range(PANELS):
        shown = [row[column] for row in panels if row[column].get_visible()]
        if shown:
            shown[-1].set_xlabel("time, ms", fontsize=8.5, color=MUTED)
    figure.subplots_adjust(left=0.07, right=0.985, bottom=0.45 / (0.75 + 2.2 * high),
                           top=1 - 0.85 / (0.75 + 2.2 * high), hspace=0.42, wspace=0.14)
    head(figure, "Published problems", "error at the reference's times over the time of a "
         f"simulation; points at tolerances {', '.join(f'{x:.0e}' for x in TOLERANCES)}", None)
    from matplotlib.lines import Line2D

    figure.legend([Line2D([], [], color=COLOURS[k], linestyle=STYLES[k], marker="o", markersize=4)
                   for k in range(len(methods))], methods, loc="upper right", ncols=len(methods),
                  frameon=False, fontsize=9.5, bbox_to_anchor=(0.995, 1.0))
    return figure


if __name__ == "__main__":
    _main(" ".join(sys.argv[1:]))
