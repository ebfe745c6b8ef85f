"""The rows of contacts against dense algebra, on random mechanisms, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

import contact_cases
import nlink
from nlink.algorithms.contact_points import contact_points
from nlink.algorithms.kinematics import forward_kinematics
from nlink.algorithms.sweep import Unrolled
from nlink.testing import random_robot
from nlink.testing.mechanisms import EVERY


def jacobian(robot: nlink.Robot, q, radius: float) -> np.ndarray:
    """J of the lowest point of a ball at the origin of the last link; t and u of the ground are
    the world's x and y."""
    J = robot.jacobian(q, robot.links[-1].name)
    return np.cross(J[:3].T, [0, 0, -radius]).T + J[3:]


@pytest.fixture(params=range(5))
def robot(request) -> nlink.Robot:
    made = random_robot(request.param, 5, types=EVERY, fixed=False)
    return made.with_contacts({made.links[-1].name: nlink.Sphere(0.1)})


@pytest.mark.slow
def test_rows_are_those_of_dense_algebra(robot):
    """G = J M^-1 J^T and g = J (qd + h M^-1 (tau - b)) with the gap over h in the normal."""
    rng, h = np.random.default_rng(0), 1e-3
    q, qd = robot.random_state(rng)
    tau = rng.normal(size=robot.n)
    J, qdd = jacobian(robot, q, 0.1), robot.forward_dynamics(q, qd, tau)
    found = robot.contact_problem(q, qd, tau, h)
    G = J @ np.linalg.solve(robot.mass_matrix(q), J.T)
    assert pytest.approx(G, abs=1e-9 * np.abs(G).max()) == found.G
    gap = robot.pose(q, robot.links[-1].name)[2, 3] - 0.1
    assert found.gap == pytest.approx([gap])
    turning = robot.mechanism.space.turning(q, qd)
    free = J @ (qd + h * (qdd - np.array(turning)))
    push = gap / h if gap > 0 else max(0.2 * gap / h, -1.0)
    scale = max(1.0, np.abs(free).max(), abs(push))
    assert found.g == pytest.approx(free + np.array([0, 0, push]), abs=1e-9 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_rows_of_two_links_are_those_of_dense_algebra(seed):
    """Balls of two links of one tree: J is the difference of those of the point in both, and the
    forces on both add up to nothing."""
    rng = np.random.default_rng(seed)
    made = random_robot(seed, 6, types=EVERY, fixed=False, tree=True)
    one, two = made.links[-1].name, made.links[2].name
    robot = made.with_contacts({name: nlink.Sphere(0.1, pairs_only=True) for name in (one, two)},
                               pairs=[(one, two)])
    q, qd = robot.random_state(rng)
    centres = [robot.pose(q, name)[:3, 3] for name in (one, two)]
    n = centres[0] - centres[1]
    n /= np.linalg.norm(n)
    point = centres[0] - 0.1 * n
    J = 0
    for name, centre, sign in zip((one, two), centres, (1, -1), strict=True):
        own = robot.jacobian(q, name)
        J = J + sign * (own[3:] + np.cross(own[:3].T, point - centre).T)
    found = robot.contact_problem(q, qd, 0 * qd)
    assert found.gap == pytest.approx(np.linalg.norm(centres[0] - centres[1]) - 0.2)
    G = J @ np.linalg.solve(robot.mass_matrix(q), J.T)  # along the world's axes
    scale = np.abs(G).max()
    assert found.G[2, 2] == pytest.approx(n @ G @ n, abs=1e-9 * scale)
    assert np.trace(found.G) == pytest.approx(np.trace(G), abs=1e-9 * scale)
    assert np.linalg.eigvalsh(found.G) == pytest.approx(np.linalg.eigvalsh(G), abs=1e-8 * scale)
    driver = Unrolled(robot.mechanism)
    places = forward_kinematics(driver, robot.mechanism.split(q, "nq"), robot.mechanism.base.p)
    touch, = contact_points(driver, places, robot.mechanism.base.p)
    for ends in touch.on_bodies():
        total = np.zeros(6)
        for body, wrench in ends:
            at, x = (np.array(each, dtype=float) for each in (
                places[body].R.rows, places[body].p.components))
            force, moment = (at @ np.array(each.components, dtype=float) for each in (
                wrench.force, wrench.moment))
            total += np.concatenate([force, moment + np.cross(x, force)])
        assert total == pytest.approx(0, abs=1e-12 * max(1, np.abs(centres).max()))


def test_a_ball_on_the_ground_by_hand():
    """m = 1, I = 0.4 m r^2: tangents answer with 1/m + r^2/I = 3.5, the normal with 1."""
    ball = contact_cases.ball(0.1)
    at = [0, 0, 0.1, 1, 0, 0, 0]
    still = np.zeros(6)
    found = ball.contact_problem(at, still, still, 1e-3)
    assert pytest.approx(np.diag([3.5, 3.5, 1.0]), abs=1e-12) == found.G
    assert found.g == pytest.approx([0, 0, -9.81e-3], abs=1e-12)
    assert found.friction == pytest.approx([0.8])


def test_tangents_of_tilted_planes_do_not_change_what_is_touched(robot):
    """The product with the frame (t, u, n) turns G; its trace and spectrum stay."""
    tilted = robot.with_contacts({robot.links[-1].name: nlink.Sphere(0.1)}, nlink.World(
        planes=[((0.1, 0.2, 1.0), 0.0)]))
    rng = np.random.default_rng(1)
    q, qd = tilted.random_state(rng)
    G = tilted.contact_problem(q, qd, 0 * qd).G
    assert pytest.approx(G.T) == G
    assert np.linalg.eigvalsh(G).min() > -1e-9 * np.abs(G).max()


@pytest.mark.parametrize(("make", "message"), [
    (lambda: nlink.load("planar3"), "planar3 has no contacts, expected a robot from"),
])
def test_what_is_refused_is_named(make, message):
    robot = make()
    with pytest.raises(ValueError, match=message):
        robot.contact_problem(np.zeros(robot.nq), np.zeros(robot.n), np.zeros(robot.n))


def test_a_box_touches_with_its_corners_and_a_capsule_with_its_ends():
    world = nlink.World(friction=0.5)
    edges, at = np.array([0.4, 0.2, 0.1]), np.array([0, 0, 0.3, *contact_cases.turn([0.3, 0.2, 1])])
    box = contact_cases.body(1.0, (1, 1, 1), nlink.Box(tuple(edges)), world)
    capsule = contact_cases.body(1.0, (1, 1, 1), nlink.Capsule(0.1, 0.4), world)
    still = np.zeros(6)
    R = box.pose(at)[:3, :3]
    signs = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1)
    corners = 0.3 + (R @ (signs * edges[:, None] / 2))[2]
    assert sorted(box.contact_problem(at, still, still).gap) == pytest.approx(sorted(corners))
    ends = 0.3 + np.array([-0.2, 0.2]) * R[2, 2] - 0.1
    assert sorted(capsule.contact_problem(at, still, still).gap) == pytest.approx(sorted(ends))
