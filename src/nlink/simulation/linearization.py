"""Linear models of a robot around a state: of its motion, or of one step of a method.

The state is x = (q, qd), the input u = tau, and small changes of q are rates in the tangent space
at q: dx and du obey

    dx' = A dx + B du,      or      dx(t + h) = A dx(t) + B du

for one step of size h with tau held. Where coordinates are the integrals of rates, the upper half
of the continuous A is (0, 1). Elsewhere axes turn: with q' = T(q) qd and dq = T(q) d,

    T' d + T d' = (dT) qd + T dqd,      so      d' = dqd + T^+ ((dT) qd - T' d),

for a quaternion d' = dqd - qd x d.

A step of semi-implicit Euler is one compiled program around the derivatives of forward dynamics.
Steps of other methods are their own text on columns that carry their derivatives; what the text
calls, the rates, are called with the rates of their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from nlink.backends.llvm.threads import MAKING
from nlink.iterations.integration import OneStep, Trial
from nlink.iterations.methods import METHODS
from nlink.iterations.text import State
from nlink.model.spaces import Space
from nlink.programs.calling import call
from nlink.programs.program import Port, Program
from nlink.robot import Robot, expect_robot
from nlink.scalars.arrays import batch
from nlink.scalars.differentiation import pushforward
from nlink.scalars.graph import Graph, Node
from nlink.scalars.primitives import Primitive
from nlink.scalars.traversal import substitute
from nlink.simulation.applying import apply

Array = np.ndarray
Nodes = Sequence[Node]
Rows = list[list[Any]]


def linearize(robot: Robot, q: ArrayLike, qd: ArrayLike, tau: ArrayLike, step: float | None = None,
              method: str | None = None, *, out: tuple[Array, Array] | None = None,
              ) -> tuple[Array, Array]:
    """A, (..., 2n, 2n), and B, (..., 2n, n), of the motion around a state, or of one step.

    Without `step` they are those of dx/dt; with it, those of the state after a step of that size by
    a one-step method of `nlink.simulate` ("semi_implicit" if not given, "rk4", "dopri5", ...) with
    tau held.
    Changes of q are in the tangent space, at q before the step and at the new q after it. For a
    mechanism with loops it is the step before its projection onto closed states. A and B
    are written to `out` if given: for large batches, new memory costs as much as the matrices.

    >>> import nlink, numpy as np
    >>> A, B = linearize(nlink.load("double_pendulum"), [-np.pi / 2, 0], [0, 0], [0, 0])
    >>> abs(np.linalg.eigvals(A)).round(3)  # radians per second
    array([5.785, 5.785, 2.397, 2.397])
    """
    n = expect_robot(robot).n
    if len(robot.mechanism.joints) > MOST_JOINTS:
        raise ValueError(f"robot: {len(robot.mechanism.joints)} joints, expected at most "
                         f"{MOST_JOINTS} for matrices; nlink.jvp gives products with them")
    given = (batch("q", q, (robot.nq,)), batch("qd", qd, (n,)), batch("tau", tau, (n,)))
    if step is None:
        if method is not None:
            raise ValueError(f"step: None, expected the size of the step of method={method!r:.80}")
        return _kernel(robot, "motion", _motion)(*given, out=out)
    h = batch("step", step, ())
    if h.ndim or not (np.isfinite(h) and h > 0):
        raise ValueError(f"step: {step!r:.80}, expected a number > 0")
    known = {name: each for name, each in METHODS.items()
             if isinstance(each, OneStep) and not (each.canonical or each.solves)
             and each.compiles}
    method = "semi_implicit" if method is None else method
    if method not in known:
        raise ValueError(f"method: {method!r}, expected one of {', '.join(known)}")
    # a robot without joints makes the same step, none, by all methods
    if (method == "semi_implicit" and not robot.mechanism.closures) or not n:
        return _kernel(robot, "semi_implicit", _semi_implicit)(*given, h, out=out)

    def compute(inputs: Sequence[Array], outputs: Sequence[Array], _count: int) -> None:
        for result, found in zip(outputs, _step(robot, known[method], *inputs, h=float(h)),
                                 strict=True):
            result[:] = found.reshape(result.shape)

    return call(_ports(robot), _matrices(n), given, out, compute)


MOST_JOINTS = 64
"""Beyond, programs of matrices are too long to be compiled."""
_KERNELS: WeakKeyDictionary[Robot, dict[str, Any]] = WeakKeyDictionary()


def _kernel(robot: Robot, name: str, program: Callable[[Robot], Program]) -> Any:
    """The kernel of a program of a robot, made once."""
    with MAKING:
        known = _KERNELS.setdefault(robot, {})
        if name not in known:
            from nlink.backends.llvm.loading import load_kernel

            known[name] = load_kernel(program(robot))
        return known[name]


def _ports(robot: Robot) -> tuple[Port, ...]:
    return Port("q", (robot.nq,)), Port("qd", (robot.n,)), Port("tau", (robot.n,))


def _matrices(n: int) -> tuple[Port, Port]:
    return Port("A", (2 * n, 2 * n)), Port("B", (2 * n, n))


def _inputs(graph: Graph, ports: Sequence[Port]) -> list[list[Node]]:
    return [[graph.input(f"{port.name}[{k}]") for k in range(port.size)] for port in ports]


def _result(name: str, graph: Graph, inputs: tuple[Port, ...], n: int, A: Rows, B: Rows) -> Program:
    return Program(name, inputs, _matrices(n), tuple(
        graph.lift(x) for matrix in (A, B) for row in matrix for x in row))


def _motion(robot: Robot) -> Program:
    """A and B of dx/dt."""
    graph, n, ports = Graph(), robot.n, _ports(robot)
    q, qd, tau = _inputs(graph, ports)
    by_q, by_qd, by_tau = _accelerations(robot, q, qd, tau)
    turning = _turning(robot.mechanism.space, graph, q, qd)
    A = [[*row, *unit] for row, unit in zip(turning, _unit(n), strict=True)]
    A += [[*a, *b] for a, b in zip(by_q, by_qd, strict=True)]
    return _result("linearize", graph, ports, n, A, [[0.0] * n] * n + by_tau)


def _accelerations(robot: Robot, q: Nodes, qd: Nodes, tau: Nodes) -> list[Rows]:
    """The derivatives of forward dynamics by q, qd and tau."""
    n = robot.n
    flat = apply(robot, "forward_dynamics_derivatives", q, qd, tau)
    return [[flat[k * n * n + i * n:k * n * n + (i + 1) * n] for i in range(n)] for k in range(3)]


def _turning(space: Space, graph: Graph, q: Nodes, qd: Nodes) -> Rows:
    """T^+ ((dT) qd - T' d) for units of d, as columns of a matrix."""
    if space.flat:
        return [[0.0] * space.nv for _ in range(space.nv)]
    forward = _lifted(graph, space.tangent(q, qd))
    columns = []
    for unit in _unit(space.nv):
        d = _lifted(graph, space.tangent(q, [graph.const(x) for x in unit]))
        one = pushforward(forward, dict(zip(q, d, strict=True)))
        other = pushforward(d, dict(zip(q, forward, strict=True)))
        columns.append(space.rates(q, [a - b for a, b in zip(one, other, strict=True)]))
    return [list(row) for row in zip(*columns, strict=True)]


def _semi_implicit(robot: Robot) -> Program:
    """A and B of v' = qd + h qdd, q' = normalize(q + h T(q) v')."""
    graph, n, space = Graph(), robot.n, robot.mechanism.space
    ports = (*_ports(robot), Port("h", ()))
    q, qd, tau, (h,) = _inputs(graph, ports)
    by_q, by_qd, by_tau = _accelerations(robot, q, qd, tau)
    # qdd = M^-1 (tau - ID(q, qd, 0)), of which all but this product is part of the derivatives
    at_rest = apply(robot, "inverse_dynamics", q, qd, [0] * n)
    forces = [[t - c] for t, c in zip(tau, _lifted(graph, at_rest), strict=True)]
    faster = [v + h * a for v, (a,) in zip(qd, _times(
        [_lifted(graph, row) for row in by_tau], forces), strict=True)]
    # how q' changes with q and with v', joint by joint; v' is an input until it is known
    v = [graph.input(("v", k)) for k in range(n)]
    moved = _lifted(graph, space.normalize([x + h * r for x, r in zip(
        q, space.tangent(q, v), strict=True)]))

    def columns(change: Callable[[list[Node]], dict[Node, Node]]) -> Rows:
        found = [space.rates(moved, pushforward(moved, change([graph.const(x) for x in unit])))
                 for unit in _unit(n)]
        known = {x.index: value for x, value in zip(v, faster, strict=True)}
        flat = iter(substitute(_lifted(graph, [x for column in found for x in column]), graph,
                               known))
        return [list(row) for row in zip(*([next(flat) for _ in range(n)] for _ in found),
                                         strict=True)]

    with_q = columns(lambda unit: dict(zip(q, _lifted(graph, space.tangent(q, unit)), strict=True)))
    with_v = columns(lambda unit: dict(zip(v, unit, strict=True)))
    lower_q, lower_u = ([[h * x for x in row] for row in rows] for rows in (by_q, by_tau))
    lower_v = [[float(i == j) + h * x for j, x in enumerate(row)] for i, row in enumerate(by_qd)]
    upper_q = [[a + b for a, b in zip(*rows, strict=True)]
               for rows in zip(with_q, _times(with_v, lower_q), strict=True)]
    A = [[*a, *b] for a, b in zip(upper_q + lower_q, _times(with_v, lower_v) + lower_v,
                                  strict=True)]
    return _result("semi_implicit_step", graph, ports, n, A, _times(with_v, lower_u) + lower_u)


def _times(left: Rows, right: Rows) -> Rows:
    """A product of matrices, the zeros of the left one left out."""
    return [[sum((x * right[k][j] for k, x in enumerate(row)
                  if not (x.op == "const" and x.value == 0)), 0.0)
             for j in range(len(right[0]))] for row in left]


def _unit(n: int) -> list[list[float]]:
    return [[float(i == j) for j in range(n)] for i in range(n)]


def _lifted(graph: Graph, values: Sequence[Any]) -> list[Node]:
    return [graph.lift(x) for x in values]


class Varying:
    """A column with its derivatives: values (..., N), and for each of them (..., N, P).

    It has what the texts of methods do with columns. Where a text looks at sizes (errors,
    tolerances) it sees the values; a comparison is a column of truths.
    """

    __array_ufunc__ = None

    def __init__(self, value: Array, slope: Array) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: Any) -> Varying:
        if isinstance(other, Varying):
            return Varying(self.value + other.value, self.slope + other.slope)
        return Varying(self.value + other, self.slope)

    def __mul__(self, other: Any) -> Varying:
        if isinstance(other, Varying):
            return Varying(self.value * other.value, self.slope * other.value[..., None]
                           + other.slope * self.value[..., None])
        return Varying(self.value * other, self.slope * _beside_slopes(other))

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Varying:
        return self + other * -1.0

    def __truediv__(self, other: Any) -> Varying:
        return self * (1.0 / other)

    def __abs__(self) -> Array:
        return abs(self.value)

    def sum(self, **_: Any) -> Any:
        return self.value.sum()

    def apply_primitive(self, row: Primitive, *arguments: Any) -> Any:
        values, slopes = zip(*((x.value, x.slope) if isinstance(x, Varying) else (x, 0.0)
                               for x in arguments), strict=True)
        if row.name == "where":
            return Varying(np.where(*values), np.where(np.asarray(values[0])[..., None],
                                                       *slopes[1:]))
        found = row.arrays(*values)
        return Varying(found, np.zeros(1)) if row.is_truth else found


def _beside_slopes(factor: Any) -> Any:
    return factor if np.ndim(factor) == 0 else np.asarray(factor)[..., None]


def _step(robot: Robot, method: Any, q: Array, qd: Array, tau: Array, h: float,
          ) -> tuple[Array, Array]:
    """A and B of one step, by the method's text on columns that carry their derivatives."""
    n, nq, space = robot.n, robot.nq, robot.mechanism.space
    lead = np.broadcast_shapes(q.shape[:-1], qd.shape[:-1], tau.shape[:-1])
    y = np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in (q, qd)], axis=-1)
    tau = np.broadcast_to(tau, (*lead, n))
    programs = {name: _kernel(robot, name, make) for name, make in (
        ("rates", _rates), ("rates_jvp", lambda robot: _pushed(_rates(robot))),
        ("restore", _restore), ("restore_jvp", lambda robot: _pushed(_restore(robot))))
        if not (space.flat and name.startswith("restore"))}
    slope = np.zeros((*lead, nq + n, 3 * n))
    slope[..., :nq, :n] = _columns(space.tangent, q, np.eye(n), lead)
    slope[..., nq:, n:2 * n] = np.eye(n)
    du = np.concatenate([np.zeros((n, 2 * n)), np.eye(n)], axis=1)

    def called(name: str, y: Varying) -> Varying:
        """A program, and its derivative along each column of the slope."""
        change = programs[f"{name}_jvp"](
            y.value[..., None, :], tau[..., None, :], np.swapaxes(y.slope, -1, -2), du.T)
        return Varying(programs[name](y.value, tau), np.swapaxes(change, -1, -2))

    start = Varying(y, slope)
    given = SimpleNamespace(
        rates=lambda t, y: called("rates", y), coordinates=nq,
        index=Varying(np.arange(nq + n), np.zeros(1)),
        restore=lambda t, y: y if space.flat else called("restore", y), discrete=0,
        continuous=nq + n, share=1.0, rtol=1.0, atol=1.0, stop=h, due=h, final=h, begin=0.0)
    cells = {"t": 0.0, "h": h, "y": start, "k0": called("rates", start)}
    state = State({**dict(method.cells), **cells})
    with np.errstate(all="ignore"):
        new = method.attempt(state, Trial(h, h), given).new
    change = np.concatenate([
        _columns(space.rates, new.value[..., :nq], np.swapaxes(new.slope[..., :nq, :], -1, -2),
                 lead), new.slope[..., nq:, :]], axis=-2)
    return np.ascontiguousarray(change[..., :2 * n]), np.ascontiguousarray(change[..., 2 * n:])


def _columns(function: Callable[..., Any], q: Array, rows: Array, lead: tuple[int, ...]) -> Array:
    """function(q, row) for each row of (..., P, width), as columns."""
    q = np.broadcast_to(q, (*lead, q.shape[-1]))[..., None, :]
    found = function(np.moveaxis(q, -1, 0), np.moveaxis(rows, -1, 0))
    shape = (*lead, rows.shape[-2])
    return np.stack([np.broadcast_to(x, shape) for x in found], axis=-2) if found else np.zeros(
        (*lead, 0, rows.shape[-2]))


def _part(robot: Robot, name: str, values: Callable[..., Sequence[Any]]) -> Program:
    """A program of y and tau."""
    graph, size = Graph(), robot.nq + robot.n
    ports = Port("y", (size,)), Port("tau", (robot.n,))
    y, tau = _inputs(graph, ports)
    found = _lifted(graph, values(y[:robot.nq], y[robot.nq:], tau))
    return Program(name, ports, (Port("change", (size,)),), tuple(found))


def _rates(robot: Robot) -> Program:
    return _part(robot, "rates", lambda q, qd, tau: [
        *robot.mechanism.space.tangent(q, qd), *apply(robot, "forward_dynamics", q, qd, tau)])


def _restore(robot: Robot) -> Program:
    return _part(robot, "restore", lambda q, qd, tau: [
        *robot.mechanism.space.normalize(q), *qd])


def _pushed(program: Program) -> Program:
    """The derivative of a program along changes of its inputs, which are further inputs."""
    ports = tuple(Port(f"d{port.name}", port.shape) for port in program.inputs)
    graph = program.results[0].graph
    moved = {graph.input(f"{port.name}[{k}]"): graph.input(f"d{port.name}[{k}]")
             for port in program.inputs for k in range(port.size)}
    return Program(f"{program.name}_jvp", (*program.inputs, *ports), program.outputs,
                   tuple(pushforward(program.results, moved)))
