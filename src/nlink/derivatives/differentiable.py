"""Functions with their derivatives as functions of the same kind: what other frameworks are given.

A framework that differentiates wants to know three things of a function y = f(x): how it is called,
its rates, f_jvp(x, x'), and its gradients, f_vjp(x, w). Both are functions of the same kind again,
so derivatives have derivatives, to any order. `compiled` has the machine code of such a function,
and `straight` its graph.

Frameworks know plain arrays, but coordinates q of a robot may be points of a curved space, and its
products with derivatives know tangent vectors v. There f(N(q)) is differentiated, with N bringing q
into its space: for q' of a point of the space, v = R(q) q' (`Space.rates`), and a gradient by v
becomes R(q)^T times that, one by q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nlink.derivatives.differentials import RobotFunction
from nlink.derivatives.parameter_derivatives import with_parameters
from nlink.derivatives.traced_functions import TracedFunction, function
from nlink.engines.engines import LONGEST_STRAIGHT, AnyProgram, Request, machine_code
from nlink.engines.kernels import kept
from nlink.model.changes import CHANGES
from nlink.model.spaces import Space
from nlink.programs.derivatives import jvp, vjp
from nlink.programs.keys import key
from nlink.programs.program import Port, Program
from nlink.programs.tracing import input_nodes, trace_function
from nlink.robot import Robot
from nlink.scalars.differentiation import pullback
from nlink.scalars.graph import Graph
from nlink.scalars.lazy import lazy

if TYPE_CHECKING:
    from nlink.backends.llvm.kernel import Kernel


class Differentiable(ABC):
    """A function of arrays with its derivatives, see the top of this file."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    curved: Curved | None = None
    """The space of the inputs that are its points, and which these are."""

    def __repr__(self) -> str:
        return self.name

    @property
    @abstractmethod
    def program(self) -> AnyProgram:
        """What is compiled."""

    @property
    @abstractmethod
    def straight(self) -> Program:
        """The graph, however long it is."""

    @abstractmethod
    def product(self, kind: str) -> Differentiable:
        """The function "jvp" or "vjp"."""

    @lazy
    def jvp(self) -> Differentiable:
        """The rates of the outputs: a function of the inputs, and of their rates."""
        return self.product("jvp")

    @lazy
    def vjp(self) -> Differentiable:
        """The gradients by all inputs: a function of the inputs, and of weights on the outputs."""
        return self.product("vjp")

    @lazy
    def _compiled(self) -> dict[str, tuple[Kernel, str]]:
        return {}

    @property
    def digest(self) -> str:
        """What is computed, in short: it tells this function from all others, here and in other
        processes."""
        return next((digest for _, digest in self._compiled.values()), None) or key(self.program)

    def compiled(self, dtype: str = "float64") -> tuple[Kernel, str]:
        """The machine code for numbers of a type, and the digest."""
        if dtype not in self._compiled:
            program = self.program
            self._compiled[dtype] = machine_code(program, dtype), key(program)
        return self._compiled[dtype]


def as_function(f: Differentiable, call: Callable[..., list[Any]], present: Sequence[Any],
                ) -> Callable[..., Any]:
    """What a framework's user calls: `call(f, arguments, values)` with the arguments that are
    given, and of `present`, values of the last ones, those that stand for the others."""

    def function(*arguments: Any) -> Any:
        missing = len(f.inputs) - len(arguments)
        if not 0 <= missing <= len(present):
            names = ", ".join(port.name for port in f.inputs)
            raise TypeError(f"{f.name}: {len(arguments)} arguments, expected {len(f.inputs)} "
                            f"({names})")
        found = call(f, arguments, present[len(present) - missing:])
        return found[0] if len(found) == 1 else tuple(found)

    function.__name__ = function.__qualname__ = f.name
    return function


class DifferentiableProgram(Differentiable):
    """A program: its derivatives are those of its graph."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.name, self.inputs, self.outputs = program.name, program.inputs, program.outputs

    @property
    def program(self) -> Program:
        return self._program

    @property
    def straight(self) -> Program:
        return self._program

    def product(self, kind: str) -> DifferentiableProgram:
        return DifferentiableProgram((jvp if kind == "jvp" else vjp)(self._program))


class DifferentiableComputation(Differentiable):
    """What a robot computes: its derivatives are in the catalogue, too, each in the formulation of
    the fewest operations."""

    def __init__(self, robot: Robot, name: str, frame: int | str, algorithm: str | None, *,
                 wrenches: bool) -> None:
        self.name = name
        self._about = robot, frame, algorithm, wrenches
        self._request: Request = robot.request(name, algorithm=algorithm, frame=frame,
                                               wrenches=wrenches)
        self.inputs, self.outputs = self._request.ports
        space = robot.mechanism.space
        names = [port for port, shape in self._request.algorithm.inputs if shape == ("nq",)]
        if names and not space.flat:
            points = tuple(k for k, port in enumerate(self.inputs) if port.name in names)
            self.curved = Curved(kept(robot, ("space",), lambda: CurvedSpace(space)), points)

    @property
    def program(self) -> AnyProgram:
        return self._request.program(LONGEST_STRAIGHT)

    @property
    def straight(self) -> Program:
        return self._request.straight()

    def product(self, kind: str) -> DifferentiableComputation:
        robot, frame, algorithm, wrenches = self._about
        return DifferentiableComputation(robot, f"{self.name}_{kind}", frame, algorithm,
                                         wrenches=wrenches)


class CurvedSpace:
    """What is known of a space of coordinates: N, R, and R^T."""

    def __init__(self, space: Space) -> None:
        q, change, v = Port("q", (space.nq,)), Port("dq", (space.nq,)), Port("v", (space.nv,))
        self.normalize = DifferentiableProgram(trace_function(
            "normalize", (q,), (q,), space.normalize))
        self.rates = DifferentiableProgram(trace_function("rates", (q, change), (v,), space.rates))
        graph = Graph()
        at, moved, weights = input_nodes(graph, (q, change, v))
        # linear in q', so there is no q' in its gradient by q'
        rates = [graph.lift(x) for x in space.rates(at, moved)]
        self.pulled = DifferentiableProgram(Program(
            "rates_pulled", (q, v), (q,), tuple(pullback(rates, weights, moved))))
        self.displacement = _Displacement(self)


class _Displacement(Differentiable):
    """How far a point is from another, of which only the products are ever asked for."""

    def __init__(self, space: CurvedSpace) -> None:
        self.name, self._space = "displacement", space
        self.inputs, self.outputs = space.normalize.inputs, space.rates.outputs

    @property
    def program(self) -> Program:
        raise NotImplementedError

    @property
    def straight(self) -> Program:
        raise NotImplementedError

    def product(self, kind: str) -> Differentiable:
        return self._space.rates if kind == "jvp" else self._space.pulled


@dataclass(frozen=True)
class Curved:
    """A space of coordinates, and the inputs that are its points."""

    space: CurvedSpace
    points: tuple[int, ...]


def differentiable(f: Any, *shapes: Any, frame: int | str = -1, algorithm: str | None = None,
                   f_ext: bool = False, vary: str | Sequence[str] = ()) -> Differentiable:
    """A function for other frameworks: what `nlink.function` takes, or what it has given.

    `f_ext` adds the wrenches on links to the arguments, and `vary` parameters of the robot, as
    `nlink.parameter_derivatives` names them; their values, not what is added to them.

    >>> import nlink
    >>> found = differentiable(nlink.load("planar3"), "gravity_torque", vary="gravity")
    >>> [port.name for port in found.inputs], [port.name for port in found.vjp.outputs]
    (['q', 'gravity'], ['g_q', 'g_gravity'])
    """
    if not isinstance(f, RobotFunction | TracedFunction):
        f = function(f, *shapes, **({"frame": frame, "algorithm": algorithm}
                                    if isinstance(f, Robot) else {}))
    if isinstance(f, TracedFunction):
        if f_ext or vary:
            raise TypeError(f"{'f_ext' if f_ext else 'vary'}: given with a Python function, "
                            "expected shapes only")
        return DifferentiableProgram(f.program())
    robot, named = f.robot, (f.name, f.frame, f.how.get("algorithm"))
    names = (vary,) if isinstance(vary, str) else tuple(vary)
    for name in names:
        if name not in CHANGES:
            raise ValueError(f"vary: {name!r}, expected some of {', '.join(CHANGES)}")

    def make() -> Differentiable:
        if not names:
            return DifferentiableComputation(robot, *named, wrenches=f_ext)
        name, frame, algorithm = named
        request = robot.request(name, algorithm=algorithm, frame=frame, wrenches=f_ext)
        return DifferentiableProgram(with_parameters(robot, request, names, absolute=True))

    return kept(robot, ("differentiable", *named, f_ext, names), make)
