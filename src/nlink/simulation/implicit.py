"""The linear systems of stiff methods: (1 - g df/dy) x = b + w df/dt, solved exactly.

`factor(t, y, [g], ydot)` leaves the factors of a matrix, and `solve(t, b, [w], factors)` is the
solution x; f are the rates of a system, their derivatives those of the graph.

*A tree.* With y = (q, v, z), z being the state of a controller, the accelerations a obey M a = tau
- ID(q, v, 0). Their derivatives are M^-1 times those of

    F(t, q, v, z) = tau(t, q, v, z) - ID(q, v, a),        a held,

so the rows of v are multiplied by M, and nothing is inverted but the matrix itself:

    x_q - g (x_q dq'/dq + x_v dq'/dv)                 = b_q
    M x_v - g (F_q x_q + F_v x_v + F_z x_z)           = M b_v + w F_t
    x_z - g (dz'/dq x_q + dz'/dv x_v + dz'/dz x_z)    = b_z + w dz'/dt

q is eliminated first: its block is 1, or 1 less a skew matrix for quaternions. What is left for v
is M - g F_v - g^2 F_q, eliminated from the tips to the base, so that what is zero between
branches stays zero. Springs and dampers, which make a system stiff, add something positive definite
to M, and a matrix whose symmetric part is positive definite needs no pivoting. What has lost that
(a step longer than the time in which something falls over, or a controller that couples the joints
unsymmetrically) may have a small pivot; then numbers get large, the estimate of the error with
them, and the step is tried again with a smaller g, for which the matrix is nearly M.

*Anything else* (loops, dry friction, quasi-velocities) has the derivatives of its rates as they
are, and rows are exchanged for the largest pivot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.backends.llvm.rates import RolledRates
from nlink.programs.derivatives import slopes
from nlink.programs.program import Port, Program
from nlink.scalars.differentiation import jacobian
from nlink.scalars.functions import less, where
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import reachable
from nlink.simulation.drives import Untraced

if TYPE_CHECKING:
    from nlink.iterations.integration import Method
    from nlink.simulation.ensemble import Ensemble
    from nlink.simulation.system import System

Array = np.ndarray
Rows = list[list[Node]]
MOST_ELEMENTS, MOST_OPERATIONS = 96, 60_000
"""Bounds of a state whose matrix is factored, and of the factoring: it is straight-line code, and
LLVM takes about 0.2 s for a thousand operations."""


def expect_derivatives_of_control(system: System, method: Method) -> None:
    """Refuse a controller that has no derivatives."""
    if system.drive.scheme is not None and type(system.drive) is Untraced:
        raise ValueError(f"method: {method.name!r} needs the derivatives of the controller, which "
                         "traced=False does not have, expected a traced controller, one with a "
                         "period, or method='radau'")


def _expect_size(system: System, count: int, what: str, most: int) -> None:
    if count > most:
        raise ValueError(f"method: a stiff one factors a matrix, and that of {system.robot.name} "
                         f"has {count} {what}, expected at most {most}; 'radau' and 'lsoda' take "
                         "any robot")


@dataclass(frozen=True)
class LinearRates:
    """E ydot' = K y' + e t' for small changes of a state and of time, in one graph."""

    graph: Graph
    E: Rows
    K: Rows
    e: list[Node]
    order: list[int]
    """In which the elements are eliminated."""
    safe: int
    """The number of columns, from the first, that need no pivoting."""


def solving_programs(system: System) -> dict[str, Program]:
    """`factor` and `solve`, which shares what the first leaves."""
    shape = system.shape
    _expect_size(system, shape.continuous, "rows", MOST_ELEMENTS)
    linear = _of_tree(system) if _plain(system) else _of_rates(system)
    graph = linear.graph
    g = graph.input(f"u[{shape.inputs}]")
    matrix = [[e - g * k for e, k in zip(*rows, strict=True)]
              for rows in zip(linear.E, linear.K, strict=True)]
    elimination = Elimination.of(matrix, linear.order, linear.safe)
    left = Leaves(graph)
    there = Graph()
    b = [there.input(f"y[{k}]") for k in range(len(matrix))]
    w = there.input(f"u[{shape.inputs}]")
    E, e = left.moved(there, [linear.E, linear.e])
    right = [sum((c * x for c, x in zip(row, b, strict=True)), w * last)
             for row, last in zip(E, e, strict=True)]
    x = elimination.moved(lambda values: left.moved(there, values)).solve(right)
    _expect_size(system, sum(bool(node.args) for node in reachable(left.nodes)),
                 "operations in its factors", MOST_OPERATIONS)
    values = [*(there.lift(each) for each in x), *[there.const(0)] * shape.discrete]
    state, inputs = Port("y", (shape.size,)), Port("u", (shape.inputs + 1,))
    return {
        "factor": Program("factor", (Port("t", (1,)), state, inputs, Port("rate", (shape.size,))),
                          (Port("factors", (len(left.nodes),)),), tuple(left.nodes)),
        "solve": Program("solve", (Port("t", (1,)), state, inputs,
                                   Port("factors", (len(left.nodes),))),
                         (Port("column", (shape.size,)),), tuple(values))}


class Leaves:
    """Nodes that one program leaves and another one reads; constants are known to both."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes, self._at = graph, [], {}

    def moved(self, graph: Graph, values: Any) -> Any:
        """The same in another graph, lists in any nesting."""
        if isinstance(values, list):
            return [self.moved(graph, each) for each in values]
        node = self.graph.lift(values)
        if node.op == "const":
            return graph.const(node.value)
        if node not in self._at:
            self._at[node] = len(self.nodes)
            self.nodes.append(node)
        return graph.input(f"factors[{self._at[node]}]")


@dataclass(frozen=True)
class Elimination:
    """A = L U in some order, with exchanges of rows where they may be needed."""

    L: Rows
    """Multipliers below the diagonal, U above it, and on it the inverse pivots."""
    order: list[int]
    exchanges: Rows
    """For each pivot and each later row 1 if the two are exchanged, else 0."""

    @classmethod
    def of(cls, A: Rows, order: list[int], safe: int) -> Elimination:
        A, n = [[A[i][j] for j in order] for i in order], len(A)
        exchanges = [[A[0][0].graph.const(0)] * n for _ in range(n)]
        for k in range(n):
            for i in range(k + 1, n):
                if k >= safe and not _zero(A[i][k]):
                    larger = less(abs(A[k][k]), abs(A[i][k]))
                    exchanges[k][i] = where(larger, 1.0, 0.0)
                    for j in range(k, n):
                        A[k][j], A[i][j] = (where(larger, A[i][j], A[k][j]),
                                            where(larger, A[k][j], A[i][j]))
            A[k][k] = 1.0 / A[k][k]
            for i in range(k + 1, n):
                A[i][k] = A[i][k] * A[k][k]
                for j in range(k + 1, n):
                    A[i][j] = A[i][j] - A[i][k] * A[k][j]
        return cls(A, order, exchanges)

    def moved(self, move: Callable[[Any], Any]) -> Elimination:
        """The same with other nodes."""
        return Elimination(move(self.L), self.order, move(self.exchanges))

    def solve(self, b: Sequence[Any]) -> list[Any]:
        x, n = [b[k] for k in self.order], len(b)
        for k in range(n):
            for i in range(k + 1, n):
                if not _zero(self.exchanges[k][i]):
                    exchanged = less(0.5, self.exchanges[k][i])
                    x[k], x[i] = where(exchanged, x[i], x[k]), where(exchanged, x[k], x[i])
            for i in range(k + 1, n):
                x[i] = x[i] - self.L[i][k] * x[k]
        for k in reversed(range(n)):
            for j in range(k + 1, n):
                x[k] = x[k] - self.L[k][j] * x[j]
            x[k] = x[k] * self.L[k][k]
        found = dict(zip(self.order, x, strict=True))
        return [found[k] for k in range(n)]


def _plain(system: System) -> bool:
    """Whether accelerations are M^-1 times forces."""
    return not (system.robot.mechanism.closed or system.modes or system.motion) and (
        system.velocity.name == "qd")


def _of_tree(system: System) -> LinearRates:
    """M times the derivatives of the accelerations, from those of inverse dynamics."""
    robot, (_, at) = system.robot, system.moment()
    n, nq, size, space = robot.n, robot.nq, system.shape.continuous, robot.mechanism.space
    t, y, q, v, graph = at.t, at.y, at.q, at.qd, at.t.graph
    tau, further = [graph.lift(x) for x in at.driven[0]], at.driven[1]
    perform = partial(at.perform, change=system.bare)
    a = [graph.input(f"rate[{nq + k}]") for k in range(n)]
    sources = [*y[:size], t]
    if space.flat:
        changes = jacobian(tau, sources)
        by_state = perform("inverse_dynamics_derivatives", q, v, a)
        for i, row in enumerate(changes):
            for j in range(n):
                row[j] = row[j] - by_state[i * n + j]
                row[n + j] = row[n + j] - by_state[(n + i) * n + j]
    else:  # by the coordinates themselves, which are more than the directions to go in
        forces = perform("inverse_dynamics", q, v, a)
        changes = jacobian([graph.lift(x - f) for x, f in zip(tau, forces, strict=True)], sources)
    M = perform("mass_matrix", q)
    velocity = [graph.lift(x) for x in space.tangent(q, v)]
    rest = [graph.lift(x) for x in further[:size - nq - n]]
    rows = [*jacobian(velocity, sources), *changes, *jacobian(rest, sources)]
    E = _unit(graph, size)
    for i in range(n):
        for j in range(n):
            E[nq + i][nq + j] = graph.lift(M[i * n + j])
    order = [*range(nq), *reversed(range(nq, nq + n)), *range(nq + n, size)]
    return LinearRates(graph, E, [row[:-1] for row in rows], [row[-1] for row in rows], order, size)


def _of_rates(system: System) -> LinearRates:
    """The derivatives of the rates themselves."""
    rates, size = jacobian_program(system), system.shape.continuous
    rows = [list(rates.results[k * (size + 1):(k + 1) * (size + 1)]) for k in range(size)]
    graph = rates.results[0].graph
    return LinearRates(graph, _unit(graph, size), [row[:-1] for row in rows],
                       [row[-1] for row in rows], list(range(size)), system.robot.nq)


def jacobian_program(system: System) -> Program:
    """df/dy and df/dt, a row for each element that has a rate."""
    program, size = system.program("rates"), system.shape.continuous
    assert not isinstance(program, RolledRates)
    graph = program.results[0].graph
    sources = [*(graph.input(f"y[{k}]") for k in range(size)), graph.input("t[0]")]
    return slopes(program, sources, size)


def solving_in_python(ensemble: Ensemble, trajectory: int,
                      ) -> dict[str, Callable[..., Any]]:
    """`factor` and `solve` of one trajectory on floats: the plain matrix, solved with pivoting."""
    from nlink.backends.llvm.loading import load_kernel

    system = ensemble.system
    _expect_size(system, system.shape.continuous, "rows", MOST_ELEMENTS)
    matrices, shape = load_kernel(jacobian_program(system)), system.shape
    which = np.array([trajectory])

    def factor(t: float, y: Array, cells: Sequence[Any], _rate: Array) -> tuple[Array, Array]:
        times = np.array([float(t)])
        ahead = ensemble.inputs(which, np.nextafter(times, np.inf))  # of a table, what comes next
        found = matrices(times[:, None], y[None], ahead)[0]
        return np.eye(shape.continuous) - cells[0] * found[:, :-1], found[:, -1]

    def solve(t: float, b: Array, cells: Sequence[Any], factors: tuple[Array, Array]) -> Array:
        matrix, by_time = factors
        x = np.zeros(shape.size)
        try:
            x[:shape.continuous] = np.linalg.solve(
                matrix, b[:shape.continuous] + cells[0] * by_time)
        except np.linalg.LinAlgError:  # no pivot
            x[:] = np.nan
        return x

    return {"factor": factor, "solve": solve}


def _unit(graph: Graph, size: int) -> Rows:
    return [[graph.const(float(i == j)) for j in range(size)] for i in range(size)]


def _zero(node: Node) -> bool:
    return node.op == "const" and node.value == 0
