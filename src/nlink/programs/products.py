"""Products with derivatives, as algorithms: f_jvp, f_vjp, f_hvp and f_derivatives of any f in the
catalogue.

Let y = f(x) be computed from arguments x. With rates x' of the arguments and weights w on the
results,

    f_jvp(x, x') = (df/dx) x',    f_vjp(x, w) = (df/dx)^T w,    f_hvp(x, w, x') = d/dt f_vjp(x, w),

the last for constant w: the product of the second derivatives of w . f with x'. f_derivatives(x)
are the matrices df/dx themselves, one for each result and argument but f_ext (which acts by
Jacobians): products with the units of the arguments (columns) or of the results (rows), whichever
count fewer operations. Each is an algorithm like any other, written by the passes of
`nlink.scalars.differentiation`; products of products give higher orders.

A change of coordinates q is given by rates, in the tangent space of the joints' space:
q' = T(q) v with the `tangent` of the space. So the argument of f_jvp that belongs to q has n
elements, and so has the result of f_vjp, T(q)^T (df/dq)^T w.

Forward dynamics solves M qdd + c = tau, that is ID(q, qd, qdd) = tau, and so do its derivatives:

    qdd' = M^-1 (tau' - ID')   with qdd held in ID',
    (df/dtau)^T w = M^-1 w = l,   (df/d(q, qd))^T w = -(dID/d(q, qd))^T l   with qdd and l held.

These need one more solution each with the factors of M at hand instead of the derivative of the
elimination; they compete with the plain passes by count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Any

from nlink.algorithms import catalogue, inverse_dynamics, kinematics, matrices
from nlink.algorithms import forward_dynamics as accelerations
from nlink.algorithms.catalogue import FEW_FOR_COUNTING, Algorithm, Options, Shape
from nlink.algorithms.sweep import Column, Unrolled
from nlink.model.mechanism import Mechanism
from nlink.programs import rolled_products
from nlink.programs.rolled_columns import NotRolled
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.rolled_tracing import trace_rolled
from nlink.programs.tracing import WRENCHES, flat_input, flat_output, ports
from nlink.scalars.differentiation import fewest_operations, pullback, pushforward
from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import evaluate, substitute
from nlink.scalars.tree import leaves, map_leaves

KINDS = ("jvp", "vjp", "hvp", "derivatives")
IMPLICIT = "implicit"
IMPLICIT_SWEEPS = "implicit-sweeps"
COUNTED_JOINTS = 3
"""Up to here matrices by the passes may count fewer operations than a recursion."""

Nodes = list[Node]
Ports = tuple[tuple[str, Shape], ...]


def split_name(name: str) -> tuple[str, str] | None:
    """The computation and the kind of product that a name is made of, None if it is no product.

    >>> split_name("mass_matrix_jvp"), split_name("mass_matrix")
    (('mass_matrix', 'jvp'), None)
    """
    base, _, kind = name.rpartition("_")
    return (base, kind) if base and kind in KINDS else None


def differentiated(name: str) -> str:
    """The computation that products are of, and products of products.

    >>> differentiated("solve_vjp_jvp"), differentiated("solve")
    ('solve', 'solve')
    """
    parts = split_name(name)
    return differentiated(parts[0]) if parts else name


def formulations(name: str, *, loops: bool = False) -> dict[str, Algorithm]:
    """All formulations of a name, of products too."""
    parts = split_name(name)
    if parts is None:
        return catalogue.entries(name, loops=loops)
    base, kind = parts
    return _of_product(base, kind, tuple(formulations(base, loops=loops).values()),
                       tuple(catalogue.catalogue(loops=loops).get(name, {}).items()), loops)


@cache
def _of_product(base: str, kind: str, entries: tuple[Algorithm, ...],
                recursions: tuple[tuple[str, Algorithm], ...], loops: bool,
                ) -> dict[str, Algorithm]:
    """Formulations of a product with the derivatives of some algorithms; the same objects for the
    same entries, though the catalogue may get others under their names."""
    own = dict(recursions)
    plain = {entry.formulation: product(entry, kind) for entry in entries if not entry.stand_in}
    if own:  # recursions of their own, with which the passes compete where tracing costs little
        first = next(iter(plain))
        return own | {f"graph-{known}": _like(entry, next(iter(own.values())),
                                              COUNTED_JOINTS if known == first else 0)
                      for known, entry in plain.items()}
    if kind == "derivatives" or base != "forward_dynamics" or loops:
        return plain
    like = next(iter(plain.values()))
    return plain | {
        IMPLICIT_SWEEPS: replace(
            like, formulation=IMPLICIT_SWEEPS, text=_Written(_Implicit(kind, _by_sweeps)),
            counted=FEW_FOR_COUNTING),
        IMPLICIT: replace(
            like, formulation=IMPLICIT, text=_Written(_Implicit(kind, _by_composites)),
            power=3, counted=FEW_FOR_COUNTING)}


def find(name: str, formulation: str | None = None, *, loops: bool = False) -> Algorithm:
    """The algorithm of a name, in the named formulation or the first."""
    return catalogue.choose(name, formulations(name, loops=loops), formulation)


def product(entry: Algorithm, kind: str) -> Algorithm:
    """The product of one kind with the derivatives of an algorithm, by the plain passes."""
    inputs, outputs = entry.inputs, entry.outputs
    if kind == "derivatives":
        return replace(entry, name=f"{entry.name}_{kind}", text=_Written(_Matrices(entry)),
                       outputs=_matrices(inputs, outputs), stand_in="", power=entry.power + 1)
    taken = {name for name, _ in (*inputs, *outputs)}
    rates = _named("d", inputs, taken)
    if kind == "jvp":
        more, results = rates, _named("d", outputs, taken, point=False)
    else:
        more = _named("w_", outputs, taken, point=False)
        results = _named("g_", inputs, taken)
        if kind == "hvp":
            more, results = more + rates, _named("d", results, taken)
    return replace(entry, name=f"{entry.name}_{kind}", inputs=inputs + more, outputs=results,
                   text=_Written(_Plain(kind, entry)), stand_in="")


def _matrices(inputs: Ports, outputs: Ports) -> Ports:
    """A port for the derivative of each result by each argument."""
    return tuple((f"d{y}_d{x}", (*shape, *(("n",) if by == ("nq",) else by)))
                 for y, shape in outputs for x, by in inputs if x != WRENCHES)


def _like(entry: Algorithm, other: Algorithm, counted: int) -> Algorithm:
    """An algorithm of matrices, with those outputs only that another one has."""
    text = entry.text
    kept = [k for k, port in enumerate(entry.outputs) if port in other.outputs]
    assert [entry.outputs[k] for k in kept] == list(other.outputs), other.outputs
    return replace(entry, formulation=f"graph-{entry.formulation}", outputs=other.outputs,
                   text=lambda *given: _one_or_all([text(*given)[k] for k in kept]),
                   counted=counted, power=max(entry.power, other.power))


def _named(prefix: str, ports: Ports, taken: set[str], *, point: bool = True) -> Ports:
    """Ports for changes of others: of coordinates (`point`) by rates."""
    found = []
    for name, shape in ports:
        own, number = f"{prefix}{name}", 2
        while own in taken:
            own, number = f"{prefix}{name}_{number}", number + 1
        taken.add(own)
        found.append((own, ("n",) if point and shape == ("nq",) else shape))
    return tuple(found)


class _Written:
    """The text of a product: a graph of the function, differentiated, on any scalar."""

    def __init__(self, passes: Callable[..., list[Nodes]]) -> None:
        self.passes = passes
        self._last: tuple[Any, ...] = (None,)

    def __call__(self, driver: Any, options: Options, *columns: Any) -> Any:
        given = list(leaves(columns))
        if all(isinstance(x, Node) and x.op == "input" for x in given):
            return _one_or_all(self.passes(driver, options, *columns))
        # on other scalars: by a graph of its own, kept for the next state
        mechanism, last_options, results = (*self._last, None, None)[:3]
        if mechanism is not driver.mechanism or last_options != options or results is None:
            graph = Graph()
            names = iter(range(len(given)))
            nodes = map_leaves(lambda _path, _x: graph.input(next(names)), columns)
            results = self.passes(driver, options, *nodes)
            self._last = (driver.mechanism, options, results)
        values = iter(evaluate(list(chain(*results)), dict(enumerate(given))))
        return _one_or_all([[next(values) for _ in part] for part in results])

    def rolled(self, algorithm: Algorithm, mechanism: Mechanism, options: Options, *,
               wrenches: bool) -> RolledProgram:
        """The rolled program: that of the function, differentiated."""
        if not isinstance(self.passes, _Plain):
            raise NotRolled("is written for the whole mechanism")
        return self.passes.rolled(algorithm, mechanism, options, wrenches)


def _one_or_all(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else results


@dataclass(frozen=True)
class _Plain:
    """The passes on the algorithm's own graph."""

    kind: str
    entry: Algorithm

    def __call__(self, driver: Unrolled, options: Options, *columns: Any) -> list[Nodes]:
        entry, mechanism, frames = self.entry, driver.mechanism, len(options.frames)
        inputs = len(entry.inputs)
        at = _Arguments(driver, entry.inputs, columns[:inputs], frames)
        outputs = _outputs(entry, at, driver, options, columns[:inputs])
        if self.kind == "jvp":
            rates = iter(pushforward(list(chain(*outputs)), at.moved(columns[inputs:])))
            return [[next(rates) for _ in part] for part in outputs]
        weights = columns[inputs:inputs + len(outputs)]
        # a gradient by wrenches that are not there has no weights
        weighted = [(y, w) for (_, shape), column, part in zip(
            entry.outputs, weights, outputs, strict=True) if column is not None
            for y, w in zip(part, flat_input(mechanism, shape, frames, column), strict=True)]
        gradients = at.gradients(pullback([y for y, _ in weighted], [w for _, w in weighted],
                                          at.flat))
        if self.kind == "vjp":
            return gradients
        return _pushed(gradients, at.moved(columns[inputs + len(outputs):]))

    def rolled(self, algorithm: Algorithm, mechanism: Mechanism, options: Options,
               wrenches: bool) -> RolledProgram:
        entry = self.entry
        program = trace_rolled(entry, mechanism, options, wrenches=wrenches)
        if self.kind == "hvp":
            first = product(entry, "vjp")
            names = _renamed(entry, first, mechanism, wrenches, first.outputs,
                             first.inputs[len(entry.inputs):])
            program = rolled_products.reverse(program, mechanism, names)
            entry = first
        rates = algorithm.inputs[-len(self.entry.inputs):]
        if self.kind == "vjp":
            return rolled_products.reverse(program, mechanism, _renamed(
                entry, algorithm, mechanism, wrenches, algorithm.outputs,
                algorithm.inputs[len(entry.inputs):]))
        return rolled_products.forward(program, mechanism, _renamed(
            entry, algorithm, mechanism, wrenches, rates, algorithm.outputs))


def _renamed(entry: Algorithm, algorithm: Algorithm, mechanism: Mechanism, wrenches: bool,
             moving: Ports, results: Ports) -> rolled_products.Renamed:
    """The ports of a product, and which of them belong to those of the function."""
    inputs, outputs = ports(algorithm, mechanism, wrenches=wrenches)
    given = {port.name for port in (*inputs, *outputs)}
    return rolled_products.Renamed(
        inputs, outputs,
        {one: other for (one, _), (other, _) in zip(entry.inputs, moving, strict=False)
         if other in given},
        {one: other for (one, _), (other, _) in zip(entry.outputs, results, strict=True)
         if other in given})


def _outputs(entry: Algorithm, at: _Arguments, driver: Unrolled, options: Options,
             columns: Sequence[Any]) -> list[Nodes]:
    """The results of an algorithm, port by port."""
    values = entry.text(driver, options, *columns)
    return [_lifted(at.graph, flat_output(driver.mechanism, shape, at.frames, value))
            for (_, shape), value in zip(
                entry.outputs, (values,) if len(entry.outputs) == 1 else values, strict=True)]


@dataclass(frozen=True)
class _Matrices:
    """All derivatives: by columns or by rows, whichever are fewer operations."""

    entry: Algorithm

    def __call__(self, driver: Unrolled, options: Options, *columns: Any) -> list[Nodes]:
        varied = [k for k, (name, _) in enumerate(self.entry.inputs) if name != WRENCHES]
        at = _Arguments(driver, tuple(self.entry.inputs[k] for k in varied),
                        [columns[k] for k in varied], len(options.frames))
        outputs = _outputs(self.entry, at, driver, options, columns)
        y, widths = list(chain(*outputs)), at.widths
        rows, width = len(set(y)), sum(widths)
        ways = []
        if rows >= width / 4:
            ways.append([list(row) for row in zip(
                *(pushforward(y, at.unit(k)) for k in range(width)), strict=True)])
        if width > rows / 4:
            by_node = {x: list(chain(*at.gradients(pullback([x], [at.graph.const(1)], at.flat))))
                       for x in dict.fromkeys(y)}
            ways.append([by_node[x] for x in y])
        best = fewest_operations(ways) if y and width else [[] for _ in y]
        starts, found, first = list(accumulate(widths, initial=0)), [], 0
        for part in outputs:
            own, first = best[first:first + len(part)], first + len(part)
            found += [list(chain(*(row[a:b] for row in own))) for a, b in pairwise(starts)]
        return found


class _Arguments:
    """The arguments of a function as nodes, and how they move with the rates given for them."""

    def __init__(self, driver: Unrolled, inputs: Ports, columns: Sequence[Any],
                 frames: int) -> None:
        self.mechanism, self.inputs, self.frames = driver.mechanism, inputs, frames
        self.parts = [flat_input(driver.mechanism, shape, frames, column) if column is not None
                      else [] for (_, shape), column in zip(inputs, columns, strict=True)]
        self.flat: Nodes = list(chain(*self.parts))
        self.graph: Graph = self.flat[0].graph if self.flat else Graph()

    def moved(self, columns: Sequence[Any]) -> dict[Node, Node]:
        """For each node its rate, from those given, which of coordinates are in tangent space."""
        rates: list[Scalar] = []
        for (_, shape), own, column in zip(self.inputs, self.parts, columns, strict=True):
            if column is not None:
                changed = flat_input(self.mechanism, ("n",) if shape == ("nq",) else shape,
                                     self.frames, column)
                rates += self.mechanism.space.tangent(own, changed) if shape == (
                    "nq",) else changed
        return dict(zip(self.flat, _lifted(self.graph, rates), strict=True))

    @property
    def widths(self) -> list[int]:
        """How many rates each argument has."""
        return [self.mechanism.nv if shape == ("nq",) else len(own)
                for (_, shape), own in zip(self.inputs, self.parts, strict=True)]

    def unit(self, k: int) -> dict[Node, Node]:
        """The rates of nodes for a unit of rate k of all."""
        flat = iter([self.graph.const(float(j == k)) for j in range(sum(self.widths))])
        rates: list[Scalar] = []
        for (_, shape), own, width in zip(self.inputs, self.parts, self.widths, strict=True):
            unit = [next(flat) for _ in range(width)]
            rates += self.mechanism.space.tangent(own, unit) if shape == ("nq",) else unit
        return {x: rate for x, rate in zip(self.flat, _lifted(self.graph, rates), strict=True)
                if not (rate.op == "const" and rate.value == 0)}

    def gradients(self, by_node: Sequence[Node]) -> list[Nodes]:
        """A gradient for each argument; of coordinates T^T times that by them."""
        flat, found = iter(by_node), []
        for (_, shape), own in zip(self.inputs, self.parts, strict=True):
            gradient = [next(flat) for _ in own]
            if shape == ("nq",):
                # T(q) v is linear in v: pulled back, it does not depend on v
                v = [self.graph.input((own[0].name, "rate", k)) for k in range(self.mechanism.nv)]
                image = _lifted(self.graph, self.mechanism.space.tangent(own, v))
                gradient = pullback(image, gradient, v)
            found.append(gradient)
        return found


@dataclass(frozen=True)
class _Implicit:
    """Products of forward dynamics as solutions of its own equation.

    `solver(driver, q)` gives b -> M(q)^-1 b on flat nodes.
    """

    kind: str
    solver: Callable[[Unrolled, Column], Callable[[Nodes], Nodes]]

    def __call__(self, driver: Unrolled, options: Options, *columns: Any) -> list[Nodes]:
        q, qd, tau, f_ext, *rest = columns
        ports = find("forward_dynamics").inputs
        at = _Arguments(driver, ports, columns[:4], len(options.frames))
        graph, mechanism, solve = at.graph, driver.mechanism, self.solver(driver, q)
        wrenches = kinematics.body_wrenches(driver, q, options.links, f_ext)

        def forces(qdd: Column) -> Nodes:
            """ID(q, qd, qdd), flat."""
            return _lifted(graph, leaves(inverse_dynamics.inverse_dynamics(
                driver, q, qd, qdd, wrenches)))

        taus, bias = list(leaves(tau)), forces(inverse_dynamics.rest(driver))
        # the solutions qdd and l are inputs, which are held, until all is differentiated
        qdd, l = ([graph.input((name, k)) for k in range(mechanism.nv)] for name in "al")
        known = dict(zip(qdd, solve([t - b for t, b in zip(taus, bias, strict=True)]), strict=True))
        y = forces(mechanism.split(qdd, "nv"))

        def solution_rate(moved: dict[Node, Node]) -> Nodes:
            """qdd' = M^-1 (tau' - ID')."""
            change = pushforward(y, moved)
            return solve([moved[t] - d for t, d in zip(taus, change, strict=True)])

        if self.kind == "jvp":
            return _with_known([solution_rate(at.moved(rest))], known)
        weights, *rest = rest
        known |= dict(zip(l, solve(list(leaves(weights))), strict=True))
        by_node = pullback(y, [-x for x in l], at.flat)
        gradients = at.gradients([dict(zip(taus, l, strict=True)).get(x, g)
                                  for x, g in zip(at.flat, by_node, strict=True)])
        if self.kind == "vjp":
            return _with_known(gradients, known)
        moved = at.moved(rest)
        # M l = w: l' = -M^-1 M' l, and M l is the inverse dynamics of l without rates and weight
        weightless = Unrolled(replace(mechanism, gravity=mechanism.gravity * 0))
        Ml = _lifted(graph, leaves(inverse_dynamics.inverse_dynamics(
            weightless, q, inverse_dynamics.rest(driver), mechanism.split(l, "nv"),
            inverse_dynamics.no_wrenches(driver))))
        l_rate = solve([-x for x in pushforward(Ml, moved)])
        return _with_known(_pushed(
            gradients, moved | dict(zip(qdd, solution_rate(moved), strict=True))
            | dict(zip(l, l_rate, strict=True))), known)


def _by_composites(driver: Unrolled, q: Column) -> Callable[[Nodes], Nodes]:
    """With the factors of M from composite inertias, once."""
    factors = matrices.Factors.of(matrices.dense(driver, matrices.mass_matrix(driver, q)))
    return lambda b: _lifted(b[0].graph, factors.solve(b)) if b else []


def _by_sweeps(driver: Unrolled, q: Column) -> Callable[[Nodes], Nodes]:
    """By the sweeps of `solve`, O(n); the graph shares the elimination."""
    return lambda b: _lifted(b[0].graph, leaves(accelerations.solve(
        driver, q, driver.mechanism.split(b, "nv")))) if b else []


def _with_known(parts: list[Nodes], known: dict[Node, Node]) -> list[Nodes]:
    """The same with known values in place of some inputs."""
    flat = list(chain(*parts))
    copies = iter(substitute(flat, flat[0].graph, {x.index: value for x, value in known.items()})
                  if flat else [])
    return [[next(copies) for _ in part] for part in parts]


def _pushed(parts: list[Nodes], moved: dict[Node, Node]) -> list[Nodes]:
    """The rates of change of some lists of nodes."""
    rates = iter(pushforward(list(chain(*parts)), moved))
    return [[next(rates) for _ in part] for part in parts]


def _lifted(graph: Graph, values: Iterable[Scalar]) -> Nodes:
    return [graph.lift(x) for x in values]
