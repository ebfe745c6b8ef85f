"""What the commands print: robots, counts, runs and benches, for people and for programs."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from nlink.bench import bench_tables
from nlink.bench import dynamics as bench
from nlink.engines.complexity import (
    INVERSE_DYNAMICS_TABLE,
    CostFormula,
    cost_formula,
    count,
    count_rivals,
)
from nlink.formats.files import write_text
from nlink.model.pose import DH
from nlink.reports.link_tree import PLAIN, link_tree
from nlink.reports.terminal import console, grid, label
from nlink.robot import Robot
from nlink.scalars.counting import Count

HEADING = "bold cyan"
UNBOUNDED = 10_000
"""The width of what is written to a file: nothing in it is cut short."""
GIVES_WAY = ("mass centre", "mass", "theta", "alpha", "b", "a", "joint")
"""Columns of links in the order in which they are left out where there is no room for all."""


VAST = 10_000
"""A width at which no table is cut."""


def describe(robot: Robot) -> dict[str, Any]:
    """A robot as plain data, for `nlink info --json`."""
    rows = []
    for link, joint in zip(robot.links, robot.joints, strict=True):
        place = joint.placement
        seat: dict[str, Any] = (
            {"a": place.a, "b": place.b, "alpha": place.alpha, "theta": place.theta,
             "convention": place.convention} if isinstance(place, DH)
            else {"placement": place.before.matrix, "after": place.after.matrix})
        rows.append({
            "link": link.name, "mass": link.mass, "com": link.com, "inertia": link.inertia,
            "joint": joint.name, "type": joint.type.name, "axis": joint.type.axis,
            "parent": robot.frames[joint.parent], **seat, "armature": joint.armature,
            **joint.friction.table,
            "limits": {"position": joint.limits.position, "velocity": joint.limits.velocity,
                       "effort": joint.limits.effort},
            "mimic": None if joint.mimic is None else asdict(joint.mimic)})
    return {"name": robot.name, "n": robot.n, "nq": robot.nq, "gravity": robot.gravity,
            "source": " ".join(robot.description.source.split()), "frames": robot.frames,
            "loops": [{"name": loop.name, "joint": loop.constraint.name,
                       "of": robot.frames[loop.of.link], "on": robot.frames[loop.on.link]}
                      for loop in robot.description.loops],
            "gears": [asdict(gear) for gear in robot.description.gears],
            "report": robot.report, "objection": robot.description.objection, "links": rows}


def summary(robot: Robot) -> dict[str, Any]:
    """A robot in a line: its joints as letters, and the first sentence of its source."""
    letters = "".join(joint.type.name[0].upper() for joint in robot.joints if joint.type.nv)
    source = " ".join(robot.description.source.split())
    sentence = re.split(r"(?<=\S\S)\.(?: |$)", source, maxsplit=1)[0]  # not at an initial
    return {"n": robot.n, "joints": letters, "physical": robot_is_physical(robot),
            "source": f"{sentence}."}


def robot_is_physical(robot: Robot) -> bool:
    """Whether every link has an inertia that some real body has."""
    return not robot.description.objection


def print_robot(robot: Robot) -> None:
    """What `nlink info` shows."""
    screen = console()
    gravity = ", ".join(f"{x:g}" for x in robot.gravity)
    screen.print(robot.name, style="bold", end="")
    screen.print(f": {robot.n} rates, gravity ({gravity}) m/s^2, "
                 f"mass {sum(link.mass for link in robot.links):.4g} kg")
    if robot.description.source:
        screen.print(" ".join(robot.description.source.split()), style="dim")
    wide = console(width=None if screen.is_terminal or "COLUMNS" in os.environ else UNBOUNDED)
    if any(isinstance(joint.placement, DH) for joint in robot.joints):
        wide.print(link_table(robot, wide))
    else:
        heading, *lines, legend = link_tree(robot, wide.width)
        if screen.options.ascii_only:
            lines = [line.translate(PLAIN) for line in lines]
        screen.print()
        screen.print(heading, style=HEADING, soft_wrap=True)
        screen.print(*lines, sep="\n", soft_wrap=True)
        screen.print(legend, style="dim")
    for loop in robot.description.loops:
        of, on = (robot.frames[end.link] for end in (loop.of, loop.on))
        screen.print(f"loop {loop.name}: {of} held on {on}, {loop.constraint.name}")
    for gear in robot.description.gears:
        screen.print(f"gear {gear.name}: {gear.equation}", soft_wrap=True)
    if robot.report:
        screen.print("\nleft out or changed by the reader:")
    for line in robot.report:
        screen.print(f"  {line}", soft_wrap=True)
    if robot.description.objection:
        screen.print(f"numbers: {robot.description.objection}", soft_wrap=True)


def link_table(robot: Robot, screen: Console | None = None) -> Table:
    """One row for each link: how it is joined, where, and its mass. Where a screen has no room
    for all, columns are left out, but no name is cut short."""
    table, missing = _link_table(robot, ()), []
    for name in GIVES_WAY:
        if screen is None or screen.measure(table, options=screen.options.update(
                max_width=UNBOUNDED)).maximum <= screen.width:
            break
        missing.append(name)
        table = _link_table(robot, missing)
    return table


def _link_table(robot: Robot, missing: Sequence[str]) -> Table:
    branched = any(joint.parent != k for k, joint in enumerate(robot.joints))
    words = ("link", "on", "joint") if branched else ("link", "joint")
    caption = "m, degrees, kg" + (f"; no room for {', '.join(missing)}" if missing else "")
    heads = [name for name in (*words, "a", "b", "alpha", "theta", "mass", "mass centre")
             if name not in missing]
    table = grid(*heads, text=words, caption=caption)
    for link, joint in zip(robot.links, robot.joints, strict=True):
        place = joint.placement
        seat = ((place.a, place.b, math.degrees(place.alpha), math.degrees(place.theta))
                if isinstance(place, DH) else None)
        cells = {"link": link.name, "on": robot.frames[joint.parent], "joint": joint.type.name,
                 **dict(zip(("a", "b", "alpha", "theta"), (f"{x:.4g}" for x in seat)
                            if seat else ("-",) * 4, strict=True)),
                 "mass": f"{link.mass:.4g}", "mass centre": ", ".join(f"{x:.3g}" for x in link.com)}
        table.add_row(*(cells[name] for name in heads))
    return table


@dataclass(frozen=True, slots=True)
class Counts:
    """Operation counts of a robot by name; the general-purpose ones on request."""

    robot: Robot
    formulations: dict[str, str]
    customized: dict[str, Count]
    general: dict[str, Count] | None
    formulas: dict[str, CostFormula | None]
    rivals: dict[str, Count]
    """The formulations that compete with the chosen one, if one name was asked for."""

    @classmethod
    def of(cls, robot: Robot, names: Sequence[str], algorithm: str | None, *,
           general: bool) -> Counts:
        chosen = {name: robot.request(name, algorithm=algorithm).algorithm.formulation
                  for name in names}
        return cls(
            robot, chosen,
            {name: count(robot, name, chosen[name]) for name in names},
            {name: count(robot, name, chosen[name], customize=False) for name in names}
            if general else None,
            {name: _formula(name, chosen[name]) for name in names} if general else {},
            count_rivals(robot, names[0]) if len(names) == 1 and algorithm is None else {})

    def data(self) -> dict[str, Any]:
        """For `nlink count --json`."""
        rows = {}
        for name, here in self.customized.items():
            rows[name] = {"formulation": self.formulations[name],
                          "robot": asdict(here) | {"total": here.total}}
            if self.general is not None:
                there, formula = self.general[name], self.formulas[name]
                rows[name] |= {"general": asdict(there) | {"total": there.total},
                               "formula": None if formula is None else str(formula)}
            if self.rivals:
                rows[name]["rivals"] = {known: asdict(each) | {"total": each.total}
                                        for known, each in self.rivals.items()}
        return {"robot": self.robot.name, "n": self.robot.n, "counts": rows}

    def table(self) -> Table:
        """One row for each name."""
        table = grid("", self.robot.name, "total", text=("",))
        for name, here in self.customized.items():
            table.add_row(f"{name} ({self.formulations[name]})", str(here), str(here.total))
            if self.general is not None:
                there = self.general[name]
                table.add_row("  any robot of this shape", str(there), str(there.total))
                table.add_row(f"  chains: {self.formulas[name] or 'no cubic formula'}", "", "")
            for known, each in self.rivals.items():
                table.add_row(f"  {known}", str(each), str(each.total))
        return table


def _formula(name: str, algorithm: str | None) -> CostFormula | None:
    try:
        return cost_formula(name, algorithm)
    except ArithmeticError:
        return None


def published(robot: Robot) -> list[dict[str, Any]]:
    """[Saha99] Table 1 at the robot's number of joints, as data."""
    return [{"algorithm": row.algorithm, "formula": str(row.cost),
             **dict(zip(("mul", "add"), row.cost.at(robot.n), strict=True))}
            for row in INVERSE_DYNAMICS_TABLE]


def published_table(robot: Robot) -> Table:
    """Inverse dynamics beside [Saha99] Table 1, for as many joints as the robot has."""
    n = robot.n
    title = f"Inverse dynamics, operations beside [Saha99] Table 1 (n = {n})"
    table = grid("algorithm", "M", "A", "formula", title=title, text=("algorithm", "formula"))
    for row in sorted(INVERSE_DYNAMICS_TABLE, key=lambda row: -sum(row.cost.at(n))):
        table.add_row(row.algorithm, *map(str, row.cost.at(n)), str(row.cost))
    table.add_section()
    general = cost_formula("inverse_dynamics")
    at_n, here = general(n), count(robot, "inverse_dynamics")
    table.add_row("nlink, any robot", str(at_n.mul), str(at_n.add), str(general), style="bold")
    table.add_row(f"nlink, {robot.name}", str(here.mul), str(here.add),
                  "its own zeros and ones folded", style="bold green")
    return table


def print_bench(result: bench.Bench) -> None:
    """Timings beside the peers'."""
    out = console()
    out.print(bench_tables.conditions(result))
    heading, *lines = bench_lines(bench_tables.rows(result))
    out.print(f"\n{heading}", style=HEADING, soft_wrap=True)
    out.print(*lines, "", sep="\n", soft_wrap=True)
    for line in bench_tables.limits(result):
        out.print(line)


def bench_lines(rows: Sequence[bench_tables.BenchRow]) -> list[str]:
    """A heading, then what was timed in a line of its own, and below it a line for each peer: this
    fits 80 columns, where five columns would not."""
    cells = [("beside", "nlink", "its time", "ratio"), *(
        (f"  {row.peer}", f"{row.ours * 1e9:.1f} ns",
         "" if row.theirs is None else f"{row.theirs * 1e9:.1f} ns", row.ratio) for row in rows)]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    aligned = [line[0].ljust(first) + "".join(
        f"  {cell:>{width}}" for cell, width in zip(line[1:], others, strict=True))
        for line in cells]
    lines, above = aligned[:1], None
    for row, line in zip(rows, aligned[1:], strict=True):
        lines += [line] if row.what == above else [row.what, line]
        above = row.what
    return lines


def print_run(summary: dict[str, Any]) -> None:
    """A simulation in a few lines."""
    out = console()
    many = f"{summary['trajectories']} trajector" + (
        "y" if summary["trajectories"] == 1 else "ies")
    out.print(f"{summary['robot']}, {summary['method']}: {many}"
              f" of {summary['t']:g} s, {summary['outputs']} outputs")
    out.print(f"{summary['steps']} steps, {summary['rejects']} rejected, "
              f"{summary['evaluations']} evaluations")
    tracking = summary["tracking"]
    if tracking is not None:
        out.print(f"follows within {tracking['error']:.3g} {tracking['unit']} ({tracking['of']}), "
                  f"{tracking['end_error']:.3g} {tracking['end_unit']} at the end "
                  f"({tracking['end_of']})")
        share = (f"; {tracking['limit_of']} comes to {100 * tracking['limit_share']:.3g} % of its "
                 "limit" if tracking["limit_share"] else ", no limits given")
        out.print(f"largest effort {tracking['effort']:.4g} {tracking['effort_unit']} "
                  f"({tracking['effort_of']}){share}")
    elif summary["energy_change"] is not None:
        out.print(f"energy changes by at most {summary['energy_change']:.3g} J")
    if summary["closure_error"] is not None:
        out.print(f"loops are open by at most {summary['closure_error']:.2g} (rad or m)")
    if summary["contact"] is not None:
        out.print(f"contacts are solved to {summary['contact']['residual']:.2g} m/s, at most "
                  f"{summary['contact']['depth']:.2g} m deep")
    for name, often in summary["events"].items():
        out.print(f"{name}: {often} time{'' if often == 1 else 's'}")
    for failure in summary["failed"][:10]:
        where = f"trajectory {failure['trajectory'][0]}: " if failure["trajectory"] else ""
        out.print(f"{where}{failure['status']} at t = {failure['t']:.6g}")
    if len(summary["failed"]) > 10:
        out.print(f"and {len(summary['failed']) - 10} more that did not reach the end")
    if summary["files"]:
        out.print(f"wrote {', '.join(summary['files'])}", soft_wrap=True)


def run_simulation_bench(robots: Sequence[str] | None, save: Path | None, *,
                         as_json: bool) -> None:
    """Measure integration and print the table."""
    from nlink.bench import integration_bench as measure

    result = _measured(measure.run_simulation_bench, robots[0] if robots else "puma560")
    _print_bench(measure, result, ("what", "beside", "errors at 2 s"), save=save, as_json=as_json)


def run_ik_bench(robots: Sequence[str] | None, save: Path | None, *, as_json: bool) -> None:
    """Measure inverse kinematics and print the table."""
    from nlink.bench import ik_bench as measure

    result = _measured(measure.run_ik_bench, tuple(robots) if robots else measure.ROBOTS)
    _print_bench(measure, result, ("what",), _not_installed(result), save=save, as_json=as_json)


def run_loops_bench(robots: Sequence[str] | None, seconds: float, save: Path | None, *,
                    as_json: bool) -> None:
    """Measure mechanisms with many loops and print the table."""
    from nlink.bench import loops_bench as measure

    result = _measured(measure.run_loops_bench, tuple(robots or ()), seconds=seconds)
    _print_bench(measure, result, ("mechanism",), save=save, as_json=as_json)


def run_bridges_bench(names: Sequence[str] | None, seconds: float, save: Path | None, *,
                      as_json: bool) -> None:
    """Measure computations inside other frameworks and print the table."""
    from nlink.bench import bridges_bench as measure

    result = _measured(measure.run_bridges_bench, tuple(names or ()), seconds=seconds)
    if not as_json:
        console().print(f"{result.cpu}, {result.peak / 1e9:.0f} GFLOP/s in float64, one thread")
    _print_bench(measure, result, ("what", "bridge", "peer or remark"), _not_installed(result),
                 save=save, as_json=as_json)


def run_contact_bench(seconds: float, save: Path | None, *, as_json: bool) -> None:
    """Measure a quadruped that stands and print the table."""
    from nlink.bench import contact_bench as measure

    result = _measured(measure.run_contact_bench, seconds=max(1.0, seconds))
    _print_bench(measure, result, ("what",), f"first call {result.first_call:.1f} s, residual "
                 f"{result.residual:.1e} m/s, depth {result.depth:.1e} m; {result.cpu}",
                 save=save, as_json=as_json)


def run_control_bench(seconds: float, save: Path | None, *, as_json: bool) -> None:
    """Measure optimal control and print the table."""
    from nlink.bench import control_bench as measure

    result = _measured(measure.run_control_bench, seconds=max(1.0, seconds))
    _print_bench(measure, result, ("what", "costs"), measure.below(result), save=save,
                 as_json=as_json)


def run_learners_bench(robots: Sequence[str] | None, seconds: float, save: Path | None, *,
                       as_json: bool) -> None:
    """Measure environments of many robots and print the table."""
    from nlink.bench import learners_bench as measure

    result = _measured(measure.run_learners_bench, tuple(robots or ()), seconds=seconds)
    _print_bench(measure, result, ("what",), f"{sum(x.failures for x in result.rows)} failures; "
                 f"{result.cpu}, {result.peak / 1e9:.0f} GFLOP/s, one thread", save=save,
                 as_json=as_json)


def _measured(run: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a bench has measured, naming what it is at."""
    with console(stderr=True).status("measuring") as status:
        return run(*arguments, **options,
                   progress=lambda what: status.update(label(f"measuring {what}")))


def _print_bench(measure: Any, result: Any, text: Sequence[str], below: str = "", *,
                 save: Path | None, as_json: bool) -> None:
    """The table of a bench, its columns of `text` to the left, and a line below it; to a file as
    Markdown, too."""
    if save is not None:
        from nlink.bench.bench_record import table as markdown

        write_text(save, markdown(measure.HEADINGS, measure.rows(result), text))
    if as_json:
        print(result.to_json())
        return
    table, out = grid(*measure.HEADINGS, text=tuple(text)), console()
    for row in measure.rows(result):
        table.add_row(*row)
    room = out.options.update(width=VAST)
    if out.measure(table, options=room).maximum <= out.width:
        out.print(table)
    else:  # a narrow terminal: names and numbers are never cut
        for name, *numbers in measure.rows(result):
            out.print(name)
            for line in _filled([f"{heading} {x}" for heading, x in zip(
                    measure.HEADINGS[1:], numbers, strict=True) if x], out.width):
                out.print(line)
    if below:
        out.print(below)


def _filled(cells: Sequence[str], width: int) -> list[str]:
    """Lines of whole cells, with a semicolon between them, as many as fit."""
    lines: list[str] = []
    for cell in cells:
        if lines and len(lines[-1]) + 2 + len(cell) <= width:
            lines[-1] += f"; {cell}"
        else:
            lines.append(f"    {cell}")
    return lines


def _not_installed(result: Any) -> str:
    return f"not installed: {', '.join(result.missing)}" if result.missing else ""


def print_all_tables() -> None:
    """The papers' complexity tables, ours beside theirs."""
    from nlink.papers import formulations, koz_tables
    from nlink.papers import saha_tables as tables

    out = console()
    for table in (*(t.printed() for t in tables.tables()), tables.break_even_table(),
                  formulations.table(), koz_tables.table_2(), koz_tables.table_3()):
        out.print(table)


def all_tables_data() -> dict[str, Any]:
    """The same for JSON."""
    from nlink.papers import formulations, koz_tables
    from nlink.papers import saha_tables as tables

    return {"saha": tables.data(), "kozlowski": koz_tables.data(),
            "formulations": [asdict(f) for f in formulations.formulations()]}
