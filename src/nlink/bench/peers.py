"""The peers of `nlink bench`: what Pinocchio and MuJoCo take for the same states."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from nlink.bench.timing import best, best_call, caller
from nlink.formats.mjcf_writer import to_mjcf
from nlink.model.description import Description


def bench_pinocchio(add: Callable[[str, float], None], model: Any, what: str,
                     inputs: list[np.ndarray], seconds: float) -> None:
    pin: Any = import_module("pinocchio")
    data = model.createData()
    function = {
        "inverse_dynamics": pin.rnea, "forward_dynamics": pin.aba, "mass_matrix": pin.crba,
        "inverse_mass_matrix": pin.computeMinverse,
        "coriolis_matrix": pin.computeCoriolisMatrix,
        "regressor": pin.computeJointTorqueRegressor}[what]
    few = [[model, data, *(x[k].copy() for x in inputs)] for k in range(64)]
    add("Pinocchio call", best_call(caller(function, few), len(few), seconds))
    parallel = {"inverse_dynamics": pin.rneaInParallel, "forward_dynamics": pin.abaInParallel}
    if what in parallel:
        columns = [np.asfortranarray(x.T) for x in inputs]
        out = np.empty_like(columns[-1])
        for threads in (1, 2):
            pool = pin.ModelPool(model, threads)
            add(f"Pinocchio C++ batch, {threads} thread{'s' * (threads > 1)}",
                best(lambda p=pool, t=threads: parallel[what](t, p, *columns, out), seconds)
                / len(inputs[0]))


def bench_mujoco(add: Callable[[str, float], None], description: Description, what: str,
                  states: dict[str, np.ndarray], seconds: float) -> None:
    mujoco: Any = import_module("mujoco")
    model = mujoco.MjModel.from_xml_string(to_mjcf(description))
    data = mujoco.MjData(model)
    solve = mujoco.mj_inverse if what == "inverse_dynamics" else mujoco.mj_forward

    def call(k: int) -> None:
        data.qpos[:], data.qvel[:] = states["q"][k], states["qd"][k]
        if what == "inverse_dynamics":
            data.qacc[:] = states["qdd"][k]
        else:
            data.qfrc_applied[:] = states["tau"][k]
        solve(model, data)

    add("MuJoCo call", best_call(call, 64, seconds))


def bench_mobility(add: Callable[[str, float], None], model: Any, q: np.ndarray,
                    seconds: float) -> None:
    """J M^-1 J^T of one frame as Pinocchio offers it: Jacobian, M^-1 and two products."""
    pin: Any = import_module("pinocchio")
    data, frame = model.createData(), len(model.frames) - 1

    def call(k: int) -> None:
        inverse = pin.computeMinverse(model, data, q[k])
        J = pin.computeFrameJacobian(model, data, q[k], frame, pin.LOCAL_WORLD_ALIGNED)
        np.linalg.multi_dot((J, inverse, J.T))

    add("Pinocchio call", best_call(call, 64, seconds))
