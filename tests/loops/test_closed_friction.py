"""Dry friction and limits that hold, in mechanisms with loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink import Robot


@pytest.fixture(scope="module")
def bar():
    return nlink.load("four_bar").with_friction(dry={"crank": 0.8})


@pytest.fixture(scope="module")
def start(bar):
    return bar.loops.assemble(bar.neutral + np.array([0.9, 0, 0]), keep=["crank"])


@pytest.fixture(scope="module")
def swing(bar, start):
    return nlink.simulate(bar, start, t=8.0, every=0.04)


def test_a_linkage_swings_until_it_sticks(bar, swing):
    """Energy never rises, the loops stay closed, and at rest nothing moves any more; while the
    crank moves its friction is what the powers of all forces need."""
    assert (np.diff(swing.energy) <= 1e-12).all()
    assert swing.closure_error.max() < 1e-12
    assert swing.qd[-1, 0] == 0
    assert swing.modes[-1, 0] == 0
    assert np.abs(swing.qd[-1]).max() < 1e-15
    assert swing.events.names[swing.events.which[-1]] == "crank sticks"
    moving = swing.modes[:, 0] != 0
    spent = np.trapezoid(0.8 * np.abs(swing.qd[moving, 0]), swing.t[moving])
    lost = swing.energy[moving][0] - swing.energy[moving][-1]
    assert abs(spent - lost) < 5e-3 * lost


@pytest.mark.slow
def test_it_is_the_limit_of_smooth_friction(bar, start, swing):
    """The difference is as large as the width of tanh."""
    far = [np.abs(nlink.simulate(bar, start, t=3.0, every=0.04, friction="smooth", width=w).q
                  - swing.q[:76]).max() for w in (1e-2, 1e-3)]
    assert far[1] < 0.2 * far[0] < 0.01


def test_steps_of_semi_implicit_euler_stick_too(bar, start, swing):
    run = nlink.simulate(bar, start, t=8.0, every=0.4, method="semi_implicit", step=1e-3)
    np.testing.assert_allclose(run.q, swing.q[::10], atol=0.02)
    assert run.qd[-1, 0] == 0
    assert (np.diff(run.energy) <= 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkf45", "semi_implicit"])
@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_a_limit_holds_a_linkage(bar, start, method, restitution):
    """The rocker stops at its limit, the others with it, and leaves it again with less energy."""
    joints = list(bar.description.joints)
    joints[2] = replace(joints[2], limits=replace(joints[2].limits, position=(-9.0, 2.3)))
    robot = Robot(replace(bar.description, joints=tuple(joints))).with_friction(dry=0.0)
    run = nlink.simulate(robot, start, t=5.0, every=0.02, limits="hold", restitution=restitution,
                         method=method, step=None if method == "rkf45" else 1e-3)
    assert run.status == "done"
    assert run.q[:, 2].max() <= 2.3 + 1e-12
    assert run.q[-1, 2] == pytest.approx(2.3, abs=1e-12)
    assert np.abs(run.qd[-1]).max() < 1e-9
    assert (np.diff(run.energy) <= 1e-7).all()
    assert run.closure_error.max() < 1e-12


def test_friction_that_loops_leave_undetermined_is_refused(bar):
    rough = bar.with_friction(dry={"rocker": 0.5})
    with pytest.raises(ValueError, match=r"friction: 'dry' of rocker, which loops tie to crank"):
        nlink.simulate(rough, t=0.1)
    with pytest.raises(ValueError, match=r"'dry' of crank, which loops tie to the given motion"):
        nlink.simulate(bar, t=0.1, motion={"rocker": bar.neutral[2]})
