"""The algorithms by name: what goes in, what comes out, and the text between.

Adding an algorithm is writing its file and one entry here; every engine, the counter, the
symbolic printer, the command line and the benchmarks find it by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from nlink.algorithms import (
    closed_chains,
    closures,
    coriolis,
    diagonal,
    kinematics,
    matrices,
    object_form,
    operational,
    spatial_operators,
)
from nlink.algorithms import forward_dynamics as accelerations
from nlink.algorithms import inverse_dynamics as dynamics
from nlink.model.mechanism import Attachment, Mechanism

Shape = tuple[str | int, ...]
"""Sizes of axes and their kinds: "nq" has an element for each coordinate of each joint, "n" for
each rate, "links" for each link; other names ("rows", "closures") and numbers are sizes only."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to compute one thing.

    `inputs` and `outputs` are (name, shape), a shape being a tuple of sizes and of the names
    of sizes: nq, n (rates), links. `text` is called with a driver, the options and one column
    an input (a flat sequence of scalars for f_ext), and returns scalars in any nesting.
    """

    name: str
    formulation: str
    inputs: tuple[tuple[str, Shape], ...]
    outputs: tuple[tuple[str, Shape], ...]
    text: Callable[..., Any]
    prepare: Callable[[Mechanism], Mechanism] = lambda mechanism: mechanism
    """Off-line work on the mechanism that leaves this algorithm's results unchanged."""
    rolls: bool = False
    """The text is sweeps and nothing else, so the rolled driver can run it too."""
    contends: bool = False
    """For some robots this formulation has the fewest operations: see `Robot.request`."""
    definite: bool = False
    """Needs a positive definite mass matrix; other mechanisms give nan."""
    loops: bool = False
    """Of a mechanism with loops; the others are of a tree."""
    otherwise: str = ""
    """The formulation for states in which this one gives nan."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is fixed before tracing: the frame a question is about, and the link frames."""

    frame: Attachment
    links: tuple[Attachment, ...]


Q, QD, QDD = ("q", ("nq",)), ("qd", ("n",)), ("qdd", ("n",))
TAU, F_EXT = ("tau", ("n",)), ("f_ext", ("links", 6))
ALPHA = ("alpha", ("links", 6))


def _with_wrenches(text: Callable[..., Any]) -> Callable[..., Any]:
    """A text of (q, qd, tau or qdd, wrench on each body), given wrenches on the author's links."""
    return lambda m, o, q, qd, third, f: text(
        m, q, qd, third, kinematics.body_wrenches(m, q, o.links, f))


def _joints_of(text: Callable[..., Any]) -> Callable[..., Any]:
    run = _with_wrenches(text)
    return lambda m, *rest: spatial_operators.joint_accelerations(m, run(m, *rest))


def _links_of(text: Callable[..., Any]) -> Callable[..., Any]:
    run = _with_wrenches(text)
    return lambda m, o, q, *rest: spatial_operators.link_accelerations(
        m, q, o.links, run(m, o, q, *rest))


def operational_about(name: str, frames: Sequence[Attachment]) -> Algorithm:
    """An operational space algorithm about several frames at once, (6k, 6k)."""
    port, text = OPERATIONAL[name]
    size = 6 * len(frames)
    label = sha256(repr(tuple(frames)).encode()).hexdigest()
    return Algorithm(name, f"frames {label}", (Q,), ((port, (size, size)),),
                     lambda m, o, q: text(m, q, frames), Mechanism.regrouped)


OPERATIONAL = {"operational_inertia": ("Lambda", operational.operational_inertia),
               "operational_mobility": ("mobility", operational.operational_mobility)}
"""Name -> (output, text)."""


def _diagonal(velocity: str, *, normalized: bool) -> tuple[Algorithm, ...]:
    """The dynamics in one kind of quasi-velocity of [Koz95], nu (normalized) or xi.

    Square roots of the pivots make nu: the normalized entries need M > 0.
    """
    kind, prefix = ("diagonalized", "") if normalized else ("diagonalized-xi", "unnormalized_")
    state, change = (velocity, ("n",)), (f"{velocity}d", ("n",))
    wrenches, grouped = kinematics.body_wrenches, Mechanism.regrouped
    found, rates = ((diagonal.normalized_velocities, diagonal.rates_from_normalized) if normalized
                    else (diagonal.unnormalized_velocities, diagonal.rates_from_unnormalized))
    return (
        Algorithm(
            "inverse_dynamics", kind, (Q, QD, QDD, F_EXT), (TAU,),
            lambda m, o, q, qd, qdd, f: diagonal.inverse_dynamics(
                m, q, qd, qdd, wrenches(m, q, o.links, f), normalized),
            grouped, rolls=True, definite=normalized),
        Algorithm(
            "forward_dynamics", kind, (Q, QD, TAU, F_EXT), (QDD,),
            lambda m, o, q, qd, tau, f: diagonal.forward_dynamics(
                m, q, qd, tau, wrenches(m, q, o.links, f), normalized),
            grouped, rolls=True, definite=normalized),
        Algorithm(
            f"{prefix}quasi_velocities", kind, (Q, QD), (state,),
            lambda m, o, q, qd: found(m, q, qd), grouped, rolls=True, definite=normalized),
        Algorithm(
            f"rates_from_{prefix}quasi_velocities", kind, (Q, state), (QD,),
            lambda m, o, q, x: rates(m, q, x), grouped, rolls=True, definite=normalized),
        Algorithm(
            f"{prefix}quasi_motion", kind, (Q, state, TAU, F_EXT), (QD, change),
            lambda m, o, q, x, tau, f: diagonal.quasi_motion(
                m, q, x, tau, wrenches(m, q, o.links, f), normalized),
            grouped, definite=normalized),
    )


_ENTRIES = (
    Algorithm(
        "inverse_dynamics", "ridim", (Q, QD, QDD, F_EXT), (TAU,),
        _with_wrenches(dynamics.inverse_dynamics),
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
        _with_wrenches(accelerations.forward_dynamics),
        Mechanism.regrouped, rolls=True, contends=True),
    Algorithm(
        "forward_dynamics", "denoc", (Q, QD, TAU, F_EXT), (QDD,),
        _with_wrenches(accelerations.denoc),
        Mechanism.regrouped, rolls=True),
    Algorithm(
        "forward_dynamics", "composite", (Q, QD, TAU, F_EXT), (QDD,),
        _with_wrenches(matrices.composite_dynamics),
        Mechanism.regrouped, contends=True),
    Algorithm(
        "forward_dynamics", "fd1", (Q, QD, TAU, F_EXT), (QDD,),
        _with_wrenches(spatial_operators.fd1),
        Mechanism.regrouped, rolls=True),
    Algorithm(
        "forward_dynamics", "fd2", (Q, QD, TAU, F_EXT), (QDD,), _joints_of(spatial_operators.fd2),
        Mechanism.regrouped, rolls=True),
    Algorithm(
        "forward_dynamics", "fd3", (Q, QD, TAU, F_EXT), (QDD,),
        _with_wrenches(spatial_operators.fd3),
        Mechanism.regrouped, rolls=True),
    Algorithm(
        "forward_dynamics", "fd4", (Q, QD, TAU, F_EXT), (QDD,), _joints_of(spatial_operators.fd4),
        Mechanism.regrouped, rolls=True),
    Algorithm(
        "link_accelerations", "fd4", (Q, QD, TAU, F_EXT), (ALPHA,),
        _links_of(spatial_operators.fd4), Mechanism.regrouped),
    Algorithm(
        "link_accelerations", "fd2", (Q, QD, TAU, F_EXT), (ALPHA,),
        _links_of(spatial_operators.fd2), Mechanism.regrouped),
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
        "inverse_mass_matrix", "columns", (Q,), (("Minv", ("n", "n")),),
        lambda m, o, q: matrices.inverse_by_columns(m, q), Mechanism.regrouped),
    Algorithm(
        "coriolis_matrix", "points", (Q, QD), (("C", ("n", "n")),),
        lambda m, o, q, qd: coriolis.coriolis_matrix(m, q, qd), Mechanism.regrouped),
    Algorithm(
        "solve", "denoc", (Q, TAU), (QDD,),
        lambda m, o, q, tau: accelerations.solve(m, q, tau), Mechanism.regrouped, rolls=True),
    Algorithm(
        "pose", "recursive", (Q,), (("pose", (4, 4)),),
        lambda m, o, q: kinematics.pose(m, q, o.frame)),
    Algorithm(
        "jacobian", "recursive", (Q,), (("J", (6, "n")),),
        lambda m, o, q: kinematics.jacobian(m, q, o.frame)),
    Algorithm(
        "jacobian_dot_qd", "recursive", (Q, QD), (("a", (6,)),),
        lambda m, o, q, qd: kinematics.jacobian_dot_qd(m, q, qd, o.frame)),
    *(Algorithm(name, "propagation", (Q,), ((port, (6, 6)),),
                lambda m, o, q, text=text: text(m, q, (o.frame,)), Mechanism.regrouped)
      for name, (port, text) in OPERATIONAL.items()),
    Algorithm(
        "kinetic_energy", "recursive", (Q, QD), (("T", ()),),
        lambda m, o, q, qd: kinematics.kinetic_energy(m, q, qd), rolls=True),
    Algorithm(
        "potential_energy", "recursive", (Q,), (("V", ()),),
        lambda m, o, q: kinematics.potential_energy(m, q), rolls=True),
    Algorithm(
        "center_of_mass", "recursive", (Q,), (("c", (3,)),),
        lambda m, o, q: kinematics.center_of_mass(m, q)),
    *_diagonal("nu", normalized=True),
    *_diagonal("xi", normalized=False),
)

G = ("g", ("rows",))
_CLOSED = (
    Algorithm(
        "forward_dynamics", "contact", (Q, QD, TAU, F_EXT), (QDD,),
        _with_wrenches(closed_chains.forward_dynamics), Mechanism.regrouped, loops=True),
    Algorithm(
        "forward_dynamics", "object", (Q, QD, TAU, F_EXT), (QDD,),
        _with_wrenches(object_form.forward_dynamics), Mechanism.regrouped, loops=True,
        otherwise="contact"),
    Algorithm(
        "closure_forces", "contact", (Q, QD, TAU, F_EXT), (("f", ("closures", 6)),),
        _with_wrenches(closed_chains.closure_forces), Mechanism.regrouped, loops=True),
    Algorithm(
        "closure_error", "recursive", (Q,), (G,),
        lambda m, o, q: closures.closure_error(m, q, author=True), loops=True),
    Algorithm(
        "closure_velocity", "recursive", (Q, QD), (G,),
        lambda m, o, q, qd: closures.closure_velocity(m, q, qd, author=True), loops=True),
    Algorithm(
        "closure_acceleration", "recursive", (Q, QD), (G,),
        lambda m, o, q, qd: closures.closure_acceleration(m, q, qd), loops=True),
    Algorithm(
        "closure_jacobian", "recursive", (Q,), (("J", ("rows", "n")),),
        lambda m, o, q: closures.closure_jacobian(m, q), loops=True),
    Algorithm(
        "closure_rows", "recursive", (Q,), (("Q", ("rows", 6)),),
        lambda m, o, q: closures.closure_rows(m, q), loops=True),
    Algorithm(
        "closure_rank", "contact", (Q,), (("rank", ()),),
        lambda m, o, q: closed_chains.closure_rank(m, q), Mechanism.regrouped, loops=True),
    Algorithm(
        "project", "contact", (Q, QD), (Q, QD),
        lambda m, o, q, qd: closed_chains.project(m, q, qd), Mechanism.regrouped, loops=True),
)


def stabilized(stiffness: float) -> Algorithm:
    """Forward dynamics of a mechanism with loops, with Baumgarte's terms."""
    return Algorithm(
        "forward_dynamics", f"contact, stiffness {stiffness!r}", (Q, QD, TAU, F_EXT), (QDD,),
        _with_wrenches(partial(closed_chains.forward_dynamics, stiffness=stiffness)),
        Mechanism.regrouped, loops=True)


ALGORITHMS: dict[str, dict[str, Algorithm]] = {}
"""name -> formulation -> algorithm; the first is the default where no other contends."""
for _entry in _ENTRIES:
    ALGORITHMS.setdefault(_entry.name, {})[_entry.formulation] = _entry

CLOSED: dict[str, dict[str, Algorithm]] = {}
"""The same for mechanisms with loops: what of a tree's is not true of them, and more."""
for _entry in _CLOSED:
    CLOSED.setdefault(_entry.name, {})[_entry.formulation] = _entry


YIELDING = ("link_accelerations", *OPERATIONAL, "quasi_motion", "unnormalized_quasi_motion")
"""How a tree yields to forces: not so with loops."""


def catalogue(*, loops: bool) -> dict[str, dict[str, Algorithm]]:
    """All that is computed of a mechanism with loops, or without."""
    if not loops:
        return ALGORITHMS
    return {name: entries for name, entries in ALGORITHMS.items() if name not in YIELDING} | CLOSED


def find(name: str, formulation: str | None = None, *, loops: bool = False) -> Algorithm:
    """The algorithm of a name, in the named or the default formulation."""
    known = catalogue(loops=loops)
    if name in CLOSED and name not in known:
        raise ValueError(f"{name}: of mechanisms with loops, and this one has none")
    if loops and name in YIELDING:
        raise ValueError(f"{name}: of trees, and this mechanism has loops that change it; "
                         "`robot.tree` is the mechanism with its loops opened")
    if name not in known:
        raise ValueError(f"{name!r} is not computed here, expected one of {', '.join(known)}")
    formulations = known[name]
    if formulation is None:
        return next(iter(formulations.values()))
    if formulation not in formulations:
        raise ValueError(f"algorithm: {formulation!r} is no formulation of {name}, "
                         f"expected one of {', '.join(formulations)}")
    return formulations[formulation]
