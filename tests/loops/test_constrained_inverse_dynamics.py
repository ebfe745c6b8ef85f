"""Joint forces for a motion of a mechanism with loops: what motors do, and what is left free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kkt import Dense, relative

import nlink
from nlink import Robot
from nlink.testing.closed import random_closed_robot

BUNDLED = ("four_bar", "slider_crank", "two_arms_box",
           pytest.param("stewart", marks=pytest.mark.slow))


def motion(robot: Robot, seed: int):
    """A closed state and an acceleration that keeps it closed: some motors pull at random."""
    rng, q = np.random.default_rng(seed), robot.neutral
    if seed:
        q = robot.loops.assemble(robot.integrate(q, rng.normal(size=robot.n) * 0.1))
    qd = Dense(robot).closed_rates(q, rng.normal(size=robot.n))
    tau = np.where(robot.loops.actuated, rng.normal(size=robot.n) * 10, 0.0)
    return q, qd, robot.forward_dynamics(q, qd, tau), tau


@pytest.fixture(scope="module", params=BUNDLED)
def robot(request):
    return nlink.load(request.param)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_forward_dynamics_undoes_inverse_dynamics(robot, seed):
    q, qd, qdd, given = motion(robot, seed)
    tau, forces = robot.loops.inverse_dynamics(q, qd, qdd)
    assert (tau[~robot.loops.actuated] == 0).all()
    assert relative(robot.forward_dynamics(q, qd, tau), qdd) < 1e-9
    assert relative(robot.loops.forces(q, qd, tau), forces) < 1e-8
    assert np.linalg.norm(tau) <= np.linalg.norm(given) * (1 + 1e-9)


@pytest.mark.slow
def test_joint_forces_are_the_shortest():
    """Any other that makes the same motion, through squeezing, is longer."""
    arms = nlink.load("two_arms_box")
    q, qd, qdd, _ = motion(arms, 1)
    tau, _ = arms.loops.inverse_dynamics(q, qd, qdd)
    J, motors = arms.loops.jacobian(q), arms.loops.actuated
    _, s, Vt = np.linalg.svd(J[:, ~motors].T)
    squeezes = Vt[(s > 1e-9).sum():]  # multipliers that passive joints do not feel
    assert len(squeezes) == 6
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = tau + J.T @ (squeezes.T @ rng.normal(size=6))
        assert np.abs(other[~motors]).max() < 1e-9
        assert relative(arms.forward_dynamics(q, qd, other), qdd) < 1e-8
        assert np.linalg.norm(other) > np.linalg.norm(tau)
        assert abs(tau @ (other - tau)) < 1e-8 * (other @ other)


@pytest.mark.slow
def test_chosen_internal_forces_are_met():
    """A squeeze that the object does not feel is there, on top of what the motion needs."""
    arms = nlink.load("two_arms_box")
    q, qd, qdd, _ = motion(arms, 1)
    J, motors = arms.loops.jacobian(q), arms.loops.actuated
    _, plain = arms.loops.inverse_dynamics(q, qd, qdd, internal=np.zeros((2, 6)))
    _, s, Vt = np.linalg.svd(J[:, ~motors].T)
    squeeze = arms.loops.wrenches(q, Vt[(s > 1e-9).sum():][0] * 50)
    tau, forces = arms.loops.inverse_dynamics(q, qd, qdd, internal=squeeze)
    assert relative(arms.forward_dynamics(q, qd, tau), qdd) < 1e-9
    assert forces - plain == pytest.approx(squeeze, abs=1e-7)


@pytest.mark.slow
def test_wrenches_of_multipliers_do_the_work_of_the_rows():
    """What `of` does to `on` is minus the wrench of the multipliers on `of`: J^T lambda."""
    arms = nlink.load("two_arms_box")
    q, qd, qdd, _ = motion(arms, 2)
    tau, forces = arms.loops.inverse_dynamics(q, qd, qdd)
    total = arms.tree.inverse_dynamics(q, qd, qdd) - tau  # J^T lambda
    by_hand = np.zeros(arms.n)
    for loop, wrench in zip(arms.description.loops, forces, strict=True):
        of, on = (arms.tree.jacobian(q, end.link) for end in (loop.of, loop.on))
        place = arms.tree.pose(q, loop.of.link)
        at = place[:3, 3] + place[:3, :3] @ loop.of.pose.p
        for J, link, side in ((of, loop.of.link, -1), (on, loop.on.link, 1)):
            arm = at - arms.tree.pose(q, link)[:3, 3]
            moment = wrench[:3] + np.cross(arm, wrench[3:])
            by_hand += side * J.T @ np.r_[moment, wrench[3:]]
    assert by_hand == pytest.approx(total, abs=1e-8 * np.abs(total).max())


@pytest.mark.slow
def test_internal_wrenches_have_no_resultant_on_the_object():
    for name, arms in (("box", nlink.load("two_arms_box")),
                       ("object", random_closed_robot(3, arms=3, joints=6, types=[
                           "fixed", "soft_finger", "spherical"]))):
        rng, q = np.random.default_rng(0), arms.neutral
        held = arms.loops.wrenches(q, rng.normal(size=len(arms.loops.rows)))
        inner = arms.loops.internal(q, held, name)
        rest = held - inner
        size = np.abs(held).max()
        assert np.abs(resultant(arms, q, inner, name)).max() < 1e-12 * size
        assert resultant(arms, q, rest, name) == pytest.approx(
            resultant(arms, q, held, name), abs=1e-12 * size)
        assert arms.loops.internal(q, inner, name) == pytest.approx(inner, abs=1e-11 * size)
        assert np.abs(arms.loops.internal(q, rest, name)).max() < 1e-11 * size


def resultant(arms: Robot, q, wrenches, link: str) -> np.ndarray:
    """Of what loops do to a link, about its origin, world axes."""
    centre, number = arms.pose(q, link)[:3, 3], 1 + [x.name for x in arms.links].index(link)
    total = np.zeros(6)
    for loop, wrench in zip(arms.description.loops, wrenches, strict=True):
        place = arms.pose(q, loop.of.link)
        arm = place[:3, 3] + place[:3, :3] @ loop.of.pose.p - centre
        side = 1 if loop.on.link == number else -1
        total += side * np.r_[wrench[:3] + np.cross(arm, wrench[3:]), wrench[3:]]
    return total


@pytest.mark.parametrize("name", BUNDLED)
def test_some_rates_and_accelerations_complete_the_motion(name):
    """Those of the independent joints, or of the object, of a motion that is known."""
    robot = nlink.load(name)
    q, qd, qdd, _ = motion(robot, 1)
    some = {"four_bar": ["crank"], "slider_crank": ["piston"], "two_arms_box": ["box"],
            "stewart": [f"ram{k}" for k in range(1, 7)]}[name]
    at = {joint: robot.loops.rates_of("rates", joint) for joint in some}
    rates, accelerations = ({joint: x[place] for joint, place in at.items()} for x in (qd, qdd))
    found = robot.loops.complete(q, rates, accelerations)
    assert relative(found[0], qd) < 1e-9
    assert relative(found[1], qdd) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four_bar", "two_arms_box"])
def test_wrenches_on_links_are_borne(name):
    """Forward dynamics with the same wrenches has the motion back."""
    robot = nlink.load(name)
    q, qd, qdd, _ = motion(robot, 1)
    f_ext = np.random.default_rng(0).normal(size=(len(robot.links), 6)) * 5
    tau, forces = robot.loops.inverse_dynamics(q, qd, qdd, f_ext=f_ext)
    assert (tau[~robot.loops.actuated] == 0).all()
    assert relative(robot.forward_dynamics(q, qd, tau, f_ext), qdd) < 1e-9
    assert relative(robot.loops.forces(q, qd, tau, f_ext), forces) < 1e-8
    assert relative(tau, robot.loops.inverse_dynamics(q, qd, qdd)[0]) > 1e-3


@pytest.mark.slow
def test_every_state_of_a_batch_has_its_own_squeeze():
    arms = nlink.load("two_arms_box")
    q, qd, qdd = (np.array(x) for x in zip(*(motion(arms, k)[:3] for k in (1, 2)), strict=True))
    squeezes = np.random.default_rng(0).normal(size=(2, 2, 6)) * 20
    tau, forces = arms.loops.inverse_dynamics(q, qd, qdd, internal=squeezes)
    for k in range(2):
        alone = arms.loops.inverse_dynamics(q[k], qd[k], qdd[k], internal=squeezes[k])
        assert np.array_equal(tau[k], alone[0])
        assert np.array_equal(forces[k], alone[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four_bar", "two_arms_box"])
def test_closed_states_are_known_from_open_ones(name):
    robot = nlink.load(name)
    rng = np.random.default_rng(0)
    q, qd = robot.random_state(rng, (5,))
    aside = robot.integrate(q, 0.01 * rng.normal(size=(5, robot.n)))
    faster = qd + 0.01 * rng.normal(size=(5, robot.n))
    assert robot.loops.closed(q, qd).all()
    assert robot.loops.closed(q, 0 * qd).all()
    assert not robot.loops.closed(aside).any()
    assert not robot.loops.closed(q, faster).any()
    assert robot.loops.closed(q[0]).shape == ()


def test_batches_are_single_calls():
    bar = nlink.load("four_bar")
    motions = [motion(bar, seed)[:3] for seed in range(4)]
    q, qd, qdd = (np.array(x) for x in zip(*motions, strict=True))
    tau, forces = bar.loops.inverse_dynamics(q, qd, qdd)
    assert tau.shape == (4, 3)
    assert forces.shape == (4, 1, 6)
    for k in range(4):
        alone = bar.loops.inverse_dynamics(q[k], qd[k], qdd[k])
        assert np.array_equal(alone[0], tau[k])
    q[2, 0] = np.nan
    tau2, forces2 = bar.loops.inverse_dynamics(q, qd, qdd)
    assert np.isnan(tau2[2]).all()
    assert np.isnan(forces2[2]).all()
    assert np.array_equal(np.delete(tau2, 2, 0), np.delete(tau, 2, 0))


def test_what_motors_cannot_do_is_refused():
    d = nlink.load("four_bar").description
    idle = Robot(replace(d, joints=tuple(replace(j, actuated=False) for j in d.joints)))
    still = np.zeros(3)
    with pytest.raises(ValueError, match=r"qdd: the motors cannot make this .* has none, and"):
        idle.loops.inverse_dynamics(idle.neutral, still, still)
    falling = idle.forward_dynamics(idle.neutral, still, still)
    tau, _ = idle.loops.inverse_dynamics(idle.neutral, still, falling)
    assert (tau == 0).all()


def test_a_motion_that_opens_loops_is_refused():
    bar = nlink.load("four_bar")
    with pytest.raises(ValueError, match="qdd: opens the loop 'pin' with an acceleration of"):
        bar.loops.inverse_dynamics(bar.neutral, np.zeros(3), [1.0, 0.0, 0.0])


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: x.inverse_dynamics(x.robot.neutral, np.zeros(3), np.zeros(3), internal=[1.0]),
     r"internal: shape \(1,\), expected \(..., 1, 6\)"),
    (lambda x: x.inverse_dynamics(x.robot.neutral, np.zeros(3), np.zeros(3),
                                  internal=np.full((1, 6), np.nan)),
     "internal: contains a number that is not finite"),
    (lambda x: x.inverse_dynamics(x.robot.neutral, np.zeros(3), np.zeros(3), f_ext=[1.0]),
     r"f_ext: shape \(1,\), expected \(..., 3, 6\)"),
    (lambda x: x.inverse_dynamics(np.add(x.robot.neutral, [0.1, 0, 0]), np.zeros(3), np.zeros(3)),
     "^q: the loop 'pin' is open by .* m, expected a closed configuration"),
    (lambda x: x.inverse_dynamics(x.robot.neutral, [1.0, 0, 0], np.zeros(3)),
     "^qd: the loop 'pin' opens with .* m/s, expected J qd = 0"),
    (lambda x: x.complete(np.add(x.robot.neutral, [0.1, 0, 0]), {"crank": 1.0}),
     "^q: the loop 'pin' is open by .* m, expected a closed configuration"),
    (lambda x: x.internal(x.robot.neutral, np.zeros((2, 6)), "rocker"),
     r"wrenches: shape \(2, 6\), expected \(1, 6\)"),
    (lambda x: x.internal(x.robot.neutral, np.zeros((1, 6)), "table"),
     "link: 'table', expected one of crank, coupler, rocker"),
    (lambda x: x.internal(x.robot.neutral, np.zeros((1, 6)), "crank"),
     "link: no loop holds 'crank'"),
    (lambda x: x.wrenches(x.robot.neutral, [1.0, 2.0]),
     r"multipliers: shape \(2,\), expected \(..., 5\)"),
    (lambda x: x.multipliers(x.robot.neutral, np.zeros((3, 6))),
     r"wrenches: shape \(3, 6\), expected \(1, 6\)"),
    (lambda x: x.complete(x.robot.neutral, {}), "rates: .* leave 1 freedoms open"),
    (lambda x: x.complete(x.robot.neutral, {"pin": 1.0}), "rates: 'pin', expected joints that"),
    (lambda x: x.complete(x.robot.neutral, {"crank": 1.0, "rocker": 5.0}),
     "rates: no motion that keeps the loop 'pin' closed has these"),
    (lambda x: x.complete(x.robot.neutral, {"crank": np.nan}), "rates: crank: contains a number"),
    (lambda x: x.complete(x.robot.neutral, {"crank": [1.0, 2.0]}),
     r"rates: crank: shape \(2,\), expected \(1,\)"),
    (lambda x: x.complete(x.robot.neutral, {"crank": 1.0}, {"rocker": 1.0}),
     "accelerations: of rocker, expected of the joints whose rates are given, crank"),
    (lambda x: x.assemble(keep="crank"), "keep: 'crank', expected a sequence of names"),
    (lambda x: x.assemble("abc"), "guess: dtype <U3 does not convert to float64 safely"),
    (lambda x: x.internal([0.0], np.zeros((1, 6)), "crank"), r"q: shape \(1,\), expected \(3,\)"),
])
def test_wrong_arguments_are_named(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call(nlink.load("four_bar").loops)
