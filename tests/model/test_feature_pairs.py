"""How shapes meet, against distances that are found by looking at many points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.algorithms.feature_pairs import APART, ground, meeting, support
from nlink.algorithms.kinematics import Place
from nlink.model.candidates import PlacedShape, against, against_world, world_parts
from nlink.model.mechanism import Attachment
from nlink.model.shapes import moments, thinned
from nlink.spatial import Matrix, Vector


def numbers(v: Vector) -> np.ndarray:
    return np.array([float(x) for x in v.components])


def place(rng: np.random.Generator, size: float = 1.0) -> Place:
    return Place(Matrix.from_rows(nlink.exp3(rng.normal(size=3)).tolist()),
                 Vector(*(size * rng.normal(size=3)).tolist()))


def shape_on(number: int, shape) -> PlacedShape:
    pose = shape.pose
    return PlacedShape(f"s{number}", f"s{number}", shape, Attachment(
        number, Matrix.from_rows(pose.rotation), Vector(*pose.origin)))


def core(shape) -> np.ndarray:
    """Points whose neighbourhoods are the shape, but for its radius."""
    if isinstance(shape, nlink.Sphere):
        return np.zeros((1, 3))
    return np.linspace(-0.5, 0.5, 4001)[:, None] * [0, 0, shape.length]


def distance(shape, points: np.ndarray) -> np.ndarray:
    """How far points are outside a shape, in its own axes; negative inside."""
    if isinstance(shape, nlink.Box):
        off = np.abs(points) - np.array(shape.edges) / 2
        return np.where((off > 0).any(axis=-1), np.linalg.norm(np.maximum(off, 0), axis=-1),
                        off.max(axis=-1))
    z = 0.5 * shape.length if isinstance(shape, nlink.Capsule) else 0.0
    near = np.clip(points[..., 2], -z, z)[..., None] * [0, 0, 1]
    return np.linalg.norm(points - near, axis=-1) - shape.radius


def matrix(where: Place) -> np.ndarray:
    return np.array(where.R.rows, dtype=float)


ROUND = [nlink.Sphere(0.3), nlink.Capsule(0.2, 1.5)]
TWO = [(a, b) for a in ROUND for b in (*ROUND, nlink.Box((1.0, 0.6, 0.3)))
       if not (isinstance(a, nlink.Capsule) and isinstance(b, nlink.Sphere))]


def nearest(one, two, at: Place, other: Place):
    """The meeting with the least gap, of all by which two shapes touch."""
    found = [meeting(a, at, b, other) for a, b in against(shape_on(1, one), shape_on(2, two))]
    return min(found, key=lambda each: each[0])


@pytest.mark.parametrize(("one", "two"), TWO)
def test_gaps_are_distances_and_normals_their_gradients(one, two):
    """In 40 places, above and inside of each other; points lie on the first shape."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        at, other = place(rng), place(rng, 0.3)
        gap, normal, arm = nearest(one, two, at, other)
        world = core(one) @ matrix(at).T + numbers(at.p)
        seen = (world - numbers(other.p)) @ matrix(other)
        far = distance(two, seen).min() - one.radius
        deep = isinstance(two, nlink.Box) and isinstance(one, nlink.Capsule) and (
            far < -one.radius)
        assert gap == pytest.approx(far, abs=1e-6) or (deep and gap < 0)
        assert np.linalg.norm(numbers(normal)) == pytest.approx(1)
        if deep:  # its line is in the box: it is pushed out somewhere
            continue
        assert distance(one, numbers(arm)[None]) == pytest.approx(0, abs=1e-12)
        slope = []
        for step in 1e-5 * np.eye(3):
            both = [nearest(one, two, replace(at, p=at.p + Vector(*(sign * step))), other)[0]
                    for sign in (-1, 1)]
            slope.append((both[1] - both[0]) / 2e-5)
        assert numbers(normal) == pytest.approx(slope, abs=1e-4)


def test_a_capsule_rests_on_both_edges_of_a_narrow_box():
    """Across it, level or tilted a little: between its ends it touches at either edge."""
    bar, beam = nlink.Capsule(0.1, 2.0), nlink.Box((0.5, 3.0, 0.4))
    for tilt in (0.0, 1e-9, -1e-9, 1e-3):
        R = nlink.exp3(np.array([0, np.pi / 2 + tilt, 0]))
        at = Place(Matrix.from_rows(R.tolist()), Vector(0.05, 0.0, 0.3))
        found = [meeting(a, at, b, Place(Matrix.identity(), Vector.zero()))
                 for a, b in against(shape_on(1, bar), shape_on(2, beam))]
        touching = [each for each in found if each[0] < 0.01]
        x = sorted((R @ numbers(arm) + numbers(at.p))[0] for _, _, arm in touching)
        assert x == pytest.approx([-0.25, 0.25], abs=1e-3)
        assert [each[0] for each in touching] == pytest.approx([0, 0], abs=1e-3)


def test_parallel_capsules_touch_in_the_middle_of_where_they_are_side_by_side():
    at = Place(Matrix.identity(), Vector(0.5, 0.0, 0.6))
    gap, normal, arm = nearest(nlink.Capsule(0.1, 1.0), nlink.Capsule(0.2, 1.0), at, Place(
        Matrix.identity(), Vector.zero()))
    assert gap == pytest.approx(0.2)
    assert numbers(normal) == pytest.approx([1, 0, 0])
    assert numbers(arm) == pytest.approx([-0.1, 0, -0.3])


def surface(shape, rng: np.random.Generator) -> np.ndarray:
    """Many points of a shape, in its axes."""
    if isinstance(shape, nlink.Hull):
        return np.array(shape.points)
    if isinstance(shape, nlink.Ellipsoid):
        u = rng.normal(size=(20_000, 3))
        return u / np.linalg.norm(u, axis=1)[:, None] * shape.half_axes
    turn = np.linspace(0, 2 * np.pi, 5_000)
    rim = np.stack([shape.radius * np.cos(turn), shape.radius * np.sin(turn), 0 * turn], axis=1)
    return np.vstack([rim + np.array([0, 0, z * shape.length]) for z in (-0.5, 0.5)])


@pytest.mark.parametrize("shape", [
    nlink.Cylinder(0.3, 0.8), nlink.Ellipsoid((0.3, 0.5, 0.2)),
    nlink.Hull.around(np.random.default_rng(1).normal(size=(30, 3)))], ids=lambda s: s.kind)
def test_lowest_points_on_planes(shape):
    """The least of the gaps is that of the lowest of many points, and the normal its gradient."""
    rng = np.random.default_rng(2)
    part = world_parts(nlink.World(planes=[(rng.normal(size=3), 0.2)]))[0]
    world = Place(Matrix.identity(), Vector.zero())
    n, offset = numbers(part.feature.normal), part.feature.offset
    for _ in range(20):
        at = place(rng)
        found = [meeting(a, at, b, world) for a, b in against_world(shape_on(1, shape), part)]
        points = surface(shape, rng) @ matrix(at).T + numbers(at.p)
        gap, normal, _ = min(found, key=lambda each: each[0])
        assert gap == pytest.approx((points @ n).min() - offset, abs=5e-4)
        assert numbers(normal) == pytest.approx(n)
        for each in found:  # the gap is that of the point where it acts
            point = matrix(at) @ numbers(each[2]) + numbers(at.p)
            assert point @ n - offset == pytest.approx(each[0], abs=1e-12)


def test_a_cylinder_stands_on_three_points_and_lies_on_two():
    can, world = nlink.Cylinder(0.3, 0.8), Place(Matrix.identity(), Vector.zero())
    part = world_parts(nlink.World())[0]
    for turn, height, count in ((np.eye(3), 0.4, 3), (nlink.exp3([np.pi / 2, 0, 0]), 0.3, 2)):
        at = Place(Matrix.from_rows(turn.tolist()), Vector(0, 0, height))
        found = [meeting(a, at, b, world) for a, b in against_world(shape_on(1, can), part)]
        arms = np.array([numbers(arm) for gap, _, arm in found if abs(gap) < 1e-12])
        assert len(arms) == count
        assert arms.mean(axis=0) @ turn[:, :2] == pytest.approx(0, abs=1e-12)


def hills(x, y):
    return 0.1 * np.sin(x) * np.cos(0.7 * y)


@pytest.fixture(scope="module")
def field() -> nlink.HeightField:
    x, y = np.linspace(-2, 3, 51), np.linspace(-1, 1, 21)
    return nlink.HeightField(hills(x[:, None], y[None, :]), x=(-2, 3), y=(-1, 1), friction=0.3)


def test_terrain_is_bilinear_between_its_heights_and_level_beyond(field):
    terrain = world_parts(nlink.World(height_field=field))[0].feature
    rng = np.random.default_rng(3)
    at_grid, n = ground(terrain, Vector(-1.5, 0.4, 7.0))
    assert at_grid == pytest.approx(hills(-1.5, 0.4))
    for x, y in rng.uniform((-1.9, -0.9), (2.9, 0.9), size=(40, 2)):
        height, n = ground(terrain, Vector(x, y, 0.0))
        assert height == pytest.approx(hills(x, y), abs=3e-4)
        i, j = (x + 2) / 0.1, (y + 1) / 0.1
        if max(abs(i - round(i)), abs(j - round(j))) > 0.49:
            continue
        step = 1e-7
        if int((x + step + 2) / 0.1) == int((x - step + 2) / 0.1):
            slope = (ground(terrain, Vector(x + step, y, 0))[0]
                     - ground(terrain, Vector(x - step, y, 0))[0]) / (2 * step)
            assert float(n.x) == pytest.approx(-slope * float(n.z), abs=1e-6)
    edge, n = ground(terrain, Vector(9.0, 0.4, 0.0))
    assert edge == pytest.approx(hills(3.0, 0.4))
    assert float(n.x) == 0
    assert ground(terrain.raised(0.2), Vector(0, 0, 0))[0] == pytest.approx(0.2)


def test_every_shape_touches_a_sloping_field_as_it_does_the_plane():
    """A field whose heights are those of a plane is that plane."""
    rng = np.random.default_rng(4)
    slope = np.array([0.3, -0.2])
    x = np.linspace(-9, 9, 7)
    field = nlink.HeightField(slope[0] * x[:, None] + slope[1] * x[None, :] + 0.1, (-9, 9), (-9, 9))
    plane, = world_parts(nlink.World(planes=[((*-slope, 1), 0.1)]))
    uneven, = world_parts(nlink.World(height_field=field))
    world = Place(Matrix.identity(), Vector.zero())
    for shape in (nlink.Sphere(0.3), nlink.Capsule(0.2, 1.0), nlink.Box((1, 0.5, 0.2)),
                  nlink.Cylinder(0.3, 0.8), nlink.Ellipsoid((0.3, 0.5, 0.2))):
        at = place(rng)
        pairs = [[meeting(a, at, b, world) for a, b in against_world(shape_on(1, shape), part)]
                 for part in (plane, uneven)]
        for one, two in zip(*pairs, strict=True):
            assert two[0] == pytest.approx(one[0], abs=1e-12)
            assert numbers(two[1]) == pytest.approx(numbers(one[1]), abs=1e-12)
            assert numbers(two[2]) == pytest.approx(numbers(one[2]), abs=1e-12)


def test_a_thinned_hull_lies_in_the_whole_one_and_says_how_far():
    rng = np.random.default_rng(5)
    cloud = rng.normal(size=(500, 3))
    corners, lack = thinned(cloud)
    u = rng.normal(size=(4000, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    missing = (cloud @ u.T).max(axis=0) - (np.array(corners) @ u.T).max(axis=0)
    assert missing.min() >= 0
    assert 0 < missing.max() <= 1.2 * lack
    box = np.array(list(np.ndindex(2, 2, 2)), float) - 0.5
    inside = rng.uniform(-0.5, 0.5, size=(500, 3))
    corners, lack = thinned(np.vstack([inside, box]))
    assert sorted(corners) == sorted(map(tuple, box.tolist()))
    assert lack == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("shape", [
    nlink.Sphere(0.3), nlink.Box((0.2, 0.3, 0.5)), nlink.Cylinder(0.2, 0.5),
    nlink.Ellipsoid((0.2, 0.3, 0.4)), nlink.Capsule(0.2, 0.5)], ids=lambda s: s.kind)
def test_moments_of_homogeneous_bodies(shape):
    """Against the points of a fine grid that are inside."""
    line = (np.arange(100) + 0.5) / 100 - 0.5
    x = np.stack(np.meshgrid(line, line, line), axis=-1).reshape(-1, 3)
    if isinstance(shape, nlink.Cylinder):
        inside = (np.hypot(x[:, 0], x[:, 1]) <= shape.radius) & (abs(x[:, 2]) <= shape.length / 2)
    elif isinstance(shape, nlink.Ellipsoid):
        inside = ((x / shape.half_axes) ** 2).sum(axis=1) <= 1
    else:
        inside = distance(shape, x) <= 1e-9
    square = (x[inside] ** 2).mean(axis=0)
    found = np.array(moments(shape, 3.0))
    assert found == pytest.approx(3.0 * (square.sum() - square), rel=0.03)


def test_support_of_an_upright_cylinder_is_a_number():
    can = next(iter(against_world(shape_on(1, nlink.Cylinder(0.3, 0.8)), world_parts(
        nlink.World())[0])))[0]
    assert np.isfinite(numbers(support(can, Vector(0.0, 0.0, 1.0)))).all()
    assert APART > 1e3
