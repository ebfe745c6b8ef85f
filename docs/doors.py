"""Which option goes through which door: the table of docs/system.md, found by trying.

    python docs/doors.py        print it

Each option is given to each function, on a small robot. What is refused is refused with a sentence
that says what is expected; anything else that goes wrong is an error of nlink.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import nlink
from nlink.simulation import Sampled

ROW = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
       "inertia": (0, 1 / 12, 1 / 12), "friction": {"coulomb": 0.1},
       "limits": {"position": (-1.0, 1.0), "effort": 5.0}}
ARM = nlink.Robot.from_dh([ROW] * 2, gravity=(0, -9.81, 0), name="arm")
BARS = nlink.load("four_bar")
BALL = ARM.with_contacts({"link2": nlink.Sphere(0.1)})
WRENCH = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]


def damping(t: Any, q: Any, qd: Any) -> Any:
    return ARM.gravity_torque(q) - 5.0 * qd


def sampled() -> Any:
    return Sampled(damping, 0.01)


OPTIONS: dict[str, dict[str, Any]] = {
    "`tau`: numbers": {"tau": [1.0, 0.0]},
    "`tau`: a table": {"tau": np.zeros((2, 2))},
    "`tau`: a controller": {"tau": damping},
    "`tau`: a sampled controller": {"tau": sampled()},
    "`f_ext`: numbers": {"f_ext": {"link2": WRENCH}},
    "`f_ext`: a function": {"f_ext": {"link2": lambda t, q, qd: np.array(WRENCH) * qd[0]}},
    "`f_ext`: a table": {"f_ext": {"link2": np.zeros((2, 6))}},
    "`motion`": {"motion": {"joint2": lambda t: 0.2 + 0.1 * t}},
    "`vary`: payload, friction, gravity, ...": {"vary": {"payload": [0.5], "viscous": [[0.1]]}},
    "`events`": {"events": [lambda t, q, qd: q[0] - 0.5]},
    "`limits=\"stop\"`": {"limits": "stop"},
    "`limits=\"bounce\"`": {"limits": "bounce"},
    "`limits=\"hold\"`": {"limits": "hold"},
    "`friction=\"dry\"`": {"friction": "dry"},
    "`friction=\"smooth\"`": {"friction": "smooth"},
    "`effort=\"saturate\"`": {"tau": damping, "effort": "saturate"},
    "closed chains": {"closing": "project"},
    "closed chains, `closing`: a rate": {"closing": 10.0},
    "`contact=\"rigid\"`": {"contact": "rigid"},
    "`velocity=\"nu\"`": {"velocity": "nu"},
    "`traced=False`": {"tau": damping, "traced": False},
}
SMOOTH = {"`limits=\"hold\"`", "`friction=\"dry\"`"}
"""Options that are about dry friction or hold; the others are tried with smooth friction."""
START, TIMES = [0.1, 0.2], {"t": 0.02, "every": 0.02}


def _method(what: nlink.System) -> dict[str, Any]:
    return {"method": "semi_implicit", "step": 0.01} if what.contacts else {}


def _simulate(what: Any, q: Any, **more: Any) -> Any:
    return nlink.simulate(what, q, **TIMES, progress=False, **_method(what), **more)


def _stepper(what: Any, q: Any, **_: Any) -> None:
    nlink.Stepper(what, q, **{"step": 0.01, **_method(what)}).step()


def _sweep(what: Any, q: Any, **_: Any) -> None:
    rates = np.zeros((2, what.robot.n))
    with tempfile.TemporaryDirectory() as place:
        nlink.sweep(what, q, t=0.02, vary={"qd0": rates}, out=place + "/s.zarr", progress=False,
                    **_method(what))


DOORS: dict[str, Callable[..., Any]] = {
    "simulate": _simulate,
    "Stepper": _stepper,
    "sweep": _sweep,
    "sensitivities": lambda what, q: _simulate(what, q, sensitivities=["q0"]),
    "adjoint": lambda what, q: nlink.adjoint(what, lambda q, qd: q @ q, q, **TIMES),
    "linearize": lambda what, q: nlink.linearize(what, q, np.zeros(len(q))),
    "linearize, a step": lambda what, q: nlink.linearize(
        what, q, np.zeros(len(q)), **{"step": 0.01, "method": "rk4", **_method(what)}),
}


def opens(door: str, option: str) -> bool:
    """Whether a function takes an option."""
    given = dict(OPTIONS[option])
    robot, start = (BARS, BARS.neutral) if "closing" in given else (
        BALL if "contact" in given else ARM, START)
    if robot is not BARS and option not in SMOOTH:
        given.setdefault("friction", "smooth")
    system = nlink.System(robot, **given)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            DOORS[door](system, start)
    except (ValueError, TypeError) as refusal:
        if "expected" not in str(refusal):
            raise
        return False
    return True


def table() -> str:
    """All options and doors, as Markdown."""
    lines = [f"| option | {' | '.join(DOORS)} |", "|---" * (1 + len(DOORS)) + "|"]
    for option in OPTIONS:
        marks = ("yes" if opens(door, option) else "-" for door in DOORS)
        lines.append(f"| {option} | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
