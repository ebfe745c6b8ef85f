"""nlink: the dynamics of robots and other multibody mechanisms, O(n), from Python.

Names are loaded when they are first used, so that `import nlink` costs nothing.
"""

from __future__ import annotations

import os as _os
import threading as _threading
from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

__version__ = "0.2.0"

_HOMES = {
    "nlink.backends.llvm.threads": ("threads",),
    "nlink.loops.coupled": ("Coupled",),
    "nlink.formats.load": ("robots",),
    "nlink.model.description": (
        "Description", "Frame", "Friction", "Joint", "Limits", "Link", "Loop",
        "NonPhysicalWarning"),
    "nlink.model.gears": ("Gear",),
    "nlink.model.joints": ("AxialJoint", "Displacement", "Fixed", "Free", "Helical", "JointType",
                           "Planar", "Prismatic", "Revolute", "Spherical", "Universal"),
    "nlink.model.mimics": ("Mimic",),
    "nlink.model.pose": ("DH", "Mount", "Pose"),
    "nlink.model.rotations": (
        "exp3", "exp6", "log3", "log6", "matrix_from_quaternion", "matrix_from_rpy",
        "quaternion_from_matrix", "rpy_from_matrix"),
    "nlink.model.shapes": ("Box", "Capsule", "Cylinder", "Ellipsoid", "Hull", "Sphere"),
    "nlink.model.world": ("HeightField", "World"),
    "nlink.programs.applying": ("solve",),
    "nlink.engines.complexity": ("count",),
    "nlink.derivatives.differentials": ("hvp", "jvp", "vjp"),
    "nlink.derivatives.parameter_derivatives": ("parameter_derivatives",),
    "nlink.derivatives.traced_functions": ("function",),
    "nlink.engines.exports": ("export_c", "export_wasm", "symbolic"),
    "nlink.engines.several": ("free_body", "together"),
    "nlink.identification.base_parameters": ("base_parameters",),
    "nlink.identification.excitation": ("excite",),
    "nlink.identification.identify": ("identify",),
    "nlink.identification.logs": ("read_log",),
    "nlink.kinematics.inverse_kinematics": ("ik", "ik_all"),
    "nlink.kinematics.paths": ("Arc", "reach"),
    "nlink.kinematics.tasks": ("AlignAxis", "LookAt", "ReachMassCenter", "ReachOrientation",
                             "ReachPose", "ReachPosition"),
    "nlink.optimization.mpc": ("mpc",),
    "nlink.optimization.optimize": ("optimize",),
    "nlink.robot": ("Robot", "load"),
    "nlink.scalars.counting": ("Count",),
    "nlink.scalars.functions": (
        "abs", "atan2", "clip", "cos", "exp", "floor", "less", "less_equal", "log", "maximum",
        "minimum", "pow", "sign", "sin", "sqrt", "tanh", "where"),
    "nlink.simulation.adjoint": ("adjoint",),
    "nlink.simulation.events": ("Event",),
    "nlink.simulation.linearization": ("linearize",),
    "nlink.simulation.prescribed": ("Prescribed",),
    "nlink.simulation.live": ("Slider", "live"),
    "nlink.simulation.run_files": ("load_run",),
    "nlink.simulation.simulator": ("simulate",),
    "nlink.simulation.setting": ("Physics", "Saving", "Solver"),
    "nlink.simulation.stepper": ("Stepper",),
    "nlink.simulation.system": ("System",),
    "nlink.studies.sweeping": ("open_sweep", "sweep"),
    "nlink.testing": ("check",),
}
_PACKAGES = ("casadi", "gym", "jax", "model", "numba", "simulation", "studies", "testing", "torch")
"""Packages whose names users take, such as `nlink.simulation.PD`."""
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from nlink.backends.llvm.threads import threads as threads
    from nlink.derivatives.differentials import hvp as hvp
    from nlink.derivatives.differentials import jvp as jvp
    from nlink.derivatives.differentials import vjp as vjp
    from nlink.derivatives.parameter_derivatives import (
        parameter_derivatives as parameter_derivatives,
    )
    from nlink.derivatives.traced_functions import function as function
    from nlink.engines.complexity import count as count
    from nlink.engines.exports import export_c as export_c
    from nlink.engines.exports import export_wasm as export_wasm
    from nlink.engines.exports import symbolic as symbolic
    from nlink.engines.several import free_body as free_body
    from nlink.engines.several import together as together
    from nlink.formats.load import robots as robots
    from nlink.identification.base_parameters import base_parameters as base_parameters
    from nlink.identification.excitation import excite as excite
    from nlink.identification.identify import identify as identify
    from nlink.identification.logs import read_log as read_log
    from nlink.kinematics.inverse_kinematics import ik as ik
    from nlink.kinematics.inverse_kinematics import ik_all as ik_all
    from nlink.kinematics.paths import Arc as Arc
    from nlink.kinematics.paths import reach as reach
    from nlink.kinematics.tasks import AlignAxis as AlignAxis
    from nlink.kinematics.tasks import LookAt as LookAt
    from nlink.kinematics.tasks import ReachMassCenter as ReachMassCenter
    from nlink.kinematics.tasks import ReachOrientation as ReachOrientation
    from nlink.kinematics.tasks import ReachPose as ReachPose
    from nlink.kinematics.tasks import ReachPosition as ReachPosition
    from nlink.loops.coupled import Coupled as Coupled
    from nlink.model.description import Description as Description
    from nlink.model.description import Frame as Frame
    from nlink.model.description import Friction as Friction
    from nlink.model.description import Joint as Joint
    from nlink.model.description import Limits as Limits
    from nlink.model.description import Link as Link
    from nlink.model.description import Loop as Loop
    from nlink.model.description import NonPhysicalWarning as NonPhysicalWarning
    from nlink.model.gears import Gear as Gear
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
    from nlink.model.rotations import exp3 as exp3
    from nlink.model.rotations import exp6 as exp6
    from nlink.model.rotations import log3 as log3
    from nlink.model.rotations import log6 as log6
    from nlink.model.rotations import matrix_from_quaternion as matrix_from_quaternion
    from nlink.model.rotations import matrix_from_rpy as matrix_from_rpy
    from nlink.model.rotations import quaternion_from_matrix as quaternion_from_matrix
    from nlink.model.rotations import rpy_from_matrix as rpy_from_matrix
    from nlink.model.shapes import Box as Box
    from nlink.model.shapes import Capsule as Capsule
    from nlink.model.shapes import Cylinder as Cylinder
    from nlink.model.shapes import Ellipsoid as Ellipsoid
    from nlink.model.shapes import Hull as Hull
    from nlink.model.shapes import Sphere as Sphere
    from nlink.model.world import HeightField as HeightField
    from nlink.model.world import World as World
    from nlink.optimization.mpc import mpc as mpc
    from nlink.optimization.optimize import optimize as optimize
    from nlink.programs.applying import solve as solve
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
    from nlink.simulation.adjoint import adjoint as adjoint
    from nlink.simulation.events import Event as Event
    from nlink.simulation.linearization import linearize as linearize
    from nlink.simulation.live import Slider as Slider
    from nlink.simulation.live import live as live
    from nlink.simulation.prescribed import Prescribed as Prescribed
    from nlink.simulation.run_files import load_run as load_run
    from nlink.simulation.setting import Physics as Physics
    from nlink.simulation.setting import Saving as Saving
    from nlink.simulation.setting import Solver as Solver
    from nlink.simulation.simulator import simulate as simulate
    from nlink.simulation.stepper import Stepper as Stepper
    from nlink.simulation.system import System as System
    from nlink.studies.sweeping import open_sweep as open_sweep
    from nlink.studies.sweeping import sweep as sweep
    from nlink.testing import check as check


def __getattr__(name: str) -> _Any:
    if name in _PACKAGES:
        with _IMPORTING:
            return _import_module(f"nlink.{name}")
    if name not in _HOME:
        raise AttributeError(_missing(name), name=name)
    with _IMPORTING:
        value = globals()[name] = getattr(_import_module(_HOME[name]), name)
    return value


def _missing(name: str) -> str:
    """Why there is no such name; names of modules, for which imports ask, get no hint."""
    path = _os.path.join(_os.path.dirname(__file__), name)
    if name.startswith("_") or _os.path.exists(path) or _os.path.exists(f"{path}.py"):
        return f"module 'nlink' has no attribute {name!r}"
    with _IMPORTING:
        view, robot = map(_import_module, ("nlink.engines.users_view", "nlink.robot"))
    return view.missing_in_module(name, [*__all__, *_PACKAGES], dir(robot.Robot))


_IMPORTING = _threading.RLock()
"""A fork waits for names that are being loaded: a child would find their modules locked."""
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(before=_IMPORTING.acquire, after_in_parent=_IMPORTING.release,
                         after_in_child=_IMPORTING.release)


def __dir__() -> list[str]:
    """Names for users: what is documented, the subpackages they have imported, the version."""
    packages = (name for name, value in globals().items()
                if not name.startswith("_") and isinstance(value, type(_os)))
    return sorted({*_HOME, *_PACKAGES, *packages, "__version__", "__doc__", "__all__"})
