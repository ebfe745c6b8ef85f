"""What a trajectory is does not depend on those beside it: the same bits in every ensemble."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.simulation import PD, PID, Sampled

pytestmark = pytest.mark.slow
COUNT = 11
PLANAR, PENDULUM, FOUR_BAR = map(nlink.load, ("planar3", "double_pendulum", "four_bar"))
RUBBING = PLANAR.with_friction(dry=0.5, viscous=0.1)
ROD = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
       "inertia": (0, 1 / 12, 1 / 12), "limits": {"position": (-1.0, 1.0)}}
LIMITED = nlink.Robot.from_dh([ROD, ROD], gravity=(0, -9.81, 0))
STICKY = nlink.Robot.from_dh([ROD, ROD | {"friction": {"coulomb": 0.3}}], gravity=(0, -9.81, 0))
RATE = {"rate": lambda t, q, qd: qd[0]}
ADAPTIVE = {"rtol": 1e-6, "atol": 1e-8}
FIXED = {"step": 0.01}
CASES = {
    **{f"friction {method}": (RUBBING, {"method": method, "events": RATE, **more})
       for method, more in (("rkf45", ADAPTIVE), ("dop853", ADAPTIVE), ("abm", ADAPTIVE),
                            ("rodas5p", ADAPTIVE), ("rk4", FIXED), ("semi_implicit", FIXED))},
    **{f"{limits} {method}": (LIMITED, {"limits": limits, "method": method, **more})
       for limits in ("stop", "bounce", "hold")
       for method, more in (("rkf45", ADAPTIVE), ("dop853", ADAPTIVE), ("semi_implicit", FIXED))},
    "hold and friction": (STICKY, {"limits": "hold", "method": "dopri5", "restitution": 0.5,
                                   **ADAPTIVE}),
    "bounce and friction": (STICKY, {"limits": "bounce", "method": "rkf45", "restitution": 0.8,
                                     **ADAPTIVE}),
    "loops": (FOUR_BAR, {"method": "rkf45", "events": RATE, **ADAPTIVE}),
    "loops, implicit": (FOUR_BAR, {"method": "semi_implicit", **FIXED}),
    "samples": (RUBBING, {"tau": Sampled(PD(RUBBING, [0.1, 0.2, 0.3], 80.0, 20.0), 0.03),
                          "method": "dopri5", **ADAPTIVE}),
    "symplectic": (PENDULUM, {"method": "symplectic", "step": 0.02}),
    "sensitivities": (PENDULUM, {"sensitivities": ["q0", "qd0"], "events": RATE, **ADAPTIVE}),
    "sensitivities at limits": (LIMITED, {"sensitivities": ["qd0"], "limits": "bounce",
                                          **ADAPTIVE}),
    "all at once": (STICKY, {
        "tau": Sampled(PID(STICKY, [0.9, -1.2], 60.0, 10.0, 20.0), 0.03,
                       delay=1),
        "f_ext": {2: lambda t, q, qd: [0.0, 0.0, 0.0, nlink.sin(9.0 * t), -qd[0], 0.0]},
        "vary": {"payload": np.linspace(0.0, 2.0, COUNT), "coulomb": np.linspace(0.0, 1.0, COUNT)[
            :, None] * [0.5, 1.0]}, "events": RATE, "limits": "hold", "restitution": 0.4,
        "method": "dopri5", **ADAPTIVE}),
}


def states(robot):
    random = np.random.default_rng(1)
    if robot is FOUR_BAR:
        q = np.tile(robot.neutral, (COUNT, 1))
        q[:, 0] += random.uniform(-0.3, 0.3, COUNT)
        return robot.loops.assemble(q, keep=["crank"]), np.zeros((COUNT, robot.n))
    q = random.uniform(-0.95, 0.95, (COUNT, robot.nq))
    return q, random.normal(size=(COUNT, robot.n)) * (np.arange(COUNT) % 3)[:, None]


def of(run, k):
    """All that a run says about one trajectory, as bytes."""
    found = {"q": run.q[k], "qd": run.qd[k], "status": run.status_codes[k], "t": run.t_end[k],
             "steps": run.stats.steps[k], "rejects": run.stats.rejects[k]}
    found |= {f"part {name}": x[k] for name, x in run.parts.items()}
    events = run.events.of(k)
    found |= {f"event {name}": getattr(events, name) for name in ("t", "which", "q", "qd")}
    for name, each in events.sensitivities.items():
        found |= {f"event {part} by {name}": x for part, x in zip("tqv", each, strict=True)}
    return {name: np.ascontiguousarray(x).tobytes() for name, x in found.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_trajectory_is_the_same_in_every_ensemble(case):
    """Shuffled, repeated, beside others, and alone: states, modes, events and counts."""
    robot, options = CASES[case]
    q, qd = states(robot)

    def simulated(rows):
        vary = {name: x[rows] for name, x in options.get("vary", {}).items()}
        return nlink.simulate(robot, q[rows], qd[rows], t=0.6, every=0.15, progress=False,
                              threads=1, **options | {"vary": vary or None})

    whole, random = simulated(np.arange(COUNT)), np.random.default_rng(2)
    expected = [of(whole, k) for k in range(COUNT)]
    ensembles = [random.permutation(COUNT), random.integers(0, COUNT, 3 * COUNT),
                 np.array([0, 0, 0, 7]), np.array([3])]
    for rows in ensembles:
        run = simulated(rows)
        for place, k in enumerate(rows):
            got = of(run, place)
            assert [name for name in got if got[name] != expected[k][name]] == []


@pytest.mark.parametrize("posture", [False, True])
def test_a_target_is_reached_alike_in_every_ensemble(posture):
    """Inverse kinematics: solutions, errors and what became of them; also of a redundant arm with
    a posture."""
    robot, random = nlink.load("panda" if posture else "puma560"), np.random.default_rng(3)
    middle = 0.5 * (robot.limits.lower + robot.limits.upper) if posture else np.zeros(robot.n)
    targets = robot.pose(middle + random.uniform(-1.0, 1.0, (COUNT, robot.n)))
    targets[::4, :3, 3] *= 3.0  # some out of reach
    options = {"posture": middle} if posture else {}
    whole = robot.ik(targets, **options)
    for rows in (random.permutation(COUNT), random.integers(0, COUNT, 3 * COUNT), np.array([4])):
        found = robot.ik(targets[rows], **options)
        for name in ("q", "status", "distance", "angle", "iterations", "starts"):
            assert np.array_equal(getattr(found, name), np.asarray(getattr(whole, name))[rows])
