"""How far a call travels: files and functions of nlink that it enters, cold and warm.

    python tests/hops.py

Cold is the first call in a new process with an empty cache of kernels, warm the third call in the
same process. The fewer a warm call enters, the easier it is to read what it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

CALLS = ("inverse_dynamics", "simulate", "simulate with a controller",
         "simulate with friction and an event", "Stepper.step", "linearize", "linearize of a step",
         "sensitivities", "adjoint", "ik")


def hops(call: Callable[[], Any]) -> tuple[int, int]:
    """Distinct files and functions of nlink that a call enters."""
    import nlink

    root, found = str(Path(nlink.__file__).parent), set()

    def enter(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            found.add((code.co_filename, code.co_name, code.co_firstlineno))

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len({name for name, *_ in found}), len(found)


def made(name: str) -> Callable[[], Any]:
    """The call of this name, on planar3."""
    import numpy as np

    import nlink

    arm, q, v = nlink.load("planar3"), np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.1, -0.2])
    rough = arm.with_friction(dry=0.5, viscous=0.1)
    short = {"t": 0.1, "progress": False}

    def spring(t: Any, q: Any, qd: Any) -> Any:
        return -5.0 * qd - 40.0 * q

    if name == "Stepper.step":
        return nlink.Stepper(arm, q).step
    return {
        "inverse_dynamics": lambda: arm.inverse_dynamics(q, v, v),
        "simulate": lambda: nlink.simulate(arm, q, **short),
        "simulate with a controller": lambda: nlink.simulate(arm, q, tau=spring, **short),
        "simulate with friction and an event": lambda: nlink.simulate(
            rough, q, tau=spring, events=[lambda t, q, qd: q[0] - 0.05], **short),
        "linearize": lambda: nlink.linearize(arm, q, v, v),
        "linearize of a step": lambda: nlink.linearize(arm, q, v, v, step=0.01, method="rk4"),
        "sensitivities": lambda: nlink.simulate(arm, q, tau=spring, sensitivities=["q0"], **short),
        "adjoint": lambda: nlink.adjoint(arm, lambda q, qd: q @ q, q, t=0.1, tau=spring),
        "ik": lambda: nlink.ik(arm, [1.5, 1.0, 0.0])}[name]


def main() -> None:
    if len(sys.argv) > 1:
        call = made(sys.argv[1])
        cold, _, warm = hops(call), call(), hops(call)
        print(f"{sys.argv[1]:38}{cold[0]:6} /{cold[1]:5}{warm[0]:8} /{warm[1]:4}")
        return
    print(f"{'files / functions of nlink':38}{'cold':>13}{'warm':>14}")
    for name in CALLS:
        with tempfile.TemporaryDirectory() as place:
            subprocess.run([sys.executable, __file__, name], check=True,
                           env={**os.environ, "XDG_CACHE_HOME": place})


if __name__ == "__main__":
    main()
