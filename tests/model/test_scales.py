"""A mechanism is the same wherever its base stands and however large it is.

Robots are moved (to 100 km), scaled (lengths and masses, 2^-10 to 2^10) and perturbed (by
1e-17 m); time is not scaled, so gravity goes with lengths and every answer by its units alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import nlink
from nlink import Free, Robot
from nlink.model.constraints import CONSTRAINTS, Constraint, Rows, Screw
from nlink.model.description import Description, Frame, Joint, Link, Loop
from nlink.model.joints import Fixed, Helical, Planar, Prismatic, Revolute
from nlink.model.pose import DH, Mount, Placement, Pose
from nlink.testing import LAWS, Samples, close_at_random, random_description, samples
from nlink.testing.loop_laws import LOOP_LAWS
from nlink.testing.samples import EPS
from oracle import Oracle

HOME = Pose()
FAR = Pose.shift(7e4, -5e4, 6e4)
ASKEW = FAR @ Pose.turn("z", 0.7) @ Pose.turn("y", 0.4) @ Pose.turn("x", -1.1)


def moved(d: Description, by: Pose) -> Description:
    """All that stands on the base stands elsewhere; places are rounded there."""

    def frame(frame: Frame) -> Frame:
        return frame if frame.link else replace(frame, pose=by @ frame.pose)

    return replace(
        d, gravity=tuple((by.R @ np.array(d.gravity)).tolist()),
        frames=tuple(map(frame, d.frames)),
        joints=tuple(joint if joint.parent else replace(joint, placement=Mount(
            by @ joint.placement.before, joint.placement.after)) for joint in d.joints),
        loops=tuple(replace(loop, of=frame(loop.of), on=frame(loop.on)) for loop in d.loops))


def on_a_stand(d: Description, by: Pose) -> Description:
    """The base becomes a link that stands elsewhere: nothing is rounded."""

    def frame(frame: Frame) -> Frame:
        return replace(frame, link=frame.link + 1)

    return replace(
        d, gravity=tuple((by.R @ np.array(d.gravity)).tolist()),
        links=(Link("stand"), *d.links), frames=tuple(map(frame, d.frames)),
        joints=(Joint("ground", Fixed(), 0, Mount(by)),
                *(replace(joint, parent=joint.parent + 1) for joint in d.joints)),
        loops=tuple(replace(loop, of=frame(loop.of), on=frame(loop.on)) for loop in d.loops))


def perturbed(d: Description, by: float = 1e-17) -> Description:
    """Every joint a little off: the noise of a CAD program."""
    return replace(d, joints=tuple(replace(joint, placement=Mount(
        Pose.shift(by, -by, by) @ joint.placement.before, joint.placement.after))
        for joint in d.joints))


@dataclass(frozen=True)
class Scale:
    """Other units of length and mass."""

    length: float = 1.0
    mass: float = 1.0

    def rates(self, joint: Joint) -> list[float]:
        """What happens to the rates of a joint."""
        L = self.length
        match joint.type:
            case Prismatic():
                return [L]
            case Planar():
                return [L, L, 1.0]
            case Free():
                return [1.0, 1.0, 1.0, L, L, L]
        return [1.0] * joint.type.nv

    def coordinates(self, joint: Joint) -> list[float]:
        if isinstance(joint.type, Free):
            return [self.length] * 3 + [1.0] * 4
        return [1.0] * 4 if joint.type.nq != joint.type.nv else self.rates(joint)

    def pose(self, pose: Pose) -> Pose:
        return Pose.of(pose.R, pose.p * self.length)

    def placement(self, at: Placement) -> Placement:
        if isinstance(at, DH):
            return replace(at, a=at.a * self.length, b=at.b * self.length)
        return Mount(self.pose(at.before), self.pose(at.after))

    def joint(self, joint: Joint) -> Joint:
        kind = joint.type
        if isinstance(kind, Helical):
            kind = replace(kind, pitch=kind.pitch * self.length)
        return replace(joint, type=kind, placement=self.placement(joint.placement))

    def constraint(self, constraint: Constraint) -> Constraint:
        if isinstance(constraint, Screw):
            return Screw(constraint.pitch * self.length)
        if isinstance(constraint, Rows):
            units = np.array([self.length] * 3 + [1.0] * 3)
            return Rows(tuple(map(tuple, (np.array(constraint.matrix) * units).tolist())))
        return constraint

    def __call__(self, d: Description) -> Description:
        def frame(frame: Frame) -> Frame:
            return replace(frame, pose=self.pose(frame.pose))

        def link(link: Link) -> Link:
            inertia = np.array(link.inertia) * self.mass * self.length ** 2
            return Link(link.name, link.mass * self.mass,
                        tuple((np.array(link.com) * self.length).tolist()),
                        tuple(map(tuple, inertia.tolist())))

        units = np.array([x for joint in d.joints for x in self.coordinates(joint)])
        return replace(
            d, links=tuple(map(link, d.links)), joints=tuple(map(self.joint, d.joints)),
            frames=tuple(map(frame, d.frames)), physical="ignore",
            gravity=tuple((np.array(d.gravity) * self.length).tolist()),
            home=tuple((np.array(d.home) * units).tolist()) if d.home else (),
            loops=tuple(Loop(loop.name, self.constraint(loop.constraint), frame(loop.of),
                             frame(loop.on)) for loop in d.loops))


SAME = Scale()
SCALES = [Scale(2.0**k, 2.0**m) for k, m in ((-10, 0), (10, 0), (0, -10), (0, 10), (-10, 10))]
CHANGES = {
    "far away": lambda d: moved(d, FAR), "far away and askew": lambda d: moved(d, ASKEW),
    "on a far stand": lambda d: on_a_stand(d, FAR),
    "on a far stand and askew": lambda d: on_a_stand(d, ASKEW),
    "perturbed": perturbed, "perturbed on a far stand": lambda d: on_a_stand(perturbed(d), FAR),
} | {f"lengths * {s.length:g}, masses * {s.mass:g}": s for s in SCALES}
CHANGE = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
SOME = ["on a far stand and askew", "lengths * 0.000976562, masses * 1024"]
IDEAL = {"friction": False, "armature": False}
TYPES = ("revolute", "prismatic", "helical", "universal", "planar", "spherical", "free")


def closed_trees() -> dict[str, Description]:
    """Loops of every type through the base and within the tree, and bundled mechanisms."""
    systems = {name: nlink.load(name).description
               for name in ("four_bar", "two_arms_box", "slider_crank")}
    for seed, kind in enumerate(CONSTRAINTS):
        tree = random_description(seed, 5, types=TYPES, fixed=False, **IDEAL)
        systems[kind] = close_at_random(seed, tree, [(5, 0), (4, 2)], [kind, "soft_finger"])
    return systems


SYSTEMS = closed_trees()


def conversions(change, d: Description) -> tuple[np.ndarray, float]:
    """What a change makes of each rate, and of energies."""
    scale = change if isinstance(change, Scale) else Scale()
    rates = [x for joint in d.joints for x in scale.rates(joint)]
    return np.array(rates), scale.mass * scale.length ** 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("d", SYSTEMS.values(), ids=SYSTEMS)
def test_loops_hold_as_much_and_accelerate_the_same(d):
    robot, rng, how = Robot(d), np.random.default_rng(0), {"engine": "python"}
    q, tau = robot.neutral, rng.normal(size=robot.n)
    qd = robot.compute("project", q, rng.normal(size=robot.n), **how)[1]
    rank = robot.compute("closure_rank", q, **how)
    qdd = robot.forward_dynamics(q, qd, tau, **how)
    bound = 100 * EPS * np.linalg.cond(robot.mass_matrix(q, **how)) * np.abs(qdd).max()
    for name, change in CHANGES.items():
        other, (rates, energy) = Robot(change(d)), conversions(change, d)
        assert other.compute("closure_rank", other.neutral, **how) == rank, name
        found = other.forward_dynamics(other.neutral, qd * rates, tau * energy / rates, **how)
        assert np.abs(found / rates - qdd).max() <= bound, name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four_bar", "slider_crank", "fixed", "matrix"])
def test_loops_are_as_closed(name):
    """Configurations on both sides of the bound, from home along a direction."""
    d = SYSTEMS[name]
    robot, way = Robot(d), np.random.default_rng(1).normal(size=Robot(d).n)
    steps = 10.0 ** np.arange(-9, 0)
    verdicts = robot.loops.closed([robot.integrate(robot.neutral, way * x) for x in steps])
    assert verdicts[0]
    assert not verdicts[-1]
    for change in (CHANGES[name] for name in SOME):
        other, (rates, _) = Robot(change(d)), conversions(change, d)
        moved = [other.integrate(other.neutral, way * rates * x) for x in steps]
        assert np.array_equal(other.loops.closed(moved), verdicts)
        assert other.loops.mobility() == robot.loops.mobility()


@cache
def changed(name: str, loops: bool) -> tuple[Robot, Samples]:
    """Shared by all laws, with a few states."""
    d = SYSTEMS["revolute"] if loops else random_description(2, 7)
    robot = Robot(CHANGES[name](d))
    return robot, samples(robot, states=3)


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("law", "name"), [
    pytest.param(law, SOME[k % 2], id=law.name.replace(" ", "_")) for k, law in enumerate(LAWS)])
def test_laws_hold(law, name):
    robot, x = changed(name, loops=False)
    residual = law(robot, x, "numpy")
    assert residual <= law.bound(robot), f"{law.statement} by {residual:.2e}"


@pytest.mark.slow
@pytest.mark.parametrize("law", LOOP_LAWS, ids=lambda law: law.name.replace(" ", "_"))
def test_laws_of_loops_hold(law):
    robot, x = changed(SOME[0], loops=True)
    residual = law(robot, x, "numpy")
    assert residual <= law.bound(robot), f"{law.statement} by {residual:.2e}"


@pytest.mark.parametrize("offset", [0.0, 1e-17, 1e-9])
@pytest.mark.parametrize("distance", [0.0, 1e4, 1e5])
def test_a_welded_body_stays_where_it_is(offset, distance):
    """Another joint sits on it, off by the noise of a CAD program."""
    cube = Link("cube", 1.0, inertia=((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1)))
    stands = Pose.shift(distance)
    robot = Robot(Description(
        "welded", (cube, replace(cube, name="wheel")),
        (Joint("free", Free(), 0, Mount(stands)),
         Joint("hinge", Revolute(), 1, Mount(Pose.shift(offset)))),
        loops=(Loop("weld", CONSTRAINTS["fixed"](), Frame("of", 1), Frame("on", 0, stands)),)))
    assert robot.compute("closure_rank", robot.neutral, engine="python") == 6
    tau = np.array([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0])
    qdd = robot.forward_dynamics(robot.neutral, np.zeros(7), tau, engine="python")
    assert qdd[:6] == pytest.approx(0.0, abs=1e-12)
    assert qdd[6] == pytest.approx(70.0)


@pytest.mark.slow
def test_a_simulation_far_away_is_the_one_at_home():
    d = nlink.load("four_bar").description
    near, far = (nlink.simulate(Robot(x), t=1.0) for x in (d, moved(d, FAR)))
    assert far.status == near.status == "done"
    assert far.q == pytest.approx(near.q, abs=1e-9)
    assert np.abs(far.robot.loops.error(far.q)).max() < 1e-12


def askew_arm(by: Pose) -> Description:
    """A UR5 whose axes are parallel but for the digits that files have of a quarter turn."""
    d = nlink.load("ur5").description
    tilt = Pose.turn("x", 3.7e-6) @ Pose.turn("y", 1.2e-6)
    return moved(replace(d, joints=tuple(replace(joint, placement=Mount(
        joint.placement.before @ tilt, joint.placement.after)) for joint in d.joints)), by)


@pytest.mark.parametrize("distance", [0.0, 1e3, 1e4, 1e5])
def test_nearly_parallel_axes_lose_no_digits_far_away(distance):
    robot = Robot(askew_arm(Pose.shift(distance, distance / 2)))
    q = np.random.default_rng(0).normal(size=robot.n)
    M = robot.mass_matrix(q, engine="python")
    expected = Oracle.of(askew_arm(HOME)).mass_matrix(q)
    assert np.abs(M - expected).max() < 1e-13 * np.abs(M).max()


def test_jacobians_lose_no_digits_far_away():
    near, far = Robot(askew_arm(HOME)), Robot(askew_arm(FAR))
    q = np.random.default_rng(0).normal(size=near.n)
    J = near.jacobian(q, engine="python")
    assert np.abs(far.jacobian(q, engine="python") - J).max() < 1e-15 * np.abs(J).max()
