"""What an iteration calls about a system, traced: its rates first, and all that happens between
and at the ends of steps.

A program is of t, y and u, the latter (t0, t1, tau0, tau1) if there is a table, then what varies,
and then cells of the iteration where it is called with some. The controller is traced into the same
graph as the dynamics, so that it shares sines, poses and whatever else they have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from nlink.backends.llvm.rates import RolledRates
from nlink.iterations.recording import Gives, RecordedIteration, record
from nlink.programs.keys import key
from nlink.programs.program import Port, Program
from nlink.programs.rolled_program import RolledProgram
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Graph, Node
from nlink.scalars.misuse import explained
from nlink.simulation.applying import perform
from nlink.simulation.moded_states import IMPACTS, SWITCHES, hybrid_dynamics, impulse_response

if TYPE_CHECKING:
    from nlink.iterations.integration import Method
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot
    from nlink.simulation.system import System

_KEYS: WeakKeyDictionary[Robot, dict[str, str]] = WeakKeyDictionary()
"""Keys of what was traced already, by robot and all else that decides it."""


@dataclass(frozen=True)
class SystemPrograms:
    """The programs of a system, each traced when it is asked for."""

    system: System

    def called(self) -> dict[str, Program | RolledRates]:
        """All that an iteration calls, traced."""
        return {name: trace() for name, trace in self._needed().items()}

    def recorded(self, method: Method) -> RecordedIteration:
        """The statements of an iteration with a method; no program that it calls is traced."""
        system = self.system
        gives = {"watch": Gives(False, len(system.watched)), "close": Gives(cells=1),
                 "limited": Gives(False, sum(each.trigger.bounds for each in system.watched))}
        called = {name: gives.get(name, Gives()) for name in self._needed()}
        if method.solves:
            called |= {"factor": Gives(shared=True), "solve": Gives()}
        return record(system.iteration(method), called, system.shape.discrete)

    def recipe(self) -> str:
        """A digest of all programs that are integrated."""
        system = self.system
        control = None if system.controller is None or system.asks else key(self.controller())
        watch = key(self.watch()) if system.watched else None
        limits = [(each.g, each.rate) for each in system.watched if each.trigger.bounds]
        here = repr((control, system.parts, system.sampling, system.table, system.velocity,
                     system.algorithm, system.closing, system.varied, system.modes, system.width,
                     [each.trigger for each in system.watched], watch, limits,
                     system.restitution))
        known = _KEYS.setdefault(system.robot, {})
        if here not in known:
            known[here] = key(system.shape, self.called())
        return known[here]

    def _needed(self) -> dict[str, Callable[[], Program | RolledRates]]:
        """How to trace each program that the iteration calls."""
        system = self.system
        switches = system.modes is not None and not system.stepwise
        programs = {
            "rates": (True, self.rates),
            "restore": (system.restores, self.restore),
            "close": (system.projects, self.close),
            "watch": (bool(system.watched), self.watch),
            "sample": (system.sampling is not None and not system.asks, self.sample),
            **{name: (switches, partial(self.switch, name)) for name in SWITCHES},
            "advance": (system.stepwise, self.advance),
            **{name: (system.holds, partial(self.strike, name)) for name in IMPACTS},
            "limited": (any(each.trigger.bounds for each in system.watched), self.limited),
            "impact": (any(each.trigger.action == "bounce" for each in system.watched),
                       self.impact)}
        return {name: trace for name, (needed, trace) in programs.items() if needed}

    def rates(self) -> Program | RolledRates:
        """ydot; in parts, around a rolled program, where the mechanism is a long one."""
        system, robot, shape = self.system, self.system.robot, self.system.shape
        request = system.request()
        graph = Graph()
        t = graph.input("t[0]")
        y = [graph.input(f"y[{k}]") for k in range(shape.size)]
        _, rates, parts = system.layout.split(y)
        own = [graph.input(f"u[{k}]") for k in range(shape.timed, shape.inputs)]
        mechanism = system.varied.mechanism(robot, own)
        q, qd = system.joint_rates(y, mechanism)
        tau, further = self.forces(t, q, qd, parts, own)
        tau = system.rubbed(mechanism, qd, tau)
        bare = system.bare(mechanism)
        space = robot.mechanism.space
        velocity = space.tangent(q, qd)

        def part(name: str, values: Scalars) -> Program:
            return Program(name, (Port("t", (1,)), Port("y", (shape.size,)),
                                  Port("u", (shape.inputs,))), (Port("ydot", (len(values),)),),
                           tuple(graph.lift(x) for x in values))

        if system.modes:
            qdd, holding = system.modes.moving(hybrid_dynamics(robot, mechanism), mechanism, q, qd,
                                               tau, parts["mode"])
            return part("rates", (*velocity, *qdd, *system.moded.with_holding(further, holding)))
        if request.rolled and system.velocity.rates is None and not system.varied.mechanical:
            rolled = replace(request, mechanism=bare).program()
            assert isinstance(rolled, RolledProgram)
            return RolledRates(part("forces", tau), None if space.flat else part(
                "velocity", velocity), rolled, part("further", further) if further else None)
        return part("rates", (*velocity, *system.change(bare, q, rates, qd, tau), *further))

    @explained()
    def forces(self, t: Node, q: Scalars, qd: Scalars, parts: Mapping[str, Scalars],
               own: Sequence[Node]) -> tuple[list[Scalar], list[Scalar]]:
        """Joint forces, and the rates of the parts."""
        system = self.system
        if system.table:
            n = system.robot.n
            u = [t.graph.input(f"u[{k}]") for k in range(2 + 2 * n)]
            x = (t - u[0]) / (u[1] - u[0])
            return [a + (b - a) * x for a, b in zip(u[2:2 + n], u[2 + n:], strict=True)], []
        return system.control(system.scheme(own), t, q, qd, parts)

    def restore(self) -> Program:
        """y with q in its space, for a state that left it by an error of integration."""
        robot = self.system.robot
        return self._program("restore", lambda t, y, u: [
            *robot.mechanism.space.normalize(y[:robot.nq]), *y[robot.nq:]])

    def close(self) -> Program:
        """The same with loops closed, or almost, and what they are open by."""
        robot, layout = self.system.robot, self.system.layout

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            q, rates, parts = layout.split(y)
            q = robot.mechanism.space.normalize(q)
            *closed, left = perform(replace(robot.request("project"), mechanism=self._varied(u)),
                                    q, rates)
            return [*layout.joined(closed[:robot.nq], closed[robot.nq:], parts), left]

        return self._program("close", values)

    @explained()
    def controller(self, *, rates: bool = True) -> Program:
        """The controller alone: tau from t, q, qd, its state and what varies, and then the
        rates of its state."""
        graph, system, robot, scheme = Graph(), self.system, self.system.robot, self.system.scheme()
        assert scheme is not None
        sizes = {"t": 1, "q": robot.nq, "qd": robot.n, "x": scheme.size,
                 "own": system.varied.width}
        columns = {name: [graph.input(f"{name}[{k}]") for k in range(size)]
                   for name, size in sizes.items()}
        scheme = system.scheme(columns.pop("own"))
        assert scheme is not None
        state = (columns.pop("t")[0], *columns.values())
        results = {"tau": scheme.tau(*state)}
        if rates and scheme.size:
            results["change"] = (scheme.rates if scheme.period is None else scheme.advance)(*state)
        return Program("controller", tuple(Port(name, (size,)) for name, size in sizes.items()
                                           if size),
                       tuple(Port(name, (len(values),)) for name, values in results.items()),
                       tuple(graph.lift(x) for values in results.values() for x in values))

    def sample(self) -> Program:
        """The state after a sample."""
        return self._program("sample", lambda t, y, u: self.system.after_sample(
            t, y, u[self.system.shape.timed:]))

    def watch(self) -> Program:
        """The functions whose zeros are events."""
        system = self.system

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            q, qd = system.joint_rates(y, self._varied(u))
            state = [np.array(x, dtype=object) for x in (q, qd)]
            return system.watch(t, state[0], state[1], system.layout.split(y)[2].get("mode", ()))

        return self._program("watch", values, gives="cells")

    def limited(self) -> Program:
        """The elements of the state that limits bound."""
        return self._program("limited", lambda t, y, u: [
            y[each.trigger.element] for each in self.system.watched if each.trigger.bounds],
            gives="cells")

    def impact(self) -> Program:
        """The state after an impact, of y before it and of which limit it is."""
        system = self.system
        return self._program("impact", lambda t, y, u: system.after_impact(
            y, u[system.shape.inputs:]), len(system.watched))

    def switch(self, name: str) -> Program:
        """One of `SWITCHES`."""
        system = self.system

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            mechanism, tau, _ = self._driven(t, y, u)
            return system.moded.switched(name, hybrid_dynamics(system.robot, mechanism), mechanism,
                                         y, tau)

        return self._program(name, values)

    def advance(self) -> Program:
        """The state after a step of a size that is a cell, but for its coordinates, and the modes
        that it asks for."""
        system = self.system

        def values(t: Node, y: Sequence[Node], u: Sequence[Node]) -> list[Scalar]:
            mechanism, tau, further = self._driven(t, y, u)
            return system.moded.advanced(hybrid_dynamics(system.robot, mechanism), mechanism, y,
                                         tau, further, u[-1])

        return self._program("advance", values, 1)

    def strike(self, name: str) -> Program:
        """One of `IMPACTS`."""
        system = self.system
        return self._program(name, lambda t, y, u: system.moded.struck(
            name, impulse_response(system.robot, self._varied(u)), y))

    def _driven(self, t: Node, y: Sequence[Node], u: Sequence[Node],
                ) -> tuple[Mechanism, Scalars, Scalars]:
        """The mechanism, the joint forces on it, and the rates of the parts, where velocities
        are rates."""
        shape, mechanism = self.system.shape, self._varied(u)
        q, qd, parts = self.system.layout.split(y)
        tau, further = self.forces(t, q, qd, parts, u[shape.timed:shape.inputs])
        return mechanism, self.system.rubbed(mechanism, qd, tau), further

    def _varied(self, u: Sequence[Node]) -> Mechanism:
        """The mechanism, with what varies of it among the inputs."""
        system, shape = self.system, self.system.shape
        return system.varied.mechanism(system.robot, u[shape.timed:shape.inputs])

    @explained()
    def _program(self, name: str, function: Callable[..., Scalars], cells: int = 0,
                 gives: str = "column") -> Program:
        """A program of t, y and u, which are the inputs and then so many cells."""
        graph, shape = Graph(), self.system.shape
        y = [graph.input(f"y[{k}]") for k in range(shape.size)]
        u = [graph.input(f"u[{k}]") for k in range(shape.inputs + cells)]
        values = tuple(graph.lift(x) for x in function(graph.input("t[0]"), y, u))
        return Program(name, (Port("t", (1,)), Port("y", (len(y),)), Port("u", (len(u),))),
                       (Port(gives, (len(values),)),), values)
