"""`nlink bench --contact`: a quadruped that stands, beside MuJoCo, in one run, on one thread.

Solo12 of example-robot-data floats on four ball feet, mu = 1, steps of 1 ms, a position controller
on its joints. MuJoCo runs with an elliptic cone and its Newton solver, alone in its process
(`python -m nlink.bench.contact_bench mujoco`), its steps and controller in C.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from nlink.bench.bench_record import BenchRecord
from nlink.bench.bench_robots import example_robot
from nlink.bench.dynamics import cpu_name, missing, versions
from nlink.formats.load import load_description
from nlink.formats.mjcf_writer import to_mjcf
from nlink.model.shapes import Sphere
from nlink.model.world import World
from nlink.robot import Robot
from nlink.simulation.simulator import simulate
from nlink.simulation.stepper import Stepper

FEET, RADIUS, STEP = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"), 0.016, 1e-3
KP, KD = 10.0, 0.2
STAND = (0.0, 0.0, 0.24, 1.0, 0.0, 0.0, 0.0, *(0.0, 0.8, -1.6) * 4)
ROBOTS, SETTLED, CHUNK = 1024, 300, 50
HEADINGS = ("what", "a step", "steps a second", "beside MuJoCo")
METHOD: dict[str, Any] = {"method": "semi_implicit", "step": STEP, "friction": "smooth"}


@dataclass(slots=True)
class ContactBench(BenchRecord):
    """Seconds a step of one robot, and where they were taken."""

    first_call: float = 0.0
    """Making the kernel, in seconds; little if it is in the cache."""
    seconds: dict[str, float] = field(default_factory=dict)
    residual: float = 0.0
    depth: float = 0.0


def quadruped() -> Robot:
    """Solo12 with balls as feet."""
    path = example_robot("solo12.urdf")
    if path is None:
        raise ValueError("bench --contact: solo12.urdf is not installed, expected "
                         "pip install example-robot-data")
    robot = Robot(load_description(path, physical="ignore", floating=True))
    return robot.with_contacts({foot: Sphere(RADIUS) for foot in FEET}, World(friction=1.0))


def standing(robot: Robot) -> np.ndarray:
    """Where it stands with its feet on the ground."""
    q = np.array(STAND)
    q[2] += RADIUS - min(float(robot.pose(q, foot)[2, 3]) for foot in FEET)
    return q


def run_contact_bench(*, seconds: float = 2.0,
                      progress: Callable[[str], None] = lambda _message: None) -> ContactBench:
    """Stepper and simulate, and MuJoCo if it is installed."""
    bench = ContactBench(cpu_name(), versions(), missing())
    robot = quadruped()
    q0 = standing(robot)
    progress("Stepper")
    begin = time.perf_counter()
    stepper = Stepper(robot, np.tile(q0, (ROBOTS, 1)), threads=1, **METHOD)
    bench.first_call = time.perf_counter() - begin
    tau, best, end = np.zeros((ROBOTS, robot.n)), np.inf, time.perf_counter() + seconds
    steps = 0
    while steps < SETTLED or time.perf_counter() < end:
        tau[:, 6:] = KP * (q0[7:] - stepper.q[:, 7:]) - KD * stepper.qd[:, 6:]
        begin = time.perf_counter()
        stepper.step(tau)
        taken, steps = time.perf_counter() - begin, steps + 1
        best = min(best, taken) if steps > SETTLED else best
    bench.seconds["Stepper"] = best / ROBOTS
    bench.seconds["bare step"] = _bare(robot, stepper.q, stepper.qd, tau, seconds)
    progress("simulate")

    def controller(_t: Any, q: Any, qd: Any) -> Any:
        return np.array([0.0] * 6 + [KP * (a - b) - KD * c for a, b, c in zip(
            q0[7:], q[7:], qd[6:], strict=True)], dtype=object)

    starts, best, end = np.tile(q0, (ROBOTS, 1)), np.inf, time.perf_counter() + seconds
    span = {"t": CHUNK * STEP, "every": CHUNK * STEP, "threads": 1}
    run = simulate(robot, starts, tau=controller, t=SETTLED * STEP, every=SETTLED * STEP, **METHOD)
    stats = run.stats.contact
    assert stats is not None
    bench.residual, bench.depth = float(stats.residual.max()), float(stats.depth.max())
    q, qd = run.q[:, -1], run.qd[:, -1]
    simulate(robot, q, qd, tau=controller, **span, **METHOD)
    while time.perf_counter() < end or best == np.inf:
        begin = time.perf_counter()
        simulate(robot, q, qd, tau=controller, **span, **METHOD)
        best = min(best, time.perf_counter() - begin)
    bench.seconds["simulate"] = best / ROBOTS / CHUNK
    if "mujoco" not in bench.missing:
        progress("MuJoCo")
        done = subprocess.run([sys.executable, "-m", __name__, "mujoco", str(seconds)], check=True,
                              text=True, capture_output=True)
        bench.seconds["MuJoCo"] = float(done.stdout)
    return bench


def _bare(robot: Robot, q: np.ndarray, qd: np.ndarray, tau: np.ndarray, seconds: float) -> float:
    """Seconds a step of `compile("contact_step")`, with the forces of the step before."""
    step, count = robot.compile("contact_step"), len(robot.mechanism.contacts)
    force, slip = np.zeros((ROBOTS, 3 * count)), np.zeros((ROBOTS, count))
    q, qd, h = q.copy(), qd.copy(), np.full(ROBOTS, STEP)
    out = [np.empty_like(x) for x in (q, qd, force, slip)]
    residual, best, end = np.empty(ROBOTS), np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or best == np.inf:
        begin = time.perf_counter()
        step(q, qd, tau, force, slip, h, *out, residual)
        best = min(best, time.perf_counter() - begin)
        force, slip = out[2].copy(), out[3].copy()
    return best / ROBOTS


def mjcf(robot: Robot) -> str:
    """The same mechanism for MuJoCo: floor, feet, position controllers."""
    root = ET.fromstring(to_mjcf(robot.description))
    option = root.find("option")
    assert option is not None
    for flag in option.findall("flag"):
        option.remove(flag)
    option.attrib.update(integrator="Euler", timestep=str(STEP), cone="elliptic", solver="Newton")
    world = root.find("worldbody")
    assert world is not None
    ET.SubElement(world, "geom", name="floor", type="plane", size="0 0 1", condim="3",
                  friction="1 0.005 0.0001")
    for body in world.iter("body"):
        if body.get("name") in FEET:
            ET.SubElement(body, "geom", type="sphere", size=str(RADIUS), condim="3",
                          friction="1 0.005 0.0001", contype="1", conaffinity="0")
    for old in root.findall("actuator"):
        root.remove(old)
    motors = ET.SubElement(root, "actuator")
    for joint in (each for each in robot.joints if each.type.nv == 1):
        ET.SubElement(motors, "position", joint=joint.name, kp=str(KP), kv=str(KD))
    return ET.tostring(root, encoding="unicode")


def _mujoco(seconds: float) -> float:
    """Seconds a step of MuJoCo, the best of many chunks."""
    mujoco: Any = import_module("mujoco")
    robot = quadruped()
    q0 = standing(robot)
    model = mujoco.MjModel.from_xml_string(mjcf(robot))
    data = mujoco.MjData(model)
    data.qpos[:], data.ctrl[:] = q0, q0[7:]
    mujoco.mj_step(model, data, 1000)
    if data.ncon != len(FEET):
        raise RuntimeError(f"bench --contact: MuJoCo stands on {data.ncon} contacts, expected 4")
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        mujoco.mj_step(model, data, 10 * CHUNK)
        best = min(best, time.perf_counter() - begin)
    return best / (10 * CHUNK)


def rows(bench: ContactBench) -> list[tuple[str, ...]]:
    """The table's rows."""
    peer = bench.seconds.get("MuJoCo")
    return [(name, f"{1e6 * x:.2f} us", f"{1 / x:,.0f}",
             "" if peer is None or name == "MuJoCo" else f"{peer / x:.1f}x")
            for name, x in bench.seconds.items()]


if __name__ == "__main__":
    print(_mujoco(float(sys.argv[2])))
