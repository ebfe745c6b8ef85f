"""What moves the joints of a system: nothing, numbers, a table, or a controller.

A controller is traced into the programs of the system, or called as ordinary Python: in every step
that Python makes, or at its samples, where compiled code waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.iterations.sampling import Sampling
from nlink.programs.keys import key
from nlink.programs.program import Port, Program
from nlink.programs.tracing import input_nodes
from nlink.scalars.functions import Scalar, Scalars
from nlink.scalars.graph import Graph
from nlink.scalars.misuse import explained
from nlink.simulation.control_scheme import ControlScheme, StatePart
from nlink.simulation.moment import Moment, SystemPiece, Text, Texts

if TYPE_CHECKING:
    from nlink.simulation.assembled_system import AssembledSystem
    from nlink.simulation.ensemble import Ensemble
    from nlink.simulation.system import System

Array = np.ndarray
Control = tuple[list[Scalar], list[Scalar]]
"""Joint forces, and the rates of what the drive remembers and that moves."""


@dataclass(frozen=True)
class Drive(SystemPiece):
    """Free fall, and what other drives have in common."""

    @property
    def tabled(self) -> bool:
        """Whether joint forces are in the table on the output times."""
        return False

    @property
    def scheme(self) -> ControlScheme | None:
        """The controller, if there is one."""
        return None

    @property
    def controlled(self) -> Controlled | None:
        """The part of it that is a controller, if there is one."""
        return None

    @property
    def sampling(self) -> Sampling | None:
        """When it acts; None if always."""
        return None

    def control(self, at: Moment) -> Control:
        return [0.0] * at.system.robot.n, []

    def varied(self, system: System, own: Scalars) -> ControlScheme:
        """The controller with the numbers of a trajectory, if there are any."""
        assert self.scheme is not None
        if not len(own):
            return self.scheme
        return ControlScheme.of(system.varied.controller(self.scheme.controller, own),
                                self.scheme.n)

    def forces(self, ensemble: Ensemble) -> Any:
        """What `Run.tau` is computed from; None if the joints fall freely."""
        return None if self.scheme is None else self.scheme.controller

    def recipe(self, system: System) -> Any:
        """What decides its part of the programs."""
        return repr(self)


FREE = Drive()


@dataclass(frozen=True)
class Constant(Drive):
    """Forces that never change: "tau" of what varies."""

    def control(self, at: Moment) -> Control:
        return list(at.system.varied.split(at.own)["tau"]), []

    def forces(self, ensemble: Ensemble) -> Any:
        varied = ensemble.system.varied

        def constant(t: Array, q: Array, qd: Array, *more: Array) -> Array:
            """Along trajectories whose numbers come last."""
            own = np.moveaxis(more[-1], -1, 0)
            return np.broadcast_to(np.stack(varied.split(list(own))["tau"], axis=-1), qd.shape)

        return constant


@dataclass(frozen=True)
class Tabled(Drive):
    """Forces in a table on the output times, linear in between."""

    @property
    def tabled(self) -> bool:
        return True

    def control(self, at: Moment) -> Control:
        return at.row[:at.system.robot.n], []

    def forces(self, ensemble: Ensemble) -> Any:
        assert ensemble.table is not None
        tau = ensemble.table[..., :ensemble.robot.n]
        return tau.reshape(*ensemble.lead, *tau.shape[1:]) if len(tau) == len(
            ensemble.y0) else tau[0]


@dataclass(frozen=True)
class Controlled(Drive):
    """A controller that is traced."""

    traced: ControlScheme

    @property
    def controlled(self) -> Controlled:
        return self

    @property
    def scheme(self) -> ControlScheme:
        return self.traced

    def parts(self, system: AssembledSystem) -> tuple[StatePart, ...]:
        return self.scheme.parts

    def start(self, system: System, initial: Array) -> dict[str, Array]:
        values, found, at = self.scheme.start(len(initial)), {}, 0
        for part in self.scheme.parts:
            found[part.name], at = values[:, at:at + part.size], at + part.size
        return found

    def texts(self, system: System) -> Texts:
        return {"sample": Text(self.sample)} if self.sampling else {}

    @property
    def sampling(self) -> Sampling | None:
        return None if self.scheme.period is None else Sampling(self.scheme.period)

    def control(self, at: Moment) -> Control:
        scheme, parts = self.varied(at.system, at.own), at.parts
        x = parts.get("x", ())
        if scheme.period is not None:
            return list(parts["held"]), []
        return scheme.tau(at.t, at.q, at.qd, x), (
            scheme.rates(at.t, at.q, at.qd, x) if scheme.size else [])

    def sample(self, at: Moment) -> Scalars:
        """The state after the controller has seen it."""
        scheme = self.varied(at.system, at.own)
        mine = iter(scheme.sample(at.t, at.q, at.qd, [
            x for part in scheme.parts for x in at.parts[part.name]]))
        return at.but(**{part.name: [next(mine) for _ in range(part.size)]
                         for part in scheme.parts})

    def recipe(self, system: System) -> Any:
        return key(system.control_program)

    def program(self, system: System) -> Program:
        """The controller alone: tau from t, q, qd, its state and what varies, and then the
        rates of its state."""
        robot, size = system.robot, self.scheme.size
        ports = tuple(map(Port, ("t", "q", "qd", "x", "own"), (
            (1,), (robot.nq,), (robot.n,), (size,), (system.varied.width,))))
        graph = Graph()
        (t,), *state, own = input_nodes(graph, ports)
        scheme = self.varied(system, own)
        with explained():
            results = {"tau": scheme.tau(t, *state)}
            if size:
                results["change"] = (scheme.rates if scheme.period is None else scheme.advance)(
                    t, *state)
        return Program("controller", tuple(port for port in ports if port.size),
                       tuple(Port(name, (len(values),)) for name, values in results.items()),
                       tuple(graph.lift(x) for values in results.values() for x in values))


@dataclass(frozen=True)
class DriveAround(Drive):
    """Another drive, and something about it."""

    drive: Drive

    @property
    def controlled(self) -> Controlled | None:
        return self.drive.controlled

    def parts(self, system: AssembledSystem) -> tuple[StatePart, ...]:
        return self.drive.parts(system)

    def start(self, system: System, initial: Array) -> dict[str, Array]:
        return self.drive.start(system, initial)

    def recipe(self, system: System) -> Any:
        return type(self).__name__, self.drive.recipe(system)


@dataclass(frozen=True)
class Untraced(DriveAround):
    """A drive in integration that is Python: nothing of it is traced."""

    @property
    def tabled(self) -> bool:
        return self.drive.tabled

    @property
    def scheme(self) -> ControlScheme | None:
        return self.drive.scheme

    @property
    def sampling(self) -> Sampling | None:
        return self.drive.sampling

    def texts(self, system: System) -> Texts:
        return self.drive.texts(system)

    def control(self, at: Moment) -> Control:
        return self.drive.control(at)

    def forces(self, ensemble: Ensemble) -> Any:
        return self.drive.forces(ensemble)

    def recipe(self, system: System) -> Any:
        return type(self).__name__, self.parts(system), self.sampling


@dataclass(frozen=True)
class Asked(Untraced):
    """A controller that compiled code waits for at its samples."""

    @property
    def sampling(self) -> Sampling | None:
        found = self.drive.sampling
        return None if found is None else replace(found, asks=True)

    def texts(self, system: System) -> Texts:
        return {}


@dataclass(frozen=True)
class Beside(DriveAround):
    """A drive, and forces beside it that never change."""

    def control(self, at: Moment) -> Control:
        (own, _), (tau, further) = Constant().control(at), self.drive.control(at)
        return [a + b for a, b in zip(own, tau, strict=True)], further


@dataclass(frozen=True)
class Pushed(DriveAround):
    """A drive, and forces beside it that are given from outside every `period` seconds."""

    period: float

    def parts(self, system: AssembledSystem) -> tuple[StatePart, ...]:
        return *self.drive.parts(system), StatePart("held", system.robot.n, discrete=True)

    @property
    def sampling(self) -> Sampling | None:
        return Sampling(self.period, asks=True)

    def control(self, at: Moment) -> Control:
        tau, further = self.drive.control(at)
        return [a + b for a, b in zip(at.parts["held"], tau, strict=True)], further

    def recipe(self, system: System) -> Any:
        return *super().recipe(system), self.period
