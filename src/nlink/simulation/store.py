"""Runs under way: in memory, in a directory, or in a zarr group.

Trajectories are worked on block by block, and only the block at hand is in memory, so an
ensemble may be larger than that. On disk there are the states, written as they are reached,
and a record of where each trajectory stands, replaced atomically after them. What was written
after the records were is computed again on resuming, to the same bits, so a run that is
killed at any moment loses seconds and changes nothing. What something else has changed is
refused: sums of all that is known go with the records (see `checks`). Who writes a run holds a
lock on it (see `writing`).

What is common to all of them is here; `directory_store` and `zarr_store` write files, and
`resuming` decides which store a run has.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.dh import parse_toml
from nlink.iterations.integration import STATUS
from nlink.robot import Robot
from nlink.simulation import checks
from nlink.simulation.control_scheme import StatePart
from nlink.simulation.event_log import EventLog
from nlink.simulation.run import Run, Stats
from nlink.simulation.state_layout import StateLayout
from nlink.simulation.variation import Variation

Array = np.ndarray

BLOCK = 2**25
"""Bytes of states that are worked on at a time when they go to disk."""
HEAD = ("robot", "digest", "source", "check", "lead", "t", "start", "evaluations", "stages",
        "method", "nq", "parts", "velocity", "closing", "vary", "forces", "events", "record")
"""What is known of every run under way."""


class Store:
    """A run under way, in memory; the base of those on disk."""

    def __init__(self, records: Array, head: dict[str, Any], log: EventLog) -> None:
        self.records, self.head, self.log = records, head, log
        self.count, self.outputs = len(records), len(head["t"])
        self.size = records["y"].shape[1]
        self.rows = max(1, self.count)
        """Trajectories in a block."""
        self.begin, self.end = 0, 0
        self.out = np.empty((0, self.outputs, self.size))
        """The states of the block at hand."""

    @property
    def blocks(self) -> int:
        return math.ceil(self.count / self.rows)

    def waits(self, rows: slice) -> bool:
        """Whether some trajectories are running, or ended before they started."""
        records = self.records[rows]
        return bool(((records["status"] == STATUS["running"]) | checks.fresh(records)).any())

    def take(self, block: int) -> tuple[Array, Array]:
        """Make a block the one at hand: its records and its states, both to be written into."""
        self.begin = block * self.rows
        self.end = min(self.begin + self.rows, self.count)
        self.out = self.states()
        records = self.records[self.begin:self.end]
        fresh = checks.fresh(records)
        self.out[fresh] = np.nan
        self.out[fresh, 0] = records["y"][fresh]
        return records, self.out

    def states(self) -> Array:
        """The block's states as far as they are known, nan beyond."""
        return np.full((self.end - self.begin, self.outputs, self.size), np.nan)

    def checkpoint(self) -> None:
        """Make what has been computed so far permanent."""

    def finish(self, robot: Robot, forces: Any) -> None:
        """A block is done; `forces` are its `Run.forces`."""

    def close(self) -> None:
        """All blocks are done."""

    def run(self, robot: Robot | None = None, forces: Any = None) -> Run:
        """The run as it stands."""
        return self.assemble(*self.columns(self.out), robot, forces)

    @property
    def nq(self) -> int:
        return int(self.head["nq"])

    @property
    def n(self) -> int:
        return self.size - self.nq - sum(size for _, size in self.head["parts"])

    def columns(self, y: Array) -> tuple[Array, Array, dict[str, Array]]:
        """Coordinates, velocities, and the parts of states by name."""
        parts = tuple(StatePart(name, size) for name, size in self.head["parts"])
        return StateLayout(self.nq, self.n, parts).split(y)

    def forces_of_block(self, robot: Robot, forces: Any) -> Array:
        """tau of the block at hand."""
        own = Store(self.records[self.begin:self.end], self.head | {
            "lead": (self.end - self.begin,), "events": ()}, self.log)
        return own.assemble(*self.columns(self.out), robot, forces).tau

    def assemble(self, q: Any, rates: Any, parts: dict[str, Any], robot: Robot | None,
                 forces: Any) -> Run:
        head, records, lead = self.head, self.records, tuple(self.head["lead"])
        steps, rejects, evaluations = (x.reshape(lead)[()] for x in self.statistics())
        variation = None
        if head["vary"]:
            width = sum(width for _, width in head["vary"]["columns"])
            variation = Variation.from_head(
                head["vary"], records["own"].reshape(*lead, width))
        robot = robot or stored_robot(head["robot"])
        return Run(robot, np.array(head["t"]), shaped(q, lead),
                   shaped(rates, lead), records["status"].reshape(lead),
                   records["t"].reshape(lead), Stats(steps, rejects, evaluations),
                   head["method"], head["velocity"], forces, variation,
                   self.log.events(robot, head["events"], head["velocity"], variation,
                                   dict(head["parts"]).get("mode", 0)),
                   head["closing"], {name: shaped(x, lead) for name, x in parts.items()})

    def statistics(self) -> tuple[Array, Array, Array]:
        """Steps, rejected steps and evaluations of each trajectory."""
        head, (steps, rejects, sweeps) = self.head, (
            self.records[name] for name in ("steps", "rejects", "sweeps"))
        samples = self.records["ticks"] - 1 if "ticks" in (
            self.records.dtype.names or ()) else 0
        return steps, rejects, (head["start"] + (steps + rejects) * head["evaluations"]
                                + sweeps * head["stages"] + samples)


class SavedStore(Store):
    """What directories and groups have in common: sums of all that is known."""

    def __init__(self, records: Array, head: dict[str, Any], log: EventLog, path: Path) -> None:
        super().__init__(records, head, log)
        self.path = path
        self.rows = block_rows(self.outputs, self.size)
        self.sums = np.zeros(self.count, checks.SUMS)

    def saved_forces(self) -> Array:
        """tau of the block at hand, as it is on disk."""
        raise NotImplementedError

    def add_up(self) -> None:
        """The sums of the block at hand."""
        rows = slice(self.begin, self.end)
        known = checks.known_outputs(self.records[rows], self.outputs)
        self.sums["states"][rows] = checks.known_sum(self.out, known)
        self.sums["events"] = self.log.sums

    def finish(self, robot: Robot, forces: Any) -> None:
        if self.head["forces"]:
            tau = self.forces_of_block(robot, forces)
            self.write_forces(tau)
            self.sums["forces"][self.begin:self.end] = checks.known_sum(
                tau, np.ones(tau.shape[:2], bool))
        self.checkpoint()
        self.begin, self.end = 0, 0
        self.out = self.out[:0].copy()  # the block's pages are no longer this process's

    def write_forces(self, tau: Array) -> None:
        """Keep tau of the block at hand."""
        raise NotImplementedError

    def verify(self) -> None:
        """Refuse states and joint forces that are not what was written."""
        for block in range(self.blocks):
            self.begin, self.end = block * self.rows, min((block + 1) * self.rows, self.count)
            rows = slice(self.begin, self.end)
            known = checks.known_outputs(self.records[rows], self.outputs)
            if not known.any():
                continue
            if not np.array_equal(checks.known_sum(self.states(), known),
                                  self.sums["states"][rows]):
                raise ValueError("states were changed")
            if self.head["forces"] and not self.waits(rows):
                tau = self.saved_forces()
                if not np.array_equal(checks.known_sum(tau, np.ones(tau.shape[:2], bool)),
                                      self.sums["forces"][rows]):
                    raise ValueError("joint forces were changed")
        self.begin, self.end = 0, 0


def reason(error: Exception) -> str:
    """What an error says, in one line."""
    said = " ".join(str(error).split())
    return f"no {said}" if isinstance(error, KeyError) else said or type(error).__name__


def block_rows(outputs: int, size: int) -> int:
    """Trajectories whose states fill a block."""
    return max(1, BLOCK // (8 * outputs * size))


def check_array(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape or kind."""
    if array.shape != shape or array.dtype != np.dtype("<f8"):
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}, expected float64 of "
                         f"shape {shape}")


def checked_head(where: str, head: dict[str, Any]) -> dict[str, Any]:
    """What a file says of its run."""
    missing = [key for key in HEAD if key not in head]
    if missing:
        raise ValueError(f"{where} has no {', '.join(missing)}")
    head = head | {"t": np.array(head["t"], float)}
    if head["check"] != checks.head_sum(head):
        raise ValueError(f"{where} was changed")
    t, lead = head["t"], head["lead"]
    if t.ndim != 1 or len(t) < 2 or not (np.isfinite(t).all() and (np.diff(t) > 0).all()):
        raise ValueError(f"{where}: t, expected at least two increasing, finite times")
    if not all(isinstance(length, int) and length >= 0 for length in lead):
        raise ValueError(f"{where}: lead {lead}, expected lengths")
    return head


def shaped(x: Any, lead: tuple[int, ...]) -> Any:
    """Rows of trajectories in the ensemble's shape. Zarr arrays stay on disk if they can."""
    if len(lead) == 1:
        return x
    return np.asarray(x[...]).reshape(*lead, *x.shape[1:])


def stored_robot(text: str) -> Robot:
    return Robot(parse_toml(text, physical="ignore"))


def read_records(path: Path, raw: Array, head: dict[str, Any], kind: np.dtype | None, *,
                 repair: bool) -> tuple[Array, Array, EventLog]:
    """Records and their sums, and the events they count."""
    robot = stored_robot(head["robot"])
    size = robot.nq + robot.n + sum(size for _, size in head["parts"])
    if head["nq"] != robot.nq:
        raise ValueError(f"nq {head['nq']}, expected {robot.nq} for {robot.name}")
    records, sums = checks.unseal(raw, head, kind)
    log = EventLog(len(records), size, len(head["events"]))
    log.read(path, records, sums["events"], repair=repair)
    return records, sums, log
