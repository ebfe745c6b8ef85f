"""The algorithms of a robot on any scalars: floats, or nodes of a graph that is being traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlink.programs.tracing import run
from nlink.scalars.functions import Scalar, Scalars

if TYPE_CHECKING:
    from nlink.compute.engines import Request
    from nlink.robot import Robot


def apply(robot: Robot, name: str, *columns: Scalars,
          algorithm: str | None = None, frame: int | str = -1) -> list[Scalar]:
    """An algorithm of a robot on any scalars: floats, or nodes inside a controller being traced.

    >>> import nlink
    >>> apply(nlink.load("planar3"), "gravity_torque", [0.0, 0.0, 0.0])
    [44.145, 19.62, 4.905]
    """
    return perform(robot.request(name, algorithm=algorithm, frame=frame), *columns)


def perform(request: Request, *columns: Scalars) -> list[Scalar]:
    """What a request asks for, on any scalars."""
    inputs, _ = request.ports
    if len(columns) != len(inputs):
        raise TypeError(f"{request.algorithm.name}: {len(columns)} arguments, expected "
                        f"{', '.join(port.name for port in inputs)}")
    for port, column in zip(inputs, columns, strict=True):
        if len(column) != port.size:
            raise ValueError(f"{port.name}: {len(column)} values, expected {port.size} "
                             f"for {request.algorithm.name}")
    mechanism = request.algorithm.prepare(request.mechanism)
    return run(request.algorithm, mechanism, request.options, columns)
