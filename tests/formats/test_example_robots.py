"""Pinocchio confirms every URDF that example-robot-data ships, fixed and floating."""

from __future__ import annotations

import re

import numpy as np
import pytest
from example_robots import BAR, EXPLAINED, Twin, example_files, residuals, state

import nlink
from nlink.formats.exchange import Exchange
from nlink.formats.load import load_description
from nlink.formats.urdf import read_urdf
from nlink.reports.link_tree import link_tree
from nlink.testing.samples import torque_scale

pytest.importorskip("pinocchio")
FILES = example_files()
if not FILES:
    pytest.skip("example-robot-data is not installed", allow_module_level=True)

ROBOTS = sorted(set(FILES) - set(EXPLAINED))
QUICK = ["a1_description/a1", "allegro_hand_description/allegro_left_hand",
         "bolt_description/bolt", "double_pendulum_description/double_pendulum_continuous",
         "hector_description/quadrotor_base", "kinova_description/kinova",
         "panda_description/panda", "so_arm_description/so101", "ur_description/ur5_robot"]
COMPILED = ["ur_description/ur5_robot", "panda_description/panda", "solo_description/solo12",
            "simple_humanoid_description/simple_humanoid"]
SINGULAR = {
    "romeo_description/romeo": "the joints of its finger tips move no mass",
    "romeo_description/romeo_laas_small": "its gripper joints move no mass",
}
"""Files whose mass matrix is singular, so that they have no forward dynamics."""
NEED_AN_INVERSE = {"factors", "inverse", "forward", "hybrid", "forward derivatives"}
"""The laws that a singular mass matrix breaks."""
CHECKED = ["finger_edu_description/finger_edu", "iris_description/iris"]
"""Every law takes half a minute on a humanoid; the laws of mechanics are for all files."""


LONG = ["a1_description/a1", "alex_description/alex_nub_hands",
        "alexander_description/alexander_v1.lowerBodyOnly", "laikago_description/laikago",
        "allegro_hand_description/allegro_left_hand", "anymal_b_simple_description/anymal-kinova",
        "anymal_c_simple_description/anymal", "b1_description/b1-z1", "baxter_description/baxter",
        "centauro_description/centauro", "g1_description/g1_29dof_rev_1_0", "go1_description/go1",
        "go2_description/go2", "quadruped_description/quadruped",
        "human_description/human", "icub_description/icub", "panda_description/panda",
        "pr2_description/pr2", "romeo_description/romeo", "talos_data/talos_full_v2",
        "tiago_description/tiago", "tiago_pro_description/tiago_pro"]
"""Robots on which the laws take seconds; they are compared with Pinocchio, and robots of the same
shape pass the laws: other quadrupeds, a humanoid, arms of seven joints."""
KINDS = {name.split("/")[0]: name for name in reversed(FILES)}
"""The first file of each folder; the others are its variants."""


def confirm(name: str, floating: bool, engine: str, frames: int = 4) -> dict[str, float]:
    found = residuals(Twin.of(FILES[name], floating), 0, engine, frames)
    for quantity, residual in found.items():
        assert residual <= BAR, f"{name}: {quantity} differs by {residual:.2e}"
    missing = {"forward dynamics"} - set(found)
    still = Twin.of(FILES[name], floating).robot.n == 0
    assert bool(missing) == (name in SINGULAR or still), f"{name}: no {missing}"
    return found


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("name", QUICK[:2])
def test_pinocchio_agrees(name, floating):
    confirm(name, floating, "numpy")


@pytest.mark.slow
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
def test_pinocchio_agrees_on_every_shipped_robot(floating, capsys):
    """Every file floating, some fixed. Prints the list; a file neither covered nor
    explained fails."""
    lines, wrong, names = [], [], FILES if floating else {*QUICK, *SINGULAR}
    for name in names:
        if name in EXPLAINED:
            lines.append(f"{name:<52} not a robot: {EXPLAINED[name]}")
            continue
        try:
            found = confirm(name, floating, "python", frames=2)
        except (AssertionError, ValueError) as error:
            wrong.append(f"{name}: {error}")
            continue
        worst = max(found, key=lambda quantity: found[quantity])
        note = f", {SINGULAR[name]}" if name in SINGULAR else ""
        n = Twin.of(FILES[name], floating).robot.n
        lines.append(f"{name:<52} {n:>3} rates {found[worst]:.1e} ({worst}){note}")
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert not wrong, "\n".join(wrong)
    assert len(lines) == len(names)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_kernels_agree_with_pinocchio(name):
    confirm(name, True, "compiled", frames=1)


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_is_no_robot_is_refused(name):
    with pytest.raises(ValueError, match=f"{FILES[name].name}: no links"):
        read_urdf(FILES[name])


@pytest.mark.parametrize("name", SINGULAR)
def test_joints_that_move_no_mass_have_inverse_dynamics_alone(name):
    with pytest.raises(ValueError, match=r"joint '\w+': moves no mass"):
        read_urdf(FILES[name], physical="error")
    with pytest.warns(nlink.NonPhysicalWarning, match="no mass moves with"):
        robot = nlink.load(FILES[name])
    q, qd = robot.random_state(0)
    assert np.isfinite(robot.inverse_dynamics(q, qd, qd, engine="numpy")).all()
    for call in (lambda: robot.forward_dynamics(q, qd, qd), lambda: robot.solve(q, qd),
                 lambda: nlink.simulate(robot, q, qd, t=0.1)):
        with pytest.raises(ValueError, match=r"joint '\w+' moves no mass"):
            call()


@pytest.mark.slow
@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", ROBOTS)
def test_joints_come_in_the_order_of_pinocchio(name):
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(FILES[name]))
    description = read_urdf(FILES[name], physical="ignore")
    assert [j.name for j in description.joints if j.type.nv] == list(model.names)[1:]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", ROBOTS)
def test_floating_frees_the_root_link_alone(name):
    fixed = load_description(FILES[name], physical="ignore")
    floating = load_description(FILES[name], physical="ignore", floating=True)
    assert floating.links == fixed.links
    assert floating.joints[1:] == fixed.joints[1:]
    assert floating.joints[0].type.name == "free"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", ROBOTS)
def test_the_tree_names_every_link(name):
    """In a row of its own, or as a frame of the link that carries it."""
    robot = nlink.load(FILES[name], physical="ignore")
    _, base, *lines, _ = link_tree(robot)
    drawn = [re.sub("[├└│─ ]*", "", line, count=1).split()[0] for line in lines]
    assert base.split()[0] == robot.frames[0]
    assert len(drawn) == len(set(drawn))
    frames = set(robot.frames[1:]) - set(drawn)
    for link, joint in zip(robot.links, robot.joints, strict=True):
        if link.name in frames:
            assert (joint.type.nv, link.mass) == (0, 0.0)
            assert robot.frames[joint.parent] in (*drawn, base.split()[0])


@pytest.mark.parametrize("name", QUICK)
def test_batches_are_loops(name):
    robot = nlink.load(FILES[name], physical="ignore", floating=True)
    q, qd = robot.random_state(1, (3,))
    tau = robot.inverse_dynamics(q, qd, qd, engine="numpy")
    for k in range(3):
        assert np.array_equal(tau[k], robot.inverse_dynamics(q[k], qd[k], qd[k], engine="numpy"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_every_law_holds(name):
    report = nlink.check(nlink.load(FILES[name], floating=True), states=2, engine="numpy")
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "floating"), [
    pytest.param(name, k % 2 == 1, id=f"{name}-{('fixed', 'floating')[k % 2]}")
    for k, name in enumerate(sorted({*KINDS.values(), *SINGULAR, *EXPLAINED})) if name not in LONG])
def test_check_passes_on_every_kind_of_shipped_robot(name, floating, capsys):
    """Fixed or floating in turns. Prints its line of the list; the files that do not pass are the
    explained ones."""
    if name in EXPLAINED:
        line = f"not a robot: {EXPLAINED[name]}"
        with pytest.raises(ValueError, match="no links"):
            nlink.load(FILES[name], floating=floating)
    else:
        robot = nlink.load(FILES[name], physical="ignore", floating=floating)
        report = nlink.check(robot, states=2, engine="numpy", quick=True)
        broken = {row.law for row in report.rows if not row.ok}
        assert broken == (NEED_AN_INVERSE if name in SINGULAR else set()), str(report)
        if name in SINGULAR:
            assert "moves no mass" in report.verdict
        line = (f"{robot.n:>3} rates, {len(report.rows) - len(broken)} of {len(report.rows)} laws"
                + (f", {SINGULAR[name]}" if name in SINGULAR else ""))
    with capsys.disabled():
        print(f"\n{name:<52} {line}", end="")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", QUICK)
def test_pinocchio_reduces_to_the_same_robot(name):
    """Every second joint locked, against buildReducedModel, which has no joints that follow."""
    import pinocchio as pin

    twin = Twin.of(FILES[name], False)
    robot, model, x = twin.robot, twin.model, twin.exchange
    q, qd, _ = state(robot, 1)
    led = {joint.mimic.joint for joint in robot.joints if joint.mimic}
    held = [joint.name for joint in robot.moving_joints
            if joint.mimic is None and joint.name not in led][1::2]
    if not held:
        return
    reduced = pin.buildReducedModel(model, [model.getJointId(j) for j in held], x.q(q))
    locked = robot.lock({joint: q[robot.q_index(joint)] for joint in held})
    y = Exchange.pinocchio(locked.description, reduced)
    q = np.delete(q, [robot.q_index(j) for j in held])
    qd = np.delete(qd, [robot.qd_index(j) for j in held])
    tau = y.tau_back(q, pin.rnea(reduced, reduced.createData(), y.q(q), y.v(q, qd), y.a(q, qd, qd)))
    ours = locked.inverse_dynamics(q, qd, qd, engine="python")
    np.testing.assert_allclose(ours, tau, rtol=0, atol=1e-12 * torque_scale(locked))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["talos_data/talos_left_arm", "xarm_description/xarm7"])
def test_robots_that_rub_fall_and_stop(name):
    """From a random state, for a second: some joints stick, all of it takes few steps."""
    robot = nlink.load(FILES[name], physical="ignore")
    q, qd = robot.random_state(0)
    run = nlink.simulate(robot, q, qd, t=1.0)
    assert run.status == "done"
    assert run.stats.steps < 2000
    assert (run.modes == 0).any()
    assert (run.qd[run.modes == 0] == 0).all()
    assert (np.diff(run.energy) <= 1e-8 * np.abs(run.energy).max()).all()
