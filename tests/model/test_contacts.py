"""Shapes that touch: candidates, gaps, normals and points against independent computations."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.algorithms.contact_points import Touch, contact_points
from nlink.algorithms.kinematics import forward_kinematics, twists
from nlink.algorithms.sweep import Unrolled
from nlink.formats.dh import parse_toml
from nlink.formats.urdf import parse_urdf
from nlink.formats.urdf_writer import to_urdf, urdf_losses
from nlink.testing import random_robot as random_mechanism
from nlink.testing.mechanisms import EVERY


def touches(robot: nlink.Robot, q) -> list[Touch]:
    driver = Unrolled(robot.mechanism)
    places = forward_kinematics(driver, robot.mechanism.split(q, "nq"), robot.mechanism.base.p)
    return contact_points(driver, places, robot.mechanism.base.p)


def numbers(v) -> np.ndarray:
    return np.array([float(x) for x in v.components])


def skewed(rng) -> nlink.Pose:
    R = nlink.exp3(rng.normal(size=3))
    return nlink.Pose.of(R, rng.normal(size=3))


@pytest.fixture(params=range(6))
def rng(request) -> np.random.Generator:
    return np.random.default_rng(request.param)


def random_robot(rng, bodies: int) -> nlink.Robot:
    """Joints of every kind, on a base that stands anywhere; its last link moves."""
    robot = random_mechanism(int(rng.integers(1000)), bodies, types=EVERY, fixed=False)
    return robot.with_base(skewed(rng))


def test_a_ball_touches_planes_where_it_is_lowest(rng):
    """On a link of a random mechanism, whose base stands anywhere: by the pose of the link."""
    robot = random_robot(rng, 5)
    place = skewed(rng)
    normal, offset, radius = rng.normal(size=3), 0.3, 0.2
    link = robot.links[-1].name
    robot = robot.with_contacts({link: nlink.Sphere(radius, pose=place)},
                                nlink.World(planes=[(normal, offset), ((0, 0, 1), 0)]))
    q, _ = robot.random_state(rng)
    n = normal / np.linalg.norm(normal)
    centre = (robot.pose(q, link) @ place.matrix)[:3, 3]
    touch, ground = touches(robot, q)
    assert touch.gap == pytest.approx(n @ centre - offset / np.linalg.norm(normal) - radius)
    assert ground.gap == pytest.approx(centre[2] - radius)
    assert numbers(touch.normal) == pytest.approx(n)
    assert numbers(touch.point) == pytest.approx(centre - radius * n)
    frame = np.array([numbers(t) for t in (*touch.tangents, touch.normal)])
    assert frame @ frame.T == pytest.approx(np.eye(3))
    assert np.linalg.det(frame) == pytest.approx(1)


def test_wrenches_of_a_contact_are_its_jacobian(rng):
    """Their power is the force times the velocity of the body's point, by nlink's Jacobian."""
    robot = random_robot(rng, 6)
    link = robot.links[-1].name
    robot = robot.with_contacts({link: nlink.Sphere(0.2, pose=skewed(rng))})
    q, qd = robot.random_state(rng)
    touch, = touches(robot, q)
    place = robot.pose(q, link)
    w, v = np.split(robot.jacobian(q, link) @ qd, 2)
    moving = v + np.cross(w, numbers(touch.point) - place[:3, 3])
    rows = touch.on_bodies()
    driver = Unrolled(robot.mechanism)
    speeds = twists(driver, robot.mechanism.split(q, "nq"), robot.mechanism.split(qd, "nv"))
    for row, direction in zip(rows, (*touch.tangents, touch.normal), strict=True):
        (body, wrench), = row
        assert float(speeds[body].dot(wrench)) == pytest.approx(moving @ numbers(direction))


def test_parts_of_a_robot_keep_their_shapes_and_pairs():
    """Equal robots have equal shapes; what is left out takes its pairs along."""
    arm = nlink.load("planar3")
    shapes = {name: nlink.Sphere(0.1) for name in ("link1", "link2", "link3")}
    touching = arm.with_contacts(shapes, pairs=[("link1", "link3"), ("link2", "link3")])
    assert touching.description != arm.with_contacts(shapes).description
    assert touching.description != arm.with_contacts(
        shapes | {"link1": nlink.Sphere(0.2)}, pairs=touching.description.pairs).description
    assert [x.name for x in touching.sub("link2").mechanism.contacts] == [
        "link3", "link2-link3"]  # link2 is the base now
    assert len(touching.lock(["joint2"]).mechanism.contacts) == 5
    assert [x.name for x in touching.with_contacts(pairs=[("link1", "link2")]).mechanism.contacts
            ] == ["link1", "link2", "link3", "link1-link2"]


def test_without_a_world_nothing_touches():
    assert nlink.load("planar3").mechanism.contacts == ()


def test_own_friction_goes_before_the_worlds():
    world = nlink.World(friction=0.5, restitution=0.1)
    robot = nlink.load("planar3").with_contacts(
        {"link2": nlink.Sphere(0.1), "link3": [nlink.Sphere(0.1, friction=0.9),
                                              nlink.Sphere(0.1, restitution=0.3)]}, world)
    assert [(c.name, c.friction, c.restitution) for c in robot.mechanism.contacts] == [
        ("link2", 0.5, 0.1), ("link3", 0.9, 0.1), ("link3_2", 0.5, 0.3)]


@pytest.mark.parametrize(("make", "message"), [
    (lambda r: nlink.Sphere(0.0), "sphere: radius 0.0, expected a finite number > 0"),
    (lambda r: nlink.Capsule(0.1, -1), "capsule: length -1, expected a finite number > 0"),
    (lambda r: nlink.Box((1, 2)), r"box: edges: shape \(2,\), expected \(3,\)"),
    (lambda r: nlink.Sphere(0.1, friction=-1), "sphere: friction -1, expected a finite number"),
    (lambda r: nlink.Sphere(0.1, restitution=2), "sphere: restitution 2, expected a number from"),
    (lambda r: nlink.Sphere(0.1, pose=np.eye(4)), "sphere: pose is a ndarray, expected a nlink"),
    (lambda r: nlink.World(friction=-1), "world: friction -1, expected a finite number >= 0"),
    (lambda r: nlink.World(friction=None), "world: friction None, expected a number"),
    (lambda r: nlink.World(planes=[1]), r"world: plane 0: 1, expected \(normal, offset\)"),
    (lambda r: nlink.World(planes=[((0, 0, 0), 1)]), "world: plane 0: normal .* not zero"),
    (lambda r: nlink.World(planes=3), "world: planes is a int, expected a list"),
    (lambda r: nlink.World(boxes=[nlink.Sphere(1)]), "world: box 0: a Sphere, expected a nlink.B"),
    (lambda r: nlink.World(height_field=[[0, 1]]), "world: height_field is a list, expected a nl"),
    (lambda r: nlink.HeightField([[0, 1]], (0, 1), (0, 1)), r"heights of shape \(1, 2\), expec"),
    (lambda r: nlink.HeightField(np.zeros((2, 2)), (1, 0), (0, 1)), r"x \(1, 0\), expected \(lo"),
    (lambda r: nlink.Cylinder(0, 1), "cylinder: radius 0, expected a finite number > 0"),
    (lambda r: nlink.Ellipsoid((1, 1, 0)), "ellipsoid: half axis 0.0, expected a finite number"),
    (lambda r: nlink.Hull(np.zeros((17, 3))), "hull: 17 points, expected 1 to 16; nlink.Hull.aro"),
    (lambda r: r.with_contacts({"link3": nlink.Box((1, 1, 1))}, nlink.World(
        boxes=[nlink.Box((1, 1, 1))])).mechanism,
     "contact of 'link3', a box, with the world's box: expected a sphere or capsule against"),
    (lambda r: r.with_contacts({"link3": nlink.Hull(np.eye(3)), "link2": nlink.Hull(np.eye(3))},
                               pairs=[("link2", "link3")]).mechanism,
     "contact of 'link2', a hull, with 'link3', a hull: expected a sphere or capsule against"),
    (lambda r: r.with_contacts({"link3": nlink.Box((1, 1, 1)), "link2": nlink.Box((1, 1, 1))},
                               pairs=[("link2", "link3")]).mechanism,
     "contact of 'link2', a box, with 'link3', a box: expected a sphere or capsule against"),
    (lambda r: r.with_contacts({"link3": nlink.Sphere(1), "link2": nlink.Cylinder(1, 1)},
                               pairs=[("link2", "link3")]).mechanism,
     "contact of 'link3', a sphere, with 'link2', a cylinder: expected a sphere or capsule"),
    (lambda r: r.with_contacts({"link3": nlink.Sphere(1)}, pairs=[("link2", "link3")]).mechanism,
     "pairs: 'link2' has no shape, expected links with shapes"),
    (lambda r: r.with_contacts({"link3": nlink.Sphere(1)}, pairs=[("link3", "link3")]).mechanism,
     "pairs: 'link3' and 'link3' are fixed in one body, expected two bodies that move"),
    (lambda r: r.with_contacts({"link3": nlink.Sphere(1)}, pairs=["link3"]),
     "pairs: 'link3', expected two names of links"),
    (lambda r: r.with_contacts(), "shapes: none, expected shapes by the names of links"),
    (lambda r: r.with_contacts(collisions="file"), "collisions: 'file', but planar3 has no shap"),
    (lambda r: r.with_contacts(collisions="fil"), "collisions: 'fil', expected 'file', names"),
    (lambda r: r.with_contacts([1]), "shapes: a list, expected shapes by the names of links"),
    (lambda r: r.with_contacts({"link1": [3]}), "shapes: of 'link1', a int, expected a shape"),
    (lambda r: r.with_contacts({"link4": nlink.Sphere(1)}),
     "contacts: link 'link4', expected one of .*; did you mean 'link3'"),
    (lambda r: r.with_contacts({"link1": nlink.Sphere(1)}, 3), "world: a int, expected a nlink.W"),
])
def test_what_is_refused_is_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(nlink.load("planar3"))


def test_files_keep_shapes_pairs_and_the_world(rng):
    """Written and read back, the same things touch in the same places."""
    field = nlink.HeightField(rng.normal(size=(3, 4)), (0, 1), (-1, 1), restitution=0.1)
    world = nlink.World(planes=[((0.1, 0.2, 1.0), 0.3), ((0, 0, 1), 0)], friction=0.4,
                        height_field=field)
    robot = nlink.load("planar3").with_contacts({
        "link1": [nlink.Box((0.1, 0.2, 0.3), pose=skewed(rng), friction=0.9),
                  nlink.Ellipsoid((0.1, 0.2, 0.3)), nlink.Cylinder(0.1, 0.2),
                  nlink.Hull([(0, 0, 0), (1, 2, 3.5)])]}, world)
    again = nlink.Robot(parse_toml(robot.to_toml()))
    assert again.description.world == world
    assert again.description.collisions == robot.description.collisions
    assert repr(again.mechanism.contacts) == repr(robot.mechanism.contacts)
    assert len(again.mechanism.contacts) == 3 * (8 + 1 + 4 + 2)
    world = nlink.World(boxes=[nlink.Box((1, 2, 3), pose=skewed(rng), friction=0.2)])
    robot = nlink.load("planar3").with_contacts({
        "link1": nlink.Box((0.1, 0.2, 0.3), pairs_only=True),
        "link3": nlink.Capsule(0.1, 0.2, restitution=0.5),
        "link2": nlink.Sphere(0.1)}, nlink.World(friction=0.3),
        pairs=[("link1", "link3"), ("link2", "link3")])
    again = nlink.Robot(parse_toml(robot.to_toml()))
    assert again.description.collisions == robot.description.collisions
    assert again.description.pairs == robot.description.pairs
    assert repr(again.mechanism.contacts) == repr(robot.mechanism.contacts)
    names = [x.name for x in again.mechanism.contacts]
    assert len(names) == len(set(names)) == 2 + 1 + 4 + 1
    assert names[-5:] == ["link3-link1.1", "link3-link1.2", "link3-link1.3", "link3-link1.4",
                          "link2-link3"]
    robot = nlink.load("planar3").with_contacts({"link3": nlink.Sphere(0.1)}, world)
    again = nlink.Robot(parse_toml(robot.to_toml()))
    assert again.description.world == world
    assert [x.name for x in again.mechanism.contacts] == ["link3-plane", "link3-box"]
    assert [x.friction for x in again.mechanism.contacts] == [0.8, 0.2]


@pytest.mark.parametrize(("table", "message"), [
    ('[[collision]]\nlink = "link1"\nshape = "cone"', "shape 'cone', expected one of sphere, caps"),
    ('[[collision]]\nlink = "link1"\nshape = "sphere"', "radius: none, expected that of a sphere"),
    ('[[collision]]\nlink = "x"\nshape = "sphere"\nradius = 1', "link 'x', expected one of"),
    ('[[collision]]\nshape = "sphere"\nradius = 1', "link None and name '', expected names"),
    ('[[collision]]\nlink = "link1"\nshape = "sphere"\nradius = nan', "radius: nan, expected"),
    ('[[collision]]\nlink = "link1"\nshape = "sphere"\nsize = 1', "unknown key 'size', expected"),
    ("[world]\nplanes = [[1, 2]]", "world: tuple index out of range|world: plane"),
    ("[world]\nfriction = -1", "world: friction -1.0, expected a finite number >= 0"),
])
def test_tables_that_say_no_shape_are_refused(table, message):
    text = nlink.load("planar3").to_toml() + "\n" + table
    with pytest.raises(ValueError, match=message):
        parse_toml(text)


URDF = """<robot name="x"><link name="a"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision name="heel"><origin xyz="0 0 -0.1"/><geometry><sphere radius="0.02"/></geometry>
</collision><collision><geometry><box size="0.2 0.1 0.1"/></geometry></collision>
<collision><geometry><cylinder radius="0.1" length="1"/></geometry></collision>
<collision><geometry><sphere radius="0"/></geometry></collision></link></robot>"""


def test_shapes_of_a_urdf_file():
    robot = nlink.Robot(parse_urdf(URDF))
    assert robot.mechanism.contacts == ()
    assert any("collision not read (sphere: radius 0.0, expected" in x for x in robot.report)
    there = robot.with_base(floating=True).with_contacts(collisions="file")
    assert [x.name for x in there.mechanism.contacts] == [
        "heel", *(f"a.{k}" for k in range(1, 9)), *(f"a_2.{k}" for k in range(1, 5))]
    gaps = [touch.gap for touch in touches(there, [0, 0, 1, 1, 0, 0, 0])]
    assert sorted(gaps[:9]) == pytest.approx([0.88, *[0.95] * 4, *[1.05] * 4])
    assert gaps[9:] == pytest.approx([0.5, 1.5, 0.5, 0.5])


def test_urdf_files_keep_the_shapes_that_urdf_knows(rng):
    """Written and read back, the same gaps; what is lost is said."""
    robot = nlink.load("planar3").with_contacts({
        "link3": [nlink.Box((0.1, 0.2, 0.3), pose=skewed(rng)), nlink.Sphere(0.1, friction=0.3)],
        "link2": {"roll": nlink.Cylinder(0.1, 0.2, pose=skewed(rng)),
                  "egg": nlink.Ellipsoid((0.1, 0.1, 0.2))},
        "link1": nlink.Capsule(0.1, 0.2)})
    again = nlink.Robot(parse_urdf(to_urdf(robot.description))).with_contacts(collisions="file")
    q = rng.normal(size=3)
    gaps = {touch.contact.name: touch.gap for touch in touches(robot, q)}
    found = {touch.contact.name: touch.gap for touch in touches(again, q)}
    assert found.pop("roll.1") == pytest.approx(gaps.pop("roll.1"))
    assert set(gaps) - set(found) == {"egg"}
    for name, gap in found.items():
        assert gap == pytest.approx(gaps[name], abs=1e-12)
    lost = "\n".join(urdf_losses(robot.description))
    for line in ("ellipsoids and hulls that touch: 1 (link2)", "the world, and pairs of links",
                 "friction, restitution and pairs_only of shapes: 1 (link3)"):
        assert line in lost


TETRAHEDRON = """solid x
""" + "".join("facet normal 0 0 0\nouter loop\n" + "".join(
    f"vertex {x} {y} {z}\n" for x, y, z in face) + "endloop\nendfacet\n" for face in (
        ((0, 0, 0), (0, 1, 0), (1, 0, 0)), ((0, 0, 0), (1, 0, 0), (0, 0, 1)),
        ((0, 0, 0), (0, 0, 1), (0, 1, 0)), ((1, 0, 0), (0, 1, 0), (0, 0, 1)))) + "endsolid x\n"


@pytest.mark.slow
def test_meshes_of_a_urdf_file_are_read_when_they_are_asked_for(tmp_path):
    pytest.importorskip("trimesh")
    text = URDF.replace('<cylinder radius="0.1" length="1"/>',
                        '<mesh filename="part.stl" scale="0.1 0.1 0.2"/>')
    (tmp_path / "x.urdf").write_text(text)
    robot = nlink.load(tmp_path / "x.urdf", floating=True)
    with pytest.raises(ValueError, match=r"collisions: mesh of 'a': part\.stl: not found beside"):
        robot.with_contacts(collisions="file")
    (tmp_path / "part.stl").write_text(TETRAHEDRON)
    there = robot.with_contacts(collisions=["a"])
    gaps = [touch.gap for touch in touches(there, [0, 0, 1, 1, 0, 0, 0])]
    assert sorted(gaps[9:]) == pytest.approx([1, 1, 1, 1.2])
    assert "mesh of 'a' taken as a hull of 4 points, about 0 mm inside of it at most" in (
        there.report)
    with pytest.raises(ValueError, match="collisions: 'b', expected links with shapes in the fi"):
        robot.with_contacts(collisions=["b"])
    # a file that names its mesh keeps it, unread
    again = nlink.Robot(parse_toml(robot.to_toml()))
    assert again.description.collisions == robot.description.collisions
