"""The gradient of a cost of a simulation by everything it depends on, backwards: the adjoint.

A trajectory of explicit Runge-Kutta steps,

    K_i = f(t_i, y + h sum_j a_ij K_j, u),      new = N(y + h sum_i b_i K_i),

N bringing coordinates into their space, has a cost C. Let w be dC/d(new). Then m = N'^T w, and,
from the last stage to the first, with g_i = h b_i m + h sum_(j > i) a_ji f_y^T g_j,

    dC/dy = m + sum_i f_y^T g_i,        dC/du gets sum_i f_u^T g_i.

All states are kept; stages are computed again. This is the derivative of the computed steps, not of
the motion that they approximate, so a gradient is exact to rounding; it takes the time of a few
simulations, however many numbers there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nlink.compute.traced_functions import function
from nlink.iterations.methods.classical import RK4
from nlink.iterations.runge_kutta import weighted
from nlink.programs.program import Port, Program
from nlink.scalars.differentiation import pullback
from nlink.scalars.graph import Node
from nlink.simulation.control_scheme import Controller
from nlink.simulation.problem import Problem, rubbing
from nlink.simulation.run import Run
from nlink.simulation.sensitivity import expect_continuous, expect_derivatives
from nlink.simulation.simulator import simulate
from nlink.simulation.system import System

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray


class Adjoint(NamedTuple):
    """A cost, (...), its gradients by name, and the run they belong to."""

    cost: Array
    gradient: dict[str, Array]
    """By "q0" (in the tangent space) and "qd0", (..., n), by "tau" in a table, (..., times, n),
    and by what varies, (..., numbers)."""
    run: Run


def adjoint(robot: Robot, cost: Callable[..., Any] | None, q0: ArrayLike | None = None,
            qd0: ArrayLike | None = None, t: float | ArrayLike = 10.0,
            tau: ArrayLike | Controller | None = None, every: float = 0.01, *,
            running: Callable[..., Any] | None = None, vary: Mapping[str, Any] | None = None,
            friction: str = "dry", width: float = 1e-3) -> Adjoint:
    """The gradient of cost(q, qd) of the last state, and of the integral of running(q, qd).

    Both are functions as `nlink.function` takes them; the integral is by the trapezoidal rule on
    the output times. The other arguments are those of `nlink.simulate`, with the method "rk4" and
    a step from each output time to the next.

    >>> import nlink
    >>> arm = nlink.load("double_pendulum")
    >>> found = adjoint(arm, lambda q, qd: q @ q, [0.1, 0.2], t=0.5)
    >>> found.gradient["q0"].shape, found.gradient["qd0"].shape
    ((2,), (2,))
    """
    if cost is None and running is None:
        raise ValueError("cost: None, and so is running, expected a function of q and qd")
    problem = Problem.of(robot, q0, qd0, t, tau, "rk4", "qd", every, None, vary)
    modes, smooth = rubbing(problem, friction, width, "ignore")
    system = System(robot, problem.controller, problem.table is not None, problem.velocity,
                    varied=problem.varied, modes=modes, width=smooth)
    expect_derivatives(system, problem.method, "adjoint")
    times = problem.times
    run = simulate(robot, q0, qd0, times, tau, "rk4", vary=vary, friction=friction, width=width,
                   step=float(np.diff(times).max()))
    value, weights = _costs(run, cost, running)
    count, size = len(problem.y0), system.shape.size
    y = np.concatenate([run.q, run.rates, *run.parts.values()], axis=-1)
    y, w = y.reshape(count, len(times), size), weights.reshape(count, len(times), -1)
    passes = _Reverse(system, problem)
    n, own = robot.n, np.zeros((count, problem.varied.width))
    forces = np.zeros((count, len(times), n))
    back = np.zeros((count, size))
    back[:, :w.shape[-1]] = w[:, -1]
    for k in reversed(range(len(times) - 1)):
        back, by_u = passes.step(k, y[:, k], back)
        back[:, :w.shape[-1]] += w[:, k]
        if problem.table is not None:
            forces[:, k] += by_u[:, 2:2 + n]
            forces[:, k + 1] += by_u[:, 2 + n:2 + 2 * n]
        own += by_u[:, system.shape.timed:]
    found = {"q0": passes.in_tangent_space(y[:, 0], back), "qd0": back[:, robot.nq:robot.nq + n]}
    if problem.table is not None:
        found["tau"] = forces
    at = 0
    for name, wide in problem.varied.columns:
        found[name], at = own[:, at:at + wide], at + wide
    return Adjoint(value, {name: x.reshape(*problem.lead, *x.shape[1:])
                           for name, x in found.items()}, run)


def _costs(run: Run, cost: Callable[..., Any] | None, running: Callable[..., Any] | None,
           ) -> tuple[Array, Array]:
    """The cost, and its derivatives by q and qd at all times."""
    sizes, columns = (run.robot.nq, run.robot.n), (np.asarray(run.q), np.asarray(run.qd))
    weights = np.zeros((*columns[0].shape[:-1], sum(sizes)))
    value = np.zeros(columns[0].shape[:-2])
    for name, each, last in (("cost", cost, True), ("running", running, False)):
        if each is None:
            continue
        traced = function(each, *sizes)
        if traced.output.size != 1:
            raise ValueError(f"{name}: {traced.output.size} values, expected a number")
        share = np.zeros(len(run.t))
        if last:
            share[-1] = 1.0
        else:
            share[:-1] += np.diff(run.t) / 2
            share[1:] += np.diff(run.t) / 2
        value = value + np.asarray(traced(*columns)).reshape(columns[0].shape[:-1]) @ share
        slopes = [np.reshape(x, column.shape) for x, column in zip(
            traced.gradient(*columns), columns, strict=True)]
        weights += np.concatenate(slopes, axis=-1) * share[:, None]
    return value, weights


class _Reverse:
    """Steps backwards, all trajectories at once."""

    def __init__(self, system: System, problem: Problem) -> None:
        from nlink.backends.llvm.loading import load_kernel

        program = system.programs.rates()
        if not isinstance(program, Program):
            raise ValueError(f"adjoint: {system.robot.name} has {system.robot.n} rates, too many "
                             "for a program that is not rolled, expected a smaller robot")
        expect_continuous(program, _sources(program), "adjoint")
        self.system, self.problem = system, problem
        self.rates, self.pulled = load_kernel(program), load_kernel(_pulled(program))
        self.restored = load_kernel(_pulled(system.programs.restore())) if system.restores else None

    def step(self, k: int, y: Array, w: Array) -> tuple[Array, Array]:
        """The gradient by the state before step k, and by the inputs in it, from that by the
        state after it."""
        times, count = self.problem.times, len(y)
        t, h = times[k], times[k + 1] - times[k]
        u = self.problem.inputs(np.arange(count), np.full(count, times[k + 1]))

        def at(node: Any) -> Array:
            return np.full((count, 1), t + float(node) * h)

        stages, K = [], []
        for row, node in zip(RK4.a, RK4.c, strict=True):
            stages.append(y + h * weighted(row, K) if K else y)
            K.append(self.rates(at(node), stages[-1], u))
        if self.restored is not None:
            w, _ = self.restored(at(1), y + h * weighted(RK4.b, K), u, w)
        by_y, by_u = w.copy(), np.zeros_like(u)
        later = [h * float(b) * w for b in RK4.b]
        for i in reversed(range(len(K))):
            back, held = self.pulled(at(RK4.c[i]), stages[i], u, later[i])
            by_y, by_u = by_y + back, by_u + held
            for j, a in enumerate(RK4.a[i][:i]):
                later[j] = later[j] + h * float(a) * back
        return by_y, by_u

    def in_tangent_space(self, y: Array, w: Array) -> Array:
        """Gradients by coordinates as those by rates: T^T w."""
        robot, count = self.system.robot, len(y)
        q = [y[:, k] for k in range(robot.nq)]
        tangents = [np.stack([np.broadcast_to(x, count) for x in robot.mechanism.space.tangent(
            q, unit.tolist())], axis=1) for unit in np.eye(robot.n)]
        return np.stack([(T * w[:, :robot.nq]).sum(axis=1) for T in tangents], axis=1)


def _sources(program: Program) -> list[Node]:
    """The inputs y and u of a program."""
    graph = program.results[0].graph
    return [graph.input(f"{port.name}[{k}]") for port in program.inputs[1:]
            for k in range(port.size)]


def _pulled(program: Program) -> Program:
    """The gradient of w . results by y and u, w being a further input."""
    graph, (output,) = program.results[0].graph, program.outputs
    w = [graph.input(f"w[{k}]") for k in range(output.size)]
    _, y, u = program.inputs
    return Program(f"{program.name}_vjp", (*program.inputs, Port("w", output.shape)),
                   (Port("by_y", y.shape), Port("by_u", u.shape)),
                   tuple(pullback(program.results, w, _sources(program))))
