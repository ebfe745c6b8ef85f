"""Derivatives of the dynamics, beside Pinocchio's, and what compiling them costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from nlink.backends.llvm.threads import threads
from nlink.bench.timing import Bench, adder, best, best_call, caller
from nlink.compute.complexity import count
from nlink.compute.engines import kernel
from nlink.formats.bridges import Order, pinocchio_order
from nlink.robot import Robot

DERIVATIVES = (
    ("inverse_dynamics_derivatives", ("q", "qd", "qdd")),
    ("forward_dynamics_derivatives", ("q", "qd", "tau")),
)

PARTS = ("forward_dynamics", "inverse_dynamics_derivatives", "inverse_mass_matrix")
"""What derivatives of forward dynamics are computed by, where one program would be too long."""


def bench_derivatives(bench: Bench, robot: Robot, states: dict[str, np.ndarray], model: Any,
                      seconds: float) -> None:
    """A batch, Pinocchio's call (if there is a model), and a compilation without the cache."""
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
