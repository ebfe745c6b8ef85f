"""Live pages: what they compute, in a real browser, is what `nlink.simulate` computes."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from browser import chromium, opened

import nlink
from nlink.simulation import live as live_pages
from nlink.viewer.scene_page import inline_frame

ARM = nlink.load("planar3")
START = [0.3, -0.4, 0.5]
LAW = nlink.simulation.PDGravity(ARM, [0.6, 0.2, -0.3], 30.0, 6.0)
KP = nlink.Slider("kp", 0, 3, relative=True)


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def shown(browser, path, width=800, **options):
    """A page that has been loaded, for a reader who has asked for less motion: it stands still."""
    return opened(browser, path.as_uri(), width, still=True, **options)


def ready(watched):
    watched.page.wait_for_selector("html[data-ready=yes]")
    return watched.page


@pytest.mark.slow
def test_a_page_computes_what_simulate_does(browser, tmp_path):
    link, wrench = ARM.links[1].name, [0.1, 0.0, 0.2, 3.0, -2.0, 0.0]
    path = nlink.live(ARM, LAW, [KP, nlink.Slider("gravity", 0, 20), nlink.Slider("payload", 0, 9),
                                 nlink.Slider(f"mass[{link}]", 0.1, 9)],
                      tmp_path / "arm.html", q0=START)
    times = [0.0, 0.25, 0.5, 1.0]
    options = {"method": "rk4", "step": 1e-3, "tau": LAW}
    half = nlink.simulate(ARM, START, t=[0.0, 0.5], **options)
    light = np.array(ARM.inertias)
    light[1] *= 0.4 / light[1, 0]
    changed = nlink.simulate(
        ARM, half.q[-1], half.qd[-1], t=[0.0, 0.5], **options,
        vary={"kp": 2.0 * np.array(LAW.kp), "gravity": [0.0, -3.0, 0.0], "payload": 4.0,
              "inertia": light})
    with shown(browser, path) as watched:
        page = ready(watched)
        found = np.array(page.evaluate(f"nlink.until({times[1:]})"))
        run = nlink.simulate(ARM, START, t=times, **options)
        np.testing.assert_allclose(found[:, :3], run.q[1:], rtol=0, atol=1e-12)
        # sliders at half a second: as a second run from there
        page.evaluate("(nlink.restart(), nlink.until([0.5]))")
        down = np.argmax(np.abs(ARM.gravity))
        assert down == 1
        for label, value in (("kp", 2), ("gravity", 3), ("payload", 4), (f"mass[{link}]", 0.4)):
            page.evaluate(f"nlink.set('{label}', {value})")
        found = np.array(page.evaluate("nlink.until([1.0])"))[0]
        np.testing.assert_allclose(found[:3], changed.q[-1], rtol=0, atol=1e-12)
        # a hand's wrench is that of f_ext
        for label, value in (("kp", 1), ("gravity", 9.81), ("payload", 0)):
            page.evaluate(f"nlink.set('{label}', {value})")
        page.evaluate(f"(nlink.set('mass[{link}]', {ARM.links[1].mass}), nlink.restart(),"
                      f" nlink.push('{link}', {wrench}))")
        found = np.array(page.evaluate("nlink.until([0.5])"))[0]
        pushed = nlink.simulate(ARM, START, t=[0.0, 0.5], f_ext={link: wrench}, **options)
        np.testing.assert_allclose(found[:3], pushed.q[-1], rtol=0, atol=1e-12)
        assert watched.complaints == []
        assert watched.requests == [path.as_uri()]


@pytest.mark.slow
def test_modes_loops_and_several_robots_compute_what_simulate_does(browser, tmp_path):
    rough = ARM.with_friction(dry=0.4, viscous=0.05)
    options = {"method": "rkf45", "limits": "hold"}
    sampled = nlink.simulation.Sampled(LAW, 0.02)
    path = nlink.live(rough, {"free": None, "sampled": sampled}, [], tmp_path / "rough.html",
                      q0=[START, [0.2, 0.1, 0.0]], **options)
    with shown(browser, path) as watched:
        page = ready(watched)
        for k, (q0, tau) in enumerate((q0, tau) for tau in (None, sampled)
                                      for q0 in (START, [0.2, 0.1, 0.0])):
            found = np.array(page.evaluate(f"nlink.until([0.4, 1.0], {k})"))
            run = nlink.simulate(rough, q0, t=[0.0, 0.4, 1.0], tau=tau, **options, step=1e-3)
            np.testing.assert_allclose(found[:, :3], run.q[1:], rtol=0, atol=5e-12)
            assert len(page.evaluate(f"nlink.marks({k})")) >= len(run.events)
        assert page.locator("#which option").all_text_contents() == [
            "free 1", "free 2", "sampled 1", "sampled 2"]
        assert watched.complaints == []
    four_bar = nlink.load("four_bar")
    path = nlink.live(four_bar, None, [], tmp_path / "loop.html", equations=False)
    with shown(browser, path) as watched:
        found = np.array(ready(watched).evaluate("nlink.until([0.5])"))[0]
        run = nlink.simulate(four_bar, t=[0.0, 0.5], method="rk4", step=1e-3)
        np.testing.assert_allclose(found[:four_bar.nq], run.q[-1], rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk4", "rkf45"])
def test_impacts_on_limits_are_those_of_simulate(browser, tmp_path, method):
    narrow = nlink.Robot(replace(ARM.description, joints=tuple(
        replace(joint, limits=nlink.Limits((-0.7, 0.7))) for joint in ARM.description.joints)))
    options = {"method": method, "limits": "bounce", "restitution": 0.7}
    path = nlink.live(narrow, None, [], tmp_path / "bounce.html", q0=START, equations=False,
                      **options)
    with shown(browser, path) as watched:
        found = np.array(ready(watched).evaluate("nlink.until([0.5, 1.0])"))
        marks = watched.page.evaluate("nlink.marks()")
    run = nlink.simulate(narrow, START, t=[0.0, 0.5, 1.0], **options, step=1e-3)
    assert len(run.events) >= 4
    np.testing.assert_allclose(found[:, :6], np.hstack([run.q, run.qd])[1:], rtol=0, atol=1e-10)
    np.testing.assert_allclose(sorted(t for t, _ in marks), run.events.t, rtol=0, atol=1e-10)


class Finger:
    """A finger on a page, by Chromium's own protocol."""

    def __init__(self, page):
        self.session = page.context.new_cdp_session(page)

    def __call__(self, what, *points):
        self.session.send("Input.dispatchTouchEvent", {"type": f"touch{what}", "touchPoints": [
            {"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]})


@pytest.mark.slow
def test_fingers_pull_links_turn_the_view_and_come_nearer(browser, tmp_path):
    path = nlink.live(ARM, LAW, [KP], tmp_path / "arm.html", q0=START, step=5e-3, equations=False)
    with shown(browser, path, 390, touch=True) as watched:
        page = ready(watched)
        finger = Finger(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        box = page.locator("#scene").bounding_box()

        def at(x, y):
            return box["x"] + x * box["width"], box["y"] + y * box["height"]

        taken = None
        for place in (at(i / 12, j / 12) for j in range(2, 11) for i in range(2, 11)):
            finger("Start", place)
            if "Holding" in page.text_content("#about"):
                taken = place
                break
            finger("End")
        assert taken, "no link is where the finger looks"
        finger("Move", at(0.5, 0.15))
        before = np.array(page.evaluate("nlink.state()"))
        held = np.array(page.evaluate("nlink.until([0.5])"))[0]
        finger("End")
        assert page.text_content("#about").startswith("Drag a link")
        assert np.abs(held[:3] - before[:3]).max() > 0.05
        # beside the arm: one finger turns, two come nearer, and the page itself stays where it is
        still = watched.settled("#scene")
        finger("Start", at(0.05, 0.05))
        finger("Move", at(0.35, 0.15))
        finger("End")
        turned = watched.settled("#scene")
        assert np.abs(turned - still).max() > 0.1
        finger("Start", at(0.1, 0.1), at(0.2, 0.1))
        finger("Move", at(0.05, 0.1), at(0.9, 0.1))
        finger("End")
        assert np.abs(watched.settled("#scene") - turned).max() > 0.1
        assert page.evaluate("[scrollX, scrollY, visualViewport.scale]") == [0, 0, 1]
        page.locator("#play").tap()
        watched.wait(lambda: watched.seconds() > 0.6)
        assert watched.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_a_hand_pulls_a_link_and_a_slider_is_moved(browser, tmp_path, width, scheme):
    path = nlink.live(ARM, LAW, [KP], tmp_path / "arm.html", q0=START, step=5e-3)
    with opened(browser, path.as_uri(), width, scheme) as watched:
        page = ready(watched)
        watched.wait(lambda: watched.seconds() > 0.1)  # it plays by itself
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("nlink.pause()")
        box, taken = page.locator("#scene").bounding_box(), []
        for x, y in ((i / 12, j / 12) for j in range(2, 11) for i in range(2, 11)):
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
            page.mouse.down()
            if "Holding" in page.text_content("#about"):
                taken.append((x, y))
                break
            page.mouse.up()
        assert taken, "no link is where the pointer looks"
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 6)
        before = np.array(page.evaluate("nlink.state()"))
        now = page.evaluate("nlink.time()")
        held = np.array(page.evaluate(f"nlink.until([{now + 0.5}])"))[0]
        page.mouse.up()
        assert page.text_content("#about").startswith("Drag a link")
        assert np.abs(held[:3] - before[:3]).max() > 0.05
        slider = page.locator("#slider-0")
        slider.fill("2.5")
        assert page.locator(".slider output").text_content() == "2.5 x"
        page.evaluate("nlink.run()")
        watched.until(lambda picture: picture.std() > 0.01, "#curves canvas")
        assert watched.complaints == []


@pytest.mark.slow
def test_a_page_is_safe_and_says_what_goes_wrong(browser, tmp_path):
    hostile = "</script><img src=x onerror=document.title='in'>"
    named = ARM.renamed(hostile) if hasattr(ARM, "renamed") else ARM
    law = nlink.simulation.PD(named, [0.0, 0.0, 0.0], 30.0, 5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        path = nlink.live(named, {hostile: law}, [nlink.Slider(
            "kd", 0, 1e5, relative=True, label=hostile, unit=hostile)], tmp_path / "arm.html",
            q0=START, title=hostile)
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!doctype html><body>{inline_frame(path.read_text('utf-8'))}</body>",
                     "utf-8")
    with shown(browser, path) as watched:
        page = ready(watched)
        assert page.title() == hostile
        assert page.locator("img[src=x]").count() == 0
        assert hostile in page.text_content(".slider")
        # neither text as code nor a script that came in later is run
        page.evaluate("""setTimeout(() => { try { eval("document.title = 'eval'"); }
            catch (error) { document.body.dataset.eval = error.name; } })""")
        page.wait_for_selector("body[data-eval=EvalError]")
        page.evaluate("""{ const s = document.createElement("script");
            s.textContent = "document.title = 'script'"; document.body.append(s); }""")
        assert page.title() == hostile
        assert watched.requests == [path.as_uri()]
        # a damper that no step can follow
        page.evaluate("(args => nlink.set(args, 1e5))", hostile)
        page.evaluate("nlink.run()")
        page.wait_for_selector("#problem:not([hidden])")
        assert "has left what numbers can say" in page.text_content("#problem")
        assert page.text_content("#play") == "Run"
        page.evaluate("(args => nlink.set(args, 1))", hostile)
        page.click("#restart")
        watched.wait(lambda: watched.seconds() > 0.05)
        assert not page.locator("#problem").is_visible()
    with shown(browser, outer) as watched:
        frame = watched.page.frame_locator("iframe")
        frame.locator("html[data-ready=yes]").wait_for()
        frame.locator("#play").click()
        watched.until(lambda picture: picture.std() > 0.02, "iframe")
        assert watched.complaints == []
    # without the right to compile, a still and a sentence
    path.write_text(path.read_text("utf-8").replace(" 'wasm-unsafe-eval'", ""), "utf-8")
    with shown(browser, path) as watched:
        watched.page.wait_for_selector("#problem:not([hidden])")
        assert "no WebAssembly" in watched.page.text_content("#problem")
        assert watched.page.locator("#still").is_visible()


@pytest.mark.slow
def test_pages_are_small_and_made_of_the_same_bytes_again():
    panda = nlink.load("panda")
    law = nlink.simulation.PDGravity(panda, panda.neutral, 20.0, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # panda's neutral is outside its limits
        page, again = (nlink.live(panda, law, [KP], None).page for _ in range(2))
    assert page == again
    assert len(page) < 200_000
    assert repr(nlink.live(ARM, None, [], None)).startswith("<InlineView")


def test_sliders_begin_where_the_robot_is():
    made = live_pages._made
    robot = ARM.with_friction(viscous=[0.1, 0.2, 0.3])
    sliders = [nlink.Slider("viscous[joint2]", 0, 3), nlink.Slider("viscous", 0, 3, relative=True),
               nlink.Slider("gravity", 0, 20), nlink.Slider("p[1]", -1, 1, value=0.5)]
    _, levels, _ = made(robot, lambda t, q, qd, p: [p[1], 0.0, 0.0], sliders, None, None,
                        nlink.Solver(method="rk4", step=1e-3), nlink.Physics(), None, None)
    assert [level.value for level in levels] == pytest.approx([0.2, 1.0, 9.81, 0.5])
    assert [weight for _, weight in levels[1].weights] == [0.1, 0.2, 0.3]
    assert len(levels[0].weights) == 1


def test_what_a_page_cannot_do_is_refused_by_name(tmp_path):
    def refused(message, *sliders, controller=None, path=None, **options):
        with pytest.raises((ValueError, TypeError), match=message):
            nlink.live(ARM, controller, sliders, path, **options)

    refused(r"path: 'arm\.txt' has the suffix '\.txt', expected \.html", path="arm.txt")
    refused("sliders: 'kp', but the controller has no gain", KP)
    refused(r"sliders: 'mass\[elbow\]', expected in brackets one of link1", nlink.Slider(
        "mass[elbow]", 1, 2))
    refused("sliders: 'p', expected the number of a parameter", nlink.Slider("p", 0, 1),
            controller=lambda t, q, qd, p: [0, 0, 0])
    refused("controller: a ndarray, expected a function", controller=np.zeros((2, 3)))
    refused("method: 'lsoda' runs in Python alone", method="lsoda")
    refused("equations: planar3 has 3 rates, expected at most 2", equations=True)
    refused("limits: 'hold' beside physics", limits="hold", physics=nlink.Physics())
    for arguments, message in (
            (("speed", 0, 1), r"name: 'speed', expected one of payload, mass"),
            (("kpp", 0, 1), "did you mean 'kp'"),
            (("kp", 1, 1), "low: 1 and high: 1, expected finite numbers"),
            (("kp", 0, 1, False, "", "", 2.0), "value: 2.0, expected 0 to 1")):
        with pytest.raises(ValueError, match=message):
            nlink.Slider(*arguments)


def test_ranges_at_which_a_motion_diverges_are_told():
    law = nlink.simulation.PD(ARM, START, 30.0, 5.0)
    with pytest.warns(RuntimeWarning, match="with kd at 100000 the motion leaves") as found:
        nlink.live(ARM, law, [nlink.Slider("kd", 0, 1e5, relative=False, value=5.0)], None)
    assert re.search(r"test_live\.py$", found[0].filename)


def test_a_run_goes_live_from_where_it_began():
    run = nlink.simulate(ARM, [START, [0.0, 0.1, 0.2]], t=0.1, tau=LAW)
    with pytest.raises(ValueError, match="controller: the run was driven by one"):
        run.live(None)
    page = run.live(None, LAW).page
    assert f'"y":{[*START, 0.0, 0.0, 0.0]}'.replace(" ", "") in page
    assert "planar3 2" in page
