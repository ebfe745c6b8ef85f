"""What users see: names to complete, signatures, and hints for names of other libraries."""

from __future__ import annotations

import inspect
import traceback
from types import SimpleNamespace

import numpy as np
import pytest

import nlink
from nlink.scalars import notebook
from nlink.simulation import Cycloid, Quintic, Rest, Spline

ROBOT = nlink.load("planar3")


def test_names_of_the_package_are_names_for_users():
    assert not {"Any", "os", "threading", "import_module", "TYPE_CHECKING"} & set(dir(nlink))
    assert {"load", "simulate", "Stepper", "__version__"} <= set(dir(nlink))
    assert not hasattr(nlink, "os")


def test_completion_of_a_robot_leaves_internals_out():
    shown = dir(ROBOT)
    assert not {"call_ports", "request"} & set(shown)
    assert {"inverse_dynamics", "with_payload", "n", "png"} <= set(shown)


@pytest.mark.parametrize(("theirs", "ours"), [
    ("nv", "robot.n"), ("dof", "robot.n"), ("rnea", "robot.inverse_dynamics"),
    ("crba", "robot.mass_matrix"), ("aba", "robot.forward_dynamics"),
    ("joint_names", "robot.q_names"), ("total_mass", "link.mass"),
    ("mass_matrx", "'mass_matrix'")])
def test_names_of_other_libraries_name_ours(theirs, ours):
    with pytest.raises(AttributeError, match=theirs) as raised:
        getattr(ROBOT, theirs)
    assert ours in str(raised.value)
    shown = "".join(traceback.format_exception_only(raised.value))
    assert shown.lower().count("did you mean") <= 1
    assert not hasattr(ROBOT, theirs)


def test_what_is_set_is_refused_with_what_to_do():
    with pytest.raises(AttributeError, match=r"robot.gravity cannot be set.*with_gravity"):
        ROBOT.gravity = (0, 0, 0)
    with pytest.raises(AttributeError, match=r"robot\.n cannot be set"):
        ROBOT.n = 4


def test_errors_and_signatures_are_those_of_a_robot():
    with pytest.raises(TypeError, match=r"^Robot.inverse_dynamics\(\) missing"):
        ROBOT.inverse_dynamics()
    for name, method in inspect.getmembers(nlink.Robot, inspect.isfunction):
        if not name.startswith("_") and name in dir(ROBOT):
            assert "how" not in inspect.signature(method).parameters, name
    for function in (ROBOT.bias, nlink.jvp, nlink.vjp, nlink.hvp, nlink.function):
        shown = inspect.signature(function).parameters
        assert {"algorithm", "engine"} <= set(shown)
        assert "how" not in shown


@pytest.mark.parametrize("name", ["ik", "velocity_ik"])
def test_options_of_a_method_are_those_of_its_function(name):
    from nlink.kinematics import differential

    function = nlink.ik if name == "ik" else differential.velocity_ik

    def options(f):
        return {x.name: x.default for x in inspect.signature(f).parameters.values()
                if x.kind is x.KEYWORD_ONLY}

    assert options(getattr(ROBOT, name)) == options(function)


def test_arguments_of_other_libraries_name_ours():
    for call, said in (
            (lambda: nlink.simulate(ROBOT, dt=0.1), "unknown argument 'dt', expected step"),
            (lambda: nlink.Stepper(ROBOT, dt=0.1), "^Stepper: unknown argument 'dt'"),
            (lambda: nlink.simulate(ROBOT, method="RK45"), "RK45 is 'dopri5' here"),
            (lambda: nlink.simulate(ROBOT, method="LSODA"), "LSODA is 'lsoda' here"),
            (lambda: nlink.Robot.from_dh([{"joint": "revolute", "d": 1.0}]), "is b here")):
        with pytest.raises((TypeError, ValueError), match=said):
            call()


@pytest.mark.parametrize("path", [
    Quintic([0.0, 1.0], [1.0, 3.0], 2.0), Cycloid([0.0, 1.0], [1.0, 3.0], 2.0), Rest([1.0, 2.0]),
    Spline([0.0, 1.0, 2.0], [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])])
def test_trajectories_at_many_times_are_those_at_each(path):
    times = np.linspace(-0.5, 2.5, 7)
    for k, values in enumerate(path(times)):
        assert values.shape == (7, 2)
        assert np.array_equal(values, [path(float(t))[k] for t in times])


def test_a_picture_is_shown_not_printed():
    shown = ROBOT.png(width=40, height=30)
    assert len(repr(shown)) < 60
    assert shown._repr_png_() == bytes(shown) == shown[:]


@pytest.mark.slow
def test_a_run_in_a_notebook_is_shown_without_a_server(monkeypatch):
    assert not notebook.in_notebook()
    monkeypatch.setitem(__import__("sys").modules, "IPython", SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=object())))
    view = nlink.simulate(ROBOT, t=0.05).view()
    assert view._repr_html_().startswith("<iframe")
    assert "srcdoc=" in view._repr_html_()
    assert len(repr(view)) < 80
