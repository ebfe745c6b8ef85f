"""Simulation: methods as data, compiled steps, controllers, ensembles, results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlink.programs.applying import apply as apply
    from nlink.simulation.controllers import PD as PD
    from nlink.simulation.controllers import PID as PID
    from nlink.simulation.controllers import Actuated as Actuated
    from nlink.simulation.controllers import ComputedTorque as ComputedTorque
    from nlink.simulation.controllers import FeedForward as FeedForward
    from nlink.simulation.controllers import GravityCompensation as GravityCompensation
    from nlink.simulation.controllers import PDGravity as PDGravity
    from nlink.simulation.events import Event as Event
    from nlink.simulation.operational_space import OperationalSpace as OperationalSpace
    from nlink.simulation.run import Run as Run
    from nlink.simulation.run_files import load_run as load_run
    from nlink.simulation.simulator import simulate as simulate
    from nlink.simulation.splines import Spline as Spline
    from nlink.simulation.stepper import Stepper as Stepper
    from nlink.simulation.trajectories import Cycloid as Cycloid
    from nlink.simulation.trajectories import Quintic as Quintic
    from nlink.simulation.trajectories import Rest as Rest
    from nlink.simulation.variation import Payload as Payload
    from nlink.simulation.wrappers import Noisy as Noisy
    from nlink.simulation.wrappers import Sampled as Sampled
    from nlink.simulation.wrappers import Saturated as Saturated
    from nlink.simulation.wrenches import Wrenches as Wrenches

_HOMES = {
    "nlink.programs.applying": ("apply",),
    "controllers": ("PD", "PID", "Actuated", "ComputedTorque", "FeedForward",
                    "GravityCompensation", "PDGravity"),
    "operational_space": ("OperationalSpace",),
    "events": ("Event",),
    "run_files": ("load_run",),
    "run": ("Run",),
    "simulator": ("simulate",),
    "splines": ("Spline",),
    "stepper": ("Stepper",),
    "trajectories": ("Cycloid", "Quintic", "Rest"),
    "variation": ("Payload",),
    "wrenches": ("Wrenches",),
    "wrappers": ("Noisy", "Sampled", "Saturated"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["PD", "PID", "Actuated", "ComputedTorque", "Cycloid", "Event", "FeedForward",
           "GravityCompensation", "Noisy", "OperationalSpace", "PDGravity", "Payload", "Quintic",
           "Rest", "Run", "Sampled", "Saturated", "Spline", "Stepper", "apply", "load_run",
           "simulate"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    return getattr(import_module(home if "." in home else f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
