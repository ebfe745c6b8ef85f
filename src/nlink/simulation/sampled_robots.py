"""Robots that are driven from sample to sample, and wait there for what is held until the next.

`nlink.Stepper` and `nlink.gym` put their loops around them. A robot's record has its state, and
`held` in it are the numbers that act from one sample to the next.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.backends.llvm.native import data_address
from nlink.backends.llvm.process_kernel import RATE
from nlink.backends.llvm.threads import threads as allowed
from nlink.iterations.integration import STATUS
from nlink.iterations.iteration import new_records
from nlink.simulation.ensemble import Ensemble, placed
from nlink.simulation.events import stop_outside
from nlink.simulation.integration_kernels import kernel_of
from nlink.simulation.setting import Saving, Solver, whole_number
from nlink.storage.event_log import EventLog

if TYPE_CHECKING:
    from nlink.backends.llvm.process_kernel import PreparedRun
    from nlink.simulation.system import System

Array = np.ndarray
WORTH_A_THREAD = 100e-6
"""Work, in seconds of one core, as the operations promise, for which another thread is asked."""
RUNNING, WAITING = STATUS["running"], STATUS["waiting"]


class SampledRobots:
    """Robots of one system whose drive has samples that ask, from states q, qd."""

    def __init__(self, system: System, q: ArrayLike | None, qd: ArrayLike | None, solver: Solver,
                 period: float, threads: int | None) -> None:
        self.ensemble = ensemble = Ensemble.of(system, q, qd, solver, Saving([0.0, period], period))
        self.system = system = ensemble.system
        self.count, size = len(ensemble.y0), system.shape.size
        self._kernel = kernel_of(system, ensemble.method, self.count, ensemble.dtype)
        self._threads = allowed() if threads is None else whole_number("threads", threads)
        sampling = system.sampling
        assert sampling is not None
        blank = new_records(1, system.iteration(ensemble.method).layout, size, system.varied.width)
        blank["next"], blank["h"] = 1, ensemble.step
        for name, value in sampling.first(0.0).items():
            blank[name] = value
        self._blank, self.records = blank, np.repeat(blank, self.count)
        self.status, self.t = self.records["status"], self.records["t"]
        self.y, self.own = self.records["y"], self.records["own"]
        self.held = self.y[:, system.layout.place(["held"])]
        # a row of all that is held as one item, which is copied at once
        self._held_rows = np.ndarray(
            self.count, f"V{8 * self.held.shape[1]}", self.records,
            data_address(self.held) - data_address(self.records), self.records.strides)
        self._events = system.entries
        self.log = EventLog(self.count, size, self._events)
        self._out, self._times = np.empty((self.count, 2, size)), np.array([0.0, np.inf])
        self._bounds, self._period = solver.bounds(period), period
        # fixed steps are as many as a period has, and nothing makes them wait within it: contacts
        # add an entry to the log in a step
        room = 0 if self.log.buffer is None else self.log.buffer.shape[1]
        searched = self._events > bool(system.contacts)
        most = 0 if ensemble.method.adaptive else math.ceil(period / ensemble.step) + 1
        self._sure = not (ensemble.method.adaptive or searched) and most * self._events <= room
        if self._sure:
            self._bounds["most"] = np.inf
        self._run = self._prepared()
        self.all_wait = False
        """Whether all robots wait for what is held next; else some have ended, or failed."""
        self.begin(np.arange(self.count), ensemble.y0, ensemble.own, ensemble.unclosed)

    def place(self, rows: Array, states: Array, own: Array) -> None:
        """Start some robots from states (rows, nq + n), in their spaces and closed, at t = 0."""
        states, unclosed = placed(self.ensemble.system, states, own, 0.0)
        self.begin(rows, states, own, unclosed)

    def begin(self, rows: Array, states: Array, own: Array, unclosed: Array) -> None:
        """Start some robots from states (rows, nq + n) at t = 0."""
        system, records = self.system, self.records
        begun = np.repeat(self._blank, len(rows))
        begun["own"], begun["y"] = own, system.initial(states, own, 0.0)
        begun["status"] = np.where(unclosed, STATUS["not closed"], WAITING)
        stop_outside(begun, EventLog(len(rows), system.shape.size, self._events), system.watched)
        records[rows] = begun
        self.all_wait = bool((self.status == WAITING).all())

    def hold(self, values: Array) -> None:
        """What is held until the next sample, (count, numbers)."""
        rows = self._held_rows
        if rows.dtype.itemsize and values.dtype == np.float64 and values.flags.c_contiguous:
            rows[:] = values.view(rows.dtype).reshape(self.count)
        else:
            self.held[:] = values

    def _prepared(self) -> PreparedRun:
        """A call of the kernel, with as many robots for each thread, if that is worth asking one.
        """
        steps = max(1.0, self._period / self.ensemble.step) if self.ensemble.step else 1.0
        vectors = -(-self.count // self._kernel.width)
        seconds = vectors * steps * self._kernel.operations / RATE
        threads = max(1, min(self._threads, vectors, int(seconds / WORTH_A_THREAD)))
        ends = [self.count * k // threads for k in range(threads + 1)]
        return self._kernel.prepared(
            self.records, self._bounds, self._out, self._times, log=self.log.buffer,
            resumed=WAITING, spans=list(pairwise(ends)))

    def advance(self, seen: Array | None = None, told: Array | None = None) -> None:
        """All robots that wait go on to their next sample; what is told of their states there is
        written to `seen`, (count, numbers) of float32, and `told`, (count, 2)."""
        if self._events and not self.log.empty:
            self.log = EventLog(self.count, self.system.shape.size, self._events, self.log.buffer)
        records, status = self.records, self.status
        if self._sure:
            self.all_wait = self._run(seen, told) == 0 and self.all_wait
            self.log.collect(records)
            return
        status[status == WAITING] = RUNNING
        records["steps"] = records["rejects"] = 0  # the bound on steps is one on each call
        while (status == RUNNING).any():
            self._kernel.run(records, self._bounds, self._out, self._times, log=self.log.buffer,
                             threads=self._threads, seen=seen, told=told)
            self.log.collect(records)
        self.all_wait = bool((status == WAITING).all())
