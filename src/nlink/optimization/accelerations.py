"""Accelerations of what is optimised, and their derivatives, as programs of q, qd and forces.

A robot under joint forces alone has the recursions of forward dynamics and of its derivatives. What
else acts on a system (a controller, wrenches, smooth friction) is differentiated as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nlink.programs.program import Port, Program
from nlink.programs.scans import AnyProgram
from nlink.robot import Robot, expect_robot
from nlink.scalars.differentiation import pushforward
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import reachable, substitute
from nlink.simulation.drives import FREE, Beside, Untraced
from nlink.simulation.setting import PHYSICS
from nlink.simulation.system import System, system_of

MOST_RATES = 12
"""Rates beyond which a system's own text is too long to be differentiated."""


@dataclass(frozen=True, eq=False)
class Accelerations:
    """qdd of q, qd, tau, and how it changes with them."""

    robot: Robot
    programs: Callable[[], tuple[AnyProgram, AnyProgram]]
    """Makes the programs of qdd and of its derivatives."""
    key: tuple[Any, ...]
    """What tells them apart from others of the robot."""

    @cached_property
    def _programs(self) -> tuple[AnyProgram, AnyProgram]:
        return self.programs()

    @property
    def value(self) -> AnyProgram:
        """qdd of q, qd, tau."""
        return self._programs[0]

    @property
    def derivatives(self) -> AnyProgram:
        """How qdd changes with q, qd, tau."""
        return self._programs[1]

    @staticmethod
    def of(given: Robot | System) -> Accelerations:
        """Those of a robot or a system; what has no derivatives is refused."""
        system = given if isinstance(given, System) else system_of(expect_robot(given), PHYSICS)
        _expect_smooth(system)
        if system.drive is FREE and system.wrenches is None and system.width is None and (
                not system.varied.width):
            return _of_robot(system.robot)
        return _of_system(system)


def _expect_smooth(system: System) -> None:
    robot = system.robot
    if not robot.n:
        raise ValueError(f"robot: no joint of {robot.name} moves, expected one that does")
    modes, watched = system.modes, system.watched
    for wrong, why, other in (
            (robot.mechanism.closures, f"the loops of {robot.name}",
             "a tree: a step ends with a projection onto closed states, which has no derivative"),
            (system.contacts, "contact='rigid'", "a robot without contacts, or contact='ignore'"),
            (modes and any(each.rubs for each in modes.rates), "friction='dry'",
             "nlink.System(robot, friction='smooth'), or robot.with_friction(dry=0)"),
            (modes or watched, f"limits={system.physics.limits!r}, or events",
             "limits='ignore' and costs that keep away from them"),
            (system.velocity.name != "qd", f"velocity={system.velocity.name!r}", "'qd'"),
            (system.motion is not None, "motion", "forces alone"),
            (system.varied.width, "vary", "numbers; parameters= has those of costs"),
            (system.columns, "forces or wrenches in a table", "functions of q, qd"),
            (isinstance(system.drive, Untraced), "traced=False", "a traced controller"),
            (system.drive is not FREE and any(
                part.size for part in system.drive.parts(system)),
             "a controller that has a state or a period", "one that has none")):
        if wrong:
            raise ValueError(f"robot: not with {why}, expected {other}")


def _of_robot(robot: Robot) -> Accelerations:
    def programs() -> tuple[AnyProgram, AnyProgram]:
        value = robot.request("forward_dynamics").program()
        return (replace(value, outputs=(Port("qdd", (robot.n,)),)),
                robot.request("forward_dynamics_derivatives").program())

    return Accelerations(robot, programs, ("robot",))


def _of_system(given: System) -> Accelerations:
    """A system with joint forces beside what drives it."""
    robot, n = given.robot, given.robot.n
    if n > MOST_RATES:
        raise ValueError(f"robot: a System of {n} rates, expected at most {MOST_RATES}, or a robot "
                         "under joint forces alone")
    varied = given.varied.with_numbers("tau", n)
    system = given.but(varied=varied, drive=Beside(given.drive))
    rates = system.straight("rates")
    graph = Graph()
    ports = (Port("q", (robot.nq,)), Port("qd", (n,)), Port("tau", (n,)))
    nodes = {port.name: [graph.input(f"{port.name}[{k}]") for k in range(port.size)]
             for port in ports}
    state, first = [*nodes["q"], *nodes["qd"]], system.shape.inputs - n
    names = {f"y[{k}]": x for k, x in enumerate(state)} | {
        f"u[{first + k}]": x for k, x in enumerate(nodes["tau"])}
    wanted = rates.results[robot.nq:robot.nq + n]
    inputs = [x for x in reachable(wanted) if x.op == "input"]
    unknown = [str(x.name) for x in inputs if x.name not in names]
    if unknown:
        what = "the time" if unknown[0].startswith("t[") else unknown[0]
        raise ValueError(f"robot: a System whose forces depend on {what}, expected on q and qd "
                         "alone")
    qdd = substitute(list(wanted), graph, {x.index: names[x.name] for x in inputs})
    columns = _changes(robot, qdd, nodes)
    matrices = [Port(f"dqdd_d{name}", (n, n)) for name in ("q", "qd", "tau")]
    by_row = [x for k in range(3) for row in zip(*columns[k * n:(k + 1) * n], strict=True)
              for x in row]
    found = (Program("acceleration", ports, (Port("qdd", (n,)),), tuple(qdd)),
             Program("acceleration_derivatives", ports, tuple(matrices), tuple(by_row)))
    return Accelerations(robot, lambda: found, ("system", system.recipe()))


def _changes(robot: Robot, qdd: list[Node], nodes: dict[str, list[Node]]) -> list[list[Node]]:
    """How accelerations change with rates of q, with qd, and with tau."""
    graph = qdd[0].graph
    one = graph.const(1)
    ways = [dict(zip(nodes["q"], [graph.lift(x) for x in robot.mechanism.space.tangent(
        nodes["q"], unit)], strict=True)) for unit in np.eye(robot.n).tolist()]
    ways += [{x: one} for name in ("qd", "tau") for x in nodes[name]]
    return [pushforward(qdd, way) for way in ways]
