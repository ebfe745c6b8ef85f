"""Functions of one's own, a cost or a controller: traced, differentiated, compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Unpack, overload

import numpy as np

from nlink.backends.llvm.signature import CompiledFunction, compiled_function
from nlink.derivatives.differentials import RobotFunction
from nlink.engines.computations import How
from nlink.engines.engines import Engine, Function, checked_type, machine_code, run_program
from nlink.engines.users_view import shows_options
from nlink.programs.derivatives import jacobian, jvp, vjp
from nlink.programs.program import Port, Program
from nlink.robot import Robot
from nlink.scalars.arrays import batch, common_type
from nlink.scalars.graph import Graph, Node
from nlink.scalars.misuse import explained

Nodes = list[Node]


@overload
def function(f: Robot, name: str, /, *, frame: int | str = -1, **how: Unpack[How],
             ) -> RobotFunction: ...


@overload
def function(f: Callable[..., Any], /, *shapes: int | tuple[int, ...]) -> TracedFunction: ...


@shows_options
def function(f: Any, *shapes: Any, frame: int | str = -1, **how: Any) -> Any:
    """A function of arrays with its derivatives: compiled, over any batch.

    It is a computation of a robot, `function(robot, "forward_dynamics")`, with `frame`,
    `algorithm` and `engine` as for the computation; or a Python function `f`, traced once.
    Both have `jvp`, `vjp`, `hvp`, `jacobian` and `hessian`; that of a robot has `by("inertia")`
    for its parameters.

    `f` is written with + - * / and the functions of nlink, and returns a number or an array; it may
    call methods of a robot. `shapes` has the shape of each argument: the length of a vector, or a
    tuple, () for a number.

    >>> import nlink, numpy as np
    >>> cost = nlink.function(lambda x, u: x @ x + nlink.sin(u[0]) * x[1], 2, 1)
    >>> float(cost([1.0, 2.0], [0.0]))
    5.0
    >>> cost.gradient([1.0, 2.0], [0.0])
    (array([2., 4.]), array([2.]))
    >>> robot = nlink.load("planar3")
    >>> torque = nlink.function(robot, "gravity_torque")
    >>> torque.jacobian(np.zeros(3)).shape, torque.by("inertia")(np.zeros(3)).shape
    ((3, 3), (3, 3, 10))
    """
    if isinstance(f, Robot):
        if len(shapes) != 1:
            raise TypeError(f"name: {len(shapes)} arguments, expected one, the name of a "
                            "computation")
        return RobotFunction(f, *shapes, frame, How(**how))
    options = {"frame": frame} | how if frame != -1 else how
    if options:
        raise TypeError(f"{next(iter(options))}: given with a Python function, expected shapes "
                        "only")
    return TracedFunction(f, shapes)


class TracedFunction:
    """A traced function, and products with its derivatives: the result of `nlink.function`.

    Arguments have any leading batch shape; `engine` and `out` are as for robots.
    """

    def __init__(self, f: Callable[..., Any], shapes: Sequence[int | tuple[int, ...]]) -> None:
        if not callable(f):
            raise TypeError(f"f: {f!r:.80}, expected a function")
        given = [_shape(shape) for shape in shapes]
        if not given:
            raise ValueError("shapes: none, expected one for each argument of f")
        names = _names(f, len(given))
        self.inputs = tuple(map(Port, names, given))
        self._graph, self._functions = Graph(), dict[Any, Function]()
        self._x = [self._named(port) for port in self.inputs]
        arguments = (np.array(x, dtype=object).reshape(port.shape)[()]
                     for x, port in zip(self._x, self.inputs, strict=True))
        with explained():
            result = np.asarray(f(*arguments), dtype=object)
        self.name = getattr(f, "__name__", "function")
        for y in result.ravel():
            if not isinstance(y, Node | Real):
                raise TypeError(f"f: {self.name} gives a {type(y).__name__}, expected a number, or "
                                "numbers in one array")
        self._y = [self._graph.lift(y) for y in result.ravel()]
        self.output = Port("result", result.shape)

    def __repr__(self) -> str:
        given = ", ".join(f"{port.name} {port.shape}" for port in self.inputs)
        return f"<TracedFunction {self.name}: {given} -> {self.output.shape}>"

    def _named(self, port: Port) -> Nodes:
        return [self._graph.input(f"{port.name}[{k}]") for k in range(port.size)]

    def __call__(self, *args: Any, engine: Engine | None = None, out: Any = None) -> Any:
        return self._run("value", args, engine, out)

    def jvp(self, args: Any, tangents: Any, *, engine: Engine | None = None,
            out: Any = None) -> Any:
        """(df/dx) x'. Both are tuples, or single arrays for a function of one argument; a tangent
        of None is zero."""
        given = self._listed("args", args)
        return self._run("jvp", (*given, *self._rates(tangents, given)), engine, out)

    def vjp(self, args: Any, cotangent: Any, *, engine: Engine | None = None,
            out: Any = None) -> Any:
        """(df/dx)^T w, one array for each argument."""
        return self._run("vjp", (*self._listed("args", args), self._weights(cotangent)), engine,
                         out)

    def hvp(self, args: Any, cotangent: Any, tangents: Any, *,
            engine: Engine | None = None, out: Any = None) -> Any:
        """The rate of `vjp` along tangents, w held: second derivatives of w . f times x'."""
        given = *self._listed("args", args), self._weights(cotangent)
        return self._run("hvp", (*given, *self._rates(tangents, given)), engine, out)

    def _listed(self, what: str, given: Any) -> Sequence[Any]:
        """One array for each argument; a single array is that of a function of one argument."""
        listed = given if isinstance(given, tuple | list) else (given,)
        if len(listed) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise TypeError(f"{what}: {len(listed)} {'array' if len(listed) == 1 else 'arrays'}, "
                            f"expected {len(self.inputs)} ({names})")
        return listed

    def _rates(self, tangents: Any, given: Sequence[Any]) -> list[np.ndarray]:
        """The tangents, zeros for None, beside the arrays that come before them."""
        listed = self._listed("tangents", tangents)
        kind = common_type([*given, *(x for x in listed if x is not None)])
        return [np.zeros(port.shape, kind) if x is None else
                batch(f"tangents ({port.name})", x, port.shape, dtype=common_type([x]))
                for port, x in zip(self.inputs, listed, strict=True)]

    def _weights(self, cotangent: Any) -> np.ndarray:
        return batch("cotangent", cotangent, self.output.shape, dtype=common_type([cotangent]))

    def gradient(self, *args: Any, engine: Engine | None = None, out: Any = None) -> Any:
        """The derivative of a function that gives a number, by each argument."""
        if self.output.shape:
            raise ValueError(f"gradient: {self.name} gives an array of shape {self.output.shape}, "
                             "expected a number; `jacobian` is its derivative")
        return self._run("jacobian", args, engine, out)

    def jacobian(self, *args: Any, engine: Engine | None = None, out: Any = None) -> Any:
        """df/dx for each argument, (..., *shape of f, *shape of x)."""
        return self._run("jacobian", args, engine, out)

    def hessian(self, *args: Any, engine: Engine | None = None, out: Any = None) -> Any:
        """Second derivatives by all pairs of arguments, row by row: for x, u these are by (x, x),
        (x, u), (u, x) and (u, u)."""
        return self._run("hessian", args, engine, out)

    def _run(self, kind: str, arrays: tuple[Any, ...], engine: Engine | None, out: Any) -> Any:
        if (kind, engine) not in self._functions:
            self._functions[kind, engine] = run_program(self.program(kind), engine)
        return self._functions[kind, engine](*arrays, out=out)

    def compile(self, kind: str = "value", *, dtype: str = "float64") -> CompiledFunction:
        """The bare kernel of the function ("value") or of a product, see `robot.compile`."""
        return compiled_function(machine_code(self.program(kind), checked_type(dtype)))

    def program(self, kind: str = "value") -> Program:
        """The program of the function ("value") or of a product ("jvp", ..., "hessian")."""
        plain = Program(self.name, self.inputs, (self.output,), tuple(self._y))
        by = [port.name for port in self.inputs]
        if kind not in _KINDS:
            raise ValueError(f"kind: {kind!r}, expected {', '.join(_KINDS)}")
        found = _KINDS[kind](plain, by)
        named = tuple(Port(f"{port.name}_{k}", port.shape) for k, port in enumerate(found.outputs))
        return replace(found, name=f"{self.name}_{kind}", outputs=named)


_KINDS: dict[str, Callable[[Program, list[str]], Program]] = {
    "value": lambda program, _by: program, "jvp": jvp, "vjp": vjp,
    "hvp": lambda program, by: jvp(vjp(program, by), by), "jacobian": jacobian,
    "hessian": lambda program, by: jacobian(jacobian(program, by), by)}


def _shape(given: Any) -> tuple[int, ...]:
    sizes = (given,) if hasattr(given, "__index__") else given
    if not isinstance(sizes, Sequence) or not all(
            hasattr(size, "__index__") and size >= 0 for size in sizes):
        raise ValueError(f"shapes: {given!r:.80}, expected a number of elements, or a tuple of "
                         "them")
    return tuple(map(int, sizes))


def _names(f: Callable[..., Any], count: int) -> list[str]:
    """Names of arguments, for errors: those of the function, else numbers."""
    try:
        known = [name for name, each in inspect.signature(f).parameters.items()
                 if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        known = []
    return known if len(known) == count else [f"x{k + 1}" for k in range(count)]
