"""Shooting problems by crocoddyl, in a Python of its own that need not have nlink.

    python crocoddyl_peer.py < problems.json > results.json

The mechanism is a URDF; the problems are those of `control_bench`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def solve(asked: dict[str, Any]) -> dict[str, Any]:
    """Costs, iterations and seconds of each problem, one after the other on one thread."""
    from importlib import import_module

    np: Any = import_module("numpy")
    pin: Any = import_module("pinocchio")
    crocoddyl: Any = import_module("crocoddyl")

    model = pin.buildModelFromXML(asked["urdf"], *(
        [pin.JointModelFreeFlyer()] if asked["floating"] else []))
    state = crocoddyl.StateMultibody(model)
    actuation = (crocoddyl.ActuationModelFloatingBase if asked["floating"] else
                 crocoddyl.ActuationModelFull)(state)
    nv, nu, weight, h = model.nv, actuation.nu, asked["weights"], asked["step"]

    def costs(goal: Any, x0: Any, to_goal: float, to_state: float, by_rate: float,
              to_force: float) -> Any:
        total = crocoddyl.CostModelSum(state, nu)
        frame = model.getFrameId(asked["frame"])
        total.addCost("goal", crocoddyl.CostModelResidual(
            state, crocoddyl.ResidualModelFrameTranslation(state, frame, goal, nu)), to_goal)
        activation = crocoddyl.ActivationModelWeightedQuad(
            np.concatenate([np.ones(nv), np.full(nv, by_rate)]))
        total.addCost("state", crocoddyl.CostModelResidual(
            state, activation, crocoddyl.ResidualModelState(state, x0, nu)), to_state)
        if to_force:
            total.addCost("force", crocoddyl.CostModelResidual(
                state, crocoddyl.ResidualModelControl(state, nu)), to_force)
        return total

    found: dict[str, Any] = {"cost": [], "iterations": [], "seconds": [], "solved": [],
                             "version": f"{crocoddyl.__version__}, pinocchio {pin.__version__}"}
    for q, goal, u in zip(asked["q0"], asked["goal"], asked["u0"], strict=True):
        q0 = np.array(q)
        x0 = np.concatenate([q0, np.zeros(nv)])
        running = crocoddyl.DifferentialActionModelFreeFwdDynamics(
            state, actuation, costs(np.array(goal), x0, weight["goal"], weight["state"], 1.0,
                                    weight["force"]))
        ending = crocoddyl.DifferentialActionModelFreeFwdDynamics(
            state, actuation, costs(np.array(goal), x0, weight["last_goal"],
                                    weight["last_state"], weight["last_rate"], 0.0))
        if asked["effort"] is not None:
            running.u_ub = np.array(asked["effort"])
            running.u_lb = -running.u_ub
        knot = crocoddyl.IntegratedActionModelEuler(running, h)
        if asked["effort"] is not None:
            knot.u_ub, knot.u_lb = running.u_ub, running.u_lb
        problem = crocoddyl.ShootingProblem(
            x0, [knot] * asked["knots"], crocoddyl.IntegratedActionModelEuler(ending, 0.0))
        problem.nthreads = 1
        us = [np.array(u)] * asked["knots"]
        xs = problem.rollout(us)
        solver = getattr(crocoddyl, asked["solver"])(problem)
        solver.th_stop = asked["tolerance"]
        best, done = 1e9, False
        for _ in range(asked["repeats"]):
            begin = time.thread_time()
            done = solver.solve(xs, us, asked["iterations"], False)
            best = min(best, time.thread_time() - begin)
        found["cost"].append(float(solver.cost))
        found["iterations"].append(int(solver.iter))
        found["seconds"].append(best)
        found["solved"].append(bool(done))
    return found


if __name__ == "__main__":
    json.dump(solve(json.load(sys.stdin)), sys.stdout)
