"""Derivatives of a whole simulation, integrated beside it: forward sensitivities.

Let y' = f(t, y, p), y(t0) = y0. How y(t) changes with a number that y0 or p depends on is a
column s, and

    s' = (df/dy) s + df/dp,        s(t0) = dy0,

is integrated in the same steps of the same compiled iteration: the state is (y, s_1, ..., s_m),
and its rates are the traced rates and their derivatives. Every method but the canonical ones
then gives what its own steps, their sizes held, have as derivative.

A projection onto closed loops is a part of the steps, and has derivatives as they have: s+ = P_y s.
So directions that open loops count as what remains of them where loops are closed.

At an impact the time te depends on the number, too. There g(y) = 0, and y jumps to R(y). From
g_y (s + f dte) = 0 and y(t) = phi(t - te, R(y(te))) follows the saltation matrix,

    s+ = R_y s + (f(R(y)) - R_y f(y)) (g_y s) / (g_y f(y)),

and the state at an event, wherever that is, changes by s + f dte. Both want g to cross zero; of
a grazing motion there is no derivative, and the quotient is not finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nlink.backends.llvm.rates import RolledRates
from nlink.programs.derivatives import along
from nlink.programs.program import Port, Program
from nlink.scalars.differentiation import pushforward
from nlink.scalars.functions import Scalars
from nlink.scalars.graph import Graph, Node
from nlink.scalars.lazy import lazy
from nlink.scalars.traversal import reachable, substitute
from nlink.simulation.control_scheme import StatePart
from nlink.simulation.drives import Untraced
from nlink.simulation.events import EventSensitivity
from nlink.simulation.system import System

if TYPE_CHECKING:
    from nlink.iterations.integration import Method
    from nlink.robot import Robot

Array = np.ndarray
INITIAL = ("q0", "qd0", "x0")
"""What can be differentiated by besides what varies: the first state, x0 being the controller's."""
PREFIX = "d_"
"""How the names begin of the parts of a state that are derivatives."""
MOST_DERIVATIVES = 1024
"""Elements of the state that may be derivatives: each is a part of the machine code."""

JUMPS = ("sign", "floor")
"""Operations that jump."""


class Sensitivity(NamedTuple):
    """How the states of trajectories change with some numbers: q and qd, (..., n, numbers), and
    the state of a controller, (..., size, numbers). Changes of q are in the tangent space."""

    q: Array
    qd: Array
    x: Array


@dataclass(frozen=True, init=False, repr=False)
class SensitiveSystem(System):
    """A system whose state also holds its derivatives, by the numbers that `by` names."""

    by: tuple[str, ...]

    @classmethod
    def of(cls, system: System, by: tuple[str, ...]) -> SensitiveSystem:
        """A system with derivatives."""
        return cls._made(by=by, **{each.name: getattr(system, each.name)
                                   for each in fields(System)})

    @property
    def plain(self) -> System:
        return self._plain

    @lazy
    def _plain(self) -> System:
        """The same without derivatives."""
        return System._made(**{each.name: getattr(self, each.name) for each in fields(System)})

    @lazy
    def widths(self) -> dict[str, int]:
        """How many numbers there are under each name."""
        n, mine = self.robot.n, self._controllers
        known = {"q0": n, "qd0": n, "x0": mine.stop - mine.start} | dict(self.varied.columns)
        return {name: known[name] for name in self.by}

    @lazy
    def parts(self) -> tuple[StatePart, ...]:
        size = self.plain.shape.size
        return (*self.plain.parts, *(StatePart(PREFIX + name, width * size)
                                     for name, width in self.widths.items()))

    @property
    def _controllers(self) -> slice:
        """Where a state has that of a controller which moves."""
        moving = [part.name for part in self.drive.parts(self) if not part.discrete]
        return self.plain.layout.place(moving)

    def initial(self, initial: Array, own: Array, begin: float) -> Array:
        y = self.with_units(self.plain.initial(initial, own, begin))
        if self.robot.mechanism.closed:  # q0 and qd0 were projected, whatever closes later
            close = self.kernel("close, moved", self.but(closing="project")._closing)
            return close(np.full((len(y), 1), begin), y, own)[:, :-1]
        if self.motion is None:
            return y
        # where motions that are given begin may depend on what varies
        restore = self.kernel("restore, moved", lambda: self._with_derivatives(
            self.plain.straight("restore")))
        return restore(np.full((len(y), 1), begin), y, own)

    def with_units(self, y: Array) -> Array:
        """Plain states, with units for what they are differentiated by."""
        space, n, nq, at = self.space, self.robot.n, self.robot.nq, y.shape[1]
        y = np.concatenate([y, np.zeros((len(y), self.shape.size - at))], axis=1)
        q = tuple(y[:, k, None] for k in range(nq))
        for name, width in self.widths.items():
            units = y[:, at:at + width * self.plain.shape.size].reshape(len(y), width, -1)
            if name == "q0":
                units[:, :, :nq] = np.stack([np.broadcast_to(x, (len(y), n)) for x in space.tangent(
                    q, tuple(np.eye(n)))], axis=2)
            elif name == "qd0":
                units[:, :, nq:nq + n] = np.eye(n)
            elif name == "x0":
                units[:, :, self._controllers] = np.eye(width)
            y[:, at:at + units[0].size] = units.reshape(len(y), -1)
            at += units[0].size
        return y

    def at_events(self, rows: Array, inputs: Array) -> dict[str, EventSensitivity]:
        """How events change, whose log has these rows, and the programs then these inputs."""
        from nlink.backends.llvm.loading import load_kernel

        nq, n, size = self.robot.nq, self.robot.n, self.plain.shape.size
        y = np.ascontiguousarray(rows["y"])
        times, f = load_kernel(self.event_times())(rows["t"][:, None].copy(), y, inputs)
        times = times[np.arange(len(rows)), rows["which"].astype(int)]
        found, at, first = {}, size, 0
        for name, width in self.widths.items():
            dt = times[:, first:first + width]
            s = y[:, at:at + width * size].reshape(len(rows), width, size).swapaxes(1, 2)
            s = s + f[:, :, None] * dt[:, None, :]
            found[name] = EventSensitivity(dt, in_tangent_space(self.robot, y[:, :nq], s[:, :nq]),
                                           s[:, nq:nq + n])
            at, first = at + width * size, first + width
        return found

    def program(self, name: str) -> Program | RolledRates:
        """A text and its derivatives; what is watched has none."""
        if name == "rates":
            return self._with_derivatives(self._plain_rates())
        if name == "restore":
            return self._with_derivatives(self.plain.straight(name))
        if name == "close":
            return self._closing()
        return self._impact() if name == "impact" else super().program(name)

    def _closing(self) -> Program:
        """A step to closed states with its derivatives, and what loops are open by."""
        program = self.plain.straight("close")
        *closed, opening = program.results
        found = self._with_derivatives(replace(program, results=tuple(closed)))
        outputs = Port(program.outputs[0].name, (len(found.results) + 1,)),
        return replace(found, outputs=outputs, results=(*found.results, opening))

    def _impact(self) -> Program:
        """The state after an impact, its derivatives by the saltation matrix."""
        impact = self.plain.straight("impact")
        graph, after = impact.results[0].graph, list(impact.results)
        y = self._inputs(graph)
        before = substitute(self._plain_rates().results, graph, {})
        # the same nodes are the rates after the impact, of the state that it leaves
        known = {x.index: value for x, value in zip(y, after, strict=True)}
        behind = substitute(before, graph, known)
        acts = [graph.input(f"u[{self.shape.inputs + k}]")
                for k in range(len(self.watched))]
        margins = substitute(self.plain.straight("watch").results, graph, {})
        g = sum((act * x for act, x in zip(acts, margins, strict=True)), graph.const(0))
        along = dict(zip(y, before, strict=True))
        g_f, R_f = pushforward([g], along)[0], pushforward(after, along)
        jump = [a - b for a, b in zip(behind, R_f, strict=True)]
        columns = []
        for moved in self._moved(graph):
            late = pushforward([g], moved)[0] / g_f
            columns.append([s + x * late for s, x in zip(
                pushforward(after, moved), jump, strict=True)])
        return self._joined(impact, columns)

    def event_times(self) -> Program:
        """dte/dp of each function watched, a row for each, and then f."""
        rates = self._plain_rates()
        graph = rates.results[0].graph
        f = list(rates.results)
        watch = substitute(self.plain.straight("watch").results, graph, {})
        along = dict(zip(self._inputs(graph), f, strict=True)) | {
            graph.input("t[0]"): graph.const(1)}
        slopes = pushforward(watch, along)
        columns = [pushforward(watch, moved) for moved in self._moved(graph)]
        times = [[-(change / slope) for change in row] for slope, row in zip(
            slopes, zip(*columns, strict=True), strict=True)]
        outputs = Port("times", (len(watch), len(columns))), Port("rates", (len(f),))
        return Program("event_times", self._ports(rates), outputs, (*chain(*times), *f))

    def _plain_rates(self) -> Program:
        """The rates of the plain system."""
        program, robot = self.plain.program("rates"), self.robot
        if isinstance(program, RolledRates):
            raise ValueError(f"sensitivities: {robot.name} has {robot.n} rates, too many "
                             "for derivatives beside them, expected a smaller robot; "
                             "nlink.jvp gives products")
        expect_continuous(program, list(chain(*self._moved(program.results[0].graph))),
                          "sensitivities")
        return program

    def _inputs(self, graph: Graph) -> list[Node]:
        """The elements of the plain state."""
        return [graph.input(f"y[{k}]") for k in range(self.plain.shape.size)]

    def _moved(self, graph: Graph) -> list[dict[Node, Node]]:
        """How the inputs of programs change with each number."""
        y, at, found = self._inputs(graph), self.plain.shape.size, []
        own, firsts = self.shape.timed, {}
        for name, width in self.varied.columns:
            firsts[name], own = own, own + width
        for name, width in self.widths.items():
            for j in range(width):
                moved = {x: graph.input(f"y[{at + k}]") for k, x in enumerate(y)}
                if name in firsts:
                    moved[graph.input(f"u[{firsts[name] + j}]")] = graph.const(1)
                found.append(moved)
                at += len(y)
        return found

    def _with_derivatives(self, program: Program) -> Program:
        """What a program gives, and how that changes with every number."""
        return self._joined(program, along(program, self._moved(program.results[0].graph)))

    def _ports(self, program: Program) -> tuple[Port, ...]:
        return tuple(Port("y", (self.shape.size,)) if port.name == "y" else port
                     for port in program.inputs)

    def _joined(self, program: Program, columns: Sequence[Scalars]) -> Program:
        """A program that gives derivatives, too."""
        graph, (output,) = program.results[0].graph, program.outputs
        values = tuple(graph.lift(x) for x in chain(program.results, *columns))
        return Program(program.name, self._ports(program),
                       (Port(output.name, (len(values),)),), values)


def sensitive(system: System, by: Sequence[str], method: Method) -> SensitiveSystem:
    """A system with derivatives; what has none is refused."""
    if not isinstance(by, str | Iterable):
        raise ValueError(f"sensitivities: {by!r:.80}, expected names, such as 'q0'")
    names = (by,) if isinstance(by, str) else tuple(by)
    first = INITIAL if any(part.name == "x" for part in system.parts) else INITIAL[:2]
    known = (*first, *(name for name, _ in system.varied.columns))
    for k, name in enumerate(names):
        if name not in known:
            raise ValueError(f"sensitivities: {name!r}, expected some of {', '.join(known)}; what "
                             "`vary` gives values for can be differentiated by")
        if name in names[:k]:
            raise ValueError(f"sensitivities: {name!r} twice, expected each name once")
    expect_derivatives(system, method, "sensitivities")
    found = SensitiveSystem.of(system, names)
    derivatives = found.shape.size - found.plain.shape.size
    if derivatives > MOST_DERIVATIVES:
        raise ValueError(f"sensitivities: {derivatives} derivatives ({found.plain.shape.size} "
                         f"elements of the state by {sum(found.widths.values())} numbers), "
                         f"expected at most {MOST_DERIVATIVES}; several runs can share them")
    return found


def expect_derivatives(system: System, method: Method, what: str) -> None:
    """Refuse motions that have no derivatives, or none that are known here."""
    for wrong, why, other in (
            (method.needs - {"history"} or method.decides_modes,
             f"method={method.name!r}", "a Runge-Kutta method or abm"),
            (isinstance(system.drive, Untraced), "traced=False", "a traced controller"),
            (system.velocity.name != "qd", f"velocity={system.velocity.name!r}", "'qd'"),
            (isinstance(system.closing, float), f"closing={system.closing!r}", "'project' or "
             "'drift'"),
            (system.motion and system.robot.mechanism.closed, "motions that are given of a "
             "mechanism with loops", "controllers"),
            (system.holds, "limits='hold'", "'bounce', 'stop' or 'ignore': where a joint comes to "
             "rest on its limit the motion has no derivative"),
            (system.modes, "friction='dry'", "'smooth': where rates stick the motion has no "
             "derivative"),
            (system.sampling is not None, "a controller with a period", "one that acts at all "
             "times")):
        if wrong:
            raise ValueError(f"{what}: not with {why}, expected {other}")


def expect_continuous(program: Program, sources: Sequence[Node], what: str) -> None:
    """Refuse rates that jump where no event is: their derivatives would miss that."""
    moving = {x.index for x in sources}
    for node in reachable(program.results):
        if any(a.index in moving for a in node.args):
            moving.add(node.index)
            if node.op in JUMPS:
                raise ValueError(f"{what}: the forces have the {node.op} of the state, which has "
                                 "no derivative where it jumps, expected something continuous "
                                 "such as nlink.tanh")


def sensitivity_of(robot: Robot, q: Array, parts: Mapping[str, Array], name: str) -> Sensitivity:
    """What the parts of states say about one name."""
    if PREFIX + name not in parts:
        known = [part.removeprefix(PREFIX) for part in parts if part.startswith(PREFIX)]
        raise ValueError(f"name: {name!r}, expected one of {', '.join(known)}" if known else
                         f"name: {name!r}, but this run has no sensitivities, expected one of "
                         "nlink.simulate(..., sensitivities=...)")
    nq, n = robot.nq, robot.n
    size = nq + n + (parts["x"].shape[-1] if "x" in parts else 0)
    s = np.asarray(parts[PREFIX + name])
    s = s.reshape(*s.shape[:-1], -1, size).swapaxes(-1, -2)
    return Sensitivity(in_tangent_space(robot, q, s[..., :nq, :]), s[..., nq:nq + n, :],
                       s[..., nq + n:, :])


def in_tangent_space(robot: Robot, q: Array, dq: Array) -> Array:
    """Changes of coordinates, (..., nq, numbers), as rates, (..., n, numbers)."""
    space = robot.mechanism.space
    if space.flat:
        return np.array(dq)
    found = space.rates(np.moveaxis(q[..., None], -2, 0), np.moveaxis(dq, -2, 0))
    return np.stack([np.broadcast_to(x, (*q.shape[:-1], dq.shape[-1])) for x in found], axis=-2)
