"""MJCF: what MuJoCo compiled is what is read, and what is written it computes alike."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink import Description, Robot
from nlink.formats.exchange import Exchange
from nlink.formats.mjcf import from_mujoco
from nlink.formats.mjcf_writer import DEEPEST, mjcf_losses, to_mjcf
from nlink.testing import random_description
from nlink.testing.samples import difference

mujoco = pytest.importorskip("mujoco")

EVERY_JOINT = """<mujoco model="every"><compiler angle="radian"/><option gravity="1 2 -9"/>
<worldbody><site name="here" pos="1 0 0"/>
  <body name="a" pos="0 0 1"><freejoint name="f"/>
    <geom size=".1 .2 .3" type="box" pos=".1 .2 .3"/>
    <body name="b" pos=".1 .2 .3" euler="1 2 3">
      <joint name="h1" axis="1 2 3" pos=".1 0 .2" ref=".3" range="-1 1" damping=".2"/>
      <joint name="h2" axis="1 0 0" pos=".3 0 .2" armature=".2"/>
      <joint name="s" type="slide" axis="0 1 1" ref=".1"/><geom size=".1"/>
      <body name="c" pos=".4 0 0"><joint type="ball" pos=".1 .1 .1" stiffness="1"/>
        <geom type="capsule" size=".05 .3"/><site name="tip" pos="0 0 .3"/></body></body>
    <body pos=".1 .2 -.3"><geom size=".1"/></body>
  </body>
</worldbody><actuator><motor name="m" joint="h1"/></actuator></mujoco>"""
TYPES = ("revolute", "prismatic", "universal", "planar", "spherical")


def agreement(model, description: Description) -> float:
    """The worst relative difference of tau, M and body positions in one random state.

    tau = rne(q, v, a) + armature a - passive forces, which are the damping here.
    """
    robot, x, data = Robot(description), Exchange.mujoco(description), mujoco.MjData(model)
    q, qd = robot.random_state(0)
    qdd = np.random.default_rng(1).normal(size=robot.n)
    data.qpos[:], data.qvel[:], data.qacc[:] = x.q(q), x.v(q, qd), x.a(q, qd, qdd)
    model.jnt_stiffness[:] = 0
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_fwdVelocity(model, data)
    tau, M = np.zeros(model.nv), np.zeros((model.nv, model.nv))
    mujoco.mj_rne(model, data, 1, tau)
    tau += model.dof_armature * data.qacc - data.qfrc_passive
    mass_matrix(model, data, M)
    coulomb = np.array([j.friction.coulomb for j in robot.joints for _ in range(j.type.nv)])
    ours = robot.inverse_dynamics(q, qd, qdd, engine="python") - coulomb * np.sign(qd)
    found = [difference(x.tau(q, ours), tau), difference(ours, x.tau_back(q, tau)),
             difference(x.M(q, robot.mass_matrix(q, engine="python")), M),
             difference(x.M_back(q, M), robot.mass_matrix(q, engine="python")),
             difference(x.q_back(data.qpos), q), difference(x.v_back(q, data.qvel), qd),
             difference(x.a_back(q, qd, data.qacc), qdd)]
    for number in range(1, model.nbody):
        name = model.body(number).name
        if name:
            pose = robot.pose(q, name, engine="python")
            found.append(difference(pose[:3, 3], data.xpos[number], 1.0))
            found.append(difference(pose[:3, :3].ravel(), data.xmat[number]))
    return max(found)


def mass_matrix(model, data, M: np.ndarray) -> None:
    """MuJoCo 4 takes the data, earlier ones its sparse matrix."""
    try:
        mujoco.mj_fullM(model, data, M)
    except TypeError:
        mujoco.mj_fullM(model, M, data.qM)


def test_a_force_free_body_with_armature_flies_straight():
    """In body axes an armature of a free joint would need w x v, so it is left out and said so."""
    model = mujoco.MjModel.from_xml_string("""<mujoco><option gravity="0 0 0"/>
        <default><joint armature=".5"/></default><worldbody><body name="a">
        <joint name="f" type="free"/><geom type="box" size=".1 .2 .3"/></body></worldbody>
        </mujoco>""")
    robot = Robot(from_mujoco(model))
    assert any("armature of a free joint ignored" in line for line in robot.report)
    w, v = np.array([0.3, 2.0, -1.0]), np.array([1.0, -0.5, 0.2])
    run = nlink.simulate(robot, robot.neutral, [*w, *v], t=2.0, rtol=1e-10, atol=1e-12)
    assert run.q[:, :3] == pytest.approx(np.outer(run.t, v), abs=1e-8)


def test_every_joint_of_mujoco():
    model = mujoco.MjModel.from_xml_string(EVERY_JOINT)
    assert agreement(model, from_mujoco(model)) < 1e-13


def test_several_joints_of_a_body_are_a_chain_of_massless_links(tmp_path):
    path = tmp_path / "every.xml"
    path.write_text(EVERY_JOINT)
    robot = nlink.load(path)
    assert robot.name == "every"
    assert robot.frames == ("base", "a", "b:h1", "b:h2", "b", "c", "body4", "here", "tip")
    assert [link.mass == 0 for link in robot.links] == [False, True, True, False, False, False]
    assert robot.gravity.tolist() == [1.0, 2.0, -9.0]
    assert robot.joints[1].limits.position == (-1.0, 1.0)
    assert [(x.name, x.joint, x.kind) for x in robot.actuators] == [("m", "h1", "motor")]
    for line in ("contact between geoms of the robot left out, but for pairs that are named: 1 "
                 "(4 geoms)",
                 "joint stiffness ignored: 1 (joint4)",
                 "joint reference taken into the placement: 2 (h1, s)"):
        assert line in robot.report


def test_a_body_called_base_keeps_its_name():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="base"><freejoint/><geom size=".1"/></body></worldbody>'
        "</mujoco>")
    assert Robot(from_mujoco(model)).frames == ("world", "base")


@pytest.mark.parametrize("seed", range(15))
def test_mujoco_agrees_on_what_is_written(seed):
    """All joints MuJoCo has, on trees that are not numbered depth first."""
    description = random_description(seed, types=TYPES)
    model = mujoco.MjModel.from_xml_string(to_mjcf(description))
    assert agreement(model, description) < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_floating_bases_agree(seed):
    """Linear rates of a free joint are in world axes there, in body axes here."""
    carried = random_description(seed, 4, fixed=False)
    base = random_description(seed, 1, fixed=False).links[0]
    description = Description(
        "floating", (nlink.Link("base_body", base.mass, base.com, base.inertia), *carried.links),
        (nlink.Joint("root_joint", nlink.Free()),
         *(nlink.Joint(j.name, j.type, j.parent + 1, j.placement) for j in carried.joints)),
        gravity=carried.gravity)
    model = mujoco.MjModel.from_xml_string(to_mjcf(description))
    assert agreement(model, description) < 1e-12


def test_reading_what_was_written():
    description = random_description(3, 6, friction=False)
    model = mujoco.MjModel.from_xml_string(to_mjcf(description))
    copy = Robot(from_mujoco(model, physical="ignore"))
    x, robot = Exchange.mujoco(description), Robot(description)
    q, qd = robot.random_state(1)
    tau = robot.inverse_dynamics(q, qd, qd, engine="python")
    again = copy.inverse_dynamics(x.q(q), x.v(q, qd), x.v(q, qd), engine="python")
    assert difference(x.tau(q, tau), again) < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_joints_of_massless_links_go_to_the_link_they_carry(seed):
    """MuJoCo refuses bodies that move without mass, but gives a body several joints."""
    solid = random_description(seed, 7, tree=False, fixed=False,
                               types=("revolute", "prismatic", "universal"))
    hollow = replace(solid, frames=(), links=tuple(
        nlink.Link(link.name) if k % 3 else link for k, link in enumerate(solid.links)))
    model = mujoco.MjModel.from_xml_string(to_mjcf(hollow))
    assert model.nbody == 4  # the world and links 1, 4 and 7
    assert agreement(model, hollow) < 1e-12
    assert ("massless links left out, their joints given to the links they carry: "
            "4 (link2, link3, link5 and 1 more)") in mjcf_losses(hollow)


def test_a_model_with_several_joints_on_a_body_is_written_as_it_was():
    description = from_mujoco(mujoco.MjModel.from_xml_string(EVERY_JOINT))
    again = mujoco.MjModel.from_xml_string(to_mjcf(description))
    assert [again.joint(k).name for k in range(4)] == ["f", "h1", "h2", "s"]
    assert again.body("b").jntnum[0] == 3
    assert agreement(again, description) < 1e-12


def chain(links: int) -> Description:
    rod = nlink.Link("rod", 1.0, (0.5, 0.0, 0.0), tuple(map(tuple, np.eye(3).tolist())))
    return Description(
        "chain", tuple(replace(rod, name=f"rod{k}") for k in range(1, links + 1)),
        tuple(nlink.Joint(f"j{k}", nlink.Revolute(), k) for k in range(links)))


@pytest.mark.slow
def test_a_chain_is_as_long_as_mujoco_reads():
    model = mujoco.MjModel.from_xml_string(to_mjcf(chain(DEEPEST)))
    assert model.nv == DEEPEST
    for links in (DEEPEST + 1, 10_000):
        with pytest.raises(ValueError, match=f"chain: link 'rod{DEEPEST + 1}' is body .* MuJoCo "
                                             f"reads at most {DEEPEST} within one another"):
            to_mjcf(chain(links))


def test_a_link_called_world_is_renamed():
    description = replace(chain(2), links=(replace(chain(1).links[0], name="world"),
                                           chain(1).links[0]))
    model = mujoco.MjModel.from_xml_string(to_mjcf(description))
    assert [model.body(k).name for k in range(3)] == ["world", "world_2", "rod1"]
    assert "link renamed, since MuJoCo's own body has that name: 1 (world)" in mjcf_losses(
        description)


def test_everything_lost_is_listed():
    rod = chain(1).links[0]
    description = Description(
        "lossy", (rod, nlink.Link("spin", 0.0, (0.0, 0.0, 0.0), rod.inertia), nlink.Link("tip")),
        (nlink.Joint("a", nlink.Revolute(), 0, nlink.DH(1.0, 0.0, 0.0, 0.0),
                     nlink.Friction(0.0, 1.0), limits=nlink.Limits((-1.0, 1.0), velocity=2.0)),
         nlink.Joint("b", nlink.Revolute(), 1, limits=nlink.Limits((0.0, float("inf")))),
         nlink.Joint("c", nlink.Planar(), 2)),
        source="a book", physical="ignore")
    assert mjcf_losses(description) == [
        "source: the text about where the numbers come from",
        "DH parameters become placements: 1 (a)",
        "limits of velocity and effort: 1 (a)",
        "position limits that MuJoCo has no range for, such as one-sided ones: 1 (b)",
        "position limits written but inactive: 1 (a)",
        "Coulomb friction written as frictionloss but inactive: 1 (a)",
        "universal and planar joints become several: 1 (c)",
        "inertia of links without mass: 1 (spin)",
        "MuJoCo refuses links that move and have no mass or no inertia: 2 (spin, tip)",
        "contacts, limits and dry friction are switched off: there is no geometry"]
    with pytest.raises(ValueError, match="mass and inertia of moving bodies"):
        mujoco.MjModel.from_xml_string(to_mjcf(description))


SHAPES = {
    "point": (0.0, 0.0, 0.0), "rod": (0.0, 0.1, 0.1), "disc": (0.1, 0.1, 0.2), "ball": (1, 1, 1),
    "no body": (0.1, 0.1, 0.3), "negative": (-0.1, 0.1, 0.1), "rounded": (-1e-13, 0.1, 0.1),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("mass", [1.0, 1e-6, 1e3, 0.0])
@pytest.mark.parametrize("joint", [nlink.Revolute(), nlink.Fixed()])
@pytest.mark.parametrize("shape", SHAPES)
def test_mujoco_accepts_what_is_not_listed_as_refused(shape, joint, mass):
    """Bodies whose inertia is singular or impossible, straight and turned, that move or are fixed
    in one that does: what MuJoCo compiles it computes alike."""
    rng, wrong = np.random.default_rng(0), []
    for turn in (np.eye(3), *(np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(10))):
        tensor = mass * turn @ np.diag(SHAPES[shape]) @ turn.T
        link = nlink.Link("b", mass, (0.4, 0.3, 0.1), tuple(map(tuple, (tensor + tensor.T) / 2)))
        description = Description("x", (chain(1).links[0], link),
                                  (nlink.Joint("i"), nlink.Joint("j", joint, 1)), physical="ignore")
        refused = any(line.startswith("MuJoCo refuses") for line in mjcf_losses(description))
        try:
            model = mujoco.MjModel.from_xml_string(to_mjcf(description))
        except ValueError as error:
            wrong += [] if refused else [str(error)]
            continue
        if refused:  # MuJoCo overlooks some negative moments
            wrong += [] if shape == "negative" else ["compiled, though listed"]
        elif mass and agreement(model, description) > 1e-9:
            wrong.append("other numbers")
    assert not wrong


def test_what_is_written_but_inactive_does_nothing():
    """Limits and Coulomb friction are constraints in MuJoCo, and those are switched off."""
    still = replace(chain(1), gravity=(0.0, 0.0, 0.0), joints=(nlink.Joint(
        "j", friction=nlink.Friction(0.0, 3.0), limits=nlink.Limits((-1.0, 1.0))),))
    model = mujoco.MjModel.from_xml_string(to_mjcf(still))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = 2.0, 1.0
    mujoco.mj_forward(model, data)
    assert data.qacc[0] == 0.0


@pytest.mark.parametrize(("text", "message"), [
    ("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>", "MuJoCo refuses it"),
    ("<mujoco><nonsense/></mujoco>", "MuJoCo refuses it"),
    ("<sdf/>", "root element <sdf>, expected <mujoco>"),
    ('<!DOCTYPE x [<!ENTITY a "b">]><mujoco/>', "refused for safety"),
])
def test_wrong_files_are_refused_in_one_sentence(tmp_path, text, message):
    path = tmp_path / "wrong.xml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        nlink.load(path)
    assert "\n" not in str(caught.value)


def test_urdf_in_an_xml_file_is_urdf(tmp_path):
    path = tmp_path / "x.xml"
    path.write_text('<robot name="u"><link name="a"/></robot>')
    assert nlink.load(path).name == "u"


def test_without_mujoco_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    path = tmp_path / "x.xml"
    path.write_text("<mujoco/>")
    with pytest.raises(ImportError, match=r"nlink\[mjcf\]"):
        nlink.load(path)


def test_joints_without_a_twin_are_refused():
    with pytest.raises(ValueError, match="a helical joint has no twin in MuJoCo"):
        to_mjcf(random_description(0, 1, types=("helical",)))
