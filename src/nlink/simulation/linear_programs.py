"""Linear models of the motion of a robot, and of steps of semi-implicit Euler: programs.

They stand around the derivatives of forward dynamics, which are recursions; a robot of many joints
has programs in two stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nlink.algorithms.catalogue import QD, TAU, Algorithm, Options, Q
from nlink.algorithms.dynamics_derivatives import equation_derivatives
from nlink.algorithms.sweep import Column, Unrolled
from nlink.engines.engines import FEW_FOR_STRAIGHT
from nlink.model.mechanism import Mechanism
from nlink.model.spaces import Space
from nlink.programs.applying import apply
from nlink.programs.program import Port, Program
from nlink.programs.staged import StagedProgram
from nlink.programs.tracing import trace_function
from nlink.robot import Robot
from nlink.scalars.differentiation import pushforward
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import substitute
from nlink.scalars.tree import leaves

Nodes = Sequence[Node]
Rows = list[list[Any]]


def _ports(robot: Robot) -> tuple[Port, ...]:
    return Port("q", (robot.nq,)), Port("qd", (robot.n,)), Port("tau", (robot.n,))


def _matrices(n: int) -> tuple[Port, Port]:
    return Port("A", (2 * n, 2 * n)), Port("B", (2 * n, n))


def motion_program(robot: Robot) -> Program | StagedProgram:
    """A and B of dx/dt: the program of the derivatives of forward dynamics, and a few rows more."""
    n, request = robot.n, robot.request("forward_dynamics_derivatives")
    program = request.straight() if request.algorithm.cycles else request.program()
    assert isinstance(program, Program | StagedProgram)
    graph = program.results[0].graph if n else Graph()
    q, qd = ([graph.input(f"{port.name}[{k}]") for k in range(port.size)]
             for port in _ports(robot)[:2])
    by_q, by_qd, by_tau = _square(n, program.results)
    A = [[*row, *unit] for row, unit in zip(
        coordinate_rows(robot.mechanism.space, graph, q, qd), _unit(n), strict=True)]
    A += [[*a, *b] for a, b in zip(by_q, by_qd, strict=True)]
    return replace(program, name="linearize", outputs=_matrices(n), results=tuple(
        graph.lift(x) for row in (*A, *[[0.0] * n] * n, *by_tau) for x in row))


def _square(n: int, flat: Scalars) -> list[Rows]:
    """Three square matrices, row by row."""
    return [[list(flat[k * n * n + i * n:k * n * n + (i + 1) * n]) for i in range(n)]
            for k in range(3)]


def coordinate_rows(space: Space, graph: Graph, q: Nodes, qd: Nodes) -> Rows:
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


def turning_program(space: Space) -> Program:
    """The upper left part of A, of q and qd."""
    ports = Port("q", (space.nq,)), Port("qd", (space.nv,))
    outputs = (Port("turning", (space.nv, space.nv)),)
    return trace_function("turning", ports, outputs, lambda q, qd: [
        x for row in coordinate_rows(space, q[0].graph, q, qd) for x in row])


def step_program(robot: Robot) -> Program | StagedProgram:
    """A and B of v' = qd + h qdd, q' = normalize(q + h T(q) v')."""
    n = robot.n

    def matrices(driver: Unrolled, options: Options, q: Column, qd: Column, tau: Column,
                 step: Scalars) -> tuple[Scalars, Scalars]:
        (h,) = step
        if n == 0:
            return [], []
        flat_q, flat_qd = list(leaves(q)), list(leaves(qd))
        zeros, units = [0.0] * n, _unit(n)
        if robot.mechanism.closed:
            state = flat_q, flat_qd, list(leaves(tau))
            qdd, M = apply(robot, "forward_dynamics", *state), None
            columns = [(k, column) for matrix in _square(
                n, apply(robot, "forward_dynamics_derivatives", *state))
                for k, column in enumerate(zip(*matrix, strict=True))]
        else:
            M, qdd, columns = equation_derivatives(driver, q, qd, tau, options.links, None)
        with_q, with_v = coordinates_after(
            driver.mechanism.space, h, flat_q,
            [v + h * a for v, a in zip(flat_qd, leaves(qdd), strict=True)])

        def after(x: Scalars, shared: tuple[Scalar, Rows], rest: Scalars) -> list[Scalar]:
            """A column: how q' changes, and v', by how qdd does."""
            h, by_v = shared
            lower = [a + h * b for a, b in zip(rest[:n], x, strict=True)]
            return [*(a + sum((b * c for b, c in zip(row, lower, strict=True)), 0.0)
                      for a, row in zip(rest[n:], by_v, strict=True)), *lower]

        rests = [*([*zeros, *row] for row in zip(*with_q, strict=True)),
                 *([*unit, *zeros] for unit in units), *[[*zeros, *zeros]] * n]
        if M is None:
            found = [after(x, (h, with_v), rest) for (_, x), rest in zip(
                columns, rests, strict=True)]
        else:
            by_tau = []
            if len(driver.mechanism.joints) <= FEW_FOR_STRAIGHT:  # there symmetry is spared
                by_tau = [after(x, (h, with_v), rest) for x, rest in zip(
                    M.inverse(driver), rests[2 * n:], strict=True)]
            else:
                columns += [(k, [-x for x in unit]) for k, unit in enumerate(units)]
            found = M.accelerate_each(driver, [(k, [*b, *rest]) for (k, b), rest in zip(
                columns, rests, strict=False)], after, (h, with_v)) + by_tau
        return tuple([x for row in zip(*part, strict=True) for x in row]
                     for part in (found[:2 * n], found[2 * n:]))  # pyright: ignore

    request = robot.request("forward_dynamics")
    algorithm = Algorithm("semi_implicit_step", "composite", (Q, QD, TAU, ("h", ())),
                          tuple((port.name, port.shape) for port in _matrices(n)), matrices,
                          request.algorithm.prepare if robot.mechanism.closed
                          else Mechanism.regrouped)
    program = replace(request, algorithm=algorithm, wrenches=False).program()
    assert isinstance(program, Program | StagedProgram)
    return program


def coordinates_after(space: Space, h: Any, q: Sequence[Any], faster: Sequence[Any],
                       ) -> tuple[Rows, Rows]:
    """How q' = normalize(q + h T(q) v') changes with q and with v', in tangent spaces."""
    graph: Graph = q[0].graph
    v = [graph.input(("v", k)) for k in range(space.nv)]  # until it is known
    moved = _lifted(graph, space.normalize([x + h * r for x, r in zip(
        q, space.tangent(q, v), strict=True)]))
    known = {x.index: value for x, value in zip(v, _lifted(graph, faster), strict=True)}

    def matrix(change: Callable[[list[Node]], dict[Node, Node]]) -> Rows:
        columns = [space.rates(moved, pushforward(moved, change(_lifted(graph, unit))))
                   for unit in _unit(space.nv)]
        flat = iter(substitute(_lifted(graph, [x for column in columns for x in column]), graph,
                               known))
        return [list(row) for row in zip(*([next(flat) for _ in column] for column in columns),
                                         strict=True)]

    return (matrix(lambda unit: dict(zip(q, _lifted(graph, space.tangent(q, unit)), strict=True))),
            matrix(lambda unit: dict(zip(v, unit, strict=True))))


def _unit(n: int) -> list[list[float]]:
    return [[float(i == j) for j in range(n)] for i in range(n)]


def _lifted(graph: Graph, values: Sequence[Any]) -> list[Node]:
    return [graph.lift(x) for x in values]
