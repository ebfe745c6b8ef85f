"""The bundled robots: they load, cite their sources, and say when they are not physical."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.testing import LAWS, samples

NOT_PHYSICAL = {"puma_saha"}


def load(name: str) -> nlink.Robot:
    return nlink.load(name, physical="ignore")


@pytest.mark.parametrize("name", nlink.robots())
def test_a_bundled_robot_names_itself_and_its_source(name):
    robot = load(name)
    assert robot.name == name
    assert robot.description.source.strip()
    assert robot.report == []
    assert robot.neutral.shape == (robot.nq,)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(nlink.robots()) - NOT_PHYSICAL))
def test_a_bundled_robot_is_physical(name):
    nlink.load(name, physical="error")
    quick = name not in ("puma560", "four_bar")  # formulations are the same everywhere
    report = nlink.check(load(name), states=2, engine="numpy", quick=quick)
    assert report.ok
    assert report.findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NOT_PHYSICAL))
def test_a_printed_table_that_is_not_physical_warns(name):
    with pytest.warns(nlink.NonPhysicalWarning, match="negative moment of inertia"):
        nlink.load(name)
    with pytest.raises(ValueError, match="not a physical mechanism"):
        nlink.load(name, physical="error")
    report = nlink.check(load(name), states=4, engine="numpy")
    assert not report.ok
    assert [row.law for row in report.rows if not row.ok] == ["positivity"]
    assert "indefinite" in report.verdict


def test_the_bundled_set_has_the_papers_arms():
    assert {"planar3", "double_pendulum", "stanford", "stanford_saha", "puma560", "puma_saha",
            "ur5", "panda"} <= set(nlink.robots())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", nlink.robots())
def test_random_states_stay_within_limits(name):
    robot = load(name)
    q, qd = robot.random_state(0, (100,))
    limits = np.array([joint.limits.position for joint in robot.joints
                       for _ in range(joint.type.nq)])
    assert (q >= limits[:, 0]).all()
    assert (q <= limits[:, 1]).all()
    assert qd.shape == (100, robot.n)


@pytest.mark.slow
def test_a_report_is_a_table_a_sentence_and_data():
    report = nlink.check(load("planar3"), states=2, engine="numpy")
    assert len(report.rows) == len(LAWS)
    assert str(report).splitlines()[-1] == report.verdict
    assert report.to_dict()["laws"][0]["ok"] is True


def scaled(**factors: float) -> nlink.Robot:
    """The planar arm with a slip of units."""
    length, mass, inertia = (factors.get(k, 1.0) for k in ("length", "mass", "inertia"))
    rod = {"joint": "revolute", "a": length, "mass": mass, "com": (-0.5 * length, 0, 0),
           "inertia": np.array([0.01, 1 / 12, 1 / 12]) * inertia}
    return nlink.Robot.from_dh([rod] * 3, gravity=(0, -9.81 * factors.get("gravity", 1.0), 0))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("factors", "words"), [
    ({"length": 1e3, "inertia": 1e6}, "lengths in millimetres"),
    ({"length": 1e3}, "inertia is much too small"),
    ({"mass": 1e6, "inertia": 1e6}, "masses in grams"),
    ({"inertia": 1e6}, "inertia is much too large"),
    ({"gravity": 1e3}, "mm/s"),
    ({}, None)])
@pytest.mark.slow
def test_a_slip_of_units_is_noticed(factors, words):
    report = nlink.check(scaled(**factors), states=2, engine="numpy", quick=True)
    assert report.ok  # the laws hold in any units
    messages = " ".join(finding.message for finding in report.findings)
    assert words in messages if words else not messages


@pytest.mark.slow
def test_inertias_no_body_has_are_a_warning_where_the_laws_hold():
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (-0.001, 1 / 12, 1 / 12)}
    with pytest.warns(nlink.NonPhysicalWarning):
        robot = nlink.Robot.from_dh([rod] * 2)
    report = nlink.check(robot, states=2, engine="numpy")
    assert report.ok
    assert "obeys all" in report.verdict
    assert "warning: it is not a physical mechanism: link 'link1' has" in report.verdict
    assert "warning: link 'link1' has the negative moment" in str(report)


def test_a_singular_mass_matrix_is_found():
    """A thin rod that turns about itself."""
    rod = {"joint": "revolute", "mass": 1.0, "com": (0, 0, 1), "inertia": (1, 1, 0)}
    report = nlink.check(nlink.Robot.from_dh([rod]), states=2, engine="numpy")
    assert not report.ok
    assert "singular" in report.verdict


def test_states_are_asked_for():
    with pytest.raises(ValueError, match="states: 0, expected at least 1"):
        nlink.check(load("planar3"), states=0)
    assert samples(load("planar3"), states=3).f_ext.shape == (3, 3, 6)
