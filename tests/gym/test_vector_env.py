"""Environments against Stepper, against Gymnasium's own vector of single ones, and refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import nlink  # noqa: E402
import nlink.gym  # noqa: E402
from nlink.gym import Env, Normal, Uniform, VectorEnv  # noqa: E402
from nlink.testing.mechanisms import random_robot  # noqa: E402

COUNT = 19  # two vectors and a rest


def seen(t, q, qd, action):
    return [nlink.sin(q[0]), *qd, t]


def paid(t, q, qd, action):
    return -(qd @ qd) - action @ action


def pushed(t, q, qd, action):
    return 3.0 * action


def arm(**options):
    arguments = {"observation": seen, "reward": paid, "forces": pushed, "step": 0.01,
                 "q": Normal([0.1, 0.2], 0.1), "qd": Uniform([-0.5, -0.5], [0.5, 0.5])} | options
    return VectorEnv(nlink.load("double_pendulum"), **({"num_envs": COUNT} | arguments))


@pytest.mark.parametrize("method", ["semi_implicit", "rk4"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_step_is_the_one_of_stepper(seed, method):
    """The same bits; what is told is what the functions say of the state."""
    robot, rng = random_robot(seed, 4), np.random.default_rng(seed)
    q = robot.neutral
    envs = VectorEnv(robot, COUNT, observation=lambda t, q, qd, action: [*q, *qd, t],
                     reward=lambda t, q, qd, action: robot.pose(q)[2, 3] + action @ qd,
                     forces=lambda t, q, qd, action: action, step=0.004, method=method,
                     q=q, qd=Uniform([-1.0] * robot.n, [1.0] * robot.n))
    seen, _ = envs.reset(seed=seed)
    world = nlink.Stepper(robot, envs.q, envs.qd, step=0.004, method=method, friction="smooth")
    assert seen.dtype == np.float32
    assert seen.flags.c_contiguous
    np.testing.assert_array_equal(seen[:, :-1], np.hstack([envs.q, envs.qd]).astype(np.float32))
    for _ in range(5):
        actions = rng.uniform(-1, 1, (COUNT, robot.n))
        last, (seen, rewards, ended, cut, infos) = seen, envs.step(actions)
        world.step(actions)
        np.testing.assert_array_equal(envs.q, world.q)
        np.testing.assert_array_equal(envs.qd, world.qd)
        assert not np.shares_memory(last, seen)
        told = np.hstack([world.q, world.qd, world.t[:, None]])
        np.testing.assert_array_equal(seen, told.astype(np.float32))
        paid = robot.pose(world.q)[:, 2, 3] + (actions * world.qd).sum(axis=1)
        np.testing.assert_allclose(rewards, paid, rtol=1e-12, atol=1e-12)
        assert not (ended.any())
        assert not (cut.any())
        assert not infos


def test_frame_skip_is_so_many_steps_under_one_action():
    envs, fine = arm(frame_skip=5), arm()
    envs.reset(seed=3)
    fine.reset(seed=3)
    actions = np.random.default_rng(0).uniform(-1, 1, (COUNT, 2))
    envs.step(actions)
    for _ in range(5):
        fine.step(actions)
    np.testing.assert_allclose(envs.q, fine.q, rtol=0, atol=1e-13)
    assert envs.step_seconds == 0.05


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_autoreset_is_that_of_gymnasium(mode):
    """Robots that always start at one state: nothing is left to chance."""
    mode = {x.name.lower(): x for x in gymnasium.vector.AutoresetMode}[mode]
    options = {"observation": seen, "reward": paid, "forces": pushed, "step": 0.05,
               "q": [0.1, 0.2], "qd": [1.0, 0.0], "max_episode_steps": 7,
               "termination": lambda t, q, qd, action: nlink.less(1.5, qd[1])}
    robot = nlink.load("double_pendulum")
    envs = VectorEnv(robot, 3, autoreset_mode=mode, **options)
    peers = gymnasium.vector.SyncVectorEnv([lambda: Env(robot, **options)] * 3,
                                           autoreset_mode=mode)
    rng, ends = np.random.default_rng(0), 0
    np.testing.assert_array_equal(envs.reset(seed=0)[0], peers.reset(seed=0)[0])
    for _ in range(30):
        actions = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        ours, theirs = envs.step(actions), peers.step(actions)
        for one, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(one, other)
        assert ours[4].keys() == theirs[4].keys()
        if "final_obs" in ours[4]:
            np.testing.assert_array_equal(ours[4]["_final_obs"], theirs[4]["_final_obs"])
            for one, other in zip(ours[4]["final_obs"], theirs[4]["final_obs"], strict=True):
                np.testing.assert_array_equal(one, other)
        ends += int((ours[2] | ours[3]).sum())
    assert ends > 5


def test_without_autoreset_robots_start_anew_where_a_mask_says():
    envs = arm(autoreset_mode="Disabled", max_episode_steps=2)
    envs.reset(seed=0)
    for _ in range(2):
        _, _, _, cut, _ = envs.step(np.zeros((COUNT, 2)))
    assert cut.all()
    with pytest.raises(ValueError, match="the episode of robot 0 has ended"):
        envs.step(np.zeros((COUNT, 2)))
    mask = np.arange(COUNT) % 2 == 0
    before = envs.q
    envs.reset(options={"reset_mask": mask})
    assert (envs.q[mask] != before[mask]).any(axis=1).all()
    np.testing.assert_array_equal(envs.q[~mask], before[~mask])


def test_a_seed_decides_everything_and_threads_nothing(monkeypatch):
    monkeypatch.setattr("nlink.simulation.sampled_robots.WORTH_A_THREAD", 1e-12)

    def rolled(threads):
        envs = arm(threads=threads, max_episode_steps=5, vary={
            "p": Uniform([0.0], [1.0]), "payload": Uniform([0.0], [1.0])})
        found = [envs.reset(seed=11)[0]]
        envs.action_space.seed(0)
        for _ in range(12):
            found.append(envs.step(envs.action_space.sample())[0])
        return np.array(found)

    np.testing.assert_array_equal(rolled(1), rolled(2))
    assert (arm().reset(seed=1)[0] != arm().reset(seed=2)[0]).any()


def test_what_varies_is_drawn_for_each_robot_and_each_episode():
    envs = arm(observation=lambda t, q, qd, action, p: p, max_episode_steps=1,
               vary={"p": Uniform([0.0, 5.0], [1.0, 6.0]), "payload": np.linspace(0, 1, COUNT)})
    first, _ = envs.reset(seed=0)
    assert len(np.unique(first[:, 0])) == COUNT
    assert (first[:, 1] >= 5).all()
    envs.step(np.zeros((COUNT, 2)))
    second = envs.step(np.zeros((COUNT, 2)))[0]
    assert (first != second).all()
    bare = arm(vary={"payload": np.zeros(COUNT)}, qd=[1.0, 0.0], q=[0.0, 0.5])
    held = arm(vary={"payload": np.linspace(0, 1, COUNT)}, qd=[1.0, 0.0], q=[0.0, 0.5])
    for each in (bare, held):
        each.reset(seed=0)
        each.step(np.ones((COUNT, 2)))
    assert (bare.q == bare.q[0]).all()
    assert len(np.unique(held.q[:, 0])) == COUNT


def test_pushes_are_wrenches_of_stepper():
    robot = nlink.load("planar3")
    envs = VectorEnv(robot, COUNT, observation=lambda t, q, qd: q, reward=lambda t, q: q[0],
                     forces=lambda t, q, qd, action: action, step=0.01,
                     pushes={robot.links[2].name: Normal([0.0] * 6, [5.0] * 6)})
    envs.reset(seed=0)
    own = envs._robots.robots.own
    world = nlink.Stepper(robot, np.zeros((COUNT, 3)), step=0.01, method="semi_implicit",
                          vary={"f_ext": {robot.links[2].name: own.copy()}})
    assert np.abs(own).max() > 5
    for _ in range(3):
        envs.step(np.zeros((COUNT, 3)))
        world.step()
    np.testing.assert_array_equal(envs.q, world.q)
    assert np.abs(envs.q).max() > 1e-4
    again = VectorEnv(robot, COUNT, observation=lambda t, q, qd: q, reward=lambda t, q: q[0],
                      forces=lambda t, q, qd, action: action, push_every=2,
                      pushes={robot.links[2].name: Normal([0.0] * 6, [5.0] * 6)})
    again.reset(seed=0)
    before = again._robots.robots.own.copy()
    again.step(np.zeros((COUNT, 3)))
    np.testing.assert_array_equal(before, again._robots.robots.own)
    again.step(np.zeros((COUNT, 3)))
    assert (before != again._robots.robots.own).all()


def test_a_reset_function_makes_the_states_to_start_from():
    envs = arm(vary={"p": Uniform([1.0, 2.0], [2.0, 3.0])},
               reset=lambda q, qd, p: (p, [0.0, nlink.cos(p[0])]))
    envs.reset(seed=5)
    p = envs._robots.parameters(slice(None))
    np.testing.assert_array_equal(envs.q, p)
    np.testing.assert_allclose(envs.qd[:, 1], np.cos(p[:, 0]), rtol=1e-14)


def test_robots_that_fail_end_their_episodes_and_are_counted():
    envs = arm(forces=lambda t, q, qd, action: 1e300 * action * action)
    envs.reset(seed=0)
    actions = np.zeros((COUNT, 2))
    actions[3] = actions[7] = 1.0
    for _ in range(3):
        seen, rewards, ended, _, infos = envs.step(actions)
        if ended.any():
            break
    assert np.flatnonzero(ended).tolist() == [3, 7] == np.flatnonzero(infos["failed"]).tolist()
    assert envs.failures == 2
    assert np.isfinite(seen).all()
    assert np.isfinite(rewards).all()
    assert (envs.status == "running").sum() == COUNT - 2
    seen, rewards, ended, _, infos = envs.step(np.zeros((COUNT, 2)))
    assert not ended.any()
    assert rewards[3] == 0.0
    assert np.abs(envs.q[3]).max() < 1
    assert not infos


@pytest.mark.slow
@pytest.mark.parametrize("name", nlink.gym.tasks)
def test_registered_tasks_pass_the_checker_of_gymnasium(name):
    if "Solo12" in name:
        try:
            nlink.gym.quadrupeds.solo12()
        except ValueError as error:
            pytest.skip(str(error))
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Box observation space m.*")
        check_env(gymnasium.make(name).unwrapped, skip_render_check=True)
    envs = gymnasium.make_vec(name, num_envs=8)
    assert envs.spec.id == name
    assert envs.num_envs == 8
    envs.reset(seed=0)
    envs.action_space.seed(0)
    total = np.zeros(8)
    for _ in range(60):
        seen, rewards, _, _, _ = envs.step(0.2 * envs.action_space.sample())
        total += rewards
        assert envs.observation_space.contains(seen)
    assert envs.failures == 0
    assert np.isfinite(total).all()
    assert len(np.unique(total)) == 8
    assert str(envs).startswith("<VectorEnv of 8")


def test_a_picture_has_the_robot_in_it():
    env = gymnasium.make("nlink/CartPoleSwingUp-v0", render_mode="rgb_array")
    env.reset(seed=0)
    image = env.render()
    assert image.shape == (240, 320, 3)
    assert image.dtype == np.uint8
    assert image.std() > 5


REFUSED = [
    ({"num_envs": 0}, "num_envs"), ({"step": 0.0}, "step: 0.0"),
    ({"autoreset_mode": "soon"}, "autoreset_mode: 'soon', expected one of 'NextStep'"),
    ({"render_mode": "human"}, "render_mode: 'human', expected 'rgb_array'"),
    ({"forces": None}, "forces: None, and rate 0 of double_pendulum has no effort limit"),
    ({"observation": lambda t, q, qd: []}, "observation: no numbers"),
    ({"reward": lambda t, q, qd: q}, "reward: 2 numbers, expected 1"),
    ({"forces": lambda t, q, qd, action: [0.0]}, "forces: 1 numbers, expected 2"),
    ({"termination": lambda t, q: q[0]}, "termination: .*expected a truth"),
    ({"observation": lambda t, q, qd, action, p: p}, "observation: a function of p, expected vary"),
    ({"q": np.zeros((3, 2))}, r"q: shape \(3, 2\), expected \(2,\), or a draw"),
    ({"q": lambda rng, count: np.zeros((count, 3))}, "q: a draw gave the shape"),
    ({"q": lambda rng, count: np.full((count, 2), np.nan)}, "q: a draw gave numbers that are not"),
    ({"reset": lambda q, qd: q}, "reset: expected a pair"),
    ({"vary": {"weight": [1.0]}}, "vary: 'weight', expected some of"),
    ({"pushes": {"hand": Normal([0.0] * 6, [1.0] * 6)}}, "hand"),
    ({"max_episode_steps": 0}, "max_episode_steps"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED, ids=[said[:20] for _, said in REFUSED])
def test_what_is_refused(options, said):
    with pytest.raises((ValueError, TypeError), match=said):
        arm(**options)


def test_what_is_refused_at_a_step():
    envs = arm()
    with pytest.raises(ValueError, match="before the first reset"):
        envs.step(np.zeros((COUNT, 2)))
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions: shape \(2,\), expected \(19, 2\)"):
        envs.step(np.zeros(2))
    with pytest.raises(ValueError, match="render_mode: None"):
        envs.render()
    with pytest.raises(TypeError, match="seed: a list"):
        envs.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="reset_mask of shape"):
        envs.reset(options={"reset_mask": np.ones(3, bool)})
    with pytest.raises(TypeError, match="num_envs: given for one robot"):
        Env(nlink.load("double_pendulum"), num_envs=3, observation=seen, reward=paid)


def test_wrappers_of_gymnasium_see_episodes():
    """What learners put around environments, CleanRL's among them."""
    wrappers = gymnasium.wrappers.vector
    envs = wrappers.NormalizeObservation(wrappers.RecordEpisodeStatistics(
        gymnasium.make_vec("nlink/CartPoleSwingUp-v0", num_envs=4, max_episode_steps=5)))
    envs.reset(seed=0)
    lengths = []
    for _ in range(13):
        *_, infos = envs.step(np.zeros((4, 1), np.float32))
        if "episode" in infos:
            lengths += infos["episode"]["l"][infos["_episode"]].tolist()
    assert lengths == [5] * 8
    single = gymnasium.make("nlink/CartPoleSwingUp-v0", max_episode_steps=3)
    around = gymnasium.wrappers.ClipAction(gymnasium.wrappers.RecordEpisodeStatistics(single))
    around.reset(seed=0)
    ends = [around.step(np.array([3.0], np.float32))[3] for _ in range(3)]
    assert ends == [False, False, True]
