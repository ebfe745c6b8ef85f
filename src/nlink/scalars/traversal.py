"""What nodes of a graph depend on, their values on any scalar, and copies of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nlink.scalars.graph import Graph, Node, operation
from nlink.scalars.primitives import Scalar


def reachable(results: Iterable[Node]) -> list[Node]:
    """All nodes the results depend on, in the order they were made."""
    seen: dict[int, Node] = {}
    stack = list(results)
    while stack:
        node = stack.pop()
        if node.index not in seen:
            seen[node.index] = node
            stack.extend(node.args)
    return [seen[i] for i in sorted(seen)]


def evaluate(results: Sequence[Node], bindings: Mapping[Any, Scalar],
             constant: Callable[[float], Scalar] = float,
             meaning: Callable[[str], Callable[..., Scalar]] | None = None) -> list[Scalar]:
    """The values of nodes on any scalar: floats, arrays, complex, SymPy, another graph.

    `constant` makes a scalar of the graph's numbers, where a plain float does not do; `meaning`
    gives what an operation is, where it is not that of the table.
    Intermediate values are dropped after their last use, so a batch of arrays needs
    little more memory than its width in the graph.
    """
    live = reachable(results)
    uses = dict.fromkeys((node.index for node in live), 0)
    for node in (*(a for n in live for a in n.args), *results):
        uses[node.index] += 1
    values: dict[int, Scalar] = {}
    meaning = meaning or (lambda op: operation(op).apply)
    rows = {op: meaning(op) for op in {node.op for node in live} - {"const", "input"}}
    for node in live:
        if node.op == "const":
            values[node.index] = constant(node.value)
        elif node.op == "input":
            if node.name not in bindings:
                raise KeyError(f"no value for input {node.name!r}")
            values[node.index] = bindings[node.name]
        else:
            values[node.index] = rows[node.op](*[values[a.index] for a in node.args])
            for a in node.args:
                uses[a.index] -= 1
                if not uses[a.index]:
                    del values[a.index]
    return [values[node.index] for node in results]


def substitute(results: Sequence[Node], graph: Graph, replaced: Mapping[int, Node]) -> list[Node]:
    """Copies of nodes in another graph, nodes with the given indices replaced by others."""
    copies: dict[int, Node] = dict(replaced)
    stack = list(results)
    while stack:
        node = stack[-1]
        missing = [a for a in node.args if a.index not in copies]
        if node.index in copies:
            stack.pop()
        elif missing:
            stack.extend(missing)
        elif node.op == "const":
            copies[node.index] = graph.const(node.value)
        elif node.op == "input":
            copies[node.index] = (graph.parameter if node.offline else graph.input)(node.name)
        else:
            copies[node.index] = graph.apply(node.op, *(copies[a.index] for a in node.args))
    return [copies[node.index] for node in results]
