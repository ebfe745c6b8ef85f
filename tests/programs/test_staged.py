"""Programs in two stages: what straight-line code of the same algorithm gives, compiled too."""

from __future__ import annotations

import numpy as np
import pytest

from nlink.algorithms.matrices import TreeFactors
from nlink.algorithms.sweep import Unrolled
from nlink.backends.llvm import batch, kernel
from nlink.backends.llvm.ir import Target
from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.translate import compile_program, module
from nlink.engines import engines
from nlink.engines.engines import LONG_CODE, STAGED
from nlink.programs.keys import key
from nlink.programs.staged import Repeating, StagedProgram, trace_staged
from nlink.programs.tracing import trace
from nlink.robot import Robot
from nlink.scalars.graph import Graph
from nlink.testing import random_robot, samples
from nlink.testing.samples import difference

NAME = "forward_dynamics_derivatives"


def staged(robot: Robot, *, wrenches: bool = False) -> StagedProgram:
    request = robot.request(NAME, wrenches=wrenches)
    program = trace_staged(request.algorithm, request.mechanism, request.options,
                           wrenches=wrenches)
    assert isinstance(program, StagedProgram)
    return program


def tree(seed: int, bodies: int = 9) -> Robot:
    return random_robot(seed, bodies, fixed=False)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wrenches", [False, True])
def test_stages_give_what_the_straight_program_gives(seed, wrenches):
    robot = tree(seed)
    request, program = robot.request(NAME, wrenches=wrenches), staged(robot, wrenches=wrenches)
    whole = trace(request.algorithm, request.mechanism, request.options, wrenches=wrenches)
    x = samples(robot, states=1)
    given = [v[0].ravel().tolist() for v in (x.q, x.qd, x.tau, *([x.f_ext] if wrenches else []))]
    for found, expected in zip(program(*given), whole(*given), strict=True):
        assert difference(np.array(found), np.array(expected)) < 1e-13


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
def test_machine_code_of_stages_is_the_program(seed):
    robot = tree(seed)
    compiled = Kernel(compile_program(staged(robot)))
    for states in (1, 3, 41):
        x = samples(robot, states=states)
        expected = robot.forward_dynamics_derivatives(x.q, x.qd, x.tau, engine="numpy")
        for a, b in zip(compiled(x.q, x.qd, x.tau), expected, strict=True):
            assert difference(a, b) < 1e-9


@pytest.mark.slow
def test_a_state_has_the_same_bits_wherever_results_are_stored(monkeypatch):
    """In a batch of any size, at any alignment, through the caches or past them."""
    program = staged(tree(5, 8))
    ordinary = Kernel(compile_program(program))
    monkeypatch.setattr(batch, "FAR", 0)
    monkeypatch.setattr(batch, "VAST", 0)
    streaming = Kernel(compile_program(program))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((70, port.size)) for port in program.inputs]
    sizes = [port.size for port in program.outputs]
    expected = [np.concatenate(x) for x in zip(*(
        [y.reshape(1, -1) for y in ordinary(*(x[k] for x in arrays))] for k in range(70)),
        strict=True)]
    for each in (ordinary, streaming):
        for offset in range(4):
            for pad in (0, 1, 2, 4):
                room = [np.full(offset + 70 * (size + pad), np.nan) for size in sizes]
                rows = [x[offset:].reshape(70, size + pad)[:, :size]
                        for x, size in zip(room, sizes, strict=True)]
                each.run(arrays, rows, 70, 1)
                assert all(np.array_equal(a, b) for a, b in zip(rows, expected, strict=True))
                # and nothing was written beside them
                assert all(np.isnan(x[:offset]).all() for x in room)
                assert all(np.isnan(x[offset:].reshape(70, -1)[:, size:]).all()
                           for x, size in zip(room, sizes, strict=True))


@pytest.mark.slow
def test_threads_share_what_goes_past_the_caches(monkeypatch):
    program = staged(tree(5, 8))
    arrays = [np.random.default_rng(0).standard_normal((3000, port.size))
              for port in program.inputs]
    expected = Kernel(compile_program(program))(*arrays, threads=1)
    monkeypatch.setattr(batch, "VAST", 0)
    streaming = Kernel(compile_program(program))
    for _ in range(5):
        found = streaming(*arrays, threads=3)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    text, *_ = module(program, Target(4, fma=True))
    for entry in (kernel.BATCH, kernel.SHARE):  # what others may read is stored when they return
        body = text[text.index(f"@{entry}("):]
        assert "fence seq_cst" in body[:body.index("\n}")]


@pytest.mark.parametrize("seed", range(3))
def test_a_column_that_loads_few_rates_is_solved_like_any_other(seed):
    robot = tree(seed)
    driver, q = Unrolled(robot.mechanism), samples(robot, states=1).q[0]
    M = robot.mass_matrix(q)
    factors = TreeFactors.of(driver, M.tolist())
    for rate in range(robot.n):
        b = np.random.default_rng(rate).standard_normal(robot.n) * factors._loaded(rate)
        assert difference(np.array(factors.solve(b.tolist(), rate)),
                          np.linalg.solve(M, b)) < 1e-10


@pytest.mark.slow
def test_a_humanoid_is_one_kernel():
    """Its straight-line program is too long, its stages are not, and they are fewer operations
    than dense products take."""
    robot = random_robot(5, 14, types=("revolute", "spherical"), fixed=False)
    request = robot.request(NAME)
    whole = trace(request.algorithm, request.mechanism, request.options)
    assert len(whole.live()) > LONG_CODE
    program = request.program()
    assert isinstance(program, StagedProgram)
    assert program.length() < min(STAGED, len(whole.live()))
    assert program.operations() < 1.3 * whole.operations()
    assert not request.too_long


@pytest.mark.slow
def test_keys_follow_what_is_repeated():
    one, same, other = (staged(tree(1).with_payload(mass)) for mass in (1.0, 1.0, 2.0))
    assert key(one) == key(same)
    assert key(one) != key(other)


def test_zeros_and_numbers_of_rows_stay_structure():
    graph = Graph()
    driver = Repeating(tree(0).mechanism, graph)
    x, y = graph.input("x"), graph.input("y")
    found = driver.repeat(lambda a, row: [a * row[0], row[1] * 5, row[0] * 0], x,
                          [[y, 2.0], [x, 2.0]])
    (step,) = driver.steps
    assert step.operations() == 1  # 2 * 5 was computed here
    assert (found[0][1], found[1][2]) == (10.0, 0.0)
    assert [set(row) for row in step.rows] == [{0}, {0}]
    assert Unrolled(tree(0).mechanism).repeat(
        lambda a, row: [a * row[0]], 3.0, [[1.0], [2.0]]) == [[3.0], [6.0]]


def test_computing_with_results_of_repeated_steps_is_refused():
    robot, request = tree(0), tree(0).request(NAME)

    class Twice:
        def __getattr__(self, name):
            return getattr(request.algorithm, name)

        @staticmethod
        def text(driver, options, q, qd, tau, f_ext):
            found = request.algorithm.text(driver, options, q, qd, tau, f_ext)
            return [[[2.0 * x for x in row] for row in matrix] for matrix in found]

    with pytest.raises(ValueError, match="computes with results of a repeated step"):
        trace_staged(Twice(), robot.mechanism, request.options)  # pyright: ignore


def test_what_is_compiled_was_traced_once(monkeypatch):
    calls = []
    monkeypatch.setattr(engines, "FEW_FOR_STRAIGHT", 0)
    monkeypatch.setattr(engines, "trace_staged", lambda *given, **more: (
        calls.append(given), trace_staged(*given, **more))[1])
    monkeypatch.setattr(engines, "_TRACED", [])
    robot = tree(3, bodies=4)
    request = robot.request(NAME)
    assert not request.rolled
    assert not request.too_long
    engines.kernel(request)
    assert len(calls) == 1
    assert not engines._TRACED


def test_an_algorithm_without_repeated_steps_is_straight():
    request = tree(1).request("inverse_dynamics")
    found = trace_staged(request.algorithm, request.mechanism, request.options)
    assert key(found) == key(trace(request.algorithm, request.mechanism, request.options))
