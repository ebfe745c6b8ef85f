"""Which sweeps an operator expression denotes.

[RK88] reads an expression as a recursion: a strictly triangular factor is a sweep, inward
(tip to base, "causal") or outward ("anticausal"); a diagonal one is work at a body on the
way. Factors run one after the other, terms of a sum side by side, so terms whose sweeps go
the same way share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from nlink.papers.operators.blocks import ParentStep, Propagation
from nlink.papers.operators.linear import (
    Identity,
    Named,
    Operator,
    OperatorProduct,
    OperatorSum,
    Scaled,
    Transposed,
)


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass over the bodies; `recursive` if a body needs what another one got in it."""

    direction: str
    text: str
    recursive: bool

    def __str__(self) -> str:
        single = not self.recursive and self.direction != "diagonal"
        return f"{self.direction:<8}  {self.text}{'  (one step)' if single else ''}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The passes of an expression, the first one first."""

    name: str
    stages: tuple[Stage, ...]

    @property
    def sweeps(self) -> int:
        """Passes in which something goes along the tree."""
        return sum(stage.direction != "diagonal" for stage in self.stages)

    @property
    def directions(self) -> tuple[str, ...]:
        return tuple(stage.direction for stage in self.stages)

    def __str__(self) -> str:
        plural = "" if self.sweeps == 1 else "s"
        lines = (f"  {k}. {stage}" for k, stage in enumerate(self.stages, 1))
        return "\n".join((f"{self.name}: {self.sweeps} sweep{plural}", *lines))

    __repr__ = __str__


def explain(operator: Operator) -> Plan:
    """The passes that applying an operator takes, neighbouring diagonals fused."""
    return Plan(operator.name, _stages(operator, flip=False))


def _stages(operator: Operator, flip: bool) -> tuple[Stage, ...]:
    if isinstance(operator, Transposed):
        return _stages(operator.of, not flip)
    if isinstance(operator, Identity):
        return ()
    name = operator.T.name if flip else operator.name
    if isinstance(operator, Named | Scaled):
        inner = _stages(operator.of, flip)
        if not inner:
            return (Stage("diagonal", name, False),)
        return _single(name, inner) or inner
    if isinstance(operator, OperatorProduct):
        factors = operator.factors if flip else operator.factors[::-1]
        parts = [stage for factor in factors for stage in _stages(factor, flip)]
        return _fuse(parts)
    if isinstance(operator, OperatorSum):
        terms = [_stages(term, flip) for term in operator.terms]
        together = reduce(_side_by_side, terms)
        return _single(name if flip else f"({name})", together) or together
    if isinstance(operator, Propagation | ParentStep):
        direction = "inward" if flip else "outward"
        return (Stage(direction, name, isinstance(operator, Propagation)),)
    return (Stage("diagonal", name, False),)


def _single(name: str, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """A single pass under the name of the whole."""
    return (Stage(stages[0].direction, name, stages[0].recursive),) if len(stages) == 1 else ()


def _fuse(parts: Sequence[Stage]) -> tuple[Stage, ...]:
    """Work at a body joins the pass before it, or the first one after; steps to a neighbour
    join a recursion that goes the same way."""
    stages: list[Stage] = []
    for part in parts:
        last = stages[-1] if stages else None
        if last is not None and _joins(last, part):
            direction = part.direction if last.direction == "diagonal" else last.direction
            stages[-1] = Stage(direction, f"{part.text} {last.text}",
                               last.recursive or part.recursive)
        else:
            stages.append(part)
    return tuple(stages)


def _joins(a: Stage, b: Stage) -> bool:
    if "diagonal" in (a.direction, b.direction):
        return True
    return a.direction == b.direction and not (a.recursive and b.recursive)


def _side_by_side(a: tuple[Stage, ...], b: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The passes of the longer sequence; the other's join them in order, or come after."""
    if not a or not b:
        return a or b
    longer, shorter = (b, a) if len(a) < len(b) or a[0].direction == "diagonal" else (a, b)
    if shorter[0].direction == "diagonal":  # work at each body, in the last pass that visits it
        return *longer[:-1], _both(longer[-1], shorter[0])
    stages, rest = [], list(shorter)
    for stage in longer:
        joined = rest and rest[0].direction == stage.direction
        stages.append(_both(stage, rest.pop(0)) if joined else stage)
    return (*stages, *rest)


def _both(a: Stage, b: Stage) -> Stage:
    return Stage(a.direction, f"{a.text} | {b.text}", a.recursive or b.recursive)
