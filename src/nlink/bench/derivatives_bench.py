"""Derivatives of the dynamics, beside those of peers, and what compiling them costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from nlink.backends.llvm.threads import threads
from nlink.bench.casadi_peer import bench_casadi
from nlink.bench.timing import Bench, adder, best, best_call, caller
from nlink.engines.complexity import count
from nlink.engines.engines import kernel
from nlink.formats.bridges import Order, pinocchio_order
from nlink.formats.exchange import Exchange
from nlink.formats.mjcf_writer import to_mjcf
from nlink.model.description import Description
from nlink.robot import Robot
from nlink.simulation.linearization import linearize

DERIVATIVES = (
    ("inverse_dynamics_derivatives", ("q", "qd", "qdd")),
    ("forward_dynamics_derivatives", ("q", "qd", "tau")),
)

PARTS = ("forward_dynamics", "inverse_dynamics_derivatives", "inverse_mass_matrix")
"""What derivatives of forward dynamics are computed by, where one program would be too long."""

STEP = 1e-3
"""Seconds, of the step that is linearised."""
DIFFERENCES = {"MuJoCo, centred differences": True, "MuJoCo, one-sided differences": False}
"""How `mjd_transitionFD` can be asked to do it."""


def bench_derivatives(bench: Bench, robot: Robot, states: dict[str, np.ndarray], model: Any,
                      seconds: float) -> None:
    """A batch, Pinocchio's call (if there is a model), CasADi's batch, and a compilation without
    the cache."""
    from nlink.backends.llvm.translate import compile_program

    order = pinocchio_order(robot.description)
    for what, names in DERIVATIVES:
        add = adder(bench, robot.name, what)
        request = robot.request(what)
        bench.operations[f"{robot.name} {what}"] = count(robot, what).total
        inputs = [states[name] for name in names]
        size = len(inputs[0])
        parts = PARTS if request.too_long else (what,)
        begin = time.perf_counter()
        for part in parts:
            compile_program(robot.request(part).program())
        add("cold compilation", time.perf_counter() - begin)
        outs = [np.empty((size, *port.shape)) for port in request.ports[1]]
        if len(parts) == 1:
            run = partial(kernel(request).run, inputs, [x.reshape(size, -1) for x in outs], size, 1)
        else:
            run = partial(getattr(robot, what), *inputs, out=tuple(outs))
        before = threads()
        threads(1)
        add("nlink batch", best(run, seconds) / size)
        threads(before)
        if model is not None:
            _pinocchio(add, model, what, _swapped(order, names, inputs), seconds)
        bench_casadi(bench, robot, what, inputs, seconds)


def _swapped(order: Order, names: Sequence[str], inputs: list[np.ndarray],
             ) -> list[np.ndarray]:
    """The same states in Pinocchio's order."""
    return [np.ascontiguousarray(x[:64, order.coordinates if name == "q" else order.rates])
            for name, x in zip(names, inputs, strict=True)]


def _pinocchio(add: Any, model: Any, what: str, inputs: list[np.ndarray], seconds: float) -> None:
    pin: Any = import_module("pinocchio")
    function = {"inverse_dynamics_derivatives": pin.computeRNEADerivatives,
                "forward_dynamics_derivatives": pin.computeABADerivatives}[what]
    data = model.createData()
    few = [[model, data, *(x[k].copy() for x in inputs)] for k in range(len(inputs[0]))]
    add("Pinocchio call", best_call(caller(function, few), len(few), seconds))


def bench_linearized_step(bench: Bench, robot: Robot, states: dict[str, np.ndarray],
                          seconds: float) -> None:
    """A and B of one semi-implicit step: a batch of ours, and MuJoCo's by differences of steps."""
    add = adder(bench, robot.name, "linearize")
    q, qd, tau = states["q"], states["qd"], states["tau"]
    run = partial(linearize, robot, q, qd, tau, step=STEP)
    before = threads()
    threads(1)
    add("nlink batch", best(partial(run, out=run()), seconds) / len(q))
    threads(before)
    if "mujoco" not in bench.missing:
        for method, centred in DIFFERENCES.items():
            step = mujoco_step(robot.description, q[:16], qd[:16], tau[:16], centred=centred)
            add(method, best_call(step, 16, seconds))


def mujoco_step(description: Description, q: np.ndarray, qd: np.ndarray, tau: np.ndarray, *,
                centred: bool) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """A and B of MuJoCo's Euler step at the k-th state, in its order, by `mjd_transitionFD`.

    Contacts are off, links without joints are merged with what they are fixed to, and every rate
    has a motor, so that B is that of all joint forces.
    """
    mujoco: Any = import_module("mujoco")
    spec = mujoco.MjSpec.from_string(to_mjcf(description))
    spec.compiler.fusestatic = True
    for joint in spec.joints:
        rates = {mujoco.mjtJoint.mjJNT_FREE: 6, mujoco.mjtJoint.mjJNT_BALL: 3}.get(joint.type, 1)
        for gear in np.eye(6)[:rates]:
            spec.add_actuator(target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT, gear=gear)
    model = spec.compile()
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_EULER, STEP
    data, exchange = mujoco.MjData(model), Exchange.mujoco(description)
    there = exchange.q(q), exchange.v(q, qd), exchange.tau(q, tau)
    A, B = np.empty((2 * model.nv, 2 * model.nv)), np.empty((2 * model.nv, model.nu))

    def step(k: int) -> tuple[np.ndarray, np.ndarray]:
        data.qpos[:], data.qvel[:], data.ctrl[:] = (x[k] for x in there)
        mujoco.mjd_transitionFD(model, data, 1e-6, centred, A, B, None, None)
        return A, B

    return step
