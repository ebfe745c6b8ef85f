"""A leader and its helpers: who works, with which memory, and what is left behind."""

from __future__ import annotations

import contextlib
import ctypes
import threading

import pytest

from nlink.backends.llvm import team, threads


class Meeting:
    """A job for a team that several members do at once: who was there, with which memory."""

    def __init__(self, members: int) -> None:
        self.seen: list[tuple[int, int]] = []
        self._meet = threading.Barrier(members)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_int64,
                                *[ctypes.c_void_p] * 3, ctypes.c_int64)
        self._function = kind(self._come)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _come(self, ports, strides, count, data, scratch, taken, step):
        with contextlib.suppress(threading.BrokenBarrierError):
            self._meet.wait(20)
        self.seen.append((threading.get_ident(), scratch))


@pytest.mark.skipif(threads.cores() < 2, reason="needs two cores")
def test_a_leader_and_its_helper_work_at_once_with_memory_of_their_own():
    own, job = team.Team(), Meeting(2)
    for _ in range(3):  # a helper that sleeps, and one that waits
        assert own.lead((job.address, 0, 0, 0, 0, 0, 0), (64, 128))
    assert len(job.seen) == 6
    assert {(ident == threading.get_ident(), memory) for ident, memory in job.seen} == {
        (True, 64), (False, 128)}


def test_an_interrupted_leader_does_its_job_and_leaves_nothing_behind(monkeypatch):
    own, job = team.Team(), Meeting(1)

    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(team, "call_helpers", interrupt)
        with pytest.raises(KeyboardInterrupt):
            own.lead((job.address, 0, 0, 0, 0, 0, 0), (64, 128))
    assert job.seen == [(threading.get_ident(), 64)]
    assert not any(own._board)
    assert own.lead((job.address, 0, 0, 0, 0, 0, 0), (64,))


@pytest.mark.slow
def test_calls_of_helpers_that_are_busy_do_not_pile_up():
    release, job = threading.Event(), Meeting(1)
    threads.call_helpers(release.wait, threads.cores())
    try:
        own = team.Team()
        for _ in range(100):
            assert own.lead((job.address, 0, 0, 0, 0, 0, 0), (0,) * 9)
        assert threads._helpers.calls.qsize() <= threads.cores()
    finally:
        release.set()


def test_nobody_leads_where_somebody_does():
    own, answers = team.Team(), []

    class Nested(Meeting):
        def _come(self, *arguments):
            answers.append(own.lead((self.address, 0, 0, 0, 0, 0, 0), (0,)))

    assert own.lead((Nested(1).address, 0, 0, 0, 0, 0, 0), (0,))
    assert answers == [False]
