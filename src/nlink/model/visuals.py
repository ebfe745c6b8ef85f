"""The looks of links: shapes, places and colours, kept beside the mechanism, never part of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from nlink.model.pose import Pose

ShapeName = Literal["box", "sphere", "cylinder", "capsule", "ellipsoid", "plane", "mesh"]
Colour = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Visual:
    """A shape fixed in a link.

    `size` are the edges of a box, the radius of a sphere, radius and length of a cylinder or
    capsule along z, the half axes of an ellipsoid, the half edges of a plane (0 is endless), or
    the scale of a mesh. A mesh is `file`, a name as the robot's file `origin` has it, which is
    looked for when it is drawn, or `vertices` (N, 3) with `triangles` (M, 3).
    """

    link: str
    """The link's name; none for the base."""
    shape: ShapeName
    size: tuple[float, ...]
    pose: Pose = field(default_factory=Pose)
    colour: Colour | None = None
    """Red, green, blue and opacity from 0 to 1, if the file says."""
    material: str = ""
    """A material that the file names without defining it."""
    file: str = ""
    origin: str = ""
    vertices: np.ndarray | None = field(default=None, repr=False)
    triangles: np.ndarray | None = field(default=None, repr=False)
