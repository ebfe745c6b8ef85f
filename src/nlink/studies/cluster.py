"""A Dask cluster that computes chunks: one task each, tried again, and given up by name.

Of the chunks that are left only some are with the scheduler at a time, enough to keep every
worker busy, so that the state of a sweep is in its store and not in anybody's memory: workers,
the scheduler and the client may be killed at any moment. Tasks may then be computed twice; they
write the same bytes.
"""

from __future__ import annotations

import logging
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

import nlink
from nlink.studies.chunks import ChunkTask
from nlink.studies.study import Study

CONNECT = 5.0
"""Seconds in which a scheduler must answer."""
RESTART = 60.0
"""Seconds in which a scheduler that went away must be back."""
WORKERS = 30.0
"""Seconds in which a worker must come, if there is none."""
LOOK = 1.0
"""Seconds between looks at tasks that take too long, and at the number of workers."""
GRACE = 30.0
"""Seconds more than its own timeout that a task may be away, before its worker is restarted."""


class Cluster:
    """A client of a scheduler, and chunks in flight."""

    def __init__(self, client: Any, *, own: bool = False) -> None:
        self.client, self.own = client, own
        self.name = client.scheduler.address if client.scheduler else "the scheduler"

    @classmethod
    @contextmanager
    def of(cls, given: Any) -> Iterator[Cluster]:
        """A cluster from a client, or from the address of a scheduler; the latter is left again."""
        distributed = _distributed()
        if isinstance(given, distributed.Client):
            yield cls(given)
            return
        if not isinstance(given, str):
            raise TypeError(f"client: a {type(given).__name__}, expected a dask.distributed.Client "
                            "or the address of a scheduler")
        try:
            client = _connected(given)
        except Exception as error:  # addresses fail in many ways
            raise ConnectionError(f"client: no Dask scheduler answers at {given!r} within "
                                  f"{CONNECT:g} s ({_reason(error)}), expected an address "
                                  "such as tcp://host:8786") from None
        cluster = cls(client, own=True)
        try:
            with _silent("distributed.client"):  # what it would log of a lost scheduler is raised
                yield cluster
        finally:
            with suppress(Exception):
                cluster.client.close(timeout=CONNECT)

    def check(self, study: Study) -> None:
        """Refuse workers that would compute something else, in one sentence."""
        distributed = _distributed()
        try:
            distributed.protocol.pickle.dumps(study.cut(0))
        except Exception as error:
            raise TypeError(f"tau: a controller (or an event) that cannot be sent to workers "
                            f"({_reason(error)}), expected one that can be pickled") from None
        if not self.workers():
            with suppress(Exception):
                self.client.wait_for_workers(1, timeout=WORKERS)
        if not self.workers():
            raise ConnectionError(f"client: {self.name} has no workers after {WORKERS:g} s, "
                                  "expected at least one (dask worker ADDRESS)")
        here = versions()
        answers = self.client.run(versions, on_error="return")
        for worker, found in answers.items():
            if isinstance(found, ModuleNotFoundError):
                raise ValueError(f"client: worker {worker} has no nlink, expected version "
                                 f"{here['nlink']}")
            if isinstance(found, distributed.comm.CommClosedError | OSError):
                continue  # a worker that has just gone
            if isinstance(found, BaseException):
                raise ValueError(f"client: worker {worker} does not answer: {found}")
            for what, version in here.items():
                if found[what] != version:
                    said = (f"another text of nlink {here['nlink']}" if what == "source" else
                            f"{what} {found[what]}")
                    wanted = "the same" if what == "source" else version
                    raise ValueError(f"client: worker {worker} has {said}, expected {wanted} as "
                                     "here: numbers may differ")

    def workers(self) -> int:
        """Tasks that the cluster computes at a time."""
        return sum(self.client.nthreads().values())

    def compute(self, tasks: Iterable[ChunkTask], told: Callable[..., None], *, retries: int,
                most: int) -> dict[int, str]:
        """Compute chunks; what failed, and why, at most so many before the rest is left."""
        waiting = iter(tasks)
        failures: dict[int, str] = {}
        while True:
            flight = _Flight(self, retries)
            try:
                flight.look()
                while flight.fill(waiting) and len(failures) < most:
                    for task, marker, why in flight.landed():
                        if marker is None:
                            failures[task.chunk] = why
                        else:
                            told(marker["trajectories"], done=True)
                return failures
            except Exception as error:
                if self.connected() and not isinstance(error, _distributed().comm.CommClosedError):
                    raise
                waiting = chain([task for task, _, _ in flight.tasks.values()], waiting)
                flight.tasks.clear()
                task = next(waiting, None)
                if task is None:
                    return failures
                waiting = chain([task], waiting)
                self.rejoin(task.study)
            finally:
                flight.cancel()

    def rejoin(self, study: Study) -> None:
        """Wait for a scheduler that is being restarted, and for its workers, but not for long."""
        end = time.monotonic() + RESTART
        while time.monotonic() < end:
            if self.connected():
                try:
                    return self.check(study)
                except _distributed().comm.CommClosedError:  # it went away once more
                    continue
            if self.own:  # a client of Dask's gives up sooner
                with suppress(Exception):
                    self.client.close(timeout=CONNECT)
                with suppress(Exception):
                    self.client = _connected(self.name)
                    continue
            elif self.client.status != "connecting":
                break
            time.sleep(0.2)
        raise self.lost()

    def connected(self) -> bool:
        return self.client.status == "running"

    def lost(self) -> ConnectionError:
        return ConnectionError(f"client: the scheduler {self.name} was lost; chunks that are done "
                               "are kept, and the same call computes the others")


class _Flight:
    """Chunks that the scheduler has."""

    def __init__(self, cluster: Cluster, retries: int) -> None:
        self.cluster, self.retries = cluster, retries
        self.tasks: dict[Any, tuple[ChunkTask, float, int]] = {}
        """By futures: the chunk, since when, and how often it has been taken from a worker."""
        self.room, self.looked = 0, 0.0

    def look(self) -> None:
        """Make room for two tasks a worker and one on the way, workers that have come with them."""
        self.looked = time.monotonic()
        self.room = max(self.room, 2 * self.cluster.workers() + 1)

    def fill(self, waiting: Iterator[ChunkTask]) -> bool:
        """Send as many as there is room for; whether any are there."""
        while len(self.tasks) < self.room and (task := next(waiting, None)) is not None:
            self.send(task, 0)
        return bool(self.tasks)

    def send(self, task: ChunkTask, taken: int) -> None:
        key = f"nlink-chunk-{task.study.digest[:12]}-{task.chunk}-{secrets.token_hex(4)}"
        future = self.cluster.client.submit(task, key=key, retries=self.retries, pure=False)
        self.tasks[future] = (task, time.monotonic(), taken)

    def landed(self) -> Iterator[tuple[ChunkTask, dict[str, Any] | None, str]]:
        """Chunks that have come back within a while: their markers, or why there is none."""
        distributed = _distributed()
        with suppress(TimeoutError, CancelledError), self.cluster.client.as_current():
            distributed.wait(list(self.tasks), timeout=LOOK, return_when="FIRST_COMPLETED")
        lost = distributed.comm.CommClosedError("the scheduler went away")
        if not self.cluster.connected():
            raise lost
        for future in [future for future in self.tasks if future.done()]:
            task, _, taken = self.tasks[future]
            marker, why = None, ""
            try:
                marker = future.result()
            except CancelledError:
                if not self.cluster.connected():  # it goes away while its answers are read
                    raise lost from None
                if taken < self.retries:  # a scheduler that was started anew knows it no more
                    self.send(task, taken + 1)
                    del self.tasks[future]
                    continue
                why = "cancelled by the scheduler"
            except distributed.comm.CommClosedError:
                raise
            except Exception as error:
                why = _reason(error)
            del self.tasks[future]
            yield task, marker, why
        if time.monotonic() - self.looked > LOOK:
            self.look()
            yield from self.overdue()

    def overdue(self) -> Iterator[tuple[ChunkTask, dict[str, Any] | None, str]]:
        """Tasks that do not end by themselves: their workers are started anew, twice at most."""
        now = time.monotonic()
        for future, (task, since, taken) in list(self.tasks.items()):
            # it may have waited for one task before it, or for two where threads share a worker
            if task.timeout is None or now - since < 3 * task.timeout + GRACE:
                continue
            client = self.cluster.client
            holders = [worker for worker, keys in client.processing().items()
                       if future.key in map(str, keys)]
            client.cancel([future], force=True)
            with suppress(Exception):
                client.restart_workers(holders, timeout=GRACE, raise_for_error=False)
            if taken < self.retries:
                self.send(task, taken + 1)
            del self.tasks[future]
            if taken >= self.retries:
                yield task, None, f"hangs: not done within {task.timeout:g} s"

    def cancel(self) -> None:
        with suppress(Exception):
            self.cluster.client.cancel(list(self.tasks))


def versions() -> dict[str, str]:
    """Facts that must be equal on all machines for equal numbers."""
    import numpy

    from nlink.backends.llvm.host import llvmlite
    from nlink.backends.llvm.loading import source_contents

    return {"nlink": nlink.__version__, "python": ".".join(map(str, sys.version_info[:2])),
            "numpy": numpy.__version__, "llvmlite": llvmlite.__version__,
            "source": source_contents()}


def _reason(error: BaseException | None) -> str:
    name = type(error).__name__
    if name == "KilledWorker":
        return "its workers died, one after the other (out of memory, or killed)"
    return f"{name}: {' '.join(str(error).split())}"


def _knock(address: str) -> None:
    """Raise what is wrong with an address at which nobody is: a client would try for long."""
    from distributed.comm.addressing import parse_address, parse_host_port

    scheme, place = parse_address(address)
    if scheme in ("tcp", "tls"):
        socket.create_connection(parse_host_port(place), timeout=CONNECT).close()


def _connected(address: str) -> Any:
    """A client of the scheduler at an address."""
    _knock(address)
    return _distributed().Client(address, timeout=CONNECT, set_as_default=False)


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """No messages of a logger within, but for critical ones."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ImportError("client: clusters need dask.distributed: pip install nlink[scale]"
                          ) from None
    return distributed
