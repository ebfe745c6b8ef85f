"""Dry friction on floats: what an iteration calls about modes, around compiled hybrid dynamics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.compute.engines import kernel
from nlink.scalars.functions import Scalars
from nlink.simulation.dry_friction import Hybrid, without_dry_friction
from nlink.simulation.moded_states import IMPACTS, SWITCHES, impulse_response
from nlink.simulation.variation import varied_kernel

if TYPE_CHECKING:
    from nlink.simulation.problem import Problem
    from nlink.simulation.system import System

Array = np.ndarray
Control = Callable[[float, Array, Array, Any], tuple[Array, Array]]
"""Joint forces, and the rates of the parts of a state, from t, q, qd and these parts."""


def mode_programs(problem: Problem, system: System, control: Control, own: Array,
                  ) -> dict[str, Callable[..., Array]]:
    """`rates`, `advance`, `SWITCHES` and `IMPACTS` of one trajectory."""
    moded, robot, space = system.moded, problem.robot, problem.robot.mechanism.space
    hybrid = _hybrid(problem, own)
    mechanism = problem.varied.mechanism(robot, own.tolist())

    def driven(t: float, q: Array, v: Array, parts: Any) -> tuple[Scalars, Array]:
        tau, further = control(float(t), q, v, parts)
        return system.rubbed(mechanism, v, tau), further

    def rates(t: float, y: Array) -> Array:
        q, v, parts = system.layout.split(y)
        tau, further = driven(t, q, v, parts)
        qdd, holding = moded.modes.moving(hybrid, mechanism, q, v, tau, parts["mode"])
        velocity = v if space.flat else np.array(space.tangent(q, v))
        return np.concatenate([velocity, qdd, moded.with_holding(further.tolist(), holding)])

    def switched(name: str) -> Callable[..., Array]:
        def program(t: float, y: Array) -> Array:
            q, v, parts = system.layout.split(y)
            tau, _ = driven(t, q, v, parts)
            return np.array(moded.switched(name, hybrid, mechanism, y.tolist(), tau), float)

        return program

    def advance(t: float, y: Array, cells: Any) -> Array:
        q, v, parts = system.layout.split(y)
        tau, further = driven(t, q, v, parts)
        return np.array(moded.advanced(hybrid, mechanism, y.tolist(), tau, further.tolist(),
                                       float(cells[0])), float)

    responds = impulse_response(robot, mechanism)

    def struck(name: str) -> Callable[..., Array]:
        return lambda t, y: np.array(moded.struck(name, responds, y.tolist()), float)

    return ({"rates": rates} | {name: switched(name) for name in SWITCHES}
            | {name: struck(name) for name in IMPACTS} | {"advance": advance})


def _hybrid(problem: Problem, own: Array) -> Hybrid:
    robot, n = problem.robot, problem.robot.n
    request = robot.request("hybrid_dynamics")
    if problem.varied.mechanical:
        loaded = varied_kernel(robot, problem.varied, request, without_dry_friction)
        compute = lambda *columns: loaded(*columns, own)  # noqa: E731
    else:
        compute = kernel(replace(request, mechanism=without_dry_friction(robot.mechanism)))

    def hybrid(*columns: Scalars) -> tuple[Scalars, Scalars]:
        qdd, force = compute(*(np.array(x, dtype=float) for x in columns))
        return qdd.tolist()[:n], force.tolist()

    return hybrid
