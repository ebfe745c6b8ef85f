"""Forward dynamics of mechanisms with loops, beside Pinocchio's constraintDynamics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.bench.peers import bench_pinocchio
from nlink.bench.timing import Bench, adder, best, best_call, caller
from nlink.engines.engines import kernel
from nlink.formats.bridges import pinocchio_order, to_pinocchio
from nlink.model.constraints import Ball, Rigid
from nlink.robot import Robot, load

if TYPE_CHECKING:
    from nlink.model.description import Frame

LOOPED = ("two_arms_box", "stewart")
BATCH = 1024


def pinocchio_constraints(robot: Robot, model: Any) -> list[Any]:
    """The loops as Pinocchio's rigid constraints; only balls and rigid ones have an equal."""
    pin: Any = import_module("pinocchio")
    kinds = {Rigid: pin.ContactType.CONTACT_6D, Ball: pin.ContactType.CONTACT_3D}

    def place(end: Frame) -> tuple[int, Any]:
        own = pin.SE3(end.pose.R, np.array(end.pose.p))
        if end.link == 0:
            return 0, own
        frame = model.frames[model.getFrameId(robot.links[end.link - 1].name)]
        return frame.parentJoint, frame.placement * own

    constraints = []
    for loop in robot.description.loops:
        if type(loop.constraint) not in kinds:
            raise ValueError(f"loop {loop.name!r}: Pinocchio has no {loop.constraint.name} loops")
        (one, first), (two, second) = place(loop.of), place(loop.on)
        constraints.append(pin.RigidConstraintModel(
            kinds[type(loop.constraint)], model, one, first, two, second,
            pin.ReferenceFrame.LOCAL))
    return constraints


def pinocchio_dynamics(robot: Robot, model: Any) -> Callable[..., np.ndarray]:
    """qdd of Pinocchio's constraintDynamics as a function of its own q, v and tau."""
    pin: Any = import_module("pinocchio")
    constraints, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for each in pinocchio_constraints(robot, model):
        constraints.append(each)
        datas.append(each.createData())
    data = model.createData()
    pin.initConstraintDynamics(model, data, constraints, datas)
    # one exact solve, without proximal iterations
    settings = pin.ProximalSettings(1e-12, 0.0, 1)
    return lambda q, v, tau: pin.constraintDynamics(
        model, data, q, v, tau, constraints, datas, settings)


def bench_loops(bench: Bench, seconds: float, progress: Callable[[str], None]) -> None:
    """One batch of closed states for each mechanism, and Pinocchio on the same."""
    for name in LOOPED:
        progress(name)
        robot = load(name)
        rng = np.random.default_rng(0)
        few, rates = robot.random_state(rng, (64,))
        q, qd = (np.resize(x, (BATCH, x.shape[1])) for x in (few, rates))
        tau = rng.normal(size=qd.shape)
        add = adder(bench, name, "forward_dynamics")
        for algorithm in ("elimination", "early"):
            code = kernel(robot.request("forward_dynamics", algorithm=algorithm))
            out = [np.empty((BATCH, robot.n))]
            add(algorithm, best(partial(code.run, [q, qd, tau], out, BATCH, 1), seconds) / BATCH)
        if "pin" in bench.missing:
            continue
        model, order = to_pinocchio(robot.tree.description), pinocchio_order(robot.description)
        x, v, u = (np.ascontiguousarray(a[:, which]) for a, which in (
            (q, order.coordinates), (qd, order.rates), (tau, order.rates)))
        call = pinocchio_dynamics(robot, model)
        add("Pinocchio call", best_call(caller(call, [[x[k], v[k], u[k]] for k in range(64)]),
                                        64, seconds))
        # what Python's part of a call costs, from a function that has both
        bench_pinocchio(adder(bench, name, "inverse_dynamics"), model, "inverse_dynamics",
                         [x, v, u], seconds)
