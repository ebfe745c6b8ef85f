"""Scenes: every robot is drawn, and its links are where `robot.pose` has them."""

from __future__ import annotations

import zlib
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import pytest

import nlink
from nlink.testing.mechanisms import EVERY, random_description
from nlink.viewer import surfaces
from nlink.viewer.mesh_files import find_mesh
from nlink.viewer.pictures import picture, png
from nlink.viewer.places import LinkPlaces, quaternions
from nlink.viewer.scene import BONES, Scene, _brief
from nlink.viewer.scene_page import is_closed
from nlink.viewer.solids import equal_inertia


def example_files() -> dict[str, Path]:
    try:
        found = files("example-robot-data") or []
    except PackageNotFoundError:
        return {}
    return {f"{Path(str(f)).parents[1].name}/{Path(str(f)).stem}": Path(str(f.locate()))
            for f in found if f.name.endswith(".urdf") and f.stem != "ur3"}


FILES = example_files()
DRAWN = ["double_pendulum_description/double_pendulum", "ur_description/ur5_robot",
         "panda_description/panda", "talos_data/talos_reduced", "solo_description/solo12",
         "laikago_description/laikago", "anymal_b_simple_description/anymal"]
"""Boxes, STL, DAE and OBJ files, and a mesh that trimesh does not read."""


def assert_places(robot: nlink.Robot, scene: Scene, count: int = 10) -> None:
    q, _ = robot.random_state(0)
    places = scene.places(q)
    links = np.unique(np.linspace(0, len(robot.links), count).astype(int))
    for link in links.tolist():
        expected = robot.pose(q, link, engine="numpy")
        np.testing.assert_allclose(places[link], expected, atol=1e-13 * max(1, scene.size))
    batch = scene.places(np.stack([robot.neutral, q]))
    np.testing.assert_allclose(batch[1], places, rtol=0, atol=1e-14 * max(1, scene.size))


@pytest.mark.parametrize("name", nlink.robots())
@pytest.mark.slow
def test_bundled_robots_are_drawn_where_they_are(name):
    robot = nlink.load(name, physical="ignore")
    scene = Scene.of(robot)
    assert scene.notes == []
    assert_places(robot, scene)
    image = picture(scene, scene.places(robot.neutral), width=96, height=72)
    assert image.std() > 10, "the picture is empty"


@pytest.mark.parametrize("seed", range(8))
def test_every_joint_type_moves_its_link(seed):
    robot = nlink.Robot(random_description(seed, types=EVERY))
    scene = Scene.of(robot)
    assert_places(robot, scene)
    q, _ = robot.random_state(seed)
    center = robot.center_of_mass(q, engine="numpy")
    np.testing.assert_allclose(scene.center_of_mass(scene.places(q)), center, atol=1e-12)


@pytest.mark.skipif(not FILES, reason="example-robot-data is not installed")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.slow
def test_shipped_robots_are_drawn(name):
    pytest.importorskip("trimesh")
    robot = nlink.load(FILES[name], physical="ignore")
    scene = Scene.of(robot)
    assert_places(robot, scene)
    assert all("not drawn" not in note or "anymal_foot" in note for note in scene.notes)
    image = picture(scene, scene.places(robot.neutral), width=96, height=72)
    assert image.std() > 5, "the picture is empty"


@pytest.mark.skipif(not FILES, reason="example-robot-data is not installed")
@pytest.mark.slow
def test_meshes_of_every_shipped_robot_are_found():
    for name, path in FILES.items():
        for visual in nlink.load(path, physical="ignore").description.visuals:
            if visual.shape == "mesh" and "naoqi-sdk" not in visual.file:
                assert find_mesh(visual.file, visual.origin).is_file(), name


@pytest.mark.parametrize("seed", range(4))
def test_quaternions_of_rotations(seed):
    rng = np.random.default_rng(seed)
    w, x, y, z = quaternion = rng.normal(size=4) * [seed != 1, 1, seed != 2, 1]
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    R = np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                  [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                  [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])
    found = quaternions(R)
    assert abs(abs(found @ [w, x, y, z]) - 1) < 1e-14


@pytest.mark.parametrize("surface", [
    surfaces.box(1, 2, 3), surfaces.cylinder(0.5, 2), surfaces.capsule(0.3, 1, 0.1),
    surfaces.ellipsoid(1, 2, 3), surfaces.arrow(1, 0.05)], ids=range(5))
def test_surfaces_are_closed_and_look_outward(surface):
    a, b, c = (surface.vertices[surface.triangles[:, k]] for k in range(3))
    faces = np.cross(b - a, c - a)
    assert np.einsum("ij,ij->", a, faces) > 0, "inside out"
    np.testing.assert_allclose(faces.sum(axis=0), 0, atol=1e-9)  # closed: areas add up to nothing
    corner = surface.normals[surface.triangles]
    assert (np.einsum("ikj,ij->ik", corner, faces) > 0).all()
    mirrored = surface.placed(np.diag([-1.0, 1.0, 1.0, 1.0]))
    a, b, c = (mirrored.vertices[mirrored.triangles[:, k]] for k in range(3))
    assert np.einsum("ij,ij->", a, np.cross(b - a, c - a)) > 0, "a mirror image is inside out"


def test_pages_know_whose_backs_are_never_seen():
    """Of a closed surface that looks outward; not where a triangle is missing or looks inward."""
    surface = surfaces.cylinder(1.0, 2.0)
    vertices, triangles = np.round(1000 * surface.vertices).astype(int), surface.triangles
    assert is_closed(vertices, triangles)
    assert not is_closed(vertices, triangles[1:])
    assert not is_closed(vertices, triangles[:, ::-1])
    turned = triangles.copy()
    turned[3] = turned[3, ::-1]
    assert not is_closed(vertices, turned)
    assert not is_closed(vertices, np.concatenate([triangles, triangles[:1]]))


def test_simplified_surfaces_are_small_and_near():
    ball = surfaces.lathe([(np.sin(a), -np.cos(a)) for a in np.linspace(0, np.pi, 60)], 120)
    few = ball.simplified(2000)
    assert 500 < len(few.triangles) <= 2000
    assert np.abs(np.linalg.norm(few.vertices, axis=1) - 1).max() < 0.1


def test_ellipsoid_and_box_have_the_inertia_of_the_link():
    link = nlink.Link("x", 5.0, (0, 0, 0), ((5 / 12 * 0.25, 0, 0), (0, 5 / 12 * 0.2, 0),
                                            (0, 0, 5 / 12 * 0.13)))
    box = equal_inertia(link, 1.0, box=True)
    assert box is not None
    np.testing.assert_allclose(np.ptp(box.vertices, axis=0), [0.2, 0.3, 0.4], rtol=1e-9)


def test_a_floating_base_and_a_payload_keep_what_links_look_like():
    text = ('<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" '
            'izz="1"/></inertial><visual><geometry><box size="1 1 1"/></geometry></visual></link>'
            '</robot>')
    from nlink.formats.load import floated
    from nlink.formats.urdf import parse_urdf

    fixed = parse_urdf(text)
    assert fixed == parse_urdf(text.replace("<box size=\"1 1 1\"/>", "<sphere radius=\"1\"/>"))
    assert floated(fixed).visuals == fixed.visuals
    assert len(LinkPlaces(floated(fixed))(np.array([1.0, 0, 0, 0, 1, 2, 3]))) == 2


def test_a_png_file_holds_its_pixels():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    data = png(image)
    at = data.index(b"IDAT")
    size = int.from_bytes(data[at - 4:at], "big")
    rows = np.frombuffer(zlib.decompress(data[at + 4:at + 4 + size]), np.uint8).reshape(5, -1)
    assert (rows[:, 0] == 2).all()
    assert (np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).reshape(image.shape) == image).all()


def test_pictures_say_what_is_wrong(tmp_path):
    robot = nlink.load("planar3")
    with pytest.raises(ValueError, match=r"theme: 'pink', expected 'light' or 'dark'"):
        robot.png(theme="pink")
    with pytest.raises(ValueError, match=r"q: shape \(2,\), expected"):
        robot.png(q=[0, 0])
    with pytest.raises(ValueError, match=r"suffix '.gif', expected .png"):
        robot.png(tmp_path / "x.gif", width=32, height=24)
    with pytest.raises(TypeError, match=r"path: \[0.0, .*robot.png\(path, q\)"):
        robot.png(robot.neutral.tolist())
    with pytest.raises(ValueError, match="pixels, expected 16 to 4096"):
        robot.png(width=100_000)
    with pytest.raises(ValueError, match=r"100\.5 x 720 pixels"):
        robot.png(width=100.5)


def test_notes_are_spelled_out():
    assert _brief(["\x1b[2Jgone\nmore"]) == ["\\x1b[2Jgone more"]


def test_a_stewart_platform_has_plates_and_telescopes():
    robot = nlink.load("stewart")
    scene = Scene.of(robot)
    names = ["", *(link.name for link in robot.links)]
    drawn = {names[part.link]: part.surface for part in scene.parts if part.colour in BONES}
    base, platform, tube, rod = (drawn[name] for name in ("", "platform", "barrel1", "rod1"))
    for plate, radius in ((base, 0.8), (platform, 0.5)):
        low, high = plate.vertices.min(axis=0), plate.vertices.max(axis=0)
        assert high[2] - low[2] < 0.1, "a plate is flat"
        assert (high - low)[:2].min() > 1.5 * radius, "and holds the joints"
    # along the leg, the tube and the rod overlap at home and 0.2 m to either side
    length = float(robot.joints[1].placement.before.p[1])
    for extension in (-0.2, 0.0, 0.2):
        assert rod.vertices[:, 1].min() + length + extension < tube.vertices[:, 1].max()
        assert rod.vertices[:, 1].min() + length + extension > tube.vertices[:, 1].min()
    assert np.ptp(rod.vertices[:, 0]) < np.ptp(tube.vertices[:, 0])


def test_plates_are_closed_and_only_for_points_of_a_plane():
    rng = np.random.default_rng(0)
    flat = np.column_stack([rng.normal(size=(9, 2)), np.zeros(9)])
    plate = surfaces.plate(list(flat), 0.1)
    assert plate is not None
    a, b, c = (plate.vertices[plate.triangles[:, k]] for k in range(3))
    faces = np.cross(b - a, c - a)
    np.testing.assert_allclose(faces.sum(axis=0), 0, atol=1e-12)
    assert np.einsum("ij,ij->", a - plate.vertices.mean(axis=0), faces) > 0, "inside out"
    assert surfaces.plate(list(rng.normal(size=(9, 3))), 0.1) is None
    assert surfaces.plate([np.array([k, 2.0 * k, 0.0]) for k in range(4)], 0.1) is None
    assert surfaces.plate(list(flat[:2]), 0.1) is None
