"""`nlink reproduce`: the experiments of the papers, run again, on one page.

The papers print plots and a few sentences, no numbers, so what can be compared are the
sentences, the equations and the tables of operations. The numbers beside each sentence and the
verdicts are computed when the page is made; what a verdict adds as an explanation is written in
the sections, and says so where it is no more than likely.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nlink.formats.files import write_text
from nlink.papers import operator_sections, saha_sections
from nlink.papers.experiments import arms
from nlink.papers.paper_report import PaperReport
from nlink.reports.page import Page

Progress = Callable[[float, str], None]
SECTIONS: dict[str, Callable[[PaperReport], None]] = {
    "arms": saha_sections.the_arms,
    "joint forces": saha_sections.forces,
    "free fall": saha_sections.free_fall,
    "forced motion": saha_sections.forced,
    "growth of errors": saha_sections.growth,
    "the printed PUMA": saha_sections.printed_puma,
    "tables": saha_sections.operations,
    "spatial operators": operator_sections.spatial_operators,
    "quasi-velocities": operator_sections.quasi_velocities,
}


def reproduce(out: str | Path, progress: Progress = lambda _share, _what: None) -> Path:
    """Run all experiments and write `report.html` and its figures into a directory."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    report = PaperReport(Page("The papers, run again"), out, arms())
    for k, (what, section) in enumerate(SECTIONS.items()):
        progress(k / len(SECTIONS), what)
        section(report)
    report.summary()
    path = out / "report.html"
    write_text(path, report.page.html())
    progress(1.0, "done")
    return path
