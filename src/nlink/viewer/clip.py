"""A clip: some trajectories of a run as frames to be shown, with curves and forces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nlink.model.names import visible
from nlink.viewer.scene import Scene

if TYPE_CHECKING:
    from nlink.robot import Robot
    from nlink.simulation.run import Run

Array = np.ndarray
FRAMES = 600
"""The most frames of a trajectory; between two of them a page interpolates."""
TRAJECTORIES = 8
"""The most trajectories of an ensemble."""
USUAL = 0.95
"""The share of all forces that are drawn to scale at least."""
CURVES = 12
"""The most coordinates whose curves are drawn."""


@dataclass(frozen=True)
class Clip:
    """Frames of a motion, (trajectories, frames, ...)."""

    scene: Scene
    title: str
    t: Array
    q: Array
    places: Array
    """(trajectories, frames, links + 1, 4, 4)."""
    trace: Array
    """Where a frame goes, (trajectories, frames, 3)."""
    traced: str
    energy: Array
    """nan where a trajectory has ended."""
    curves: dict[str, Array]
    """Coordinates by name, (trajectories, frames)."""
    forces: Array
    """The forces of loops and contacts, in world axes, (trajectories, frames, forces, 3)."""
    points: Array
    """Where they act, (trajectories, frames, forces, 3)."""
    total: int
    """How many trajectories the run has."""
    status: list[str]

    @property
    def arrows(self) -> Array:
        """The forces as lengths that are drawn: a force that few exceed is a third of the robot's
        size, and none is longer than twice that, as impacts would be."""
        sizes = np.linalg.norm(self.forces, axis=-1)
        usual = np.quantile(sizes[sizes > 0], USUAL) if (sizes > 0).any() else 1.0
        most = np.minimum(sizes, 2 * usual) / np.where(sizes > 0, sizes, 1.0)
        return self.forces * (most * 0.35 * self.scene.size / usual)[..., None]

    @classmethod
    def of(cls, run: Run, *, frame: int | str = -1, trajectories: int = TRAJECTORIES,
           frames: int = FRAMES, packages: Sequence[str | Path] = (), robot: Robot | None = None,
           scene: Scene | None = None) -> Clip:
        """The first trajectories of a run; `robot` is drawn instead of the run's own, which has
        no shapes if it comes from a file."""
        if not run.status_codes.size:
            raise ValueError(f"run: of {run.robot.name} has no trajectories to show")
        if trajectories < 1:
            raise ValueError(f"trajectories: {trajectories}, expected at least 1")
        drawn = run.robot if robot is None else robot
        if drawn.nq != run.robot.nq:
            raise ValueError(f"robot: {drawn.name} has {drawn.nq} coordinates, expected "
                             f"{run.robot.nq} as {run.robot.name}")
        scene = scene or Scene.of(drawn, packages)
        piece = next(run.pieces(trajectories))
        picked = np.unique(np.linspace(0, len(run.t) - 1, min(frames, len(run.t))).astype(int))
        q = _held(np.asarray(piece.q)[:, picked])
        places = scene.places(q)
        with np.errstate(all="ignore"):
            energy = np.asarray(piece.energy)[:, picked]
        forces, points = _forces(piece, picked, places)
        trace = drawn.pose(q, frame)[..., :3, 3]
        name = frame if isinstance(frame, str) else _frame_name(drawn, frame)
        return cls(scene, visible(run.robot.name), run.t[picked], q, places, trace, visible(name),
                   energy, _curves(drawn, np.asarray(piece.q)[:, picked]), forces, points,
                   int(run.status_codes.size), [str(x) for x in np.ravel(piece.status)])


def _forces(run: Run, picked: Array, places: Array) -> tuple[Array, Array]:
    """The forces of loops and contacts at some of the times, and where they act."""
    loops, none = run.robot.description.loops, np.zeros((*places.shape[:2], 0, 3))
    forces, points = [none], [none]
    if loops:
        forces.append(run.closure_forces[:, picked][..., 3:])
        points.append(np.stack([(places[..., loop.of.link, :, :] @ loop.of.pose.matrix)[..., :3, 3]
                                for loop in loops], axis=2))
    for contact in run.contacts.values():
        forces.append(contact.force[:, picked, None])
        points.append(contact.point[:, picked, None])
    return (np.nan_to_num(np.concatenate(forces, axis=2)),
            np.nan_to_num(np.concatenate(points, axis=2)))


def _held(q: Array) -> Array:
    """States with the last that is known where there is none."""
    q = np.array(q)
    known = np.isfinite(q).all(axis=-1)
    last = np.maximum.accumulate(np.where(known, np.arange(q.shape[1]), 0), axis=1)
    held = np.take_along_axis(q, last[..., None], axis=1)
    return np.nan_to_num(held)


def coordinate_names(robot: Robot) -> list[str]:
    """A name for each coordinate: the joint's, numbered where it has several."""
    return [visible(joint.name) if joint.type.nq == 1 else f"{visible(joint.name)} {k + 1}"
            for joint in robot.joints for k in range(joint.type.nq)]


def _curves(robot: Robot, q: Array) -> dict[str, Array]:
    names = coordinate_names(robot)
    return {names[k]: q[..., k] for k in range(min(CURVES, len(names)))}


def _frame_name(robot: Robot, frame: int) -> str:
    names = [robot.description.base, *(link.name for link in robot.links)]
    return names[frame]
