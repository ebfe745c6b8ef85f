"""Joints that move as functions of time say: `motion`."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import nlink
from nlink import Prescribed
from nlink.testing.mechanisms import random_robot

FINE = {"rtol": 1e-11, "atol": 1e-13, "method": "dop853"}
LENGTH, G = 0.7, 9.81


def place(t, p=(0.2, 3.0, 0.1)):
    return p[0] * nlink.sin(p[1] * t) + p[2]


@pytest.fixture(scope="module")
def arm():
    return nlink.load("double_pendulum")


@pytest.fixture(scope="module")
def bar():
    return nlink.load("four_bar")


def moving_pivot(vertical):
    """A point mass on a massless rod, hung from a cart that moves along one line, as a file."""
    axis = [0, 1, 0] if vertical else [1, 0, 0]
    return f"""
name = "pivot"
gravity = [0.0, -{G}, 0.0]

[[link]]
name = "cart"
joint_name = "cart"
joint = "prismatic"
axis = {axis}
placement = {{ xyz = [0.0, 0.0, 0.0] }}
mass = 1.0

[[link]]
name = "rod"
joint_name = "rod"
joint = "revolute"
placement = {{ xyz = [0.0, 0.0, 0.0] }}
mass = 2.0
com = [0.0, -{LENGTH}, 0.0]
"""


@pytest.mark.parametrize("vertical", [False, True])
def test_a_pendulum_on_a_moving_pivot(vertical, tmp_path):
    """l theta'' = -(g + y'') sin(theta) - x'' cos(theta), beside SciPy."""
    (tmp_path / "pivot.toml").write_text(moving_pivot(vertical))
    robot, a, w = nlink.load(tmp_path / "pivot.toml"), 0.3, 4.0
    run = nlink.simulate(robot, [0.0, 0.4], t=3.0, every=0.25, **FINE,
                         motion={"cart": lambda t: a * nlink.cos(w * t)})

    def rates(t, y):
        push = -a * w * w * np.cos(w * t)
        x, y2 = (0.0, push) if vertical else (push, 0.0)
        return [y[1], -((G + y2) * np.sin(y[0]) + x * np.cos(y[0])) / LENGTH]

    right = solve_ivp(rates, (0, 3), [0.4, 0.0], "DOP853", run.t, rtol=1e-12, atol=1e-13).y
    np.testing.assert_allclose(run.q[:, 1], right[0], atol=1e-9)
    np.testing.assert_allclose(run.q[:, 0], a * np.cos(w * run.t), atol=1e-15)
    np.testing.assert_allclose(run.qd[:, 0], -a * w * np.sin(w * run.t), atol=1e-14)


def accelerations(robot, run, **system):
    found = nlink.System(robot, **system)
    y = np.concatenate([run.q, run.rates, *run.parts.values()], axis=-1)
    return found.rates(run.t, y)[..., robot.nq:robot.nq + robot.n]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_tau_is_that_of_inverse_dynamics(seed):
    """On joints that move freely none but what the drive gives, of every kind of joint."""
    robot = random_robot(seed, 4, types=("revolute", "prismatic", "spherical", "helical"))
    robot = robot.with_friction(dry=0.0)  # at rest, what sticks takes forces of its own
    moving = [joint for joint in robot.joints if joint.type.nv]
    given = moving[seed % len(moving)]
    count, ahead = given.type.nv, sum(joint.type.nv for joint in moving[:moving.index(given)])
    motion = {given.name: Prescribed(rate=lambda t: [nlink.cos((k + 1) * t) for k in range(count)])}
    q0, _ = robot.random_state(seed)
    tau = np.linspace(-1, 1, robot.n)
    run = nlink.simulate(robot, q0, t=0.3, every=0.05, tau=tau, motion=motion)
    qdd = accelerations(robot, run, tau=tau, motion=motion)
    needed = robot.inverse_dynamics(run.q, run.qd, qdd)
    np.testing.assert_allclose(run.tau, needed, atol=1e-10 * np.abs(needed).max())
    own = slice(ahead, ahead + count)
    np.testing.assert_allclose(run.qd[:, own], np.cos(np.outer(run.t, np.arange(count) + 1)),
                               atol=1e-14)
    np.testing.assert_allclose(np.delete(run.tau, own, 1)[3], np.delete(tau, own), atol=1e-9)


def test_the_places_of_a_ball_joint_are_a_quaternion():
    """Turned about z at a rate of 2: q = (cos t, 0, 0, sin t), whatever its length."""
    robot = random_robot(1, 2, types=("spherical",))
    name = robot.joints[0].name
    turned = nlink.simulate(robot, t=0.5, every=0.1, motion={
        name: lambda t: [3 * nlink.cos(t), 0.0, 0.0, 3 * nlink.sin(t)]})
    same = nlink.simulate(robot, t=0.5, every=0.1, motion={name: Prescribed(rate=[0.0, 0.0, 2.0])})
    np.testing.assert_allclose(turned.q, same.q, atol=1e-8)
    np.testing.assert_allclose(turned.qd[:, :3], np.broadcast_to([0, 0, 2.0], (6, 3)), atol=1e-14)
    np.testing.assert_allclose(turned.tau, same.tau, atol=1e-6)


def test_a_crank_that_turns_steadily_takes_the_torque_of_inverse_dynamics(bar):
    """And the loops stay closed, and power is the rate of energy."""
    w, motion = 3.0, {"crank": lambda t: bar.neutral[0] + 3.0 * t}
    run = nlink.simulate(bar, t=2.2, every=0.05, motion=motion, **FINE)
    qd, qdd = zip(*(bar.loops.complete(q, {"crank": w}) for q in run.q), strict=True)
    tau, _ = bar.loops.inverse_dynamics(run.q, np.array(qd), np.array(qdd))
    np.testing.assert_allclose(run.tau, tau, atol=1e-10)
    np.testing.assert_allclose(run.qd, qd, atol=1e-12)
    np.testing.assert_allclose(run.q[:, 0], bar.neutral[0] + w * run.t, atol=1e-14)
    assert run.closure_error.max() < 1e-12
    change = robot_energy_rate(bar, run)
    np.testing.assert_allclose((run.tau * run.qd).sum(-1), change, atol=1e-7)
    qdd = accelerations(bar, run, motion=motion)
    assert np.abs(bar.loops.jacobian(run.q) @ qdd[..., None] + bar.loops.acceleration(
        run.q, run.qd)[..., None]).max() < 1e-10


def robot_energy_rate(robot, run):
    """d/dt of the energy along a run, by the powers of inverse dynamics of the tree."""
    h = 1e-5
    ahead, behind = (robot.integrate(run.q, s * h * run.qd) for s in (1, -1))
    kinetic = [robot.kinetic_energy(q, robot.loops.project(q, run.qd, held=[1, 0, 0])[1])
               for q in (ahead, behind)]
    potential = [robot.potential_energy(q) for q in (ahead, behind)]
    return (kinetic[0] - kinetic[1] + potential[0] - potential[1]) / (2 * h)


@pytest.mark.parametrize("closing", ["drift", 20.0])
@pytest.mark.slow
def test_other_ways_to_keep_loops_closed(bar, closing):
    motion = {"crank": lambda t: bar.neutral[0] + 3.0 * t}
    run = nlink.simulate(bar, t=1.0, every=0.5, motion=motion, closing=closing, **FINE)
    right = nlink.simulate(bar, t=1.0, every=0.5, motion=motion, **FINE)
    np.testing.assert_allclose(run.q, right.q, atol=1e-8)
    np.testing.assert_allclose(run.tau, right.tau, atol=1e-6)


def test_loops_close_around_where_a_motion_begins(bar):
    run = nlink.simulate(bar, t=0.1, motion={"crank": bar.neutral[0] + 1.2})
    assert run.q[0, 0] == bar.neutral[0] + 1.2
    assert run.closure_error.max() < 1e-12
    np.testing.assert_allclose(run.q, np.broadcast_to(run.q[0], run.q.shape), atol=1e-12)


@pytest.mark.parametrize("method", ["rk4", "dopri5", "abm", "semi_implicit", "rodas5p", "lsoda"])
def test_every_method_keeps_to_the_motion(arm, method):
    """All of them end where SciPy does, at their tolerances."""
    run = nlink.simulate(arm, [0.0, 0.4], t=0.5, every=0.05, method=method,
                         step=1e-3 if method in ("rk4", "semi_implicit") else None,
                         motion={"joint1": place})
    right = nlink.simulate(arm, [0.0, 0.4], t=0.5, every=0.05, motion={"joint1": place}, **FINE)
    np.testing.assert_allclose(run.q[:, 0], place(run.t), atol=1e-9)
    np.testing.assert_allclose(run.q, right.q, atol=5e-3 if method == "semi_implicit" else 1e-7)


@pytest.mark.slow
def test_rates_and_accelerations_are_integrated(arm):
    """From where the robot is, or moves, at the start."""
    start, t = ([0.3, 0.4], [0.5, 0.0]), {"t": 1.0, "every": 0.25, **FINE}
    rate = nlink.simulate(arm, *start, **t, motion={"joint1": Prescribed(rate=nlink.sin)})
    again = nlink.simulate(arm, *start, **t, motion={"joint1": lambda t: 1.3 - nlink.cos(t)})
    np.testing.assert_allclose(rate.q, again.q, atol=1e-9)
    np.testing.assert_allclose(rate.tau, again.tau, atol=1e-7)
    fast = nlink.simulate(arm, *start, **t, motion={"joint1": Prescribed(acceleration=nlink.cos)})
    again = nlink.simulate(arm, *start, **t, motion={
        "joint1": lambda t: 1.3 + 0.5 * t - nlink.cos(t)})
    np.testing.assert_allclose(fast.q, again.q, atol=1e-9)
    np.testing.assert_allclose(fast.tau, again.tau, atol=1e-7)


@pytest.mark.slow
def test_derivatives_by_what_a_motion_depends_on(arm):
    """Sensitivities and the adjoint, beside differences."""
    p, options = np.array([0.2, 3.0, 0.1]), {"t": 0.5, "every": 0.05, "motion": {"joint1": place}}
    cost = {"cost": lambda q, qd: q @ q + qd @ qd, "running": lambda q, qd: q @ q}

    def run(p, **more):
        return nlink.simulate(arm, [0.3, 0.4], vary={"p": p}, method="rk4", **options, **more)

    def whole(p):
        return nlink.adjoint(arm, q0=[0.3, 0.4], vary={"p": p}, **cost, **options)

    found = run(p, sensitivities=["p", "q0"])
    steps = 1e-6 * np.eye(3)
    differences = np.stack([(run(p + h).q - run(p - h).q) / 2e-6 for h in steps], -1)
    np.testing.assert_allclose(found.sensitivity("p").q, differences, atol=1e-8)
    assert not found.sensitivity("q0").q[..., 0].any()
    slopes = [(whole(p + h).cost - whole(p - h).cost) / 2e-6 for h in steps]
    np.testing.assert_allclose(whole(p).gradient["p"], slopes, atol=1e-7)


@pytest.mark.parametrize("name", ["arm", "bar"])
def test_linear_models_are_those_of_the_motion_that_is_left(name, request):
    robot = request.getfixturevalue(name)
    motion = {robot.joints[0].name: lambda t: robot.neutral[0] + 0.4 * t}
    q, qd = nlink.simulate(robot, t=0.2, every=0.1, motion=motion).q[-1], np.zeros(robot.n)
    A, B = nlink.linearize(robot, q, qd, np.zeros(robot.n), t=0.2, motion=motion)
    system, y = nlink.System(robot, motion=motion), np.concatenate([q, qd])
    steps = 1e-6 * np.eye(len(y))
    slopes = (system.rates(0.2, y + steps) - system.rates(0.2, y - steps)).T / 2e-6
    np.testing.assert_allclose(A, slopes, atol=1e-6)
    for known in (A[0], A[robot.n], B[robot.n], B[:, 0]):
        assert not known.any()


def test_friction_and_limits_beside_a_motion(arm):
    """What rubs sticks to what moves; the drive of the motion overcomes its own friction, too."""
    rough = arm.with_friction(dry=[3.0, 4.0], viscous=0.1)
    motion = {"joint1": lambda t: 0.3 * nlink.sin(t)}
    run = nlink.simulate(rough, [0.0, -1.5], t=3.0, every=0.1, motion=motion)
    assert run.modes.shape[-1] == 1
    assert {*np.unique(run.modes)} >= {0.0}
    stuck = run.modes[:, 0] == 0
    assert not run.qd[stuck, 1].any()
    qdd = accelerations(rough, run, motion=motion)
    needed = rough.inverse_dynamics(run.q, run.qd, qdd)[:, 0]
    np.testing.assert_allclose(run.tau[:, 0], needed, atol=1e-9)


@pytest.mark.slow
def test_a_stepper_makes_the_same_steps(arm, bar):
    for robot, name in ((arm, "joint1"), (bar, "crank")):
        motion = {name: lambda t, x=robot.neutral[0]: x + 0.2 * nlink.sin(3 * t)}
        world = nlink.Stepper(robot, step=0.01, motion=motion)
        for _ in range(10):
            world.step()
        run = nlink.simulate(robot, t=0.1, every=0.01, method="rk4", motion=motion)
        np.testing.assert_allclose(world.q, run.q[-1], atol=1e-12)
        world.reset()
        np.testing.assert_allclose(world.q, run.q[0], atol=1e-15)


def test_ensembles_have_motions_of_their_own(arm, tmp_path):
    p = np.array([[0.2, 3.0, 0.1], [0.1, 2.0, 0.0]])
    runs = nlink.simulate(arm, [0.0, 0.4], t=0.2, vary={"p": p}, motion={"joint1": place},
                          save=tmp_path / "runs.npz")
    alone = nlink.simulate(arm, [0.0, 0.4], t=0.2, vary={"p": p[1]}, motion={"joint1": place})
    np.testing.assert_allclose(runs.q[1], alone.q, atol=1e-14)
    np.testing.assert_allclose(runs.tau[1], alone.tau, atol=1e-10)
    assert np.array_equal(nlink.load_run(tmp_path / "runs.npz").tau, runs.tau)


@pytest.mark.parametrize(("options", "words"), [
    ({"motion": {"joint9": place}}, "motion: 'joint9', expected a joint .*joint1, joint2"),
    ({"motion": {"joint1": lambda t: [t, t]}}, "'joint1': place gave 2 values, expected 1"),
    ({"motion": {"joint1": [1.0, 2.0]}}, "expected 1 finite numbers"),
    ({"motion": {"joint1": "fast"}}, "expected a function of t"),
    ({"motion": place}, "a function, expected a mapping"),
    ({"motion": {"joint1": place}, "limits": "bounce"}, "motion: not with limits='bounce'"),
    ({"motion": {"joint1": place}, "velocity": "nu"}, "motion: not with velocity='nu'"),
    ({"motion": {"joint1": place}, "method": "symplectic"}, "motion: not with method='symplectic'"),
    ({"motion": {"joint1": place}, "tau": np.zeros((11, 2))}, "motion: not with a table"),
    ({"motion": {"joint1": place}, "traced": False}, "motion: not with traced=False")])
def test_what_a_motion_does_not_go_with_is_refused(arm, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        nlink.simulate(arm, t=0.1, **options)


def test_motions_that_loops_do_not_allow_are_refused(bar):
    with pytest.raises(ValueError, match=r"motion: the loop 'pin' is open by .* where rocker"):
        nlink.simulate(bar, t=0.1, motion={"rocker": 0.0})
    both = {"crank": lambda t: bar.neutral[0] + t, "rocker": bar.neutral[2]}
    with pytest.raises(ValueError, match=r"motion: the loops open with .* at the start"):
        nlink.simulate(bar, t=0.1, motion=both)
    with pytest.raises(ValueError, match="place and rate given, expected one"):
        Prescribed(place=1.0, rate=2.0)
