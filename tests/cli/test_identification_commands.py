"""`nlink base`, `nlink identify`, `nlink excite`."""

from __future__ import annotations

import json

import pytest

from nlink import cli


@pytest.fixture
def run(capfd):
    def call(*arguments):
        status = cli.run([str(a) for a in arguments])
        return status, *capfd.readouterr()

    return call


def test_base_lists_the_base_parameters(run):
    status, out, _ = run("base", "planar3")
    assert status == 0
    assert out.splitlines()[:2] == ["9 base parameters of 30:",
                                    "  link1.mx + link1.m + link2.m + link3.m"]
    _, out, _ = run("base", "planar3", "--friction", "viscous", "--armature", "--json")
    found = json.loads(out)
    assert found["count"] == 9 + 3 + 2  # the first rotor is absorbed
    assert run("base", "planar3", "--friction", "drag")[0] == 2


@pytest.mark.slow
def test_identify_writes_a_robot_and_a_page(run, tmp_path):
    import numpy as np

    import nlink

    arm = nlink.load("double_pendulum")
    status, out, _ = run("excite", "double_pendulum", "--duration", "10", "--out",
                         tmp_path / "path.csv", "--json")
    assert status == 0
    assert json.loads(out)["condition"] < 10
    t, *columns = np.loadtxt(tmp_path / "path.csv", delimiter=",", skiprows=1).T
    q, qd, qdd = np.array(columns).reshape(3, 2, -1).transpose(0, 2, 1)
    true = arm.with_payload(0.5).with_friction(viscous=0.2, dry=0.1)
    np.savetxt(tmp_path / "run.csv", np.column_stack([t, q, true.inverse_dynamics(q, qd, qdd)]),
               delimiter=",", header="t,q1,q2,tau1,tau2", comments="")
    status, out, _ = run("identify", tmp_path / "run.csv", "--robot", "double_pendulum", "--out",
                         tmp_path / "arm.urdf", "--report", tmp_path / "page.html", "--json")
    assert status == 0
    found = json.loads(out)
    assert found["error"] < 0.01
    assert nlink.load(tmp_path / "arm.urdf").n == 2
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "What the logs do not tell" in page
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    status, out, _ = run("identify", tmp_path / "run.csv", "--robot", "double_pendulum")
    assert out.startswith("Fit double_pendulum")
    status, _, err = run("identify", tmp_path / "no.csv", "--robot", "double_pendulum")
    assert status == 2
    assert "cannot be read" in err


def test_a_delay_that_is_no_number_is_named(run, tmp_path):
    (tmp_path / "log.csv").write_text("t,q1,q2,tau1,tau2\n", "utf-8")
    status, _, err = run("identify", tmp_path / "log.csv", "--robot", "double_pendulum",
                         "--delay", "soon")
    assert status != 0
    assert "--delay: 'soon', expected" in err
