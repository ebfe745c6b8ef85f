"""`nlink.gym.VectorEnv`: thousands of robots as one environment of Gymnasium."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike

from nlink.gym.acting import LearnersTask
from nlink.gym.draws import draw, is_draw
from nlink.gym.learners_robots import LearnersRobots
from nlink.gym.pictures_of_robots import Cameraman
from nlink.gym.starts import Start
from nlink.robot import Robot, expect_robot
from nlink.simulation.run import MESSAGES
from nlink.simulation.sampled_robots import WAITING
from nlink.simulation.setting import PHYSICS, Physics, setting, whole_number

Array = np.ndarray
Info = dict[str, Any]
FRAMES = 30
"""Pictures a second, at most."""


class VectorEnv(gymnasium.vector.VectorEnv):
    """Robots that learn: `num_envs` copies of one task, stepped by compiled code.

    `observation`, `reward` and `termination` are functions of t, q, qd, the action and p (what
    `vary` gives under that name), or of the first of these, written like a controller: with
    + - * / and the functions of nlink, and they may call the robot's methods. They see the state at
    the end of a step. `termination` gives a truth, such as `nlink.less(a, b)`.

    An action is (`action_size`,) numbers between -1 and 1, by default one for each joint force;
    what is beyond that is clipped.
    `forces` is a function of the same arguments that gives the joint forces (n,), at all times
    between two actions; if not given, an action is that share of the joint's effort limit.

    A step is `frame_skip` steps of `step` seconds by `method`. `q` and `qd` are where robots start:
    arrays, or draws: `nlink.gym.Uniform(low, high)` and other distributions of `nlink.studies`, or
    functions of a generator of random numbers and a count. `reset` is a traced function of q, qd
    and p that makes the state to start from of what was drawn. `vary` is that of `nlink.simulate`,
    one value for each robot, or draws: payloads, friction, inertias, p. `pushes` are wrenches on
    links that are drawn at resets, and every `push_every` steps. `f_ext`, `limits`, `friction`,
    `contact` and the other physics are those of `nlink.simulate`.

    Episodes are cut after `max_episode_steps`. A robot whose step fails stays where it was, its
    episode ends, `failures` counts it, and infos["failed"] says which one it is; a reward that is
    not finite there is 0.

    >>> import nlink, numpy as np
    >>> from nlink.gym import Uniform, VectorEnv
    >>> robot = nlink.load("double_pendulum")
    >>> envs = VectorEnv(robot, 100, observation=lambda t, q, qd: [nlink.sin(q[0]), q[1], *qd],
    ...                  reward=lambda t, q, qd, action: -q @ q - 0.01 * action @ action,
    ...                  forces=lambda t, q, qd, action: 5.0 * action, step=0.01,
    ...                  q=Uniform([-0.1, -0.1], [0.1, 0.1]), max_episode_steps=200)
    >>> seen, infos = envs.reset(seed=0)
    >>> seen, rewards, ended, cut, infos = envs.step(np.zeros((100, 2)))
    >>> seen.shape, seen.dtype, rewards.shape
    ((100, 4), dtype('float32'), (100,))
    """

    def __init__(self, robot: Robot, num_envs: int = 1, *, observation: Callable[..., Any],
                 reward: Callable[..., Any], termination: Callable[..., Any] | None = None,
                 forces: Callable[..., Any] | None = None, action_size: int | None = None,
                 q: Any = None, qd: Any = None, reset: Callable[..., Any] | None = None,
                 vary: Mapping[str, Any] | None = None, f_ext: Mapping[str, Any] | None = None,
                 pushes: Mapping[str, Any] | None = None, push_every: int | None = None,
                 step: float = 0.01, frame_skip: int = 1, method: str = "semi_implicit",
                 max_episode_steps: int | None = None,
                 autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
                 render_mode: str | None = None, friction: str = "smooth", width: float = 1e-3,
                 limits: str = "ignore",
                 restitution: float | None = None, contact: str = "rigid",
                 algorithm: str | None = None, physics: Physics | None = None,
                 threads: int | None = None) -> None:
        expect_robot(robot)
        self.num_envs = whole_number("num_envs", num_envs)
        if not (np.ndim(step) == 0 and np.isfinite(step) and step > 0):
            raise ValueError(f"step: {step!r:.60}, expected a positive number of seconds")
        self._every = None if push_every is None else whole_number("push_every", push_every)
        self._longest = None if max_episode_steps is None else whole_number(
            "max_episode_steps", max_episode_steps)
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            known = ", ".join(repr(mode.value) for mode in AutoresetMode)
            raise ValueError(f"autoreset_mode: {autoreset_mode!r}, expected one of {known}"
                             ) from None
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode: {render_mode!r}, expected 'rgb_array' or None")
        physics = setting(physics, PHYSICS, friction=friction, width=width, limits=limits,
                          restitution=restitution, contact=contact, algorithm=algorithm)
        self.robot, self.render_mode, self.failures = robot, render_mode, 0
        size = robot.n if action_size is None else whole_number("action_size", action_size)
        skip, vary = whole_number("frame_skip", frame_skip), dict(vary or {})
        task = LearnersTask(size, forces or _shares(robot, size), observation, reward, termination)
        if "p" in vary:
            given = vary["p"]
            p = draw(given, np.random.default_rng(0), 1) if is_draw(given) else np.asarray(given)
            parameters = p.shape[-1] if p.ndim else 1
        else:
            parameters = 0
        start = Start(robot, q, qd, reset, parameters)
        self._robots = LearnersRobots(
            robot, self.num_envs, task, start, vary, pushes or {}, f_ext or {}, physics, method,
            float(step), skip, threads, np.random.default_rng(0))
        self.step_seconds = skip * float(step)
        self.metadata = {"render_modes": ["rgb_array"], "autoreset_mode": self.autoreset_mode,
                         "render_fps": max(1, min(FRAMES, round(1 / self.step_seconds)))}
        self._spaces(size)
        self._elapsed = np.zeros(self.num_envs, np.int64)
        self._over = np.zeros(self.num_envs, bool)
        self._cameraman: Cameraman | None = None
        self._begun = False

    def _spaces(self, size: int) -> None:
        Box, count = gymnasium.spaces.Box, self.num_envs
        self.single_observation_space = Box(-np.inf, np.inf, (self._robots.width,), np.float32)
        self.single_action_space = Box(-1.0, 1.0, (size,), np.float32)
        self.observation_space = Box(-np.inf, np.inf, (count, self._robots.width), np.float32)
        self.action_space = Box(-1.0, 1.0, (count, size), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None,
              ) -> tuple[Array, Info]:
        """Observations of robots that start anew: of all, or of those that
        options["reset_mask"] selects. `seed` decides all that is drawn from then on."""
        if seed is not None and not isinstance(seed, int | np.integer):
            raise TypeError(f"seed: a {type(seed).__name__}, expected a whole number: one seed "
                            "decides what all robots draw")
        super().reset(seed=seed)
        mask = np.ones(self.num_envs, bool)
        if options and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"])
            if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
                raise ValueError(f"options: reset_mask of shape {mask.shape} and dtype "
                                 f"{mask.dtype}, expected {self.num_envs} truths, not all False")
        self._restart(np.flatnonzero(mask))
        self._begun = True
        seen, _, _ = self._robots.told()
        return seen, {}

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Array, Array, Info]:
        """One step of all robots under actions (num_envs, action_size): observations, rewards,
        which episodes have ended, which were cut, and infos."""
        actions, robots, over = self._checked(actions), self._robots, self._over
        resting = None
        if over.any():
            if self.autoreset_mode is AutoresetMode.DISABLED:
                raise ValueError(f"step: the episode of robot {int(np.argmax(over))} has ended, "
                                 'expected reset(options={"reset_mask": ended}) before')
            if self.autoreset_mode is AutoresetMode.NEXT_STEP:
                resting = over
        seen, rewards, ended = robots.act(actions, resting)
        infos: Info = {}
        failed = robots.failed
        self._elapsed += 1
        if resting is not None:
            failed = failed & ~resting
            rows = np.flatnonzero(resting)
            self._restart(rows)
            seen[rows], _, _ = robots.told(rows)
            rewards[rows], ended[rows] = 0.0, False
        elif self._every is not None:
            rows = np.flatnonzero(self._elapsed % self._every == 0)
            robots.push(rows, self.np_random)
        if failed.any():
            self.failures += int(failed.sum())
            ended |= failed
            seen[failed] = np.nan_to_num(seen[failed])
            rewards[failed] = np.where(np.isfinite(rewards[failed]), rewards[failed], 0.0)
            infos["failed"] = infos["_failed"] = failed
        cut = np.zeros(self.num_envs, bool) if self._longest is None else (
            self._elapsed >= self._longest)
        self._over = over = ended | cut
        if self.autoreset_mode is AutoresetMode.SAME_STEP and over.any():
            self._finish(seen, over, infos)
        return seen, rewards, ended, cut, infos

    def _finish(self, seen: Array, over: Array, infos: Info) -> None:
        """Start anew the robots whose episodes are over, within the step."""
        rows = np.flatnonzero(over)
        last = np.full(self.num_envs, None, object)
        for k in rows:
            last[k] = seen[k].copy()
        final = {name: value for name, value in infos.items() if not name.startswith("_")}
        infos |= {"final_obs": last, "_final_obs": over.copy(), "_final_info": over.copy(),
                  "final_info": final | {f"_{name}": value & over
                                         for name, value in final.items()}}
        self._restart(rows)
        seen[rows], _, _ = self._robots.told(rows)

    def _restart(self, rows: Array) -> None:
        self._robots.restart(rows, self.np_random)
        self._elapsed[rows] = 0
        self._over[rows] = False

    def _checked(self, actions: ArrayLike) -> Array:
        if not self._begun:
            raise ValueError("step: before the first reset, expected reset() to be called first")
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions: shape {actions.shape}, expected {self.action_space.shape}")
        return actions

    @property
    def q(self) -> Array:
        """Coordinates of all robots, (num_envs, nq)."""
        return self._robots.robots.y[:, :self.robot.nq].copy()

    @property
    def qd(self) -> Array:
        """Rates of all robots, (num_envs, n)."""
        nq = self.robot.nq
        return self._robots.robots.y[:, nq:nq + self.robot.n].copy()

    @property
    def status(self) -> Array:
        """"running", or why a robot no longer moves, which its next reset mends."""
        return np.array(["running" if code == WAITING else MESSAGES[int(code)]
                         for code in self._robots.robots.status], object)

    def render(self) -> tuple[Array, ...] | None:
        """Pictures (height, width, 3) of all robots, if `render_mode` is "rgb_array"."""
        if self.render_mode is None:
            raise ValueError("render_mode: None, expected render_mode='rgb_array' when the "
                             "environment is made")
        if self._cameraman is None:
            self._cameraman = Cameraman(self.robot, self.q[0])
        return tuple(map(self._cameraman.picture, self.q))

    def close_extras(self, **kwargs: Any) -> None:
        """Nothing is left open."""

    def __repr__(self) -> str:
        ends = "" if self._longest is None else f", {self._longest} steps"
        return (f"<VectorEnv of {self.num_envs} {self.robot.name}: observation of "
                f"{self._robots.width}, action of {self._robots.task.size}, "
                f"{self.step_seconds:g} s a step{ends}>")


def _shares(robot: Robot, size: int) -> Callable[..., Any]:
    """Joint forces as shares of the limits of effort."""
    limits = np.asarray(robot.limits.effort, float)
    if size != robot.n or not np.isfinite(limits).all():
        without = [k for k in range(len(limits)) if not np.isfinite(limits[k])]
        what = f"action_size: {size}" if size != robot.n else (
            f"forces: None, and rate {without[0]} of {robot.name} has no effort limit")
        raise ValueError(f"{what}, expected forces, a function of t, q, qd, action that gives the "
                         f"{robot.n} joint forces")
    return lambda t, q, qd, action: limits * action
