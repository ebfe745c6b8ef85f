"""Mesh files of strangers: found within known directories only, read with limits.

A `package://name/path` is looked for in the directories given, and in the directories above the
robot's file, but for the root of the disk; a relative name beside that file, or a directory above.
Nothing outside of these is opened, also not by way of links, nothing but STL, OBJ and DAE files,
and of what these name in turn only the .mtl file of an OBJ.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from nlink.formats.safe_xml import Notes, parse_xml
from nlink.model.visuals import Colour
from nlink.viewer.surfaces import Surface

MESH_BYTES = 64 * 2**20
"""The largest mesh file that is read."""
TRIANGLES = 2_000_000
"""The most triangles of one."""
INSTANCES = 2_000
"""The most nodes that a DAE file may place."""
GROUPS = 1_000
"""The most materials, objects and groups of an OBJ file: each is read as a mesh of its own."""
FARTHEST = 1e6
"""The farthest coordinate of a mesh that is drawn, metres."""
LARGEST_NUMBER = 1e12
"""The largest coordinate of a mesh file, which may have any unit that its robot scales."""
SUFFIXES = (".stl", ".obj", ".dae")


def find_mesh(name: str, origin: str, packages: Sequence[Path] = ()) -> Path:
    """The file that a robot's file `origin` calls so; ValueError says why there is none."""
    path = _within_reach(name, origin, packages)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{name}: a {path.suffix or 'nameless'} file, expected one of "
                         f"{', '.join(SUFFIXES)}")
    return path


def _within_reach(name: str, origin: str, packages: Sequence[Path]) -> Path:
    beside = Path(os.path.abspath(origin)).parent
    roots = [Path(os.path.abspath(root)) for root in packages]
    if name.startswith("package://"):
        package, _, rest = unquote(name.removeprefix("package://")).lstrip("/").partition("/")
        homes = [(root, root / package) for root in roots]
        homes += [(root, root) for root in roots if root.name == package]
        for above in (beside, *beside.parents):
            homes += [(above, above)] * (above.name == package)
            if above.name:  # what is at the root of the disk is nobody's package
                homes.append((above, above / package))
        for known, home in homes:
            path = Path(os.path.normpath(f"{home}/{rest}"))
            if (package not in ("", ".", "..") and path.is_relative_to(home) and _is_file(path)
                    and _stays(path, known, home)):
                return path
        raise ValueError(f"{name}: not found in a directory {package!r} above {origin} or in "
                         "those given by packages")
    allowed = [*roots, beside, *([beside.parent] if beside.parent.name else [])]
    local = Path(unquote(name.removeprefix("file://")))
    for start in (beside, *roots):
        path = Path(os.path.normpath(start / local))
        if _is_file(path):
            if any(_stays(path, root, root) for root in allowed):
                return path
            raise ValueError(f"{name}: outside of the directory of {origin} and of those given "
                             "by packages, so it is not opened")
    raise ValueError(f"{name}: not found beside {origin}")


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _stays(path: Path, known: Path, home: Path) -> bool:
    """Whether a path is in a directory `home`, and still is when links are followed. The way to
    the directory `known`, which the user named, may lead over links; what is below may not leave
    `home`."""
    real = Path(os.path.realpath(known), home.relative_to(known))
    return path.is_relative_to(home) and Path(os.path.realpath(path)).is_relative_to(real)


def read_mesh(path: Path) -> list[Surface]:
    """The surfaces of a mesh file, metres if it says what its unit is."""
    data = _bytes(path)
    kind = path.suffix.lower()[1:]
    if kind == "dae":
        _check_document(data, path)
    if kind == "obj":
        _check_groups(data, path)
    trimesh = _trimesh()
    try:
        with np.errstate(all="ignore"):  # numbers that are too large are refused below
            scene = trimesh.load_scene(io.BytesIO(data), file_type=kind, process=False,
                                       resolver=_materials_beside(path))
    except Exception as error:  # a parser of other people's formats raises anything
        raise ValueError(f"{path}: not a mesh that can be read: {type(error).__name__}: "
                         f"{error}") from None
    try:
        surfaces = [surface for surface in _surfaces(scene, trimesh) if len(surface.triangles)]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not surfaces:
        raise ValueError(f"{path}: has no triangles that trimesh can read")
    return surfaces


def _surfaces(scene: Any, trimesh: Any) -> Iterator[Surface]:
    total = 0
    for node in scene.graph.nodes_geometry:
        T, name = scene.graph[node]
        mesh = scene.geometry[name]
        if not isinstance(mesh, trimesh.Trimesh):
            continue
        total += len(mesh.faces)
        if total > TRIANGLES:
            raise ValueError(f"more than {TRIANGLES} triangles")
        vertices = np.asarray(mesh.vertices)
        if not np.isfinite(vertices).all():
            raise ValueError("a vertex that is not finite")
        words, named, _ = str(mesh.metadata.get("units", "")).partition(" * meters")
        unit = float(words) if named else 1.0
        if not 1e-12 < unit < 1e12:
            raise ValueError(f"a unit of {words} m, expected one from 1e-12 to 1e12 m")
        with np.errstate(all="ignore"):
            place = np.diag([unit] * 3 + [1.0]) @ np.asarray(T, float)
            check_reach(vertices @ place[:3, :3].T + place[:3, 3], LARGEST_NUMBER)
        check_reach(vertices, LARGEST_NUMBER)
        yield Surface.of(vertices, np.asarray(mesh.faces), _colour(mesh)).placed(place)


def check_reach(vertices: np.ndarray, most: float = FARTHEST) -> None:
    """Refuse vertices that are not finite or too far away to be drawn."""
    if not np.isfinite(vertices).all():
        raise ValueError("a vertex that is not finite")
    farthest = float(np.abs(vertices).max(initial=0.0))
    if farthest > most:
        raise ValueError(f"a vertex {farthest:.3g} m away, expected at most {most:g} m")


def _colour(mesh: Any) -> Colour | None:
    """The colour a file gives, if it gives one."""
    visual = mesh.visual
    if visual.kind is None:
        return None
    values = getattr(getattr(visual, "material", visual), "main_color", None)
    if values is None:
        return None
    red, green, blue, opacity = (np.clip(np.asarray(values, float) / 255, 0, 1)).tolist()
    return red, green, blue, opacity or 1.0


def _bytes(path: Path) -> bytes:
    try:
        # a pipe is opened without waiting for someone to write to it
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
                         | getattr(os, "O_BINARY", 0))
        with os.fdopen(number, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ValueError(f"{path}: not a file")
            data = stream.read(MESH_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MESH_BYTES:
        raise ValueError(f"{path}: larger than {MESH_BYTES // 2**20} MiB")
    return data


def _check_document(data: bytes, path: Path) -> None:
    """Refuse XML that is not safe to hand on: entities, depth, nodes that multiply."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None
    root = parse_xml(text, str(path), notes=Notes())
    tags = [str(element.tag).rpartition("}")[2] for element in root.iter()]
    if tags.count("instance_node") or tags.count("instance_geometry") > INSTANCES:
        raise ValueError(f"{path}: places nodes by reference or more than {INSTANCES} meshes")


def _check_groups(data: bytes, path: Path) -> None:
    """Refuse OBJ files that change their material so often that reading takes long."""
    count = sum(data.count(b"\n" + word) for word in (b"usemtl", b"o ", b"g "))
    if count > GROUPS:
        raise ValueError(f"{path}: {count} materials, objects and groups, expected at most "
                         f"{GROUPS}")


def _materials_beside(path: Path) -> Any:
    """What an OBJ file may open: .mtl files in its own directory."""
    resolvers: Any = import_module("trimesh.resolvers")

    class MaterialFiles(resolvers.Resolver):
        def __init__(self) -> None:
            pass

        def get(self, name: str) -> bytes:
            own = Path(name)
            if own.name != name.strip() or own.suffix.lower() != ".mtl":
                raise KeyError(name)
            beside = path.with_name(own.name)
            if not _stays(beside, path.parent, path.parent):
                raise KeyError(name)
            return _bytes(beside)

        def write(self, name: str, data: bytes) -> None:
            raise KeyError(name)

        def namespaced(self, namespace: str) -> Any:
            raise KeyError(namespace)

        def keys(self) -> list[str]:
            return []

    return MaterialFiles()


def _trimesh() -> Any:
    try:
        return import_module("trimesh")
    except ImportError:
        raise ImportError("meshes need trimesh: pip install nlink[viewer]") from None
