"""Ensembles over mechanisms and controllers are the single runs of robots changed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.bench.bench_robots import random_arm
from nlink.iterations.methods import METHODS
from nlink.model.description import Frame, Friction
from nlink.model.pose import Pose
from nlink.simulation import PD, ComputedTorque, Cycloid, OperationalSpace, Payload, PDGravity
from nlink.testing import random_robot

PUMA = nlink.load("puma560").sub("base", "link3")
"""The arm without its hand: every joint more makes code that is longer."""
TARGET = np.array([0.5, -0.8, 0.6])
OPTIONS = {"t": 0.5, "every": 0.05, "method": "dop853", "rtol": 1e-11, "atol": 1e-13}


def tooled() -> nlink.Robot:
    """The PUMA with a frame askew on its last link."""
    c, s = np.cos(0.3), np.sin(0.3)
    tool = Frame("tool", 3, Pose(((c, -s, 0), (s, c, 0), (0, 0, 1)), (0.05, -0.02, 0.1)))
    return nlink.Robot(replace(PUMA.description, frames=(tool,)))


def loaded(robot: nlink.Robot, frame: str, mass: float, com, inertia) -> nlink.Robot:
    """The robot with a link fixed in a frame: what a payload means, said in the description."""
    text = robot.description
    place = next(f for f in text.frames if f.name == frame)
    link = nlink.Link("load", mass, tuple(com), tuple(map(tuple, inertia)))
    joint = nlink.Joint("grip", nlink.Fixed(), parent=place.link, placement=nlink.Mount(place.pose))
    return nlink.Robot(replace(text, links=(*text.links, link), joints=(*text.joints, joint)))


def rubbed(robot: nlink.Robot, viscous, coulomb) -> nlink.Robot:
    text = robot.description
    joints = tuple(replace(joint, friction=Friction(float(v), float(c))) for joint, v, c in zip(
        text.joints, viscous, coulomb, strict=True))
    return nlink.Robot(replace(text, joints=joints))


@pytest.mark.slow
@pytest.mark.parametrize("method", [
    "dop853", "abm", pytest.param("symplectic", marks=pytest.mark.slow)])
def test_payloads_are_links_fixed_in_the_frame(method):
    robot, rng = tooled(), np.random.default_rng(0)
    q0, qd0 = robot.random_state(0, (3,))
    masses = np.array([0.0, 1.0, 4.0])
    com = rng.normal(scale=0.05, size=(3, 3))
    half = rng.normal(scale=0.05, size=(3, 3, 3))
    square = half @ half.transpose(0, 2, 1)
    inertia = np.trace(square, axis1=1, axis2=2)[:, None, None] * np.eye(3) - square
    inertia[0] = 0.0
    options = OPTIONS | {"method": method} | (
        {"step": 0.001} if method == "symplectic" else {})
    run = nlink.simulate(robot, q0, qd0, vary={
        "payload": Payload(masses, com, inertia, "tool")}, **options)
    assert run.ok
    for k in range(3):
        alone = nlink.simulate(loaded(robot, "tool", masses[k], com[k], inertia[k]), q0[k],
                               qd0[k], **options)
        assert np.abs(run.q[k] - alone.q).max() <= 1e-9
        assert np.abs(run.qd[k] - alone.qd).max() <= 1e-8
        assert np.abs(run.energy[k] - alone.energy).max() <= 1e-8
    assert np.abs(run.q[2] - nlink.simulate(robot, q0[2], qd0[2], **options).q).max() > 1e-3


@pytest.mark.slow
def test_a_bare_mass_hangs_in_the_last_frame():
    run = nlink.simulate(tooled(), np.zeros(3), vary={"payload": [1.0, 3.0]}, **OPTIONS)
    again = nlink.simulate(tooled(), np.zeros(3), vary={
        "payload": Payload(3.0, frame="link3")}, **OPTIONS)
    assert run.q.shape == (2, 11, 3)
    assert np.array_equal(run.q[1], again.q)


@pytest.mark.slow
def test_friction_is_that_of_the_joints():
    q0, qd0 = PUMA.random_state(1, (4,))
    rng = np.random.default_rng(2)
    viscous, coulomb = rng.uniform(0, 0.4, (4, 3)), rng.uniform(0, 0.01, (4, 3))
    options = OPTIONS | {"method": "rk4", "step": 1e-3}
    run = nlink.simulate(PUMA, q0, qd0, vary={"viscous": viscous, "coulomb": coulomb}, **options)
    for k in range(4):
        alone = nlink.simulate(rubbed(PUMA, viscous[k], coulomb[k]), q0[k], qd0[k], **options)
        assert np.abs(run.q[k] - alone.q).max() <= 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PD, PDGravity, ComputedTorque])
def test_gains_are_those_of_the_laws(kind):
    path = Cycloid(np.zeros(3), TARGET, 0.5)
    kp, kd = np.linspace(20, 200, 9).reshape(3, 3), np.array([[1.0], [5.0], [10.0]])
    run = nlink.simulate(PUMA, np.zeros(3), tau=kind(PUMA, path, 1.0, 1.0),
                         vary={"kp": kp, "kd": kd}, **OPTIONS)
    for k in range(3):
        alone = nlink.simulate(PUMA, np.zeros(3), tau=kind(PUMA, path, kp[k], kd[k]), **OPTIONS)
        assert np.abs(run.q[k] - alone.q).max() <= 1e-10
        assert np.abs(run.tau[k] - alone.tau).max() <= 1e-7 * np.abs(alone.tau).max()


@pytest.mark.slow
def test_gains_of_the_operational_space_are_its_own():
    q0 = np.array([0.1, -0.5, 0.6])
    there = PUMA.pose(q0 + 0.1)[:3, 3]
    kp = np.array([[25.0, 16.0, 9.0], [100.0, 64.0, 36.0]])
    options = OPTIONS | {"method": "rkf45", "rtol": 1e-9}
    run = nlink.simulate(PUMA, q0, tau=OperationalSpace(PUMA, there, 1.0, 10.0), vary={"kp": kp},
                         **options)
    for k in range(2):
        alone = nlink.simulate(PUMA, q0, tau=OperationalSpace(PUMA, there, kp[k], 10.0), **options)
        assert np.abs(run.q[k] - alone.q).max() <= 1e-8


def controller(t, q, qd, p):
    return [p[0] * nlink.sin(p[1] * t) - p[2] * x - v for x, v in zip(q, qd, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("traced", [True, False])
def test_a_controller_of_ones_own_gets_its_parameters(traced):
    p = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 10.0]])
    options = {"t": 0.3, "every": 0.1, "traced": traced, "method": "rkf45"}
    run = nlink.simulate(PUMA, np.zeros(3), tau=controller, vary={"p": p, "payload": 1.0},
                         **options)
    for k in range(2):
        alone = nlink.simulate(PUMA, np.zeros(3),
                               tau=lambda t, q, qd, k=k: controller(t, q, qd, p[k]),
                               vary={"payload": 1.0}, **(options | {"traced": True}))
        assert np.abs(run.q[k] - alone.q).max() <= 1e-9
        assert np.abs(run.tau[k] - alone.tau).max() <= 1e-6


@pytest.mark.slow
def test_scipy_sees_the_same_mechanisms():
    pytest.importorskip("scipy")
    vary = {"payload": np.array([0.0, 2.0, np.nan]), "viscous": [[0.1]]}
    ours, theirs = (nlink.simulate(PUMA, np.zeros(3), t=0.2, every=0.1, vary=vary, method=method,
                                   rtol=1e-10) for method in ("dop853", "lsoda"))
    assert np.abs(ours.q - theirs.q)[:2].max() <= 1e-7
    assert theirs.status.tolist() == ["done", "done", "not finite"]


@pytest.mark.slow
@pytest.mark.parametrize("method", [m for m in METHODS if m != "symplectic"])
def test_parameters_that_are_no_numbers_fail_alone(method):
    masses, viscous = np.linspace(0, 2, 30), np.full((30, 3), 0.1)
    options = {"t": 0.2, "every": 0.05, "method": method, "step": 0.01}
    clean = nlink.simulate(PUMA, vary={"payload": masses, "viscous": viscous}, **options)
    masses[[3, 17]], viscous[29, 2] = (np.nan, np.inf), np.nan
    run = nlink.simulate(PUMA, vary={"payload": masses, "viscous": viscous}, **options)
    assert run.failed.ravel().tolist() == [3, 17, 29]
    assert set(run.status[[3, 17, 29]]) <= {"not finite", "step too small"}
    good = np.setdiff1d(np.arange(30), [3, 17, 29])
    assert np.array_equal(run.q[good], clean.q[good])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (3,)])
def test_forces_in_a_table_go_with_what_varies(tmp_path, monkeypatch, shape):
    """Also block by block on disk, where a block is one trajectory."""
    tau = np.random.default_rng(0).normal(size=(*shape, 11, 3))
    masses = np.array([0.0, 1.0, 2.0])
    vary = {"payload": masses}
    run = nlink.simulate(PUMA, np.zeros(3), tau=tau, vary=vary, **OPTIONS)
    for k in range(3):
        alone = nlink.simulate(PUMA, np.zeros(3), tau=tau[k] if shape else tau,
                               vary={"payload": masses[k]}, **OPTIONS)
        assert np.array_equal(run.q[k], alone.q)
    monkeypatch.setattr("nlink.storage.run_store.BLOCK", 1)
    stored = nlink.simulate(PUMA, np.zeros(3), tau=tau, vary=vary, save=tmp_path / "run", **OPTIONS)
    for other in (stored, nlink.load_run(tmp_path / "run")):
        assert np.array_equal(other.q, run.q)
        assert np.array_equal(other.tau, run.tau)


@pytest.mark.slow
def test_long_chains_vary_too(roll):
    """Controllers in rolled code; mechanisms written out."""
    arm, p = random_arm(6), np.array([[0.5, 1.0], [1.0, 2.0]])
    options = {"t": 0.1, "every": 0.05, "rtol": 1e-8, "vary": {"p": p}, "algorithm": "articulated"}
    sway = lambda t, q, qd, p: [nlink.sin(p[1] * t) - p[0] * v for v in qd]  # noqa: E731
    unrolled = nlink.simulate(arm, np.zeros(6), tau=sway, **options)
    loaded = nlink.simulate(arm, np.zeros(6), tau=sway, **options | {
        "vary": {"p": p, "payload": 1.0}})
    roll()
    arm = random_arm(6)
    rolled = nlink.simulate(arm, np.zeros(6), tau=sway, **options)
    assert 0 < np.abs(rolled.q - unrolled.q).max() <= 1e-9
    again = nlink.simulate(arm, np.zeros(6), tau=sway, **options | {
        "vary": {"p": p, "payload": 1.0}})
    assert np.abs(again.q - loaded.q).max() <= 1e-9
    assert np.abs(loaded.q - unrolled.q).max() > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("traced", [True, False])
def test_mechanisms_with_loops_vary_too(traced):
    robot = nlink.load("four_bar")
    q0 = robot.neutral
    viscous = np.array([[0.0] * robot.n, [0.5] * robot.n])
    options = {"t": 0.3, "every": 0.1, "rtol": 1e-9, "traced": traced}
    run = nlink.simulate(robot, q0, vary={"viscous": viscous, "payload": Payload(
        [0.0, 2.0], frame=1)}, **options)
    assert run.closure_error.max() <= 1e-12
    free, loaded = nlink.simulate(robot, q0, **options), rubbed(robot, viscous[1], 0 * viscous[1])
    text = loaded.description
    link = text.links[0]
    c, total = np.array(link.com), link.mass + 2.0
    arms = [(link.mass, c - link.mass * c / total), (2.0, -link.mass * c / total)]
    J = np.array(link.inertia) + sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in arms)
    heavy = nlink.Link(link.name, total, tuple(link.mass * c / total), tuple(map(tuple, J)))
    loaded = nlink.Robot(replace(text, links=(heavy, *text.links[1:])))
    alone = nlink.simulate(loaded, q0, **options)
    assert np.abs(run.q[0] - free.q).max() <= 1e-8
    assert np.abs(run.q[1] - alone.q).max() <= 1e-8
    assert np.abs(run.closure_forces[1] - alone.closure_forces).max() <= 1e-6
    assert np.abs(free.q - alone.q).max() > 1e-3


@pytest.mark.slow
def test_dimensions_broadcast_with_those_of_the_states():
    q0 = PUMA.random_state(3, (4, 1))[0]
    run = nlink.simulate(PUMA, q0, vary={"payload": [0.0, 1.0, 2.0]}, **OPTIONS)
    assert run.q.shape == (4, 3, 11, 3)
    piece = list(run.pieces(5))
    assert [len(p.q) for p in piece] == [5, 5, 2]
    assert np.array_equal(np.concatenate([p.energy for p in piece]), run.energy.reshape(12, 11))


@pytest.mark.slow
def test_quasi_velocities_are_those_of_the_loaded_arm():
    q0, qd0 = PUMA.random_state(5, (2,))
    runs = [nlink.simulate(PUMA, q0, qd0, vary={"payload": [1.0, 2.0]}, velocity=velocity,
                           **OPTIONS) for velocity in ("qd", "nu")]
    assert np.abs(runs[0].qd - runs[1].qd).max() <= 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.npz", "a.zarr", "run", "run.zarr"])
def test_what_varies_is_saved_with_the_run(tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    streamed = name.startswith("run")
    path = tmp_path / name
    run = nlink.simulate(PUMA, np.zeros(3), tau=controller, t=0.2, every=0.1,
                         vary={"p": [[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]], "payload": [1.0, 2.0]},
                         save=path if streamed else None)
    if not streamed:
        run.save(path)
    again = nlink.load_run(path)
    for what in ("q", "qd", "tau", "energy"):
        assert np.array_equal(getattr(again, what), getattr(run, what)), what
    assert again.variation.varied == run.variation.varied
    assert np.array_equal(again.variation.values, run.variation.values)


def test_wrong_variations_are_named():
    for vary, tau, message in (
            ({"mass": 1.0}, None, "vary: 'mass', expected some of payload, viscous"),
            ({"payload": -1.0}, None, "vary: payload -1.0, expected numbers >= 0"),
            ({"payload": Payload(1.0, frame=0)}, None, "vary: payload at frame 0, expected one"),
            ({"payload": Payload(1.0, inertia=np.eye(2))}, None, r"inertia: shape \(2, 2\)"),
            ({"viscous": [1.0, 2.0]}, None, r"viscous: shape \(2,\), expected \(\.\.\., 3\)"),
            ({"kp": [1.0]}, None, "vary: 'kp' needs a controller"),
            ({"kp": [1.0]}, lambda t, q, qd: qd, "vary: 'kp', but tau is a controller without"),
            ({"payload": np.ones(2), "viscous": np.ones((3, 3))}, None, "vary: leading shapes")):
        with pytest.raises(ValueError, match=message):
            nlink.simulate(PUMA, t=0.1, tau=tau, vary=vary)


@pytest.mark.parametrize("kind", ["free", "spherical"])
def test_a_rotor_that_no_joint_has_is_named(kind):
    robot = random_robot(0, 1, types=[kind], fixed=False)
    with pytest.raises(ValueError, match=f"vary: armature of the {kind} joint 'joint1'"):
        nlink.simulate(robot, t=0.1, vary={"armature": np.arange(robot.n)})


@pytest.mark.slow
def test_coulomb_friction_that_varies_leaves_breakaway_as_with_friction_does():
    rough = nlink.load("double_pendulum").with_friction(dry=0.3, breakaway=0.6, stribeck=0.2)
    dry, options = np.array([[0.1], [0.4], [0.6]]), {"t": 0.5, "every": 0.1}
    q0, qd0 = [1.0, 0.5], [0.0, 0.4]
    for name in ("coulomb", "dry"):
        run = nlink.simulate(rough, q0, qd0, vary={name: dry}, **options)
        for k, (c,) in enumerate(dry.tolist()):
            alone = nlink.simulate(rough.with_friction(dry=c), q0, qd0, **options)
            np.testing.assert_allclose(run.q[k], alone.q, rtol=0, atol=1e-12)
            np.testing.assert_allclose(run.qd[k], alone.qd, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="for joint 'joint1', expected at most"):
        nlink.simulate(rough, vary={"coulomb": [[0.7]]}, **options)
    with pytest.raises(ValueError, match="vary: dry and coulomb, expected one of them"):
        nlink.simulate(rough, vary={"coulomb": [[0.1]], "dry": [[0.1]]}, **options)


MODEL = random_robot(4, 4, types=("revolute", "spherical", "prismatic", "helical"),
                     fixed=False, friction=False)


def with_inertias(robot: nlink.Robot, rows) -> nlink.Robot:
    """The robot whose links have ten parameters each."""
    links = []
    for link, (m, *h, xx, yy, zz, xy, xz, yz) in zip(robot.links, rows, strict=True):
        c = np.array(h) / m
        J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        J -= m * (c @ c * np.eye(3) - np.outer(c, c))
        links.append(replace(link, mass=m, com=tuple(c), inertia=tuple(map(tuple, J))))
    return nlink.Robot(replace(robot.description, links=tuple(links)))


def displaced(robot: nlink.Robot, rows) -> nlink.Robot:
    """The robot whose joints are turned and shifted in the axes of the links they are on."""
    joints = []
    for joint, row in zip(robot.joints, rows, strict=True):
        T = nlink.exp6(np.concatenate([row[:3], [0, 0, 0]]))
        T[:3, 3] = row[3:]
        pose = Pose(tuple(map(tuple, T[:3, :3])), tuple(T[:3, 3]))
        joints.append(replace(joint, placement=replace(
            joint.placement, before=pose @ joint.placement.before)))
    return nlink.Robot(replace(robot.description, joints=tuple(joints)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gravity", "inertia", "placement"])
def test_parameters_of_the_model_vary_as_if_it_were_edited(name):
    rng = np.random.default_rng(0)
    q0, qd0 = MODEL.random_state(1)
    now, edited = {
        "gravity": (MODEL.gravity, MODEL.with_gravity),
        "inertia": (MODEL.inertias, lambda x: with_inertias(MODEL, x)),
        "placement": (np.zeros((4, 6)), lambda x: displaced(MODEL, x))}[name]
    values = now * np.array([1.0, 0.7, 1.3]).reshape(3, 1, 1) if name == "inertia" else (
        now + np.array([0.0, 0.3, 0.6]).reshape(3, *[1] * now.ndim) * rng.normal(size=now.shape))
    run = nlink.simulate(MODEL, q0, qd0, vary={name: values}, **(OPTIONS | {"t": 0.2}))
    for k, each in enumerate((MODEL, edited(values[1]), edited(values[2]))):
        one = nlink.simulate(each, q0, qd0, **(OPTIONS | {"t": 0.2}))
        np.testing.assert_allclose(run.q[k], one.q, atol=1e-9)
        np.testing.assert_allclose(run.energy[k], one.energy, atol=1e-8)
    flat = nlink.simulate(MODEL, q0, qd0, vary={name: values.reshape(3, -1)},
                          **(OPTIONS | {"t": 0.2}))
    np.testing.assert_array_equal(flat.q, run.q)


def test_parameters_of_the_model_are_checked_and_named():
    arm = nlink.load("planar3")
    with pytest.raises(ValueError, match=r"vary: gravity: shape \(2,\), expected \(..., 3\)"):
        nlink.simulate(arm, t=0.1, vary={"gravity": [0.0, 1.0]})
    with pytest.raises(ValueError, match=r"vary: inertia: the mass -1\.0, expected numbers >= 0"):
        nlink.simulate(arm, t=0.1, vary={"inertia": arm.inertias * [-1.0, *[1.0] * 9]})
    with pytest.raises(ValueError, match="vary: 'inertia' beside the inertia of a payload"):
        nlink.simulate(arm, t=0.1, vary={"inertia": arm.inertias, "payload": Payload(
            1.0, inertia=np.eye(3))})
    both = nlink.simulate(arm, t=0.1, vary={"inertia": arm.inertias, "payload": [0.0, 1.0]})
    alone = nlink.simulate(arm, t=0.1, vary={"payload": [0.0, 1.0]})
    np.testing.assert_allclose(both.q, alone.q, atol=1e-15)
    labels = nlink.simulate(arm, t=0.1, every=0.1, vary={
        "inertia": arm.inertias * [[[1.0]], [[2.0]]]}).to_xarray()
    assert labels["inertia"].dims[-2:] == ("inertial_link", "parameter")
