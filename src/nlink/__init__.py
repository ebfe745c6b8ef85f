"""nlink: the dynamics of robots and other multibody mechanisms, O(n), from Python.

Names are loaded when they are first used, so that `import nlink` costs nothing.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "nlink.backends.llvm.threads": ("threads",),
    "nlink.closures.coupled": ("Coupled",),
    "nlink.formats.load": ("robots",),
    "nlink.model.description": (
        "Description", "Frame", "Friction", "Joint", "Limits", "Link", "Loop",
        "NonPhysicalWarning"),
    "nlink.model.joints": ("AxialJoint", "Displacement", "Fixed", "Free", "Helical", "JointType",
                           "Planar", "Prismatic", "Revolute", "Spherical", "Universal"),
    "nlink.model.mimics": ("Mimic",),
    "nlink.model.pose": ("DH", "Mount", "Pose"),
    "nlink.compute.complexity": ("count",),
    "nlink.compute.differentials": ("hvp", "jvp", "vjp"),
    "nlink.compute.exports": ("export_c", "symbolic"),
    "nlink.reaching.inverse_kinematics": ("ik",),
    "nlink.reaching.tasks": ("AlignAxis", "LookAt", "ReachMassCenter", "ReachOrientation",
                             "ReachPose", "ReachPosition"),
    "nlink.robot": ("Robot", "load"),
    "nlink.scalars.counting": ("Count",),
    "nlink.scalars.functions": (
        "abs", "atan2", "clip", "cos", "exp", "floor", "less", "less_equal", "log", "maximum",
        "minimum", "pow", "sign", "sin", "sqrt", "tanh", "where"),
    "nlink.simulation.events": ("Event",),
    "nlink.simulation.linearization": ("linearize",),
    "nlink.simulation.run_files": ("load_run",),
    "nlink.simulation.simulator": ("simulate",),
    "nlink.simulation.stepper": ("Stepper",),
    "nlink.sweeps.sweeping": ("open_sweep", "sweep"),
    "nlink.testing": ("check",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from nlink.backends.llvm.threads import threads as threads
    from nlink.closures.coupled import Coupled as Coupled
    from nlink.compute.complexity import count as count
    from nlink.compute.differentials import hvp as hvp
    from nlink.compute.differentials import jvp as jvp
    from nlink.compute.differentials import vjp as vjp
    from nlink.compute.exports import export_c as export_c
    from nlink.compute.exports import symbolic as symbolic
    from nlink.formats.load import robots as robots
    from nlink.model.description import Description as Description
    from nlink.model.description import Frame as Frame
    from nlink.model.description import Friction as Friction
    from nlink.model.description import Joint as Joint
    from nlink.model.description import Limits as Limits
    from nlink.model.description import Link as Link
    from nlink.model.description import Loop as Loop
    from nlink.model.description import NonPhysicalWarning as NonPhysicalWarning
    from nlink.model.joints import AxialJoint as AxialJoint
    from nlink.model.joints import Displacement as Displacement
    from nlink.model.joints import Fixed as Fixed
    from nlink.model.joints import Free as Free
    from nlink.model.joints import Helical as Helical
    from nlink.model.joints import JointType as JointType
    from nlink.model.joints import Planar as Planar
    from nlink.model.joints import Prismatic as Prismatic
    from nlink.model.joints import Revolute as Revolute
    from nlink.model.joints import Spherical as Spherical
    from nlink.model.joints import Universal as Universal
    from nlink.model.mimics import Mimic as Mimic
    from nlink.model.pose import DH as DH
    from nlink.model.pose import Mount as Mount
    from nlink.model.pose import Pose as Pose
    from nlink.robot import Robot as Robot
    from nlink.robot import load as load
    from nlink.scalars.counting import Count as Count
    from nlink.scalars.functions import abs as abs
    from nlink.scalars.functions import atan2 as atan2
    from nlink.scalars.functions import clip as clip
    from nlink.scalars.functions import cos as cos
    from nlink.scalars.functions import exp as exp
    from nlink.scalars.functions import floor as floor
    from nlink.scalars.functions import less as less
    from nlink.scalars.functions import less_equal as less_equal
    from nlink.scalars.functions import log as log
    from nlink.scalars.functions import maximum as maximum
    from nlink.scalars.functions import minimum as minimum
    from nlink.scalars.functions import pow as pow
    from nlink.scalars.functions import sign as sign
    from nlink.scalars.functions import sin as sin
    from nlink.scalars.functions import sqrt as sqrt
    from nlink.scalars.functions import tanh as tanh
    from nlink.scalars.functions import where as where
    from nlink.simulation.events import Event as Event
    from nlink.simulation.linearization import linearize as linearize
    from nlink.simulation.run_files import load_run as load_run
    from nlink.simulation.simulator import simulate as simulate
    from nlink.simulation.stepper import Stepper as Stepper
    from nlink.sweeps.sweeping import open_sweep as open_sweep
    from nlink.sweeps.sweeping import sweep as sweep
    from nlink.testing import check as check


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'nlink' has no attribute {name!r}")
    with _IMPORTING:
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


_IMPORTING = threading.RLock()
"""A fork waits for names that are being loaded: a child would find their modules locked."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_IMPORTING.acquire, after_in_parent=_IMPORTING.release,
                        after_in_child=_IMPORTING.release)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
