"""Loops whose motion is given: `motion={"name of a loop": ...}`."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink import Robot
from nlink.testing import close_at_random


def closed(kind: str) -> Robot:
    """An arm of seven joints that a loop of a kind leaves mobile, whatever of it is given."""
    tree = nlink.load("panda").description
    return Robot(close_at_random(3, tree, [(7, 0)], [kind])).with_friction(dry=0.0, viscous=0.0)


def seen(robot: Robot, q):
    """Frame a seen from b, and the axis of b."""
    loop, = robot.description.loops
    a, b = (robot.pose(q, end.link) @ end.pose.matrix for end in (loop.of, loop.on))
    return np.linalg.inv(b) @ a, b[..., :3, 2]


def given(kind: str, angle: float, length: float):
    def place(t):
        x, y = angle + 0.1 * nlink.sin(3 * t), length + 0.1 * (1 - nlink.cos(2 * t))
        return [x, y] if kind == "cylindrical" else x

    return place


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["helical", "cylindrical"])
def test_what_is_given_happens_and_takes_the_power_that_the_loop_carries(kind):
    """qd . (M qdd + h) is the power of the wrench in the loop on what its frames do, and frame a
    is where it should be, seen from b."""
    robot = closed(kind)
    loop, = robot.description.loops
    home = seen(robot, robot.neutral)[0]
    angle, length = np.arctan2(home[1, 0], home[0, 0]), home[2, 3]
    if kind == "helical":  # whole turns count
        angle = length / loop.constraint.pitch
    motion = {loop.name: given(kind, angle, length)}
    run = nlink.simulate(robot, robot.neutral, t=0.4, every=0.1, motion=motion, rtol=1e-10)
    assert run.status == "done"
    assert run.closure_error.max() < 1e-12
    pitch = loop.constraint.pitch if kind == "helical" else 1.0
    x, y = angle + 0.1 * np.sin(3 * run.t), length + 0.1 * (1 - np.cos(2 * run.t))
    xd, yd = 0.3 * np.cos(3 * run.t), 0.2 * np.sin(2 * run.t)
    turn, slide = xd, xd * pitch if kind == "helical" else yd
    found, axis = seen(robot, run.q)
    np.testing.assert_allclose(found[:, :3, 3], np.outer(
        x * pitch if kind == "helical" else y, [0, 0, 1]), atol=1e-12)
    np.testing.assert_allclose(np.sin(x), found[:, 1, 0], atol=1e-12)
    state = np.concatenate([run.q, run.qd], axis=-1)
    qdd = nlink.System(robot, motion=motion).rates(run.t, state)[:, robot.nq:]
    power = (run.qd * robot.inverse_dynamics(run.q, run.qd, qdd)).sum(axis=-1)
    wrench = run.closure_forces[:, 0]
    carried = -((wrench[:, :3] * axis).sum(-1) * turn + (wrench[:, 3:] * axis).sum(-1) * slide)
    np.testing.assert_allclose(power, carried, atol=1e-9 * np.abs(wrench).max())


def test_a_hinge_of_a_linkage_that_is_turned_moves_its_crank(tmp_path):
    """As a motor at the crank would: the same motion takes the same power."""
    bar = nlink.load("four_bar")
    turned = {"pin": lambda t: bar.neutral @ [1, 1, -1] + 0.3 * nlink.sin(2 * t)}
    run = nlink.simulate(bar, t=1.0, every=0.1, motion=turned, method="dop853", rtol=1e-12)
    acceleration = nlink.System(bar, motion=turned).rates(
        run.t, np.concatenate([run.q, run.qd], axis=-1))[:, 3:]
    tau, _ = bar.loops.inverse_dynamics(run.q, run.qd, acceleration)
    power = -run.closure_forces[:, 0, 2] * 0.6 * np.cos(2 * run.t)
    np.testing.assert_allclose(tau[:, 0] * run.qd[:, 0], power, atol=1e-10)
    assert not run.tau.any()
    loaded = nlink.load_run(run.save(tmp_path / "turned.npz"))
    assert np.array_equal(loaded.q, run.q)
    with pytest.raises(ValueError, match="closure_error: a run from a file"):
        _ = loaded.closure_error


def test_wrenches_in_loops_are_known_where_friction_holds_or_wrenches_act():
    """At rest they balance what all forces do; a push is one of them."""
    bar = nlink.load("four_bar")
    push = np.array([0, 0, 0.2, 1.0, 2.0, 0])
    pushed = nlink.simulate(bar, t=0.2, every=0.1, f_ext={"rocker": push})
    f_ext = np.zeros((3, len(bar.links), 6))
    f_ext[:, [link.name for link in bar.links].index("rocker")] = push
    right = bar.loops.forces(pushed.q, pushed.qd, pushed.tau, f_ext)
    np.testing.assert_allclose(pushed.closure_forces, right, atol=1e-9)
    stuck = nlink.simulate(bar.with_friction(dry={"crank": 20.0}), t=0.2, every=0.1)
    still = bar.loops.inverse_dynamics(stuck.q, 0 * stuck.qd, 0 * stuck.qd)
    np.testing.assert_allclose(stuck.closure_forces, still[1], atol=1e-9)


def test_motions_that_loops_cannot_have_are_refused():
    box = nlink.load("two_arms_box")
    name = box.description.loops[0].name
    with pytest.raises(ValueError, match=f"motion: the loop {name!r} is fixed, expected one of"):
        nlink.simulate(box, t=0.1, motion={name: 0.1})
    bar = nlink.load("four_bar")
    with pytest.raises(ValueError, match="'pin': rate, expected a place"):
        nlink.simulate(bar, t=0.1, motion={"pin": nlink.Prescribed(rate=1.0)})
    with pytest.raises(ValueError, match=r"motion: the loop 'pin' is open by .* where pin start"):
        nlink.simulate(bar, t=0.1, motion={"pin": 3.1})
    with pytest.raises(ValueError, match=r"motion: the loops open with .* beside crank, pin"):
        nlink.simulate(bar, t=0.1, motion={"crank": bar.neutral[0], "pin": (
            lambda t: bar.neutral @ [1, 1, -1] + t)})
