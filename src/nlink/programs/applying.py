"""The algorithms of a robot on any scalars: floats, or nodes of a graph that is being traced.

Methods of a robot come here when they are given scalars that are no numbers, such as the traced
values inside a controller: the algorithm runs on them as it is written (`compute_scalars`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.algorithms.matrices import Factors
from nlink.programs.program import Port
from nlink.programs.tracing import run
from nlink.scalars.arrays import foreign
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Node

if TYPE_CHECKING:
    from nlink.engines.engines import Request
    from nlink.robot import Robot

Array = np.ndarray


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


def compute_scalars(request: Request, arrays: Sequence[Any], out: Any) -> Any:
    """What a method of a robot gives for arrays of any scalars: arrays of such scalars, of the
    documented shapes.

    The arrays are those of one state, or of a batch that has one; numbers and scalars may be mixed.
    """
    inputs, outputs = request.ports
    if len(arrays) != len(inputs):
        names = ", ".join(port.name for port in inputs)
        raise TypeError(f"{len(arrays)} arrays given, expected {len(inputs)} ({names})")
    if out is not None:
        raise ValueError("out: an array, but other arguments are traced values, expected None: "
                         "there are no numbers to write yet")
    return on_scalars(inputs, outputs, arrays, lambda *columns: perform(request, *columns))


def on_scalars(inputs: Sequence[Port], outputs: Sequence[Port], arrays: Sequence[Any],
               function: Callable[..., Sequence[Scalar]]) -> Any:
    """A function of flat columns of scalars, which gives the elements of all outputs, on arrays
    of one state; the array of the only output, or a tuple of all."""
    lead, columns = (), list[list[Scalar]]()
    for port, x in zip(inputs, arrays, strict=True):
        own, column = _column(port, x)
        lead = max(lead, own, key=len)
        columns.append(column)
    graph = next((x.graph for column in columns for x in column if isinstance(x, Node)), None)
    values, results, at = function(*columns), list[Any](), 0
    for port in outputs:
        result = np.empty(port.size, dtype=object)
        result[:] = [x if graph is None or not isinstance(x, int | float | Node) else graph.lift(x)
                     for x in values[at:at + port.size]]
        results.append(result.reshape(lead + port.shape)[()])
        at += port.size
    return results[0] if len(results) == 1 else tuple(results)


def _column(port: Port, given: Any) -> tuple[tuple[int, ...], list[Scalar]]:
    """The leading shape of an array, and the scalars of its one state."""
    x = np.asarray(given, dtype=object)
    if not (foreign(x) or np.can_cast(np.asarray(given).dtype, np.float64, "safe")):
        raise TypeError(f"{port.name}: dtype {np.asarray(given).dtype} does not convert to float64 "
                        "safely")
    lead = x.shape[:x.ndim - len(port.shape)]
    expected = ", ".join(map(str, port.shape)) + "," * (len(port.shape) == 1)
    if x.shape[len(lead):] != port.shape or x.ndim < len(port.shape):
        raise ValueError(f"{port.name}: shape {x.shape}, expected ({expected})")
    if math.prod(lead) != 1:
        raise ValueError(f"{port.name}: shape {x.shape} beside traced values, expected "
                         f"({expected}): they are those of one state")
    return lead, [_plain(e) for e in x.ravel()]


def solve(A: Any, b: Any) -> Any:
    """x with A x = b, for a symmetric positive definite A (n, n) such as a mass matrix, and b (n,)
    or (n, k); on numbers, and on traced values inside a controller.

    A is factored into L D L^T without pivoting, which is stable for such matrices; only what is
    on and above the diagonal is read. Other matrices are not refused: whether A is definite is
    not known when a controller is traced.

    >>> import nlink
    >>> robot, q = nlink.load("double_pendulum"), [0.3, 0.2]
    >>> qdd = nlink.solve(robot.mass_matrix(q), [1.0, -1.0])
    >>> bool(abs(qdd - robot.solve(q, [1.0, -1.0])).max() < 1e-12)
    True
    """
    matrix, right = (np.asarray(x, dtype=object) for x in (A, b))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A: shape {matrix.shape}, expected (n, n)")
    if right.ndim not in (1, 2) or len(right) != len(matrix):
        raise ValueError(f"b: shape {right.shape}, expected ({len(matrix)},) or "
                         f"({len(matrix)}, k)")
    for name, given, array in (("A", A, matrix), ("b", b, right)):
        if not (foreign(array) or np.can_cast(np.asarray(given).dtype, np.float64, "safe")):
            raise TypeError(f"{name}: dtype {np.asarray(given).dtype} does not convert to float64 "
                            "safely")
    factors = Factors.of([[_plain(x) for x in row] for row in matrix])
    columns = right.reshape(len(right), -1).T
    x = np.empty(columns.shape, dtype=object)
    for row, column in zip(x, columns, strict=True):
        row[:] = factors.solve([_plain(e) for e in column])
    result = x.T.reshape(right.shape)
    return result if foreign(result) else result.astype(float)


def _plain(x: Scalar) -> Scalar:
    """A number of Python for one of NumPy."""
    return x.item() if isinstance(x, np.generic) else x
