"""Memory of large results is used again once nobody refers to it, and never before."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

import nlink
from nlink.backends.llvm import reuse

DOUBLE = np.dtype(float)


@pytest.fixture(autouse=True)
def nothing_waits(monkeypatch):
    monkeypatch.setattr(reuse, "LARGE", 1 << 12)
    monkeypatch.setattr(reuse, "KEPT", 1 << 16)
    reuse._waiting.clear()
    yield
    gc.collect()
    reuse._waiting.clear()


def address(x):
    return x.__array_interface__["data"][0]


def test_a_block_waits_when_the_last_view_is_gone():
    x = reuse.empty((100, 10), DOUBLE)
    x[...] = 1.0
    place, part = address(x), x[3:5].T
    del x
    other = reuse.empty((100, 10), DOUBLE)
    assert address(other) != place
    other[...] = 2.0
    assert (part == 1.0).all()
    del part
    again = reuse.empty((90, 10), DOUBLE)
    assert address(again) == place
    assert again.shape == (90, 10)
    assert again.flags.c_contiguous
    assert again.flags.writeable


def test_small_arrays_are_numpys_and_too_large_blocks_do_not_wait():
    assert reuse.empty((3,), DOUBLE).flags.owndata
    del_me = reuse.empty((20_000,), DOUBLE)
    del del_me
    assert not reuse._waiting
    for _ in range(3):  # of one size each, more than may wait
        blocks = [reuse.empty((1000 + 100 * k,), DOUBLE) for k in range(20)]
        del blocks
        assert 0 < sum(x.nbytes for x in reuse._waiting.values()) <= reuse.KEPT
    tiny = reuse.empty((600,), DOUBLE)
    assert tiny.base.nbytes <= 2 * tiny.nbytes  # no large block for a small result


def test_threads_never_share_a_block():
    wrong = []

    def work(number):
        for _ in range(200):
            x = reuse.empty((700,), DOUBLE)
            x[...] = number
            y = x.copy()
            if not (x == y).all() or not (x == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_that_are_there_when_the_process_ends():
    code = ("import sys, numpy as np, nlink.backends.llvm.reuse as r\n"
            "x = r.empty((1 << 20,), np.dtype(float)); sys.held = x[5:]; np.held = x\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stderr


def test_results_of_a_method_do_not_change_when_it_is_called_again():
    robot = nlink.load("planar3")
    q = np.random.default_rng(0).normal(size=(20_000, 3))
    first = robot.mass_matrix(q)
    kept = first.copy()
    robot.mass_matrix(q + 1)
    np.testing.assert_array_equal(robot.mass_matrix(q), kept)
    np.testing.assert_array_equal(first, kept)
