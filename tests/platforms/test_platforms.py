"""Machine code for platforms that are not here: made for all, run for 64-bit ARM under qemu.

Code for ARM has vectors of two where this machine has four or eight, and fused multiply-adds: the
same operations in the same order, so the numbers may differ only where a processor without them
rounds more often, or where another C library computes exp, log, tanh, atan2 and pow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytest

import nlink
from nlink.backends.llvm import lanes, loading
from nlink.backends.llvm.host import host
from nlink.backends.llvm.kernel import Compiled
from nlink.backends.llvm.process_kernel import ProcessKernel
from nlink.backends.llvm.translate import compile_program
from nlink.programs.program import Port, Program
from nlink.scalars.graph import Graph
from nlink.scalars.primitives import PRIMITIVES
from platforms.foreign import (
    ARM_LINUX,
    ARM_MAC,
    WINDOWS,
    call_batch,
    call_processes,
    compiling_for,
    needs_arm,
    objects,
)

ROBOTS: dict[str, Callable[[], nlink.Robot]] = {
    "planar3": lambda: nlink.load("planar3"),
    "puma560": lambda: nlink.load("puma560"),
    "panda": lambda: nlink.load("panda"),
    "four_bar": lambda: nlink.load("four_bar"),
    "floating": lambda: nlink.testing.random_robot(5, 8, types=("free", "revolute", "spherical")),
}
HEADS = {ARM_LINUX: b"\x7fELF\x02\x01\x01", ARM_MAC: b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
         WINDOWS: b"\x64\x86"}
"""How object files of these platforms begin."""


@pytest.mark.parametrize("triple", HEADS)
@pytest.mark.parametrize("name", ["forward_dynamics", "mass_matrix"])
def test_code_is_made_for_every_platform(triple, name):
    program = nlink.load("puma560").request(name).program()
    for dtype, more in (("float64", 1), ("float32", 2)):
        with compiling_for(triple):
            compiled = compile_program(program, dtype)
        assert compiled.width == more * (4 if triple == WINDOWS else 2)
        assert all(each.startswith(HEADS[triple]) for each in objects(compiled.code))


@pytest.mark.slow
@pytest.mark.parametrize("triple", HEADS)
def test_simulations_are_made_for_every_platform(triple, monkeypatch):
    compiled, _ = foreign_simulation(triple, monkeypatch)
    assert all(each.startswith(HEADS[triple]) for each in objects(compiled.code))


def assert_close(found: np.ndarray, wanted: np.ndarray, rounding: float) -> None:
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rounding * np.finfo(float).eps * scale)


@needs_arm
@pytest.mark.slow
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize("robot", ROBOTS)
def test_arm_computes_the_dynamics_that_this_machine_does(robot, name, tmp_path):
    mechanism = ROBOTS[robot]()
    request = mechanism.request(name)
    rng = np.random.default_rng(0)
    q, _ = mechanism.random_state(0, (7,))  # three vectors, and one state left over
    arrays = [q, *(rng.normal(size=(7, *port.shape)) for port in request.ports[0][1:])]
    with compiling_for(ARM_LINUX):
        compiled = compile_program(request.program())
    (found,) = call_batch(compiled, arrays, tmp_path)
    wanted = getattr(mechanism, name)(*arrays)
    assert_close(found, wanted, 1 if host().target.fma else 1e4)
    swapped = [np.roll(x, 1, axis=0) for x in arrays]
    (again,) = call_batch(compiled, swapped, tmp_path)
    assert np.roll(again, -1, axis=0).tobytes() == found.tobytes()  # any lane, the same bits


@needs_arm
@pytest.mark.slow
def test_arm_computes_in_float32_with_the_bits_of_this_machine(tmp_path):
    robot = nlink.load("panda")
    request = robot.request("forward_dynamics")
    arrays = [*robot.random_state(0, (11,)), np.random.default_rng(0).normal(size=(11, 7))]
    arrays = [x.astype(np.float32) for x in arrays]
    arrays[0][3, 2] = 1e9  # an angle too large for a vector
    with compiling_for(ARM_LINUX):
        compiled = compile_program(request.program(), "float32")
    assert compiled.width == 4
    (found,) = call_batch(compiled, arrays, tmp_path)
    wanted = robot.forward_dynamics(*arrays)
    assert found.dtype == wanted.dtype
    if host().target.fma:
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@needs_arm
@pytest.mark.slow
def test_arm_computes_all_primitives(tmp_path):
    rows = [row for row in PRIMITIVES.values() if not row.is_truth and not row.truths]
    g = Graph()
    x = [g.input("x[0]"), g.input("x[1]")]
    values = [row.apply(*x[:row.arity]) for row in rows]
    program = Program("each", (Port("x", (2,)),), (Port("y", (len(values),)),), tuple(values))
    special = [0.0, -0.0, 1.0, -2.5, 1e-300, 1e300, 3e9, np.inf, -np.inf, np.nan]
    points = np.array([*product(special, special), *np.random.default_rng(0).normal(
        scale=1e3, size=(400, 2))])
    with compiling_for(ARM_LINUX):
        compiled = compile_program(program)
    (found,) = call_batch(compiled, [points], tmp_path)
    with np.errstate(all="ignore"):
        wanted = np.array([[float(row.floats(*p[:row.arity])) for row in rows]
                           for p in points.tolist()])
    for row, got, expected in zip(rows, found.T, wanted.T, strict=True):
        rounding = 2 if row.library or row.name in ("sin", "cos") else 0
        np.testing.assert_allclose(got, expected, rtol=rounding * np.finfo(float).eps,
                                   atol=0, err_msg=row.name)


def foreign_simulation(triple: str, monkeypatch: pytest.MonkeyPatch,
                       ) -> tuple[Compiled, dict[str, Any]]:
    """The code of a simulation for another platform, and what its native twin was called with."""
    monkeypatch.setenv("NLINK_CACHE", "off")
    monkeypatch.setattr(loading, "_LOADED", WeakValueDictionary())
    called: dict[str, Any] = {}
    native_run, native_compile = ProcessKernel.run, lanes.compile_iteration

    def compile_also(*arguments: Any, **named: Any) -> Compiled:
        with compiling_for(triple):
            called["compiled"] = native_compile(*arguments[:3], 2, **named)
        return native_compile(*arguments, **named)

    def watch(self: ProcessKernel, records: np.ndarray, given: Any, out: Any = None,
              times: Any = None, **more: Any) -> None:
        if out is not None and "records" not in called:
            called.update(records=records.copy(), out=out.copy(), times=np.array(times),
                          given=np.array([given[name] for name in self.given]))
        native_run(self, records, given, out, times, **more)

    monkeypatch.setattr(lanes, "compile_iteration", compile_also)
    monkeypatch.setattr(ProcessKernel, "run", watch)
    robot = nlink.load("planar3").with_friction(viscous=0.3)
    q0 = np.random.default_rng(0).normal(size=(5, 3))
    called["run"] = nlink.simulate(robot, q0, t=0.5, every=0.05, rtol=1e-8,
                                   tau=lambda t, q, qd: 3 * nlink.sin(t) - qd)
    return called.pop("compiled"), called


@needs_arm
@pytest.mark.slow
def test_arm_simulates_what_this_machine_does(tmp_path, monkeypatch):
    compiled, native = foreign_simulation(ARM_LINUX, monkeypatch)
    out = call_processes(compiled, native["records"], native["given"], native["out"],
                         native["times"], tmp_path)
    run = native["run"]
    q = out[..., :3]
    assert q.shape == run.q.shape
    assert_close(q[:, 1:], run.q[:, 1:], 1 if host().target.fma else 1e4)


def test_workflow_calls_what_the_project_has():
    """Public servers call scripts of this repository, by names that exist, and nothing else."""
    root = Path(__file__).parents[2]
    text = (root / ".github/workflows/ci.yml").read_text("utf-8")
    commands = re.findall(r"^ *(?:- )?run: (.+)$", text, re.MULTILINE)
    scripts = [words[1] if words[0] == "python" else words[0] for words in map(str.split, commands)]
    assert {".ci/run", ".ci/minimum", ".ci/package", "run"} == set(scripts)
    assert all((root / script).is_file() for script in scripts)
