"""Programs differentiated into programs: products with derivatives, and their matrices.

Rates of an input x are an input dx, weights on a result y an input w_y, gradients by x a result
g_x, and dy_dx is a matrix. `by` names the inputs that change, all if not given. A number follows
where a name is taken: the program may be a product itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from nlink.programs.program import Port, Program
from nlink.programs.tracing import input_nodes
from nlink.scalars.differentiation import fewest_operations, pullback, pushforward
from nlink.scalars.differentiation import jacobian as matrix
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import substitute


def jvp(program: Program, by: Sequence[str] | None = None) -> Program:
    """The rates of results as inputs change."""
    sources, graph = _by(program, by), _graph(program)
    rates = _distinct("d", sources, program.inputs)
    moved = dict(zip(_flat(graph, sources), _flat(graph, rates), strict=True))
    return replace(program, name=f"{program.name}_jvp", inputs=(*program.inputs, *rates),
                   results=tuple(pushforward(program.results, moved)))


def vjp(program: Program, by: Sequence[str] | None = None) -> Program:
    """The gradient of weighted results."""
    sources, graph = _by(program, by), _graph(program)
    weights = _distinct("w_", program.outputs, program.inputs)
    return Program(f"{program.name}_vjp", (*program.inputs, *weights),
                   tuple(Port(f"g_{port.name}", port.shape) for port in sources),
                   tuple(pullback(program.results, _flat(graph, weights), _flat(graph, sources))))


def jacobian(program: Program, by: Sequence[str] | None = None) -> Program:
    """A matrix for each result and each input, by columns or rows, as takes fewer operations."""
    sources, graph = _by(program, by), _graph(program)
    rows = iter(matrix(program.results, _flat(graph, sources)))
    outputs, results = [], []
    for port in program.outputs:
        own, first = [next(rows) for _ in range(port.size)], 0
        for source in sources:
            outputs.append(Port(f"d{port.name}_d{source.name}", (*port.shape, *source.shape)))
            results += chain(*(row[first:first + source.size] for row in own))
            first += source.size
    return Program(f"{program.name}_jacobian", program.inputs, tuple(outputs), tuple(results))


def slopes(program: Program, sources: Sequence[Node], count: int) -> Program:
    """The matrix "slopes" of the first `count` results by some elements of the inputs."""
    rows = matrix(program.results[:count], sources)
    return Program("jacobian", program.inputs, (Port("slopes", (count, len(sources))),),
                   tuple(chain(*rows)))


def along(program: Program, directions: Sequence[Mapping[Node, Node]]) -> list[list[Node]]:
    """How the results change in each of some directions, the rates of inputs: by each direction,
    or by the whole matrix first, whichever are fewer operations."""
    results, graph = list(program.results), _graph(program)
    sources = list(dict.fromkeys(chain(*directions)))
    columns = [pushforward(results, {x: graph.const(1)}) for x in sources]
    by_matrix = [[graph.lift(sum(
        (d[k] * moved[x] for x, d in zip(sources, columns, strict=True) if x in moved
         and not (d[k].op == "const" and d[k].value == 0)), 0.0))
        for k in range(len(results))] for moved in directions]
    return fewest_operations([[pushforward(results, moved) for moved in directions], by_matrix])


def bound(program: Program, values: Mapping[str, float]) -> Program:
    """The program with numbers for all elements of some inputs."""
    graph = _graph(program)
    known = {x.index: graph.const(value) for name, value in values.items()
             for x in _flat(graph, _by(program, [name]))}
    return replace(program, results=tuple(substitute(program.results, graph, known)),
                   inputs=tuple(port for port in program.inputs if port.name not in values))


def _distinct(prefix: str, ports: Sequence[Port], known: Sequence[Port]) -> tuple[Port, ...]:
    """Ports that belong to others, with names that are not taken."""
    taken, found = {port.name for port in known}, []
    for port in ports:
        wanted = name = f"{prefix}{port.name}"
        number = 2
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        taken.add(name)
        found.append(Port(name, port.shape))
    return tuple(found)


def _by(program: Program, by: Sequence[str] | None) -> tuple[Port, ...]:
    return tuple(port for port in program.inputs if by is None or port.name in by)


def _graph(program: Program) -> Graph:
    return program.results[0].graph if program.results else Graph()


def _flat(graph: Graph, ports: Sequence[Port]) -> list[Node]:
    return list(chain(*input_nodes(graph, ports)))
