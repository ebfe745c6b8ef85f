"""Configurations are added to and subtracted in their spaces, as Pinocchio does it."""

import pickle

import numpy as np
import pinocchio as pin
import pytest

import nlink
from nlink.formats.bridges import pinocchio_order, to_pinocchio
from nlink.model.coordinates import coordinate_units
from nlink.model.spaces import Circle, Lines, Placements, Product, Rotations
from nlink.programs.program import Port, Program
from nlink.scalars.graph import Graph
from nlink.testing import random_robot

TYPES = ("revolute", "prismatic", "helical", "universal", "planar", "spherical", "free")


@pytest.mark.parametrize("seed", range(8))
def test_difference_undoes_integrate(seed):
    robot = random_robot(seed, 5, types=TYPES)
    rng = np.random.default_rng(seed)
    q, _ = robot.random_state(rng, (20,))
    v = rng.uniform(-0.9, 0.9, (20, robot.n))  # rotation vectors shorter than pi
    np.testing.assert_allclose(robot.difference(q, robot.integrate(q, v)), v, atol=1e-12)
    np.testing.assert_allclose(robot.integrate(q, 0 * v), q, atol=1e-15)


@pytest.mark.parametrize("seed", range(8))
def test_integrate_and_difference_are_pinocchios(seed):
    robot = random_robot(seed, 5, types=("revolute", "prismatic", "spherical", "free"))
    model, order = to_pinocchio(robot.description), pinocchio_order(robot.description)
    rng = np.random.default_rng(seed)
    q0, _ = robot.random_state(rng)
    q1, _ = robot.random_state(rng)
    v = rng.normal(size=robot.n)
    there = pin.integrate(model, q0[order.coordinates], v[order.rates])
    here = robot.integrate(q0, v)[order.coordinates]
    back = pin.difference(model, q0[order.coordinates], q1[order.coordinates])
    np.testing.assert_allclose(pin.difference(model, here, there), 0, atol=1e-12)
    np.testing.assert_allclose(robot.difference(q0, q1)[order.rates], back, atol=1e-11)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-6, 1e-3, 0.99e-2, 1.01e-2])
def test_small_steps_lose_no_digits(size):
    """The screw of a small rotation, against many small ones."""
    space = nlink.Free().space
    q = np.array(space.neutral)
    v = np.array([size, -2 * size, size, 1.0, 2.0, 3.0])
    parts = q
    for _ in range(64):
        parts = space.integrate(parts, v / 64)
    np.testing.assert_allclose(space.integrate(q, v), parts, atol=1e-13)
    np.testing.assert_allclose(space.difference(q, parts), v, atol=1e-13)


def test_spaces_are_written_on_any_scalar():
    """Traced, a space gives what it gives on floats; a line is left alone."""
    space = random_robot(14, 5, types=TYPES).mechanism.space
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=space.nq), rng.normal(size=space.nv)
    graph = Graph()
    nodes = [[graph.input(f"{name}[{k}]") for k in range(len(x))]
             for name, x in (("q", q), ("v", v))]
    for name, count in (("normalize", 1), ("integrate", 2), ("tangent", 2)):
        traced = tuple(graph.lift(x) for x in getattr(space, name)(*nodes[:count]))
        ports = (Port("q", (space.nq,)), Port("v", (space.nv,)))
        program = Program(name, ports, (Port("result", (len(traced),)),), traced)
        (found,) = program(q.tolist(), v.tolist())
        np.testing.assert_allclose(found, getattr(space, name)(*(q, v)[:count]), rtol=1e-15)
    assert Lines(2).normalize(nodes[0][:2]) == tuple(nodes[0][:2])


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"v: shape \(5,\), expected \(\.\.\., 6\)"):
        nlink.load("puma560").integrate(np.zeros(6), np.zeros(5))


def test_a_used_robot_pickles():
    robot = nlink.load("planar3")
    before = robot.gravity_torque([0.1, 0.2, 0.3])
    again = pickle.loads(pickle.dumps(robot))
    assert again.description == robot.description
    np.testing.assert_array_equal(again.gravity_torque([0.1, 0.2, 0.3]), before)


def test_coordinates_of_products_keep_their_names():
    slide = Product((Circle(), Lines(1)))
    assert (slide.labels, slide.rate_labels) == (("cos", "sin", "3"), ("1", "2"))
    assert Product((Lines(1), Lines(1))).labels == ("1", "2")
    assert Product((Lines(1),)).labels == ("",)
    assert Product((Rotations(), Rotations())).labels == tuple("12345678")


def test_a_coordinate_of_a_curved_space_has_no_unit_of_length():
    class Wrapped(Lines):
        flat = False

    class Turning(nlink.Revolute):
        name = "turning, wrapped"
        space = Wrapped(1)

    link = nlink.Link("link", mass=1.0)
    description = nlink.Description("one", (link,), (nlink.Joint("hub", Turning()),))
    assert coordinate_units(description) == ("",)


def test_steps_keep_velocities_in_the_world():
    """`step` moves a free body along a straight line, and R v of the linear rates is the same
    before and after; `turning` is the derivative of such rates."""
    space, rng = Placements(), np.random.default_rng(0)
    q, v, h = space.random(rng), rng.normal(size=6), 0.3

    def world(q, v):
        return nlink.matrix_from_quaternion(np.array(q[3:])) @ v[3:]

    after, there = space.step(q, v, h)
    np.testing.assert_allclose(np.array(after[:3]) - q[:3], h * world(q, v), atol=1e-14)
    np.testing.assert_allclose(world(after, np.array(there)), world(q, v), atol=1e-14)
    np.testing.assert_allclose(there[:3], v[:3])
    near = space.step(q, v, 1e-6)[1]
    np.testing.assert_allclose((np.array(near) - v) / 1e-6, space.turning(q, v), atol=1e-5)
    assert Product((Lines(2), space)).turning((0, 0, *q), (1, 2, *v))[2:] == space.turning(q, v)
