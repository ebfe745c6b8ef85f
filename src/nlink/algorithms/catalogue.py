"""The algorithms by name: what goes in, what comes out, and the text between.

Adding an algorithm is writing its file and one entry here; every engine, the counter, the
symbolic printer, the command line and the benchmarks find it by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nlink.algorithms import (
    centroidal,
    closed_chains,
    closures,
    coriolis,
    cycle_elimination,
    diagonal,
    dynamics_derivatives,
    hybrid_dynamics,
    kinematics,
    matrices,
    operational,
    regressor,
    spatial_operators,
)
from nlink.algorithms import forward_dynamics as accelerations
from nlink.algorithms import inverse_dynamics as dynamics
from nlink.model.mechanism import Attachment, Mechanism
from nlink.model.names import did_you_mean

Shape = tuple[str | int, ...]
"""Sizes of axes and their kinds: "nq" has an element for each coordinate of each joint, "n" for
each rate, "links" for each link; other names ("rows" and "closures" of loops, "frames" and "task",
the ten inertial "parameters" of each body) and numbers are sizes only."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to compute one thing.

    `inputs` and `outputs` are (name, shape). `text` is called with a driver, the options and one
    column an input (a block of the port for each joint or link; None for f_ext if not given).
    It returns for each output a column, of joints or links, a matrix by its columns, or scalars
    in any nesting: in the order of the port, as many as it has.
    """

    name: str
    formulation: str
    inputs: tuple[tuple[str, Shape], ...]
    outputs: tuple[tuple[str, Shape], ...]
    text: Callable[..., Any]
    prepare: Callable[[Mechanism], Mechanism] = lambda mechanism: mechanism
    """Off-line work on the mechanism that leaves this algorithm's results unchanged."""
    power: int = 1
    """The cost grows with this power of the number of joints of a chain."""
    definite: bool = False
    """Needs a positive definite mass matrix; other mechanisms give nan."""
    counted: int = 0
    """Up to this many joints it may be the default, if it has the fewest operations."""
    refuses: Callable[[Mechanism], str] = lambda mechanism: ""
    """Why it is not for a mechanism, as a clause; empty if it is."""
    cycles: bool = False
    """Whether it goes along cycles, not along the tree: long code is then made of steps that are
    alike (`programs.stepped`), not rolled."""
    in_parts: bool = False
    """Whether it is cheaper, for many joints, to compute it by others, one after the other."""
    stand_in: str = ""
    """The formulation for states in which this one gives nan."""

    @property
    def several_frames(self) -> bool:
        return any(size in ("task", "frames") for _, shape in self.outputs for size in shape)


@dataclass(frozen=True, slots=True)
class Options:
    """What is fixed before tracing: the frames a question is about, the link frames, how stiffly
    loops are held, how closely states are known to be closed, and whose axes wrenches are in."""

    frames: tuple[Attachment, ...]
    links: tuple[Attachment, ...]
    stiffness: float = 0.0
    closeness: float = 0.0
    axes: str = "world"

    @property
    def frame(self) -> Attachment:
        return self.frames[0]


FEW_FOR_COUNTING = 12
"""Up to here the default formulation is chosen by counting; beyond, O(n) always wins."""
FEW_WITH_LOOPS = 40
"""The same for mechanisms with loops, whose rows go in one of two orders."""
Q, QD, QDD = ("q", ("nq",)), ("qd", ("n",)), ("qdd", ("n",))
TAU, F_EXT = ("tau", ("n",)), ("f_ext", ("links", 6))
ALPHA = ("alpha", ("links", 6))
HELD, FORCE = ("held", ("n",)), ("force", ("n",))


def _with_wrenches(text: Callable[..., Any]) -> Callable[..., Any]:
    """A text of (q, qd, tau or qdd, wrench on each body), given wrenches on the author's links."""
    return lambda m, o, q, qd, third, f: text(
        m, q, qd, third, kinematics.body_wrenches(m, q, o.links, f, o.axes))


def _of_state(text: Callable[..., Any]) -> Callable[..., Any]:
    """A text of the state alone, whatever the options are."""
    return lambda m, o, *state: text(m, *state)


def _forward(formulation: str, text: Callable[..., Any], **costs: Any) -> Algorithm:
    """A formulation of the forward dynamics of trees."""
    return Algorithm("forward_dynamics", formulation, (Q, QD, TAU, F_EXT), (QDD,), text,
                     Mechanism.regrouped, **costs)


def _joints_of(text: Callable[..., Any]) -> Callable[..., Any]:
    run = _with_wrenches(text)
    return lambda m, *rest: spatial_operators.joint_accelerations(m, run(m, *rest))


def _links_of(text: Callable[..., Any]) -> Callable[..., Any]:
    run = _with_wrenches(text)
    return lambda m, o, q, *rest: spatial_operators.link_accelerations(
        m, q, o.links, run(m, o, q, *rest))


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
                m, q, qd, qdd, wrenches(m, q, o.links, f, o.axes), normalized),
            grouped, definite=normalized),
        Algorithm(
            "forward_dynamics", kind, (Q, QD, TAU, F_EXT), (QDD,),
            lambda m, o, q, qd, tau, f: diagonal.forward_dynamics(
                m, q, qd, tau, wrenches(m, q, o.links, f, o.axes), normalized),
            grouped, definite=normalized),
        Algorithm(
            f"{prefix}quasi_velocities", kind, (Q, QD), (state,),
            lambda m, o, q, qd: found(m, q, qd), grouped, definite=normalized),
        Algorithm(
            f"rates_from_{prefix}quasi_velocities", kind, (Q, state), (QD,),
            lambda m, o, q, x: rates(m, q, x), grouped, definite=normalized),
        Algorithm(
            f"{prefix}quasi_motion", kind, (Q, state, TAU, F_EXT), (QD, change),
            lambda m, o, q, x, tau, f: diagonal.quasi_motion(
                m, q, x, tau, wrenches(m, q, o.links, f, o.axes), normalized),
            grouped, definite=normalized),
    )


_ENTRIES = (
    Algorithm("inverse_dynamics", "ridim", (Q, QD, QDD, F_EXT), (TAU,),
              _with_wrenches(dynamics.inverse_dynamics), Mechanism.regrouped),
    Algorithm(
        "bias", "ridim", (Q, QD), (TAU,),
        lambda m, o, q, qd: dynamics.bias(m, q, qd, dynamics.no_wrenches(m)), Mechanism.regrouped),
    Algorithm("gravity_torque", "ridim", (Q,), (TAU,),
              _of_state(dynamics.gravity_torque), Mechanism.regrouped),
    _forward("articulated", _with_wrenches(accelerations.forward_dynamics),
             counted=FEW_FOR_COUNTING),
    _forward("denoc", _with_wrenches(accelerations.denoc)),
    _forward("composite", _with_wrenches(matrices.composite_dynamics), power=3,
             counted=FEW_FOR_COUNTING),
    _forward("fd1", _with_wrenches(spatial_operators.fd1)),
    _forward("fd2", _joints_of(spatial_operators.fd2)),
    _forward("fd3", _with_wrenches(spatial_operators.fd3)),
    _forward("fd4", _joints_of(spatial_operators.fd4)),
    Algorithm("hybrid_dynamics", "articulated", (Q, QD, TAU, HELD, QDD, F_EXT), (QDD, FORCE),
              lambda m, o, q, qd, tau, held, qdd, f: hybrid_dynamics.hybrid_dynamics(
                  m, q, qd, tau, held, qdd, kinematics.body_wrenches(m, q, o.links, f, o.axes)),
              Mechanism.regrouped),
    Algorithm("link_accelerations", "fd4", (Q, QD, TAU, F_EXT), (ALPHA,),
              _links_of(spatial_operators.fd4), Mechanism.regrouped),
    Algorithm("link_accelerations", "fd2", (Q, QD, TAU, F_EXT), (ALPHA,),
              _links_of(spatial_operators.fd2), Mechanism.regrouped),
    Algorithm("mass_matrix", "composite", (Q,), (("M", ("n", "n")),),
              _of_state(matrices.mass_matrix), Mechanism.regrouped, power=2),
    Algorithm("factor_mass_matrix", "denoc", (Q,), (("U", ("n", "n")), ("D", ("n",))),
              _of_state(matrices.factor), Mechanism.regrouped, power=2),
    Algorithm("inverse_mass_matrix", "denoc", (Q,), (("Minv", ("n", "n")),),
              _of_state(matrices.inverse_mass_matrix), Mechanism.regrouped, power=3),
    Algorithm("inverse_mass_matrix", "columns", (Q,), (("Minv", ("n", "n")),),
              _of_state(matrices.inverse_by_columns), Mechanism.regrouped, power=2),
    Algorithm("coriolis_matrix", "points", (Q, QD), (("C", ("n", "n")),),
              _of_state(coriolis.coriolis_matrix), Mechanism.regrouped, power=2),
    Algorithm("inverse_dynamics_derivatives", "points", (Q, QD, QDD, F_EXT),
              (("dtau_dq", ("n", "n")), ("dtau_dqd", ("n", "n"))),
              lambda m, o, q, qd, qdd, f: dynamics_derivatives.inverse_dynamics_derivatives(
                  m, q, qd, qdd, o.links, f), Mechanism.regrouped, power=2,
              counted=FEW_FOR_COUNTING),
    Algorithm("forward_dynamics_derivatives", "composite", (Q, QD, TAU, F_EXT),
              tuple((f"dqdd_d{by}", ("n", "n")) for by in ("q", "qd", "tau")),
              lambda m, o, q, qd, tau, f: dynamics_derivatives.forward_dynamics_derivatives(
                  m, q, qd, tau, o.links, f), Mechanism.regrouped, power=3,
              counted=FEW_FOR_COUNTING, in_parts=True),
    Algorithm("regressor", "columns", (Q, QD, QDD), (("Y", ("n", "parameters")),),
              lambda m, o, q, qd, qdd: regressor.regressor(m, q, qd, qdd, o.links), power=2),
    Algorithm("momentum_regressor", "columns", (Q, QD), (("Y", ("n", "parameters")),),
              lambda m, o, q, qd: regressor.momentum_regressor(m, q, qd, o.links), power=2),
    Algorithm("energy_regressor", "columns", (Q, QD), (("Y", (2, "parameters")),),
              lambda m, o, q, qd: regressor.energy_regressor(m, q, qd, o.links)),
    Algorithm("solve", "denoc", (Q, TAU), (QDD,),
              _of_state(accelerations.solve), Mechanism.regrouped),
    Algorithm("pose", "recursive", (Q,), (("pose", (4, 4)),),
              lambda m, o, q: kinematics.pose(m, q, o.frame)),
    Algorithm("jacobian", "recursive", (Q,), (("J", (6, "n")),),
              lambda m, o, q: kinematics.jacobian(m, q, o.frame)),
    Algorithm("jacobian_dot_qd", "recursive", (Q, QD), (("a", (6,)),),
              lambda m, o, q, qd: kinematics.jacobian_dot_qd(m, q, qd, o.frame)),
    Algorithm("poses", "recursive", (Q,), (("poses", ("frames", 4, 4)),),
              lambda m, o, q: kinematics.poses(m, q, o.frames)),
    Algorithm("frame_velocity", "recursive", (Q, QD), (("v", (6,)),),
              lambda m, o, q, qd: kinematics.frame_velocity(m, q, qd, o.frame)),
    Algorithm("frame_acceleration", "recursive", (Q, QD, QDD), (("a", (6,)),),
              lambda m, o, q, qd, qdd: kinematics.frame_acceleration(m, q, qd, qdd, o.frame)),
    Algorithm("centroidal_momentum_matrix", "composite", (Q,), (("A", (6, "n")),),
              _of_state(centroidal.momentum_matrix)),
    Algorithm("centroidal_momentum_drift", "recursive", (Q, QD), (("hd", (6,)),),
              _of_state(centroidal.momentum_drift)),
    Algorithm("com_jacobian", "composite", (Q,), (("J", (3, "n")),),
              _of_state(centroidal.center_jacobian)),
    *(Algorithm(name, "propagation", (Q,), ((port, ("task", "task")),),
                lambda m, o, q, text=text: text(m, q, o.frames), Mechanism.regrouped)
      for name, (port, text) in OPERATIONAL.items()),
    Algorithm("kinetic_energy", "recursive", (Q, QD), (("T", ()),),
              _of_state(kinematics.kinetic_energy)),
    Algorithm("potential_energy", "recursive", (Q,), (("V", ()),),
              _of_state(kinematics.potential_energy)),
    Algorithm("center_of_mass", "recursive", (Q,), (("c", (3,)),),
              _of_state(kinematics.center_of_mass)),
    *_diagonal("nu", normalized=True),
    *_diagonal("xi", normalized=False),
)

G = ("g", ("rows",))
_CLOSED = (
    Algorithm(
        "forward_dynamics", "elimination", (Q, QD, TAU, F_EXT), (QDD,),
        lambda m, o, q, qd, tau, f: closed_chains.forward_dynamics(
            m, q, qd, tau, kinematics.body_wrenches(m, q, o.links, f, o.axes), o.stiffness,
            o.closeness),
        cycle_elimination.regrouped, counted=FEW_WITH_LOOPS),
    Algorithm(
        "forward_dynamics", "early", (Q, QD, TAU, F_EXT), (QDD,),
        _with_wrenches(partial(closed_chains.forward_dynamics, early=True)),
        partial(cycle_elimination.regrouped, early=True), counted=FEW_WITH_LOOPS,
        refuses=closed_chains.refuses_early, stand_in="elimination"),
    Algorithm(
        "hybrid_dynamics", "elimination", (Q, QD, TAU, HELD, QDD, F_EXT), (QDD, FORCE),
        lambda m, o, q, qd, tau, held, qdd, f: closed_chains.hybrid_dynamics(
            m, q, qd, tau, held, qdd, kinematics.body_wrenches(m, q, o.links, f, o.axes),
            o.stiffness, o.closeness)),
    Algorithm("closure_forces", "elimination", (Q, QD, TAU, F_EXT), (("f", ("closures", 6)),),
              _with_wrenches(closed_chains.closure_forces), cycle_elimination.regrouped),
    Algorithm("closure_error", "recursive", (Q,), (G,),
              lambda m, o, q: closures.closure_error(m, q, author=True)),
    Algorithm("closure_velocity", "recursive", (Q, QD), (G,),
              lambda m, o, q, qd: closures.closure_velocity(m, q, qd, author=True)),
    Algorithm("closure_acceleration", "recursive", (Q, QD), (G,),
              _of_state(closures.closure_acceleration)),
    Algorithm("closure_jacobian", "recursive", (Q,), (("J", ("rows", "n")),),
              _of_state(closures.closure_jacobian)),
    Algorithm("closure_rows", "recursive", (Q,), (("Q", ("rows", 6)),),
              _of_state(closures.closure_rows)),
    Algorithm("closure_rank", "elimination", (Q,), (("rank", ()),),
              _of_state(closed_chains.closure_rank), cycle_elimination.regrouped),
    Algorithm("project", "elimination", (Q, QD), (Q, QD, ("left", ())),
              _of_state(closed_chains.project), cycle_elimination.regrouped),
    Algorithm("hybrid_projection", "elimination", (Q, QD, HELD), (Q, QD, ("left", ())),
              _of_state(closed_chains.project)),
)


ALGORITHMS: dict[str, dict[str, Algorithm]] = {}
"""name -> formulation -> algorithm; the first is the default, see `rivals`."""
for _entry in _ENTRIES:
    ALGORITHMS.setdefault(_entry.name, {})[_entry.formulation] = _entry

CLOSED: dict[str, dict[str, Algorithm]] = {}
"""The same for mechanisms with loops: what of a tree's is not true of them, and more."""
for _entry in _CLOSED:
    CLOSED.setdefault(_entry.name, {})[_entry.formulation] = replace(
        _entry, cycles=True)


OF_TREES = ("link_accelerations", "forward_dynamics_derivatives", *OPERATIONAL, "quasi_motion",
            "unnormalized_quasi_motion")
"""How a tree answers to forces: not so with loops."""


INVERTING = ("forward_dynamics", "link_accelerations", "factor_mass_matrix", "inverse_mass_matrix",
             "solve", *OPERATIONAL, "quasi_velocities", "rates_from_quasi_velocities",
             "quasi_motion", "unnormalized_quasi_velocities",
             "rates_from_unnormalized_quasi_velocities", "unnormalized_quasi_motion",
             "closure_forces", "closure_rank", "project", "hybrid_projection")
"""What divides by pivots of M: nothing for mechanisms with joints that move no mass."""


def catalogue(*, loops: bool) -> dict[str, dict[str, Algorithm]]:
    """All that is computed of a mechanism with loops, or without."""
    if not loops:
        return ALGORITHMS
    return {name: entries for name, entries in ALGORITHMS.items() if name not in OF_TREES} | CLOSED


def entries(name: str, *, loops: bool = False) -> dict[str, Algorithm]:
    """The algorithms under a name, by formulation; `programs.products.formulations` knows products
    with derivatives, too."""
    known = catalogue(loops=loops)
    if name in CLOSED and name not in known:
        raise ValueError(f"{name}: of mechanisms with loops, and this one has none")
    if loops and name in OF_TREES:
        raise ValueError(f"{name}: of trees, and this mechanism has loops that change it; "
                         "`robot.tree` is the mechanism with its loops opened")
    if name not in known:
        raise ValueError(f"{name!r} is not computed here, expected one of {', '.join(known)}"
                         f"{did_you_mean(name, known)}")
    return known[name]


def choose(name: str, known: dict[str, Algorithm], formulation: str | None) -> Algorithm:
    """The named formulation, or the first."""
    if formulation is None:
        return next(iter(known.values()))
    if formulation not in known:
        raise ValueError(f"algorithm: {formulation!r} is no formulation of {name}, "
                         f"expected one of {', '.join(known)}{did_you_mean(formulation, known)}")
    return known[formulation]


def rivals(known: dict[str, Algorithm], joints: int,
           too_long: Callable[[Algorithm], bool]) -> list[Algorithm]:
    """The formulations among which the default is for so many joints: those that are counted,
    else the first; if its code is too long, the first whose cost grows least."""
    counted = [entry for entry in known.values() if joints <= entry.counted]
    if counted:
        return counted
    first, *others = known.values()
    least = min((first, *others), key=lambda entry: entry.power)
    return [least if least is not first and too_long(first) else first]
