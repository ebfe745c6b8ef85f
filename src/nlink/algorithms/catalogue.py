"""The algorithms by name: what goes in, what comes out, and the text between.

Adding an algorithm is writing its file and one entry here; every engine, the counter, the
symbolic printer, the command line and the benchmarks find it by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nlink.algorithms import forward_dynamics as accelerations
from nlink.algorithms import inverse_dynamics as dynamics
from nlink.algorithms import coriolis, kinematics, matrices
from nlink.algorithms.sweep import Unrolled
from nlink.model.mechanism import Attachment, Mechanism


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to compute one thing.

    `inputs` and `outputs` are (name, shape), a shape being a tuple of sizes and of the names
    of sizes: nq, n (rates), links. `text` is called with a driver, the options and one column
    an input (a flat sequence of scalars for f_ext), and returns scalars in any nesting.
    """

    name: str
    formulation: str
    inputs: tuple[tuple[str, tuple[str | int, ...]], ...]
    outputs: tuple[tuple[str, tuple[str | int, ...]], ...]
    text: Callable[..., Any]
    prepare: Callable[[Mechanism], Mechanism] = lambda mechanism: mechanism
    """Off-line work on the mechanism that leaves this algorithm's results unchanged."""
    rolls: bool = False
    """The text is sweeps and nothing else, so the rolled driver can run it too."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is fixed before tracing: the frame a question is about, and the link frames."""

    frame: Attachment
    links: tuple[Attachment, ...]


Q, QD, QDD = ("q", ("nq",)), ("qd", ("n",)), ("qdd", ("n",))
TAU, F_EXT = ("tau", ("n",)), ("f_ext", ("links", 6))


def _jacobian(driver: Unrolled, o: Options, q: Any) -> Any:
    columns = [twist.components for twist in kinematics.jacobian(driver, q, o.frame)]
    return tuple(zip(*columns, strict=True)) if columns else ((),) * 6


_ENTRIES = (
    Algorithm(
        "inverse_dynamics", "ridim", (Q, QD, QDD, F_EXT), (TAU,),
        lambda m, o, q, qd, qdd, f: dynamics.inverse_dynamics(
            m, q, qd, qdd, kinematics.body_wrenches(m, q, o.links, f)),
        Mechanism.regrouped, rolls=True),
    Algorithm(
        "bias", "ridim", (Q, QD), (TAU,),
        lambda m, o, q, qd: dynamics.bias(m, q, qd, dynamics.no_wrenches(m)), Mechanism.regrouped,
        rolls=True),
    Algorithm(
        "gravity_torque", "ridim", (Q,), (TAU,),
        lambda m, o, q: dynamics.gravity_torque(m, q), Mechanism.regrouped, rolls=True),
    Algorithm(
        "forward_dynamics", "articulated", (Q, QD, TAU, F_EXT), (QDD,),
        lambda m, o, q, qd, tau, f: accelerations.forward_dynamics(
            m, q, qd, tau, kinematics.body_wrenches(m, q, o.links, f)),
        Mechanism.regrouped, rolls=True),
    Algorithm(
        "forward_dynamics", "denoc", (Q, QD, TAU, F_EXT), (QDD,),
        lambda m, o, q, qd, tau, f: accelerations.denoc(
            m, q, qd, tau, kinematics.body_wrenches(m, q, o.links, f)),
        Mechanism.regrouped, rolls=True),
    Algorithm(
        "forward_dynamics", "composite", (Q, QD, TAU, F_EXT), (QDD,),
        lambda m, o, q, qd, tau, f: matrices.composite_dynamics(
            m, q, qd, tau, kinematics.body_wrenches(m, q, o.links, f)),
        Mechanism.regrouped),
    Algorithm(
        "mass_matrix", "composite", (Q,), (("M", ("n", "n")),),
        lambda m, o, q: matrices.mass_matrix(m, q), Mechanism.regrouped),
    Algorithm(
        "factor_mass_matrix", "denoc", (Q,), (("U", ("n", "n")), ("D", ("n",))),
        lambda m, o, q: matrices.factor(m, q), Mechanism.regrouped),
    Algorithm(
        "inverse_mass_matrix", "denoc", (Q,), (("Minv", ("n", "n")),),
        lambda m, o, q: matrices.inverse_mass_matrix(m, q), Mechanism.regrouped),
    Algorithm(
        "coriolis_matrix", "points", (Q, QD), (("C", ("n", "n")),),
        lambda m, o, q, qd: coriolis.coriolis_matrix(m, q, qd), Mechanism.regrouped),
    Algorithm(
        "solve", "denoc", (Q, TAU), (QDD,),
        lambda m, o, q, tau: accelerations.solve(m, q, tau), Mechanism.regrouped, rolls=True),
    Algorithm(
        "pose", "recursive", (Q,), (("pose", (4, 4)),),
        lambda m, o, q: kinematics.pose(m, q, o.frame)),
    Algorithm("jacobian", "recursive", (Q,), (("J", (6, "n")),), _jacobian),
    Algorithm(
        "jacobian_dot_qd", "recursive", (Q, QD), (("a", (6,)),),
        lambda m, o, q, qd: kinematics.jacobian_dot_qd(m, q, qd, o.frame)),
    Algorithm(
        "kinetic_energy", "recursive", (Q, QD), (("T", ()),),
        lambda m, o, q, qd: kinematics.kinetic_energy(m, q, qd), rolls=True),
    Algorithm(
        "potential_energy", "recursive", (Q,), (("V", ()),),
        lambda m, o, q: kinematics.potential_energy(m, q), rolls=True),
)

ALGORITHMS: dict[str, dict[str, Algorithm]] = {}
"""name -> formulation -> algorithm; the first formulation of a name is its default."""
for _entry in _ENTRIES:
    ALGORITHMS.setdefault(_entry.name, {})[_entry.formulation] = _entry


def find(name: str, formulation: str | None = None) -> Algorithm:
    """The algorithm of a name, in the named or the default formulation."""
    if name not in ALGORITHMS:
        raise ValueError(f"{name!r} is not computed here, expected one of {', '.join(ALGORITHMS)}")
    formulations = ALGORITHMS[name]
    if formulation is None:
        return next(iter(formulations.values()))
    if formulation not in formulations:
        raise ValueError(f"algorithm: {formulation!r} is no formulation of {name}, "
                         f"expected one of {', '.join(formulations)}")
    return formulations[formulation]
