"""Pages of motions: one file, in a real browser."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from browser import chromium, opened

import nlink
from nlink.viewer.clip import Clip
from nlink.viewer.motion_page import motion_page
from nlink.viewer.scene import Scene
from nlink.viewer.scene_page import inline_frame


@pytest.fixture(scope="module")
def runs():
    pendulum = nlink.load("double_pendulum")
    start = np.array([[1.0, 0.5], [1.2, 0.5], [1.4, 0.5]])
    bar = nlink.load("four_bar")
    return {"ensemble": nlink.simulate(pendulum, start, t=2.0),
            "loop": nlink.simulate(bar, t=1.0, every=0.02)}


def numbers(page: str) -> tuple[dict, bytes]:
    head = re.search(r'id="head">(.*?)</script>', page, re.DOTALL)
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert head
    assert data
    return json.loads(head[1]), zlib.decompress(base64.b64decode(data[1]))


def unpacked(where: dict, data: bytes) -> np.ndarray:
    kind, count = np.dtype(where["type"]), int(np.prod(where["shape"]))
    raw = np.frombuffer(data, np.uint8, count * kind.itemsize, where["start"])
    values = np.ascontiguousarray(raw.reshape(kind.itemsize, count).T).view(kind)
    values = values.reshape(where["shape"])
    return np.cumsum(values, axis=0, dtype=kind) if where["sum"] else values


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ensemble", "loop"])
def test_a_page_holds_the_motion(runs, name):
    run = runs[name]
    head, data = numbers(motion_page(Clip.of(run)))
    t, p, r = (unpacked(head[key], data) for key in ("t", "p", "r"))
    np.testing.assert_allclose(t, run.t, atol=1e-6)
    q = run.q.reshape(-1, *run.q.shape[-2:])
    for link in range(1, len(run.robot.links) + 1):
        T = run.robot.pose(q, link, engine="numpy")
        np.testing.assert_allclose(p[link].transpose(1, 2, 0), T[..., :3, 3], atol=1e-6)
        w, x, y, z = r[link] / 32767
        np.testing.assert_allclose(1 - 2 * (y * y + z * z), T[..., 0, 0], atol=2e-4)
        np.testing.assert_allclose(2 * (x * z - w * y), T[..., 2, 0], atol=2e-4)
    part = head["parts"][0]
    corners = unpacked(part["v"], data) / 65535 * part["extent"] + part["low"]
    surface = Clip.of(run).scene.parts[0].surface
    faces = unpacked(part["f"], data).reshape(-1, 3)
    np.testing.assert_allclose(corners[faces], surface.vertices[surface.triangles], atol=1e-4)


@pytest.mark.slow
def test_pages_name_nothing_outside_and_cannot_be_broken_by_names(runs):
    robot = runs["loop"].robot
    named = nlink.Robot(replace(robot.description, name="</script><script>alert(1)</script>"))
    page = motion_page(Clip.of(replace(runs["loop"], robot=named)))
    assert "<script>alert" not in page
    assert not re.search(r"(src|href)=[\"'](?!data:)", page)
    assert "http://" not in page
    assert "https://" not in page


def test_what_cannot_be_written_is_said(runs, tmp_path):
    with pytest.raises(ValueError, match=r"suffix '.pdf', expected .html"):
        runs["loop"].html(tmp_path / "x.pdf")
    with pytest.raises(ValueError, match="has 3 coordinates, expected 2"):
        runs["ensemble"].html(tmp_path / "x.html", robot=runs["loop"].robot)
    with pytest.raises(ValueError, match="trajectories: 0, expected at least 1"):
        runs["ensemble"].html(tmp_path / "x.html", trajectories=0)


def test_a_trajectory_that_ends_early_stays_where_it_was(runs):
    run = runs["ensemble"]
    q = run.q.copy()
    q[1, 100:] = np.nan
    clip = Clip.of(replace(run, q=q))
    np.testing.assert_array_equal(clip.places[1, 150], clip.places[1, 99])
    assert np.isnan(clip.curves[next(iter(clip.curves))][1, 150])


def test_the_camera_frames_the_robot_not_what_slides_away(runs):
    robot = nlink.load("stanford")
    q = np.tile(robot.neutral, (50, 1))
    q[:, 2] += np.linspace(0, 490.0, 50)  # the joint that slides
    clip = Clip.of(runs["ensemble"])
    scene = Scene.of(robot)
    sliding = replace(clip, scene=scene, places=scene.places(q)[None])
    head, _ = numbers(motion_page(replace(
        sliding, t=np.arange(50.0), trace=np.zeros((1, 50, 3)), energy=np.zeros((1, 50)),
        curves={}, forces=np.zeros((1, 50, 0, 3)), points=np.zeros((1, 50, 0, 3)),
        status=["done"])))
    start = scene.corners(scene.places(robot.neutral))
    middle = (start.min(axis=0) + start.max(axis=0)) / 2
    assert np.linalg.norm(np.subtract(head["target"], middle)) < 2 * scene.size
    assert np.linalg.norm(np.subtract(head["eye"], middle)) < 12 * scene.size


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("width", [250, 390, 800])
def test_a_page_within_a_page_clips_neither_clock_nor_labels(runs, browser, tmp_path, width):
    page = motion_page(Clip.of(runs["ensemble"]), compact=True)
    outer = tmp_path / "report.html"
    outer.write_text(f"<!doctype html><body>{inline_frame(page, height=380)}</body>", "utf-8")
    with opened(browser, outer.as_uri(), width) as watched:
        frame = watched.page.frame_locator("iframe")
        frame.locator("html[data-ready=yes]").wait_for()
        within = frame.locator("#clock, label, button, select, #scene").evaluate_all(
            "nodes => nodes.map((node) => { const b = node.getBoundingClientRect();"
            " return b.left >= 0 && b.top >= 0 && b.right <= innerWidth + 1"
            " && b.bottom <= innerHeight + 1 && b.height > 8; })")
        assert len(within) > 8
        assert all(within)


@pytest.mark.slow
@pytest.mark.parametrize("still", [False, True])
def test_a_page_plays_by_itself_unless_less_motion_is_asked_for(runs, browser, tmp_path, still):
    path = runs["ensemble"].html(tmp_path / "fall.html")
    with opened(browser, path.as_uri(), 400, still=still) as watched:
        watched.page.wait_for_selector("html[data-ready=yes]")
        assert watched.page.text_content("#play") == ("Play" if still else "Pause")
        if still:
            assert watched.seconds() == 0
        else:
            watched.wait(lambda: watched.seconds() > 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_a_page_plays_in_a_browser(runs, browser, tmp_path, width, scheme):
    path = runs["ensemble"].html(tmp_path / "fall.html")
    with opened(browser, path.as_uri(), width, scheme) as watched:
        page = watched.page
        page.wait_for_selector("html[data-ready=yes]")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not page.locator("#problem").is_visible()
        to = """seconds => { const s = document.getElementById("time");
                s.value = seconds; s.dispatchEvent(new Event("input")); }"""
        page.evaluate(to, 0.2)
        first = watched.settled("#scene")
        assert (first.mean() > 0.5) == (scheme == "light")
        page.evaluate(to, 1.0)
        watched.wait(lambda: page.text_content("#clock") == "1.00 s")
        watched.until(lambda now: np.abs(now - first).max() > 0.2, "#scene")
        watched.until(lambda now: now.std() > 0.01, "#curves canvas")
        page.select_option("#which", "1")
        page.click("#show-inertias")
        page.click("#play")
        watched.wait(lambda: watched.seconds() > 1.0)
        assert watched.complaints == []
        assert watched.outside() == []


@pytest.mark.slow
def test_a_page_within_a_page_plays(runs, browser, tmp_path):
    page = motion_page(Clip.of(runs["loop"]), compact=True)
    outer = tmp_path / "report.html"
    outer.write_text(f"<!doctype html><body>{inline_frame(page)}</body>", "utf-8")
    with opened(browser, outer.as_uri(), 800) as watched:
        frame = watched.page.frame_locator("iframe")
        frame.locator("#time").wait_for()
        watched.until(lambda now: now.std() > 0.02, "iframe")
        assert watched.complaints == []
        assert watched.outside() == []
