"""Joint types, one file for each; `base` has their contract."""

from nlink.model.joints.base import DEFINED, AxialJoint, Displacement, JointType, unit_axis
from nlink.model.joints.fixed import Fixed
from nlink.model.joints.free import Free
from nlink.model.joints.helical import Helical
from nlink.model.joints.planar import Planar
from nlink.model.joints.prismatic import Prismatic
from nlink.model.joints.revolute import Revolute
from nlink.model.joints.spherical import Spherical
from nlink.model.joints.universal import Universal
from nlink.model.spaces import Coordinates

__all__ = ["DEFINED", "JOINT_TYPES", "AxialJoint", "Coordinates", "Displacement", "Fixed", "Free",
           "Helical", "JointType", "Planar", "Prismatic", "Revolute", "Spherical", "Universal",
           "unit_axis"]

JOINT_TYPES: dict[str, type[JointType]] = {
    kind.name: kind
    for kind in (Revolute, Prismatic, Fixed, Helical, Universal, Planar, Spherical, Free)
}
"""nlink's own joint types by the name files use."""
