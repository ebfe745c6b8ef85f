"""Threads: work that several share, and kernels that are made by one at a time.

`together` shares a batch between the calling thread and helpers that live as long as the
process. The caller works too, and takes whatever no helper has taken: at the exit of the
interpreter, in a forked child or where no thread can be started, it does all of it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

Job = Callable[[], None]

MAKING = threading.RLock()
"""Held while a kernel is made. LLVM runs in one thread at a time anyway; so who asks for a
kernel that is being made gets that one, and a fork waits until no lock of LLVM's is held."""


def cores() -> int:
    """The cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def together(jobs: Sequence[Job]) -> None:
    """Run all jobs, in this thread and in helpers; the first error is raised when all are done.

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
            for _ in range(_hire(len(jobs) - 1)):
                _helpers.calls.put(help_out)
            _work_off(todo)
        finally:
            todo.clear()
            while busy:
                left.get()
    if errors:
        raise errors[0]


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
            signal.signal(signal.SIGINT, self._keep)
            self._handler = handler

    def _keep(self, *arguments: Any) -> None:
        self._kept = arguments

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self._kept is not None:
                self._handler(*self._kept)


def _in_child() -> None:
    """A forked child has one thread, and a queue of its own."""
    global _helpers
    _helpers = _Helpers()
    MAKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=MAKING.acquire, after_in_parent=MAKING.release,
                        after_in_child=_in_child)
