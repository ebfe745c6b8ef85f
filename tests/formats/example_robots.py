"""The URDF files of pip's `example-robot-data`, and what Pinocchio computes from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np

from nlink import Description, Friction, Robot
from nlink.formats.exchange import Exchange
from nlink.formats.load import load_description
from nlink.testing.samples import EPS, difference, torque_scale

BAR = 1e-10
"""The relative difference allowed."""

EXPLAINED = {
    "ur_description/ur3": "an empty <robot>: xacro was given no macro to expand",
}
"""Files that are no robot, and why."""


def example_files() -> dict[str, Path]:
    """Every URDF that the package ships, by folder and name; empty if it is not installed."""
    try:
        found = files("example-robot-data") or []
    except PackageNotFoundError:
        return {}
    paths = sorted(Path(str(f.locate())) for f in found if f.name.endswith(".urdf"))
    return {f"{path.parents[1].name}/{path.stem}": path for path in paths}


@dataclass(frozen=True)
class Twin:
    """A robot here and the same file in Pinocchio."""

    robot: Robot
    model: Any
    data: Any
    exchange: Exchange

    @classmethod
    @cache
    def of(cls, path: Path, floating: bool) -> Twin:
        """Pinocchio's dynamics know no friction: the robot has none."""
        import pinocchio as pin

        description = load_description(path, physical="ignore", floating=floating)
        root = (pin.JointModelFreeFlyer(),) if floating else ()
        model = pin.buildModelFromUrdf(str(path), *root)
        return cls(Robot(_smooth(description)), model, model.createData(),
                   Exchange.pinocchio(description, model))


def _smooth(description: Description) -> Description:
    return replace(description, joints=tuple(
        replace(joint, friction=Friction()) for joint in description.joints))


def state(robot: Robot, seed: int) -> tuple[np.ndarray, ...]:
    """q, qd, qdd at random; limits are left alone, since a robot may be still within them."""
    free = replace(robot.description, joints=tuple(
        replace(joint, limits=type(joint.limits)()) for joint in robot.joints))
    rng = np.random.default_rng(seed)
    q, qd = Robot(free).random_state(rng)
    return q, qd, rng.normal(size=robot.n)


def residuals(twin: Twin, seed: int, engine: str, frames: int = 4) -> dict[str, float]:
    """Relative differences of all that both compute, in one random state.

    Forward dynamics is compared as the joint force its difference is worth, and as it is, where
    the condition of M (1e7 for iCub) leaves that many digits.
    """
    import pinocchio as pin

    robot, model, data, x = twin.robot, twin.model, twin.data, twin.exchange
    how: dict[str, Any] = {"engine": engine}
    q, qd, qdd = state(robot, seed)
    theirs = x.q(q), x.v(q, qd), x.a(q, qd, qdd)
    tau = x.tau_back(q, pin.rnea(model, data, *theirs))
    upper = np.triu(pin.crba(model, data, theirs[0]))
    M = x.M_back(q, upper + np.triu(upper, 1).T)
    weight = torque_scale(robot)
    found = {
        "inverse dynamics": difference(robot.inverse_dynamics(q, qd, qdd, **how), tau, weight),
        "mass matrix": difference(robot.mass_matrix(q, **how), M),
    }
    condition = np.linalg.cond(M) if robot.n else np.inf
    if condition < 1e12:
        a = x.a_back(q, qd, pin.aba(model, data, *theirs[:2], x.tau(q, tau)))
        ours = robot.forward_dynamics(q, qd, tau, **how)
        found["forward dynamics"] = difference(M @ (ours - a), 0.0, np.abs(tau).max(), weight)
        found["accelerations"] = difference(ours, a) * BAR / max(BAR, condition * EPS)
    found |= _frame_residuals(twin, q, theirs[0], how, frames, seed)
    if robot.n:
        c = pin.centerOfMass(model, data, theirs[0])
        if np.isfinite(c).all():
            found["centre of mass"] = difference(robot.center_of_mass(q, **how), c, 1e-3)
    return found


def _frame_residuals(twin: Twin, q: np.ndarray, theirs: np.ndarray, how: dict[str, Any],
                     frames: int, seed: int) -> dict[str, float]:
    """Poses of every link, Jacobians of some."""
    import pinocchio as pin

    robot, model, data, x = twin.robot, twin.model, twin.data, twin.exchange
    pin.framesForwardKinematics(model, data, theirs)
    names = sorted(link.name for link in robot.links)
    chosen = np.random.default_rng(seed).permutation(names)[:frames]
    poses, jacobians = [0.0], [0.0]
    for name in chosen.tolist():
        number = model.getBodyId(name)
        poses.append(difference(robot.pose(q, name, **how), data.oMf[number].homogeneous))
        J = pin.computeFrameJacobian(model, data, theirs, number, pin.LOCAL_WORLD_ALIGNED)
        ours = x.J(q, robot.jacobian(q, name, **how))
        jacobians.append(difference(ours, np.vstack([J[3:], J[:3]]), 1.0))
    return {"frames": max(poses), "Jacobians": max(jacobians)}
