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
