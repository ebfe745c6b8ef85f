"""Algorithms of users as programs: what a text gives is what its ports say."""

from __future__ import annotations

import pytest

import nlink
from nlink.algorithms.catalogue import ALGORITHMS, QD, Algorithm, Q
from nlink.engines.engines import ENGINES


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [2, 4])
def test_a_port_is_given_as_many_numbers_as_it_has(monkeypatch, engine, count):
    text = Algorithm("own", "text", (Q, QD), (("w", (3,)),), lambda *_: [1.0] * count)
    monkeypatch.setitem(ALGORITHMS, "own", {"text": text})
    robot = nlink.load("double_pendulum")
    with pytest.raises(ValueError, match=f"own: its text gives {count} numbers for the output w, "
                                         "expected 3"):
        robot.compute("own", [0.1, 0.2], [0.3, 0.4], engine=engine)


def test_an_algorithm_may_be_edited_in_a_session(monkeypatch):
    for factor in (2.0, 3.0):
        text = Algorithm("own", "text", (Q,), (("w", (1,)),),
                         lambda driver, options, q, factor=factor: [factor * q[0][0]])
        monkeypatch.setitem(ALGORITHMS, "own", {"text": text})
        robot = nlink.load("double_pendulum")
        assert robot.compute("own", [0.5, 0.2]) == 0.5 * factor
        assert robot.compute("own_derivatives", [0.5, 0.2]).tolist() == [[factor, 0.0]]
        assert nlink.count(robot, "own").mul == 1
