"""Completion, signatures, and hints for names that other libraries use."""

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
    "upper_limits": "limits.upper", "nle": "bias", "bias_forces": "bias",
    "qfrc_bias": "bias", "M": "mass_matrix", "C": "coriolis_matrix", "G": "gravity_torque",
    "g": "gravity_torque", "gravity_compensation": "gravity_torque",
    "nonlinear_effects": "bias", "frame_jacobian": "jacobian", "body_jacobian": "jacobian",
    "jacobe": "jacobian", "frame_pose": "pose", "frame_placement": "pose", "ee_pose": "pose",
    "end_effector": "pose", "hessian0": "jacobian_derivatives", "plot": "png", "show": "view",
    "display": "view", "teach": "view", "draw": "png", "to_urdf": "save", "export": "save",
    "export_c": "nlink.export_c(robot, ...)", "symbolic": "nlink.symbolic(robot, ...)",
    "step": "nlink.Stepper(robot, ...)", "linearize": "nlink.linearize(robot, ...)",
    "home": "neutral", "qz": "neutral", "num_joints": "n", "qpos0": "neutral"}
"""Names that other libraries have for what a robot has by another one; docs/coming-from.md."""
INTERNAL = {"call_ports", "request", "mechanism"}
"""Public within the package, of no use outside."""
OF_THE_MODULE = {
    "rnea": "robot.inverse_dynamics", "aba": "robot.forward_dynamics", "crba": "robot.mass_matrix",
    "load_urdf": "nlink.load", "load_mjcf": "nlink.load", "from_urdf": "nlink.load",
    "load_robot": "nlink.load", "buildModelFromUrdf": "nlink.load", "Model": "nlink.load",
    "URDF": "nlink.load", "inverse_kinematics": "nlink.ik", "ikine": "nlink.ik",
    "quat_to_matrix": "nlink.matrix_from_quaternion",
    "euler_to_matrix": "nlink.matrix_from_rpy", "rpy_to_matrix": "nlink.matrix_from_rpy",
    "matrix_to_quat": "nlink.quaternion_from_matrix", "sim": "nlink.simulate",
    "rollout": "nlink.simulate", "Simulator": "nlink.simulate", "codegen": "nlink.export_c",
    "export": "nlink.export_c", "grad": "nlink.vjp", "jacobian": "robot.jacobian, or the method "
    "of nlink.function", "Controller": "a function of t, q, qd, or a class of nlink.simulation"}
"""Names that newcomers look for in the module."""
OF_A_RUN = {
    "v": "qd", "qvel": "qd", "qpos": "q", "dq": "qd", "u": "tau", "torques": "tau", "time": "t",
    "times": "t", "ts": "t", "animate": "html", "animation": "html", "to_html": "html",
    "show": "view", "to_pandas": "to_xarray", "to_dataframe": "to_xarray", "states": "q",
    "success": "ok", "message": "status"}
"""Names that other libraries have for what a run has by another one."""
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


def missing_in_module(name: str, known: list[str], methods: list[str]) -> str:
    """Why the module has no such name, and what to use in place of it.

    >>> missing_in_module("rnea", [], [])
    "module 'nlink' has no attribute 'rnea'; expected robot.inverse_dynamics"
    """
    if name in OF_THE_MODULE:
        hint = f"; expected {OF_THE_MODULE[name]}"
    elif name in methods:
        hint = f"; robot.{name} is a method of a robot, which nlink.load gives"
    else:
        hint = did_you_mean(name, known)
    return f"module 'nlink' has no attribute {name!r}{hint}"


def missing_in_run(name: str, known: list[str]) -> str:
    """Why a run has no such attribute, and what it may be called here."""
    if name in OF_A_RUN:
        hint = f"; expected run.{OF_A_RUN[name]}"
    else:
        hint = did_you_mean(name, [each for each in known if not each.startswith("_")])
    return f"'Run' object has no attribute {name!r}{hint}"


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
