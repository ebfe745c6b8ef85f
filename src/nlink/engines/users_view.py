"""What users see of a robot besides its methods: completion, signatures, hints for other names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from nlink.engines.computations import How
from nlink.model.names import did_you_mean

FOREIGN = {
    "nv": "n", "dof": "n", "dofs": "n", "ndof": "n", "num_dof": "n", "njoints": "n",
    "nu": "n", "rnea": "inverse_dynamics", "rne": "inverse_dynamics", "crba": "mass_matrix",
    "inertia": "mass_matrix", "aba": "forward_dynamics", "accel": "forward_dynamics",
    "gravload": "gravity_torque", "coriolis": "coriolis_matrix", "fkine": "pose", "fk": "pose",
    "forward_kinematics": "pose", "jacob0": "jacobian", "ikine_LM": "ik",
    "inverse_kinematics": "ik", "fdyn": "nlink.simulate(robot, ...)",
    "simulate": "nlink.simulate(robot, ...)", "joint_names": "q_names", "names": "q_names",
    "link_names": "frames", "total_mass": "sum(link.mass for link in robot.links)",
    "mass": "sum(link.mass for link in robot.links)", "com": "center_of_mass",
    "q0": "neutral", "qlim": "limits", "lower_limits": "limits.lower",
    "upper_limits": "limits.upper"}
"""Names that other libraries have for what a robot has by another one; docs/coming-from.md."""
INTERNAL = {"call_ports", "request", "mechanism"}
"""Public within the package, of no use outside."""
F = TypeVar("F", bound=Callable[..., Any])
EDITS = {"gravity": "robot.with_gravity(gravity)", "limits": "edited joints in its description",
         "name": "another description"}


def missing(name: str, known: list[str]) -> str:
    """Why a robot has no such attribute, and what it may be called here."""
    ours = FOREIGN.get(name)
    if ours is None:
        hint = did_you_mean(name, [x for x in known if not x.startswith("_")])
    else:
        hint = f"; expected {ours if '(' in ours else f'robot.{ours}'}"
    return f"'Robot' object has no attribute {name!r}{hint}"


def unsettable(name: str) -> str:
    """Why an attribute of a robot cannot be set."""
    instead = EDITS.get(name)
    return f"robot.{name} cannot be set, a robot stays as it is" + (
        f"; {instead} gives another" if instead else "; its with_... methods give others")


def as_methods_of(owner: str, *classes: type) -> None:
    """Let errors of methods name the class that users know, and signatures the options that
    `**how` stands for."""
    for each in classes:
        for name, function in vars(each).items():
            if not inspect.isfunction(function) or name.startswith("__"):
                continue
            function.__qualname__ = f"{owner}.{name}"
            code = function.__code__
            if code.co_flags & inspect.CO_VARKEYWORDS and "how" in code.co_varnames:
                shows_options(function)


def shows_options(function: F) -> F:
    """The function, its signature with the options of every computation in place of `**how`."""
    plain = inspect.signature(function)
    options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None,
                                 annotation=getattr(kind, "__forward_arg__", kind))
               for name, kind in How.__annotations__.items()]
    function.__signature__ = plain.replace(  # type: ignore[attr-defined]
        parameters=[x for x in plain.parameters.values()
                    if x.kind is not x.VAR_KEYWORD] + options)
    return function
