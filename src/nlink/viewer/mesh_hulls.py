"""Hulls of the meshes that a robot's file names for contact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nlink.model.description import Description
from nlink.model.editing import edited
from nlink.model.shapes import Hull, MeshShape, thinned
from nlink.viewer.mesh_files import find_mesh, read_mesh

Points = tuple[tuple[float, float, float], ...]


def with_hulls(description: Description, packages: Sequence[Path]) -> Description:
    """The mechanism with the hull of at most 16 vertices of each mesh, and a line in its report
    about how much smaller it is."""
    read: dict[tuple[str, tuple[float, ...]], tuple[Points, float]] = {}
    collisions, lines = [], []
    for each in description.collisions:
        shape = each.shape
        if not isinstance(shape, MeshShape):
            collisions.append(each)
            continue
        key = shape.file, shape.scale
        try:
            if key not in read:
                points = np.vstack([surface.vertices for surface in read_mesh(
                    find_mesh(shape.file, shape.origin, packages))])
                read[key] = thinned(points * shape.scale)
        except ValueError as error:
            raise ValueError(f"collisions: mesh of {each.link!r}: {error}") from None
        corners, lack = read[key]
        collisions.append(replace(each, shape=Hull(
            corners, pose=shape.pose, friction=shape.friction, restitution=shape.restitution,
            pairs_only=shape.pairs_only)))
        lines.append(f"mesh of {each.link!r} taken as a hull of {len(corners)} points, about "
                     f"{1e3 * lack:.2g} mm inside of it at most")
    return edited(description, collisions=tuple(collisions),
                  report=(*description.report, *lines))
