"""Motion in quasi-velocities: (q, nu) and (q, xi) give what (q, qd) gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nlink
from nlink import cli
from nlink.model.description import Description, Joint, Link
from nlink.model.pose import Mount, Pose

FREE_FALL = json.loads((Path(__file__).parents[1] / "data" / "reference.json").read_text())[
    "puma_abs"]["freefall"]
TIGHT = {"rtol": 1e-12, "atol": 1e-14}
quasi = pytest.mark.parametrize("velocity", ["nu", "xi"])


@pytest.fixture(scope="module")
def puma() -> nlink.Robot:
    return nlink.load("puma560")


@pytest.mark.slow
@quasi
def test_free_fall_is_that_of_joint_rates(puma, velocity):
    q0, qd0 = puma.random_state(3)
    expected = nlink.simulate(puma, q0, qd0, t=0.5, **TIGHT)
    run = nlink.simulate(puma, q0, qd0, t=0.5, velocity=velocity, **TIGHT)
    assert run.ok
    assert run.velocity == velocity
    np.testing.assert_allclose(run.q, expected.q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.qd, expected.qd, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
@quasi
def test_free_fall_of_the_reference_file_in_quasi_velocities(puma, velocity):
    t = [0.0, *(float(x) for x in FREE_FALL)]
    run = nlink.simulate(puma, np.zeros(6), t=t, velocity=velocity, **TIGHT)
    assert run.ok
    np.testing.assert_allclose(run.q[1:], list(FREE_FALL.values()), rtol=0, atol=1e-8)


@pytest.mark.slow
@quasi
@pytest.mark.parametrize("method", ["dop853", "abm"])
def test_energy_is_conserved(puma, velocity, method):
    run = nlink.simulate(puma, np.full(6, 0.3), t=0.5, velocity=velocity, method=method, **TIGHT)
    assert run.ok
    assert np.ptp(run.energy) <= 1e-9 * np.ptp(puma.potential_energy(run.q))


def test_the_kinetic_energy_is_half_the_square_of_nu(puma):
    run = nlink.simulate(puma, np.full(6, 0.3), t=0.2, velocity="nu")
    kinetic = puma.kinetic_energy(run.q, run.qd)
    np.testing.assert_allclose((run.rates**2).sum(-1) / 2, kinetic, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
@quasi
def test_each_trajectory_of_an_ensemble_is_that_of_its_own_state(puma, velocity):
    q0 = np.linspace(-0.5, 0.5, 30).reshape(5, 6)
    runs = nlink.simulate(puma, q0, np.ones(6), t=0.1, velocity=velocity, **TIGHT)
    alone = [nlink.simulate(puma, q, np.ones(6), t=0.1, velocity=velocity, **TIGHT) for q in q0]
    assert runs.ok
    assert runs.qd.shape == (5, 11, 6)
    np.testing.assert_array_equal(runs.q, [run.q for run in alone])
    np.testing.assert_array_equal(runs.rates, [run.rates for run in alone])


@pytest.mark.slow
@quasi
@pytest.mark.parametrize("kind", ["controller", "table"])
def test_joint_forces_are_those_of_joint_rates(puma, velocity, kind):
    def damping(t, q, qd):
        return [nlink.sin(t) - 2.0 * rate for rate in qd]

    tau = damping if kind == "controller" else np.linspace(0.0, 1.0, 126).reshape(21, 6)
    expected = nlink.simulate(puma, t=0.2, tau=tau, **TIGHT)
    run = nlink.simulate(puma, t=0.2, tau=tau, velocity=velocity, **TIGHT)
    np.testing.assert_allclose(run.q, expected.q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.tau, expected.tau, rtol=0, atol=1e-8)


@quasi
@pytest.mark.slow
def test_free_and_spherical_joints(velocity):
    links = tuple(Link(f"l{k}", 1.0 + k, (0.1, 0.2, -0.3),
                       ((0.1, 0.01, 0.0), (0.01, 0.2, 0.02), (0.0, 0.02, 0.25)))
                  for k in range(2))
    joints = tuple(Joint(f"j{k}", kind, parent=k,
                         placement=Mount(Pose(origin=(0.1, 0.0, -0.4))))
                   for k, kind in enumerate((nlink.Free(), nlink.Spherical())))
    robot = nlink.Robot(Description("balls", links, joints))
    q0, qd0 = robot.random_state(5)
    expected = nlink.simulate(robot, q0, qd0, t=0.3, **TIGHT)
    run = nlink.simulate(robot, q0, qd0, t=0.3, velocity=velocity, **TIGHT)
    np.testing.assert_allclose(run.q, expected.q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.qd, expected.qd, rtol=1e-8, atol=1e-8)


@quasi
@pytest.mark.parametrize("name", ["run", "run.npz"])
def test_a_saved_run_has_the_same_rates(puma, velocity, name, tmp_path):
    run = nlink.simulate(puma, t=0.1, velocity=velocity, save=tmp_path / name)
    np.testing.assert_array_equal(nlink.load_run(tmp_path / name).qd, run.qd)


@pytest.mark.parametrize("options", [
    {"velocity": "p"}, {"velocity": "nu", "method": "symplectic"},
    {"velocity": "xi", "method": "lsoda"}, {"velocity": "nu", "traced": False},
    {"velocity": "nu", "algorithm": "denoc"}])
def test_what_does_not_go_together_is_refused(puma, options):
    with pytest.raises(ValueError, match=r"^velocity: "):
        nlink.simulate(puma, t=0.1, **options)


@pytest.mark.slow
def test_the_command_takes_a_velocity(capfd):
    found = []
    for velocity in ("qd", "nu"):
        assert cli.run(["simulate", "planar3", "--t", "0.2", "--velocity", velocity,
                        "--json"]) == 0
        found.append(json.loads(capfd.readouterr().out))
    assert found[0].keys() == found[1].keys()
    assert found[0] != found[1]
