"""Sections of the papers' report on [Saha99] and [Saha03]: their arms, figures and tables."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from nlink.papers import saha_tables as tables
from nlink.papers.experiments import EVERY, LEFT, ROW_HEAD, SPARSE, Arm, T
from nlink.papers.paper_report import Claim, PaperReport
from nlink.simulation.run import Run
from nlink.viewer.clip import Clip
from nlink.viewer.motion_page import motion_page
from nlink.viewer.scene_page import inline_frame

METHODS = {"rkf45": "RKF 4(5)", "verner65": "DVERK 5(6)", "abm": "ABM"}
"""The integrators of [Saha03]: its own scheme, and the two of NEWMOS."""
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
PAPER = 1e-6
"""The tolerance of [Saha03]."""
OPEN_LOOP = ("the motion is unstable in open loop, so when errors have grown to be seen depends on "
             "the method, its tolerance and its steps; see the growth of errors below")
WIDTH, HEIGHT = 480, 360
"""The size of pictures, in pixels."""


def the_arms(report: PaperReport) -> None:
    """[Saha99] Table 3, [Saha03] Table II: the arms as computed with, and how they look."""
    page = report.page
    page.section("The arms")
    page.gallery({f"The {name} arm": _picture(report.arms[name], f"The {name} arm")
                  for name in ("planar", "Stanford", "PUMA")})
    page.text("The planar arm has three rods of 1 m and 1 kg. The PUMA of [Saha03] Table II(ii) is "
              "printed with negative moments of inertia, as they result if $(I_{xx}, I_{yy}, "
              "I_{zz})$ is rotated like a vector; its figures here use their absolute values.")
    with page.folded("Parameters of the Stanford arm and of the PUMA"):
        for source, arm in (("[Saha99] Table 3, [Saha03] Table II(i): Stanford arm", "Stanford"),
                            ("[Saha03] Table II(ii): PUMA, as printed", "PUMA as printed")):
            page.heading(source)
            page.table(ROW_HEAD, report.arms[arm].rows())


def _picture(arm: Arm, words: str) -> str:
    """The arm half-way along its motion, in the colours of the reader."""
    light, dark = (base64.b64encode(arm.robot.png(None, (arm.start + arm.end) / 2, theme=theme,
                                                  width=WIDTH, height=HEIGHT)).decode("ascii")
                   for theme in ("light", "dark"))
    return (f'<picture><source media="(prefers-color-scheme: dark)" '
            f'srcset="data:image/png;base64,{dark}"><img alt="{words}" width={WIDTH} '
            f'height={HEIGHT} src="data:image/png;base64,{light}"></picture>')


def forces(report: PaperReport) -> None:
    """[Saha99] Figs. 5 and 8, [Saha03] Fig. 5: inverse dynamics along the cycloid."""
    page, t = report.page, np.arange(0, T + EVERY / 2, EVERY)
    page.section("Joint forces along the papers' trajectory")
    page.text("From rest to rest in T = 10 s:")
    page.equations(("[Saha99] (38)", r"x(t) = x_0 + \frac{x_T - x_0}{2 \pi}"
                    r"\left[\frac{2 \pi t}{T} - \sin\frac{2 \pi t}{T}\right]"))
    for name, figure, arm in (("planar", "[Saha99] Fig. 5", "planar"),
                              ("stanford", "[Saha99] Fig. 8, [Saha03] Fig. 5(i)", "Stanford"),
                              ("puma", "[Saha03] Fig. 5(ii)", "PUMA")):
        case = report.arms[arm]
        tau = case.robot.inverse_dynamics(*case.desired(t))
        report.draw_joints(f"forces_{name}", case, t, {"tau": tau},
                           f"{figure}: joint forces of the {arm} arm", forces=True)
    planar, stanford = report.arms["planar"], report.arms["Stanford"]
    first = planar.robot.inverse_dynamics(*(x[0] for x in planar.desired(t)))
    others = [report.arms[name] for name in ("planar", "PUMA")]
    # 1/2 [2 pi t/T - sin(2 pi t/T)] is pi at t = T
    printed = stanford.start + np.pi
    shape = r"$\frac{1}{2} [2 \pi t / T - \sin(2 \pi t / T)]$"
    report.check(
        Claim("[Saha99] 6.1", "the torques match the explicit expressions",
              f"at rest, {_list(first)} N m; by hand m g l (4.5, 2, 0.5) = 44.145, 19.62, 4.905",
              np.allclose(first, [44.145, 19.62, 4.905])),
        Claim("[Saha99] (38), (39), [Saha03] (18)", f"planar arm and PUMA: the printed trajectory "
              f"{shape} ends at the stated values",
              f"it ends {np.pi:.4f} rad from its start, as stated",
              all(np.allclose(arm.start + np.pi, arm.end) for arm in others)),
        Claim("[Saha99] (38), (39), [Saha03] (18)", "Stanford arm: the printed trajectory ends at "
              "60 degrees and 0.1 m",
              f"joints 1 and 3 end at {printed[0]:.4f} rad and {printed[2]:.4f} m",
              np.allclose(printed, stanford.end),
              r"the printed factor $\frac{1}{2}$ is $(x_T - x_0) / 2 \pi$ for $x_T - x_0 = \pi$ "
              "only; the figures here use the form above"))


def free_fall(report: PaperReport) -> None:
    """[Saha99] Figs. 6 and 9, [Saha03] Fig. 4: motion under gravity alone."""
    page = report.page
    page.section("Free fall: RKF and ABM")
    motions = {}
    for name, figure, arm in (("planar", "[Saha99] Fig. 6", "planar"),
                              ("stanford", "[Saha99] Fig. 9, [Saha03] Fig. 4(i)", "Stanford"),
                              ("puma", "[Saha03] Fig. 4(ii)", "PUMA")):
        case = report.arms[arm]
        run, abm = case.fall(), case.fall("abm")
        exact = case.fall("dop853", 1e-13, 1e-15)
        report.draw_joints(f"fall_{name}", case, run.t, {"RKF 4(5)": run.q, "ABM": abm.q},
                           f"{figure}: free fall of the {arm} arm")
        motions[f"The {arm} arm falls (RKF)"] = inline_frame(
            motion_page(Clip.of(run, frames=300), compact=True), height=380)
        kinetic = case.robot.kinetic_energy(run.q, run.qd).max()
        drift = np.abs(run.energy - run.energy[0]).max() / kinetic
        page.text(f"RKF at tolerance 1e-10: {run.stats}; energy kept to {drift:.0e} of the "
                  f"largest kinetic energy. It is within 1e-3 of ABM at 1e-10 "
                  f"{_first(_distance(run.q, abm.q) > 1e-3, run.t)}, and of DOP853 at 1e-13 "
                  f"{_first(_distance(run.q, exact.q) > 1e-3, run.t)}.", "muted")
    page.gallery(motions)
    planar, puma = report.arms["planar"].fall(t=0.2), report.arms["PUMA"].fall(t=0.5)
    stanford = report.arms["Stanford"].fall()
    theta, b3 = stanford.q[:, 1], stanford.q[:, 2]
    half, two = (int(np.argmin(np.abs(stanford.t - x))) for x in (0.5, 2.0))
    near, zero = (_first(theta < x, stanford.t) for x in (0.05, 0.0))
    report.check(
        Claim("[Saha99] 6.1", r"$\theta_1$ of the planar arm first grows in the negative direction",
              rf"$\theta_1$(0.2 s) = {planar.q[-1, 0]:.4f} rad", planar.q[-1, 0] < 0),
        Claim("[Saha03] 4", "joint 2 of the PUMA turns in the positive direction",
              rf"$\theta_2$(0.5 s) = {puma.q[-1, 1]:.4f} rad", puma.q[-1, 1] > 0),
        Claim("[Saha03] 4", r"$\theta_2$ of the Stanford arm falls from 90 degrees to zero a "
              "little after 0.5 s",
              rf"$\theta_2$(0.5 s) = {theta[half]:.3f} rad; above 0.05 rad {near}, "
              f"above 0 {zero}", bool((theta[stanford.t < 0.7] < 0).any()),
              "it approaches zero while the arm slides out; on the scale of a small plot of "
              "10 s the two look alike, which is likely what was read"),
        Claim("[Saha99] 6.2, [Saha03] 4", "$b_3$ picks up sharply as the arm turns over",
              f"$b_3$ = {b3[half]:.2f} m at 0.5 s, {b3[two]:.2f} m at 2 s",
              b3[two] > 10 * b3[half]))


def forced(report: PaperReport) -> None:
    """[Saha03] Figs. 6 and 7: forward dynamics under the forces of Fig. 5, RKF and ABM."""
    page = report.page
    page.section("Forced simulation: RKF against ABM")
    page.text("The forces of the desired motion drive the arm, open loop. The exact solution "
              "is the desired motion itself; what is seen to leave it is the growth of "
              f"integration errors along an unstable motion. States are kept every {SPARSE} s, so "
              "that the methods choose their own steps, and drawn by the cubics between them.")
    t = np.arange(0, T + EVERY / 2, EVERY)
    for name, number, arm in (("stanford", "(i)", "Stanford"), ("puma", "(ii)", "PUMA")):
        case = report.arms[arm]
        runs = {f"{METHODS[method]}, 1e-6": _between(case.forced(method, PAPER, SPARSE), t)
                for method in ("rkf45", "abm")}
        paths = {"desired": case.desired(t)[0], **runs}
        report.draw_joints(f"forced_{name}", case, t, paths,
                           f"[Saha03] Fig. 6{number}: forced {arm} arm")
        if arm == "Stanford":
            report.draw(f"end_effector_{name}", t, {
                key: case.robot.pose(q)[:, :3, 3] for key, q in paths.items()},
                ["X1", "Y1", "Z1"], ["m"] * 3,
                "[Saha03] Fig. 7: end-effector positions, forced Stanford arm")
    left = {arm: [_leaves(report.arms[arm], method, PAPER) for method in METHODS]
            for arm in ("Stanford", "PUMA", "PUMA as printed")}
    puma = left["PUMA"] + left["PUMA as printed"]
    report.check(
        Claim("[Saha03] 4", "at tolerance 1e-6 the Stanford arm deviates after about 2.5 s",
              f"off by {LEFT} rad or m: {_by_method(left['Stanford'])}",
              _about(left["Stanford"], 2.5), OPEN_LOOP),
        Claim("[Saha03] 4", "the PUMA deviates after about 6 s",
              f"off by {LEFT} rad: {_by_method(left['PUMA'])}; with the printed inertias "
              f"{_by_method(left['PUMA as printed'])}", _about(puma, 6.0), OPEN_LOOP),
        _similar(report.arms["Stanford"]))


def _between(run: Run, t: np.ndarray) -> np.ndarray:
    """A run at times between its outputs, by the cubics through its positions and rates."""
    k = np.clip(np.searchsorted(run.t, t, side="right") - 1, 0, len(run.t) - 2)
    h = (run.t[k + 1] - run.t[k])[:, None]
    s = (t - run.t[k])[:, None] / h
    return ((1 + 2 * s) * (1 - s)**2 * run.q[k] + s**2 * (3 - 2 * s) * run.q[k + 1]
            + h * s * (1 - s) * ((1 - s) * run.qd[k] - s * run.qd[k + 1]))


def _leaves(arm: Arm, method: str, rtol: float) -> float | None:
    """When a forced run is off by more than `LEFT`, if ever."""
    run = arm.forced(method, rtol, SPARSE)
    off = ~(arm.error(run) <= LEFT)
    return float(run.t[int(np.argmax(off))]) if off.any() else None


def _similar(arm: Arm) -> Claim:
    """How RKF and ABM differ at the paper's tolerance, before and after either leaves."""
    rkf, abm = (arm.forced(method, PAPER, SPARSE) for method in ("rkf45", "abm"))
    off = np.maximum(arm.error(rkf), arm.error(abm)) > LEFT
    distance = _distance(rkf.q, abm.q, [0, 1, 3, 4, 5])
    before, after = distance[~np.maximum.accumulate(off)].max(), distance.max()
    return Claim("[Saha03] 4", "RKF and ABM give similar plots",
                 f"angles of the Stanford arm differ by at most {before:.2g} rad "
                 f"{_first(off, rkf.t)}, later by up to {after:.2g} rad", after < LEFT,
                 "similar until the errors of either have grown")


def growth(report: PaperReport) -> None:
    """The drift of the forced runs as the growth of errors, against the tolerance."""
    page = report.page
    page.section("Why the forced runs drift: error growth against tolerance")
    page.text("The largest joint error of the forced runs. A tighter tolerance lowers the "
              "whole curve and so puts off the moment it is seen; the slope, which is the "
              "arm's own, stays. RKF and DVERK stop at each output; where two curves coincide, "
              "steps of that size meet both tolerances.")
    for name, arm in (("stanford", "Stanford"), ("puma", "PUMA")):
        case = report.arms[arm]
        t = case.forced("rkf45", PAPER, SPARSE).t[1:]
        curves = {_power(rtol): np.stack([np.maximum(
            case.error(case.forced(method, rtol, SPARSE))[1:], 1e-16) for method in METHODS],
            axis=1) for rtol in TOLERANCES[:-1]}
        report.draw(f"growth_{name}", t, curves, list(METHODS.values()),
                    ["rad or m"] * len(METHODS),
                    f"Error of the forced {arm} arm over time, by tolerance", log=True)
    rows = [[arm, name, *(_seconds(_leaves(report.arms[arm], method, rtol))
                          for rtol in TOLERANCES)]
            for arm in report.arms for method, name in METHODS.items()]
    with page.folded(f"When the error exceeds {LEFT} rad or m, by tolerance"):
        page.table(("arm", "method", *map(_power, TOLERANCES)), rows)


def printed_puma(report: PaperReport) -> None:
    """The PUMA of [Saha03] Table II(ii) as printed: M is indefinite."""
    case = report.arms["PUMA as printed"]
    report.page.heading("The PUMA as printed")
    run = case.fall(t=3.0)
    reached = _first(np.isnan(run.q[:, 0]), run.t)
    lowest, valid = (
        min(np.linalg.eigvalsh(M).min() for M in arm.robot.mass_matrix(
            arm.robot.random_state(0, (200,))[0])) for arm in (case, report.arms["PUMA"]))
    with report.page.folded("Free fall of the PUMA as printed"):
        report.draw_joints("fall_puma_printed", case, run.t, {"q": run.q},
                           "Free fall of the PUMA as printed: it ends where M is singular")
    report.check(
        Claim("[Saha99] 4", "the inertia matrix is positive definite (PUMA as printed)",
              f"smallest eigenvalue in 200 configurations: {lowest:.3g}; with absolute values "
              f"{valid:.3g}", lowest > 0, "no body has a negative moment of inertia"),
        Claim("[Saha03] Fig. 4(ii)", "free fall over 10 s (PUMA as printed)",
              f"{run.status} at t = {float(run.t_end):.4f} s; states known {reached}", run.ok,
              "M becomes singular there, so the accelerations are infinite"))


def operations(report: PaperReport) -> None:
    """The complexity tables of both papers, published rows beside counted ones."""
    page = report.page
    page.section("Operation counts of [Saha99] and [Saha03]")
    page.text("Published rows beside those of nlink, which are counted on the algorithms that "
              "made the figures. M are multiplications and divisions, A additions and "
              "subtractions, for one state of a revolute chain of n joints.")
    for table in (*tables.merged(), tables.break_even_table()):
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
