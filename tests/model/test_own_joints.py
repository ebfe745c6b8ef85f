"""Joint types as users write them: every law, count, run and file works with them.

The guide's cylindrical joint, a hinge whose coordinates are (cos, sin), a screw with a parameter
of its own, a joint whose subspace depends on its coordinates, and one with a space of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import nlink
from nlink.formats.dh import parse_toml
from nlink.formats.mjcf_writer import to_mjcf
from nlink.formats.urdf_writer import to_urdf
from nlink.model.joints import Coordinates, unit_axis
from nlink.model.spaces import Circle, Lines, Product
from nlink.spatial import Turn, Twist, Vector, Wrench

ZERO = Vector.zero()


@dataclass(frozen=True, slots=True)
class Sleeve(nlink.JointType):
    """Rotation about an axis and translation along it, with everything written out."""

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)

    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2
    name: ClassVar[str] = "sleeve"

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis))

    def displacement(self, q: Coordinates) -> nlink.Displacement:
        turn = Turn("z", nlink.cos(q[0]), nlink.sin(q[0]))
        return nlink.Displacement(ZERO, (turn,), Vector(0, 0, q[1]))

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist(Vector(0, 0, qd[0]), Vector(0, 0, qd[1]))

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        return self.rate(q, ud)

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return (f.moment.z, f.force.z)


@dataclass(frozen=True)
class Roller(nlink.AxialJoint):
    """A hinge with the coordinates (cos, sin)."""

    name = "roller"
    space = Circle()

    def displacement(self, q):
        return nlink.Displacement(ZERO, (Turn("z", q[0], q[1]),), ZERO)

    def rate(self, q, qd):
        return Twist(Vector(0, 0, qd[0]), ZERO)


@dataclass(frozen=True)
class Spindle(nlink.AxialJoint):
    """A screw that rises by `lead` in a turn of so many `teeth`."""

    lead: float = 0.1
    teeth: int = 1

    name = "spindle"
    nv = 1

    def displacement(self, q):
        turn = Turn("z", nlink.cos(q[0]), nlink.sin(q[0]))
        return nlink.Displacement(ZERO, (turn,), Vector(0, 0, q[0] * (self.lead / self.teeth)))

    def rate(self, q, qd):
        return Twist(Vector(0, 0, qd[0]), Vector(0, 0, qd[0] * (self.lead / self.teeth)))


@dataclass(frozen=True)
class Crank(nlink.AxialJoint):
    """A slide across the axis, then a hinge (cos, sin) about it: the subspace turns."""

    name = "crank"
    space = Product((Lines(1), Circle()))

    def displacement(self, q):
        return nlink.Displacement(Vector(q[0], 0, 0), (Turn("z", q[1], q[2]),), ZERO)

    def rate(self, q, qd):
        return Twist(Vector(0, 0, qd[1]), Vector(qd[0] * q[1], -(qd[0] * q[2]), 0))

    def rate_change(self, q, qd, u, ud):
        straight, turned = self.rate(q, ud), self.rate(q, u)
        return Twist(straight.angular,
                     straight.linear - Vector(0, 0, qd[1]).cross(turned.linear))


OWN = {"sleeve": Sleeve(axis=(1, 2, 3)), "roller": Roller(axis=(1, 2, 3)),
       "spindle": Spindle(axis=(1, 2, 3), lead=0.3, teeth=4), "crank": Crank(axis=(3, 2, 1))}
KINDS = pytest.mark.parametrize("kind", OWN)
ROD = nlink.Link("rod", 1.0, (0.1, 0.2, 0.3), ((2, 0.1, 0), (0.1, 3, 0.2), (0, 0.2, 4)))


def chain(kind: str) -> nlink.Robot:
    """The joint at the base and at the tip of an arm, askew."""
    there = nlink.Mount(nlink.Pose.turn("x", 0.4) @ nlink.Pose.shift(x=0.5, y=0.1))
    joints = (nlink.Joint("root", OWN[kind]),
              nlink.Joint("elbow", nlink.Revolute(axis=(0, 1, 0)), 1, there),
              nlink.Joint("tip", replace(OWN[kind], axis=(0.6, 0.0, 0.8)), 2, there))
    links = tuple(replace(ROD, name=f"rod{k}") for k in range(3))
    return nlink.Robot(nlink.Description(f"{kind}s", links, joints))


@pytest.mark.slow
@KINDS
def test_every_law_holds(kind):
    report = nlink.check(chain(kind), states=3, engine="numpy")
    assert report.ok, str(report)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("customize", [True, False])
def test_operations_are_counted(kind, customize):
    for name in ("inverse_dynamics", "forward_dynamics"):
        own = nlink.count(chain(kind), name, customize=customize)
        hinge = nlink.count(chain("roller"), name, customize=customize)
        assert hinge.mul <= own.mul
        assert own.trig == {"roller": 2, "crank": 2}.get(kind, 6)  # (cos, sin) needs none


@pytest.mark.slow
@pytest.mark.sampled(4)
@KINDS
@pytest.mark.parametrize("method", ["dop853", "rk4"])
def test_simulation_keeps_energy(kind, method):
    robot = chain(kind)
    q, qd = robot.random_state(1)
    run = nlink.simulate(robot, q, qd, t=0.2, method=method, step=1e-3 if method == "rk4" else None)
    energy = robot.kinetic_energy(run.q, run.qd) + robot.potential_energy(run.q)
    assert run.status == "done"
    np.testing.assert_allclose(energy, energy[0], rtol=1e-8, atol=1e-8)


def norms(q: np.ndarray) -> np.ndarray:
    """Of the two circles in the states of the rollers' chain."""
    return np.hypot(q[..., [0, 3]], q[..., [1, 4]])


def simulate_rollers(**options) -> np.ndarray:
    robot = chain("roller")
    return norms(nlink.simulate(robot, *robot.random_state(2), t=0.5, **options).q)


def test_interpreted_runs_stay_in_their_space():
    found = simulate_rollers(tau=lambda t, q, qd: -qd, traced=False)
    np.testing.assert_allclose(found, 1, rtol=0, atol=4e-16)


def test_compiled_runs_stay_in_their_space():
    np.testing.assert_allclose(simulate_rollers(), 1, rtol=0, atol=4e-16)


def test_a_roller_is_a_hinge():
    """The same motion in other coordinates."""
    rollers = chain("roller")
    hinges = nlink.Robot(replace(rollers.description, joints=tuple(
        replace(joint, type=nlink.Revolute(joint.type.axis)) for joint in rollers.joints)))
    angles, qd = hinges.random_state(5)
    q = np.array([np.cos(angles[0]), np.sin(angles[0]), angles[1],
                  np.cos(angles[2]), np.sin(angles[2])])
    turned, angle = (nlink.simulate(robot, start, qd, t=0.3).q[-1]
                     for robot, start in ((rollers, q), (hinges, angles)))
    np.testing.assert_allclose(turned[[0, 3]], np.cos(angle[[0, 2]]), atol=1e-7)
    np.testing.assert_allclose(turned[[1, 4]], np.sin(angle[[0, 2]]), atol=1e-7)


@KINDS
def test_runs_are_saved_and_loaded(kind, tmp_path):
    robot = chain(kind)
    run = nlink.simulate(robot, t=0.05, save=tmp_path / "run.npz")
    again = nlink.load_run(tmp_path / "run.npz")
    assert again.robot.description == robot.description
    np.testing.assert_array_equal(again.q, run.q)


@KINDS
def test_toml_keeps_parameters_and_other_formats_say_why_not(kind):
    description = chain(kind).description
    again = parse_toml(nlink.Robot(description).to_toml(), physical="ignore")
    assert again == description
    assert repr(again.joints) == repr(description.joints)  # an int is not a float
    for write in (to_urdf, to_mjcf):
        with pytest.raises(ValueError, match=f"joint 'root'.* {kind} joint"):
            write(description)


@pytest.mark.slow
@KINDS
def test_loops_close(kind):
    """The tip stays in a plane: assembled, at random, and projected while it is simulated."""
    tree = chain(kind)
    q, _ = tree.random_state(3)
    robot = tree.with_loops([{
        "name": "wall", "joint": "matrix", "matrix": [[0, 0, 0, 1, 0, 0]], "of": {"link": "rod2"},
        "on": {"link": "base", "xyz": tree.pose(q, engine="numpy")[:3, 3]}}], home=q)
    closed = robot.loops.assemble(robot.integrate(q, 0.1 * np.ones(robot.n)))
    assert robot.loops.closed(closed)
    assert robot.loops.closed(robot.random_state(0, (2,))[0]).all()
    run = nlink.simulate(robot, closed, t=0.02)
    assert run.status == "done"
    assert robot.loops.closed(run.q).all()


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="Half: nq = 2, expected 1 as in its space Lines"):
        type("Half", (nlink.AxialJoint,), {"nq": 2, "nv": 1, "name": "half"})
    with pytest.raises(TypeError, match="Hinge: name = 'revolute' is that of nlink's own type"):
        type("Hinge", (nlink.AxialJoint,), {"nv": 1, "name": "revolute"})
    bent = replace(chain("crank").description.joints[0].type)
    with pytest.raises(TypeError, match=r"Crank: rate.* depends on q, expected a rate_change"):
        nlink.JointType.rate_change(bent, (0, 1, 0), (0, 0), (0, 0), (0, 0))
    other = type("Other", (Roller,), {})()
    robot = nlink.Robot(nlink.Description("one", (ROD,), (nlink.Joint("j", other),)))
    with pytest.raises(ValueError, match="'j': files know another type as 'roller', expected"):
        robot.to_toml()
    with pytest.raises(TypeError, match=r"teeth: 1\.5, expected int"):
        nlink.Robot.from_dh([{"joint": "spindle", "teeth": 1.5, "mass": 1.0}])
    with pytest.raises(ValueError, match="unknown key 'teeth'"):
        nlink.Robot.from_dh([{"joint": "revolute", "teeth": 1, "mass": 1.0}])
