"""States of float32: rates in float32, around them the same steps in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.bench.bench_robots import random_arm
from nlink.simulation import PD, Sampled
from nlink.testing import random_robot

EPS = float(np.finfo(np.float32).eps)
FIXED = {"t": 0.2, "every": 0.05, "step": 2e-3}


def states(robot, count, speed=0.3, seed=0):
    """Random states that float32 has exactly, in both types."""
    q, qd = robot.random_state(np.random.default_rng(seed), (count,))
    narrow = q.astype(np.float32), (speed * qd).astype(np.float32)
    return narrow, [x.astype(float) for x in narrow]


def limited_arm():
    """Two joints whose motion ends at 0.4 rad."""
    bar = nlink.load("planar3").description
    joints = tuple(replace(joint, limits=nlink.Limits((-0.4, 0.4))) for joint in bar.joints)
    return nlink.Robot(replace(bar, joints=joints))


def pulled(t, q, qd):
    return [nlink.sin(3.0 * t), 0.0, -0.2 * q[0], 0.0, 0.0, -0.1 * qd[0]]


def cases():
    planar, panda = nlink.load("planar3"), nlink.load("panda")
    rough = planar.with_friction(dry=0.5, viscous=0.1)
    yield "fall", panda, {"method": "rk4"}
    yield "euler", panda, {"method": "semi_implicit"}
    yield "joints of all kinds", random_robot(5, 6), {"friction": "smooth", "width": 0.1}
    yield "quaternions", random_robot(3, 4, types=("free", "spherical"), friction=False), {}
    yield "dry friction", rough, {}
    yield "friction in steps", rough, {"method": "semi_implicit"}
    yield "limits that hold", limited_arm(), {"limits": "hold", "t": 0.5, "every": 0.1}
    yield "sampled", planar, {"tau": Sampled(PD(planar, [0.1] * 3, 5.0, 0.5), 0.01)}
    yield "masses", panda, {"vary": {"payload": np.linspace(0.0, 2.0, 20)}}
    yield "wrench", planar, {"f_ext": {"link3": pulled}}
    yield "given motion", planar, {"motion": {"joint2": lambda t: 0.1 * nlink.sin(t)}}
    yield "closed chain", nlink.load("four_bar"), {"rest": True}
    yield "rolled chain", random_arm(60), {"rest": True, "step": 1e-3, "t": 0.02, "every": 0.01}


@pytest.mark.parametrize(("robot", "options"), [pytest.param(robot, options, id=name)
                                                for name, robot, options in cases()])
def test_motions_are_those_of_float64_to_rounding(robot, options):
    options = {"method": "rk4"} | FIXED | options
    narrow, wide = states(robot, 20)
    if options.pop("rest", False):  # near a state whose loops are closed, and that moves slowly
        narrow, wide = states(robot, 20, 0.0)
        q = np.repeat(robot.neutral[None].astype(np.float32), 20, axis=0)
        narrow, wide = (q, narrow[1]), [q.astype(float), wide[1]]
    run, exact = (nlink.simulate(robot, *each, **options) for each in (narrow, wide))
    assert run.q.dtype == run.qd.dtype == np.float32
    assert exact.q.dtype == np.float64
    assert (run.status == exact.status).all()
    size = 1.0 + max(np.abs(exact.q).max(), np.abs(exact.qd).max())
    difference = max(np.abs(run.q - exact.q).max(), np.abs(run.qd - exact.qd).max())
    assert 0 < difference < 2000 * EPS * size
    if exact.log is not None:
        assert repr(run.events) == repr(exact.events)  # as many of each kind


def test_a_trajectory_has_the_same_bits_alone_in_company_and_on_threads():
    robot = nlink.load("ur5")
    (q, qd), _ = states(robot, 37)
    whole = nlink.simulate(robot, q, qd, method="rk4", **FIXED, threads=2)
    again = nlink.simulate(robot, q, qd, method="rk4", **FIXED, threads=1)
    assert np.array_equal(whole.q, again.q)
    for k in (0, 17, 36):
        alone = nlink.simulate(robot, q[k], qd[k], method="rk4", **FIXED)
        assert alone.q.dtype == np.float32
        assert np.array_equal(alone.q, whole.q[k])
        assert np.array_equal(alone.qd, whole.qd[k])


def test_steppers_of_float32_take_the_steps_of_simulate():
    robot = nlink.load("planar3")
    (q, qd), _ = states(robot, 19)
    held = Sampled(lambda t, q, qd: [-0.5 * x for x in qd], 0.01)
    run = nlink.simulate(robot, q, qd, 0.1, held, "rk4", step=0.01)
    world = nlink.Stepper(robot, q, qd, step=0.01)
    for k in range(10):
        assert world.q.dtype == world.qd.dtype == np.float32
        np.testing.assert_allclose(world.q, run.q[:, k], atol=20 * EPS)
        world.step(-0.5 * world.qd)
    np.testing.assert_allclose(world.q, run.q[:, -1], atol=20 * EPS)
    world.reset(0)
    assert np.array_equal(world.q[0], q[0])


def test_small_steps_are_not_lost():
    """A state of float32 forgets increments below 6e-8 of it: here all of them together."""
    robot = nlink.load("planar3").with_gravity((0, 0, 0))
    q, qd = np.float32([1.0, 0.0, 0.0]), np.float32([1e-5, 0.0, 0.0])
    run = nlink.simulate(robot, q, qd, 1.0, method="rk4", step=1e-3, every=0.5)
    assert run.q[-1, 0] == np.float32(1.0 + 1e-5)


@pytest.mark.parametrize("how", [
    {"method": "rkf45"}, {"method": "symplectic", "step": 0.01}, {"method": "rodas5p"},
    {"method": "rk4", "tau": np.zeros((3, 2), np.float32)},
    {"method": "rk4", "sensitivities": "q0"},
    {"method": "rk4", "tau": lambda t, q, qd: -qd, "traced": False}],
    ids=lambda how: "-".join([how["method"], *list(how)[1:]]))
def test_what_stays_in_float64_has_its_bits(how):
    robot = nlink.load("double_pendulum")
    narrow, wide = states(robot, 3)
    run, exact = (nlink.simulate(robot, *each, t=0.02, **how) for each in (narrow, wide))
    assert run.q.dtype == np.float64
    assert np.array_equal(run.q, exact.q)


def test_one_array_of_float64_widens_all():
    robot = nlink.load("double_pendulum")
    (q, qd), (_, wide) = states(robot, 3)
    assert nlink.simulate(robot, q, wide, 0.02, method="rk4").q.dtype == np.float64
    assert nlink.simulate(robot, q, qd, 0.02, method="rk4").q.dtype == np.float32
    assert nlink.Stepper(robot, q, wide).q.dtype == np.float64


def test_files_keep_what_was_integrated(tmp_path):
    robot = nlink.load("double_pendulum")
    (q, qd), wide = states(robot, 3)
    options = {"t": 0.1, "method": "rk4", "step": 0.01}
    saved = nlink.simulate(robot, q, qd, save=tmp_path / "a.npz", **options)
    assert saved.q.dtype == np.float64
    assert np.array_equal(saved.q.astype(np.float32), nlink.simulate(robot, q, qd, **options).q)
    for name in ("c.npz", "c.zarr"):
        run = nlink.simulate(robot, q, qd, **options)
        again = nlink.load_run(run.save(tmp_path / name))
        assert again.q.dtype == np.float64
        assert np.array_equal(again.q, run.q)
    other = nlink.simulate(robot, *wide, save=tmp_path / "b.npz", **options)
    assert not np.array_equal(other.q, saved.q)
