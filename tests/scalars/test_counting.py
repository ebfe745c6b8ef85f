"""Operation counts: golden numbers, bounds, and what must never cost more."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import nlink
from nlink.engines.complexity import INVERSE_DYNAMICS_TABLE, cost_formula
from nlink.scalars.counting import Counted
from nlink.scalars.functions import sin, sqrt
from nlink.testing import random_robot


def chain(n: int, joint: str = "revolute") -> nlink.Robot:
    """A serial chain with nothing special about its numbers."""
    return random_robot(n, n, tree=False, types=(joint,), fixed=False, friction=False,
                        armature=False)


def test_inverse_dynamics_law_for_revolute_chains():
    assert str(cost_formula("inverse_dynamics")) == "(81n-97)M (69n-88)A"


@pytest.mark.parametrize("n", range(3, 11))
def test_inverse_dynamics_is_at_or_below_the_bar(n):
    counted = cost_formula("inverse_dynamics")(n)
    assert counted.mul <= 89 * n - 102
    assert counted.add <= 74 * n - 90


@pytest.mark.parametrize("n", range(4, 8))
def test_the_law_is_what_a_chain_costs(n):
    general = nlink.count(chain(n), customize=False)
    predicted = cost_formula("inverse_dynamics")(n)
    assert (general.mul, general.add) == (predicted.mul, predicted.add)
    assert general.trig == 2 * n


@pytest.mark.parametrize("published", INVERSE_DYNAMICS_TABLE, ids=lambda p: p.algorithm)
def test_no_published_algorithm_costs_less(published):
    for n in range(3, 11):
        counted = cost_formula("inverse_dynamics")(n)
        mul, add = published.cost.at(n)
        assert counted.mul < mul
        assert counted.add < add


@pytest.mark.parametrize(("robot", "counted"), [
    ("planar3", "27M 23A"), ("puma560", "175M 142A"), ("stanford", "95M 81A")])
def test_customised_count(robot, counted):
    assert str(nlink.count(nlink.load(robot))) == counted


@pytest.mark.parametrize("robot", ["planar3", "puma560", "stanford", "ur5", "panda"])
@pytest.mark.parametrize("name", ["inverse_dynamics", "bias", "gravity_torque", "jacobian"])
def test_customising_never_costs_more(robot, name):
    robot = nlink.load(robot)
    special, general = (nlink.count(robot, name, customize=c) for c in (True, False))
    assert special.mul <= general.mul
    assert special.add <= general.add


@pytest.mark.parametrize("customize", [True, False])
@pytest.mark.parametrize("name", ["inverse_dynamics", "bias", "jacobian", "kinetic_energy"])
def test_sharing_never_costs_more(name, customize):
    for robot in (nlink.load("puma560"), nlink.load("stanford"), random_robot(3, 5)):
        shared = nlink.count(robot, name, customize=customize)
        written = nlink.count(robot, name, customize=customize, shared=False)
        assert shared.total <= written.total
        assert shared.trig <= written.trig


@pytest.mark.parametrize("n", [3, 6, 9])
def test_a_prismatic_joint_costs_no_more_than_a_revolute_one(n):
    sliding, turning = (nlink.count(chain(n, joint), customize=False)
                        for joint in ("prismatic", "revolute"))
    assert sliding.mul <= turning.mul
    assert sliding.add <= turning.add


def test_literals_cost_nothing_and_parameters_are_off_line():
    tally = Counter()
    x, p = Counted(tally), Counted(tally, offline=True)
    assert (x * 0) == 0
    assert (x * 1) is x
    assert (x + 0) is x
    assert -x is x
    _ = sin(p * p + p)
    assert tally == Counter()
    _ = (x * p + x) / x - sin(x) * sqrt(x)
    assert tally == Counter(mul=2, add=2, div=1, sqrt=1, trig=1)


def test_a_counting_scalar_has_no_truth_value():
    with pytest.raises(TypeError, match="no truth value"):
        bool(Counted(Counter()))


def test_a_counting_scalar_meets_numbers_only():
    with pytest.raises(TypeError, match="unsupported operand"):
        Counted(Counter()) + "1"
    tally = Counter()
    _ = np.float64(2.0) * Counted(tally)
    assert tally["mul"] == 1
