"""`nlink reproduce`: the experiments of the seed papers, run again, on one page.

The papers print plots and a few sentences, no numbers, so what can be compared are the
sentences: directions, times and orders of magnitude. The numbers beside each sentence and
the verdicts are computed when the page is made; what a verdict adds as an explanation is
written here, and says so where it is no more than likely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlink.formats.files import write_bytes, write_text
from nlink.reports import koz_tables, tables, trajectories
from nlink.reports.page import Page
from nlink.robot import Robot, load
from nlink.simulation.controllers import FeedForward
from nlink.simulation.integration import simulate
from nlink.simulation.run import Run
from nlink.simulation.trajectories import Cycloid

T = 10.0
EVERY, SPARSE = 0.02, 0.25
LEFT = 0.05
"""An error, in rad or m, at which a run has left its desired trajectory."""
STANFORD_START = np.radians([0.0, 90.0, 0.0, 0.0, 0.0, 0.0])
STANFORD_END = np.array([*np.radians([60.0, 60.0]), 0.1, *np.radians([60.0, 60.0, 60.0])])
VERDICT = ("claim of the paper", "computed here", "verdict")


@dataclass(frozen=True, slots=True)
class Arm:
    """A robot and the papers' motion of it."""

    robot: Robot
    start: np.ndarray
    end: np.ndarray

    @property
    def path(self) -> Cycloid:
        return Cycloid(self.start, self.end, T)

    def desired(self, t: np.ndarray) -> tuple[np.ndarray, ...]:
        motion = [self.path(float(x)) for x in t]
        return tuple(np.array([m[k] for m in motion], dtype=float) for k in range(3))

    def names(self) -> tuple[list[str], list[str], list[str]]:
        """Panel titles, units of positions, units of forces."""
        kinds = [joint.type.name for joint in self.robot.joints if joint.type.nv]
        return ([f"joint {k + 1}" for k in range(self.robot.n)],
                ["m" if kind == "prismatic" else "rad" for kind in kinds],
                ["N" if kind == "prismatic" else "N m" for kind in kinds])

    def fall(self, **how: object) -> Run:
        options: dict = {"t": T, "every": EVERY, "rtol": 1e-10} | how
        return simulate(self.robot, self.start, **options)

    def forced(self, method: str, rtol: float, every: float = EVERY) -> Run:
        return simulate(self.robot, self.start, t=T, every=every, method=method, rtol=rtol,
                        atol=rtol, tau=FeedForward(self.robot, self.path))


def arms() -> dict[str, Arm]:
    """The papers' three manipulators; the PUMA with valid inertias and as printed."""
    return {
        "planar": Arm(load("planar3"), np.zeros(3), np.full(3, np.pi)),
        "Stanford": Arm(load("stanford"), STANFORD_START, STANFORD_END),
        "PUMA": Arm(load("puma560"), np.zeros(6), np.full(6, np.pi)),
        "PUMA as printed": Arm(load("puma_saha", physical="ignore"), np.zeros(6),
                               np.full(6, np.pi)),
    }


def reproduce(out: str | Path, progress: Callable[[str], None] = lambda _what: None) -> Path:
    """Run all experiments and write `reproduction.html` and its figures into a directory."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    report = _Report(Page("The papers' experiments, run again"), out, arms())
    report.page.text(
        "S. K. Saha's RIDIM and RFDSIM ([Saha99], J. Appl. Mech. 66; [Saha03], Multibody System "
        "Dynamics 9) recomputed by nlink's DeNOC recursions. The papers show plots without "
        "numbers; the sentences they write about them are checked below.")
    for what, part in (("joint forces", report.forces), ("free fall", report.free_fall),
                       ("forced motion", report.forced), ("end effector", report.end_effector),
                       ("the printed PUMA", report.printed_puma), ("tables", report.tables)):
        progress(what)
        part()
    path = out / "reproduction.html"
    write_text(path, report.page.html())
    return path


@dataclass(slots=True)
class _Report:
    page: Page
    out: Path
    arms: dict[str, Arm]

    def draw(self, name: str, arm: Arm, t: np.ndarray, curves: dict[str, np.ndarray],
             caption: str, *, forces: bool = False) -> None:
        titles, positions, units = arm.names()
        figure = trajectories.panels(t, curves, titles, units if forces else positions,
                                     title=caption.split(":")[0], legend=len(curves) > 1)
        write_bytes(self.out / f"{name}.png", self.page.figure(figure, caption))

    def forces(self) -> None:
        """[Saha99] Figs. 5 and 8, [Saha03] Fig. 5: inverse dynamics along the cycloid."""
        page, t = self.page, np.arange(0, T + EVERY / 2, EVERY)
        page.section("Joint forces along the papers' trajectory")
        page.text("x(t) = x0 + (xT - x0)/(2 pi) [2 pi t/T - sin(2 pi t/T)], T = 10 s. Eqs. (38), "
                  "(39) of [Saha99] and (18) of [Saha03] print 1/2 [...], which is the case "
                  "xT - x0 = pi: right for the planar arm and the PUMA, wrong for the Stanford "
                  "arm, whose end (60 degrees, 0.1 m) it does not reach.")
        for name, figure, arm in (("planar", "[Saha99] Fig. 5", "planar"),
                                  ("stanford", "[Saha99] Fig. 8, [Saha03] Fig. 5(i)", "Stanford"),
                                  ("puma", "[Saha03] Fig. 5(ii)", "PUMA")):
            case = self.arms[arm]
            tau = case.robot.inverse_dynamics(*case.desired(t))
            self.draw(f"forces_{name}", case, t, {"tau": tau},
                      f"{figure}: joint forces of the {arm} arm", forces=True)
        planar = self.arms["planar"]
        first = planar.robot.inverse_dynamics(*(x[0] for x in planar.desired(t)))
        page.table(VERDICT, [(
            "[Saha99] 6.1: the torques match the explicit expressions",
            f"at rest, {_list(first)} N m; by hand m g l (4.5, 2, 0.5) = 44.145, 19.62, 4.905",
            _verdict(np.allclose(first, [44.145, 19.62, 4.905])))])

    def free_fall(self) -> None:
        """[Saha99] Figs. 6 and 9, [Saha03] Fig. 4: motion under gravity alone."""
        page = self.page
        page.section("Free fall")
        for name, figure, arm in (("planar", "[Saha99] Fig. 6", "planar"),
                                  ("stanford", "[Saha99] Fig. 9, [Saha03] Fig. 4(i)", "Stanford"),
                                  ("puma", "[Saha03] Fig. 4(ii)", "PUMA")):
            case = self.arms[arm]
            run = case.fall()
            exact = case.fall(method="dop853", rtol=1e-13, atol=1e-15)
            apart = np.abs(run.q - exact.q).max(axis=1)
            self.draw(f"fall_{name}", case, run.t, {"q": run.q},
                      f"{figure}: free fall of the {arm} arm")
            close = _first(apart > 1e-3, run.t)
            kinetic = case.robot.kinetic_energy(run.q, run.qd).max()
            drift = np.abs(run.energy - run.energy[0]).max() / kinetic
            page.text(f"{arm}: {run.stats}; energy kept to {drift:.0e}; two tolerances (1e-10 "
                      f"and 1e-13) give the same curves to 1e-3 {close}.", "muted")
        planar = self.arms["planar"].fall(t=0.2)
        stanford = self.arms["Stanford"].fall()
        puma = self.arms["PUMA"].fall(t=0.5)
        theta, b3 = stanford.q[:, 1], stanford.q[:, 2]
        half, two = (int(np.argmin(np.abs(stanford.t - x))) for x in (0.5, 2.0))
        near, zero = (_first(theta < x, stanford.t) for x in (0.05, 0.0))
        page.table(VERDICT, [
            ("[Saha99] 6.1: theta_1 of the planar arm first grows in the negative direction",
             f"theta_1(0.2 s) = {planar.q[-1, 0]:.4f} rad", _verdict(planar.q[-1, 0] < 0)),
            ("[Saha03] 4: joint 2 of the PUMA turns in the positive direction",
             f"theta_2(0.5 s) = {puma.q[-1, 1]:.4f} rad", _verdict(puma.q[-1, 1] > 0)),
            ("[Saha03] 4: theta_2 of the Stanford arm falls from 90 degrees to zero a little "
             "after 0.5 s", f"theta_2(0.5 s) = {theta[half]:.3f} rad; above 0.05 rad {near}, "
             f"above 0 {zero}",
             _verdict(bool((theta[stanford.t < 0.7] < 0).any()))),
            ("both: b_3 picks up sharply as the arm turns over",
             f"b_3 = {b3[half]:.2f} m at 0.5 s, {b3[two]:.2f} m at 2 s",
             _verdict(b3[two] > 10 * b3[half]))])

    def forced(self) -> None:
        """[Saha03] Fig. 6: forward dynamics under the forces of Fig. 5, RKF and ABM."""
        page = self.page
        page.section("Forced simulation: RKF against ABM")
        page.text("The forces of the desired motion drive the arm, open loop. The exact solution "
                  "is the desired motion itself; what is seen to leave it is the growth of "
                  "integration errors along an unstable motion, so when it leaves depends on the "
                  "method, its tolerance and how often it stops for outputs.")
        for name, arm in (("stanford", "Stanford"), ("puma", "PUMA")):
            case = self.arms[arm]
            rkf, abm = case.forced("rkf45", 1e-6), case.forced("abm", 1e-6)
            curves = {"desired": case.desired(rkf.t)[0], "RKF, 1e-6": rkf.q, "ABM, 1e-6": abm.q}
            number = "(i)" if name == "stanford" else "(ii)"
            self.draw(f"forced_{name}", case, rkf.t, curves,
                      f"[Saha03] Fig. 6{number}: forced {arm} arm")
        rows = []
        for arm in ("planar", "Stanford", "PUMA", "PUMA as printed"):
            for method in ("rkf45", "verner65", "abm"):
                row = [arm, method]
                for rtol in (1e-4, 1e-6, 1e-8, 1e-10, 1e-12):
                    row.append(self.leaves(self.arms[arm].forced(method, rtol, SPARSE), arm))
                rows.append(row)
        page.text(f"When the error exceeds {LEFT} rad or m, by tolerance. Outputs are {SPARSE} s "
                  "apart here, so that they do not shorten the steps of RKF, which stop at each: "
                  f"in the figures, at outputs every {EVERY} s, RKF is better than its tolerance.")
        page.table(("arm", "method", "1e-4", "1e-6", "1e-8", "1e-10", "1e-12"), rows)
        at = {(row[0], row[1]): row[3] for row in rows}  # at 1e-6, the paper's tolerance
        stanford, puma, printed = (
            {at[arm, method] for method in ("rkf45", "verner65", "abm")}
            for arm in ("Stanford", "PUMA", "PUMA as printed"))
        page.table(VERDICT, [
            ("[Saha03] 4: at tolerance 1e-6 the Stanford arm deviates after about 2.5 s",
             f"{_join(stanford)}, by method", _when(stanford, 2.5)),
            ("[Saha03] 4: the PUMA deviates after about 6 s",
             f"{_join(puma)} with valid inertias, {_join(printed)} with the printed ones",
             _when(puma | printed, 6.0)),
            ("[Saha03] 4: RKF and ABM give similar plots", *self.similar())])

    def similar(self) -> tuple[str, str]:
        """How RKF and ABM differ at the paper's tolerance, before and after either leaves."""
        case = self.arms["Stanford"]
        rkf, abm = case.forced("rkf45", 1e-6), case.forced("abm", 1e-6)
        desired = case.desired(rkf.t)[0]
        off = np.maximum(np.abs(rkf.q - desired), np.abs(abm.q - desired)).max(axis=1) > LEFT
        apart = np.abs(rkf.q - abm.q)[:, [0, 1, 3, 4, 5]].max(axis=1)
        before, after = apart[~np.maximum.accumulate(off)].max(), apart.max()
        return (f"angles of the Stanford arm differ by at most {before:.2g} rad "
                f"{_first(off, rkf.t)}, later by up to {after:.2g} rad",
                "agrees" if after < LEFT else "differs, once the errors of either have grown")

    def leaves(self, run: Run, arm: str) -> str:
        """When a forced run is off by more than `LEFT`."""
        off = np.abs(run.q - self.arms[arm].desired(run.t)[0]).max(axis=1)
        return _first(~(off <= LEFT), run.t).replace("until ", "")

    def end_effector(self) -> None:
        """[Saha03] Fig. 7: where the last frame of the forced Stanford arm is."""
        page, case = self.page, self.arms["Stanford"]
        page.section("End-effector positions of the forced Stanford arm")
        rkf, abm = case.forced("rkf45", 1e-6), case.forced("abm", 1e-6)
        wanted = case.robot.pose(case.desired(rkf.t)[0])[:, :3, 3]
        figure = trajectories.panels(
            rkf.t, {"desired": wanted, "RKF, 1e-6": rkf.path(), "ABM, 1e-6": abm.path()},
            ["X1", "Y1", "Z1"], ["m"] * 3, title="[Saha03] Fig. 7")
        write_bytes(self.out / "end_effector.png", page.figure(
            figure, "[Saha03] Fig. 7: end-effector positions, Stanford arm, forced"))

    def printed_puma(self) -> None:
        """The PUMA of [Saha03] Table II(ii) as printed: M is indefinite."""
        page, case = self.page, self.arms["PUMA as printed"]
        page.section("The PUMA as printed")
        run = case.fall(t=3.0)
        reached = _first(np.isnan(run.q[:, 0]), run.t)
        lowest = min(np.linalg.eigvalsh(case.robot.mass_matrix(q)).min()
                     for q in case.robot.random_state(0, (200,))[0])
        page.text("[Saha03] Table II(ii) prints negative moments of inertia, as result if "
                  "(Ixx, Iyy, Izz) is rotated like a vector. The figures above use their absolute "
                  "values, for which M is positive definite in every configuration tried.")
        self.draw("fall_puma_printed", case, run.t, {"q": run.q},
                  "Free fall of the PUMA as printed: it ends where M is singular")
        page.table(VERDICT, [
            ("[Saha99] 4: the inertia matrix is positive definite",
             f"smallest eigenvalue in 200 configurations: {lowest:.3g}", _verdict(lowest > 0)),
            ("[Saha03] Fig. 4(ii): free fall over 10 s",
             f"{run.status} at t = {float(run.t_end):.4f} s; states known {reached}",
             _verdict(run.ok))])

    def tables(self) -> None:
        """The complexity tables, published rows beside counted ones."""
        page = self.page
        page.section("Operation counts")
        for table in tables.tables():
            page.markdown_tables(table.markdown())
        page.markdown_tables(koz_tables.markdown())


def _verdict(holds: bool) -> str:
    return "agrees" if holds else "differs"


def _first(wrong: np.ndarray, t: np.ndarray) -> str:
    return f"until {t[int(np.argmax(wrong))]:.2f} s" if wrong.any() else "to the end"


def _join(times: set[str]) -> str:
    return ", ".join(sorted(times))


def _when(times: set[str], claimed: float) -> str:
    """Whether some method leaves at the time the paper gives, to half a second."""
    found = [float(x.split()[0]) for x in times if x[0].isdigit()]
    if any(abs(x - claimed) <= 0.5 for x in found):
        return "agrees"
    if not found:
        return "differs: no method leaves"
    return ("differs: it leaves, but later" if min(found) > claimed
            else "differs: it leaves, but at other times")


def _list(values: np.ndarray) -> str:
    return ", ".join(f"{x:.5g}" for x in values)
