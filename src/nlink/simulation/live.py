"""Live pages: a simulation that runs in the reader's browser.

One file, offline, without a server: the reader pulls links with the mouse, moves sliders for gains,
masses, friction or gravity, and sees motion, forces and energy follow. The page runs the statements
and programs that `nlink.simulate` compiles, written as WebAssembly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.exports import symbolic
from nlink.formats.files import write_text
from nlink.iterations.integration import STATUS
from nlink.model.changes import CHANGES
from nlink.model.coordinates import coordinate_names, rate_names
from nlink.model.names import did_you_mean, visible
from nlink.robot import Robot, expect_robot
from nlink.scalars.misuse import tell
from nlink.simulation.ensemble import Ensemble
from nlink.simulation.live_module import LiveModule
from nlink.simulation.setting import Physics, Saving, Solver, door, setting
from nlink.simulation.simulator import simulated
from nlink.simulation.system import System
from nlink.simulation.variation import GAINS, JOINTS, PARAMETERS
from nlink.viewer.live_page import live_page
from nlink.viewer.motion_page import InlineView
from nlink.viewer.scene import Scene

if TYPE_CHECKING:
    from nlink.simulation.control_scheme import Controller

Array = np.ndarray
SLIDING = ("payload", "mass", *JOINTS, "dry", "gravity", *GAINS, PARAMETERS)
"""What a slider may change."""
STIFFNESS, DAMPING, STRENGTH = 60.0, 6.0, 6.0
"""The hand, for each kilogram of the robot: N/m, N s/m, and how many times its weight it pulls."""
LOOKED = 2.0
"""Seconds of motion that the camera frames, and for which the ends of sliders are tried."""
ASIDE = 1.3
"""How far robots with different controllers stand from each other, in sizes of the robot."""


@dataclass(frozen=True)
class Slider:
    """A number of a live page that its reader can change, between `low` and `high`.

    `name` is "payload" (kg in the last frame), "mass[link]" (kg), "gravity" (m/s^2), "viscous",
    "dry" or "armature" (of all joints, or of one, as in "viscous[joint2]"), "kp", "ki" or "kd" of a
    bundled controller, or "p[2]", a number that a controller(t, q, qd, p) is given. `relative`
    sliders multiply what the robot or controller has; `value` is where the slider begins.

    >>> import nlink
    >>> nlink.Slider("kp", 0, 3, relative=True).label
    'kp'
    """

    name: str
    low: float
    high: float
    relative: bool = False
    unit: str = ""
    label: str = ""
    value: float | None = None

    def __post_init__(self) -> None:
        kind, _ = self.part
        if kind not in SLIDING:
            raise ValueError(f"name: {self.name!r}, expected one of {', '.join(SLIDING)}, with a "
                             f"joint, link or number in brackets{did_you_mean(kind, SLIDING)}")
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise ValueError(f"low: {self.low} and high: {self.high}, expected finite numbers, the "
                             "first one smaller")
        if self.value is not None and not self.low <= self.value <= self.high:
            raise ValueError(f"value: {self.value}, expected {self.low} to {self.high}")
        object.__setattr__(self, "label", self.label or self.name)
        unit = self.unit or ("x" if self.relative else UNITS.get(kind, ""))
        object.__setattr__(self, "unit", unit)

    @property
    def part(self) -> tuple[str, str | None]:
        """What it changes, and of which part."""
        found = re.fullmatch(r"(\w+)(?:\[(.+)\])?", self.name)
        return (self.name, None) if found is None else (found[1], found[2])

    @property
    def column(self) -> str:
        """The name under which it varies."""
        kind = self.part[0]
        return {"mass": "inertia", "dry": "coulomb"}.get(kind, kind)


UNITS = {"payload": "kg", "mass": "kg", "gravity": "m/s\N{SUPERSCRIPT TWO}"}


@door(tau="controller", q="q0", qd="qd0", dt="step", slider="sliders")
def live(robot: Robot, controller: Controller | Mapping[str, Controller | None] | None = None,
         sliders: Sequence[Slider] = (), path: str | Path | None = "robot.html", *,
         q0: ArrayLike | None = None, qd0: ArrayLike | None = None, step: float = 1e-3,
         method: str = "rk4", limits: str = "ignore", restitution: float | None = None,
         friction: str = "dry", effort: str = "ignore", events: Any = None,
         vary: Mapping[str, Any] | None = None, physics: Physics | None = None,
         equations: bool = False, title: str = "", packages: Sequence[str | Path] = (),
         ) -> Path | InlineView:
    """Write a page that simulates a robot in its reader's browser; with None as the path, the page
    is shown in a notebook.

    The reader pulls links with the mouse, and changes what the `sliders` name. `controller` is one
    of `nlink.simulate`, or several by name: then as many robots stand side by side. States q0
    (count, nq) start as many robots in one place. `method`, `limits`, `restitution`, `friction`,
    `effort`, `events`, `vary` and `physics` are those of `nlink.simulate`; `step` is that of
    methods with fixed steps, and how often the hand looks. `equations` puts the equations of motion
    of a robot with one or two joints beside it.

    >>> import nlink, tempfile
    >>> arm = nlink.load("planar3")
    >>> law = nlink.simulation.PDGravity(arm, [0.5, 0.5, 0.5], 30.0, 6.0)
    >>> page = nlink.live(arm, law, [nlink.Slider("kp", 0, 3, relative=True)],
    ...                   tempfile.mkdtemp() + "/arm.html")
    >>> page.stat().st_size < 200_000
    True
    """
    robot = expect_robot(robot)
    if path is not None and Path(path).suffix not in (".html", ".htm"):
        raise ValueError(f"path: {str(path)!r} has the suffix {Path(path).suffix!r}, expected "
                         ".html")
    if isinstance(sliders, Slider) or not all(isinstance(x, Slider) for x in sliders):
        raise TypeError("sliders: expected a list of nlink.Slider")
    laws = dict(controller) if isinstance(controller, Mapping) else {"": controller}
    for law in laws.values():
        if law is not None and not callable(law):
            raise TypeError(f"controller: a {type(law).__name__}, expected a function of t, q, qd: "
                            "a page has no output times for a table")
    physics = setting(physics, Physics(), limits=limits, restitution=restitution,
                      friction=friction, effort=effort)
    solver = Solver(method=method, step=step)
    made = [_made(robot, law, sliders, q0, qd0, solver, physics, events, vary)
            for law in laws.values()]
    scene = Scene.of(robot, packages)
    modules, levels, motions = zip(*made, strict=True)
    head = {
        "modules": [each.head | {"block": f"module{k}"} for k, each in enumerate(modules)],
        "actors": _actors(scene, list(laws), modules), "step": step,
        "status": {code: name for name, code in STATUS.items()},
        "sliders": [{"label": visible(slider.label), "unit": slider.unit, "low": slider.low,
                     "high": slider.high, "value": levels[0][k].value,
                     "columns": [each[k].weights for each in levels]}
                    for k, slider in enumerate(sliders)],
        "links": [visible(link.name) for link in robot.links],
        "parents": [joint.parent for joint in robot.description.joints],
        "coordinates": list(coordinate_names(robot.description)),
        "rates": list(rate_names(robot.description)),
        "driven": any(law is not None for law in laws.values()), "hand": _hand(robot)}
    title = title or visible(robot.name)
    page = live_page(scene, title, _places(scene, motions), [each.code for each in modules], head,
                     _notes(modules[0].ensemble.system, laws, method, step),
                     _equations(robot) if equations else "")
    if path is None:
        return InlineView(page)
    write_text(Path(path), page)
    return Path(path)


@dataclass(frozen=True)
class _Level:
    """Where a slider begins, and the numbers that it changes: each is a weight times its value."""

    value: float
    weights: list[tuple[int, float]]


def _made(robot: Robot, law: Controller | None, sliders: Sequence[Slider], q0: ArrayLike | None,
          qd0: ArrayLike | None, solver: Solver, physics: Physics, events: Any,
          vary: Mapping[str, Any] | None) -> tuple[LiveModule, list[_Level], Array]:
    """The module of a robot with a controller, what its sliders change, and coordinates of its
    first seconds."""
    links = [link.name for link in robot.links]
    varied: dict[str, Any] = {"f_ext": {name: np.zeros(6) for name in links}}
    fixed = dict(vary or {})
    for slider in sliders:
        if slider.column not in fixed and slider.column not in varied:
            varied[slider.column] = _base(robot, law, slider, sliders)
    system = System(robot, law, vary=varied | fixed, events=events, physics=physics)
    ensemble = Ensemble.of(system, q0, qd0, solver, Saving(t=1.0))
    module = LiveModule.of(ensemble, solver)
    levels = [_level(robot, slider, system, module.own[0]) for slider in sliders]
    for level in levels:
        for index, weight in level.weights:
            module.own[:, index] = weight * level.value
    return module, levels, _first_seconds(ensemble, solver, sliders, levels, module.own[0])


def _base(robot: Robot, law: Any, slider: Slider, sliders: Sequence[Slider]) -> Array:
    """What the robot or its controller has under the name of a slider."""
    column = slider.column
    if column in GAINS:
        gains = getattr(law, column, None)
        if not isinstance(gains, tuple):
            raise ValueError(f"sliders: {slider.name!r}, but the controller has no gain of that "
                             "name, expected one of nlink.simulation's, or 'p[0]' for a "
                             "controller(t, q, qd, p)")
        return np.array(gains)
    if column == "payload":
        return np.array(0.0)
    if column == PARAMETERS:
        return np.zeros(1 + max(_number(each) for each in sliders if each.column == PARAMETERS))
    return CHANGES[column].values(robot.description, robot.mechanism)


def _number(slider: Slider) -> int:
    part = slider.part[1]
    if part is None or not part.isdecimal():
        raise ValueError(f"sliders: {slider.name!r}, expected the number of a parameter, as in "
                         "'p[0]'")
    return int(part)


def _level(robot: Robot, slider: Slider, system: System, own: Array) -> _Level:
    """Where a slider begins, and its weights."""
    column = system.varied.split(range(system.varied.width))[slider.column]
    kind = slider.part[0]
    indices = [int(column[k]) for k in _within(robot, slider, len(column))]
    base = own[indices]
    if kind == "mass" and not base[0]:
        raise ValueError(f"sliders: {slider.name!r}, but that link has no mass, expected one that "
                         "has")
    if slider.relative:
        weights, value = base, 1.0
    elif kind == "mass":
        weights, value = base / base[0], base[0]
    elif kind == "gravity":
        value = float(np.linalg.norm(base))
        weights = base / value if value else np.array([0.0, 0.0, -1.0])
    else:
        weights, value = np.ones(len(indices)), base[0]
        if slider.value is None and (base != value).any():
            raise ValueError(f"sliders: {slider.name!r} has different numbers now, "
                             f"{', '.join(f'{x:g}' for x in base)}: expected relative=True, a "
                             "joint in brackets, or value=")
    value = float(np.clip(value if slider.value is None else slider.value, slider.low, slider.high))
    return _Level(value, [(i, float(w)) for i, w in zip(indices, weights, strict=True)])


def _within(robot: Robot, slider: Slider, width: int) -> Sequence[int]:
    """Which numbers of its column a slider changes."""
    kind, part = slider.part
    if kind == PARAMETERS:
        return [_number(slider)]
    if kind == "mass":
        names = [link.name for link in robot.links]
        return range(10 * (k := _named(slider, part, names)), 10 * k + 10)
    if part is not None and kind in (*JOINTS, "dry", *GAINS):
        names = rate_names(robot.description)
        return [_named(slider, part, names)]
    if part is not None:
        raise ValueError(f"sliders: {slider.name!r}, expected {kind!r} without brackets")
    return range(width)


def _named(slider: Slider, part: str | None, names: Sequence[str]) -> int:
    if part not in names:
        raise ValueError(f"sliders: {slider.name!r}, expected in brackets one of "
                         f"{', '.join(names)}")
    return names.index(part)


def _first_seconds(ensemble: Ensemble, solver: Solver, sliders: Sequence[Slider],
                   levels: Sequence[_Level], own: Array) -> Array:
    """Coordinates (frames, nq) of the first seconds, as far as they are known; warns of positions
    of sliders at which the motion leaves what numbers can say."""
    rows, named = [own], [""]
    for slider, level in zip(sliders, levels, strict=True):
        for end in (slider.low, slider.high):
            row = own.copy()
            for index, weight in level.weights:
                row[index] = weight * end
            rows.append(row)
            named.append(f"{slider.label} at {end:g}")
    count, variation = len(rows), ensemble.variation
    assert variation is not None
    many = replace(
        ensemble, lead=(count,), y0=np.repeat(ensemble.y0[:1], count, axis=0),
        unclosed=np.repeat(ensemble.unclosed[:1], count), times=np.linspace(0.0, LOOKED, 9),
        variation=replace(variation, values=np.array(rows)))
    run = simulated(many, solver, progress=False)
    lost = [name for name, status in zip(named, run.status, strict=True)
            if status == "not finite"]
    if lost and not lost[0]:
        tell(f"step: with {solver.step:g} s the motion leaves what numbers can say within "
             f"{LOOKED:g} s, expected a smaller step, or smaller gains", RuntimeWarning)
    elif lost:
        tell(f"sliders: with {', '.join(lost)} the motion leaves what numbers can say within "
             f"{LOOKED:g} s, expected a smaller range or step: a gain times the step is too large "
             "for the inertia it moves", RuntimeWarning)
    q = run.q[0]
    return q[np.isfinite(q).all(axis=1)]


def _actors(scene: Scene, names: Sequence[str], modules: Sequence[LiveModule],
            ) -> list[dict[str, Any]]:
    """Robots of a page: those of one module in one place, modules side by side."""
    actors = []
    for k, (name, module) in enumerate(zip(names, modules, strict=True)):
        label = name or module.ensemble.robot.name
        for number, state in enumerate(module.states):
            actors.append({
                "module": k, "ghost": number > 0, "offset": _offset(scene, k, len(modules)),
                "y": state.tolist(), "own": module.own[number].tolist(),
                "name": visible(f"{label} {number + 1}" if len(module.states) > 1 else label)})
    return actors


def _offset(scene: Scene, k: int, count: int) -> list[float]:
    """Where the robots of a module stand."""
    return [0.0, (k - (count - 1) / 2) * ASIDE * scene.size, 0.0]


def _places(scene: Scene, motions: Sequence[Array]) -> Array:
    """Places of links in frames of some motions, as many as all have."""
    count = min(map(len, motions))
    places = np.array([scene.places(q[:count]) for q in motions])
    offsets = np.array([_offset(scene, k, len(motions)) for k in range(len(motions))])
    places[..., :3, 3] += offsets[:, None, None]
    return places


def _hand(robot: Robot) -> dict[str, float]:
    mass = sum(link.mass for link in robot.links) or 1.0
    return {"stiffness": STIFFNESS * mass, "damping": DAMPING * mass,
            "most": STRENGTH * 9.81 * mass}


def _notes(system: System, laws: Mapping[str, Any], method: str, step: float) -> list[str]:
    """What the page says of itself."""
    named = [f"{name}: {_called(law)}" if name else _called(law) for name, law in laws.items()
             if law is not None]
    notes = [f"Simulated in this page by nlink: {method}, steps of {1000 * step:g} ms."]
    if named:
        notes.append(f"Controller: {', '.join(named)}." + (
            " It computes with the robot as described and knows nothing of other masses, friction, "
            "gravity or hands." if system.varied.mechanical else ""))
    return notes


def _called(law: Callable[..., Any]) -> str:
    return visible(getattr(law, "__name__", type(law).__name__))


def _equations(robot: Robot) -> str:
    """The equations of motion of a small robot, typeset."""
    if robot.n > 2:
        raise ValueError(f"equations: {robot.name} has {robot.n} rates, expected at most 2")
    import sympy
    from sympy.printing.mathml import mathml

    found = symbolic(robot, "inverse_dynamics", parameters="names").simplified()
    rows = "".join(f"<p><math>{mathml(sympy.Eq(sympy.Symbol(f'tau_{k}'), x), 'presentation')}"
                   "</math></p>" for k, x in enumerate(found.values, 1))
    for name, dots in (("qdd", "\u00a8"), ("qd", "\u02d9")):
        rows = rows.replace(f"<mi>{name}</mi>",
                            f'<mover accent="true"><mi>q</mi><mo>{dots}</mo></mover>')
    return f'<figure class="equations"><figcaption>Equations of motion</figcaption>{rows}</figure>'
