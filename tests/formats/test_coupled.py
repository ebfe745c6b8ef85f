"""Mimic joints follow: the coupled mechanism obeys the laws, and Pinocchio agrees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from example_robots import example_files

import nlink
from nlink import Coupled, Description, Joint, Mimic, Robot
from nlink.formats.dh import parse_toml
from nlink.formats.toml_writer import to_toml
from nlink.formats.urdf import parse_urdf
from nlink.formats.urdf_writer import to_urdf
from nlink.model.mimics import leads
from nlink.testing import random_description
from nlink.testing.samples import difference, torque_scale

FOLLOWERS = {1: Mimic("joint5", -0.5, 0.3), 3: Mimic("joint2", 2.0), 5: Mimic("joint1", 0.7, -1.0)}
"""Places of joints that follow: one that comes later, and one that itself follows."""


def coupled(seed: int = 0, types: tuple[str, ...] = ("revolute", "prismatic")) -> Coupled:
    free = random_description(seed, 6, types=types, fixed=False)
    return Coupled(Robot(replace(free, joints=tuple(
        replace(joint, mimic=FOLLOWERS.get(k)) for k, joint in enumerate(free.joints)))))


def state(mechanism: Coupled, seed: int = 1, shape: tuple[int, ...] = ()) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return (*mechanism.random_state(rng, shape), rng.normal(size=(*shape, mechanism.n)))


def test_followers_follow():
    mechanism = coupled()
    assert [joint.name for joint in mechanism.joints] == ["joint1", "joint3", "joint5"]
    a, b, c = 0.2, 0.4, 0.8
    np.testing.assert_allclose(mechanism.expand([a, b, c]), [
        a, -0.5 * c + 0.3, b, 2 * (-0.5 * c + 0.3), c, 0.7 * a - 1.0])
    np.testing.assert_allclose(mechanism.expand_rates([a, b, c]), [
        a, -0.5 * c, b, -c, c, 0.7 * a])


def test_rates_and_forces_are_dual():
    """tau' . qd' is the power of all joints."""
    mechanism = coupled()
    tau, (_, qd, _) = np.arange(6.0), state(mechanism)
    assert np.isclose(mechanism.reduce(tau) @ qd, tau @ mechanism.expand_rates(qd))


@pytest.mark.parametrize("seed", range(4))
def test_forward_dynamics_inverts_inverse_dynamics(seed):
    mechanism = coupled(seed)
    q, qd, qdd = state(mechanism, seed, (3,))
    f_ext = np.random.default_rng(seed).normal(size=(3, 6, 6))
    tau = mechanism.inverse_dynamics(q, qd, qdd, f_ext, engine="numpy")
    found = mechanism.forward_dynamics(q, qd, tau, f_ext, engine="numpy")
    np.testing.assert_allclose(found, qdd, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_matrices_are_those_of_the_motion(seed):
    mechanism = coupled(seed)
    q, qd, _ = state(mechanism, seed)
    M = mechanism.mass_matrix(q, engine="numpy")
    C = mechanism.coriolis_matrix(q, qd, engine="numpy")
    g = mechanism.gravity_torque(q, engine="numpy")
    scale = torque_scale(mechanism.robot)
    assert np.isclose(mechanism.kinetic_energy(q, qd, engine="numpy"), qd @ M @ qd / 2)
    assert difference(C @ qd + g, mechanism.bias(q, qd, engine="numpy"), scale) < 1e-13
    columns = [mechanism.inverse_dynamics(q, 0 * qd, row, engine="numpy")
               - mechanism.inverse_dynamics(q, 0 * qd, 0 * qd, engine="numpy")
               for row in np.eye(mechanism.n)]
    assert difference(M, np.array(columns), scale) < 1e-13


def test_forces_and_jacobians_are_derivatives():
    mechanism = coupled(2)
    q, _, _ = state(mechanism)
    h = 1e-6 * np.eye(mechanism.n)

    def slope(f):
        return np.array([(f(q + step) - f(q - step)) / 2e-6 for step in h])

    gradient = slope(lambda q: mechanism.potential_energy(q, engine="numpy"))
    np.testing.assert_allclose(mechanism.gravity_torque(q, engine="numpy"), gradient, atol=1e-6)
    moved = slope(lambda q: mechanism.pose(q, engine="numpy")[:3, 3])
    np.testing.assert_allclose(mechanism.jacobian(q, engine="numpy")[3:], moved.T, atol=1e-6)


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_derivatives_are_limits_of_differences(name):
    mechanism = coupled(3)
    q, qd, third = state(mechanism, 3, (2,))
    f_ext = np.random.default_rng(3).normal(size=(2, 6, 6))

    def value(*change):
        moved = (x + d for x, d in zip((q, qd, third), change, strict=True))
        return getattr(mechanism, name)(*moved, f_ext, engine="numpy")

    found = getattr(mechanism, f"{name}_derivatives")(q, qd, third, f_ext, engine="numpy")
    for k, matrix in enumerate(found):
        steps = [np.eye(3)[k][:, None] * 1e-5 * e for e in np.eye(mechanism.n)]
        expected = np.stack([(value(*step) - value(*-step)) / 2e-5 for step in steps], axis=-1)
        np.testing.assert_allclose(matrix, expected, rtol=1e-6, atol=1e-6 * abs(expected).max())


def test_without_mimic_joints_it_is_the_robot():
    robot = nlink.load("planar3")
    mechanism = Coupled(robot)
    q, qd, qdd = state(mechanism)
    np.testing.assert_array_equal(mechanism.inverse_dynamics(q, qd, qdd),
                                  robot.inverse_dynamics(q, qd, qdd))
    assert repr(mechanism) == "<Coupled planar3: 3 rates, 0 mimic joints>"


def test_quaternions_pass_through():
    free = random_description(3, 3, types=("spherical", "free"), fixed=False)
    hinge = random_description(4, 2, types=("revolute",), fixed=False)
    lead, follower = hinge.joints
    joints = (*free.joints, replace(lead, name="h0", parent=3),
              replace(follower, name="h1", parent=4, mimic=Mimic("h0")))
    links = (*free.links, *(replace(link, name=f"l{k}") for k, link in enumerate(hinge.links)))
    mechanism = Coupled(Robot(Description("mixed", links, joints)))
    assert (mechanism.robot.nq - mechanism.nq, mechanism.robot.n - mechanism.n) == (1, 1)
    q, qd, qdd = state(mechanism)
    tau = mechanism.inverse_dynamics(q, qd, qdd, engine="python")
    np.testing.assert_allclose(mechanism.forward_dynamics(q, qd, tau, engine="python"), qdd,
                               rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_a_coupled_mechanism_falls_as_its_own_equations_say():
    integrate = pytest.importorskip("scipy.integrate")
    smooth = random_description(5, 3, types=("revolute",), fixed=False, friction=False)
    lead, middle, tip = smooth.joints
    mechanism = Coupled(Robot(replace(smooth, joints=(
        lead, middle, replace(tip, mimic=Mimic(middle.name, -1.5, 0.2))))))
    q, qd = np.array([0.3, -0.4]), np.array([0.5, 1.0])
    run = nlink.simulate(mechanism.robot, mechanism.expand(q), mechanism.expand_rates(qd), 0.5,
                         mechanism.controller(lambda t, q, qd: [-0.1 * qd[0],
                                                                0.2 * nlink.cos(q[1])]),
                         rtol=1e-10, atol=1e-12, every=0.1)

    def change(t, y):
        drive = [-0.1 * y[2], 0.2 * np.cos(y[1])]
        return [*y[2:], *mechanism.forward_dynamics(y[:2], y[2:], drive)]

    there = integrate.solve_ivp(change, (0, 0.5), [*q, *qd], "DOP853", rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(run.q[-1], mechanism.expand(there.y[:2, -1]), atol=1e-8)
    np.testing.assert_allclose(run.q[:, 2], -1.5 * run.q[:, 1] + 0.2, atol=1e-13)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "followers"), [
    ("panda_description/panda", 1), ("baxter_description/baxter", 2),
    ("pr2_description/pr2", 10), ("tiago_pro_description/tiago_pro", 10)])
def test_pinocchio_agrees(name, followers):
    """On the grippers whose leaders come before their followers, as it demands."""
    pin = pytest.importorskip("pinocchio")
    path = example_files().get(name)
    if path is None:
        pytest.skip("example-robot-data is not installed")
    model = pin.buildModelFromUrdf(str(path), mimic=True)
    description = nlink.load(path, physical="ignore").description
    mechanism = Coupled(Robot(replace(description, joints=tuple(
        replace(joint, friction=nlink.Friction()) for joint in description.joints))))
    assert mechanism.robot.n - mechanism.n == followers
    assert [joint.name for joint in mechanism.joints] == [
        model.names[k] for k in range(1, model.njoints) if k not in list(model.mimicking_joints)]
    q, qd, qdd = state(mechanism)
    theirs = np.concatenate([
        [x] if model.joints[model.getJointId(joint.name)].nq == 1 else [np.cos(x), np.sin(x)]
        for joint, x in zip(mechanism.joints, q, strict=True)])
    data = model.createData()
    scale = torque_scale(mechanism.robot)
    tau = pin.rnea(model, data, theirs, qd, qdd)
    upper = np.triu(pin.crba(model, data, theirs))
    assert difference(mechanism.inverse_dynamics(q, qd, qdd, engine="numpy"), tau, scale) < 1e-10
    assert difference(mechanism.mass_matrix(q, engine="numpy"),
                      upper + np.triu(upper, 1).T) < 1e-10


def test_files_keep_whom_a_joint_follows():
    description = coupled(1, ("revolute",)).robot.description
    assert parse_toml(to_toml(description)) == description
    read = parse_urdf(to_urdf(description))
    assert {j.name: j.mimic for j in read.joints if j.mimic} == {
        j.name: j.mimic for j in description.joints if j.mimic}


@pytest.mark.parametrize(("mimic", "message"), [
    (Mimic("nobody"), "joint 'j': mimics 'nobody', which does not exist"),
    (Mimic("j"), "joint 'j': mimics itself$"),
    (Mimic("k", float("nan")), "joint 'j': follows 'k' by nan q .*, expected finite numbers"),
    (Mimic("ball"), "joint 'j': mimics 'ball', but 'ball' is spherical, expected joints of one")])
def test_what_cannot_be_followed_is_refused(mimic, message):
    rod = nlink.load("planar3").links[0]
    links = tuple(replace(rod, name=name) for name in "abc")
    with pytest.raises(ValueError, match=message):
        Description("x", links, (Joint("j", mimic=mimic), Joint("k"),
                                 Joint("ball", nlink.Spherical())))


def test_loops_are_refused():
    with pytest.raises(ValueError, match="four_bar has loops: expected a tree"):
        Coupled(nlink.load("four_bar"))


def test_wrong_shapes_are_refused():
    mechanism = coupled()
    with pytest.raises(ValueError, match=r"q: shape \(6,\), expected \(\.\.\., 3\)"):
        mechanism.mass_matrix(np.zeros(6))


@pytest.mark.slow
def test_long_files_of_followers_are_read_in_linear_time():
    """Twenty thousand joints, each following the one before."""
    links = tuple(nlink.Link(f"l{k}", 1.0) for k in range(20_000))
    joints = tuple(Joint(f"j{k}", mimic=Mimic(f"j{k - 1}") if k else None, armature=1.0)
                   for k in range(20_000))
    description = Description("many", links, joints, physical="ignore")
    assert len(leads(description.joints)) == 19_999
