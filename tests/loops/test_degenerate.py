"""Redundant, singular and impossible closures: a right answer, or one clear sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kkt import Dense, relative

import nlink
from nlink import Robot
from nlink.engines import engines
from nlink.model.constraints import CONSTRAINTS
from nlink.model.description import Description, Frame, Loop
from nlink.model.pose import Mount, Pose
from nlink.testing.closed import random_arms

GENERIC = Pose.turn("z", 0.7) @ Pose.turn("y", 0.4) @ Pose.turn("x", -1.1)
ENGINES = ("python", "numpy", "compiled")


def load(name: str) -> Description:
    return nlink.load(name).description


def turned(d: Description, by: Pose) -> Description:
    """The same mechanism on a base that stands askew: nothing is zero any more."""
    joints = tuple(replace(joint, placement=Mount(by @ joint.placement.before,
                                                  joint.placement.after))
                   if joint.parent == 0 else joint for joint in d.joints)
    return replace(d, joints=joints, gravity=tuple((by.R @ np.array(d.gravity)).tolist()))


def pinned_at(d: Description, length: float, home=()) -> Robot:
    """The four-bar with a rocker of another length."""
    pin = d.loops[0]
    return Robot(replace(d, home=home, loops=(
        replace(pin, on=replace(pin.on, pose=Pose.shift(x=length))),)))


def grasped(d: Description, q: np.ndarray) -> Robot:
    """Fixed loops moved on the object so that they are closed at q."""
    tree, loops = Robot(replace(d, loops=(), home=())), []
    for loop in d.loops:
        of, on = (Pose.of(T[:3, :3], T[:3, 3]) for T in (
            tree.pose(q, end.link, engine="python") for end in (loop.of, loop.on)))
        loops.append(replace(loop, on=replace(loop.on, pose=on.inverse() @ of @ loop.of.pose)))
    return Robot(replace(d, loops=tuple(loops), home=tuple(q.tolist())))


@pytest.mark.parametrize("name", ["four_bar", "slider_crank"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_planar_loop_askew_moves_as_the_straight_one(name, engine):
    """Five rows, two of them independent, and in general axes all of them full of rounding."""
    straight, askew = nlink.load(name), Robot(turned(load(name), GENERIC))
    rng = np.random.default_rng(0)
    for _ in range(5):
        q = straight.loops.assemble(straight.neutral + rng.normal(size=3) * 0.3)
        q, qd = straight.loops.project(q, rng.normal(size=3))
        tau = rng.normal(size=3)
        assert askew.compute("closure_rank", q, engine=engine) == 2
        assert relative(askew.forward_dynamics(q, qd, tau, engine=engine),
                        straight.forward_dynamics(q, qd, tau)) < 1e-11


@pytest.mark.slow
def test_a_redundant_loop_carries_the_force_that_is_determined():
    """In the plane the force in the pin is unique though three rows are redundant; what a
    planar mechanism does not load is left without moment."""
    askew = Robot(turned(load("four_bar"), GENERIC))
    q, qd = askew.loops.project(askew.neutral, [1.0, 0.0, 0.0])
    tau = np.array([3.0, 0.0, 0.0])
    found = askew.loops.forces(q, qd, tau)[0]
    _, (least,), _ = Dense(askew).solve(q, qd, tau)
    assert found == pytest.approx(least, abs=1e-10)
    assert np.abs(GENERIC.R[:, 2] @ found[3:]) < 1e-10


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loop_that_is_there_twice_changes_nothing(engine):
    d = load("four_bar")
    twice = Robot(replace(d, loops=(*d.loops, replace(d.loops[0], name="again"))))
    q, qd = twice.loops.project(twice.neutral, [1.0, 0.0, 0.0])
    tau = [1.0, 0.0, 0.0]
    expected = nlink.load("four_bar").forward_dynamics(q, qd, tau)
    assert relative(twice.forward_dynamics(q, qd, tau, engine=engine), expected) < 1e-11
    forces = twice.loops.forces(q, qd, tau)
    once = nlink.load("four_bar").loops.forces(q, qd, tau)[0]
    assert forces.sum(axis=0) == pytest.approx(once, abs=1e-9)
    assert twice.loops.mobility(q).redundant == 8


@pytest.mark.parametrize("engine", ENGINES)
def test_a_parallelogram_passes_its_change_point(engine):
    """All in line, one more row is redundant; the answer is that of least squares."""
    robot = pinned_at(load("four_bar"), 0.4, (0.5, -0.5, 0.5))
    flat, qd, tau = np.zeros(3), np.array([1.0, -1.0, 1.0]), np.array([1.0, 0.0, 0.0])
    assert robot.loops.mobility().freedom == 1
    assert robot.loops.mobility(flat).freedom == 2
    expected, _, J = Dense(robot).solve(flat, qd, tau)
    found = robot.forward_dynamics(flat, qd, tau, engine=engine)
    assert relative(found, expected) < 1e-11
    assert np.abs(J @ found).max() < 1e-12


@pytest.mark.slow
def test_a_parallelogram_turns_through_its_change_points():
    robot = pinned_at(load("four_bar"), 0.4, (0.5, -0.5, 0.5))
    run = nlink.simulate(robot, robot.neutral, [9.0, -9.0, 9.0], t=2.0, rtol=1e-10)
    assert run.status == "done"
    assert np.ptp(run.q[:, 0]) > 2 * np.pi
    assert np.abs(robot.loops.error(run.q)).max() <= 1e-12
    assert np.abs(run.q[:, 0] - run.q[:, 2]).max() < 1e-6
    kinetic = robot.kinetic_energy(run.q, run.qd).max()
    assert np.abs(run.energy - run.energy[0]).max() < 1e-4 * kinetic


def wrist_singular(side: str = "right") -> tuple[Robot, np.ndarray]:
    """Two PUMAs, of which one has its axes 4 and 6 in line."""
    d = load("two_arms_box")
    q = Robot(d).neutral.copy()
    q[4 if side == "left" else 10] = 0.0
    return grasped(d, q), q


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "numpy",
                                    pytest.param("compiled", marks=pytest.mark.slow)])
def test_a_singular_arm_is_left_to_the_late_order(engine):
    robot, q = wrist_singular()
    dense, rng = Dense(robot), np.random.default_rng(0)
    J = robot.tree.jacobian(q, "right_link6", engine="python")[:, 6:12]
    assert np.linalg.matrix_rank(J, tol=1e-9) == 5
    qd, tau = dense.closed_rates(q, rng.normal(size=robot.n)), rng.normal(size=robot.n) * 10
    expected, _, _ = dense.solve(q, qd, tau)
    assert relative(robot.forward_dynamics(q, qd, tau, engine=engine), expected) < 1e-10
    late = robot.forward_dynamics(q, qd, tau, engine=engine, algorithm="elimination")
    assert relative(late, expected) < 1e-10


def test_early_rows_alone_say_nan_at_a_singular_arm():
    for side, singular in (("right", True), ("left", False)):  # on the left one the box hangs
        robot, q = wrist_singular(side)
        text = engines.ENGINES["numpy"](robot.request("forward_dynamics", algorithm="early"))
        still = np.zeros(robot.n)
        assert np.isnan(text(q, still, still)).any() == singular


@pytest.mark.slow
def test_only_singular_entries_of_a_batch_are_done_again():
    robot, q = wrist_singular()
    near = robot.loops.assemble(robot.integrate(q, np.full(robot.n, 0.05)))
    batch, still = np.array([q, near, q]), np.zeros(robot.n)
    together = robot.forward_dynamics(batch, still, still, engine="numpy")
    for k, x in enumerate(batch):
        expected = Dense(robot).solve(x, still, still)[0]
        assert relative(together[k], expected) < 1e-9
    f_ext = np.ones((len(robot.links), 6))
    pushed = robot.forward_dynamics(batch, still, still, f_ext, engine="numpy")
    assert relative(pushed[0], Dense(robot).solve(q, still, still, f_ext)[0]) < 1e-9


@pytest.mark.slow
def test_a_stand_in_reads_arrays_before_they_are_overwritten():
    robot, q = wrist_singular()
    still, tau = np.zeros(robot.n), np.arange(1.0, robot.n + 1)
    expected = robot.forward_dynamics(q, still, tau, algorithm="elimination", engine="numpy")
    for x in (tau.copy(), np.array([tau, tau])):
        result = robot.forward_dynamics(q, still, x, algorithm="early", engine="numpy", out=x)
        assert result is x
        assert relative(x, expected) < 1e-12
    with pytest.raises(ValueError, match=r"out \(qdd\): shape"):
        robot.forward_dynamics(q, still, tau, algorithm="early", engine="numpy", out=np.zeros(3))


@pytest.mark.slow
@pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9])
def test_near_a_singular_arm_the_answer_stays_right(distance):
    d = load("two_arms_box")
    q = Robot(d).neutral.copy()
    q[4] = q[10] = distance
    robot = grasped(d, q)
    dense, rng = Dense(robot), np.random.default_rng(1)
    qd, tau = dense.closed_rates(q, rng.normal(size=robot.n)), rng.normal(size=robot.n)
    expected = dense.solve(q, qd, tau)[0]
    assert relative(robot.forward_dynamics(q, qd, tau, engine="python"), expected) < 1e-8


@pytest.mark.slow
def test_more_loops_than_freedoms_hold_everything_still():
    """Three short arms weld an object to the ground: nothing moves, whatever pushes."""
    robot = Robot(random_arms(1, arms=3, joints=3, types=["fixed"]))
    assert robot.loops.mobility().freedom == 0
    tau = np.random.default_rng(0).normal(size=robot.n)
    still = np.zeros(robot.n)
    found = robot.forward_dynamics(robot.neutral, still, tau, engine="python")
    freely = robot.tree.forward_dynamics(robot.neutral, still, tau, engine="python")
    assert np.abs(found).max() < 1e-9 * np.abs(freely).max()


@pytest.mark.slow
def test_a_loop_that_cannot_close_says_how_far_it_stays_open():
    robot = pinned_at(load("four_bar"), 5.0)
    with pytest.raises(ValueError, match=r"do not close from here; 'pin' is open by \S+ m$"):
        robot.loops.assemble([1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="q0: the loop 'pin' is open by"):
        nlink.simulate(robot, [1.0, 0.0, 1.0], t=0.1)


def test_a_start_of_nan_is_no_assembly():
    with pytest.raises(ValueError, match=r"guess"):
        nlink.load("four_bar").loops.assemble([np.nan, 0.0, 0.0])


@pytest.mark.parametrize("kind", ["fixed", "prismatic", "revolute"])
@pytest.mark.parametrize("q", [(np.pi, 0.0, 0.0), (np.pi / 2, np.pi / 2, 0.0),
                               (0.3, 0.2, np.pi - 0.5), (0.3, 2.0, np.pi - 2.3)])
def test_half_a_turn_away_is_open_and_can_be_assembled(kind, q):
    """There the angle is 0 / 0 but for rounding, which must not look like a closed loop."""
    loop = Loop("tool", CONSTRAINTS[kind](), Frame("a", 3), Frame("b", 0, Pose.shift(1.0, 1.0)))
    robot = Robot(replace(load("planar3"), loops=(loop,)))
    if kind != "revolute":  # about its own axis a hinge may turn
        assert np.abs(robot.loops.error(q)[:3]).max() > 1e5
    closed = robot.loops.assemble(q)
    assert np.abs(robot.loops.error(closed)).max() < 1e-10
    T = robot.pose(closed)
    assert T[:2, 3] == pytest.approx([1.0, 1.0], abs=1e-9) or kind == "prismatic"
    assert T[0, 0] == pytest.approx(1.0) or kind == "revolute"


@pytest.mark.slow
def test_a_hinge_upside_down_is_open():
    d = load("four_bar")
    flipped = replace(d.loops[0].on, pose=Pose.shift(0.8) @ Pose.turn("x", np.pi - 1e-8))
    robot = Robot(replace(d, loops=(replace(d.loops[0], on=flipped),)))
    with pytest.raises(ValueError, match=r"'pin' is open by 3.14 rad, expected a closed"):
        nlink.simulate(robot, t=0.1)
    with pytest.raises(ValueError, match=r"do not close from here; 'pin' is open by 3.14 rad"):
        robot.loops.assemble()


def askew(tilt: float) -> Robot:
    """The four-bar with the rocker's axis tilted: a hinge in space then closes nowhere."""
    d = load("four_bar")
    rocker = d.joints[2]
    place = Mount(rocker.placement.before @ Pose.turn("x", tilt), rocker.placement.after)
    return Robot(replace(d, joints=(*d.joints[:2], replace(rocker, placement=place))))


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [1e-12, 1.7e-7, 3.67e-6])
def test_axes_askew_by_the_digits_of_a_file_move_as_straight_ones(tilt):
    """A quarter turn written as 1.5708 is the last of them; four turns, so all configurations."""
    straight = nlink.simulate(nlink.load("four_bar"), t=5.0)
    run = nlink.simulate(askew(tilt), t=5.0)
    assert np.abs(run.q - straight.q).max() < 1e-7 + 10 * tilt
    assert np.abs(run.robot.loops.error(run.q)).max() < 2 * tilt + 1e-12
    assert np.ptp(run.energy) < 1e-6
    assert run.robot.loops.mobility().freedom == 1
    assert run.robot.loops.assemble(run.q[77]) == pytest.approx(run.q[77], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [2e-5, 5e-5])
def test_axes_askew_by_more_are_refused(tilt):
    """Such a linkage is locked, and cannot move."""
    with pytest.raises(ValueError, match=r"'pin' is open by \S+ rad and does not close from"):
        nlink.simulate(askew(tilt), t=1.0)
    with pytest.raises(ValueError, match=r"do not close from here; 'pin' is open by \S+ rad$"):
        askew(tilt).loops.assemble()
