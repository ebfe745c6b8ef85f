"""Threads: work that several share, and kernels that are made by one at a time.

`together` shares jobs between the calling thread and helpers that live as long as the process;
parts of a batch reach them faster (`team`). The caller works too, and takes whatever no helper has
taken: at the exit of the interpreter, in a forked child or where no thread can be started, it does
all of it. Whether that is worth it is measured: see `Trials`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

Job = Callable[[], None]

MAKING = threading.RLock()
"""Held while a kernel is made. LLVM runs in one thread at a time anyway; so who asks for a
kernel that is being made gets that one, and a fork waits until none is being made."""
FORK_WAITS_FOR: list[Any] = [MAKING]
"""Locks that nobody else may hold when the process forks, in the order in which they are taken."""


def cores() -> int:
    """The cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


_most_threads: int | None = None


def threads(n: int | None = None) -> int:
    """The maximum number of threads that share a batch or an ensemble; `n` sets it from now on.

    If never set, it is the environment variable `NLINK_THREADS`, else one for each core.

    >>> import nlink
    >>> before = nlink.threads()
    >>> nlink.threads(1), nlink.threads(before) == before
    (1, True)
    """
    global _most_threads
    if n is not None:
        _most_threads = checked(n)
    return _most_threads or _threads_of_environment() or cores()


def checked(n: Any) -> int:
    """A number of threads, if it is one."""
    if isinstance(n, bool) or not hasattr(n, "__index__") or int(n) < 1:
        raise ValueError(f"threads: {n!r:.80}, expected a whole number of at least 1")
    return int(n)


def _threads_of_environment() -> int:
    text = os.environ.get("NLINK_THREADS", "")
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(f"NLINK_THREADS: {text!r:.80}, expected a whole number of at least 1")
    return int(text or 0)


class Trials:
    """Whether several threads have been faster than one, for work of about one size.

    The slower way is tried again now and then: cores that were busy may be free.
    """

    AGAIN = 64
    FIRST = 3
    """How often each way is tried before they are compared: the first call may be disturbed."""
    GAIN = 0.9
    """The part of one thread's time that several may take."""

    def __init__(self) -> None:
        self._seconds = [0.0, 0.0]
        self._tries = [0, 0]
        self._calls = 0

    def several(self) -> bool:
        """Whether the next call should wake others."""
        one, more = self._seconds
        self._calls += 1
        if min(self._tries) < self.FIRST:
            return self._tries[True] <= self._tries[False]
        return (more < self.GAIN * one) != (self._calls % self.AGAIN == 0)

    def learn(self, *, several: bool, seconds: float) -> None:
        """A faster call counts at once, a slower one in part: it may have been disturbed."""
        known = self._seconds[several]
        self._tries[several] += 1
        slower = known and seconds > known
        self._seconds[several] = known + (seconds - known) / 8 if slower else seconds


def together(jobs: Sequence[Job], most: int | None = None) -> None:
    """Run all jobs, in this thread and in helpers; the first error is raised when all are done.

    `most` limits the threads, this one included, if there are more jobs than that.

    Whatever happens, no job runs after this has returned: Ctrl-C is kept back until then. A
    job owns the memory it writes to, in case the handler of another signal raises.
    """
    todo, busy, left = deque(jobs), list[None](), SimpleQueue[None]()
    errors: list[BaseException] = []

    def help_out() -> None:
        busy.append(None)  # first: when `todo` and then `busy` are empty, nobody takes a job
        try:
            _work_off(todo)
        except BaseException as error:
            errors.append(error)
        finally:
            busy.pop()
            left.put(None)

    with InterruptKeptBack():
        try:
            call_helpers(help_out, min(len(jobs), most or len(jobs)) - 1)
            _work_off(todo)
        finally:
            todo.clear()
            while busy:
                left.get()
    if errors:
        raise errors[0]


def call_helpers(job: Job, count: int, *, idle: bool = False) -> None:
    """Have so many helpers do a job each, as soon as they can; nobody waits for them. With `idle`,
    calls that nobody has answered yet count, too."""
    for _ in range(_hire(count) - (_helpers.calls.qsize() if idle else 0)):
        _helpers.calls.put(job)


def _work_off(todo: deque[Job]) -> None:
    while True:
        try:
            job = todo.popleft()
        except IndexError:
            return
        job()


class _Helpers:
    """Threads that wait for calls. They are daemons: they outlive every other thread."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Job] = SimpleQueue()
        self.count = 0


_helpers = _Helpers()


def _hire(wanted: int) -> int:
    """Start helpers until there are as many as wanted; how many will do."""
    wanted = min(wanted, cores())
    while _helpers.count < wanted:
        try:
            threading.Thread(target=_serve, args=(_helpers.calls,), name="nlink",
                             daemon=True).start()
        except RuntimeError:  # no more threads: the system has none, or Python is at its end
            break
        _helpers.count += 1
    return min(wanted, _helpers.count)


def _serve(calls: SimpleQueue[Job]) -> None:
    while True:
        calls.get()()


class InterruptKeptBack:
    """While it lasts, Ctrl-C waits: its handler is called at the end."""

    def __enter__(self) -> None:
        self._handler: Any = None
        self._kept: tuple[Any, ...] | None = None
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            with suppress(ValueError):  # a subinterpreter, which no signal interrupts
                signal.signal(signal.SIGINT, self._keep)
                self._handler = handler

    def _keep(self, *arguments: Any) -> None:
        self._kept = arguments

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self._kept is not None:
                self._handler(*self._kept)


_held_for_fork: list[Any] = []


def _before_fork() -> None:
    for lock in tuple(FORK_WAITS_FOR):
        lock.acquire()
        _held_for_fork.append(lock)


def _after_fork() -> None:
    while _held_for_fork:
        _held_for_fork.pop().release()


def _in_child() -> None:
    """A forked child has one thread, and a queue of its own."""
    global _helpers
    _helpers = _Helpers()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork,
                        after_in_child=_in_child)
