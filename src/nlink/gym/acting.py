"""What a learner says of a robot, traced: forces of an action, observation, reward, an end.

All are functions of t, q, qd, the action and p, what varies under that name, or of the first of
these. They are compiled beside the steps of the robot.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.iterations.recording import Gives
from nlink.iterations.sampling import Sampling
from nlink.programs.keys import key
from nlink.scalars.functions import Scalars, clip, where
from nlink.scalars.graph import Node
from nlink.scalars.misuse import explained
from nlink.simulation.control_scheme import StatePart
from nlink.simulation.drives import Control, Drive
from nlink.simulation.moment import Moment, Text, Texts

if TYPE_CHECKING:
    from nlink.simulation.assembled_system import AssembledSystem
    from nlink.simulation.system import System

ARGUMENTS = ("t", "q", "qd", "action", "p")
"""What a function may be of: all of its parameters have these names, or they are the first ones
in this order."""
Function = Callable[..., Any]


@dataclass(frozen=True)
class LearnersTask:
    """The functions of a learner, and the size of an action."""

    size: int
    forces: Function
    """Joint forces."""
    observation: Function
    reward: Function
    termination: Function | None

    def told(self, at: Moment) -> tuple[list[Any], Any, Any]:
        """The observation, the reward, and 1 where the episode ends."""
        observation = _numbers("observation", _call("observation", self.observation, at))
        if not observation:
            raise ValueError("observation: no numbers, expected at least one")
        (reward,) = _numbers("reward", _call("reward", self.reward, at), 1)
        over: Any = 0.0
        if self.termination is not None:
            over = np.asarray(_call("termination", self.termination, at), object).ravel()
            if len(over) != 1:
                raise ValueError(f"termination: {len(over)} values, expected one truth, such as "
                                 "nlink.less(a, b)")
            over = over[0]
            if isinstance(over, bool | np.bool_):
                over = float(over)
            elif not (isinstance(over, Node) and over.is_truth):
                raise TypeError(f"termination: {over!r:.60}, expected a truth, such as "
                                "nlink.less(a, b)")
            else:
                over = where(over, 1.0, 0.0)
        return observation, reward, over


@dataclass(frozen=True)
class Acting(Drive):
    """Joint forces that follow from an action, which is held from sample to sample."""

    task: LearnersTask
    period: float
    told: int
    """How many numbers are told of a state."""

    def parts(self, system: AssembledSystem) -> tuple[StatePart, ...]:
        return (StatePart("held", self.task.size, discrete=True),)

    @property
    def sampling(self) -> Sampling | None:
        return Sampling(self.period, asks=True)

    def control(self, at: Moment) -> Control:
        return _numbers("forces", _call("forces", self.task.forces, at),
                        at.system.robot.n), []

    def texts(self, system: System) -> Texts:
        """What is told of a state: the observation, the reward, 1 at the end of an episode."""
        return {"observe": Text(self.observe, gives=Gives(column=False, cells=self.told))}

    def observe(self, at: Moment) -> Scalars:
        observation, reward, over = self.task.told(at)
        return [*observation, reward, over]

    def recipe(self, system: System) -> Any:
        return ("Acting", self.task.size, self.period, *(
            key(system.program_of("said", said)) for said in (
                self.observe, lambda at: self.control(at)[0])))


def _call(name: str, function: Function, at: Moment) -> Any:
    """A function of a learner at a moment."""
    q, qd = at.state
    action = np.array([clip(x, -1.0, 1.0) for x in at.parts["held"]], q.dtype)
    known = {"t": at.t, "q": q, "qd": qd, "action": action}
    parameters = at.system.varied.parameters(at.own)
    if parameters:
        known["p"] = parameters[0]
    with explained():
        return function(*(known[word] for word in _words(name, function, known)))


def _words(name: str, function: Function, known: Collection[str]) -> Sequence[str]:
    """Which arguments a function takes."""
    try:
        parameters = [each.name for each in inspect.signature(function).parameters.values()
                      if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
                      and each.default is each.empty]
    except (TypeError, ValueError):
        parameters = ARGUMENTS[:3]
    words = parameters if all(x in ARGUMENTS for x in parameters) else ARGUMENTS[:len(parameters)]
    if len(parameters) > len(ARGUMENTS):
        raise TypeError(f"{name}: a function of {len(parameters)} arguments, expected one of "
                        f"{', '.join(ARGUMENTS)}, or of the first of these")
    if "p" in words and "p" not in known:
        raise ValueError(f"{name}: a function of p, expected vary={{'p': ...}} with the numbers "
                         "that it is given")
    return words


def _numbers(name: str, given: Any, size: int | None = None) -> list[Any]:
    """The numbers that a function gave, in a flat list."""
    if isinstance(given, tuple | list):
        values = [x for each in given for x in np.asarray(each, object).ravel()]
    else:
        values = list(np.asarray(given, object).ravel())
    if size is not None and len(values) != size:
        raise ValueError(f"{name}: {len(values)} numbers, expected {size}")
    for x in values:
        if not (isinstance(x, int | float | np.integer | np.floating) or (
                isinstance(x, Node) and not x.is_truth)):
            raise TypeError(f"{name}: a {type(x).__name__}, expected numbers: nlink.where(truth, "
                            "1.0, 0.0) makes one of a truth")
    return values
