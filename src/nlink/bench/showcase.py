"""`nlink demo`: the library in a minute, on one page that is computed when it is made."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import nlink
from nlink.bench.dynamics import cpu_name
from nlink.bench.peers import bench_mujoco, bench_pinocchio
from nlink.bench.timing import best, best_call, caller
from nlink.engines.engines import kernel
from nlink.formats.bridges import to_pinocchio
from nlink.formats.files import write_text
from nlink.kinematics.inverse_kinematics import ik
from nlink.kinematics.paths import Arc, reach
from nlink.kinematics.tasks import AlignAxis
from nlink.reports.page import Page
from nlink.robot import Robot, load
from nlink.simulation import figures
from nlink.simulation.controllers import PID, ComputedTorque, PDGravity
from nlink.simulation.live import Slider, live
from nlink.simulation.run import Run
from nlink.simulation.simulator import simulate
from nlink.simulation.splines import Spline
from nlink.viewer.clip import Clip
from nlink.viewer.motion_page import InlineView, motion_page
from nlink.viewer.scene_page import inline_frame

BATCH = 4096
COMPUTATIONS = ("inverse_dynamics", "forward_dynamics")
EXPERIMENTS = (sys.executable, "-m", "nlink", "reproduce", "--out")
"""The command that runs the papers' experiments, without the directory it writes to."""
Progress = Callable[[float, str], None]


def showcase(out: str | Path, progress: Progress = lambda _share, _what: None) -> Path:
    """Compute everything and write `report.html` into a directory, with the page of the papers'
    experiments below it."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    page = Page("nlink in a minute")
    page.text("Dynamics, inverse kinematics, simulation and control of robots and other mechanisms "
              "from Python. All that this page shows was computed when it was made.")
    parts = (("an arm follows a path", _path), ("a controller", _control),
             ("a live page", _live),
             ("a closed chain", _closed_chain), ("the papers' experiments", _papers),
             ("speed", _speed))
    with _Experiments(out / "papers") as experiments:
        for k, (what, part) in enumerate(parts):
            progress(k / len(parts), what)
            part(page, experiments)
    page.section("Further")
    page.text("`nlink view ROBOT` shows a robot in the browser, `nlink bench` measures everything, "
              "and `./run docs` builds the documentation.")
    page.text(f"nlink {nlink.__version__}, {date.today().isoformat()}, Python "
              f"{platform.python_version()}, {cpu_name()}.", "muted")
    path = out / "report.html"
    write_text(path, page.html())
    progress(1.0, "done")
    return path


class _Experiments:
    """The page of `nlink reproduce`, made by a process of its own while this one does the rest;
    what is timed is timed after it."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def __enter__(self) -> _Experiments:
        out = self.out.resolve()
        self.process = subprocess.Popen(
            [*EXPERIMENTS, str(out)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def page(self) -> Path:
        """Where the page is, once it is written."""
        _, words = self.process.communicate()
        if self.process.returncode:
            raise RuntimeError(f"nlink reproduce: failed: {words.strip()}")
        return self.out / "report.html"


def _play(page: Page, run: Run, caption: str) -> None:
    page.frame(inline_frame(motion_page(Clip.of(run, frames=300), compact=True)),
               caption)


def _path(page: Page, _experiments: _Experiments) -> None:
    """The Panda's hand along a line and an arc."""
    robot = load("panda")
    start = ik(robot, [0.45, -0.2, 0.4], tasks=[AlignAxis([0, 0, -1])]).q
    first = robot.pose(start)
    corner, end = first.copy(), first.copy()
    corner[:3, 3] += [0.0, 0.4, 0.0]
    end[:3, 3] += [0.0, 0.0, 0.2]
    way = reach(robot, [first, corner, Arc(first[:3, 3] + [0.1, 0.25, 0.2], end)], q0=start,
                acceleration=8.0)
    run = simulate(robot, way.q[0], t=way.duration, tau=ComputedTorque(robot, way, 400.0, 40.0))
    off = np.abs(robot.pose(run.q[-1])[:3, 3] - end[:3, 3]).max()
    page.section("An arm follows a path")
    page.text(f"`nlink.ik` finds where the joints must be, `nlink.reach` leads the hand along a "
              f"line and an arc as fast as rates, accelerations and efforts allow, which takes "
              f"{way.duration:.2f} s, and `nlink.simulate` runs it under computed torque. The hand "
              f"ends {off:.0e} m from where it should.")
    _play(page, run, "The Panda: drag to turn, pause to move the slider")
    share = run.tau / robot.limits.effort
    page.panels(figures.single_panels(run.t, {"torque": 100 * share}, robot.qd_names,
                                      ["% of effort"] * robot.n), "Torques of the joints")


def _control(page: Page, _experiments: _Experiments) -> None:
    """Loads that a controller does not know of, with and without integral action."""
    arm = load("planar3")
    goal = np.array([0.6, -0.8, 0.5])
    kp, ki, kd = [300.0, 120.0, 25.0], [200.0, 70.0, 12.0], [100.0, 40.0, 8.0]
    loads = np.array([0.0, 0.5, 1.0])
    page.section("A controller, and a load that it does not know of")
    page.text("An arm of three rods is to hold a posture with payloads of 0, 0.5 and 1 kg "
              "that its controllers do not know about. One call simulates all three. A "
              "proportional controller acts as a spring and leaves an error; integral action "
              "removes it.")
    degrees = {}
    for name, controller in (("PD with gravity", PDGravity(arm, goal, kp, kd)),
                             ("PID", PID(arm, goal, kp, ki, kd))):
        runs = simulate(arm, t=8.0, tau=controller, every=0.05, vary={"payload": loads})
        degrees[name] = np.degrees(goal[0] - runs.q[..., 0]).T
    page.panels(figures.single_panels(0.05 * np.arange(161), degrees,
                                      [f"{load:g} kg" for load in loads], ["degrees"] * 3),
                "Error of the first joint", list(degrees))


def _live(page: Page, _experiments: _Experiments) -> None:
    """A robot that is simulated in the page."""
    robot, pose = load("panda"), [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8]
    law = PDGravity(robot, pose, [80, 80, 60, 60, 20, 10, 1.0], [16, 16, 12, 12, 2, 1, 0.02])
    shown = live(robot, law, [Slider("kp", 0, 2, relative=True), Slider("payload", 0, 8)], None,
                 q0=pose)
    assert isinstance(shown, InlineView)
    page.section("Take it")
    page.text("This Panda is not a recording: `nlink.live` has written its simulation as "
              "WebAssembly, which runs in this page. Pull a link; its controller brings it back. "
              "It knows nothing of the load that you hang on the hand.")
    page.frame(inline_frame(shown.page, height=900), "The Panda: drag a link to pull it")


def _closed_chain(page: Page, _experiments: _Experiments) -> None:
    """A Stewart platform goes round in a circle and tilts as it goes."""
    robot, duration = load("stewart"), 4.0
    path = _ram_lengths(robot, duration)
    rams = [robot.q_names.index(f"ram{k}") for k in range(1, 7)]
    motors = [robot.qd_names.index(f"ram{k}") for k in range(1, 7)]
    still = np.zeros(robot.n)
    hold = robot.loops.inverse_dynamics(robot.neutral, still, still)[0]

    def drive(t, q, qd):  # type: ignore[no-untyped-def]
        lengths, rates, _ = path(t)
        tau = [0.0] * robot.n
        for k, (at, motor) in enumerate(zip(rams, motors, strict=True)):
            tau[motor] = (hold[motor] + 4e4 * (lengths[k] - q[at])
                          + 1.2e3 * (rates[k] - qd[motor]))
        return tau

    run = simulate(robot, t=duration, tau=drive, every=duration / 240)
    off = 1e3 * np.abs(run.q[:, rams] - np.array([path(t)[0] for t in run.t])).max()
    page.section("A closed chain")
    page.text(f"A Stewart platform: {len(robot.links)} links, {robot.n} joint rates, "
              f"{len(robot.description.loops)} loops. A motor on each leg follows the length that "
              f"the platform's motion asks for, to {off:.1f} mm. The loops stay closed to "
              f"{np.abs(run.closure_error).max():.0e} (metres and radians), and the forces "
              f"that close them are part of the run.")
    _play(page, run, "The Stewart platform: six legs lengthen and shorten")


def _ram_lengths(robot: Robot, duration: float) -> Spline:
    """The lengths of the legs while the platform goes round twice, from rest to rest."""
    t = np.linspace(0, duration, 41)
    share, turn = np.sin(np.pi * t / duration) ** 2, 4 * np.pi * t / duration
    guess = np.tile(robot.neutral, (len(t), 1))
    tilt = 0.2 * share
    pose = robot.q_index("platform")
    guess[:, pose] = np.stack([
        0.12 * share * np.cos(turn), 0.12 * share * np.sin(turn), 0.05 * share, np.cos(tilt / 2),
        np.sin(tilt / 2) * np.sin(turn), -np.sin(tilt / 2) * np.cos(turn), 0 * t], axis=1)
    q = robot.loops.assemble(guess, keep=["platform"])
    return Spline(t, q[:, [robot.q_names.index(f"ram{k}") for k in range(1, 7)]])


def _speed(page: Page, _experiments: _Experiments) -> None:
    """Times of this machine, beside the peers that are installed."""
    rows = [row for name in ("puma560", "panda") for what in COMPUTATIONS
            for row in _timings(load(name), what)]
    page.section("Speed on this machine")
    page.text("Microseconds for one state, best of many, measured while this page was made: a call "
              "from Python for one state, and one of a batch of 4096 states on one thread. The "
              "batches are those of the libraries themselves, without Python in between.")
    page.table(("robot", "computation", "library", "a call", "in a batch"), rows)
    absent = [name for name, module in (("Pinocchio", "pinocchio"), ("MuJoCo", "mujoco"))
              if not find_spec(module)]
    if absent:
        page.text(f"Not installed, and so not measured: {', '.join(absent)}.", "muted")


def _papers(page: Page, experiments: _Experiments) -> None:
    """A link to the page of `nlink reproduce`, in a directory of its own."""
    path = experiments.page()
    page.section("The papers behind it")
    page.text(f"[The experiments of the papers, run again]({path.parent.name}/{path.name}): what "
              "agrees, what does not, and why. `nlink reproduce` makes that page alone.")


def _timings(robot: Robot, what: str, seconds: float = 0.15) -> list[tuple[str, ...]]:
    """A row for each library."""
    rng = np.random.default_rng(0)
    q, qd = robot.random_state(rng, (BATCH,))
    states = {"q": q, "qd": qd, "qdd": rng.normal(size=q.shape), "tau": rng.normal(size=q.shape)}
    third = "qdd" if what == "inverse_dynamics" else "tau"
    inputs = [states[name] for name in ("q", "qd", third)]
    code, outs = kernel(robot.request(what)), [np.empty_like(q)]
    few = [[*(x[k].copy() for x in inputs)] for k in range(64)]
    found: dict[str, float] = {
        "nlink call": best_call(caller(getattr(robot, what), few), len(few), seconds),
        "nlink batch": best(lambda: code.run(inputs, outs, BATCH, 1), seconds) / BATCH}
    if find_spec("pinocchio"):
        bench_pinocchio(found.__setitem__, to_pinocchio(robot.description), what, inputs, seconds)
    if find_spec("mujoco"):
        bench_mujoco(found.__setitem__, robot.description, what, states, seconds)
    batches = {"nlink": "nlink batch", "Pinocchio": "Pinocchio C++ batch, 1 thread"}
    return [(robot.name, what.replace("_", " "), library, f"{1e6 * found[f'{library} call']:.2f}",
             f"{1e6 * found[batches[library]]:.3f}" if library in batches else "")
            for library in ("nlink", "Pinocchio", "MuJoCo") if f"{library} call" in found]
