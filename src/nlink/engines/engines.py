"""Three ways to run an algorithm for a robot: as Python, over NumPy arrays, as machine code.

All three run the same text. `Request` says what is to be computed; an engine turns it into
a function of the user's arrays that behaves like a NumPy gufunc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nlink.algorithms.catalogue import Algorithm, Options
from nlink.backends.llvm.threads import MAKING
from nlink.engines.kernels import kept
from nlink.model.mechanism import Attachment, Mechanism
from nlink.programs.applying import on_scalars
from nlink.programs.calling import Flat, Run, call
from nlink.programs.program import Port, Program
from nlink.programs.rolled_columns import NotRolled
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.rolled_tracing import trace_rolled
from nlink.programs.staged import StagedProgram, trace_staged
from nlink.programs.stepped import SteppedProgram, trace_stepped
from nlink.programs.tracing import ports, run, trace
from nlink.scalars.arrays import TracedValues
from nlink.scalars.graph import TooManyNodes

if TYPE_CHECKING:
    from nlink.backends.llvm.kernel import Kernel

Engine = Literal["compiled", "numpy", "python"]
AnyProgram = Program | StagedProgram | SteppedProgram | RolledProgram

FEW_FOR_STRAIGHT = 8
"""Up to so many joints, code is straight-line, whatever it computes."""
SHORT_CODE = 6_000
"""Instructions up to which code is straight-line: rolled code would be no faster."""
LONG_CODE = 24_000
"""Instructions beyond which code is rolled if it can be: LLVM would take five seconds."""
STAGED = 60_000
"""Instructions of a program in two stages, its repeated steps once, beyond which it is not
compiled: LLVM would take ten seconds."""
LONGEST_STRAIGHT = 250_000
"""Instructions beyond which code that cannot be rolled is not compiled."""
SPARED = 0.6
"""Between SHORT_CODE and LONG_CODE, code is straight-line if it has at most this part of the
instructions of rolled code: a robot's own zeros and ones are folded, which rolled code has to
compute with."""
RARELY = 5
"""Straight-line code has rarely so many times fewer instructions than rolled code executes."""
FOLDED, MOST_STEPPED = 150_000, 4_000_000
"""Nodes up to which code of loops is traced with steps that look at each other, and at all."""
DEAD = 2.1
"""How many times the instructions that its results need a program may trace."""


def most_straight(rolled: int) -> int:
    """How long straight-line code may be where rolled code would execute so many instructions."""
    if rolled > RARELY * LONG_CODE:
        return 0
    return max(SHORT_CODE, min(LONG_CODE, int(SPARED * rolled)))


class NotCompiled(ValueError):
    """An algorithm that cannot be rolled, and whose straight-line code is too long."""


@dataclass(frozen=True, slots=True)
class Request:
    """An algorithm, for one mechanism, about some frames, with or without external wrenches."""

    algorithm: Algorithm
    mechanism: Mechanism
    frames: tuple[Attachment, ...]
    wrenches: bool
    stiffness: float = 0.0
    """The stiffness of Baumgarte's terms, for forward dynamics of mechanisms with loops."""
    closeness: float = 0.0
    """How closely states are known to be closed, as an angle, if not to rounding."""
    axes: str = "world"
    """Whose axes external wrenches are in: those of the world or of each link."""

    @property
    def ports(self) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        return ports(self.algorithm, self.mechanism, wrenches=self.wrenches,
                     frames=len(self.frames))

    @property
    def frame(self) -> Attachment:
        return self.frames[0]

    @property
    def options(self) -> Options:
        return Options(self.frames, self.mechanism.links, self.stiffness, self.closeness, self.axes)

    @property
    def rolled(self) -> bool:
        """Whether the program is rolled."""
        return self._driver == "rolled"

    @property
    def too_long(self) -> bool:
        """Whether the program cannot be rolled and is longer than what need not be."""
        return self._driver == "none"

    @property
    def _driver(self) -> Literal["rolled", "straight", "none"]:
        """The driver of the program, chosen once; none if the program cannot be rolled and is too
        long to be straight-line code."""
        if self._few:
            return "straight"
        about = (self.algorithm, self.frames, self.wrenches, self.stiffness, self.closeness,
                 self.axes)
        return kept(self.mechanism, ("driver", *about), lambda: _traced_driver(self))

    def program(self, longest: int | None = None) -> AnyProgram:
        """Trace, by the driver that suits: the count of instructions decides, see `most_straight`.

        What cannot be rolled is in two stages, if it repeats steps, or straight-line; NotCompiled
        is raised for more than `longest`, if given.
        """
        if self.algorithm.cycles:
            return self._straight(SHORT_CODE) or self._in_steps(longest)
        if self._few:
            return trace(self.algorithm, self.mechanism, self.options, wrenches=self.wrenches)
        try:
            rolled = trace_rolled(self.algorithm, self.mechanism, self.options,
                                  wrenches=self.wrenches)
        except NotRolled as reason:
            straight = self._unrolled(longest)
            if straight is None:
                raise NotCompiled(
                    f"engine: 'compiled', but {self.algorithm.name} ({self.algorithm.formulation}) "
                    f"of {len(self.mechanism.joints)} joints cannot be: it {reason}, and takes "
                    f"more than the {longest} instructions that are compiled without being "
                    "rolled; expected 'numpy' or 'python'") from None
            return straight
        from nlink.backends.llvm.layout import plan

        most = most_straight(plan(rolled, fma=False).operations)
        return (self._straight(most) if most else None) or rolled

    @property
    def _few(self) -> bool:
        return not self.algorithm.cycles and len(self.mechanism.joints) <= FEW_FOR_STRAIGHT

    def _in_steps(self, longest: int | None) -> SteppedProgram:
        """The program in steps that are alike; of large ones the shorter of two: with steps that
        look at each other, or apart."""
        def traced(*, apart: bool) -> SteppedProgram | None:
            try:
                return trace_stepped(self.algorithm, self.mechanism, self.options,
                                     wrenches=self.wrenches, apart=apart,
                                     most=MOST_STEPPED if apart else FOLDED)
            except TooManyNodes:
                return None

        program = traced(apart=False)
        if program is None or program.length() > LONG_CODE:
            program = min((each for each in (program, traced(apart=True)) if each is not None),
                          key=SteppedProgram.length, default=None)
        if program is None or (longest is not None and program.length() > longest):
            raise NotCompiled(
                f"{self.algorithm.name}: the loops of {len(self.mechanism.joints)} joints take "
                f"more than the {longest or MOST_STEPPED} instructions that are compiled; "
                "expected fewer loops side by side")
        return program

    def straight(self) -> Program:
        """The straight-line program, however long it is."""
        return trace(self.algorithm, self.mechanism, self.options, wrenches=self.wrenches)

    def _straight(self, most: int | None) -> Program | None:
        """The straight-line program, None if it has more than so many instructions."""
        try:
            program = trace(self.algorithm, self.mechanism, self.options, wrenches=self.wrenches,
                            most=None if most is None else int(DEAD * most))
        except TooManyNodes:
            return None
        return program if most is None or len(program.live()) <= most else None

    def _unrolled(self, longest: int | None) -> Program | StagedProgram | None:
        """The straight-line program if it is short, else that in two stages if it repeats steps,
        else the straight-line one if it has at most `longest` instructions."""
        try:
            program = trace_staged(self.algorithm, self.mechanism, self.options,
                                   wrenches=self.wrenches, most=int(DEAD * STAGED))
        except TooManyNodes:
            return None if longest is not None and longest <= LONG_CODE else self._straight(longest)
        if isinstance(program, Program):
            return program if longest is None or len(program.live()) <= longest else None
        short = LONG_CODE if longest is None else min(LONG_CODE, longest)
        # with so many operations, not even one without zeros is short: tracing it is spared
        straight = None if program.operations() > DEAD * short else self._straight(short)
        if straight is not None or program.length() <= STAGED:
            return straight or program
        return None if short == longest else self._straight(longest)


_TRACED: list[tuple[Request, AnyProgram]] = []
"""The program that `_traced_driver` has traced last, until its kernel is made."""


def _traced_driver(request: Request) -> Literal["rolled", "straight", "none"]:
    try:
        program = request.program(LONG_CODE)
    except NotCompiled:
        return "none"
    _TRACED[:] = [(request, program)]
    return "rolled" if isinstance(program, RolledProgram) else "straight"


Function = Callable[..., Any]
"""function(*arrays, out=None), see `programs.calling.call`."""


def _gufunc(request: Request, run: Run) -> Function:
    inputs, outputs = request.ports
    return lambda *arrays, out=None: call(inputs, outputs, arrays, out, run)


def python_engine(request: Request) -> Function:
    """The text itself, state by state, on Python floats: the reference."""
    algorithm, mechanism = request.algorithm, request.algorithm.prepare(request.mechanism)

    def compute(inputs: Flat, outputs: Flat, count: int) -> None:
        for i in range(count):
            try:
                flat = run(algorithm, mechanism, request.options, [x[i].tolist() for x in inputs])
            except ZeroDivisionError:  # a zero pivot; the other engines say inf or nan
                flat = [np.nan] * sum(out.shape[1] for out in outputs)
            at = 0
            for out in outputs:
                out[i] = flat[at:at + out.shape[1]]
                at += out.shape[1]

    return _gufunc(request, compute)


def numpy_engine(request: Request) -> Function:
    """The traced graph, each node an array over the batch."""
    return _gufunc(request, _over_arrays(request.program()))


def _over_arrays(program: AnyProgram) -> Run:
    def compute(inputs: Flat, outputs: Flat, count: int) -> None:
        columns = [list(np.ascontiguousarray(x.T)) for x in inputs]
        with np.errstate(all="ignore"):
            for out, values in zip(outputs, program(*columns), strict=True):
                for k, value in enumerate(values):
                    out[:, k] = value

    return compute


def _over_floats(program: Program) -> Run:
    def compute(inputs: Flat, outputs: Flat, count: int) -> None:
        for i in range(count):
            for out, values in zip(outputs, program(*(x[i].tolist() for x in inputs)),
                                   strict=True):
                out[i] = values

    return compute


def checked_type(dtype: str) -> str:
    """The name of a type that can be computed with, or one sentence."""
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype: {dtype!r}, expected 'float64' or 'float32'")
    return dtype


def machine_code(program: AnyProgram, dtype: str = "float64") -> Kernel:
    """The kernel of a program, from the cache or compiled now."""
    with MAKING:
        from nlink.backends.llvm.loading import load_kernel

        return load_kernel(program, dtype)


def run_program(program: Program, engine: Engine | None = None) -> Function:
    """A program of one's own by an engine; compiled if none is named."""
    if engine in (None, "compiled"):
        found = machine_code(program)
        found.make_single = lambda: machine_code(program, "float32")
        return found
    if engine not in ENGINES:
        raise ValueError(f"engine: {engine!r}, expected one of {', '.join(ENGINES)}")
    run = (_over_arrays if engine == "numpy" else _over_floats)(program)
    return lambda *arrays, out=None: call(program.inputs, program.outputs, arrays, out, run)


def kernel(request: Request, dtype: str = "float64") -> Kernel:
    """Machine code that computes with numbers of a type, from the kernel cache or compiled now.

    That for float64 also takes arrays of float32, for which code of their own is then made.
    """
    with MAKING:
        from nlink.backends.llvm.loading import load_kernel

        # what was traced to choose the driver is not traced again: it is no longer than
        # LONG_CODE, or in stages
        traced = dict(_TRACED).get(request)
        _TRACED.clear()
        found = load_kernel(traced or request.program(LONGEST_STRAIGHT), dtype)
        if dtype == "float64" and found.make_single is None:
            # of robots that share a kernel, the first one stays as long as it: no other must
            found.make_single = lambda: kernel(request, "float32")
        return found


ENGINES: dict[str, Callable[[Request], Function]] = {
    "compiled": kernel, "numpy": numpy_engine, "python": python_engine}


def default_engine(request: Request) -> Function:
    """The kernel, or the NumPy engine where there can be none."""
    try:
        return kernel(request)
    except NotCompiled:
        return numpy_engine(request)


def prepare(request: Request, engine: str | None,
            stand_in: Callable[[], Request] | None = None) -> Function:
    """The function that answers a request by an engine.

    Where a result is not finite, the stand-in's is taken: for a request of one output, a vector.
    """
    make = default_engine if engine is None else ENGINES[engine]
    first = make(request)
    if stand_in is None:
        return first
    inputs, outputs = request.ports
    shapes = [port.shape for port in inputs]
    second = cache(lambda: make(stand_in()))

    def copy(inputs: Flat, outputs: Flat, _count: int) -> None:
        outputs[0][...] = inputs[0]

    def function(*arrays: Any, out: Any = None) -> Any:
        result = first(*arrays)
        bad = ~np.isfinite(result).all(axis=-1)
        if bad.any():
            lead = result.shape[:-1]
            result[bad] = second()(*(np.broadcast_to(x, (*lead, *shape))[bad]
                                     for x, shape in zip(arrays, shapes, strict=True)))
        # `out` may be one of the arrays, which both have read by now
        return result if out is None else call(outputs, outputs, [result], out, copy)

    return function


def out_last(function: Function) -> Function:
    """The same with `out` the last of the arguments; of a kernel, its native code."""
    native = getattr(function, "plain", None)
    return native or (lambda *arguments: function(*arguments[:-1], out=arguments[-1]))


def columnwise(method: Callable[..., Sequence[Any]], *, width: int,
               **arguments: tuple[Any, int]) -> np.ndarray:
    """A method of scalars on arrays of any leading shape: (array, size) by the argument's name.

    The method takes one sequence of `size` columns for each argument and gives `width`. On traced
    values it is called as it is.
    """
    ports = [Port(name, (size,)) for name, (_, size) in arguments.items()]

    def compute(inputs: Flat, outputs: Flat, _count: int) -> None:
        for k, column in enumerate(method(*(tuple(x.T) for x in inputs))):
            outputs[0][:, k] = column

    given, results = [x for x, _ in arguments.values()], [Port("result", (width,))]
    try:
        return call(ports, results, given, None, compute)
    except TracedValues:
        return on_scalars(ports, results, given, method)
