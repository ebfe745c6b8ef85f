"""How the loops of a robot are eliminated, in words and as a picture: `robot.loops.plan`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from nlink.algorithms.cycle_elimination import plan_of
from nlink.model.cycles import EliminationPlan, EliminationStep, JointEdge
from nlink.scalars.lazy import lazy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nlink.robot import Robot

MOST_BODIES = 60
"""In a picture that can still be read."""


@dataclass(frozen=True)
class LoopPlan:
    """The spanning tree in which the bodies of a mechanism are eliminated, the edges that are cut,
    and the order [docs/closed-chains.md]. Printed, it says all steps.

    >>> import nlink
    >>> print(nlink.load("four_bar").loops.plan)
    four_bar: 3 bodies, 3 joints, 1 loop; cut: pin (5 rows); 5 rows open at most
     1. coupler, with the rate of joint coupler, from crank; open: pin
     2. crank, with the rate of joint crank, from base; open: pin
     3. rocker, with the rate of joint rocker, from base; open: pin
     4. the 5 rows of pin, whose branches meet in base
    """

    name: str
    bodies: tuple[str, ...]
    """The base, and the links that move."""
    edges: tuple[str, ...]
    """The joints that move, then the loops."""
    gears: tuple[str, ...]
    joints: int
    elimination: EliminationPlan

    @classmethod
    def of(cls, robot: Robot) -> LoopPlan:
        """The plan of a robot's forward dynamics at any state."""
        moving = [k for k, joint in enumerate(robot.joints) if joint.type.nv]
        links, loops = robot.links, robot.description.loops
        return cls(robot.name, (robot.frames[0], *(links[k].name for k in moving)),
                   (*(robot.joints[k].name for k in moving), *(loop.name for loop in loops)),
                   tuple(gear.name for gear in robot.description.gears), len(moving),
                   plan_of(robot.mechanism))

    @property
    def cut(self) -> tuple[str, ...]:
        """The joints and loops that become rows."""
        return tuple(self.edges[k] for k in self.elimination.cut)

    @property
    def width(self) -> int:
        """The most rows that are open at one body: the cost grows with its square."""
        return self.elimination.width

    @lazy
    def cycles(self) -> dict[int, tuple[int, ...]]:
        """For each cut edge the bodies of its two branches, without the one where they meet."""
        return {k: tuple(sorted(set(self._path(edge.child)) ^ set(self._path(edge.parent))))
                for k, edge in self._cut_edges()}

    @lazy
    def gear_cycles(self) -> dict[str, tuple[int, ...]]:
        """For each gear the bodies of the paths between its joints."""
        plan, found = self.elimination, dict[str, tuple[int, ...]]()
        meets = {step.number: step.meets for step in plan.order if not step.is_body}
        for number, (name, tie) in enumerate(zip(self.gears, plan.ties, strict=True),
                                             len(plan.cut)):
            bodies: set[int] = set()
            for k in tie.edges:
                ends = plan.edges[k].child, plan.edges[k].parent
                held = [body for body in ends if body and plan.tree[body - 1].edge == k]
                for body in held or ends:
                    bodies.update(takewhile(lambda x, last=meets[number]: x != last,
                                            self._path(body)))
            found[name] = tuple(sorted(bodies))
        return found

    def _cut_edges(self) -> Iterator[tuple[int, JointEdge]]:
        return ((k, self.elimination.edges[k]) for k in self.elimination.cut)

    def _path(self, body: int) -> Iterator[int]:
        """From a body to the base, both included."""
        while body:
            yield body
            body = self.elimination.tree[body - 1].parent
        yield 0

    def describe(self, step: EliminationStep) -> str:
        """A step of the order as a sentence."""
        if not step.is_body:
            cut = self.elimination.cut
            if step.number >= len(cut):
                gear = self.gears[step.number - len(cut)]
                return f"the row of {gear}, whose branches meet in {self.bodies[step.meets]}"
            edge = cut[step.number]
            return (f"the {_count(self.elimination.edges[edge].rows, 'row')} of "
                    f"{self.edges[edge]}, whose branches meet in {self.bodies[step.meets]}")
        held = self.elimination.tree[step.number - 1]
        rates = self.elimination.edges[held.edge].rates
        kind = "joint" if held.edge < self.joints else "loop"
        through = [self.edges[k] for k, bodies in self.cycles.items() if step.number in bodies]
        through += [name for name, bodies in self.gear_cycles.items() if step.number in bodies]
        return (f"{self.bodies[step.number]}, with the {'rate' if rates == 1 else 'rates'} of "
                f"{kind} {self.edges[held.edge]}, from {self.bodies[held.parent]}"
                + (f"; open: {', '.join(through)}" if through else ""))

    def __str__(self) -> str:
        plan = self.elimination
        cut = ", ".join(f"{self.edges[k]} ({_count(plan.edges[k].rows, 'row')})" for k in plan.cut)
        head = (f"{self.name}: {_count(len(self.bodies) - 1, 'body')}, "
                f"{_count(self.joints, 'joint')}, {_count(len(self.edges) - self.joints, 'loop')}"
                + (f", {_count(len(self.gears), 'gear')}" if self.gears else "")
                + f"; cut: {cut or 'nothing'}; {_count(self.width, 'row')} open at most")
        digits = len(str(len(plan.order)))
        return "\n".join([head, *(f" {k:{digits}}. {self.describe(step)}"
                                  for k, step in enumerate(plan.order, 1))])

    def __repr__(self) -> str:
        return (f"<LoopPlan of {self.name}: {len(self.elimination.cut)} of "
                f"{_count(len(self.edges), 'joint and loop', 'joints and loops')} cut, "
                f"{_count(self.width, 'row')} open at most>")

    def figure(self) -> Figure:
        """The tree, drawn from the base, with what is cut as dashed arcs; bodies are numbered in
        the order in which they are eliminated."""
        from nlink.reports.tree_figure import CutEdge, TreeEdge, draw_tree

        plan = self.elimination
        if len(plan.tree) > MOST_BODIES:
            raise ValueError(f"plan: {self.name} has {len(plan.tree)} bodies, expected at most "
                             f"{MOST_BODIES} in a picture; print(robot.loops.plan) lists them")
        turn = {step.number: k for k, step in enumerate(plan.order, 1) if step.is_body}
        tree = [TreeEdge(held.parent, self.edges[held.edge], loop=held.edge >= self.joints)
                for held in plan.tree]
        arcs = [CutEdge(edge.child, edge.parent, f"{self.edges[k]}, {_count(edge.rows, 'row')}")
                for k, edge in self._cut_edges()]
        arcs += [CutEdge(plan.edges[one].child, plan.edges[other].child, f"{name}, gear")
                 for name, tie in zip(self.gears, plan.ties, strict=True)
                 for one, other in pairwise(tie.edges)]
        dashed = "cut, and gears" if self.gears else "cut"
        subtitle = (f"bodies in the order of their elimination; dashed: {dashed}, blue: loops in "
                    f"the tree; {_count(self.width, 'row')} open at most")
        return draw_tree(self.name, subtitle, self.bodies, turn, tree, arcs)

    def plot(self, path: str | Path) -> Path:
        """Write the picture as .png, .svg or .pdf."""
        from nlink.reports.plots import picture_path, save

        picture_path("path", path)
        return save(self.figure(), path)


def _count(number: int, one: str, many: str = "") -> str:
    """A number of things: "1 loop", "2 bodies"."""
    several = many or (f"{one[:-1]}ies" if one.endswith("y") else f"{one}s")
    return f"{number} {one if number == 1 else several}"
