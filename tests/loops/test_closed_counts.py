"""What closed chains cost, in operations: linear in the joints, whatever the number of arms."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink import Robot
from nlink.model.constraints import CONSTRAINTS
from nlink.model.description import Description, Frame, Joint, Link, Loop
from nlink.model.joints import Free, Revolute
from nlink.model.pose import DH, Mount, Pose


def generic_arms(arms: int, joints: int, kind: str = "fixed") -> Robot:
    """Arms of revolute joints on one object, all numbers general: every arm costs the same.

    Counts need no closed state, so the grasps are anywhere.
    """
    rng = np.random.default_rng(0)

    def pose() -> Pose:
        x, y, z = rng.uniform(0.2, 1.2, size=3).tolist()
        return (Pose.turn("z", x) @ Pose.turn("y", y) @ Pose.turn("x", z)
                @ Pose.shift(*rng.uniform(0.2, 1.2, size=3).tolist()))

    def link(name: str) -> Link:
        points = rng.normal(size=(5, 3)) * 0.2
        second = points.T @ points
        return Link(name, float(rng.uniform(1, 2)), tuple(rng.uniform(0.1, 1, 3).tolist()),
                    tuple(map(tuple, (np.trace(second) * np.eye(3) - second).tolist())))

    links, carried, loops = [], [], []
    for k in range(arms):
        for i in range(joints):
            place = Mount(pose(), pose()) if not i else DH(*rng.uniform(0.2, 1.2, 4).tolist())
            links.append(link(f"link{k}.{i}"))
            carried.append(Joint(f"joint{k}.{i}", Revolute(), len(links) - 1 if i else 0, place))
    links.append(link("early"))
    carried.append(Joint("object", Free(), 0, Mount(), actuated=False))
    for k in range(arms):
        loops.append(Loop(f"grasp{k}", CONSTRAINTS[kind](),
                          Frame(f"{k}.of", (k + 1) * joints, pose()),
                          Frame(f"{k}.on", len(links), pose())))
    return Robot(Description("arms", tuple(links), tuple(carried), gravity=(1.0, 2.0, -9.0),
                             loops=tuple(loops), physical="ignore"))


def operations(robot: Robot, algorithm: str) -> np.ndarray:
    c = nlink.count(robot, "forward_dynamics", algorithm)
    return np.array([c.mul, c.add, c.div, c.sqrt, c.trig])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fixed", "soft_finger"])
def test_early_rows_are_linear_in_the_number_of_arms(kind):
    """One more arm costs what every other does, to the last operation."""
    counts = np.array([operations(generic_arms(k, 6, kind), "early") for k in range(2, 6)])
    assert (np.diff(counts, 2, axis=0) == 0).all()
    assert (np.diff(counts, axis=0)[:, :2] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["early", "elimination"])
def test_both_orders_are_linear_in_the_joints_of_an_arm(algorithm):
    counts = np.array([operations(generic_arms(2, n), algorithm) for n in range(6, 11)])
    assert (np.diff(counts, 2, axis=0) == 0).all()


@pytest.mark.slow
def test_the_whole_is_linear_in_all_joints():
    """In the number of arms, and in the joints of each; on one arm the object hangs."""
    sizes = [(k, n) for k in (2, 3, 4) for n in (6, 7, 8)]
    counts = np.array([operations(generic_arms(k, n), "early").sum() for k, n in sizes])
    terms = np.array([[1, k, n, k * n] for k, n in sizes])
    fit, *_ = np.linalg.lstsq(terms, counts, rcond=None)
    assert terms @ fit == pytest.approx(counts, rel=1e-12)


@pytest.mark.slow
def test_rows_that_wait_for_both_branches_cost_more_with_more_arms():
    """All of them are open at the object: cubic in their number, so the early order wins."""
    late, early = (np.array([operations(generic_arms(k, 6), order).sum() for k in range(2, 5)])
                   for order in ("elimination", "early"))
    assert (np.diff(late, 2) > 0).all()
    assert (early < late).all()


@pytest.mark.slow
def test_a_joint_in_a_loop_costs_a_bounded_multiple_of_one_in_a_tree():
    def slope(make, *how) -> float:
        few, many = (nlink.count(make(n), "forward_dynamics", *how).total for n in (8, 12))
        return (many - few) / 4

    closed = slope(lambda n: generic_arms(2, n), "early")
    tree = slope(lambda n: generic_arms(2, n).tree, "articulated")
    assert tree < closed < 4 * tree
