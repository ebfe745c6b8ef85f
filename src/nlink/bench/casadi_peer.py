"""CasADi as a peer of derivatives: our algorithm on its scalars, differentiated and written as C by
it, compiled by the machine's C compiler and called for all states in a C loop."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nlink.bench.timing import Bench, adder, best
from nlink.robot import Robot

CASADI = "CasADi, generated C"
COMPILER = "cc"
LOOP = """
void batch(const double *x0, const double *x1, const double *x2, double *out, long count) {
  for (long k = 0; k < count; ++k) {
    const double *arg[] = {x0 + k * %(n)d, x1 + k * %(n)d, x2 + k * %(n)d};
    double *res[] = {out + k * %(size)d};
    %(name)s(arg, res, 0, 0, 0);
  }
}
"""


def casadi_derivatives(robot: Robot, what: str, inputs: Sequence[np.ndarray],
                       ) -> tuple[Callable[[], Any], np.ndarray]:
    """A call for all states, and where it writes: (states, columns, n), by all that is varied.

    `what` is "inverse_dynamics_derivatives" (columns of q and qd) or
    "forward_dynamics_derivatives" (of q, qd and tau); coordinates must be their own rates.
    """
    casadi: Any = import_module("casadi")
    name = what.removesuffix("_derivatives")
    columns = [casadi.SX.sym(x, robot.n) for x in "abc"]
    program = robot.request(name).program()
    (result,) = program(*(casadi.vertsplit(column) for column in columns))
    varied = columns[:2] if name == "inverse_dynamics" else columns
    matrix = casadi.densify(casadi.jacobian(casadi.vertcat(*result), casadi.vertcat(*varied)))
    function = casadi.Function(name, columns, [matrix])
    code = casadi.CodeGenerator(name, {"with_header": False})
    code.add(function)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / f"{name}.c", Path(folder) / f"{name}.so"
        source.write_text(code.dump() + LOOP % {
            "n": robot.n, "size": matrix.numel(), "name": name}, encoding="utf-8")
        subprocess.run([COMPILER, "-O3", "-march=native", "-shared", "-fPIC", str(source), "-lm",
                        "-o", str(library)], check=True, capture_output=True)
        batch = ctypes.CDLL(str(library)).batch
    out = np.empty((len(inputs[0]), matrix.shape[1], robot.n))  # columns follow one another
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*inputs, out)]
    return lambda: batch(*pointers, ctypes.c_long(len(out))), out


def bench_casadi(bench: Bench, robot: Robot, what: str, inputs: Sequence[np.ndarray],
                 seconds: float) -> None:
    """A batch, if CasADi and a C compiler are there; a compiler that is not is named."""
    if "casadi" in bench.missing or not robot.mechanism.space.flat:
        return
    if shutil.which(COMPILER) is None:
        bench.missing += [COMPILER] * (COMPILER not in bench.missing)
        return
    run, out = casadi_derivatives(robot, what, inputs)
    adder(bench, robot.name, what)(CASADI, best(run, seconds) / len(out))
