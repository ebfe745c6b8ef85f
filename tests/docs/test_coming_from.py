"""What `docs/coming-from.md` says of other libraries, asked of those that are installed."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import nlink
from nlink.formats.bridges import to_pinocchio

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text("utf-8")


def names_of(prefix: str, text: str = PAGE) -> set[str]:
    return set(re.findall(rf"\b{prefix}\.(\w+)", "\n".join(
        line for line in text.splitlines() if line.startswith("|"))))


@pytest.mark.parametrize(("prefix", "module"), [("pin", "pinocchio"), ("mujoco", "mujoco")])
def test_names_exist_in_the_other_library(prefix, module):
    library = pytest.importorskip(module)
    if module == "mujoco":
        import_module("mujoco.rollout")
    assert len(names_of(prefix)) > 5
    assert [name for name in names_of(prefix) if not hasattr(library, name)] == []


def test_names_exist_in_nlink():
    columns = "\n".join("|" + line.split("|")[2] for line in PAGE.splitlines()
                        if line.startswith("|"))
    robot = nlink.load("planar3")
    assert [name for name in names_of("robot", columns) if not hasattr(robot, name)] == []
    assert [name for name in names_of("nlink", columns)
            if name not in nlink.__all__ and name != "simulation"] == []


@pytest.mark.slow
def test_pinocchio_computes_what_stands_beside_it():
    pin = pytest.importorskip("pinocchio")
    robot = nlink.load("puma560").with_friction(viscous=0.0, dry=0.0)
    model = to_pinocchio(robot.description)
    data = model.createData()
    q, qd = robot.random_state(0)
    a = np.linspace(-1.0, 1.0, 6)
    M = pin.crba(model, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    minus = pin.computeMinverse(model, data, q)
    pairs = [
        (pin.rnea(model, data, q, qd, a), robot.inverse_dynamics(q, qd, a)),
        (pin.aba(model, data, q, qd, a), robot.forward_dynamics(q, qd, a)),
        (M, robot.mass_matrix(q)),
        (np.triu(minus) + np.triu(minus, 1).T, robot.inverse_mass_matrix(q)),
        (pin.nonLinearEffects(model, data, q, qd), robot.bias(q, qd)),
        (pin.computeGeneralizedGravity(model, data, q), robot.gravity_torque(q)),
        (pin.computeCoriolisMatrix(model, data, q, qd) @ qd, robot.coriolis_matrix(q, qd) @ qd),
        (pin.computeKineticEnergy(model, data, q, qd), robot.kinetic_energy(q, qd)),
        (pin.integrate(model, q, qd), robot.integrate(q, qd)),
    ]
    for theirs, ours in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


def test_twists_of_pinocchio_have_the_linear_part_first():
    pin = pytest.importorskip("pinocchio")
    R = nlink.exp3([0.1, 0.2, 0.3])
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, (1.0, 2.0, 3.0)
    np.testing.assert_allclose(nlink.log3(R), pin.log3(R), atol=1e-12)
    np.testing.assert_allclose(nlink.log6(T)[[3, 4, 5, 0, 1, 2]],
                               pin.log6(pin.SE3(T)).vector, atol=1e-12)


def test_quaternions_have_the_order_that_the_page_says():
    R = nlink.exp3([0.1, 0.2, 0.3])
    w, x, y, z = nlink.quaternion_from_matrix(R)
    pin = pytest.importorskip("pinocchio")
    np.testing.assert_allclose(pin.Quaternion(R).coeffs(), [x, y, z, w], atol=1e-12)
    mujoco = pytest.importorskip("mujoco")
    found = np.zeros(4)
    mujoco.mju_mat2Quat(found, R.ravel())
    np.testing.assert_allclose(found, [w, x, y, z], atol=1e-12)
