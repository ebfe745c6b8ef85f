"""Mesh files of strangers: found within known directories only, read with limits.

A `package://name/path` is looked for in the directories given, and in the directories above the
robot's file; a relative name beside that file. Nothing outside of these is opened, nothing but
STL, OBJ and DAE files, and of what these name in turn only the .mtl file of an OBJ.
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
        homes = [*(root / package for root in roots), *(root for root in roots
                                                        if root.name == package)]
        for above in (beside, *beside.parents):
            homes += [above] * (above.name == package) + [above / package]
        for home in homes:
            path = _below(home, rest) if package not in ("", ".", "..") else None
            if path is not None and path.is_file():
                return path
        raise ValueError(f"{name}: not found in a directory {package!r} above {origin} or in "
                         "those given by packages")
    allowed = [*roots, beside, beside.parent]
    local = Path(unquote(name.removeprefix("file://")))
    for start in (beside, *roots):
        path = Path(os.path.normpath(start / local))
        if path.is_file():
            if any(path.is_relative_to(root) for root in allowed):
                return path
            raise ValueError(f"{name}: outside of the directory of {origin} and of those given "
                             "by packages, so it is not opened")
    raise ValueError(f"{name}: not found beside {origin}")


def _below(home: Path, rest: str) -> Path | None:
    """A path in a directory, unless it leaves it."""
    path = Path(os.path.normpath(home / rest))
    return path if path.is_relative_to(home) else None


def read_mesh(path: Path) -> list[Surface]:
    """The surfaces of a mesh file, metres if it says what its unit is."""
    data = _bytes(path)
    kind = path.suffix.lower()[1:]
    if kind == "dae":
        _check_document(data, path)
    trimesh = _trimesh()
    try:
        scene = trimesh.load_scene(io.BytesIO(data), file_type=kind, process=False,
                                   resolver=_materials_beside(path))
    except Exception as error:  # a parser of other people's formats raises anything
        raise ValueError(f"{path}: not a mesh that can be read: {type(error).__name__}: "
                         f"{error}") from None
    surfaces = [surface for surface in _surfaces(scene, trimesh) if len(surface.triangles)]
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
        unit = str(mesh.metadata.get("units", "")).partition(" * meters")
        scale = np.diag([float(unit[0]) if unit[1] else 1.0] * 3 + [1.0])
        yield Surface.of(vertices, np.asarray(mesh.faces), _colour(mesh)).placed(
            scale @ np.asarray(T))


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
        with path.open("rb") as stream:
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
            return _bytes(path.with_name(own.name))

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
