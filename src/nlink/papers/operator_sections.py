"""Sections of the papers' report on [RK88] and [Koz95]: operators, identities, decoupled motion."""

from __future__ import annotations

import numpy as np

from nlink.papers import koz_tables
from nlink.papers.equations import (
    FD_FORMS,
    KOZ95_EQUATIONS,
    MISPRINTS,
    RK88_IDENTITIES,
    MovingState,
    relative,
)
from nlink.papers.formulations import formulations
from nlink.papers.paper_report import HOLDS, Claim, PaperReport
from nlink.simulation.simulator import simulate

OPERATORS = (
    ("(3.12), (4.9)", r"V = \phi^T H^T \dot\theta, \quad \Phi = \phi S"),
    ("(4.5)", r"P(k + 1) = \psi(k + 1, k) P(k) \phi^T(k + 1, k) + M(k + 1)"),
    ("(4.6), (5.12)", r"D = H P H^T, \quad G = P H^T D^{-1}, \quad L(k) = \phi(k + 1, k) G(k)"),
    ("(4.7), (4.10)", r"\psi(k + 1, k) = \phi(k + 1, k) - L(k) H(k), \quad \Psi = \psi S"),
)
RATES = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
"""At which the quasi-velocities of the PUMA are made to decay, 1/s."""
START = np.array([0.3, -0.6, 0.9, 0.4, -0.5, 0.2]), np.array([1.0, -1.5, 2.0, -3.0, 2.0, 4.0])


def moving_states(report: PaperReport) -> list[MovingState]:
    """The papers' arms in states at random."""
    return [MovingState.random(report.arms[name].robot, seed)
            for seed, name in enumerate(("planar", "Stanford", "PUMA"))]


def spatial_operators(report: PaperReport) -> None:
    """[RK88]: operators, identities with residuals, FD1 to FD4."""
    page, states = report.page, moving_states(report)
    page.section("[RK88]: spatial operators")
    page.text("Operators act on what all bodies have together. H holds the joint axes, M the "
              "spatial inertias, S what the children have at their parent; the others are:")
    page.equations(*OPERATORS)
    page.text("Residuals are the largest differences between both sides, relative to their largest "
              "element, on the three arms in states at random. The sides are computed apart: by "
              "operators, and by nlink's recursions or dense matrices.")
    report.equations(RK88_IDENTITIES, states)
    page.heading("Forward dynamics, four ways")
    report.equations(FD_FORMS, states)
    counted = {row.formulation: row for row in formulations()}
    page.text("As recursions (outward sweeps >, inward ones <), counted on revolute chains of n "
              "joints:")
    page.table(("form", "sweeps", "operations", "n = 6"), [
        (name.upper(), counted[name].arrows, str(counted[name].formula),
         str(counted[name].formula(6))) for name in ("fd1", "fd2", "fd3", "fd4")])
    _misprints(report, "[RK88]", states)


def quasi_velocities(report: PaperReport) -> None:
    """[Koz95]: equations with residuals, decoupled motion, tables."""
    page, states = report.page, moving_states(report)
    page.section("[Koz95]: diagonalized equations of motion")
    page.text(r"With $\nu = m^* \dot\theta$ the mass matrix is 1, and each equation of motion has "
              "one acceleration only. Rates of operators are compared with complex steps along the "
              "motion.")
    report.equations(KOZ95_EQUATIONS, states)
    _misprints(report, "[Koz95]", states)
    _decoupled(report)
    page.heading("Operation counts")
    for table in (koz_tables.table_2(), koz_tables.table_3()):
        page.printed_table(table)


def _misprints(report: PaperReport, paper: str, states: list[MovingState]) -> None:
    for misprint in MISPRINTS:
        printed, corrected = misprint.printed, misprint.corrected
        if printed.paper == paper:
            off, mended = printed.residual(states), corrected.residual(states)
            report.check(Claim(
                f"{paper} {printed.number}", f"{printed.about}: ${printed.tex}$",
                f"relative residual {off:.2g}; {mended:.0e} for ${corrected.tex}$",
                off <= HOLDS, misprint.why))


def _decoupled(report: PaperReport) -> None:
    """eps = C - rate_k nu_k: each quasi-velocity of the PUMA decays by itself."""
    robot = report.arms["PUMA"].robot

    def controller(t: float, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        d = robot.diagonal(q, qd)
        return d.from_eps(d.C_nu - RATES * d.nu) + d.friction()

    run = simulate(robot, *START, t=1.5, every=0.05, tau=controller, traced=False, rtol=1e-7,
                   atol=1e-9, progress=False)
    nu = np.array([robot.diagonal(q, qd).nu for q, qd in zip(run.q, run.qd, strict=True)])
    exact = nu[0] * np.exp(-np.outer(run.t, RATES))
    report.page.heading("Decoupled motion")
    report.page.text(r"A controller that cancels C, $\epsilon_k = C_k - r_k \nu_k$, leaves six "
                     r"equations $\dot\nu_k = -r_k \nu_k$ that know nothing of each other, "
                     "whatever the arm does meanwhile; here with r = 1, 2, ..., 6 per second.")
    report.draw("decoupled_puma", run.t, {"simulated": nu, "exponential": exact},
                [f"nu {k}, r = {r:g}/s" for k, r in enumerate(RATES, 1)], [""] * 6,
                "[Koz95] section 6: quasi-velocities of the PUMA, each decaying alone")
    off = relative(nu, exact)
    report.check(Claim("[Koz95] 40", r"in $\nu$ the equations of motion are decoupled (PUMA)",
                       f"each quasi-velocity follows its exponential to {off:.0e} of the largest",
                       off < 1e-5))
