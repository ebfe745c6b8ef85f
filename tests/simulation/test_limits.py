"""Joint limits: ignored, the end of a trajectory, or bounced off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from event_cases import ACCURATE, EVERY, FIXED, G, slider

import nlink
from nlink.simulation.moment import Moment


def bounded(low: float, high: float, n: int = 3) -> nlink.Robot:
    """Rods in a plane, every joint with limits."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12), "limits": {"position": (low, high)}}
    return nlink.Robot.from_dh([{**rod, "name": f"rod{k}"} for k in range(n)],
                               gravity=(0, -G, 0), name="bounded")


def test_limits_are_ignored_unless_asked_for():
    robot = bounded(-0.5, 0.5)
    run = nlink.simulate(robot, t=1.0)
    assert run.ok
    assert np.abs(run.q).max() > 0.5
    assert len(run.events) == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", EVERY)
def test_a_trajectory_stops_at_the_first_limit_and_says_whose_it_is(method):
    robot = bounded(-0.5, 0.5)
    run = nlink.simulate(robot, t=1.0, every=0.1, method=method, limits="stop",
                         step=1e-3 if method in FIXED else None)
    assert run.status == "limit reached"
    assert not run.ok
    assert len(run.events) == 1
    name = run.events.names[run.events.which[0]]
    joint = next(k for k in range(3) if robot.joints[k].name in name)
    bound = -0.5 if "lower" in name else 0.5
    assert abs(run.events.q[0, joint] - bound) <= 1e-12
    assert np.abs(run.events.q).max() <= 0.5 + 1e-12
    assert run.t_end == run.events.t[0]
    assert f"limit reached ({name})" in repr(run)
    free = nlink.simulate(robot, t=[0.0, float(run.t_end)], rtol=1e-12, atol=1e-14)
    assert np.abs(free.q[-1] - run.events.q[0]).max() <= 1e-7


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("restitution", [1.0, 0.8])
def test_a_falling_mass_bounces(method, restitution):
    run = nlink.simulate(slider(low=0.0), [1.0], t=3.0, method=method, limits="bounce",
                         restitution=restitution, step=0.01 if method in FIXED else None)
    assert run.ok
    fall = np.sqrt(2 / G)
    flights = 2 * fall * restitution ** np.arange(1, len(run.events))
    assert np.abs(run.events.t - np.cumsum([fall, *flights])).max() <= 1e-8
    assert np.abs(run.events.qd[:, 0] + G * fall * restitution ** np.arange(len(run.events))
                  ).max() <= 1e-7
    assert len(run.events) == (3 if restitution == 1 else 6)
    assert run.q.min() >= -1e-12


@pytest.mark.parametrize("method", EVERY)
def test_bounces_that_become_ever_shorter_end_at_rest(method):
    """The flights are a geometric series: sum = t1 (1 + e)/(1 - e) for e = 1/2."""
    run = nlink.simulate(slider(low=0.0), [1.0], t=3.0, method=method, limits="bounce",
                         restitution=0.5, step=0.01 if method in FIXED else None)
    assert run.status == "at rest on a limit"
    assert abs(run.t_end - 3 * np.sqrt(2 / G)) <= 1e-6


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", [*({"method": name} for name in ACCURATE), {"velocity": "nu"},
                                 {"velocity": "xi"}, {"traced": False}], ids=str)
def test_elastic_bounces_keep_the_energy_and_push_along_the_joint(how):
    """M (qd' - qd) has one element, that of the joint, and the rate there is turned round."""
    robot = bounded(-0.6, 0.6)
    fixed = {"step": 1e-3} if how.get("method") in FIXED else {}
    run = nlink.simulate(robot, t=1.2, every=0.02, limits="bounce", rtol=1e-10, **how, **fixed)
    assert run.ok
    assert len(run.events) >= 3
    assert np.abs(run.q).max() <= 0.6 + 1e-12
    assert np.abs(run.energy - run.energy[0]).max() <= 1e-6

    system = nlink.System(robot, limits="bounce")
    found = system.watched
    for k in range(len(run.events)):
        q, qd, which = run.events.q[k], run.events.qd[k], run.events.which[k]
        acts = [float(i == which) for i in range(len(found))]
        after = np.array(system.watching.impact(Moment(system, 0.0, [*q, *qd], acts)))
        impulse = robot.mass_matrix(q) @ (after[3:] - qd)
        joint = found[which].rate
        assert abs(after[3 + joint] + qd[joint]) <= 1e-12
        assert np.abs(np.delete(impulse, joint)).max() <= 1e-12 * np.abs(impulse).max()


@pytest.mark.slow
@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("depth", [1e-6, 0.3])
def test_a_limit_passed_and_passed_again_within_one_step_is_seen(method, depth):
    """Thrown up below a ceiling; free fall is exact, so a step may be as long as it likes."""
    apex = 25 / (2 * G)
    robot = slider(high=apex - depth)
    run = nlink.simulate(robot, [0.0], [5.0], t=1.0, every=1.0, method=method, step=1.0,
                         limits="stop")
    assert run.status == "limit reached"
    assert abs(run.t_end - (5 / G - np.sqrt(2 * depth / G))) <= 1e-8
    bounced = nlink.simulate(robot, [0.0], [5.0], t=1.0, every=1.0, method=method, step=1.0,
                             limits="bounce")
    assert len(bounced.events) == 1
    above = nlink.simulate(slider(high=apex + depth), [0.0], [5.0], t=1.0, every=1.0,
                           method=method, step=1.0, limits="stop")
    assert above.ok


def sliders() -> nlink.Robot:
    """Two masses on rails across each other, whose lower limits are at zero."""
    rail = {"joint": "prismatic", "alpha": np.pi / 2, "mass": 1.0, "inertia": (0.1, 0.1, 0.1),
            "limits": {"position": (0.0, 10.0)}}
    return nlink.Robot.from_dh([rail, rail], gravity=(0, 0, 0), name="sliders")


@pytest.mark.parametrize("how", [{}, {"traced": False}, {"method": "lsoda"}], ids=str)
@pytest.mark.parametrize("also", [None, 0.1, 0.7])
@pytest.mark.parametrize("early", [0, 1])
def test_of_limits_passed_within_one_step_none_is_overlooked(how, also, early):
    """q = q0 + v t + 4 t^2: one lowest at 0.2 and another at 0.8, by 0.01 and 0.001 too low, and
    then the first by 0.01 high enough."""
    robot = sliders()
    mass = robot.mass_matrix([0.0, 0.0]).diagonal().tolist()
    events = None if also is None else {"also": lambda t, q, qd: t - also}
    order = [0, 1] if early == 0 else [1, 0]
    for first, end in ((0.15, 0.2 - np.sqrt(0.01 / 4)), (0.17, 0.8 - np.sqrt(0.001 / 4))):
        q0, qd0 = np.array([first, 2.559])[order], np.array([-1.6, -6.4])[order]
        run = nlink.simulate(robot, q0, qd0, t=[0.0, 1.0], limits="stop", events=events, **({
            "method": "rk4", "step": 1.0} | how), tau=lambda t, q, qd: [8 * m for m in mass])
        assert run.status == "limit reached"
        assert abs(run.t_end - end) <= 1e-7
        joint = early if first == 0.15 else 1 - early
        names = [run.events.names[k] for k in run.events.which]
        before = ["also"] if also is not None and also < end else []
        assert names == [*before, f"lower limit of joint{joint + 1}"]


@pytest.mark.parametrize("method", EVERY)
def test_what_ends_a_trajectory_at_the_last_time_is_its_status(method):
    how = {"t": 1.0, "method": method, "step": 0.01}
    run = nlink.simulate(slider(), [0.0], events=nlink.Event(
        lambda t, q, qd: t - 1.0, terminal=True), **how)
    assert run.status == "event"
    assert run.ok
    assert np.isfinite(run.q).all()


@pytest.mark.slow
def test_an_ensemble_bounces_the_same_whatever_the_threads():
    robot = bounded(-0.6, 0.6)
    q0 = np.random.default_rng(1).uniform(-0.5, 0.5, size=(13, 3))
    one, two = (nlink.simulate(robot, q0, t=1.0, limits="bounce", restitution=0.9,
                               threads=threads) for threads in (1, 2))
    assert np.array_equal(one.q, two.q, equal_nan=True)
    alone = nlink.simulate(robot, q0[5], t=1.0, limits="bounce", restitution=0.9)
    assert np.array_equal(alone.q, one.q[5])
    assert np.array_equal(alone.events.t, one.events.of(5).t)
    assert len(alone.events) > 0


@pytest.mark.parametrize("how", [{}, {"method": "lsoda"}, {"traced": False}], ids=str)
def test_who_starts_outside_stops_there_alone(how):
    run = nlink.simulate(slider(-1.0, 1.0), [[0.0], [2.0], [-1.5]], t=0.1, limits="stop", **how)
    assert run.status.tolist() == ["done", "limit reached", "limit reached"]
    assert run.t_end.tolist() == [run.t[-1], 0.0, 0.0]
    assert [run.events.names[k] for k in run.events.which] == [
        "upper limit of rail", "lower limit of rail"]


@pytest.mark.parametrize("method", ACCURATE)
def test_on_a_limit_going_out_counts_and_coming_in_does_not(method):
    how = {"t": 0.1, "method": method, "limits": "stop", "step": 0.01}
    assert nlink.simulate(slider(low=0.0), [0.0], [1.0], **how).ok
    out = nlink.simulate(slider(low=0.0), [0.0], [-1.0], **how)
    assert out.status == "limit reached"
    assert out.t_end <= 1e-12


@pytest.mark.slow
def test_only_limited_joints_are_watched():
    run = nlink.simulate(slider(), [0.0], t=0.1, limits="stop")
    assert run.events.names == ()
    panda = nlink.load("panda")
    names = nlink.simulate(panda, 0.5 * (np.array([j.limits.position for j in panda.joints if
                                                   j.type.nq]).sum(axis=1)), t=0.01, every=0.01,
                           limits="stop").events.names
    assert len(names) == 14


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"traced": False}], ids=str)
@pytest.mark.parametrize("kind", [nlink.Universal(), nlink.Planar()], ids=["universal", "planar"])
def test_each_coordinate_of_a_joint_has_its_limits(kind, how):
    inertia = ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))
    robot = nlink.Robot(nlink.Description(
        "one", (nlink.Link("body", 1.0, (0.0, 0.3, 0.2), inertia),),
        (nlink.Joint("hip", kind, limits=nlink.Limits((-0.1, 0.1))),), gravity=(0, -G, 0)))
    for k in range(robot.n):
        qd0 = np.eye(robot.n)[k] * 5.0
        run = nlink.simulate(robot, qd0=qd0, t=1.0, limits="stop", **how)
        assert run.status == "limit reached"
        assert run.events.names[run.events.which[0]] == f"upper limit of hip, coordinate {k + 1}"
        assert abs(run.events.q[0, k] - 0.1) <= 1e-12
        bounced = nlink.simulate(robot, qd0=qd0, t=0.1, limits="bounce", **how)
        assert len(bounced.events) > 0
        assert np.abs(bounced.q).max() <= 0.1 + 1e-12
        assert np.abs(bounced.energy - bounced.energy[0]).max() <= 1e-6


def test_limits_that_mean_nothing_are_refused_by_the_name_of_the_joint():
    ball = nlink.Robot(nlink.Description(
        "ball", (nlink.Link("body", 1.0, inertia=((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))),),
        (nlink.Joint("hip", nlink.Spherical(), limits=nlink.Limits((-0.1, 0.1))),)))
    assert nlink.simulate(ball, t=0.1).ok
    with pytest.raises(ValueError, match="limits: joint 'hip' is spherical"):
        nlink.simulate(ball, t=0.1, limits="stop")


def test_joints_that_follow_others_do_not_bounce():
    two = bounded(-0.5, 0.5, n=2).description
    lead, follow = two.joints
    robot = nlink.Robot(replace(two, joints=(
        lead, replace(follow, mimic=nlink.Mimic(lead.name, -1.0)))))
    with pytest.raises(ValueError, match=f"joint '{follow.name}' follows '{lead.name}'"):
        nlink.simulate(robot, t=0.1, limits="bounce")
    coupled = nlink.Coupled(robot)
    run = nlink.simulate(robot, coupled.expand([0.0]), t=1.0, tau=coupled.controller(),
                         limits="stop")
    assert run.status == "limit reached"


RUBBING = nlink.Robot.from_dh([{"joint": "prismatic", "mass": 1.0, "friction": {"coulomb": 0.1},
                                "limits": {"position": [0.0, 5.0]}}], gravity=(0, 0, -G))


def after_one_bounce(coulomb, restitution, t):
    """Where a kilogram is that has fallen one metre and rises again."""
    down, up = G - coulomb, G + coulomb
    fall = np.sqrt(2 / down)
    return restitution * down * fall * (t - fall) - up * (t - fall) ** 2 / 2


@pytest.mark.slow
@pytest.mark.parametrize("method", [each for each in EVERY if each != "symplectic"])
def test_what_rubs_bounces(method):
    run = nlink.simulate(RUBBING, [1.0], t=[0.0, 0.6], method=method, limits="bounce",
                         step=1e-3 if method in FIXED else None)
    assert run.status == "done"
    within = 2e-3 if method == "semi_implicit" else 1e-7
    assert abs(run.q[-1, 0] - after_one_bounce(0.1, 1.0, 0.6)) <= within


@pytest.mark.slow
def test_impacts_beside_dry_friction_raise_no_energy_and_are_those_of_limits_that_hold():
    """Joint 1 bounces and joint 2 rubs, or both do both. Limits that hold have other impacts,
    found by pivots; none of these starts comes to rest on a limit."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12)}
    limited = {"limits": {"position": (-1.0, 1.0)}}
    random, gravity = np.random.default_rng(0), (0, -G, 0)
    q, qd = random.uniform(-0.9, 0.9, (100, 2)), random.normal(size=(100, 2))
    for rods in ([rod | limited, rod | {"friction": {"coulomb": 0.05}}],
                 [rod | limited | {"friction": {
                     "coulomb": 0.3, "breakaway": 0.4, "stribeck": 0.1}}] * 2):
        robot = nlink.Robot.from_dh(rods, gravity=gravity)
        bounced, held = (nlink.simulate(robot, q, qd, t=0.6, every=0.02, limits=limits,
                                        restitution=0.9) for limits in ("bounce", "hold"))
        assert bounced.ok
        assert len(bounced.events) > 50
        assert np.diff(bounced.energy, axis=1).max() <= 1e-9
        np.testing.assert_allclose(bounced.q, held.q, rtol=0, atol=1e-6)


@pytest.mark.parametrize("restitution", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("coulomb", [0.0, 0.5])
def test_limits_that_hold_bounce_in_semi_implicit_steps(restitution, coulomb):
    robot = RUBBING.with_friction(dry=coulomb)
    errors = [abs(nlink.simulate(robot, [1.0], t=[0.0, 0.6], limits="hold", step=step,
                                 restitution=restitution, method="semi_implicit").q[-1, 0]
                  - after_one_bounce(coulomb, restitution, 0.6)) for step in (1e-3, 1e-4)]
    assert errors[0] <= 1e-2
    assert errors[1] <= 1e-3


@pytest.mark.slow
def test_semi_implicit_bounces_raise_no_energy_and_end_at_rest():
    run = nlink.simulate(RUBBING.with_friction(dry=0.0), [1.0], t=10.0, every=0.01, step=1e-3,
                         limits="hold", restitution=0.8, method="semi_implicit")
    assert np.diff(run.energy).max() <= 1e-9
    assert run.q[-1, 0] == run.qd[-1, 0] == 0.0
