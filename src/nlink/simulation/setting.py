"""The options of a simulation as values.

`simulate`, `Stepper`, `linearize`, `adjoint` and `sweep` take the same options: as keywords, or as
a `Physics`, a `Solver` and a `Saving` that can be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from nlink.iterations.integration import Method
from nlink.iterations.methods import METHODS
from nlink.model.names import did_you_mean
from nlink.scalars.misuse import instead_of, refuse_unknown
from nlink.simulation.closing import Closing
from nlink.simulation.control_scheme import Controller
from nlink.simulation.scipy_methods import SCIPY
from nlink.simulation.wrappers import Saturated

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
OUTPUTS = 10**8
"""The most output times of a run."""
LARGEST = 10**18
"""The most steps, or threads, that can be asked for: what a record has room for."""


Kind = TypeVar("Kind", bound=type)


def spelled(kind: Kind) -> Kind:
    """A class that answers misspelt arguments with the right ones."""
    kind.__init__ = instead_of()(kind.__init__)
    return kind


@spelled
@dataclass(frozen=True)
class Physics:
    """Options of `nlink.simulate` for friction, limits, loops and contact, under the same names.

    >>> import nlink
    >>> rough = nlink.Physics(friction="smooth", limits="bounce", restitution=0.5)
    >>> nlink.simulate(nlink.load("double_pendulum"), t=0.1, physics=rough).status
    'done'
    """

    algorithm: str | None = None
    velocity: str = "qd"
    limits: str = "ignore"
    restitution: float | None = None
    friction: str = "dry"
    width: float = 1e-3
    effort: str = "ignore"
    closing: Closing = "project"
    contact: str = "rigid"

    @property
    def impact(self) -> float:
        """The share of a rate that is left after an impact on a limit, checked."""
        restitution = self.restitution
        if restitution is None:
            restitution = 0.0 if self.limits == "hold" else 1.0
        if not 0 <= restitution <= 1:
            raise ValueError(f"restitution: {restitution}, expected a number from 0 to 1")
        return float(restitution)

    def limited(self, robot: Robot, tau: ArrayLike | Controller | None,
                ) -> ArrayLike | Controller | None:
        """Joint forces as `effort` wants them."""
        if self.effort not in ("ignore", "saturate"):
            raise ValueError(f"effort: {self.effort!r}, expected 'ignore' or 'saturate'")
        if self.effort == "ignore" or tau is None:
            return tau
        most = robot.limits.effort
        if not np.isfinite(most).any():
            raise ValueError(f"effort: 'saturate', but {robot.name} has no effort limits, expected "
                             "'ignore', or nlink.simulation.Saturated with limits of your own")
        return Saturated(tau, most) if callable(tau) else np.clip(
            np.asarray(tau, dtype=float), -most, most)


ALIASES = {"rk45": "dopri5", "dopri853": "dop853", "ode45": "dopri5", "bdf": "radau",
           "euler": "semi_implicit", "rosenbrock": "rodas5p", "verlet": "symplectic"}
"""Names that other libraries have for methods."""


@spelled
@dataclass(frozen=True)
class Solver:
    """A method of integration and its tolerances: options of `nlink.simulate`.

    >>> import nlink
    >>> fine = nlink.Solver("dop853", rtol=1e-12)
    >>> nlink.simulate(nlink.load("double_pendulum"), t=0.1, solver=fine).method
    'dop853'
    """

    method: str | Method = "rkf45"
    rtol: float = 1e-9
    atol: float = 1e-12
    step: float | None = None
    max_step: float | None = None
    max_steps: int = 10_000_000

    @property
    def integrator(self) -> Method:
        """The method, by its name or as it is given."""
        known, method = METHODS | SCIPY, self.method
        if not isinstance(method, str):
            if not hasattr(method, "attempt"):
                raise TypeError(f"method: a {type(method).__name__}, expected a name or a method "
                                "of integration, see docs/adding-an-integrator.md")
            return method
        if method not in known:
            ours = ALIASES.get(method.lower()) or next(
                (name for name in known if name == method.lower()), None)
            hint = f"; {method} is {ours!r} here" if ours else did_you_mean(method, known)
            raise ValueError(f"method: {method!r}, expected one of {', '.join(known)}{hint}")
        return known[method]

    def first_step(self, every: float) -> float:
        """The size of the steps, or of the first; 0 if the method is to find it."""
        step, method = self.step, self.integrator
        if step is not None and not (np.isfinite(step) and step > 0):
            raise ValueError(f"step: {step}, expected a positive number of seconds")
        if step is None and "python" not in method.needs and not method.adaptive:
            step = _interval(every)
        return 0.0 if step is None else float(step)

    def bounds(self, longest: float) -> dict[str, Any]:
        """What an iteration is given, checked; times are at most `longest`."""
        rtol, atol, most = self.rtol, self.atol, self.max_step
        if not (rtol >= 0 and atol >= 0 and 0 < rtol + atol < np.inf):
            raise ValueError(f"rtol: {rtol} and atol: {atol}, expected finite numbers >= 0, not "
                             "both 0")
        if most is not None and not most > 0:
            raise ValueError(f"max_step: {most}, expected a positive number of seconds")
        return {"rtol": float(rtol), "atol": float(atol),
                "most": whole_number("max_steps", self.max_steps),
                "largest": np.inf if most is None else float(most),
                "least": 16 * np.finfo(float).eps * longest}


@spelled
@dataclass(frozen=True)
class Saving:
    """When states are recorded, and where they are kept: options of `nlink.simulate`.

    >>> import nlink
    >>> seldom = nlink.Saving(t=1.0, every=0.5)
    >>> nlink.simulate(nlink.load("double_pendulum"), saving=seldom).t
    array([0. , 0.5, 1. ])
    """

    t: float | ArrayLike = 10.0
    every: float = 0.01
    save: str | Path | None = None


Setting = TypeVar("Setting", Physics, Solver, Saving)


VALUES = {"physics": Physics, "solver": Solver, "saving": Saving}
PHYSICS, SOLVER, SAVING = Physics(), Solver(), Saving()
"""What is taken if nothing is given."""
OF_SYSTEM = ("tau", "f_ext", "vary", "events", "traced", "physics",
             *(each.name for each in fields(Physics)))
"""What a System has of its own."""


def setting(given: Setting | None, default: Setting, **keywords: Any) -> Setting:
    """A value of settings, or the one that keywords make."""
    kind = type(default)
    if given is None:
        try:
            return cast("Setting", _known(kind, default, tuple(keywords), *keywords.values()))
        except TypeError:  # a list of times, an array
            return kind(**(vars(default) | keywords))
    if not isinstance(given, kind):
        raise TypeError(f"{kind.__name__.lower()}: a {type(given).__name__}, expected a "
                        f"nlink.{kind.__name__}")
    return given


@lru_cache(256, typed=True)
def _known(kind: Any, default: Any, names: tuple[str, ...], *values: Any) -> Any:
    return kind(**(vars(default) | dict(zip(names, values, strict=True))))


Function = TypeVar("Function", bound=Callable[..., Any])


def door(*own: str, **names: str) -> Callable[[Function], Function]:
    """Around a function that takes a robot, or a System, and options: what is said of arguments
    that are misspelt, or that other libraries have (`names`), or that are typed beside a value or
    a System that has them. `own` are arguments of the function itself, although they are called
    as such options are."""
    def around(function: Function) -> Function:
        known = [each for each in signature(function).parameters if each != "self"]
        spelled = frozenset(known)
        first = len(signature(function).parameters) - len(known)
        values = {value: [each.name for each in fields(kind) if each.name not in own]
                  for value, kind in VALUES.items()}

        def expect_once(typed: dict[str, Any], *, has_own: bool) -> None:
            for value, kind in VALUES.items():
                twice = [name for name in values[value] if name in typed]
                if typed.get(value) is not None and twice:
                    name, kind_name = twice[0], kind.__name__
                    raise ValueError(
                        f"{name}: {typed[name]!r} beside {value}, expected it in the {kind_name}: "
                        f"{value}=nlink.{kind_name}({name}={typed[name]!r}, ...)")
            for name in OF_SYSTEM if has_own else ():
                if name not in own and typed.get(name) is not None:
                    raise ValueError(f"{name}: given beside a System, which has its own, "
                                     f"expected it in nlink.System(robot, {name}=...)")

        @wraps(function)
        def called(*arguments: Any, **options: Any) -> Any:
            if not (options.keys() <= spelled or "options" in spelled):
                refuse_unknown(function, known, options, names)
            robot = arguments[first] if len(arguments) > first else options.get("robot")
            has_own = hasattr(type(robot), "physics")
            if has_own or not options.keys().isdisjoint(VALUES):
                expect_once(dict(zip(known, arguments[first:], strict=False)) | options,
                            has_own=has_own)
            return function(*arguments, **options)

        return cast("Function", called)

    return around


OPTIONS: dict[str, Any] = {each.name: each.default for kind in (Solver, Physics)
                           for each in fields(kind)}
"""All options of physics and solver, with what they are if not given."""


def settings_of(options: Mapping[str, Any]) -> tuple[Physics, Solver]:
    """Physics and solver from all of `OPTIONS`."""
    physics, solver = ({each.name: options[each.name] for each in fields(kind)}
                       for kind in (Physics, Solver))
    return Physics(**physics), Solver(**solver)


def output_times(t: float | ArrayLike, every: float) -> Array:
    """The times at which states are given."""
    try:
        given = np.asarray(t, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"t: {t!r}, expected a positive number of seconds or a sequence of times"
                         ) from None
    if given.ndim == 1:
        if len(given) < 2 or not np.isfinite(given).all() or (np.diff(given) <= 0).any():
            raise ValueError("t: expected at least two increasing, finite times")
        return np.ascontiguousarray(given)
    if given.ndim or not (np.isfinite(given) and given > 0):
        raise ValueError(f"t: {t}, expected a positive number of seconds or a sequence of times")
    every, end = _interval(every), float(given)
    if end / every > OUTPUTS:
        raise ValueError(f"every: {every} gives {end / every:.1e} outputs until t = {end}, "
                         f"expected at most {OUTPUTS:.0e}")
    whole = int(end / every * (1 + 1e-12))
    times = every * np.arange(whole + 1)
    if whole == 0 or end - times[-1] > 1e-9 * every:
        return np.append(times, end)
    times[-1] = end
    return times


def _interval(every: float) -> float:
    if not (np.isfinite(every) and every > 0):
        raise ValueError(f"every: {every}, expected a positive number of seconds")
    return float(every)


def whole_number(name: str, given: Any) -> int:
    if not (isinstance(given, int | float | np.integer | np.floating) and 1 <= given <= LARGEST
            and float(given).is_integer()):
        raise ValueError(f"{name}: {given!r}, expected a whole number from 1 to {LARGEST:.0e}")
    return int(given)
