"""The papers' own objects: operators on stacks of twists and wrenches, for one state."""

from nlink.papers.operators.denoc import DeNOC
from nlink.papers.operators.family import Operators
from nlink.papers.operators.linear import Identity, Operator
from nlink.papers.operators.spatial import SpatialOperators

__all__ = ["DeNOC", "Identity", "Operator", "Operators", "SpatialOperators"]
