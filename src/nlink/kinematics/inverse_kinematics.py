"""`nlink.ik`: configurations that fulfil tasks, for many targets at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.kernels import kept
from nlink.iterations.descent import OUTCOME, REPORTED, Descent
from nlink.iterations.iteration import Shape, new_records
from nlink.iterations.recording import Gives, record
from nlink.kinematics.steps import Reaching
from nlink.kinematics.tasks import (
    ReachPose,
    ReachPosition,
    Task,
    couplings,
    expect_positive,
)
from nlink.model.joints import Revolute
from nlink.programs.keys import key
from nlink.robot import Robot, expect_robot
from nlink.scalars.arrays import batch

if TYPE_CHECKING:
    from nlink.backends.llvm.kernel import Compiled
    from nlink.backends.llvm.process_kernel import ProcessKernel

Array = np.ndarray
SLICE = 0.1
"""Seconds of work between looks at the keyboard."""


@dataclass(frozen=True, eq=False)
class Reached:
    """The result of inverse kinematics, over the leading shape of the targets.

    `status` says how each search ended: "solved"; "stationary", at a point where no small step
    comes closer; "not converged"; or "not finite". `error` is the largest remaining distance (m) or
    angle (rad), `distance` and `angle` are the largest of each kind, `iterations` and `starts` say
    how many were needed.
    """

    q: Array
    distance: Array
    angle: Array
    status: Array
    iterations: Array
    starts: Array

    @property
    def error(self) -> Array:
        return np.maximum(self.distance, self.angle)

    @property
    def solved(self) -> Array:
        return self.status == "solved"

    def __repr__(self) -> str:
        names, counts = np.unique(self.status, return_counts=True)
        ends = ", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True))
        short = "" if self.solved.all() else (
            f"; out of reach, or not found: {np.nanmax(self.distance[~self.solved]):.3g} m and "
            f"{np.nanmax(self.angle[~self.solved]):.3g} rad are left")
        return f"<Reached: {ends or 'no targets'}{short}>"

    def __bool__(self) -> bool:
        """Whether every target was reached.

        >>> import nlink
        >>> bool(nlink.load("planar3").ik([9.0, 0.0, 0.0]))
        False
        """
        return bool(self.solved.all())


def ik(robot: Robot, target: ArrayLike | None = None, frame: int | str = -1,
       q0: ArrayLike | None = None, *, tasks: Sequence[Task] | Task = (),
       posture: ArrayLike | None = None, tolerance: float = 1e-6,
       angle_tolerance: float | None = None, limits: bool = True, starts: int = 100,
       threads: int | None = None) -> Reached:
    """Configurations in which a frame is at a target.

    `target` is a pose (..., 4, 4) or a point (..., 3) for `frame`; `tasks` may be added to it, or
    replace it. A solution has errors of at most `tolerance` (m, and rad unless `angle_tolerance`
    says otherwise) and is within the limits of the joints. The search begins at `q0` if given, then
    at up to `starts` points spread over the joints' ranges. With a `posture`, joints that the tasks
    leave free come as close to it as they can.

    For a target that cannot be reached, the result is the best stationary point found of the sum of
    squares (of radians, and lengths over a quarter of the robot's length). Results depend on the
    target alone: not on the others of a batch, their order, or the number of threads.

    >>> import nlink, numpy as np
    >>> robot = nlink.load("panda")
    >>> T = robot.pose([0.3, -0.5, 0.2, -2.0, 0.1, 1.8, 0.5])
    >>> found = nlink.ik(robot, T)
    >>> found
    <Reached: 1 solved>
    >>> bool(np.allclose(robot.pose(found.q), T, atol=2e-6))
    True
    """
    expect_robot(robot)
    wanted = [*_main_task(target, frame), *([tasks] if isinstance(tasks, Task) else tasks)]
    if not wanted:
        raise ValueError("target: None and no tasks, expected a pose (..., 4, 4), a point "
                         "(..., 3), or tasks")
    for task in wanted:
        if not isinstance(task, Task):
            raise TypeError(f"tasks: a {type(task).__name__}, expected tasks such as "
                            "nlink.ReachPose")
    wanted += couplings(robot)
    if not robot.n:
        raise ValueError(f"robot: no joint of {robot.name} moves, expected one that does")
    for name, value in (("tolerance", tolerance), ("angle_tolerance", angle_tolerance)):
        if value is not None:
            expect_positive(name, value)
    expect_count("starts", starts)
    if threads is not None:
        expect_count("threads", threads)
    problem = Reaching(robot, tuple(wanted), posture is not None, bool(limits))
    turned = tolerance if angle_tolerance is None else angle_tolerance
    numbers = [task.numbers for task in wanted]
    numbers.append(np.array([1 / tolerance, 1 / turned]))
    if posture is not None:
        numbers.append(batch("posture", posture, (robot.nq,)))
    first = None if q0 is None else batch("q0", q0, (robot.nq,))
    try:
        lead = np.broadcast_shapes(*(x.shape[:-1] for x in numbers), *(
            () if first is None else (first.shape[:-1],)))
    except ValueError:
        shapes = ", ".join(str(x.shape[:-1]) for x in numbers)
        raise ValueError(f"target: the leading shapes {shapes} of tasks, posture and q0 do not "
                         "broadcast, expected shapes that do") from None
    own = np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in numbers], axis=-1)
    return _solve(problem, own.reshape(-1, own.shape[-1]), first, lead, starts, threads)


def ik_all(robot: Robot, target: ArrayLike, frame: int | str = -1, *, starts: int = 500,
           tolerance: float = 1e-6, apart: float = 1e-3, limits: bool = True) -> Array:
    """All configurations (k, nq) in which a frame is at one pose, of an arm that has finitely many.

    The search descends from each of `starts` points spread over the joints' ranges; two solutions
    count as one if no coordinate differs by more than `apart`, up to whole turns. A redundant arm
    has infinitely many solutions, of which this returns those it found.

    >>> import nlink
    >>> robot = nlink.load("puma560")
    >>> len(nlink.ik_all(robot, robot.pose([0.3, -0.5, 0.2, 0.4, 0.6, 0.5])))
    8
    """
    expect_robot(robot)
    task = next(iter(_main_task(target, frame)), None)
    if task is None or task.numbers.ndim != 1:
        raise ValueError(f"target: shape {np.shape(target)}, expected one pose or point")
    expect_count("starts", starts)
    expect_positive("apart", apart)
    problem = Reaching(robot, (task,), posture=False, limited=bool(limits))
    lower, upper = problem.ranges()
    spread = np.random.default_rng(0).random((starts, robot.n))
    points = robot.mechanism.space.integrate(
        robot.mechanism.space.neutral, tuple((lower + (upper - lower) * spread).T))
    q0 = np.stack(np.broadcast_arrays(*points), axis=-1)
    found = ik(robot, target, frame, q0, tolerance=tolerance * 1e-3, limits=limits, starts=1)
    angles = np.array([isinstance(joint.type, Revolute) for joint in robot.mechanism.joints
                       for _ in range(joint.type.nv)])
    kept: list[Array] = []
    for q in found.q[found.solved]:
        if not (kept and _close(robot, q, np.array(kept), apart, angles).any()):
            kept.append(q)
    return np.array(kept).reshape(-1, robot.nq)


def _close(robot: Robot, q: Array, others: Array, apart: float, angles: Array) -> Array:
    """Which configurations (k, nq) are q, whole turns not counted; q and -q are one rotation."""
    away = robot.mechanism.space.difference(tuple(q), tuple(others.T))
    d = np.abs(np.stack(np.broadcast_arrays(*away), axis=-1))
    d = np.where(angles, np.abs((d + np.pi) % (2 * np.pi) - np.pi), d)
    return d.max(axis=-1, initial=0.0) <= apart


def _main_task(target: ArrayLike | None, frame: int | str) -> list[Task]:
    if target is None:
        return []
    array = np.asarray(target)
    if array.shape[-2:] == (4, 4):
        return [ReachPose(target, frame)]
    if array.shape[-1:] == (3,):
        return [ReachPosition(target, frame)]
    raise ValueError(f"target: shape {array.shape}, expected poses (..., 4, 4) or points (..., 3)")


def expect_count(name: str, number: object) -> None:
    """Refuse what is no whole number from 1."""
    if isinstance(number, bool) or not (isinstance(number, int | np.integer) and number >= 1):
        raise ValueError(f"{name}: {number!r:.80}, expected a whole number from 1")


def _solve(problem: Reaching, own: Array, first: Array | None, lead: tuple[int, ...], starts: int,
           threads: int | None) -> Reached:
    from nlink.backends.llvm.host import host
    from nlink.backends.llvm.threads import threads as allowed

    robot, count = problem.robot, len(own)
    width = host().target.width if count > 2 else 2
    descent = _descent(problem)
    kinds = tuple(task.kind for task in problem.tasks)
    kernel = kept(robot, ("ik", kinds, problem.posture, problem.limited, width),
                  lambda: _kernel(problem, width))
    records = new_records(count, descent.layout, problem.size, problem.own)
    records["own"] = own
    if first is not None:
        space = robot.mechanism.space
        flat = np.broadcast_to(first, (*lead, robot.nq)).reshape(-1, robot.nq)
        lower, upper = problem.bounds()
        flat = np.stack(space.normalize(tuple(flat.T)), axis=-1)
        for k, place in enumerate(problem.flat_places()):
            if place is not None:
                flat[:, place] = np.clip(flat[:, place], lower[k], upper[k])
        records["y"][:, :robot.nq], records["fresh"] = flat, 0.0
    while (records["status"] == OUTCOME["running"]).any():
        kernel.run(records, {"start_limit": starts}, budget=SLICE,
                   threads=allowed() if threads is None else threads)
    names = {number: name for name, number in OUTCOME.items()}
    best = records["best"].copy()
    best[records["status"] == OUTCOME["not finite"]] = np.nan
    distance, angle = (best[:, robot.nq + REPORTED.index(name)] for name in ("distance", "angle"))
    found = {"q": best[:, :robot.nq].reshape(*lead, robot.nq), "angle": angle.reshape(lead),
             "distance": distance.reshape(lead),
             "status": np.array([names[x] for x in records["status"].tolist()]).reshape(lead),
             "iterations": records["steps"].astype(int).reshape(lead),
             "starts": records["starts"].astype(int).reshape(lead) + 1}
    return Reached(**found)


def _descent(problem: Reaching) -> Descent:
    return Descent(problem.robot.nq, settles=problem.posture)


def _kernel(problem: Reaching, width: int) -> ProcessKernel:
    from nlink.backends.llvm.loading import load_compiled
    from nlink.backends.llvm.process_kernel import ProcessKernel

    programs, descent = problem.programs(), _descent(problem)
    recorded = record(descent, dict.fromkeys(programs, Gives()))
    shape = Shape(problem.size, own=problem.own, coordinates=problem.robot.nq)

    def compile_now() -> Compiled:
        from nlink.backends.llvm.lanes import compile_iteration

        return compile_iteration(recorded, programs, shape, width, evaluations=1)

    return load_compiled(key("descent", width, recorded.parts(), shape, programs), compile_now,
                         ProcessKernel)
