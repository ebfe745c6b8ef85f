"""Conversions keep the dynamics and say what they lose; DH tables by the classic construction."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink import Description, Robot
from nlink.formats.convert import convert
from nlink.formats.dh_writer import to_dh, to_dh_rows
from nlink.testing import random_description
from nlink.testing.samples import difference, torque_scale

CONVENTIONS = ("standard", "modified")
ROUNDED = {6}
"""Seeds of chains with axes that are parallel but for a quarter turn rounded to 1.5708."""


def same_dynamics(a: Robot, b: Robot, seed: int = 0) -> float:
    """The worst difference of joint forces and of the frames both have by name."""
    q, qd = a.random_state(seed)
    found = [difference(a.inverse_dynamics(q, qd, qd, engine="python"),
                        b.inverse_dynamics(q, qd, qd, engine="python"), torque_scale(a))]
    for name in a.frames:
        moved = f"{name}_frame" if f"{name}_frame" in b.frames else name
        found.append(difference(a.pose(q, name, engine="python"),
                                b.pose(q, moved, engine="python"), 1.0))
    return max(found)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("name", nlink.robots())
def test_tables_of_bundled_arms(name, convention):
    description = nlink.load(name, physical="ignore").description
    if not is_arm(description):
        pytest.skip("no serial arm")
    assert same_dynamics(Robot(description), Robot(to_dh(description, convention))) < 1e-14


def is_arm(description: Description) -> bool:
    try:
        to_dh(description)
    except ValueError:
        return False
    return True


@pytest.mark.sampled(15)
@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("seed", range(25))
def test_tables_of_random_chains(seed, convention):
    description = random_description(seed, tree=False)
    if seed in ROUNDED:
        with pytest.raises(ValueError, match="at the horizon"):
            to_dh(description, convention)
        return
    table, robot = to_dh(description, convention), Robot(description)
    assert same_dynamics(robot, Robot(table), seed) < 1e-12
    rows = Robot.from_dh(to_dh_rows(description, convention), convention=convention,
                         gravity=description.gravity)
    q, qd = robot.random_state(seed)
    assert difference(robot.inverse_dynamics(q, qd, qd, engine="python"),
                      rows.inverse_dynamics(q, qd, qd, engine="python"),
                      torque_scale(robot)) < 1e-12


def test_a_table_comes_back_as_it_was():
    """The UR5's own numbers, to the last digit a file prints."""
    description = nlink.load("ur5").description
    for joint, row in zip(description.joints, to_dh_rows(description), strict=True):
        place = joint.placement
        for key in ("a", "b", "alpha", "theta"):
            assert abs(getattr(place, key) - row[key]) < 1e-15


@pytest.mark.parametrize(("types", "tree", "message"), [
    (("spherical",), False, "DH tables have no spherical joint"),
    (("revolute",), True, "branches off, and DH tables are for serial chains")])
def test_what_has_no_table_is_refused(types, tree, message):
    with pytest.raises(ValueError, match=message):
        to_dh(random_description(11, 8, types=types, tree=tree))


def test_urdf_to_toml_is_lossless_but_for_geometry(tmp_path):
    source, target = tmp_path / "a.urdf", tmp_path / "b.toml"
    assert convert("puma560", source)
    lost = convert(source, target)
    assert all(line.startswith("reading: ") for line in lost)
    assert nlink.load(target).description == nlink.load(source).description


@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".toml"])
def test_there_and_back(tmp_path, suffix):
    if suffix == ".xml":
        pytest.importorskip("mujoco")
    there, back = tmp_path / f"there{suffix}", tmp_path / "back.toml"
    convert("panda", there)
    convert(there, back)
    a, b = nlink.load("panda"), nlink.load(back)
    assert same_dynamics(a, b) < 1e-12


def test_urdf_to_a_dh_table(tmp_path):
    source, target = tmp_path / "a.urdf", tmp_path / "b.toml"
    convert("puma560", source)
    lost = convert(source, target, dh="modified")
    assert any("DH frames" in line for line in lost)
    assert same_dynamics(nlink.load(source), nlink.load(target)) < 1e-14
    assert 'convention = "modified"' in target.read_text()


@pytest.mark.parametrize(("target", "options", "message"), [
    ("x.step", {}, "suffix '.step', expected one of .toml, .urdf, .xml"),
    ("x.urdf", {"dh": "standard"}, "is for a .toml file")])
def test_wrong_targets_are_refused(tmp_path, target, options, message):
    with pytest.raises(ValueError, match=message):
        convert("planar3", tmp_path / target, **options)


def test_nothing_is_written_when_it_fails(tmp_path):
    source, target = tmp_path / "a.toml", tmp_path / "b.urdf"
    source.write_text('name = "s"\n[[link]]\njoint = "spherical"\nmass = 1.0\n'
                      "inertia = [1.0, 1.0, 1.0]\n")
    with pytest.raises(ValueError, match="URDF has no spherical joint"):
        convert(source, target)
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("suffix", [".urdf", ".xml"])
def test_open_loops_are_listed(tmp_path, suffix):
    lost = convert("four_bar", tmp_path / f"four_bar{suffix}")
    for line in ("loops left open: 1 (pin)",
                 "joints no longer known to be without a motor: 2 (coupler, rocker)",
                 "home: the configuration to start from"):
        assert f"writing: {line}" in lost


def test_a_table_has_no_loops():
    arm = nlink.load("planar3").with_loops([{
        "name": "wall", "joint": "spherical", "of": {"link": "link3"}, "on": {"link": "base"}}])
    with pytest.raises(ValueError, match="planar3: has loops or gears, and DH tables"):
        to_dh(arm.description)


def test_command(tmp_path, capsys):
    from nlink.cli import run

    target = tmp_path / "p.urdf"
    assert run(["convert", "puma560", str(target)]) == 0
    assert "DH parameters: 6 rows" in capsys.readouterr().out
    assert run(["info", str(target)]) == 0
    shown = capsys.readouterr().out
    assert "world" in shown
    assert "\n  link without <inertial>" in shown
    assert run(["convert", str(target), str(tmp_path / "p.step")]) == 2
    assert "suffix '.step'" in capsys.readouterr().err


def test_center_of_mass_is_where_gravity_acts():
    """m g . c = -V, on random trees with every joint."""
    for seed in range(5):
        robot = Robot(random_description(seed, types=("revolute", "free", "spherical"),
                                         fixed=False))
        q, _ = robot.random_state(seed)
        mass = sum(link.mass for link in robot.links)
        energy = -mass * robot.gravity @ robot.center_of_mass(q, engine="python")
        assert np.isclose(energy, robot.potential_energy(q, engine="python"), rtol=1e-12)


@pytest.mark.parametrize("ending", ["toml", "urdf", "xml"])
def test_numbers_of_numpy_are_written_as_numbers(tmp_path, ending):
    """NumPy 2 calls its own numbers np.float64(0.1)."""
    number = np.float64
    link = nlink.Link("arm", number(2.0), tuple(number([0.1, 0.0, 0.2])),
                      tuple(map(tuple, number(np.eye(3) * 0.1))))
    joint = nlink.Joint("hinge", armature=number(0.01),
                        placement=nlink.Mount(nlink.Pose(origin=tuple(number([0.3, 0.0, 0.1])))),
                        friction=nlink.Friction(viscous=number(0.2), coulomb=number(0.1)),
                        limits=nlink.Limits((number(-1.0), number(1.0)), number(2.0), number(3.0)))
    robot = Robot(Description("numbers", (link,), (joint,)))
    robot.save(tmp_path / f"robot.{ending}")
    assert "np." not in (tmp_path / f"robot.{ending}").read_text()
    again = nlink.load(tmp_path / f"robot.{ending}")
    same = robot.with_armature(0.0) if ending == "urdf" else robot
    again = again.with_armature(0.0) if ending == "urdf" else again
    assert same_dynamics(same, again) < 1e-14


def test_a_placement_is_a_table_row_or_a_mount():
    with pytest.raises(TypeError, match="joint 'j': placement is a Pose, expected a DH or a Mount"):
        Description("x", (nlink.Link("l", 1.0),), (nlink.Joint("j", placement=nlink.Pose()),))
