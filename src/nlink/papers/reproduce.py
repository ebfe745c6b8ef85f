"""`nlink reproduce`: the experiments of the papers, run again, on one page.

The papers print plots and a few sentences, no numbers, so what can be compared are the
sentences: directions, times and orders of magnitude. The numbers beside each sentence and
the verdicts are computed when the page is made; what a verdict adds as an explanation is
written here, and says so where it is no more than likely.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nlink.formats.files import write_text
from nlink.papers import koz_tables
from nlink.papers import saha_tables as tables
from nlink.papers.experiments import EVERY, LEFT, ROW_HEAD, SPARSE, Arm, T, arms
from nlink.reports.page import Page
from nlink.simulation import figures as trajectories
from nlink.viewer.clip import Clip
from nlink.viewer.motion_page import inline_frame, motion_page

METHODS = {"rkf45": "RKF 4(5)", "verner65": "DVERK 5(6)", "abm": "ABM"}
"""The integrators of [Saha03]: its own scheme, and the two of NEWMOS."""
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
PAPER = 1e-6
"""The tolerance of [Saha03]."""
OPEN_LOOP = ("the motion is unstable in open loop, so when errors have grown to be seen depends on "
             "the method, its tolerance and its steps; see the growth of errors below")

Progress = Callable[[float, str], None]


def reproduce(out: str | Path, progress: Progress = lambda _share, _what: None) -> Path:
    """Run all experiments and write `report.html` and its figures into a directory."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    report = _Report(Page("The papers' experiments, run again"), out, arms())
    parts = {"joint forces": report.forces, "free fall": report.free_fall,
             "forced motion": report.forced, "growth of errors": report.growth,
             "end effector": report.end_effector, "the printed PUMA": report.printed_puma,
             "arms": report.parameters, "tables": report.tables}
    for k, (what, part) in enumerate(parts.items()):
        progress(k / len(parts), what)
        part()
    report.summary()
    path = out / "report.html"
    write_text(path, report.page.html())
    progress(1.0, "done")
    return path


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, what was computed, whether it holds, and if not, why."""

    text: str
    computed: str
    holds: bool
    why: str = ""

    @property
    def row(self) -> tuple[str, str, str]:
        reason = f": {self.why}" if self.why else ""
        return self.text, self.computed, "agrees" if self.holds else f"differs{reason}"


@dataclass(slots=True)
class _Report:
    page: Page
    out: Path
    arms: dict[str, Arm]
    claims: list[Claim] = field(default_factory=list)

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
        """Sentences of the papers beside what was computed."""
        self.claims += claims
        self.page.table(("claim of the paper", "computed here", "verdict"),
                        [claim.row for claim in claims], "claims")

    def summary(self) -> None:
        """What agrees and what does not, before everything else."""
        page = Page("")
        holds = [claim for claim in self.claims if claim.holds]
        fails = [claim for claim in self.claims if not claim.holds]
        page.text(
            "S. K. Saha's RIDIM and RFDSIM ([Saha99], J. Appl. Mech. 66; [Saha03], Multibody "
            "System Dynamics 9) recomputed by nlink's recursions, and the operation counts of all "
            "papers. They show plots without numbers; what can be checked are the "
            f"sentences they write about them: of {len(self.claims)}, {len(holds)} agree with "
            f"what was computed here and {len(fails)} do not.")
        page.heading("What does not agree, and why")
        page.table(("claim of the paper", "computed here", "verdict"),
                   [claim.row for claim in fails], "claims")
        self.page.parts[:0] = page.parts

    def forces(self) -> None:
        """[Saha99] Figs. 5 and 8, [Saha03] Fig. 5: inverse dynamics along the cycloid."""
        page, t = self.page, np.arange(0, T + EVERY / 2, EVERY)
        page.section("Joint forces along the papers' trajectory")
        page.text("x(t) = x0 + (xT - x0)/(2 pi) [2 pi t/T - sin(2 pi t/T)], T = 10 s: at rest at "
                  "x0 and at xT.")
        for name, figure, arm in (("planar", "[Saha99] Fig. 5", "planar"),
                                  ("stanford", "[Saha99] Fig. 8, [Saha03] Fig. 5(i)", "Stanford"),
                                  ("puma", "[Saha03] Fig. 5(ii)", "PUMA")):
            case = self.arms[arm]
            tau = case.robot.inverse_dynamics(*case.desired(t))
            self.draw_joints(f"forces_{name}", case, t, {"tau": tau},
                             f"{figure}: joint forces of the {arm} arm", forces=True)
        planar, stanford = self.arms["planar"], self.arms["Stanford"]
        first = planar.robot.inverse_dynamics(*(x[0] for x in planar.desired(t)))
        others = [self.arms[name] for name in ("planar", "PUMA")]
        # 1/2 [2 pi t/T - sin(2 pi t/T)] is pi at t = T
        printed = stanford.start + np.pi
        self.check(
            Claim("[Saha99] 6.1: the torques match the explicit expressions",
                  f"at rest, {_list(first)} N m; by hand m g l (4.5, 2, 0.5) = 44.145, 19.62, "
                  "4.905",
                  np.allclose(first, [44.145, 19.62, 4.905])),
            Claim("[Saha99] (38)-(39), [Saha03] (18), planar arm and PUMA: the printed trajectory "
                  "1/2 [2 pi t/T - sin(2 pi t/T)] ends at the stated values",
                  f"it ends {np.pi:.4f} rad from its start, as stated",
                  all(np.allclose(arm.start + np.pi, arm.end) for arm in others)),
            Claim("[Saha99] (38)-(39), [Saha03] (18), Stanford arm: the printed trajectory ends at "
                  "60 degrees and 0.1 m",
                  f"joints 1 and 3 end at {printed[0]:.4f} rad and {printed[2]:.4f} m",
                  np.allclose(printed, stanford.end),
                  "the printed factor 1/2 is (xT - x0)/(2 pi) for xT - x0 = pi only; the figures "
                  "here use the corrected form"))

    def free_fall(self) -> None:
        """[Saha99] Figs. 6 and 9, [Saha03] Fig. 4: motion under gravity alone."""
        page = self.page
        page.section("Free fall: RKF and ABM")
        for name, figure, arm in (("planar", "[Saha99] Fig. 6", "planar"),
                                  ("stanford", "[Saha99] Fig. 9, [Saha03] Fig. 4(i)", "Stanford"),
                                  ("puma", "[Saha03] Fig. 4(ii)", "PUMA")):
            case = self.arms[arm]
            run, abm = case.fall(), case.fall("abm")
            exact = case.fall("dop853", 1e-13, 1e-15)
            self.draw_joints(f"fall_{name}", case, run.t, {"RKF 4(5)": run.q, "ABM": abm.q},
                             f"{figure}: free fall of the {arm} arm")
            motion = motion_page(Clip.of(run, frames=300), compact=True)
            page.frame(inline_frame(motion), f"The {arm} arm as it falls (RKF)")
            kinetic = case.robot.kinetic_energy(run.q, run.qd).max()
            drift = np.abs(run.energy - run.energy[0]).max() / kinetic
            page.text(f"RKF at tolerance 1e-10: {run.stats}; energy kept to {drift:.0e} of the "
                      f"largest kinetic energy. It is within 1e-3 of ABM at 1e-10 "
                      f"{_first(_distance(run.q, abm.q) > 1e-3, run.t)}, and of DOP853 at 1e-13 "
                      f"{_first(_distance(run.q, exact.q) > 1e-3, run.t)}.", "muted")
        planar, puma = self.arms["planar"].fall(t=0.2), self.arms["PUMA"].fall(t=0.5)
        stanford = self.arms["Stanford"].fall()
        theta, b3 = stanford.q[:, 1], stanford.q[:, 2]
        half, two = (int(np.argmin(np.abs(stanford.t - x))) for x in (0.5, 2.0))
        near, zero = (_first(theta < x, stanford.t) for x in (0.05, 0.0))
        self.check(
            Claim("[Saha99] 6.1: theta_1 of the planar arm first grows in the negative direction",
                  f"theta_1(0.2 s) = {planar.q[-1, 0]:.4f} rad", planar.q[-1, 0] < 0),
            Claim("[Saha03] 4: joint 2 of the PUMA turns in the positive direction",
                  f"theta_2(0.5 s) = {puma.q[-1, 1]:.4f} rad", puma.q[-1, 1] > 0),
            Claim("[Saha03] 4: theta_2 of the Stanford arm falls from 90 degrees to zero a little "
                  "after 0.5 s", f"theta_2(0.5 s) = {theta[half]:.3f} rad; above 0.05 rad {near}, "
                  f"above 0 {zero}", bool((theta[stanford.t < 0.7] < 0).any()),
                  "it approaches zero while the arm slides out; on the scale of a small plot of "
                  "10 s the two look alike, which is likely what was read"),
            Claim("[Saha99] 6.2, [Saha03] 4: b_3 picks up sharply as the arm turns over",
                  f"b_3 = {b3[half]:.2f} m at 0.5 s, {b3[two]:.2f} m at 2 s",
                  b3[two] > 10 * b3[half]))

    def forced(self) -> None:
        """[Saha03] Fig. 6: forward dynamics under the forces of Fig. 5, RKF and ABM."""
        page = self.page
        page.section("Forced simulation: RKF against ABM")
        page.text("The forces of the desired motion drive the arm, open loop. The exact solution "
                  "is the desired motion itself; what is seen to leave it is the growth of "
                  "integration errors along an unstable motion.")
        for name, number, arm in (("stanford", "(i)", "Stanford"), ("puma", "(ii)", "PUMA")):
            case = self.arms[arm]
            rkf, abm = case.forced("rkf45", PAPER), case.forced("abm", PAPER)
            self.draw_joints(f"forced_{name}", case, rkf.t, {
                "desired": case.desired(rkf.t)[0], "RKF 4(5), 1e-6": rkf.q, "ABM, 1e-6": abm.q},
                f"[Saha03] Fig. 6{number}: forced {arm} arm")
        left = {arm: [self.leaves(arm, method, PAPER) for method in METHODS]
                for arm in ("Stanford", "PUMA", "PUMA as printed")}
        puma = left["PUMA"] + left["PUMA as printed"]
        self.check(
            Claim("[Saha03] 4: at tolerance 1e-6 the Stanford arm deviates after about 2.5 s",
                  f"{_by_method(left['Stanford'])}", _about(left["Stanford"], 2.5), OPEN_LOOP),
            Claim("[Saha03] 4: the PUMA deviates after about 6 s",
                  f"{_by_method(left['PUMA'])}; with the printed inertias "
                  f"{_by_method(left['PUMA as printed'])}", _about(puma, 6.0), OPEN_LOOP),
            self.similar())

    def leaves(self, arm: str, method: str, rtol: float) -> float | None:
        """When a forced run is off by more than `LEFT`, if ever."""
        run = self.arms[arm].forced(method, rtol, SPARSE)
        off = ~(self.arms[arm].error(run) <= LEFT)
        return float(run.t[int(np.argmax(off))]) if off.any() else None

    def similar(self) -> Claim:
        """How RKF and ABM differ at the paper's tolerance, before and after either leaves."""
        case = self.arms["Stanford"]
        rkf, abm = case.forced("rkf45", PAPER), case.forced("abm", PAPER)
        off = np.maximum(case.error(rkf), case.error(abm)) > LEFT
        distance = _distance(rkf.q, abm.q, [0, 1, 3, 4, 5])
        before, after = distance[~np.maximum.accumulate(off)].max(), distance.max()
        return Claim("[Saha03] 4: RKF and ABM give similar plots",
                     f"angles of the Stanford arm differ by at most {before:.2g} rad "
                     f"{_first(off, rkf.t)}, later by up to {after:.2g} rad", after < LEFT,
                     "similar until the errors of either have grown")

    def growth(self) -> None:
        """The drift of the forced runs as the growth of errors, against the tolerance."""
        page = self.page
        page.section("Why the forced runs drift: error growth against tolerance")
        page.text("The largest joint error of the forced runs. A tighter tolerance lowers the "
                  "whole curve and so puts off the moment it is seen; the slope, which is the "
                  f"arm's own, stays. Outputs are {SPARSE} s apart here, and RKF and DVERK stop at "
                  "each; where two curves coincide, steps of that size meet both tolerances. In "
                  f"Fig. 6, at outputs every {EVERY} s, RKF is better than its tolerance for the "
                  "same reason.")
        for name, arm in (("stanford", "Stanford"), ("puma", "PUMA")):
            case = self.arms[arm]
            t = case.forced("rkf45", PAPER, SPARSE).t[1:]
            curves = {_power(rtol): np.stack([np.maximum(
                case.error(case.forced(method, rtol, SPARSE))[1:], 1e-16) for method in METHODS],
                axis=1) for rtol in TOLERANCES[:-1]}
            self.draw(f"growth_{name}", t, curves, list(METHODS.values()),
                      ["rad or m"] * len(METHODS),
                      f"Error of the forced {arm} arm over time, by tolerance", log=True)
        rows = [[arm, name, *(_seconds(self.leaves(arm, method, rtol)) for rtol in TOLERANCES)]
                for arm in self.arms for method, name in METHODS.items()]
        page.heading(f"When the error exceeds {LEFT} rad or m")
        page.table(("arm", "method", *map(_power, TOLERANCES)), rows)

    def end_effector(self) -> None:
        """[Saha03] Fig. 7: where the last frame of a forced arm is."""
        self.page.section("End-effector positions of the forced arms")
        for name, figure, arm in (("stanford", "[Saha03] Fig. 7", "Stanford"),
                                  ("puma", "The same for the PUMA", "PUMA")):
            case = self.arms[arm]
            rkf, abm = case.forced("rkf45", PAPER), case.forced("abm", PAPER)
            wanted = case.robot.pose(case.desired(rkf.t)[0])[:, :3, 3]
            self.draw(f"end_effector_{name}", rkf.t, {
                "desired": wanted, "RKF 4(5), 1e-6": rkf.path(), "ABM, 1e-6": abm.path()},
                ["X1", "Y1", "Z1"], ["m"] * 3,
                f"{figure}: end-effector positions, forced {arm} arm")

    def printed_puma(self) -> None:
        """The PUMA of [Saha03] Table II(ii) as printed: M is indefinite."""
        page, case = self.page, self.arms["PUMA as printed"]
        page.section("The PUMA as printed")
        run = case.fall(t=3.0)
        reached = _first(np.isnan(run.q[:, 0]), run.t)
        lowest, valid = (
            min(np.linalg.eigvalsh(M).min() for M in arm.robot.mass_matrix(
                arm.robot.random_state(0, (200,))[0])) for arm in (case, self.arms["PUMA"]))
        page.text("[Saha03] Table II(ii) prints negative moments of inertia, as result if "
                  "(Ixx, Iyy, Izz) is rotated like a vector. The figures above use their absolute "
                  "values.")
        self.draw_joints("fall_puma_printed", case, run.t, {"q": run.q},
                         "Free fall of the PUMA as printed: it ends where M is singular")
        self.check(
            Claim("[Saha99] 4: the inertia matrix is positive definite (PUMA as printed)",
                  f"smallest eigenvalue in 200 configurations: {lowest:.3g}; with absolute values "
                  f"{valid:.3g}", lowest > 0, "no body has a negative moment of inertia"),
            Claim("[Saha03] Fig. 4(ii): free fall over 10 s (PUMA as printed)",
                  f"{run.status} at t = {float(run.t_end):.4f} s; states known {reached}", run.ok,
                  "M becomes singular there, so the accelerations are infinite"))

    def parameters(self) -> None:
        """[Saha99] Table 3, [Saha03] Table II: the arms as computed with."""
        self.page.section("The arms")
        for source, arm in (("[Saha99] Table 3, [Saha03] Table II(i)", "Stanford"),
                            ("[Saha03] Table II(ii), absolute values", "PUMA"),
                            ("[Saha03] Table II(ii)", "PUMA as printed")):
            self.page.heading(f"{source}: {arm}")
            self.page.table(ROW_HEAD, self.arms[arm].rows())

    def tables(self) -> None:
        """The complexity tables, published rows beside counted ones."""
        page = self.page
        page.section("Operation counts")
        page.text("Published rows beside those of nlink, which are counted on the algorithms that "
                  "made the figures. M are multiplications and divisions, A additions and "
                  "subtractions, for one state of a revolute chain of n joints.")
        for table in (*(t.printed() for t in tables.tables()), tables.break_even_table(),
                      koz_tables.table_2(), koz_tables.table_3()):
            page.printed_table(table)


def _distance(a: np.ndarray, b: np.ndarray, joints: Sequence[int] | None = None) -> np.ndarray:
    difference = np.abs(a - b)
    return difference.max(axis=1) if joints is None else difference[:, list(joints)].max(axis=1)


def _first(wrong: np.ndarray, t: np.ndarray) -> str:
    return f"until {t[int(np.argmax(wrong))]:.2f} s" if wrong.any() else "to the end"


def _power(tolerance: float) -> str:
    return f"{tolerance:.0e}".replace("e-0", "e-")


def _seconds(t: float | None) -> str:
    return "never" if t is None else f"{t:.2f} s"


def _by_method(times: Sequence[float | None]) -> str:
    return ", ".join(f"{name} {_seconds(t)}" for name, t in zip(
        METHODS.values(), times, strict=True))


def _about(times: Sequence[float | None], claimed: float) -> bool:
    """Whether some method leaves at the time the paper gives, to half a second."""
    return any(t is not None and abs(t - claimed) <= 0.5 for t in times)


def _list(values: np.ndarray) -> str:
    return ", ".join(f"{x:.5g}" for x in values)
