"""The laws on a user's own robot: a table of residuals and a verdict."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from nlink.engines.computations import SingularMassMatrix
from nlink.engines.engines import Engine
from nlink.model.names import visible
from nlink.robot import Robot, expect_robot
from nlink.scalars.notebook import html_table
from nlink.testing.laws import LAWS, Law
from nlink.testing.loop_laws import LOOP_LAWS
from nlink.testing.plausibility import Finding, findings
from nlink.testing.samples import Samples, samples


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One law on one robot.

    >>> from nlink.testing import CheckRow
    >>> CheckRow("M_symmetric", "M = M^T", residual=1e-16, bound=1e-12).ok
    True
    """

    law: str
    statement: str
    residual: float
    bound: float

    @property
    def ok(self) -> bool:
        return self.residual <= self.bound  # false for nan


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport:
    """What `check` found; `str()` is a plain table, `to_dict()` is ready for JSON.

    >>> import nlink
    >>> report = nlink.check(nlink.load("double_pendulum"), states=2, engine="numpy")
    >>> report.ok, len(report.findings)
    (True, 0)
    """

    robot: str
    states: int
    rows: tuple[CheckRow, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """All laws hold; what the numbers say about the robot is among the findings."""
        return all(row.ok for row in self.rows)

    @property
    def verdict(self) -> str:
        """The result, in one sentence."""
        broken = [row.law for row in self.rows if not row.ok]
        said = "; ".join(finding.message for finding in self.findings)
        if broken:
            why = f"; its numbers: {said}" if said else ""
            return (f"{self.robot} breaks {len(broken)} of {len(self.rows)} laws: "
                    f"{', '.join(broken)}{why}.")
        held = f"{self.robot} obeys all {len(self.rows)} laws in {self.states} random states"
        if any(finding.level == "error" for finding in self.findings):
            return f"{held}; warning: it is not a physical mechanism: {said}"
        if said:
            return f"{held}; warning: its numbers look unlikely: {said}"
        return f"{held}, and its numbers are plausible."

    def to_dict(self) -> dict[str, Any]:
        """Plain data; a residual that is not finite becomes None."""
        rows = [asdict(row) | {"ok": row.ok} for row in self.rows]
        for row in rows:
            row["residual"] = row["residual"] if math.isfinite(row["residual"]) else None
        return {"robot": self.robot, "states": self.states, "ok": self.ok, "verdict": self.verdict,
                "laws": rows, "findings": [asdict(finding) for finding in self.findings]}

    def __repr__(self) -> str:
        return visible(f"<CheckReport: {self.verdict.rstrip('.')}>")

    def _repr_html_(self) -> str:
        rows = [(row.law, row.statement, f"{row.residual:.1e}", f"{row.bound:.1e}",
                 "ok" if row.ok else "BROKEN") for row in self.rows]
        return html_table(self.verdict, ("law", "statement", "residual", "bound", ""), rows)

    def __str__(self) -> str:
        lines = [f"{'law':<20}{'statement':<36}{'residual':>9}{'bound':>8}"]  # 80 columns
        lines += [f"{row.law:<20}{row.statement:<36}{row.residual:>9.1e}{row.bound:>8.1e}"
                  f" {'ok' if row.ok else 'BROKEN'}" for row in self.rows]
        lines += [f"warning: {finding.message}" for finding in self.findings]
        return visible("\n".join([*lines, self.verdict]))


def check(robot: Robot, seed: int = 0, states: int = 16, *,
          engine: Engine | None = None, quick: bool = False) -> CheckReport:
    """Every law that applies to a robot, in random states within its limits, and whether its
    numbers are plausible.

    `quick` keeps the laws of mechanics and leaves out those that compare all formulations,
    drivers and engines with one another.

    >>> import nlink
    >>> print(check(nlink.load("planar3"), engine="numpy").verdict)  # doctest: +ELLIPSIS
    planar3 obeys all ... laws in 16 random states, and its numbers are plausible.
    """
    if states < 1:
        raise ValueError(f"states: {states}, expected at least 1")
    tree = expect_robot(robot).tree
    x = samples(tree, seed, states)
    rows = [_row(law, tree, x, engine) for law in LAWS
            if law.applies(tree) and not (quick and law.thorough)]
    if robot.description.closed:
        closed = samples(robot, seed, states)
        rows += [_row(law, robot, closed, engine) for law in LOOP_LAWS
                 if not (quick and law.thorough)]
    return CheckReport(robot.name, states, tuple(rows), findings(tree, x, engine))


def _row(law: Law, robot: Robot, x: Samples, engine: Engine | None) -> CheckRow:
    try:
        residual = law(robot, x, engine)
    except SingularMassMatrix:
        residual = math.nan
    return CheckRow(law.name, law.statement, residual, law.bound(robot))
