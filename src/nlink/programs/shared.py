"""Numbers that one program leaves for others within a step: a value, taken apart and rebuilt.

The value is any nesting of tuples, lists and dataclasses of scalars. Nodes of it are the outputs
of the program that makes it, each once; what is known as a number is known to all programs.
"""

from __future__ import annotations

from typing import Any

from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Graph, Node
from nlink.scalars.tree import map_leaves

PORT = "shared"


class CarriedValue:
    """A value of one graph, for other graphs."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.nodes: list[Node] = []
        """What the program gives that makes it."""
        self._at: dict[Node, int] = {}
        map_leaves(lambda _path, x: self._note(x), value)

    def _note(self, x: Scalar) -> Scalar:
        if isinstance(x, Node) and x.op != "const" and x not in self._at:
            self._at[x] = len(self.nodes)
            self.nodes.append(x)
        return x

    def inside(self, graph: Graph) -> Any:
        """The value in another graph, its nodes being elements of the port."""
        def moved(_path: str, x: Scalar) -> Scalar:
            if not isinstance(x, Node):
                return x
            return x.value if x.op == "const" else graph.input(f"{PORT}[{self._at[x]}]")

        return map_leaves(moved, self.value)
