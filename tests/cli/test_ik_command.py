"""`nlink ik`: targets from options and files, numbers out."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest

import nlink
from nlink import cli
from nlink.formats import state_rows


@pytest.fixture
def run(capfd):
    """The status, output and errors of a command."""
    def call(*arguments):
        status = cli.run([str(a) for a in arguments])
        return status, *capfd.readouterr()

    return call


@pytest.mark.slow
def test_points_and_poses_are_reached(run, tmp_path):
    robot = nlink.load("panda")
    code, text, _ = run("ik", "panda", "--to", "0.4,0.1,0.5", "--json")
    q = json.loads(text)["q"][0]
    assert code == 0
    assert np.abs(robot.pose(q)[:3, 3] - [0.4, 0.1, 0.5]).max() < 1e-5
    rows = np.array([[0.4, 0.1, 0.5, 3.0, 0.1, 0.2], [0.3, -0.2, 0.6, 3.0, 0.0, 0.0]])
    np.savetxt(tmp_path / "targets.csv", rows, delimiter=",")
    code, text, _ = run("ik", "panda", str(tmp_path / "targets.csv"), "--frame", "link7")
    found = np.array([[float(x) for x in line.split(",")] for line in text.splitlines()[1:]])
    assert code == 0
    assert np.abs(nlink.rpy_from_matrix(robot.pose(found[:, :7])[:, :3, :3]) - rows[:, 3:]
                  ).max() < 1e-4


def test_what_is_out_of_reach_has_status_one(run):
    code, text, _ = run("ik", "panda", "--to", "5,0,0", "--json")
    assert code == 1
    assert json.loads(text)["status"] == ["stationary"]
    code, _, error = run("ik", "panda", "--to", "1,2")
    assert code == 2
    assert "expected 3 (x, y, z)" in error


@pytest.mark.skipif(sys.platform == "win32", reason="devices")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_an_end_is_no_table(capsys, device):
    assert cli.run(["ik", "puma560", device]) == 2
    assert "neither UTF-8 text nor NPY" in capsys.readouterr().err


def test_a_pipe_that_says_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(state_rows, "LONGEST_STREAM", 100)
    with pytest.raises(ValueError, match="expected a file for as many states"):
        state_rows._read_stream(io.BytesIO(b"1,2,3\n" * 30), "pipe")
    assert state_rows._read_stream(io.BytesIO(b"1,2,3\n"), "pipe") == b"1,2,3\n"
