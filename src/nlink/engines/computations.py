"""What a mechanism computes, by name: request, formulation, engine, call.

A call goes through this file from top to bottom. The first of its kind makes a `Request`: the
algorithm of the catalogue, chosen by name, by counting or by the robot's length, and what it is
about. An engine turns the request into a function, which is kept; later calls only call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from nlink.algorithms.catalogue import INVERTING, Algorithm, rivals
from nlink.algorithms.closed_chains import unresisted
from nlink.backends.llvm.signature import CompiledFunction, compiled_function
from nlink.backends.llvm.threads import MAKING
from nlink.engines.composed import forward_derivatives
from nlink.engines.engines import (
    ENGINES,
    Engine,
    Function,
    Request,
    checked_type,
    kernel,
    out_last,
    prepare,
)
from nlink.engines.kernels import kept
from nlink.model.canonical import attach, canonical
from nlink.model.description import Description
from nlink.model.mechanism import Attachment, Mechanism
from nlink.model.names import did_you_mean
from nlink.programs.applying import compute_scalars
from nlink.programs.products import differentiated, find, formulations, split_name
from nlink.programs.tracing import trace
from nlink.scalars.arrays import TracedValues, foreign
from nlink.scalars.counting import count_program


class How(TypedDict, total=False):
    """Options of every computation beside `out`: a named formulation, an engine."""

    algorithm: str | None
    engine: Engine | None


class SingularMassMatrix(ValueError):
    """M^-1 is needed, and a joint of the mechanism moves no mass."""


class Computations:
    """A mechanism and everything in the catalogue, made once for it and kept."""

    def __init__(self, description: Description) -> None:
        if not isinstance(description, Description):
            raise TypeError(f"description: {description!r:.60}, expected an nlink.Description; "
                            "nlink.load(path) reads a file, or a bundled robot by its name")
        self.description = description
        self._mechanism = canonical(description)
        self._functions: dict[Any, Function] = {}
        self._fewest: dict[tuple[str, ...], Algorithm] = {}

    @property
    def name(self) -> str:
        """The name of the robot, as its file gives it."""
        return self.description.name

    @property
    def frames(self) -> tuple[str, ...]:
        """Names that `frame=` accepts: base ("world" where a link has that name), links, named
        frames."""
        d = self.description
        return (d.base, *(link.name for link in d.links), *(frame.name for frame in d.frames))

    @property
    def mechanism(self) -> Mechanism:
        """The moving bodies, in frames that lie on their joints: the input of all algorithms."""
        return self._mechanism

    def compute(self, name: str, *arrays: ArrayLike, frame: int | str = -1,
                f_ext: ArrayLike | None = None, out: Any = None, **how: Unpack[How]) -> Any:
        """Any computation of the catalogue by its name, such as "quasi_velocities".

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> nu = robot.compute("quasi_velocities", [0.3, 0.2], [1.0, 0.0])
        >>> bool(abs(nu @ nu / 2 - robot.kinetic_energy([0.3, 0.2], [1.0, 0.0])) < 1e-12)
        True
        """
        return self._compute(name, (*arrays, out), how, f_ext, frame)

    def compile(self, name: str, *, algorithm: str | None = None, frame: int | str = -1,
                f_ext: bool = False, dtype: str = "float64") -> CompiledFunction:
        """The bare kernel of an algorithm, at the lowest cost of a call.

        `fn(q, qd, qdd, out)` takes contiguous arrays of the dtype, "float64" or "float32", of
        exactly these shapes, or with one leading dimension; outputs are written in place.
        `fn.address` is the address of the machine code, and `fn.signature` says how to call it
        without Python.

        >>> import nlink, numpy as np
        >>> robot = nlink.load("planar3")
        >>> fn = robot.compile("gravity_torque")
        >>> out = np.empty(3)
        >>> _ = fn(np.zeros(3), out)
        >>> out
        array([44.145, 19.62 ,  4.905])
        """
        return compiled_function(kernel(self.request(
            name, algorithm=algorithm, frame=frame, wrenches=f_ext), checked_type(dtype)))

    def _compute(self, name: str, arguments: tuple[Any, ...], how: How,
                 f_ext: ArrayLike | None = None,
                 frame: int | str | tuple[int | str, ...] = -1) -> Any:
        """Call the function of a name and its options with the arrays and, last, `out`."""
        if f_ext is None and frame == -1 and not how and (known := self._functions.get(name)):
            try:
                return known(*arguments)
            except TracedValues:
                return self._on_scalars(name, arguments, how)
        if f_ext is not None:
            if (split_name(name) or ("", "derivatives"))[1] != "derivatives":
                raise ValueError(f"f_ext: {name} takes its tangents too: give both to nlink.jvp, "
                                 "vjp or hvp")
            arguments = (*arguments[:-1], f_ext, arguments[-1])
        return self.call_ports(name, arguments, how, f_ext is not None, frame)

    def call_ports(self, name: str, arguments: tuple[Any, ...], how: How, wrenches: bool,
              frame: int | str | tuple[int | str, ...]) -> Any:
        """Run a computation by its name; the arrays are in the order of its ports, `out` last.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.call_ports("gravity_torque", ([0.0, 0.0], None), {}, False, -1).shape
        (2,)
        """
        key: Any = name
        if how or frame != -1 or wrenches:
            key = (name, frame, wrenches, *how.items())
        try:
            function = self._functions[key]
        except KeyError:
            function = None
        except TypeError:
            _expect_options(name, how)
            raise TypeError(f"{name}: frame, algorithm and engine are names or numbers, not "
                            f"{(frame, how.get('algorithm'), how.get('engine'))}") from None
        if function is None:
            if any(_has_traced(x) for x in arguments[:-1]):  # nothing need be compiled
                return self._on_scalars(name, arguments, how, wrenches, frame)
            function = self._make(key, name, frame, wrenches, how)
        try:
            return function(*arguments)
        except TracedValues:
            return self._on_scalars(name, arguments, how, wrenches, frame)

    def _on_scalars(self, name: str, arguments: tuple[Any, ...], how: How, wrenches: bool = False,
                    frame: int | str | tuple[int | str, ...] = -1) -> Any:
        """A computation on traced values, or on other scalars that are no numbers."""
        _expect_options(name, how)
        request = self._request(self._formulation(name, how.get("algorithm")), frame, wrenches)
        return compute_scalars(request, arguments[:-1], arguments[-1])

    def _make(self, key: Any, name: str, frame: int | str | tuple[int | str, ...],
              wrenches: bool, how: How) -> Function:
        """The function of a key, made once."""
        with MAKING:  # who asks while it is made gets the same
            if key not in self._functions:
                self._functions[key] = out_last(self._function(name, frame, wrenches, how))
            return self._functions[key]

    def _function(self, name: str, frame: int | str | tuple[int | str, ...], wrenches: bool,
                  how: How) -> Function:
        """The function that answers calls of one kind."""
        _expect_options(name, how)
        engine = how.get("engine")
        if engine is not None and engine not in ENGINES:
            raise ValueError(f"engine: {engine!r}, expected one of {', '.join(ENGINES)}")
        entry = self._formulation(name, how.get("algorithm"), stand_ins=True)
        request = self._request(entry, frame, wrenches)
        if engine is None and entry.in_parts and request.too_long:
            return forward_derivatives(request, lambda part: self._function(
                part, frame, wrenches and part != "inverse_mass_matrix", {}))
        if not entry.stand_in:
            return prepare(request, engine)
        other = find(name, entry.stand_in, loops=True)
        return prepare(request, engine, lambda: self._request(other, frame, wrenches))

    def request(self, name: str, *, algorithm: str | None = None, frame: int | str = -1,
                wrenches: bool = False) -> Request:
        """The description of a computation that engines, counters and printers read.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> type(robot.request("mass_matrix")).__name__
        'Request'
        """
        return self._request(self._formulation(name, algorithm), frame, wrenches)

    def _request(self, entry: Algorithm, frame: int | str | tuple[int | str, ...],
                 wrenches: bool) -> Request:
        massless = (self.description.massless_joints
                    if differentiated(entry.name) in INVERTING else ())
        if massless:
            raise SingularMassMatrix(
                f"{entry.name}: joint {massless[0]!r} moves no mass, so no acceleration follows "
                "from a force on it; expected a mass or a rotor there (with_payload, "
                "with_armature), or the joint locked (lock)")
        if differentiated(entry.name) in INVERTING:
            self._expect_inertia(entry.name)
        if wrenches and "f_ext" not in dict(entry.inputs):
            raise ValueError(f"{entry.name} has no argument f_ext")
        frames = frame if isinstance(frame, tuple) else (frame,)
        if not frames:
            raise ValueError("frames: (), expected at least one name or index")
        if len(frames) > 1 and not entry.several_frames:
            raise ValueError(f"frame: {frame!r}, expected one name or index for {entry.name}")
        return Request(entry, self._mechanism, tuple(map(self._attachment, frames)), wrenches)

    def _expect_inertia(self, name: str) -> None:
        """Refuse mechanisms with loops in which bodies without mass leave a rate without inertia,
        in the order in which they are eliminated."""
        mechanism, joints = self._mechanism, len(self._mechanism.joints)
        if all(child for child, _ in mechanism.carries[:joints]):
            return
        home = self.description.home or mechanism.space.neutral
        edge = kept(mechanism, ("rate without inertia",), lambda: unresisted(mechanism, home))
        if edge is not None:
            moving = [joint.name for joint in self.description.joints if joint.type.nv]
            names = [*moving, *(loop.name for loop in self.description.loops)]
            raise SingularMassMatrix(
                f"{name}: {names[edge]!r} carries bodies without mass that move as they like, so "
                "no acceleration follows from a force on it; expected a mass there (with_payload)")

    def _formulation(self, name: str, algorithm: str | None, *,
                     stand_ins: bool = False) -> Algorithm:
        """The named formulation, or for this robot the best one.

        `stand_ins` admits formulations that need another one for some states.
        """
        loops, joints = self._mechanism.closed, len(self._mechanism.joints)
        if algorithm is not None:
            entry = find(name, algorithm, loops=loops)
            refusal = entry.refuses(self._mechanism)
            if refusal:
                raise ValueError(f"algorithm: {algorithm!r}, but {refusal}")
            return entry
        known = formulations(name, loops=loops)

        def too_long(entry: Algorithm) -> bool:
            return self._request(entry, -1, wrenches=False).too_long

        able = [entry for entry in rivals(known, joints, too_long)
                if (stand_ins or not entry.stand_in) and not entry.refuses(self._mechanism)]
        return able[0] if len(able) == 1 else self._with_fewest_operations(able)

    def _with_fewest_operations(self, entries: Sequence[Algorithm]) -> Algorithm:
        """The formulation that is cheapest for this robot."""
        key = tuple(f"{entry.name} {entry.formulation}" for entry in entries)

        def operations(entry: Algorithm) -> int:
            request = self._request(entry, -1, wrenches=False)
            return count_program(trace(request.algorithm, request.mechanism,
                                       request.options)).total

        if key not in self._fewest:
            self._fewest[key] = min(entries, key=operations)
        return self._fewest[key]

    def _attachment(self, frame: int | str) -> Attachment:
        links = self._mechanism.links
        if isinstance(frame, str):
            if frame not in self.frames:
                raise ValueError(f"frame: {frame!r}, expected one of {', '.join(self.frames)}"
                                 f"{did_you_mean(frame, self.frames)}")
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


def _has_traced(given: Any) -> bool:
    """Whether an argument holds scalars that are no numbers."""
    try:
        return foreign(np.asarray(given))
    except ValueError:  # not rectangular, which the call itself refuses
        return False


def _expect_options(name: str, how: How) -> None:
    for option in how:
        if option not in How.__annotations__:
            raise TypeError(f"{name}: unknown option {option!r}, "
                            f"expected some of {', '.join(How.__annotations__)}, out") from None
