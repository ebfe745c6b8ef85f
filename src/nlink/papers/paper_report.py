"""The page of `nlink reproduce` under construction: figures, claims of the papers, verdicts."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np

import nlink
from nlink.papers.equations import Equation, MovingState
from nlink.papers.experiments import Arm
from nlink.reports.page import Page
from nlink.simulation import figures as trajectories

HOLDS = 1e-10
"""A relative residual below which an equation holds: rounding, amplified by the mass matrix."""
PAPERS = {
    "[Saha99]": "S. K. Saha, Dynamics of serial multibody systems using the decoupled natural "
                "orthogonal complement matrices, J. Appl. Mech. 66, 1999",
    "[Saha03]": "S. K. Saha, Simulation of industrial manipulators based on the U D U^T "
                "decomposition of inertia matrix, Multibody System Dynamics 9, 2003",
    "[RK88]": "G. Rodriguez, K. Kreutz, Recursive mass matrix factorization and inversion, JPL "
              "Publication 88-11, 1988",
    "[Koz95]": "K. Kozlowski, Robot dynamics models in terms of generalized and "
               "quasi-coordinates: a comparison, 1995",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says and where, what was computed, whether it holds, and if not, why."""

    source: str
    text: str
    computed: str
    holds: bool
    why: str = ""

    @property
    def papers(self) -> list[str]:
        """The papers that say it, first the one that it is counted for."""
        return [paper for paper in PAPERS if paper in self.source]


@dataclass(slots=True)
class PaperReport:
    """A page, the directory of its pictures, the arms, and what was checked so far."""

    page: Page
    out: Path
    arms: dict[str, Arm]
    claims: list[Claim] = field(default_factory=list)
    held: Counter[str] = field(default_factory=Counter)
    """Equations that hold, by paper; they are listed in the sections, claims at the top."""

    def draw(self, name: str, t: np.ndarray, curves: Mapping[str, np.ndarray],
             titles: Sequence[str], units: Sequence[str], caption: str, *, log: bool = False,
             ) -> None:
        """Panels on the page, and the same as one picture in a file."""
        figures = trajectories.single_panels(t, curves, titles, units, log=log)
        self.page.panels(figures, caption, list(curves))
        whole = trajectories.panels(t, curves, titles, units, title=caption, log=log,
                                    legend=len(curves) > 1)
        trajectories.save(whole, self.out / f"{name}.png")

    def draw_joints(self, name: str, arm: Arm, t: np.ndarray, curves: Mapping[str, np.ndarray],
                    caption: str, *, forces: bool = False) -> None:
        titles, positions, units = arm.names()
        self.draw(name, t, curves, titles, units if forces else positions, caption)

    def check(self, *claims: Claim) -> None:
        """Sentences of the papers; the summary lists them."""
        self.claims += claims

    def equations(self, equations: Sequence[Equation], states: Sequence[MovingState]) -> None:
        """A table of equations and their residuals; one that does not hold is a claim."""
        rows = []
        for equation in equations:
            residual = equation.residual(states)
            if residual <= HOLDS:
                self.held[equation.paper] += 1
            else:
                self.check(Claim(f"{equation.paper} {equation.number}", f"${equation.tex}$",
                                 f"relative residual {residual:.1e}", False))
            rows.append((equation.number, f"${equation.tex}$", f"{residual:.0e}", equation.about))
        self.page.table(("number", "equation", "residual", ""), rows, "equations-table")

    def summary(self) -> None:
        """What was checked, what agrees and what does not, before everything else."""
        page = Page("")
        agree = [claim for claim in self.claims if claim.holds]
        differ = [claim for claim in self.claims if not claim.holds]
        total = len(self.claims) + self.held.total()
        page.text(f"nlink {nlink.__version__}, {date.today().isoformat()}, Python "
                  f"{platform.python_version()}. Everything on this page was computed when it "
                  "was made.", "muted")
        page.text("The papers show plots without numbers; what can be checked are the sentences "
                  "they write about them, their equations, and their tables of operations. Of "
                  f"{total} statements, {total - len(differ)} agree with what was computed here "
                  f"and {len(differ)} do not. (The complete lists of equations, with a test for "
                  "each, are in the documentation.)")
        counts: dict[str, Counter[str]] = {paper: Counter() for paper in PAPERS}
        for claim in self.claims:
            counts[claim.papers[0]]["agree" if claim.holds else "differ"] += 1
        page.table(("paper", "sentences", "equations", "agree", "differ"), [
            (paper, str(sentences.total()), str(self.held[paper]),
             str(sentences["agree"] + self.held[paper]), str(sentences["differ"]))
            for paper, sentences in counts.items()])
        for paper, title in PAPERS.items():
            page.text(f"{paper} {title}.", "muted")
        page.heading(f"What does not agree, and why ({len(differ)})")
        page.table(("where", "what the paper says", "computed here", "why"),
                   [(c.source, c.text, c.computed, c.why) for c in differ], "claims")
        page.heading(f"What agrees ({len(agree)}, and {self.held.total()} equations below)")
        page.table(("where", "what the paper says", "computed here"),
                   [(c.source, c.text, c.computed) for c in agree], "claims")
        self.page.parts[:0] = page.parts
