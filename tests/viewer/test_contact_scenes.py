"""Shapes that touch, the world and contact forces, as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.viewer.clip import Clip
from nlink.viewer.motion_page import motion_page
from nlink.viewer.pictures import ground_height, picture
from nlink.viewer.scene import Scene
from nlink.viewer.solids import hull, solid

FLAT = [1.0, 0, 0, 0]
SHAPES = [nlink.Sphere(0.1), nlink.Capsule(0.1, 0.3), nlink.Cylinder(0.1, 0.3),
          nlink.Box((0.1, 0.2, 0.3)), nlink.Ellipsoid((0.1, 0.2, 0.3)),
          nlink.Hull.around(np.random.default_rng(0).normal(size=(50, 3)))]
REACH = [(0.1, 0.1, 0.1), (0.1, 0.1, 0.25), (0.1, 0.1, 0.15), (0.05, 0.1, 0.15), (0.1, 0.2, 0.3)]


@pytest.mark.parametrize(("shape", "reach"), list(zip(SHAPES, REACH, strict=False)),
                         ids=lambda x: getattr(x, "kind", ""))
def test_a_body_that_floats_looks_like_its_shapes(shape, reach):
    scene = Scene.of(nlink.free_body("x", 1.0, shape))
    corners = scene.corners(scene.places(np.array([1.0, 2, 3, *FLAT])))
    assert np.ptp(corners, axis=0) / 2 == pytest.approx(reach, rel=0.03)
    assert (corners.max(axis=0) + corners.min(axis=0)) / 2 == pytest.approx([1, 2, 3], abs=0.01)
    extras = [part for part in scene.extras() if part.layer == "contacts"]
    assert len(extras) == 1


def test_a_hull_is_closed_and_outside_of_its_points():
    """Its volume by its faces is that within it, which planes of faces bound."""
    points = np.array(SHAPES[-1].points)
    surface = hull(points)
    a, b, c = (surface.vertices[surface.triangles[:, k]] for k in range(3))
    n = np.cross(b - a, c - a)
    assert (n * (points.mean(axis=0) - a)).sum(axis=1).max() < 0
    sides = ((points[:, None] - a) * n).sum(axis=-1)
    assert sides.max() < 1e-9
    assert n.sum(axis=0) == pytest.approx(0, abs=1e-9)  # closed
    assert solid(nlink.Box((1, 1, 1), pose=nlink.Pose(origin=(5, 0, 0)))).vertices[:, 0].min() > 4


def test_the_ground_is_where_the_world_has_it():
    """A level plane, or below terrain; other planes, terrain and boxes are parts of the scene."""
    def scene(**world) -> Scene:
        return Scene.of(nlink.free_body("x", 1.0, SHAPES[0], nlink.World(**world)))

    corners = np.array([[0, 0, 3.0]])
    assert ground_height(scene(), corners) == 0
    assert ground_height(scene(planes=[((0, 0, 1), -2.0)]), corners) == -2
    field = nlink.HeightField([[0.0, 1.0], [0.5, -1.0]], (0, 2), (0, 1))
    uneven = scene(height_field=field, boxes=[nlink.Box((1, 1, 1))])
    assert ground_height(uneven, corners) == pytest.approx(-1, abs=0.01)
    land, block = (part.surface for part in uneven.parts if part.layer == "world")
    assert set(np.round(land.vertices[:, 2], 6)) == {-1.0, 0.0, 0.5, 1.0}
    assert np.ptp(block.vertices, axis=0) == pytest.approx([1, 1, 1])
    tilted, = (part.surface for part in scene(planes=[((1, 0, 1), 0)]).parts
               if part.layer == "world")
    assert np.abs(tilted.vertices @ [1, 0, 1]).max() < 0.01


def test_contact_forces_of_a_run_are_arrows():
    """A ball at rest: its weight, up from the ground, a third of the robot's size long."""
    ball = nlink.free_body("ball", 2.0, nlink.Sphere(0.1), nlink.World())
    run = nlink.simulate(ball, [0.3, 0, 0.1, *FLAT], t=0.1, method="semi_implicit", step=1e-3)
    clip = Clip.of(run)
    assert clip.forces[0, -1] == pytest.approx(np.array([[0, 0, 2 * 9.81]]), abs=1e-9)
    assert clip.points[0, -1] == pytest.approx(np.array([[0.3, 0, 0]]), abs=1e-9)
    assert clip.arrows[0, -1, 0, 2] == pytest.approx(0.35 * clip.scene.size)
    assert run.contacts["ball"].point[-1] == pytest.approx([0.3, 0, 0], abs=1e-9)
    page = motion_page(clip)
    assert '"layer":"contacts"' in page
    image = picture(clip.scene, clip.places[0, -1], width=64, height=48, layers=["contacts"])
    assert image.shape == (48, 64, 3)


def test_contact_forces_in_a_view():
    pytest.importorskip("viser")
    ball = nlink.free_body("ball", 2.0, nlink.Sphere(0.1), nlink.World())
    run = nlink.simulate(ball, [0.3, 0, 0.1, *FLAT], t=0.1, method="semi_implicit", step=1e-3)
    with run.view() as view:
        assert view.arrows is not None
        view._show_at(0.1)
        view._mark("contacts", True)
        assert view._extras["contacts"]
