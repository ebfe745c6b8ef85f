"""The papers' own objects: operators on stacks of twists and wrenches, for one state."""

from nlink.operators.denoc import DeNOC
from nlink.operators.family import Operators
from nlink.operators.linear import Identity, Operator
from nlink.operators.spatial import SpatialOperators

__all__ = ["DeNOC", "Identity", "Operator", "Operators", "SpatialOperators"]
