"""Spatial algebra on any scalar: small immutable types that know no robot.

Components may be floats, arrays, graph nodes or SymPy expressions. A literal 0 or 1 is
structure: graph and counting scalars fold it away, so these types are written out in
full and never ask whether a number happens to be zero.
"""

from nlink.spatial.inertia import ArticulatedInertia, Pivot, RigidInertia
from nlink.spatial.motion import Twist, Wrench
from nlink.spatial.transform import Rotation, Spin, Transform, Turn
from nlink.spatial.vector import Matrix, Symmetric, Vector, euler_tensor

__all__ = [
    "ArticulatedInertia",
    "Matrix",
    "Pivot",
    "RigidInertia",
    "Rotation",
    "Spin",
    "Symmetric",
    "Transform",
    "Turn",
    "Twist",
    "Vector",
    "Wrench",
    "euler_tensor",
]
