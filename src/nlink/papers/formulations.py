"""The formulations of forward dynamics side by side: their sweeps and their operations.

Both are measured: sweeps by running the text on a driver that notes them, operations on the
traced graph of revolute chains, as formulas in the number of joints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nlink.algorithms.catalogue import ALGORITHMS, Options
from nlink.algorithms.sweep import Column, Unrolled
from nlink.engines.complexity import CostFormula, cost_formula
from nlink.formats.load import load_description
from nlink.model.mechanism import Mechanism
from nlink.programs.products import find
from nlink.robot import Robot

if TYPE_CHECKING:
    from rich.table import Table

SOURCES = {
    "articulated": "nlink: the bias inside the sweeps; the recursions of FD3",
    "denoc": "[Saha03, 2.2]: bias by inverse dynamics, then U D U^T",
    "composite": "[Saha03] against Walker and Orin: M, then a dense elimination",
    "fd1": "[RK88, 4.17-4.22]: bias, filter, smoother",
    "fd2": "[RK88, 5.5-5.7]: FD1 with link accelerations",
    "fd3": "[RK88, 5.8-5.10]: the bias enters the filter",
    "fd4": "[RK88, 5.13-5.17]: velocities only in the first sweep",
    "diagonalized": "[Koz95, 40]: by way of nud, in which the mass matrix is 1",
    "diagonalized-xi": "[Koz95, 44]: by way of xid, in which it is D",
    "propagation": "[RK88] Om(k), base to tip after the articulated inertias",
}
LEAST = {"operational_inertia": 6}
"""Shorter chains cannot move their tip in all directions."""


@dataclass(frozen=True, slots=True)
class Formulation:
    """One way to compute something, what it is and what it costs for n revolute joints."""

    name: str
    formulation: str
    sweeps: tuple[str, ...]
    formula: CostFormula

    @property
    def arrows(self) -> str:
        """The sweeps in short: > outward, < inward."""
        return " ".join(">" if sweep == "outward" else "<" for sweep in self.sweeps)

    @property
    def source(self) -> str:
        return SOURCES.get(self.formulation, "")

    @property
    def data(self) -> dict[str, Any]:
        count = self.formula(6)
        return {"name": self.name, "formulation": self.formulation, "sweeps": list(self.sweeps),
                "formula": str(self.formula), "six_joints": str(count), "source": self.source}


class _Noting(Unrolled):
    """The unrolled driver, noting which way it was asked to go."""

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__(mechanism)
        self.noted: list[str] = []

    def outward(self, step: Callable[..., tuple[Any, Any]], base: Any, *columns: Column) -> Column:
        self.noted.append("outward")
        return super().outward(step, base, *columns)

    def inward(self, step: Callable[..., tuple[Any, Any]], zero: Any, *columns: Column,
               ) -> tuple[Column, Any]:
        self.noted.append("inward")
        return super().inward(step, zero, *columns)


def sweeps(robot: Robot, name: str, algorithm: str | None = None) -> tuple[str, ...]:
    """The sweeps that an algorithm's text makes, in order.

    >>> import nlink
    >>> sweeps(nlink.load("planar3"), "forward_dynamics", "fd4")
    ('outward', 'inward', 'outward')
    """
    entry, mechanism = find(name, algorithm), robot.mechanism
    driver = _Noting(mechanism)
    columns = [None if port == "f_ext" else
               mechanism.split(robot.neutral if port == "q" else [0.0] * robot.n,
                               "nq" if port == "q" else "nv")
               for port, _ in entry.inputs]
    entry.text(driver, Options(mechanism.links[-1:], mechanism.links), *columns)
    return tuple(driver.noted)


def formulations(name: str = "forward_dynamics") -> list[Formulation]:
    """All formulations of a name, the one with the fewest operations for six joints first."""
    robot = Robot(load_description("puma560", physical="ignore"))
    rows = [Formulation(name, algorithm, sweeps(robot, name, algorithm),
                        cost_formula(name, algorithm, least=LEAST.get(name, 4)))
            for algorithm in ALGORITHMS[name]]
    return sorted(rows, key=lambda row: row.formula(6).total)


def table(name: str = "forward_dynamics") -> Table:
    """The comparison for a terminal."""
    from nlink.reports.terminal import grid

    rows = formulations(name)
    sources = "\n".join(f"{row.formulation}: {row.source}" for row in rows)
    result = grid("formulation", "sweeps", "formula for n revolute joints", "n = 6",
                  title=f"{name}: formulations (> outward, < inward)", caption=sources,
                  text=("formula for n revolute joints",))
    for row in rows:
        result.add_row(row.formulation, row.arrows, str(row.formula), str(row.formula(6)))
    return result


def markdown(name: str = "forward_dynamics") -> str:
    """The comparison as a Markdown table; > is a sweep outward, < one inward."""
    lines = ["| formulation | sweeps | formula for n revolute joints | n = 6 | source |",
             "|---|---|---|---|---|"]
    lines += (f"| {row.formulation} | {row.arrows} | {row.formula} | {row.formula(6)} "
              f"| {row.source} |"
              for row in formulations(name))
    return "\n".join(lines)
