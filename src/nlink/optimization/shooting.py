"""A shooting problem as scans along its knots: the programs of the two sweeps.

Knots are a step apart, in which u is held; a step is that of semi-implicit Euler,

    v' = qd + h qdd(q, qd, u),        q' = normalize(q + h T(q) v'),

as `nlink.simulate` makes it with method="semi_implicit". The cost of a trajectory is the sum of
h times the running cost over all knots, and the final cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nlink.optimization.accelerations import Accelerations
from nlink.optimization.costs import Cost, CostTerms, QuadraticModel
from nlink.optimization.riccati import LinearStep, ValueModel, backward_step, largest_of
from nlink.optimization.tiled_riccati import tiled_backward_step
from nlink.programs.program import Port, Program
from nlink.programs.scans import Scan
from nlink.robot import Robot
from nlink.scalars.functions import clip, minimum
from nlink.scalars.graph import Graph, Node, uncollected
from nlink.simulation.linear_programs import coordinates_after

Array = np.ndarray
MOST_STRAIGHT = 14
"""Rates beyond which the matrices of a sweep are too long to be straight-line code."""
NOTHING = 1e300
"""More than any pivot."""


@dataclass(frozen=True, eq=False)
class ShootingProblem:
    """A robot, its costs and bounds, without the states it starts from."""

    motion: Accelerations
    cost: Cost
    final: Cost | None
    step: float
    effort: tuple[tuple[float, ...], tuple[float, ...]] | None
    """The least and the greatest force of each motor that is used, None without bounds."""
    motors: tuple[int, ...]
    """The rates on which forces act."""
    parameters: int = 0
    """How many numbers each problem gives its costs."""
    gaps: bool = False
    """Whether trajectories may have gaps between their knots."""

    @property
    def robot(self) -> Robot:
        return self.motion.robot

    # sizes and ports

    @property
    def m(self) -> int:
        return len(self.motors)

    @property
    def tiled(self) -> bool:
        """Whether the backward sweep is computed in tiles."""
        return self.robot.n > MOST_STRAIGHT

    @property
    def value_size(self) -> int:
        """Elements of S: of its upper triangle, or all in tiles."""
        z = 2 * self.robot.n
        return z * z if self.tiled else z * (z + 1) // 2

    @cached_property
    def _sizes(self) -> dict[str, int]:
        nq, n, m = self.robot.nq, self.robot.n, self.m
        sizes = {"q": nq, "qd": n, "tau": n, "qdd": n, "K": m * 2 * n, "k": m, "gap": 2 * n,
                 "S": self.value_size, "s": 2 * n, "p": self.parameters}
        sizes |= {f"dqdd_d{name}": n * n for name in ("q", "qd", "tau")}
        return sizes

    def size(self, name: str) -> int:
        """The elements of a port; names may end in what tells two of a kind apart."""
        return self._sizes.get(name.partition(".")[0], 1)

    def _program(self, name: str, inputs: Sequence[str], outputs: Sequence[str],
                 text: Callable[..., Sequence[Sequence[Any]]]) -> Program:
        """The program of a function of one list of nodes for each input, that gives one for each
        output."""
        wanted = [x for x in inputs if x != "p" or self.parameters]
        ports = [Port(x, (self.size(x),)) for x in wanted]
        graph = Graph()
        nodes = {port.name: [graph.input(f"{port.name}[{k}]") for k in range(port.size)]
                 for port in ports}
        found = text(*(nodes.get(x, []) for x in inputs))
        results: list[Node] = []
        for output, values in zip(outputs, found, strict=True):
            assert len(values) == self.size(output), (name, output, len(values))
            results += [graph.lift(x) for x in values]
        return Program(name, tuple(ports), tuple(Port(x, (self.size(x),)) for x in outputs),
                       tuple(results))

    def _once(self, *names: str) -> tuple[str, ...]:
        return (*names, *(("p",) if self.parameters else ()), *(("open",) if self.gaps else ()))

    # the dynamics

    def _moved(self, q: Sequence[Any], faster: Sequence[Any]) -> list[Any]:
        """Coordinates after a step with given rates."""
        space = self.robot.mechanism.space
        return list(space.normalize([x + self.step * r for x, r in zip(
            q, space.tangent(q, faster), strict=True)]))

    # the costs

    def _running(self, q: list[Node], qd: list[Node], u: Sequence[Any], p: list[Node]) -> CostTerms:
        graph = (q or qd)[0].graph
        return CostTerms.of("cost", self.cost, graph, [q, qd, u, *([p] if self.parameters else [])])

    def _ending(self, q: list[Node], qd: list[Node], p: list[Node]) -> CostTerms:
        graph = (q or qd)[0].graph
        if self.final is None:
            return CostTerms([], [])
        return CostTerms.of("final", self.final, graph, [q, qd, *([p] if self.parameters else [])])

    def _forces(self, tau: Sequence[Any]) -> list[Any]:
        """Forces on all rates: zero where there is no motor."""
        return [tau[k] if k in self.motors else 0.0 for k in range(self.robot.n)]

    # the sweeps

    @cached_property
    @uncollected()
    def forward(self) -> Scan:
        """The trajectory that feedback along an old one leads to, and its running cost."""
        gaps = ("gap", "open") if self.gaps else ()
        control = self._program("control", ("q", "qd", "q.old", "qd.old", "tau.old", "K", "k",
                                            "alpha"), ("tau",), self._control)
        advance = self._program("advance", ("q", "qd", "tau", "qdd", "J", "p", "alpha", *gaps),
                                ("q.next", "qd.next", "J.next"), self._advance)
        return Scan("forward", (control, self.motion.value, advance),
                    {"q": "q.next", "qd": "qd.next", "J": "J.next"}, self._once("alpha"),
                    ("q.old", "qd.old", "tau.old", "K", "k", *gaps[:1]),
                    ("q.next", "qd.next", "tau"))

    def _control(self, q: Any, qd: Any, q_old: Any, qd_old: Any, tau: Any, K: Any, k: Any,
                 alpha: Any) -> list[list[Any]]:
        n = self.robot.n
        away = [*self.robot.mechanism.space.difference(q_old, q),
                *(a - b for a, b in zip(qd, qd_old, strict=True))]
        u: list[Any] = [0.0] * n
        for i, motor in enumerate(self.motors):
            u[motor] = tau[motor] + alpha[0] * k[i] + sum(
                (x * d for x, d in zip(K[2 * n * i:2 * n * (i + 1)], away, strict=True)), 0.0)
            if self.effort is not None:
                u[motor] = clip(u[motor], self.effort[0][i], self.effort[1][i])
        return [u]

    def _advance(self, q: Any, qd: Any, tau: Any, qdd: Any, J: Any, p: Any, alpha: Any,
                 gap: Any = (), opened: Any = ()) -> list[list[Any]]:
        n = self.robot.n
        faster = [v + self.step * a for v, a in zip(qd, qdd, strict=True)]
        moved = self._moved(q, faster)
        if self.gaps:
            back = [(alpha[0] - 1.0) * opened[0] * x for x in gap]
            moved = list(self.robot.mechanism.space.integrate(moved, back[:n]))
            faster = [a + b for a, b in zip(faster, back[n:], strict=True)]
        cost = self._running(q, qd, self._forces(tau), p).value
        return [moved, faster, [J[0] + self.step * cost]]

    @cached_property
    @uncollected()
    def end(self) -> Scan:
        """The cost with that of the last state."""
        program = self._program("end", ("q", "qd", "J", "p"), ("J.next",), lambda q, qd, J, p: [
            [J[0] + self._ending(q, qd, p).value]])
        return Scan("end", (program,), {"J": "J.next"}, self._once("q", "qd")[:2 + bool(
            self.parameters)])

    @cached_property
    @uncollected()
    def end_model(self) -> Scan:
        """The value at the last state, to second order."""
        def text(q: Any, qd: Any, p: Any) -> list[list[Any]]:
            model = self._ending(q, qd, p).quadratic(self.robot.mechanism.space, q, qd)
            whole = [x for row in model.hessian for x in row]
            return [whole if self.tiled else _packed(model.hessian), model.gradient]

        program = self._program("end_model", ("q", "qd", "p"), ("S", "s"), text)
        return Scan("end_model", (program,), {}, self._once("q", "qd")[:2 + bool(
            self.parameters)], (), ("S", "s"))

    @cached_property
    @uncollected()
    def backward(self) -> Scan:
        """Feedback along a trajectory, from its end on, and what a step along it promises."""
        gaps = ("gap", "open") if self.gaps else ()
        later = () if self.robot.mechanism.space.flat else ("qd.later",)
        carried = ("S", "s", "slope", "curve", "least", *(("most",) if self.gaps else ()))
        if self.tiled:
            costs, elements = self._cost_model()
            step = tiled_backward_step(self.robot.n, self.motors, self.step, elements)
            return Scan("backward", (self.motion.derivatives, costs, step),
                        {x: f"{x}.next" for x in carried}, self._once("damping"),
                        ("q", "qd", "tau"), ("K", "k"))
        program = self._program(
            "riccati", ("q", "qd", "tau", "dqdd_dq", "dqdd_dqd", "dqdd_dtau", "damping", "p",
                        *carried, *later, *gaps), (*(f"{x}.next" for x in carried), "K", "k"),
            lambda *given: self._riccati(dict(zip((
                "q", "qd", "tau", "by_q", "by_qd", "by_tau", "damping", "p", *carried, *later,
                *gaps), given, strict=True))))
        return Scan("backward", (self.motion.derivatives, program),
                    {x: f"{x}.next" for x in carried}, self._once("damping"),
                    ("q", "qd", "tau", *later, *gaps[:1]), ("K", "k"))

    def _cost_model(self) -> tuple[Program, list[tuple[int, int]]]:
        """The derivatives of the running cost, and which elements of its Hessian are not zero."""
        graph, n = Graph(), self.robot.n
        ports = [Port(name, (self.size(name),)) for name in ("q", "qd", "tau", "p")]
        x = {port.name: [graph.input(f"{port.name}[{k}]") for k in range(port.size)]
             for port in ports}
        model = self._running(x["q"], x["qd"], self._forces(x["tau"]), x["p"]).quadratic(
            self.robot.mechanism.space, x["q"], [*x["qd"], *(x["tau"][k] for k in self.motors)])
        size = 2 * n + self.m
        hessian = {(i, j): graph.lift(self.step * model.hessian[i][j])
                   for i in range(size) for j in range(i + 1)}
        elements = [at for at, node in hessian.items()
                    if not (node.op == "const" and node.value == 0)]
        results = [graph.lift(self.step * g) for g in model.gradient]
        second = [hessian[at] for at in elements] or [graph.const(0)]
        return Program("cost_model", tuple(port for port in ports if port.size), (
            Port("gradient", (size,)), Port("hessian", (len(second),))),
            (*results, *second)), elements

    def _riccati(self, x: dict[str, Any]) -> list[list[Any]]:
        n, q, qd = self.robot.n, x["q"], x["qd"]
        tau = [x["tau"][k] for k in self.motors]
        graph: Graph = q[0].graph
        cost = self._running(q, qd, self._forces(x["tau"]), x["p"]).quadratic(
            self.robot.mechanism.space, q, [*qd, *tau])
        h = self.step
        scaled = QuadraticModel(cost.value, [h * g for g in cost.gradient],
                                [[h * a for a in row] for row in cost.hessian])
        gap = [x["open"][0] * a for a in x["gap"]] if self.gaps else None
        box = None if self.effort is None else (
            [a - u for a, u in zip(self.effort[0], tau, strict=True)],
            [a - u for a, u in zip(self.effort[1], tau, strict=True)])
        found = backward_step(self._linear(graph, x, gap), scaled, ValueModel(
            x["s"], _unpacked(x["S"], 2 * n)), x["damping"][0], gap, box)
        most = [] if gap is None else [[largest_of([x["most"][0], *x["s"]])]]
        return [_packed(found.before.S), found.before.s, [x["slope"][0] + found.slope],
                [x["curve"][0] + found.curve], [minimum(x["least"][0], found.least)], *most,
                [a for row in found.K for a in row], found.k]

    def _linear(self, graph: Graph, x: dict[str, Any], gap: list[Any] | None) -> LinearStep:
        """The step near a knot."""
        n, h = self.robot.n, self.step
        space = self.robot.mechanism.space
        if space.flat:
            P = [[float(i == j) for j in range(n)] for i in range(n)]
            V = [[h * float(i == j) for j in range(n)] for i in range(n)]
        else:
            faster = x["qd.later"]
            if gap is not None:
                faster = [a + b for a, b in zip(faster, gap[n:], strict=True)]
            P, V = coordinates_after(space, graph.const(h), x["q"], faster)
        by_q, by_qd, by_tau = (
            [[h * a for a in x[name][n * i:n * (i + 1)]] for i in range(n)]
            for name in ("by_q", "by_qd", "by_tau"))
        G = [[*a, *(float(i == j) + b for j, b in enumerate(row))]
             for i, (a, row) in enumerate(zip(by_q, by_qd, strict=True))]
        return LinearStep(P, V, G, [[row[k] for k in self.motors] for row in by_tau])

    @cached_property
    @uncollected()
    def gap(self) -> Scan:
        """The gaps of a trajectory between its knots, their sum, and its running cost."""
        def text(q: Any, qd: Any, tau: Any, qdd: Any, q_next: Any, qd_next: Any, J: Any, p: Any,
                 wide: Any) -> list[list[Any]]:
            faster = [v + self.step * a for v, a in zip(qd, qdd, strict=True)]
            found = [*self.robot.mechanism.space.difference(q_next, self._moved(q, faster)),
                     *(a - b for a, b in zip(faster, qd_next, strict=True))]
            cost = self._running(q, qd, self._forces(tau), p).value
            return [found, [J[0] + self.step * cost],
                    [wide[0] + sum((abs(x) for x in found), 0.0)]]

        program = self._program("gap", ("q", "qd", "tau", "qdd", "q.next", "qd.next", "J", "p",
                                        "wide"), ("gap", "J.next", "wide.next"), text)
        return Scan("gap", (self.motion.value, program), {"J": "J.next", "wide": "wide.next"},
                    ("p",) if self.parameters else (),
                    ("q", "qd", "tau", "q.next", "qd.next"), ("gap",))


def _packed(a: list[list[Any]]) -> list[Any]:
    """The upper triangle of a symmetric matrix, row by row."""
    return [x for i, row in enumerate(a) for x in row[i:]]


def _unpacked(flat: Sequence[Any], n: int) -> list[list[Any]]:
    a: list[list[Any]] = [[0.0] * n for _ in range(n)]
    values = iter(flat)
    for i in range(n):
        for j in range(i, n):
            a[i][j] = a[j][i] = next(values)
    return a
