"""A short tour: the papers' PUMA run, its operation counts, closed forms, and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import nlink
from nlink.reports import plots, terminal
from nlink.robot import Robot

if TYPE_CHECKING:
    from sympy import Expr

DURATION = 10.0
INSTANTS = (0.0, 2.5, 5.0, 7.5, 10.0)


def cycloid(t: np.ndarray, start: np.ndarray, end: np.ndarray, duration: float = DURATION,
            ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, qd, qdd of the papers' trajectory [Saha99, 38-39], at rest at both ends.

    x(t) = x0 + (xT - x0)/(2 pi) [2 pi t/T - sin(2 pi t/T)]. The papers print 1/2 [...], the
    case xT - x0 = pi.

    >>> q, qd, qdd = cycloid(np.array([0.0, 5.0, 10.0]), np.zeros(1), np.array([np.pi]))
    >>> q.ravel() / np.pi
    array([0. , 0.5, 1. ])
    """
    rate = 2 * np.pi / duration
    phase = rate * np.asarray(t)[..., np.newaxis]
    reach = (np.asarray(end) - np.asarray(start)) / (2 * np.pi)
    return (start + reach * (phase - np.sin(phase)), reach * rate * (1 - np.cos(phase)),
            reach * rate**2 * np.sin(phase))


def papers_run(robot: Robot, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Joint forces of all joints going from 0 to pi, and the part that gravity takes."""
    q, qd, qdd = cycloid(t, np.zeros(robot.n), np.full(robot.n, np.pi))
    return robot.inverse_dynamics(q, qd, qdd), robot.gravity_torque(q)


def tour(out: Path, console: Console | None = None) -> None:
    """Print the tour and write `puma_torques.png` into `out`."""
    console = console or terminal.console()
    puma, planar = nlink.load("puma560"), nlink.load("planar3")

    _heading(console, "1", "The PUMA along the papers' trajectory",
             "every joint from 0 to pi in 10 s [Saha03]; one call for all states: "
             "robot.inverse_dynamics(q, qd, qdd)")
    tau, _ = papers_run(puma, np.array(INSTANTS))
    table = terminal.grid("t, s", *(f"tau_{k}" for k in range(1, puma.n + 1)), caption="N m")
    for instant, row in zip(INSTANTS, tau, strict=True):
        table.add_row(f"{instant:g}", *(f"{x + 0.0:.4f}" for x in row.round(4)))
    console.print(table)

    _heading(console, "2", "What it costs",
             "operations counted on the very text that computed the torques: "
             "nlink count puma560 --general --tables")
    console.print(terminal.published_table(puma))

    _heading(console, "3", "The planar arm in closed form",
             "nlink.symbolic(planar3, 'inverse_dynamics', parameters='names').simplified()")
    forms = nlink.symbolic(planar, "inverse_dynamics", parameters="names").simplified()
    for name, expression in forms.equations:
        console.print()
        console.print(_sum(name, expression))
    console.print()

    _heading(console, "4", "A plot of the torques", "")
    t = np.linspace(0, DURATION, 401)
    total, gravity = papers_run(puma, t)
    figure = plots.joint_forces(
        puma, t, {"joint torque": total, "gravity alone": gravity}, marks=INSTANTS,
        title="PUMA 560: joint torques along the papers' trajectory",
        subtitle="all joints from 0 to \N{GREEK SMALL LETTER PI} in 10 s; dots: rows of the table")
    path = plots.save(figure, out / "puma_torques.png")
    console.print("  written to ", end="")
    console.print(str(path), style="bold green", soft_wrap=True)


def _heading(console: Console, number: str, title: str, subtitle: str) -> None:
    console.rule(Text.assemble((f"{number}  ", "dim"), (title, terminal.HEADING)), align="left",
                 style="dim")
    if subtitle:
        console.print(Padding(Text(subtitle, style="dim"), (0, 2)))


def _sum(name: str, expression: Expr) -> Padding:
    """An equation, one term a line: accelerations, then rates, then gravity."""
    table = Table.grid(padding=(0, 1))
    terms = cast("list[Expr]", expression.as_ordered_terms())
    for k, term in enumerate(sorted(terms, key=_place)):
        body = str(term).replace("**", "^").replace("*", " ")
        sign, body = ("-", body[1:]) if body.startswith("-") else ("+" if k else "=", body)
        table.add_row(Text("" if k else name, style="bold"), sign, body)
    return Padding(table, (0, 2))


def _place(term: Expr) -> int:
    symbols = {str(s).split("_")[0] for s in term.free_symbols}
    return 0 if "qdd" in symbols else 1 if "qd" in symbols else 2
