"""Computations that are composed of others, where one program for all would be too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nlink.engines.engines import Function, Request
from nlink.programs.calling import Flat, call

STATES = 32
"""So many at once: their matrices stay in the processor's cache."""


def forward_derivatives(request: Request, make: Callable[[str], Function]) -> Function:
    """dqdd/dq, dqdd/dqd and dqdd/dtau of many joints: the matrices of inverse dynamics and M^-1
    by kernels of their own, and their products by NumPy.

    One program would hold every product of O(n^3); these are O(n^2), and rolled for long chains.
    `make(name)` gives the function of a computation.
    """
    inputs, outputs = request.ports
    accelerate, derive, invert = (make(name) for name in (
        "forward_dynamics", "inverse_dynamics_derivatives", "inverse_mass_matrix"))
    shapes = [port.shape for port in inputs]

    def compute_part(given: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        q, qd, tau, *wrenches = given
        by_q, by_qd, by_tau = results
        qdd = accelerate(q, qd, tau, *wrenches)
        forces = derive(q, qd, qdd, *wrenches)
        by_tau[...] = invert(q)
        negative = -by_tau
        for force, result in zip(forces, (by_q, by_qd), strict=True):
            np.matmul(negative, force, out=result)

    def compute(flat_inputs: Flat, flat_outputs: Flat, count: int) -> None:
        given = [x.reshape(count, *shape) for x, shape in zip(flat_inputs, shapes, strict=True)]
        results = [x.reshape(count, *port.shape)
                   for x, port in zip(flat_outputs, outputs, strict=True)]
        for first in range(0, count, STATES):
            part = slice(first, first + STATES)
            compute_part([x[part] for x in given], [x[part] for x in results])

    return lambda *arrays, out=None: call(inputs, outputs, arrays, out, compute)
