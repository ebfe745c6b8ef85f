"""Events: zeros of functions g(t, q, qd) along a trajectory, and the limits of joints.

`simulate(events=..., limits=...)` watches them within the compiled steps; see
`nlink.iterations.event_search` for how they are located.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nlink.iterations.integration import STATUS
from nlink.iterations.recording import Gives
from nlink.iterations.triggers import Trigger
from nlink.model.mimics import leads
from nlink.programs.applying import apply
from nlink.scalars.functions import Scalar, Scalars, less, where
from nlink.simulation.moment import Moment, SystemPiece, Text, Texts
from nlink.simulation.velocities import VELOCITIES

if TYPE_CHECKING:
    from nlink.robot import Robot
    from nlink.simulation.system import System
    from nlink.simulation.variation import Variation
    from nlink.storage.event_log import EventLog

Array = np.ndarray
NO_PARTS: Mapping[str, int] = {}
LET_GO = ("slides", "leaves its limit")
"""How the names of modes end in events."""
Function = Callable[[Any, Any, Any], Any]

DIRECTIONS = {"rising": 1, "falling": -1, "both": 0}
LIMITS = {"ignore": None, "stop": "limit", "bounce": "bounce", "hold": "hold"}
"""What `limits=` may say, and the action of its triggers."""
MOST = 128
"""Functions that one simulation may watch: each is a part of the machine code."""
BOUNCING = 40
"""Joints of robots that may bounce: the code of an impact is not rolled."""


@dataclass(frozen=True)
class Event:
    """A zero of g(t, q, qd), a function written like a controller.

    It occurs where g changes its sign in the direction "rising", "falling" or "both". A terminal
    event ends its trajectory.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> level = nlink.Event(lambda t, q, qd: q[0] + 1.0, terminal=True, name="low")
    >>> run = nlink.simulate(robot, [0.0, 0.0], t=5.0, events=[level])
    >>> run.status, run.events.names
    ('event', ('low',))
    """

    g: Function
    direction: str = "both"
    terminal: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if not callable(self.g):
            raise TypeError(f"g: a {type(self.g).__name__}, expected a function of t, q, qd")
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction: {self.direction!r}, expected one of "
                             f"{', '.join(DIRECTIONS)}")


@dataclass(frozen=True)
class Watched:
    """A function that a simulation watches."""

    name: str
    g: Function
    trigger: Trigger
    rate: int = -1
    """For a limit: the rate that changes at an impact."""

    def __call__(self, t: Scalar, q: Any, qd: Any) -> Scalar:
        value = np.asarray(self.g(t, q, qd), dtype=object).ravel()
        if len(value) != 1:
            raise ValueError(f"events: {self.name} gave {len(value)} values, expected one")
        return value[0]


def watched(robot: Robot, events: Any, limits: str) -> tuple[Watched, ...]:
    """All functions that a call of `simulate` watches, limits last."""
    if limits not in LIMITS:
        raise ValueError(f"limits: {limits!r}, expected one of {', '.join(LIMITS)}")
    found = [Watched(event.name or f"event {k}", event.g, Trigger(
        DIRECTIONS[event.direction], "stop" if event.terminal else "record"))
        for k, event in enumerate(_events(events))]
    action = LIMITS[limits]
    if action == "bounce" and len(robot.mechanism.joints) > BOUNCING:
        raise ValueError(f"limits: 'bounce' for {len(robot.mechanism.joints)} joints, expected "
                         f"at most {BOUNCING}")
    if action is not None:
        found += _limits(robot, action)
    if action == "bounce":
        for follower, (lead, _, _) in leads(robot.joints).items():
            raise ValueError(f"limits: 'bounce' for {robot.name}, whose joint {follower!r} follows "
                             f"{lead.name!r}, expected 'stop' or 'ignore': an impact would "
                             "part them")
    if len(found) > MOST:
        raise ValueError(f"events: {len(found)} functions to watch, joint limits included, "
                         f"expected at most {MOST}")
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"events: {', '.join(twice)} named twice")
    return tuple(found)


@dataclass(frozen=True)
class Watching(SystemPiece):
    """The functions that a simulation watches, and the impacts on limits that bounce."""

    functions: tuple[Watched, ...] = ()
    restitution: float = 1.0
    """What of a joint's rate is left after an impact on its limit."""

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        return tuple(each.trigger for each in self.functions)

    @property
    def bounded(self) -> list[Watched]:
        """Those that are limits."""
        return [each for each in self.functions if each.trigger.bounds]

    def without_holding(self) -> Watching:
        """The same but for limits that hold."""
        return replace(self, functions=tuple(
            each for each in self.functions if each.trigger.action != "hold"))

    def texts(self, system: System) -> Texts:
        if not self.functions:
            return {}
        found = {"watch": Text(self.watch, gives=Gives(False, len(self.functions)))}
        if self.bounded:
            found["limited"] = Text(self.limited, gives=Gives(False, len(self.bounded)))
        if any(each.action == "bounce" for each in self.triggers):
            found["impact"] = Text(self.impact, cells=len(self.functions))
        return found

    def watch(self, at: Moment) -> Scalars:
        """The functions whose zeros are events; a limit that holds is not passed."""
        found = [each(at.t, *at.state) for each in self.functions]
        for k, each in enumerate(self.functions):
            if each.trigger.action == "hold":
                modes = at.system.modes
                assert modes is not None
                (mode,) = [mode for moded, mode in zip(modes.rates, at.parts["mode"], strict=True)
                           if moded.rate == each.rate]
                found[k] = where(less(1.0, each.trigger.sign * mode), 1.0, found[k])
        return found

    def limited(self, at: Moment) -> Scalars:
        """The elements of the state that limits bound."""
        return [at.y[each.trigger.element] for each in self.bounded]

    def impact(self, at: Moment) -> Scalars:
        """The state after an impact on one of the limits that are watched, for which its cell is
        1, else 0. The joint, e in the space of rates, is on its limit, and an impulse on it
        has turned its rate round: qd' = qd - (1 + restitution) (e . qd) / (e . M^-1 e) M^-1 e.
        What has come to rest at the same time is at rest before the impact, and the modes after
        it are those of the rates then.
        """
        system, modes, parts = at.system, at.system.modes, {}
        robot = system.robot
        q, e, qd = list(at.q), [0.0] * robot.n, at.qd
        if modes is not None:
            qd, _ = modes.arrested(at)
        for each, act in zip(self.functions, at.cells, strict=True):
            if isinstance(each.g, Margin) and each.trigger.action == "bounce":
                e[each.rate] = e[each.rate] + act
                q[each.g.at] = q[each.g.at] * (1 - act) + each.g.bound * act
        # how the mechanism yields to a force on the joint, whatever holds it together: M^-1 e
        rest = [0.0] * robot.n
        pushed, still = (apply(robot, "forward_dynamics", q, rest, tau, algorithm=system.algorithm)
                         for tau in (e, rest))
        c = [a - b for a, b in zip(pushed, still, strict=True)]
        reach = sum((a * b for a, b in zip(e, c, strict=True)), 0.0)
        speed = sum((a * b for a, b in zip(e, qd, strict=True)), 0.0)
        impulse = -(1 + self.restitution) * speed / reach
        after = [v + x * impulse for v, x in zip(qd, c, strict=True)]
        if modes is not None:
            parts["mode"] = modes.at_rates(q, after)
        return at.but(q, system.velocity.from_rates(at.perform, q, after), **parts)


SLIDES = " slides"
"""How the names of events end that a rate can have again, in the other direction."""


WORDS = ("touches", "leaves", "sticks", "slides")
"""What a contact does, behind its name: the last two where it touches before and after."""


def changes(names: Sequence[str], trajectory: Array, which: Array, y: Array,
            parts: Mapping[str, int]) -> tuple[Array, Array]:
    """Rows of a log of states, and the numbers of the names of what happened there: a row for each
    mode that changed. `parts` are the sizes of what states end with."""
    contacts, rates = parts.get("contact_mode", 0), parts.get("mode", 0)
    if contacts:
        return spread_contacts(names, which, y[:, -contacts - rates:], contacts)
    if not rates or len(names) < 2 * rates or not names[-1].endswith(LET_GO):
        return np.arange(len(which)), which  # modes that steps decide, which no log has
    return spread_switches(names, trajectory, which, y[:, -rates:])


def spread_contacts(names: Sequence[str], which: Array, modes: Array, contacts: int,
                    ) -> tuple[Array, Array]:
    """The same where steps solve contacts: the modes after a step, and 8 times those before it,
    of contacts (0 open, 1 sticks, 2 slides) and then of rates."""
    after = np.rint((modes + 4) % 8 - 4)
    before = np.rint((modes - after) / 8)
    watched = len(names) - 4 * contacts - 2 * (modes.shape[1] - contacts)
    at, k = np.nonzero((after != before) & (before > -3) & (which == watched)[:, None])
    new, old = after[at, k], before[at, k]
    contact = np.select([new == 0, old == 0, new == 1], [1, 0, 2], 3)
    rate = 2 * (k - contacts) + (np.abs(new) == 1) + 4 * contacts
    same = (k >= contacts) & (np.abs(old) != 1) & (np.abs(new) != 1)  # held, by something else
    kinds = watched + np.where(k < contacts, 4 * k + contact, rate)
    at, kinds = at[~same], kinds[~same]
    others = np.flatnonzero(which < watched)
    found, kinds = np.concatenate([others, at]), np.concatenate([which[others], kinds])
    order = np.argsort(found, kind="stable")
    return found[order], kinds[order].astype(int)


def spread_switches(names: Sequence[str], trajectory: Array, which: Array, modes: Array,
                    ) -> tuple[Array, Array]:
    """Rows of a log, and what happened there: where modes changed, a row for each that did.

    The log knows one kind of change, behind the functions watched, and the modes after it; the
    first one of a trajectory is how it starts. Each rate with a mode has two names: that it is
    held, and that it is not any more.
    """
    watched = len(names) - 2 * modes.shape[1]
    rubs = [name.endswith(SLIDES) for name in names[watched + 1::2]]
    rows = np.flatnonzero(which == watched)
    # what does not rub has no direction
    phases = np.where((np.abs(modes) == 1) & ~np.array(rubs, bool), 1.0, modes)[rows]
    now, same = phases[1:], trajectory[rows[1:]] == trajectory[rows[:-1]]
    at, rate = np.nonzero((now != phases[:-1]) & same[:, None])
    slides = np.abs(now[at, rate]) == 1
    others = np.flatnonzero(which < watched)
    found = np.concatenate([others, rows[1:][at]])
    kinds = np.concatenate([which[others], watched + 2 * rate + slides])
    order = np.argsort(found, kind="stable")
    return found[order], kinds[order].astype(int)


def _events(events: Any) -> list[Event]:
    if events is None:
        return []
    if isinstance(events, Mapping):
        return [Event(**{**vars(_event(event)), "name": str(name)})
                for name, event in events.items()]
    if isinstance(events, Event) or callable(events):
        return [_event(events)]
    if isinstance(events, Sequence):
        return [_event(event) for event in events]
    raise TypeError(f"events: a {type(events).__name__}, expected functions of t, q, qd, "
                    "nlink.Event objects, or a mapping of names to those")


def _event(event: Any) -> Event:
    if isinstance(event, Event):
        return event
    if not callable(event):
        raise TypeError(f"events: a {type(event).__name__}, expected a function of t, q, qd "
                        "or an nlink.Event")
    name = getattr(event, "__name__", "")
    return Event(event, name="" if name == "<lambda>" else name)


def _limits(robot: Robot, action: str) -> Iterator[Watched]:
    """Two functions a limited coordinate: positive inside, zero at the limit."""
    at = rate = 0
    for joint in robot.joints:
        low, high = joint.limits.position
        bounds = [(side, bound, sign) for side, bound, sign in (
            ("lower", low, 1.0), ("upper", high, -1.0)) if math.isfinite(bound)]
        if bounds and not joint.type.space.flat:
            raise ValueError(f"limits: joint {joint.name!r} is {joint.type.name} and has position "
                             "limits, expected them only where coordinates are as many as rates")
        for k in range(joint.type.nq):
            name = joint.name if joint.type.nq == 1 else f"{joint.name}, coordinate {k + 1}"
            for side, bound, sign in bounds:
                yield Watched(f"{side} limit of {name}", Margin(at + k, bound, sign),
                              Trigger(-1, action, at + k, sign), rate + k)
        at, rate = at + joint.type.nq, rate + joint.type.nv


@dataclass(frozen=True)
class Margin:
    """How far a coordinate is inside a bound."""

    at: int
    bound: float
    sign: float

    def __call__(self, t: Scalar, q: Any, qd: Any) -> Scalar:
        return self.sign * (q[self.at] - self.bound)


class EventSensitivity(NamedTuple):
    """How events change with some numbers: their times, (events, numbers), and the coordinates
    and rates at them (before an impact), (events, n, numbers)."""

    t: Array
    q: Array
    qd: Array


@dataclass(frozen=True)
class Events:
    """The events of a run, one row for each, ordered by trajectory and time.

    `t` is the time, `which` an index into `names`, `q` and `qd` the state (before an impact), and
    `trajectory` the index in the flattened ensemble.
    """

    names: tuple[str, ...]
    trajectory: Array
    t: Array
    which: Array
    q: Array
    qd: Array
    sensitivities: Mapping[str, EventSensitivity] = field(default_factory=dict)
    """By the names given to `simulate(sensitivities=...)`; files do not have them."""

    @staticmethod
    def none(robot: Robot) -> Events:
        return Events((), np.zeros(0, int), np.zeros(0), np.zeros(0, int), np.zeros((0, robot.nq)),
                      np.zeros((0, robot.n)))

    def __len__(self) -> int:
        return len(self.t)

    def _only(self, rows: Array) -> Events:
        changes = {name: EventSensitivity(*(x[rows] for x in each))
                   for name, each in self.sensitivities.items()}
        return Events(self.names, self.trajectory[rows], self.t[rows], self.which[rows],
                      self.q[rows], self.qd[rows], changes)

    def __getitem__(self, name: str) -> Events:
        """The events of one name."""
        if name not in self.names:
            raise KeyError(f"{name!r}, expected one of {', '.join(self.names) or 'no names'}")
        return self._only(self.which == self.names.index(name))

    def of(self, trajectory: int) -> Events:
        """The events of one trajectory, by its index in the flattened ensemble."""
        return self._only(self.trajectory == trajectory)

    def within(self, begin: int, end: int) -> Events:
        """The events of trajectories begin to end - 1, renumbered from 0."""
        those = self._only((self.trajectory >= begin) & (self.trajectory < end))
        return replace(those, trajectory=those.trajectory - begin)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {n}" for name, n in zip(self.names, np.bincount(
            self.which, minlength=len(self.names)).tolist(), strict=True))
        return f"<Events: {counts or 'none watched'}>"


def events_of(log: EventLog, robot: Robot, names: Sequence[str], velocity: str,
              variation: Variation | None = None, parts: Mapping[str, int] = NO_PARTS,
              ) -> Events | None:
    """What a log has, as users see it; None if nothing is watched. States end with parts of such
    sizes."""
    if not names:
        return None
    rows = log.in_order()
    these, which = changes(names, rows["trajectory"], rows["which"].astype(int), rows["y"], parts)
    rows = rows[these]
    q, rates = (np.ascontiguousarray(rows["y"][:, part]) for part in (
        slice(0, robot.nq), slice(robot.nq, robot.nq + robot.n)))
    qd, name = rates, VELOCITIES[velocity].rates
    if name is not None:
        qd = robot.compute(name, q, rates) if variation is None else variation.taken(
            rows["trajectory"]).compute(robot, name, q[:, None], rates[:, None])[:, 0]
    return Events(tuple(names), rows["trajectory"].copy(), rows["t"].copy(), which, q, qd)


def stop_outside(records: Array, log: EventLog, watched: Sequence[Watched]) -> None:
    """Trajectories that begin outside a limit end there, before they start."""
    for k, each in enumerate(watched):
        if each.trigger.bounds:
            with np.errstate(invalid="ignore"):
                out = each.g(0.0, records["y"].T, None) < 0
            out &= records["status"] == STATUS["running"]
            if out.any() and log.buffer is not None:
                log.buffer[out, 0, 0], log.buffer[out, 0, 1] = records["t"][out], k
                log.buffer[out, 0, 2:] = records["y"][out]
                records["events"][out] = records["fill"][out] = 1
                records["status"][out] = STATUS["limit reached"]
