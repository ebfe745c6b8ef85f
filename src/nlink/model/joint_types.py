"""All joint types by the name files use."""

from nlink.model.joints import Fixed, JointType, Prismatic, Revolute
from nlink.model.multi_rate import Free, Helical, Planar, Spherical, Universal

JOINT_TYPES: dict[str, type[JointType]] = {
    kind.name: kind
    for kind in (Revolute, Prismatic, Fixed, Helical, Universal, Planar, Spherical, Free)
}
