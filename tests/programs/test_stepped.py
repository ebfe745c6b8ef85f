"""Programs of steps that are alike: the same numbers, from code that does not grow."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink import Robot
from nlink.algorithms.catalogue import CLOSED
from nlink.backends.llvm.loading import load_kernel
from nlink.engines import engines
from nlink.engines.engines import Request
from nlink.programs.products import find
from nlink.programs.stepped import SteppedProgram, trace_stepped
from nlink.testing.linkages import ladder, net, walker

ENTRIES = [entry for entries in CLOSED.values() for entry in entries.values()]


def stepped(robot: Robot, name: str, formulation: str | None = None, *, apart: bool = False,
            ) -> SteppedProgram:
    entry = find(name, formulation, loops=True)
    request = Request(entry, robot.mechanism, robot.mechanism.links[-1:],
                      "f_ext" in dict(entry.inputs))
    return trace_stepped(entry, robot.mechanism, request.options, wrenches=request.wrenches,
                         apart=apart)


def arguments(program: SteppedProgram, robot: Robot, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(count, *port.shape)) for port in program.inputs]
    rows[0] = robot.integrate(robot.neutral, 0.1 * rng.normal(size=(count, robot.n)))
    return rows


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.name}-{entry.formulation}")
@pytest.mark.slow
def test_steps_compute_what_the_text_does(entry, apart):
    robot = nlink.load("stewart") if entry.formulation == "early" else Robot(walker(1))
    program = stepped(robot, entry.name, entry.formulation, apart=apart)
    rows = arguments(program, robot, 5)
    pushed = "f_ext" in dict(entry.inputs)
    given, f_ext = (rows[:-1], rows[-1]) if pushed else (rows, None)
    expected = robot.compute(entry.name, *given, f_ext=f_ext, engine="python",
                             algorithm=entry.formulation)
    expected = expected if isinstance(expected, tuple) else (expected,)
    compiled = load_kernel(program)(*rows)
    compiled = compiled if isinstance(compiled, tuple) else (compiled,)
    for k in range(2):
        found = program(*(x[k].ravel().tolist() for x in rows))
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other[k].ravel(), rel=1e-11, abs=1e-11)
    for one, other in zip(compiled, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_longer_ladders_have_the_same_functions():
    """Twice the loops: twice the calls, but hardly more code, whatever the masses."""
    few, many, other = (stepped(Robot(ladder(n, masses=masses)), "forward_dynamics")
                        for n, masses in ((15, ()), (30, ()), (30, range(1, 31))))
    assert many.length() < 1.5 * few.length()
    assert other.length() < 1.2 * many.length()
    assert many.operations() > 1.9 * few.operations()


@pytest.mark.slow
def test_nets_have_the_same_functions():
    few, many = (stepped(Robot(net(3, n)), "forward_dynamics", apart=True) for n in (8, 16))
    assert many.length() < 1.3 * few.length()
    assert many.operations() > 1.9 * few.operations()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_derivatives_are_made_of_steps(kind):
    robot = Robot(ladder(16))
    program = stepped(robot, f"forward_dynamics_{kind}")
    straight = robot.request(f"forward_dynamics_{kind}")
    rows = [x.ravel().tolist() for x in arguments(program, robot, 1)]
    expected = engines.trace(straight.algorithm, robot.mechanism, straight.options, wrenches=True)
    for one, other in zip(program(*rows), expected(*rows), strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    assert program.length() < 0.6 * program.operations()


def test_large_angles_go_a_way_of_their_own():
    robot = Robot(ladder(4))
    program = stepped(robot, "closure_error")
    turns = 2 * np.pi * np.round(1e6 * np.random.default_rng(0).normal(size=(9, robot.n)))
    q = robot.neutral + np.where(np.arange(9)[:, None] % 4 == 1, turns, 0.0)
    expected = robot.compute("closure_error", q, engine="python")
    assert load_kernel(program)(q) == pytest.approx(expected, abs=1e-12)


def test_long_loops_are_compiled_in_steps():
    robot = Robot(ladder(40))
    assert isinstance(robot.request("forward_dynamics").program(), SteppedProgram)
    assert not isinstance(Robot(ladder(3)).request("forward_dynamics").program(), SteppedProgram)
