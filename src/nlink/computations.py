"""What a mechanism computes, by name: which formulation, which engine, which kernel."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

from numpy.typing import ArrayLike

from nlink.algorithms.catalogue import ALGORITHMS, find, operational_about
from nlink.algorithms.object_form import held_object
from nlink.algorithms.trace import trace
from nlink.compiler.threads import MAKING
from nlink.engines import ENGINES, Engine, Function, Request, first_or, kernel
from nlink.model.canonical import attach, canonical
from nlink.model.description import Description
from nlink.model.mechanism import Attachment, Mechanism
from nlink.scalars.counting import count_program

FEW_JOINTS = 12
"""Up to here the default formulation is chosen by counting; beyond, O(n) always wins."""


class How(TypedDict, total=False):
    """Options of every computation: a named formulation, an engine, an array for the result."""

    algorithm: str | None
    engine: Engine
    out: Any


class Computations:
    """A mechanism and everything in the catalogue, made once for it and kept."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self._mechanism = canonical(description)
        self._functions: dict[tuple[Any, ...], Function] = {}
        self._defaults: dict[str, str] = {}

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def frames(self) -> tuple[str, ...]:
        """Names that `frame=` accepts: base ("world" where a link has that name), links, named
        frames."""
        d = self.description
        return (d.base, *(link.name for link in d.links), *(frame.name for frame in d.frames))

    @property
    def mechanism(self) -> Mechanism:
        """The moving bodies in frames that lie on their joints: what algorithms see."""
        return self._mechanism

    def compute(self, name: str, *arrays: ArrayLike, frame: int | str = -1,
                f_ext: ArrayLike | None = None, **how: Unpack[How]) -> Any:
        """Anything in the catalogue by its name, such as "quasi_velocities" (see `nlink count`)."""
        return self._compute(name, *arrays, frame=frame, f_ext=f_ext, how=how)

    def compile(self, name: str, *, algorithm: str | None = None, frame: int | str = -1,
                f_ext: bool = False) -> Callable[..., Any]:
        """The bare kernel of an algorithm, at the lowest cost of a call.

        `fn(q, qd, qdd, out)` takes contiguous float64 arrays of exactly these shapes, or
        arrays with one leading dimension; outputs are written in place.

        >>> import nlink, numpy as np
        >>> robot = nlink.load("planar3")
        >>> fn = robot.compile("gravity_torque")
        >>> out = np.empty(3)
        >>> _ = fn(np.zeros(3), out)
        >>> out
        array([44.145, 19.62 ,  4.905])
        """
        return kernel(self.request(name, algorithm=algorithm, frame=frame, wrenches=f_ext)).bare

    def request(self, name: str, *, algorithm: str | None = None, frame: int | str = -1,
                wrenches: bool = False) -> Request:
        """What engines, counters and printers need to know about a computation."""
        entry = find(name, algorithm, loops=bool(self._mechanism.closures))
        if algorithm == "object" and held_object(self._mechanism) is None:
            raise ValueError(f"algorithm: 'object', but no free body of {self.name} is held by "
                             "all its loops, each from an arm of its own; expected 'contact'")
        if algorithm is None and entry.contends and len(self._mechanism.joints) <= FEW_JOINTS:
            rivals = [each.formulation for each in ALGORITHMS[name].values() if each.contends]
            entry = find(name, self._cheapest(name, rivals))
        if wrenches and "f_ext" not in dict(entry.inputs):
            raise ValueError(f"{name} has no argument f_ext")
        return Request(entry, self._mechanism, self._attachment(frame), wrenches)

    def _cheapest(self, name: str, rivals: Sequence[str]) -> str:
        """Of some formulations the one with the fewest operations for this robot."""

        def operations(formulation: str) -> int:
            request = self.request(name, algorithm=formulation)
            program = trace(request.algorithm, request.mechanism, request.options)
            return count_program(program).total

        if name not in self._defaults:
            self._defaults[name] = min(rivals, key=operations)
        return self._defaults[name]

    def _attachment(self, frame: int | str) -> Attachment:
        links = self._mechanism.links
        if isinstance(frame, str):
            if frame not in self.frames:
                raise ValueError(f"frame: {frame!r}, expected one of {', '.join(self.frames)}")
            number = self.frames.index(frame)
            if number < len(links):
                return links[number]
            named = self.description.frames[number - len(links)]
            return attach(self._mechanism, named.link, named.pose)
        try:
            return links[frame]
        except (IndexError, TypeError):
            raise ValueError(f"frame: {frame!r}, expected a name or an index from "
                             f"{-len(links)} to {len(links) - 1}") from None

    def _compute(self, name: str, *arrays: ArrayLike, f_ext: ArrayLike | None = None,
                 frame: int | str = -1, how: How) -> Any:
        def ask(algorithm: str | None) -> Request:
            if algorithm is None and name == "forward_dynamics" and (
                    held_object(self._mechanism) is not None):
                # the object form is nan in singular states: `_engine` has the other for them
                algorithm = self._cheapest(name, ("contact", "object"))
            return self.request(name, algorithm=algorithm, frame=frame,
                                wrenches=f_ext is not None)

        function, out = self._function(name, (frame, f_ext is not None), ask, how)
        return function(*arrays, out=out) if f_ext is None else function(*arrays, f_ext, out=out)

    def _about_frames(self, name: str, q: ArrayLike, frames: tuple[int | str, ...],
                      how: How) -> Any:
        def ask(algorithm: str | None) -> Request:
            if algorithm is not None:
                raise ValueError(f"algorithm: {algorithm!r}, but {name} of several frames has one")
            if not frames:
                raise ValueError("frames: (), expected at least one name or index")
            places = tuple(self._attachment(frame) for frame in frames)
            return Request(operational_about(name, places), self._mechanism, places[0], False)

        function, out = self._function(name, frames, ask, how)
        return function(q, out=out)

    def _function(self, name: str, about: Hashable, ask: Callable[[str | None], Request],
                  how: How) -> tuple[Function, Any]:
        """The function that answers a request, made once, and where its answer goes."""
        key = (name, about, how.get("algorithm"), how.get("engine", "compiled"))
        try:
            known = self._functions.get(key)
        except TypeError:
            raise TypeError(f"{name}: frame, algorithm and engine are names or numbers, "
                            f"not {key[1:]}") from None
        if known is None or how.keys() - How.__annotations__.keys():
            for option in how:
                if option not in How.__annotations__:
                    raise TypeError(f"{name}: unknown option {option!r}, "
                                    f"expected some of {', '.join(How.__annotations__)}")
            engine = how.get("engine", "compiled")
            if engine not in ENGINES:
                raise ValueError(f"engine: {engine!r}, expected one of {', '.join(ENGINES)}")
            with MAKING:  # who asks while it is made gets the same
                known = self._functions.get(key)
                if known is None:
                    known = self._engine(ENGINES[engine], ask(how.get("algorithm")))
                    self._functions[key] = known
        return known, how.get("out")

    def _engine(self, engine: Callable[[Request], Function], request: Request) -> Function:
        """An engine's function; where a formulation fails, its stand-in answers."""
        first, other = engine(request), request.algorithm.otherwise
        if not other:
            return first
        entry = find(request.algorithm.name, other, loops=request.algorithm.loops)
        return first_or(request, first, lambda: engine(replace(request, algorithm=entry)))
