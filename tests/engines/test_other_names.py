"""Names that other libraries use lead to names that exist here."""

from __future__ import annotations

import re

import pytest

import nlink
from nlink.engines.users_view import FOREIGN, OF_A_RUN, OF_THE_MODULE

CALL = re.compile(r"(?:nlink|robot)\.[a-z_.]+")


@pytest.fixture(scope="module")
def robot():
    return nlink.load("planar3")


def lead_somewhere(text: str, robot: nlink.Robot) -> bool:
    """Whether all names of nlink and of a robot in a hint exist."""
    for name in CALL.findall(text):
        item = {"nlink": nlink, "robot": robot}[name.split(".")[0]]
        for part in name.rstrip(".").split(".")[1:]:
            item = getattr(item, part)
    return True


@pytest.mark.parametrize("name", FOREIGN)
def test_a_robots_name_elsewhere_is_told(robot, name):
    with pytest.raises(AttributeError, match="; expected ") as error:
        getattr(robot, name)
    assert lead_somewhere(str(error.value).split("expected ")[1], robot)


@pytest.mark.parametrize("name", OF_THE_MODULE)
def test_a_name_of_the_module_elsewhere_is_told(robot, name):
    with pytest.raises(AttributeError, match="; expected ") as error:
        getattr(nlink, name)
    assert lead_somewhere(str(error.value).split("expected ")[1], robot)


def test_a_method_asked_of_the_module_is_one_of_a_robot():
    with pytest.raises(AttributeError, match=r"robot\.forward_dynamics is a method"):
        _ = nlink.forward_dynamics
    with pytest.raises(AttributeError, match="did you mean 'simulate'"):
        _ = nlink.simulat
    assert not hasattr(nlink, "__wrapped__")


def test_a_runs_name_elsewhere_is_told(robot):
    run = nlink.simulate(robot, t=0.02)
    for name, ours in OF_A_RUN.items():
        with pytest.raises(AttributeError, match=rf"expected run\.{ours}"):
            getattr(run, name)
        assert hasattr(run, ours)
    with pytest.raises(AttributeError, match="did you mean 'tracking_error'"):
        _ = run.traking_error


@pytest.mark.parametrize(("option", "ours"), [("dt", "step"), ("h", "step"), ("T", "t"),
                                              ("u", "tau"), ("x0", "q0 and qd0")])
def test_an_argument_of_simulate_elsewhere_is_told(robot, option, ours):
    with pytest.raises(TypeError, match=f"unknown argument '{option}', expected {ours}"):
        nlink.simulate(robot, **{option: 0.1})


def test_a_robot_of_a_name_leads_to_load():
    with pytest.raises(TypeError, match=r"description: 'panda', expected .* nlink\.load"):
        nlink.Robot("panda")
