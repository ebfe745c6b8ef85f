"""Views by viser: what the server shows is what the robot does; in a real browser it is seen."""

from __future__ import annotations

import socket

import numpy as np
import pytest
from browser import chromium, opened

import nlink
from nlink.viewer.server import escaped, free_port

pytest.importorskip("viser", reason="viser is not installed")


def shown(view) -> dict[int, np.ndarray]:
    """Where the server has put links, 4x4."""
    found = {}
    for link, frame in view.frames.items():
        w, x, y, z = frame.wxyz
        T = np.eye(4)
        T[:3, :3] = [[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                     [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]]
        T[:3, 3] = frame.position
        found[link] = T
    return found


@pytest.mark.slow
def test_links_are_where_the_robot_has_them():
    robot = nlink.load("two_arms_box")
    q = robot.integrate(robot.neutral, np.random.default_rng(1).normal(size=robot.n))
    with robot.view() as view:
        view.show(q)
        places = shown(view)
        assert len(places) >= 10
        for link, T in places.items():
            np.testing.assert_allclose(T, robot.pose(q, link, engine="numpy"), atol=1e-9)
        with pytest.raises(ValueError, match="q: shape"):
            view.show([0.0])


def test_sliders_keep_limits_and_loops():
    robot = nlink.load("four_bar")
    with robot.view() as view:
        assert view.sliders is not None
        view.sliders.handles[0, 0].value = robot.neutral[0] + 0.2
        view.sliders.moved(0)
        assert abs(view.q[0] - robot.neutral[0] - 0.2) < 2e-3
        assert robot.loops.closed(view.q)
        view.sliders.home()
        np.testing.assert_allclose(view.q, robot.neutral)
    with nlink.load("panda").view() as view:
        for (number, _), handle in view.sliders.handles.items():
            low, high = view.robot.joints[number].limits.position
            assert low <= handle.min < handle.max <= high


def test_joints_of_several_rates_and_followers_have_their_coordinates():
    from nlink.testing.mechanisms import EVERY, random_description

    robot = nlink.Robot(random_description(3, bodies=6, types=EVERY))
    with robot.view() as view:
        rng = np.random.default_rng(0)
        for handle in view.sliders.handles.values():
            handle.value = float(rng.uniform(0.2, 0.8) * handle.max)
        q = view.sliders.configuration()
        view.sliders.set(q)
        np.testing.assert_allclose(view.sliders.configuration(), q, atol=1e-9)
        view.show(q)
        for link, T in shown(view).items():
            np.testing.assert_allclose(T, robot.pose(q, link, engine="numpy"), atol=1e-9)


def test_marks_and_numbers():
    robot = nlink.load("panda")
    with robot.view() as view:
        for layer in ("frames", "axes", "masses", "inertias"):
            view._mark(layer, True)
            assert all(handle.visible for handle in view._extras[layer])
            view._mark(layer, False)
            assert not any(handle.visible for handle in view._extras[layer])
        view._mark("masses", True)
        q, _ = robot.random_state(0)
        view.show(q)
        np.testing.assert_allclose(view._center.position, robot.center_of_mass(q), atol=1e-9)
        view._pick(3)
        assert f"{robot.links[2].mass:.6g} kg" in view._numbers.content


def test_a_run_plays():
    run = nlink.simulate(nlink.load("double_pendulum"), [[1.0, 0.5], [1.3, 0.5]], t=1.0)
    with run.view() as view:
        view._show_at(0.5)
        np.testing.assert_allclose(view.q, run.q[0, 50])
        np.testing.assert_allclose(shown(view)[2], run.robot.pose(run.q[0, 50], 2), atol=1e-9)
        assert len(view.ghosts) == 1
        view.which.value = "2"
        view._show_at(0.25)
        np.testing.assert_allclose(view.q, run.q[1, 25])
        assert not any(frame.visible for frame in view.ghosts[0].values())


def test_a_simulation_is_followed(monkeypatch):
    from nlink.simulation import simulator

    monkeypatch.setattr(simulator, "SLICE", 1e-4)
    robot = nlink.load("double_pendulum")
    with robot.view([1.0, 0.0]) as view:
        seen = []
        show = view.show
        monkeypatch.setattr(view, "show", lambda q: (seen.append(np.array(q)), show(q)))
        run = nlink.simulate(robot, [1.0, 0.0], t=40.0, method="rk4", step=1e-4,
                             progress=view.follow())
    assert len(seen) > 1
    np.testing.assert_allclose(seen[-1], run.q[-1])


def test_a_port_in_use_is_one_sentence():
    with socket.socket() as other:
        other.bind(("localhost", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ValueError, match=f"port: {port} on localhost cannot be used"):
            nlink.load("planar3").view(port=port)
        assert free_port("localhost", None) != port
    with pytest.raises(ValueError, match="port: 70000, expected 1 to 65535"):
        free_port("localhost", 70000)


def test_words_are_no_markup():
    assert escaped("<b>a|b</b>") == r"\<b\>a\|b\</b\>"


def test_a_hand_moves_the_arm():
    robot = nlink.load("planar3")
    q = np.array([0.3, 0.6, 0.5])
    with robot.view(q) as view:
        view.hand.on.value = True
        view.hand.start()
        goal = robot.pose(q + np.array([0.1, -0.2, 0.1]))
        view.hand.handle.position = goal[:3, 3]
        view.hand.handle.wxyz = nlink.quaternion_from_matrix(goal[:3, :3])
        view.hand.moved()
        assert np.abs(robot.pose(view.q) - goal).max() < 1e-3
        assert view.sliders.handles[0, 0].value == pytest.approx(view.q[0], abs=1e-2)
        view.hand.handle.position = (5.0, 0.0, 0.0)
        view.hand.moved()
        assert "mm" in view.hand.problem.content
        view.hand.on.value = False
        view.hand.start()
        assert view.hand.handle is None


@pytest.mark.slow
def test_a_view_is_seen_in_a_browser():
    robot = nlink.load("planar3")
    with robot.view() as view, chromium() as browser:
        # light from all around takes a quarter of a minute without graphics hardware
        view.server.scene.configure_default_lights(cast_shadow=False)
        view.server.scene.configure_environment_map(hdri=None)
        for width in (390, 1280):
            view.sliders.home()
            with opened(browser, view.url, width, height=500, scale=0.25) as watched:
                page = watched.page
                page.get_by_text("joint1", exact=True).wait_for()
                first = watched.settled()
                view.show([1.5, 0.5, 0.5])
                watched.until(lambda now, first=first: np.abs(now - first).max() > 0.1)
                assert [x for x in watched.complaints if "THREE." not in x] == []
                assert watched.outside(view.url, view.url.replace("http", "ws")) == []
