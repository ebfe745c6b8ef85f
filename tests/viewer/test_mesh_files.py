"""Meshes of strangers: what is missing or hostile is one sentence, and the rest is drawn."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest

import nlink
from nlink.cli import run
from nlink.viewer import mesh_files, pictures, raster
from nlink.viewer.mesh_files import find_mesh, read_mesh
from nlink.viewer.pictures import COVERS, picture
from nlink.viewer.scene import GREY, Scene

pytest.importorskip("trimesh")

BODY = ('<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        "</inertial>")


def stl(vertices: np.ndarray, triangles: np.ndarray) -> bytes:
    rows = [struct.pack("<12fH", 0, 0, 0, *vertices[t].ravel().tolist(), 0) for t in triangles]
    return b"\0" * 80 + struct.pack("<I", len(rows)) + b"".join(rows)


TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
SIDES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
DAE = """<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema"
 version="1.4.1"><asset><unit meter="0.01" name="centimeter"/></asset>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array id="pa" count="12">
0 0 0 1 0 0 0 1 0 0 0 1</float_array><technique_common><accessor source="#pa" count="4" stride="3">
<param name="X" type="float"/><param name="Y" type="float"/><param name="Z" type="float"/>
</accessor></technique_common></source><vertices id="v"><input semantic="POSITION" source="#p"/>
</vertices><triangles count="4"><input semantic="VERTEX" source="#v" offset="0"/>
<p>0 2 1 0 1 3 0 3 2 1 2 3</p></triangles></mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><translate>100 0 0</translate>
<instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


@pytest.fixture
def robot_file(tmp_path):
    """A package with a urdf folder beside its meshes."""
    meshes = tmp_path / "pack" / "meshes"
    meshes.mkdir(parents=True)
    (meshes / "a.stl").write_bytes(stl(TETRAHEDRON, SIDES))
    (meshes / "b.obj").write_text(
        "mtllib b.mtl\nusemtl red\n" + "".join(f"v {x} {y} {z}\n" for x, y, z in TETRAHEDRON)
        + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in SIDES), "utf-8")
    (meshes / "b.mtl").write_text("newmtl red\nKd 1 0 0\nmap_Kd ../../secret.png\n", "utf-8")
    (meshes / "c.dae").write_text(DAE, "utf-8")
    (tmp_path / "pack" / "urdf").mkdir()
    return tmp_path / "pack" / "urdf" / "robot.urdf"


def load(path, *visuals: str) -> nlink.Robot:
    links = "".join(f'<link name="l{k}">{BODY}<visual>{v}</visual></link>'
                    for k, v in enumerate(visuals))
    joints = "".join(f'<joint name="j{k}" type="continuous"><parent link="l{k - 1}"/>'
                     f'<child link="l{k}"/><origin xyz="1 0 0"/></joint>'
                     for k in range(1, len(visuals)))
    path.write_text(f'<robot name="r">{links}{joints}</robot>', "utf-8")
    return nlink.load(path)


def mesh(name: str, more: str = "") -> str:
    return f'<geometry><mesh filename="{name}" {more}/></geometry>'


def test_formats_names_scales_and_units(robot_file):
    robot = load(robot_file, mesh("package://pack/meshes/a.stl", 'scale="2 1 -1"'),
                 mesh("../meshes/b.obj"), mesh("package:///pack/meshes/c.dae"))
    scene = Scene.of(robot)
    assert scene.notes == []
    first, second, third = scene.parts
    np.testing.assert_allclose(first.surface.vertices.max(axis=0), [2, 1, 0], atol=1e-6)
    np.testing.assert_allclose(first.surface.vertices.min(axis=0), [0, 0, -1], atol=1e-6)
    assert second.colour[:3] == (1.0, 0.0, 0.0)
    np.testing.assert_allclose(third.surface.vertices.max(axis=0), [1.01, 0.01, 0.01], atol=1e-6)
    for part in scene.parts:
        a, b, c = (part.surface.vertices[part.surface.triangles[:, k]] for k in range(3))
        middle = part.surface.vertices.mean(axis=0)
        assert np.einsum("ij,ij->", a - middle, np.cross(b - a, c - a)) > 0, "inside out"


def test_what_is_missing_is_said_and_the_rest_is_drawn(robot_file):
    robot = load(robot_file, mesh("package://pack/meshes/none.stl"),
                 mesh("package://pack/meshes/a.stl") + '<material name="odd"/>',
                 '<geometry><sphere radius="0.1"/></geometry>')
    scene = Scene.of(robot)
    assert len(scene.notes) == 2
    assert "link 'l0': not drawn: package://pack/meshes/none.stl: not found" in scene.notes[0]
    assert scene.notes[1] == "link 'l1': material 'odd' is not defined, so it is grey"
    assert {part.link for part in scene.parts} == {1, 2, 3}  # the first as a skeleton
    assert next(part for part in scene.parts if part.link == 2).colour == GREY
    assert len(robot.png(width=64, height=48)) > 100


@pytest.mark.parametrize("name", [
    "package://../secret/x.stl", "package://pack/../../../secret/x.stl", "../../../secret/x.stl",
    "/{top}/secret/x.stl", "file://{top}/secret/x.stl", "package://pack/%2e%2e/%2e%2e/secret/x.stl",
    "package://./secret/x.stl", "http://example.org/x.stl"])
def test_nothing_outside_is_opened(robot_file, tmp_path, name):
    (tmp_path / "far" / "secret").mkdir(parents=True)
    (tmp_path / "far" / "secret" / "x.stl").write_bytes(stl(TETRAHEDRON, SIDES))
    with pytest.raises(ValueError, match=r"not found|not opened"):
        find_mesh(name.replace("{top}", str(tmp_path / "far")).replace(
            "../secret", "../far/secret"), str(robot_file))


def test_packages_are_given(robot_file, tmp_path):
    other = tmp_path / "elsewhere" / "parts"
    other.mkdir(parents=True)
    (other / "x.stl").write_bytes(stl(TETRAHEDRON, SIDES))
    with pytest.raises(ValueError, match="given by packages"):
        find_mesh("package://parts/x.stl", str(robot_file))
    for root in (other.parent, other):
        assert find_mesh("package://parts/x.stl", str(robot_file), [root]) == other / "x.stl"


@pytest.mark.parametrize(("name", "data", "reason"), [
    ("x.stl", b"", "not a mesh that can be read|no triangles"),
    ("x.stl", b"solid x\nfacet", "not a mesh that can be read|no triangles"),
    ("x.stl", stl(TETRAHEDRON * np.nan, SIDES), "finite|no triangles"),
    ("x.obj", b"v 0 0 0\nf 1 2 3\n", "not a mesh that can be read|no triangles"),
    ("x.dae", b"<COLLADA", "not valid XML"),
    ("x.dae", b'<!DOCTYPE x [<!ENTITY a "b">]><COLLADA>&a;</COLLADA>', "refused for safety"),
    ("x.dae", DAE.replace("<instance_geometry", '<instance_node url="#n"/><instance_geometry')
     .encode(), "by reference"),
    ("x.dae", b"\xff\xfe<", "not UTF-8"),
    ("x.dae", b"<COLLADA/>", "not a mesh that can be read|no triangles"),
    ("x.stl", stl(TETRAHEDRON * 3e38, SIDES), r"a vertex 3e\+38 m away, expected at most"),
    ("x.dae", DAE.replace('meter="0.01"', 'meter="1e308"').encode(), "a unit of 1e.?308 m"),
    ("x.dae", DAE.replace('meter="0.01"', 'meter="nan"').encode(), "a unit of nan m"),
    ("x.dae", DAE.replace("100 0 0<", "1e308 0 0<").encode(), "a vertex"),
    ("x.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\n" + b"usemtl a\nf 1 2 3\n" * 5000,
     "5000 materials, objects and groups, expected at most 1000"),
])
def test_hostile_files_are_one_sentence(tmp_path, name, data, reason):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ValueError, match=reason):
        read_mesh(path)


def test_sizes_are_bounded(tmp_path, monkeypatch):
    path = tmp_path / "x.stl"
    path.write_bytes(stl(TETRAHEDRON, SIDES))
    monkeypatch.setattr(mesh_files, "TRIANGLES", 3)
    with pytest.raises(ValueError, match="more than 3 triangles"):
        read_mesh(path)
    monkeypatch.setattr(mesh_files, "MESH_BYTES", 100)
    with pytest.raises(ValueError, match="larger than"):
        read_mesh(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.stl")
    with pytest.raises(ValueError, match="not found"):
        find_mesh("x.stl", str(tmp_path / "robot.urdf"))


def test_a_visual_that_is_wrong_does_not_stop_the_mechanism(robot_file):
    robot = load(robot_file, '<geometry><box size="1 2"/></geometry>',
                 '<geometry><sphere radius="big"/></geometry>', "<geometry/>")
    assert robot.n == 2
    assert robot.description.visuals == ()
    left_out = [line for line in robot.report if line.startswith("visual not drawn")]
    assert len(left_out) == 3
    assert Scene.of(robot).notes == left_out


def link(path, target) -> None:
    try:
        path.symlink_to(target)
    except OSError:
        pytest.skip("no links here")


@pytest.mark.parametrize("name", [
    "link.stl", "package://pack/urdf/link.stl", "inside/x.stl", "package://inside/x.stl",
    "package://pack/urdf/inside/x.stl", "package://{secret}/x.stl", "../../{secret}/x.stl"])
def test_nothing_outside_is_opened_by_way_of_links(robot_file, tmp_path, name):
    """Whatever is opened really is below the robot's directory, its parent or its package."""
    secret = tmp_path / "far"
    secret.mkdir()
    (secret / "x.stl").write_bytes(stl(TETRAHEDRON, SIDES))
    link(robot_file.parent / "link.stl", secret / "x.stl")
    link(robot_file.parent / "inside", secret)
    with pytest.raises(ValueError, match=r"not found|not opened"):
        find_mesh(name.replace("{secret}", "pack/urdf/inside"), str(robot_file))


def test_links_that_stay_inside_are_followed(robot_file, tmp_path):
    link(robot_file.parent / "own.stl", robot_file.parents[1] / "meshes" / "a.stl")
    assert find_mesh("own.stl", str(robot_file)).name == "own.stl"
    link(tmp_path / "alias", tmp_path / "pack")  # the way to the robot may lead over links
    origin = str(tmp_path / "alias" / "urdf" / "robot.urdf")
    for name in ("../meshes/a.stl", "package://alias/meshes/a.stl"):
        found = os.path.realpath(find_mesh(name, origin))
        assert found == os.path.realpath(tmp_path / "pack" / "meshes" / "a.stl")


def test_directories_of_the_root_are_no_packages(robot_file, monkeypatch):
    opened = []
    monkeypatch.setattr(mesh_files, "_is_file", lambda path: opened.append(path))
    with pytest.raises(ValueError, match="not found"):
        find_mesh("package://etc/x.stl", str(robot_file))
    assert opened
    assert all(len(path.parts) > 3 for path in opened), "/etc/x.stl was looked for"


@pytest.mark.parametrize("name", ["{long}.stl", "package://{long}/a.stl",
                                  "package://pack/{long}.stl", "a%00.stl", "package://pack//etc/x.stl"])
def test_names_that_no_file_has_are_not_found(robot_file, name):
    with pytest.raises(ValueError, match="not found"):
        find_mesh(name.replace("{long}", 300 * "x"), str(robot_file))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_materials_are_no_pipes_and_no_links(robot_file, tmp_path):
    meshes = robot_file.parents[1] / "meshes"
    (meshes / "b.mtl").rename(tmp_path / "far.mtl")
    link(meshes / "b.mtl", tmp_path / "far.mtl")
    assert read_mesh(meshes / "b.obj")[0].colour != (1.0, 0.0, 0.0, 1.0)
    (meshes / "b.mtl").unlink()
    os.mkfifo(meshes / "b.mtl")
    assert len(read_mesh(meshes / "b.obj")) == 1


@pytest.mark.parametrize("more", ['scale="1e7 1 1"', 'scale="1e9 1e9 1e9"'])
def test_what_is_too_large_once_placed_is_a_skeleton(robot_file, more):
    robot = load(robot_file, mesh("package://pack/meshes/a.stl", more),
                 '<geometry><sphere radius="0.1"/></geometry>')
    scene = Scene.of(robot)
    assert "link 'l0': not drawn: a vertex" in scene.notes[0]
    assert {part.link for part in scene.parts} == {1, 2}
    assert robot.png(width=64, height=48)[:4] == b"\x89PNG"


@pytest.mark.slow
def test_pictures_say_what_they_could_not_draw(robot_file, tmp_path, capsys):
    robot = load(robot_file, mesh("package://pack/meshes/none.stl"))
    robot.png(tmp_path / "x.png", width=64, height=48)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("nlink: link 'l0': not drawn: package://pack/meshes/none.stl")
    assert run(["view", str(robot_file), "--png", str(tmp_path / "y.png"), "--width", "64"]) == 0
    assert "nlink: link 'l0': not drawn: package://pack/meshes/none.stl" in capsys.readouterr().err


def covering(count: int) -> bytes:
    """Triangles that all cover a picture of them."""
    square = np.array([[-1.0, 0, -1], [3, 0, -1], [-1, 0, 3]])
    vertices = np.concatenate([square + np.array([0, 1e-3 * k, 0]) for k in range(count)])
    return stl(vertices, np.arange(3 * count).reshape(-1, 3))


@pytest.mark.slow
def test_triangles_that_cover_a_picture_are_bounded_and_said(robot_file, capsys, monkeypatch):
    filled = []
    fill = raster._fill
    monkeypatch.setattr(pictures, "LEAST_WORK", 0)
    monkeypatch.setattr(raster, "_fill", lambda *a: (filled.append(a[4] * a[5]), fill(*a)))
    (robot_file.parents[1] / "meshes" / "many.stl").write_bytes(covering(3000))
    robot = load(robot_file, mesh("package://pack/meshes/many.stl"))
    robot.png(width=80, height=60)
    assert "triangles that cover much of the picture are left out" in capsys.readouterr().err
    pixels = (2 * 80) * (2 * 60) + 512 * 512  # of the picture and of the shadow
    assert sum(filled) <= 2 * COVERS * pixels


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_hostile_meshes_again_and_again(robot_file, seed):
    """Files with bytes changed, cut, repeated or with monstrous numbers: each is drawn or one
    sentence, and there always is a picture."""
    rng = np.random.default_rng(seed)
    meshes = robot_file.parents[1] / "meshes"
    whole = {name: (meshes / name).read_bytes() for name in ("a.stl", "b.obj", "c.dae", "b.mtl")}
    monsters = [b"nan", b"1e308", b"-1e308", b"3e38", b"inf", b"0", b"99999999999", b"\xff\xff"]
    names = ["a.stl", "b.obj", "c.dae"]
    robot = load(robot_file, *(mesh(f"package://pack/meshes/{name}") for name in names))
    for _ in range(15):
        for name, data in whole.items():
            data = bytearray(data)
            for _ in range(rng.integers(1, 4)):
                at, kind = int(rng.integers(len(data))), rng.integers(5)
                if kind == 0:
                    data[at:at + 4] = rng.bytes(4)
                elif kind == 1:
                    data[at:] = b""
                    data += b" "
                elif kind == 2:
                    data[at:at] = data[at // 2:at] * int(rng.integers(1, 20))
                elif kind == 3:
                    data[at:at + 1] = monsters[rng.integers(len(monsters))]
                else:
                    data[at // 4 * 4:at // 4 * 4 + 4] = np.float32(3e38).tobytes()
            (meshes / name).write_bytes(data)
        scene = Scene.of(robot)
        assert all("\n" not in note for note in scene.notes)
        assert {part.link for part in scene.parts} >= {1, 2, 3}
        image = picture(scene, scene.places(robot.neutral), width=32, height=24)
        assert image.shape == (24, 32, 3)
