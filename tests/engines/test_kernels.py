"""The memo of kernels: made once, kept in the owner, bounded, gone with it."""

import gc
import threading
import weakref

import numpy as np
import pytest

import nlink
from nlink.engines.kernels import MOST_KEPT, kept


class Owner:
    pass


@pytest.mark.slow
def test_robots_die_with_all_that_was_made_for_them():
    robot, like = nlink.load("planar3"), nlink.load("planar3")
    q = np.array([0.1, 0.2, 0.3])
    like.mass_matrix(q)  # a robot that stays, of the same kernel
    robot.mass_matrix(q)
    robot.velocity_ik(q, np.zeros(6))
    nlink.ik(robot, robot.pose(q), starts=2)
    nlink.parameter_derivatives(robot, "gravity_torque", (q,), "gravity")
    gone = weakref.ref(robot), weakref.ref(robot.mechanism)
    del robot
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_an_owner_keeps_the_newest_of_each_kind():
    owner = Owner()
    first = kept(owner, ("other", 0), object)
    for k in range(MOST_KEPT + 3):
        assert kept(owner, ("a", k), lambda k=k: k) == k
    newest = range(3, MOST_KEPT + 3)
    assert [kept(owner, ("a", k), object) for k in newest] == list(newest)
    assert kept(owner, ("a", 0), lambda: "made again") == "made again"
    assert kept(owner, ("other", 0), object) is first


def test_threads_get_the_same():
    owner, made, found = Owner(), [], []
    entered, go = threading.Event(), threading.Event()

    def make():
        entered.set()
        go.wait(10)
        made.append(object())
        return made[-1]

    threads = [threading.Thread(target=lambda: found.append(kept(owner, ("a",), make)))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    entered.wait(10)
    go.set()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert found == made * 3


def test_an_error_is_not_kept():
    owner = Owner()
    with pytest.raises(ZeroDivisionError):
        kept(owner, ("a",), lambda: 1 / 0)
    assert kept(owner, ("a",), lambda: 3) == 3
