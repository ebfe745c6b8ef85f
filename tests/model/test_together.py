"""Several mechanisms as one robot: each does what it does alone."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.testing import random_robot


def without_bases(seed: int) -> list[nlink.Robot]:
    """Two random robots under one gravity, on bases that stand anywhere."""
    rng = np.random.default_rng(seed)
    return [random_robot(seed + k, 4).with_gravity((1.0, 2.0, -9.0)).with_base(nlink.Pose.of(
        nlink.exp3(rng.normal(size=3)), rng.normal(size=3))) for k in range(2)]


@pytest.mark.parametrize("seed", range(4))
def test_the_parts_move_as_they_do_alone(seed):
    """M is that of each, block by block; so are forward dynamics and the places of links."""
    parts = [*without_bases(seed), nlink.free_body("crate", 2.0, nlink.Box((0.3, 0.2, 0.1)))
             .with_gravity((1.0, 2.0, -9.0))]
    one = nlink.together({"a": parts[0], "b": parts[1]}, parts[2])
    states = [part.random_state(seed) for part in parts]
    q, qd = (np.concatenate(x) for x in zip(*states, strict=True))
    assert len(qd) == one.n
    assert len(q) == one.nq
    tau = np.random.default_rng(seed).normal(size=one.n)
    options = {"engine": "python"}
    M, at, forces = one.mass_matrix(q, **options), 0, np.zeros((one.n, one.n))
    moved = one.forward_dynamics(q, qd, tau, **options)
    for prefix, part, (own, rates) in zip(("a/", "b/", ""), parts, states, strict=True):
        own_rows = slice(at, at + part.n)
        forces[own_rows, own_rows] = part.mass_matrix(own, **options)
        alone = part.forward_dynamics(own, rates, tau[own_rows], **options)
        assert moved[own_rows] == pytest.approx(alone, rel=1e-10, abs=1e-10)
        link = part.links[-1].name
        assert one.pose(q, prefix + link, **options) == pytest.approx(
            part.pose(own, link, **options), abs=1e-12)
        at += part.n
    assert pytest.approx(forces, abs=1e-11) == M


@pytest.mark.parametrize("suffix", ["toml", "urdf", "xml"])
def test_files_of_several_mechanisms(tmp_path, suffix):
    if suffix == "xml":
        pytest.importorskip("mujoco")
    one = nlink.together(nlink.load("panda"), nlink.free_body("crate", 2.0, nlink.Box(
        (0.3, 0.2, 0.1))))
    one.save(tmp_path / f"x.{suffix}")
    again = nlink.load(tmp_path / f"x.{suffix}")
    assert again.n == one.n
    q = one.random_state(0)[0]
    names = [list(again.q_names).index(name) for name in one.q_names]
    there = np.empty(one.nq)
    there[names] = q
    frame = "crate"
    assert again.pose(there, frame) == pytest.approx(one.pose(q, frame), abs=1e-12)
    assert again.kinetic_energy(there, np.zeros(one.n)) == 0
    assert np.linalg.eigvalsh(again.mass_matrix(there)) == pytest.approx(
        np.linalg.eigvalsh(one.mass_matrix(q)), rel=1e-8)


def test_loops_home_shapes_and_actuators_go_along():
    bars = nlink.load("four_bar")
    ball = nlink.free_body("ball", 1.0, nlink.Sphere(0.1), nlink.World(friction=0.3)).with_gravity(
        bars.gravity)
    arm = bars.with_contacts({bars.links[0].name: nlink.Sphere(0.05), "base": nlink.Capsule(
        0.1, 1.0)}, nlink.World(friction=0.3))
    two = nlink.together(ball, {"left": bars, "right": arm})
    assert [loop.name for loop in two.description.loops] == ["left/pin", "right/pin"]
    q = two.neutral
    assert q[:7] == pytest.approx(ball.neutral)
    assert two.loops.closed(q)
    assert [(x.link, x.name) for x in two.description.collisions] == [
        ("ball", ""), (f"right/{bars.links[0].name}", ""), ("base", "")]
    assert two.description.world == nlink.World(friction=0.3)


def test_a_body_that_moves_freely_is_homogeneous():
    """Its inertia is that of its shape, turned and shifted by its pose."""
    pose = nlink.Pose.of(nlink.exp3([0.3, 0.2, 0.1]), [0.1, 0.2, 0.3])
    box = nlink.free_body("box", 2.0, nlink.Box((0.2, 0.3, 0.4), pose=pose))
    link, = box.links
    assert link.com == pytest.approx((0.1, 0.2, 0.3))
    moments, axes = np.linalg.eigh(np.array(link.inertia))
    assert moments == pytest.approx(sorted([2 / 12 * (0.04 + 0.09), 2 / 12 * (0.04 + 0.16),
                                            2 / 12 * (0.09 + 0.16)]))
    assert abs(axes.T @ pose.R).max(axis=0) == pytest.approx(1)
    assert box.mechanism.contacts == ()


@pytest.mark.parametrize(("make", "message"), [
    (lambda r, b: nlink.together(), "together: no robots, expected at least one"),
    (lambda r, b: nlink.together(r, 3), "together: a int, expected robots, or robots by the"),
    (lambda r, b: nlink.together(r, r), "together: link 'link1' is in 'puma560' and in 'puma560', "
     "expected names of their own; nlink.together"),
    (lambda r, b: nlink.together(r, b.with_gravity((0, 0, 1))), "together: gravities .* expected"),
    (lambda r, b: nlink.together(
        b.with_contacts({"b": nlink.Sphere(1)}),
        nlink.free_body("c", 1.0, nlink.Sphere(1), nlink.World(friction=0))),
     "together: worlds that differ, expected one"),
    (lambda r, b: nlink.free_body("c", 1.0, 3), "shape: a int, expected a shape such as"),
    (lambda r, b: nlink.free_body("c", 1.0, nlink.Hull([(0, 0, 0)])),
     "shape: a hull, expected a sphere, capsule, box, cylinder or ellipsoid, whose moments"),
    (lambda r, b: nlink.free_body("c", -1.0, nlink.Sphere(1)), "link 'c': mass -1.0, expected a"),
])
def test_what_does_not_go_together_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(nlink.load("puma560"), nlink.free_body("b", 1.0, nlink.Sphere(0.1)))
