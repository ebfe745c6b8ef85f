"""Derivatives of graphs, as graphs.

Let y = f(x) be nodes of a graph. The forward pass takes rates of change x' of some nodes and
writes those of others, y' = (df/dx) x', from the arguments to the results; the reverse pass takes
weights w on the results and writes (df/dx)^T w, from the results to the arguments. Both read the
partial derivatives in the table of primitives and write ordinary nodes into the same graph, so
they apply to their own results, to any order, and zeros, equal expressions and dead code vanish
as they do everywhere.

Where a function has no derivative, one of its one-sided values stands for it, the same in both
passes: abs' (0) = 0 and sign' = floor' = table' = 0; of equal arguments, `minimum` and `maximum`
take the first one's; sqrt'(0) is inf, and log'(0) too. What `where` does not choose has no part in
the derivative, even if it is nan or inf.

>>> from nlink.scalars.graph import Graph
>>> from nlink.scalars.traversal import evaluate
>>> g = Graph()
>>> x, y = g.input("x"), g.input("y")
>>> slopes = pullback([x * x * y], [g.const(1)], [x, y])
>>> evaluate(slopes, {"x": 3.0, "y": 2.0})
[12.0, 9.0]
>>> evaluate(pullback([slopes[0]], [g.const(1)], [x]), {"x": 3.0, "y": 2.0})
[4.0]
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nlink.scalars.graph import Graph, Node, operation
from nlink.scalars.primitives import Scalar
from nlink.scalars.traversal import reachable


def pushforward(results: Sequence[Node], tangents: Mapping[Node, Node]) -> list[Node]:
    """The rates of change of results when inputs change at the rates `tangents`."""
    if not results:
        return []
    graph, live = _graph(results, tangents), reachable(results)
    _expect_inputs(tangents)
    rates = {node.index: rate for node, rate in tangents.items()}
    for node in _marked(graph, live):
        if any(a.index in rates for a in node.args):
            rate = graph.lift(_rate(node, [rates.get(a.index) for a in node.args]))
            if not _zero(rate):
                rates[node.index] = rate
    nothing = graph.const(0)
    return [rates.get(node.index, nothing) for node in results]


def pullback(results: Sequence[Node], weights: Sequence[Node],
             sources: Sequence[Node]) -> list[Node]:
    """The gradient of the sum of weights times results by the inputs `sources`."""
    if not sources:
        return []
    graph, live = _graph(results, weights, sources), reachable(results)
    _expect_inputs(sources)
    moving = {node.index for node in sources}
    for node in live:
        if any(a.index in moving for a in node.args):
            moving.add(node.index)
    sums: dict[int, Node] = {}
    chosen: dict[int, Node] = {}  # the truth under which a result depends on the node
    for node, weight in zip(results, weights, strict=True):
        if node.index in moving and not _zero(weight):
            _add(sums, node, weight)
            chosen[node.index] = graph.truth(True)
    for node in _marked(graph, live[::-1]):
        if node.index not in sums or not node.args:
            continue
        for a, part, truth in _parts(node, sums[node.index], moving, chosen[node.index]):
            if not _zero(part):
                _add(sums, a, part)
                before = chosen.get(a.index)
                chosen[a.index] = truth if before is None else before | truth
    nothing = graph.const(0)
    return [sums.get(node.index, nothing) for node in sources]


def _marked(graph: Graph, nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes; the derivative of a step is a step."""
    marks, step = list(graph.marks), -1
    for node in nodes:
        if marks and (own := bisect_right(marks, node.index)) != step:
            step = own
            graph.mark()
        yield node


def jacobian(results: Sequence[Node], sources: Sequence[Node]) -> list[list[Node]]:
    """A row for each result with its derivatives by the inputs `sources`: by columns or by rows,
    whichever are fewer operations."""
    if not results or not sources:
        return [[] for _ in results]
    one = sources[0].graph.const(1)
    ways = []
    if len(results) >= len(sources) / 4:
        ways.append([list(row) for row in zip(
            *(pushforward(results, {x: one}) for x in sources), strict=True)])
    if len(sources) >= len(results) / 4:
        ways.append([pullback([y], [one], sources) for y in results])
    return fewest_operations(ways)


def fewest_operations(ways: Sequence[list[list[Node]]]) -> list[list[Node]]:
    """The one of several matrices that takes the fewest operations."""
    return min(ways, key=lambda matrix: sum(
        not node.offline for node in reachable(x for row in matrix for x in row) if node.args))


def _rate(node: Node, rates: Sequence[Node | None]) -> Scalar:
    """How fast a node changes when its arguments change at these rates (None is not at all)."""
    first, second = (0.0 if rate is None else rate for rate in (*rates[-2:], None)[:2])
    match node.op:
        case "where":
            return node.graph.primitive("where", node.args[0], first, second)
        case "minimum" | "maximum":
            return node.graph.primitive("where", _takes_second(node), second, first)
        case "div":
            return (first - node * second) / node.args[1]
    partials = operation(node.op).derivatives(*node.args, result=node)
    return sum(p * rate for p, rate in zip(partials, rates, strict=True) if rate is not None)


def _parts(node: Node, weight: Node, moving: set[int], guard: Node,
           ) -> Iterable[tuple[Node, Node, Node]]:
    """The arguments of a node that move, each with its part of the weight, and when it counts."""
    graph, nothing = node.graph, node.graph.const(0)
    if node.op in ("where", "minimum", "maximum"):
        *truth, first, second = node.args
        c = truth[0] if truth else ~_takes_second(node)
        return [(a, graph.where(when, weight, nothing), guard & when)
                for a, when in ((first, c), (second, ~c)) if a.index in moving]
    if node.op == "div":
        share = weight / node.args[1]
        parts = [share, -(share * node)]
    else:
        partials = operation(node.op).derivatives(*node.args, result=node)
        parts = [graph.lift(p * weight) for p in partials]
    # a weight of zero times a partial derivative that is not finite would be nan
    return [(a, graph.where(guard, part, nothing), guard)
            for a, part in zip(node.args, parts, strict=True) if a.index in moving]


def _takes_second(node: Node) -> Node:
    """Whether a minimum or maximum is its second argument."""
    first, second = node.args
    return second < first if node.op == "minimum" else first < second


def _add(sums: dict[int, Node], node: Node, part: Node) -> None:
    before = sums.get(node.index)
    sums[node.index] = part if before is None else before + part


def _zero(node: Node) -> bool:
    return node.op == "const" and node.value == 0


def _expect_inputs(nodes: Iterable[Node]) -> None:
    """Refuse other nodes: the graph may have used their parts, such as what a negation negates."""
    for node in nodes:
        if node.op != "input":
            raise ValueError(f"a derivative by {node!r}, expected one by inputs of the graph")


def _graph(*nodes: Iterable[Node]) -> Graph:
    """The graph that all nodes are of."""
    graphs = {node.graph for some in nodes for node in some}
    if len(graphs) != 1:
        raise ValueError(f"nodes of {len(graphs)} graphs, expected nodes of one")
    return graphs.pop()
