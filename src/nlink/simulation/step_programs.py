"""One step of a system as a program: the text of a method, run once on traced values.

The program is of the state y (`System.start` gives one), of joint forces tau beside whatever drives
the system, of the time t, and of all that varies; its result is the state a step later. So a step
has derivatives like everything else that is traced, and can become part of a larger program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.engines import machine_code
from nlink.engines.kernels import kept
from nlink.iterations.integration import Method, OneStep, Trial
from nlink.iterations.iteration import State
from nlink.iterations.methods import METHODS
from nlink.model.changes import CHANGES
from nlink.programs.program import Port, Program
from nlink.programs.tracing import input_nodes
from nlink.scalars.arrays import batch
from nlink.scalars.graph import Graph, Node
from nlink.simulation.drives import Beside, Untraced
from nlink.simulation.events import Watching
from nlink.simulation.system import System

Array = np.ndarray


def method_of_step(step: Any, method: str) -> tuple[Method, float]:
    """The method of a step, and its size."""
    h = batch("step", step, ())
    if h.ndim or not (np.isfinite(h) and h > 0):
        raise ValueError(f"step: {step!r:.80}, expected a number > 0")
    known = {name: each for name, each in METHODS.items()
             if isinstance(each, OneStep) and not each.needs}
    if method not in known:
        raise ValueError(f"method: {method!r}, expected one of {', '.join(known)}")
    return known[method], float(h)


def traced_step(system: System, step: float, method: str) -> tuple[Program, list[Array]]:
    """The program of one step, and the present values of all its inputs but the state.

    Loops are not projected: it is the step before its projection onto closed states.
    """
    chosen, h = method_of_step(step, method)
    _expect_one_text(system)
    robot, varied = system.robot, system.varied
    moving = system.but(
        varied=varied.with_numbers("tau", robot.n), drive=Beside(system.drive), watching=Watching(),
        closing="drift" if system.projects else system.closing)
    own = [Port(name, _shape(system, name, width)) for name, width in varied.columns]
    inputs = (Port("y", (system.shape.size,)), Port("tau", (robot.n,)), Port("t", ()), *own)
    graph = Graph()
    y, tau, (t,), *numbers = input_nodes(graph, inputs)
    new = _attempt(moving, chosen, h, t, y, [*chain(*numbers), *tau])
    program = Program(f"{method}_step", inputs, (Port("y_new", (len(y),)),),
                      tuple(graph.lift(x) for x in new))
    given = system.numbers.variation
    values = np.empty(0) if given is None else given.values
    return program, [np.zeros(robot.n), np.zeros(()), *_apart(values, own)]


def single_step(system: System, y: ArrayLike, step: float, t: ArrayLike, method: str) -> Array:
    """States of float32 a step later, by machine code of float32 for a method and a step."""
    if system.projects:
        raise ValueError("y: dtype float32, expected float64: states of closed chains are "
                         "projected in it")
    kernel = kept(system.robot, ("step in float32", method, step, system.recipe()),
                  lambda: machine_code(traced_step(system, step, method)[0], "float32"))
    given = system.numbers.variation
    values = np.empty(0) if given is None else given.values
    rest = [np.zeros(system.robot.n), t, *_apart(values, kernel.inputs[3:])]
    return kernel(y, *(np.asarray(x, np.float32) for x in rest))


def _apart(values: Array, ports: Sequence[Port]) -> list[Array]:
    """Numbers that vary, (..., width), each in its own shape."""
    places = np.cumsum([0, *(port.size for port in ports)])
    return [values[..., a:b].reshape(*values.shape[:-1], *port.shape)
            for a, b, port in zip(places[:-1], places[1:], ports, strict=True)]


def _attempt(system: System, method: Method, h: float, t: Node, y: Sequence[Node],
             own: Sequence[Node]) -> Array:
    """The state after a step, by the method's text on an array of nodes."""
    def text(name: str, at: Any, y: Array) -> Array:
        (found,) = system.straight(name)([at], [*y], [*own])
        return np.array(found, dtype=object)

    restore = partial(text, "restore") if system.restores else None
    return attempted(method, np.array(y, dtype=object), t, h, system.robot.nq,
                     partial(text, "rates"), restore, partial(text, "coordinate_rates"))


def attempted(method: Any, y: Array, t: Any, h: float, coordinates: int,
              rates: Callable[[Any, Array], Array],
              restore: Callable[[Any, Array], Array] | None,
              coordinate_rates: Callable[[Any, Array], Array] | None = None) -> Array:
    """The states after one step, by the method's text on arrays whose last axis are the elements
    of a state."""
    size = y.shape[-1]
    around = SimpleNamespace(
        rates=rates, restore=restore or (lambda _at, y: y), coordinates=coordinates,
        coordinate_rates=coordinate_rates or rates,
        index=np.arange(size), discrete=0, continuous=size, share=1.0, rtol=1.0, atol=1.0,
        stop=t + h, due=t + h, final=t + h, begin=t)
    cells = {**method.layout.cells, "t": t, "h": h, "y": y}
    if not getattr(method, "begins_anew", False):
        cells["k0"] = rates(t, y)
    return method.attempt(State(cells), Trial(h, t + h), around).new


def _shape(system: System, name: str, width: int) -> tuple[int, ...]:
    """The shape in which a number that varies is given."""
    if name in CHANGES:
        shape = CHANGES[name].shape(system.robot.description, system.robot.mechanism)
        if int(np.prod(shape)) == width:
            return shape
    return (width,)


def _expect_one_text(system: System) -> None:
    """Refuse systems whose step is more than a text."""
    for wrong, why, other in (
            (system.velocity.name != "qd", f"velocity={system.velocity.name!r}", "'qd'"),
            (system.columns, "forces or wrenches in a table", "those of one state"),
            (isinstance(system.drive, Untraced), "traced=False", "a traced controller"),
            (system.sampling is not None, "a controller with a period", "one that acts at all "
             "times"),
            (system.varied.has("tau"), "'tau' in vary", "joint forces as an argument"),
            (system.contacts is not None, "contacts", "contact='ignore'"),
            (system.modes is not None, "dry friction or limits, which need decisions",
             "friction='smooth' and limits='ignore'"),
            (system.contacts, "contacts, whose forces are solved for",
             "contact='ignore', or nlink.Stepper")):
        if wrong:
            raise ValueError(f"step: not with {why}, expected {other}")
