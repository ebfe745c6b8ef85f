"""Digests of the programs of many systems and of many runs: the same before and after a change.

    python tests/same_bits.py write FILE      at the commit before the change
    python tests/same_bits.py compare FILE    after it: what differs, and exit status 1

A program's digest is that of its operations: nodes are hashed by operation and arguments, those of
commuting operations in any order, so that the order in which nodes were made does not matter. A
run's digest is that of the bytes of its states, joint forces, events and parts. The file is not
kept in the repository: it belongs to one commit and one machine.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nlink
from nlink.programs.keys import key
from nlink.programs.program import Program
from nlink.scalars.traversal import reachable
from nlink.simulation import PD, PID, Noisy, Sampled

COMMUTE = {"add", "mul"}
FLYER = """<robot name="flyer">
<link name="hull"><inertial><mass value="2"/>
<inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="arm"><inertial><origin xyz="0.2 0 0"/><mass value="1"/>
<inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="elbow" type="continuous"><parent link="hull"/><child link="arm"/>
<origin xyz="0.1 0 0"/><axis xyz="0 0 1"/></joint></robot>"""
TIMES = {"t": [0.0, 0.05, 0.1], "rtol": 1e-8, "atol": 1e-10, "every": 0.05,
         "max_steps": 10**6}
FIXED = ("rk4", "symplectic", "semi_implicit")
Case = tuple[str, nlink.Robot, dict[str, Any]]


def digest(program: Any) -> str:
    """A digest of what a program computes; of all parts of one that is rolled."""
    if not isinstance(program, Program):
        parts = (getattr(program, name) for name in ("forces", "velocity", "accelerations",
                                                      "further"))
        return "|".join("-" if part is None else digest(part) if isinstance(part, Program)
                        else key(part) for part in parts)
    known: dict[int, str] = {}
    for node in reachable(program.results):
        arguments = [known[x.index] for x in node.args]
        if node.op in COMMUTE:
            arguments.sort()
        known[node.index] = hashed((node.op, node.value if node.op == "const" else None,
                                    node.name if node.op == "input" else None, arguments))
    return hashed(([(port.name, port.shape) for port in (*program.inputs, *program.outputs)],
                   [known[x.index] for x in program.results]))


def hashed(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def bytes_of(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in arrays)).hexdigest()


def spring(t: Any, q: Any, qd: Any) -> Any:
    return -5.0 * qd - 40.0 * q[:qd.shape[-1]]


def stepped(method: str) -> dict[str, Any]:
    return {"method": method} | ({"step": 0.01} if method in FIXED else {})


def flyer() -> nlink.Robot:
    path = Path(__file__).parent / "flyer.urdf.part"
    path.write_text(FLYER)
    try:
        return nlink.load(path.rename(path.with_suffix("")), floating=True)
    finally:
        path.with_suffix("").unlink()


def limited() -> nlink.Robot:
    row = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-.5, 0, 0),
           "inertia": (0, 1/12, 1/12), "limits": {"position": (-1.0, 1.0)}}
    return nlink.Robot.from_dh([row] * 2, gravity=(0, -9.81, 0))


def systems() -> Iterator[Case]:
    pendulum, arm, puma, bars = map(nlink.load, ("double_pendulum", "planar3", "puma560",
                                                 "four_bar"))
    rough, goal = arm.with_friction(dry=0.5, viscous=0.1), [.1, .2, .3]
    table = np.array([[0., 1.], [1., 0.], [2., 0.]])
    yield "free", pendulum, {}
    for method in ("rk4", "dopri5", "dop853", "abm", "rkf78", "verner65", "symplectic",
                   "semi_implicit", "rodas5p"):
        yield f"m-{method}", arm, {"tau": spring} | stepped(method)
    yield "ctl", puma, {"tau": spring}
    yield "pid", arm, {"tau": PID(arm, goal, 300., 60., 60.)}
    yield "sampled", arm, {"tau": Sampled(Noisy(PD(arm, goal, 80., 20.), sigma_q=1e-3), 0.005,
                                          delay=1)}
    yield "table", pendulum, {"tau": table}
    yield "floating", flyer(), {}
    yield "floating-rodas", flyer(), {"method": "rodas5p"}
    yield "closed", bars, {}
    yield "closed-baumgarte", bars, {"closing": 10.0}
    yield "vary", pendulum, {"tau": spring, "vary": {
        "payload": np.array([0.0, 3.0]), "viscous": np.array([[0.1], [0.2]])}}
    yield "rub", rough, {"tau": spring}
    yield "rub-euler", rough, {"tau": spring} | stepped("semi_implicit")
    yield "rub-smooth", rough, {"friction": "smooth"}
    yield "rub-vary", rough, {"vary": {"coulomb": np.array([[0.1], [0.2]])}}
    yield "nu", arm, {"velocity": "nu"}
    yield "xi", arm, {"velocity": "xi"}
    for limits in ("stop", "bounce", "hold"):
        yield f"lim-{limits}", limited(), {"limits": limits}
    yield "lim-hold-euler", limited(), {"limits": "hold"} | stepped("semi_implicit")
    yield "events", arm, {"events": [lambda t, q, qd: q[0] - 0.05, lambda t, q, qd: qd[1]]}
    yield "bounce-nu", limited(), {"limits": "bounce", "velocity": "nu"}
    yield "pushed", arm, {"f_ext": {"link3": [0, 0, 1.0, 2.0, 0, 0]}, "tau": spring}
    yield "pushed-function", arm, {"f_ext": {
        "link2": lambda t, q, qd: [0, 0, 0, nlink.sin(t), 0, qd[0]]}}


def runs() -> Iterator[Case]:
    yield from systems()
    pendulum, arm = nlink.load("double_pendulum"), nlink.load("planar3")
    rough, untraced = arm.with_friction(dry=0.5, viscous=0.1), {"tau": spring, "traced": False}
    table, masses = np.array([[0., 1.], [1., 0.], [2., 0.]]), {"payload": np.array([0.0, 3.0])}
    for method in ("rkf45", "rk4", "symplectic", "semi_implicit", "abm"):
        yield f"py-{method}", arm, untraced | stepped(method)
    yield "py-rub", rough, untraced
    yield "py-rub-euler", rough, untraced | stepped("semi_implicit")
    yield "py-radau", pendulum, {"method": "radau", "tau": table}
    yield "py-lsoda", rough, {"method": "lsoda", "tau": spring}
    yield "py-sampled", arm, untraced | {"tau": Sampled(PD(arm, [.1, .2, .3], 80., 20.), 0.005),
                                         "method": "lsoda"}
    yield "py-vary", pendulum, untraced | {"vary": masses}
    yield "py-symplectic-vary", pendulum, untraced | {"vary": masses} | stepped("symplectic")
    yield "py-events", arm, untraced | {"events": [lambda t, q, qd: q[0] - 0.05]}
    yield "sensitivities", pendulum, {"tau": spring, "sensitivities": ["q0", "qd0"]}
    yield "sensitivities-bounce", limited(), {
        "limits": "bounce", "sensitivities": ["qd0"], "q0": [-0.98, 0.5], "qd0": [-1.0, 0.0]}


def system_of(robot: nlink.Robot, options: dict[str, Any]) -> Any:
    """The system that `simulate` integrates."""
    from nlink.simulation.setting import OPTIONS, settings_of
    from nlink.simulation.system import System

    physics, solver = settings_of(OPTIONS | {k: v for k, v in options.items() if k in OPTIONS})
    rest = {k: v for k, v in options.items() if k in ("vary", "f_ext", "events")}
    return System(robot, options.get("tau"), physics=physics, **rest).under(solver.integrator)


def digests() -> Iterator[tuple[str, str]]:
    for name, robot, options in systems():
        system = system_of(robot, TIMES | options)
        for text, program in system.programs.items():
            yield f"{name}/{text}", digest(program)
        yield f"{name}/shape", repr(system.shape)
    for name, robot, options in runs():
        start = np.full(robot.n, 0.0 if robot.mechanism.closures else 0.2)
        run = nlink.simulate(robot, **({"qd0": start, "progress": False} | TIMES | options))
        yield f"run {name}", bytes_of(run.q, run.qd, run.tau, run.events.t, *run.parts.values())
    arm, q, v = nlink.load("planar3"), np.array([.1, .2, .3]), np.array([.3, .1, -.2])
    for step, method in ((None, None), (0.01, "semi_implicit"), (0.01, "rk4"), (0.01, "dop853")):
        yield f"linearize {step} {method}", bytes_of(*nlink.linearize(arm, q, v, v, step, method))
    found = nlink.adjoint(arm, lambda q, qd: q @ q, q, v, t=0.1, tau=spring)
    yield "adjoint", bytes_of(*found.gradient.values())
    stepper = nlink.Stepper(arm, np.zeros((3, 3)), step=0.01)
    for _ in range(5):
        stepper.step(v)
    yield "stepper", bytes_of(stepper.q)
    solved = nlink.ik(nlink.load("puma560"), [0.4, 0.1, 0.3], q0=np.zeros((5, 6)))
    yield "ik", bytes_of(solved.q, solved.error, solved.iterations)


def main(action: str, path: str) -> int:
    warnings.simplefilter("ignore")
    found = dict(digests())
    if action == "write":
        Path(path).write_text(json.dumps(found, indent=1))
        print(len(found), "entries")
        return 0
    golden = json.loads(Path(path).read_text())
    differing = sorted(name for name in golden.keys() | found.keys()
                       if golden.get(name) != found.get(name))
    print(len(golden), "entries,", len(differing), "differ:", *differing, sep="\n  ")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
