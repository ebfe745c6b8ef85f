"""Derivatives by the numbers of the mechanism itself: masses, lengths, friction, gravity.

Each number x of the mechanism becomes x + d with an input d, the graph is differentiated by the
d, and then they are zero: what remains is compiled for the robot as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nlink.engines.engines import Engine, Function, Request, run_program
from nlink.engines.kernels import kept
from nlink.model.changes import CHANGES
from nlink.programs.derivatives import bound, jacobian, vjp
from nlink.programs.products import WRENCHES
from nlink.programs.program import Port, Program
from nlink.programs.tracing import run, trace_function
from nlink.robot import Robot, expect_robot
from nlink.scalars.graph import Node

Nodes = Sequence[Node]


def parameter_derivatives(robot: Robot, name: str, args: Sequence[Any], by: str, *,
                          cotangent: Any = None, frame: int | str = -1,
                          algorithm: str | None = None, engine: Engine | None = None,
                          out: Any = None) -> Any:
    """The derivatives of what a robot computes by its own parameters.

    `by` says which, and determines the last dimensions of the result, after those of the
    computation:

    - "gravity", (3,): the components of `robot.gravity`;
    - "inertia", (links, 10): mass, first moments m c and moments of inertia (xx, yy, zz, xy, xz,
      yz) of each link about the origin of its frame, in its axes;
    - "placement", (joints, 6): a displacement of each moving joint, with all it carries, (turn,
      shift) about the origin and along the axes of the link that it is on;
    - "armature", "viscous", "coulomb", (n,): the numbers of each rate.

    With `cotangent`, w of the shape of the result, it is the gradient of w . f alone, by one
    reverse pass. `args` are the arrays of the computation, with f_ext last if given.

    >>> import nlink, numpy as np
    >>> robot, q = nlink.load("planar3"), np.array([0.1, 0.2, 0.3])
    >>> by_gravity = parameter_derivatives(robot, "gravity_torque", (q,), "gravity")
    >>> bool(np.allclose(by_gravity @ robot.gravity, robot.gravity_torque(q)))
    True
    """
    if by not in CHANGES:
        raise ValueError(f"by: {by!r}, expected one of {', '.join(CHANGES)}")
    args = tuple(args) if isinstance(args, tuple | list) else (args,)

    def make() -> Function:
        request = robot.request(name, algorithm=algorithm, frame=frame)
        if len(args) > len(request.ports[0]) and WRENCHES in dict(request.algorithm.inputs):
            request = replace(request, wrenches=True)
        return run_program(_program(robot, request, by, cotangent is not None), engine)

    function = kept(expect_robot(robot), (
        "parameter derivatives", name, by, cotangent is None, frame, algorithm, engine,
        len(args)), make)
    more = () if cotangent is None else (
        tuple(cotangent) if isinstance(cotangent, tuple | list) and len(
            robot.request(name, algorithm=algorithm, frame=frame).algorithm.outputs) > 1
        else (cotangent,))
    return function(*args, *more, out=out)


def _program(robot: Robot, request: Request, by: str, weighted: bool) -> Program:
    """The program of derivatives of a request, or of the gradient of its weighted results."""
    return bound((vjp if weighted else jacobian)(with_parameters(robot, request, [by]), [by]),
                 {by: 0.0})


def with_parameters(robot: Robot, request: Request, names: Sequence[str], *,
                    absolute: bool = False) -> Program:
    """The program of a request with parameters of the robot as further inputs: what is added to
    those that it has, or the values themselves (`absolute`)."""
    inputs, outputs = request.ports
    description, kinds = robot.description, [CHANGES[name] for name in names]
    present = [kind.values(description, request.mechanism).ravel().tolist() for kind in kinds]

    def changed(*columns: Nodes) -> list[Any]:
        mechanism = request.mechanism
        for kind, given, now in zip(kinds, columns[len(inputs):], present, strict=True):
            mechanism = kind.apply(description, mechanism, [
                x - old if old else x for x, old in zip(given, now, strict=True)]
                if absolute else given)
        mechanism = request.algorithm.prepare(mechanism)
        return run(request.algorithm, mechanism, request.options, columns[:len(inputs)])

    ports = (Port(name, kind.shape(description, request.mechanism))
             for name, kind in zip(names, kinds, strict=True))
    return trace_function(f"{request.algorithm.name}_by_{'_'.join(names)}", (*inputs, *ports),
                          outputs, changed)
