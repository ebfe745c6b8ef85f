"""Peers of `nlink bench` that read a URDF file and are called from Python, where installed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree  # of what was written here

import numpy as np

from nlink.bench.timing import Bench, adder, best_call, caller
from nlink.formats.urdf_writer import to_urdf
from nlink.model.description import Description

Functions = dict[str, Callable[..., Any]]
"""What a peer computes, by our names for it: functions of one state."""


def dynibo(path: str) -> Functions:
    """Rust, called with NumPy arrays."""
    robot = import_module("dynibo").Robot.from_urdf(path)
    return {"inverse_dynamics": robot.inverse_dynamics, "forward_dynamics": robot.forward_dynamics}


def frax(path: str) -> Functions:
    """JAX, compiled for the robot; it has no inverse dynamics with accelerations."""
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    compiled = jax.jit(frax_dynamics(path))
    return {"forward_dynamics": lambda *state: compiled(*state).block_until_ready()}


def frax_dynamics(path: str) -> Callable[..., Any]:
    """frax's forward dynamics of one state, for use in JAX."""
    robot = import_module("frax").Robot(path)
    return lambda q, qd, tau: robot.forward_dynamics(q, qd, tau, None)


def toolbox(path: str) -> Functions:
    """The Robotics Toolbox for Python, written to be read."""
    robot = import_module("roboticstoolbox").Robot.URDF(path)
    return {"inverse_dynamics": robot.rne, "forward_dynamics": robot.accel}


URDF_PEERS: dict[str, tuple[str, Callable[[str], Functions]]] = {
    "dynibo": ("dynibo call", dynibo), "frax": ("frax call", frax),
    "roboticstoolbox-python": ("Robotics Toolbox call", toolbox)}
"""By package: the method's name in the bench, and how its functions are made."""


def _with_heavy_base(urdf: str) -> str:
    """The same robot with a mass in its base, which does not move: frax asks for one."""
    robot = ElementTree.fromstring(urdf)
    carried = {child.get("link") for child in robot.iter("child")}
    for link in robot.iter("link"):
        if link.get("name") not in carried and link.find("inertial") is None:
            inertial = ElementTree.SubElement(link, "inertial")
            ElementTree.SubElement(inertial, "mass", value="1.0")
            moments = {f"i{axes}": str(float(axes[0] == axes[1]))
                       for axes in ("xx", "xy", "xz", "yy", "yz", "zz")}
            ElementTree.SubElement(inertial, "inertia", moments)
    return ElementTree.tostring(robot, encoding="unicode")


@contextmanager
def urdf_file(description: Description) -> Iterator[str]:
    """The path of a file that all of these peers can read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.urdf"
        path.write_text(_with_heavy_base(to_urdf(description)), encoding="utf-8")
        yield str(path)


def bench_urdf_peers(bench: Bench, description: Description,
                     inputs: dict[str, Sequence[np.ndarray]], seconds: float) -> None:
    """Calls of every peer that is installed; one that fails is named among what is missing."""
    with urdf_file(description) as path:
        for package, (method, functions) in URDF_PEERS.items():
            if package in bench.missing:
                continue
            try:
                for what, function in functions(path).items():
                    few = [[x[k].copy() for x in inputs[what]] for k in range(8)]
                    adder(bench, description.name, what)(
                        method, best_call(caller(function, few), len(few), seconds))
            except Exception as error:  # whatever a peer raises is its own affair
                bench.missing.append(f"{package} for {description.name} ({error!s:.60})")
