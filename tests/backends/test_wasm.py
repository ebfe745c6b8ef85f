"""Modules of WebAssembly against the texts that they are made of, to the bit, and simulations in
them against `nlink.simulate`."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import subprocess

import mpmath
import numpy as np
import pytest
from llvm_wasm import LlvmInstance
from random_programs import random_arrays, random_program
from wasm import Instance

import nlink
from nlink.backends.llvm.code import lower
from nlink.backends.llvm.passes import optimize
from nlink.backends.wasm.program_functions import write_program
from nlink.backends.wasm.stack_code import Expressions, Sink
from nlink.backends.wasm.wasm_library import complete_library
from nlink.backends.wasm.wasm_machine import ENDED, MARKED, REACHED, write_machine
from nlink.backends.wasm.wasm_module import (
    F64,
    MOST_INSTRUCTIONS,
    Module,
    StackFunction,
    assembled,
    signed,
    unsigned,
)
from nlink.programs.tracing import trace
from nlink.scalars import elementary
from nlink.scalars.functions import where
from nlink.scalars.graph import Graph, operation
from nlink.scalars.lookup import LookupTable
from nlink.scalars.primitives import PRIMITIVES
from nlink.simulation.ensemble import Ensemble
from nlink.simulation.implicit import solving_programs
from nlink.simulation.setting import Saving, Solver
from nlink.simulation.simulator import new_records_of

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, math.inf, -math.inf, math.nan, 1e308, 5e-324,
           -1e-310, 1e17, 1e22, -7.3e5, 3.7, -12.25)
NODE = shutil.which("node")


def equal(a, b):
    """Whether two numbers are one, zeros with their signs; nan is nan."""
    return (math.isnan(a) and math.isnan(b)) or (
        a == b and math.copysign(1, a) == math.copysign(1, b))


def on_floats(op, *arguments):
    """An operation as a module computes it."""
    text = elementary.FUNCTIONS.get(op, getattr(operation(op), "floats", None))
    with np.errstate(all="ignore"):
        return text(*arguments)


def function_of(text, arity):
    """An instance with a function `f` of numbers."""
    graph, module = Graph(), Module()
    code = optimize(lower([graph.lift(text(*(graph.input(k) for k in range(arity))))]), fma=False)
    f = module.add(StackFunction("f", (F64,) * arity, (F64,)))
    Expressions(module, f).write(code, lambda k: assembled(f"local.get {k}"), [Sink([], [])])
    module.exports["f"] = "f"
    complete_library(module)
    return Instance(module.binary())


def test_numbers_are_written_in_groups_of_seven_bits():
    assert [unsigned(n).hex() for n in (0, 127, 128, 624485)] == ["00", "7f", "8001", "e58e26"]
    assert [signed(n).hex() for n in (0, -1, 63, 64, -64, -123456)] == [
        "00", "7f", "3f", "c000", "40", "c0bb78"]
    with pytest.raises(ValueError, match="wrong"):
        assembled("local.get 0 f64.wrong")


@pytest.mark.parametrize("name", [name for name, row in PRIMITIVES.items() if row.arity])
def test_every_primitive_is_its_text_to_the_bit(name):
    row = PRIMITIVES[name]

    def text(*x):
        truths = [a < 0.5 for a in x[:row.truths]]
        value = row.apply(*truths, *x[row.truths:])
        return where(value, 1.0, 0.0) if row.is_truth else value

    instance = function_of(text, row.arity)
    for x in itertools.product(SPECIAL, repeat=min(row.arity, 2)):
        given = x + (0.25,) * (row.arity - len(x))
        truths = [np.bool_(a < 0.5) for a in given[:row.truths]]
        wanted = float(on_floats(name, *truths, *given[row.truths:]))
        assert equal(instance.call("f", *given), wanted), (name, given)


def test_tables_are_read_within_their_bounds():
    table = LookupTable([1.0, 4.0, -9.0])
    instance = function_of(table, 1)
    for x in (*SPECIAL, 1.999, 2.0):
        assert equal(instance.call("f", x), table.floats(x)), x


def ulps(name, reference, *arguments):
    """The largest error of an elementary function, in units of the last place."""
    with np.errstate(all="ignore"):
        found, worst = elementary.FUNCTIONS[name](*arguments), 0.0
    with mpmath.workprec(1300):  # 2**1024 has so many digits before those of a turn
        for *x, value in zip(*arguments, found, strict=True):
            exact = reference(*map(mpmath.mpf, map(float, x)))
            if abs(exact) > 1e-300 and abs(exact) < 1e308:
                error = abs(mpmath.mpf(float(value)) - exact) / math.ulp(float(exact))
                worst = max(worst, float(error))
    return worst


def test_elementary_functions_are_right_to_two_units_of_the_last_place():
    rng, count = np.random.default_rng(3), 150

    def powers(low, high):
        return 10.0 ** rng.uniform(low, high, count) * rng.choice([-1, 1], count)

    angles = np.concatenate([rng.uniform(-10, 10, count), powers(-9, 5), powers(5, 308),
                             np.arange(1, 99) * (np.pi / 2), [6381956970095103 * 2.0**797]])
    near_one, positive = 1 + 1e-7 * rng.normal(size=count), np.abs(powers(-300, 300))
    assert ulps("sin", mpmath.sin, angles) < 1.0
    assert ulps("cos", mpmath.cos, angles) < 1.0
    assert ulps("exp", mpmath.exp, rng.uniform(-690, 700, count)) < 1.0
    assert ulps("log", mpmath.log, np.concatenate([positive, near_one])) < 1.0
    assert ulps("tanh", mpmath.tanh, np.concatenate([powers(-9, 1), rng.uniform(-2, 2, count)])) < 2
    assert ulps("atan2", mpmath.atan2, powers(-150, 150), powers(-150, 150)) < 1.5
    assert ulps("pow", mpmath.power, np.concatenate([positive, near_one]), np.concatenate([
        rng.uniform(-1, 1, count), 1e8 * rng.normal(size=count)])) < 1.0


def run_states(program, arrays):
    """The outputs of a program in a module for arrays of states, (states, size) each."""
    module, count = Module(), len(arrays[0])
    write_program(module, program, "f")
    module.exports["f"] = "f"
    complete_library(module)
    ports = (*program.inputs, *program.outputs)
    places = [module.constants([0.0] * (count * port.size)) for port in ports]
    instance = Instance(module.binary())
    for at, x in zip(places, arrays, strict=False):
        instance.write(at, x)
    for k in range(count):
        instance.call("f", *(at + 8 * k * port.size for at, port in zip(
            places, ports, strict=True)))
    return [instance.read(at, count * port.size).reshape(count, port.size)
            for at, port in zip(places[len(arrays):], program.outputs, strict=True)]


def run_program(program, arrays):
    """The same for one state, flat."""
    return [x[0] for x in run_states(program, [np.asarray(x)[None] for x in arrays])]


def on_texts(program, arrays):
    """The same on floats, operation by operation."""
    code = optimize(lower(program.results), fma=False)
    given = {f"{port.name}[{k}]": float(x) for port, array in zip(
        program.inputs, arrays, strict=True) for k, x in enumerate(np.ravel(array))}
    values = []
    for i in code.instructions:
        values.append(i.value if i.op == "const" else given[i.name] if i.op == "input" else
                      on_floats(i.op, *(values[a] for a in i.args)))
    return [float(values[r]) for r in code.results]


@pytest.mark.parametrize("seed", range(3))
def test_programs_are_their_operations_to_the_bit(seed):
    program = random_program(seed, size=150)
    arrays = [x[0] for x in random_arrays(program, 1)]
    for got, wanted in zip(np.concatenate(run_program(program, arrays)),
                           on_texts(program, arrays), strict=True):
        assert equal(got, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["double_pendulum", "panda", "stanford"])
def test_dynamics_of_a_robot_are_their_operations_to_the_bit(name):
    robot, rng = nlink.load(name), np.random.default_rng(5)
    request = robot.request("forward_dynamics")
    program = trace(request.algorithm, request.mechanism, request.options)
    for _ in range(3):
        arrays = [rng.normal(size=port.shape) for port in program.inputs]
        [found] = run_program(program, arrays)
        assert found.tolist() == on_texts(program, arrays)
        np.testing.assert_allclose(found, robot.forward_dynamics(*arrays), rtol=1e-11, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["planar3", "panda", "stanford", "puma560", "four_bar"])
def test_a_thousand_states_are_those_of_llvms_modules_to_the_bit(name):
    """What nlink writes byte by byte, and what LLVM makes of the same program for wasm32; a tenth
    of the angles is beyond those that a few parts of pi reduce."""
    robot, rng, count = nlink.load(name), np.random.default_rng(7), 1000
    request = robot.request("forward_dynamics")
    program = trace(request.algorithm, request.mechanism, request.options)
    arrays = [rng.normal(size=(count, *port.shape)) for port in program.inputs]
    if name != "four_bar":
        arrays[0][::10] *= 10.0 ** rng.uniform(5, 30, arrays[0][::10].shape)
    [found], [wanted] = run_states(program, arrays), LlvmInstance(program, count)(arrays)
    assert found.tobytes() == wanted.tobytes()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("seed", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_programs_of_every_kind_are_those_of_llvms_modules_to_the_bit(seed):
    program = random_program(seed, size=150)
    arrays = random_arrays(program, 20)
    for got, wanted in zip(run_states(program, arrays), LlvmInstance(program, 20)(arrays),
                           strict=True):
        np.testing.assert_array_equal(got, wanted)


class Simulated:
    """A simulation in a module: what `nlink.simulate` is given, and its states."""

    def __init__(self, robot, q0=None, qd0=None, t=(0.0, 0.5, 1.0), method="rk4", step=None,
                 **options):
        solver = Solver(method=method, step=step)
        ensemble = Ensemble.of(nlink.System(robot, **options), q0, qd0, solver, Saving(t=t))
        system, method, times = ensemble.system, ensemble.method, ensemble.times
        programs = {name: system.straight(name) for name in system.texts}
        if "derivatives" in method.needs:
            programs |= solving_programs(system)
        iteration, record = system.iteration(method), new_records_of(ensemble)[0]
        module = Module()
        self.places = places = write_machine(
            module, system.recorded(method), programs, system.shape)
        self.binary = module.binary()
        self.instance = instance = Instance(self.binary)
        for name, at in (*places.cells.items(), *places.columns.items()):
            if name in record.dtype.names:
                instance.write(at, record[name])
        instance.write(places.inputs + 8 * system.shape.timed, record["own"])
        self.given(solver.bounds(float(times[-1])) | {
            "begin": times[0], "final": times[-1], "stop": times[-1]})
        self.y, self.marks, self.end = [record["y"]], [], REACHED
        for time in times[1:]:
            self.given({"due": time} | ({} if iteration.dense else {"stop": time}))
            self.end = instance.call("until", 10**6)
            while self.end == MARKED:
                at = instance.read(places.cells["mark_time"], 1)[0]
                self.marks += [at for name in iteration.layout.marks
                               if at > 0 and instance.read(places.cells[name], 1)[0] > 0]
                instance.write(places.cells["marked"], 0.0)
                self.end = instance.call("until", 10**6)
            if self.end != REACHED:
                break
            instance.call("output")
            self.y.append(instance.read(places.row, system.shape.size))

    def given(self, numbers):
        for name in self.places.given.keys() & numbers.keys():
            self.instance.write(self.places.given[name], float(numbers[name]))


def expect_same(robot, q0, tolerance, **options):
    """Simulate in a module and by `nlink.simulate`."""
    t = options.pop("t", (0.0, 0.1, 0.45, 1.0))
    found = Simulated(robot, q0, t=t, **options)
    run = nlink.simulate(robot, q0, t=t, **options)
    assert found.end == REACHED
    assert run.status == "done"
    y = np.array(found.y)
    np.testing.assert_allclose(y[:, :robot.nq], run.q, rtol=0, atol=tolerance)
    if options["method"] != "symplectic":  # whose states hold momenta
        np.testing.assert_allclose(y[:, robot.nq:robot.nq + robot.n], run.qd, rtol=0,
                                   atol=20 * tolerance)
    np.testing.assert_allclose(found.marks, run.events.t if run.events else [], atol=tolerance)
    return found, run


ARM = nlink.load("planar3")
START = [0.3, -0.4, 0.5]
LAW = nlink.simulation.PDGravity(ARM, [0.6, 0.2, -0.3], 20.0, 6.0)


@pytest.mark.parametrize("method", [
    "rk4", "rkf45", "dopri5", "dop853", "abm", "symplectic", "semi_implicit",
    pytest.param("rodas5p", marks=pytest.mark.slow)])
def test_every_method_runs_as_simulate_does(method):
    fixed = method in ("rk4", "symplectic", "semi_implicit")
    expect_same(ARM, START, 1e-12, method=method, tau=None if method == "symplectic" else LAW,
                step=2e-3 if fixed else None)


@pytest.mark.slow
def test_friction_limits_samples_and_loops_run_as_simulate_does():
    rough = ARM.with_friction(dry=0.3, viscous=0.05)
    _, run = expect_same(rough, START, 1e-12, t=(0.0, 0.7, 2.0), method="rkf45")
    assert len(run.events) > 3
    expect_same(rough, START, 1e-11, method="rkf45", limits="hold", t=(0.0, 0.5))
    sampled = nlink.simulation.Sampled(LAW, 0.02)
    expect_same(ARM, START, 1e-12, method="rk4", step=5e-3, tau=sampled)
    four_bar = nlink.load("four_bar")
    expect_same(four_bar, None, 1e-12, method="rk4", step=5e-3, t=(0.0, 0.5))


def test_contact_runs_as_simulate_does():
    link = nlink.Link("ball", mass=1.0, inertia=np.diag([4e-3] * 3))
    ball = nlink.Robot(nlink.Description("ball", (link,), (nlink.Joint("root", nlink.Free()),)))
    ball = ball.with_contacts({"ball": nlink.Sphere(0.1)}, nlink.World(friction=0.3))
    state = [0, 0, 0.15, 1, 0, 0, 0], [0, 0, 0, 3.0, 0, 0]
    options = {"method": "semi_implicit", "step": 2e-3}
    found = Simulated(ball, *state, t=(0.0, 0.5, 1.0), **options)
    run = nlink.simulate(ball, *state, t=(0.0, 0.5, 1.0), **options)
    np.testing.assert_allclose(np.array(found.y)[:, :7], run.q, rtol=0, atol=1e-12)
    assert run.q[-1, 2] == pytest.approx(0.1, abs=1e-6)


def test_an_end_is_told():
    falling = Simulated(ARM, START, method="rkf45", events=nlink.Event(
        lambda t, q, qd: t - 0.25, terminal=True))
    assert falling.end == ENDED
    assert falling.instance.read(falling.places.cells["t"], 1) == pytest.approx(0.25, abs=1e-12)
    assert len(falling.marks) == 1


def test_a_module_is_made_of_the_same_bytes_again():
    assert Simulated(ARM, START, tau=LAW).binary == Simulated(ARM, START, tau=LAW).binary


def test_modules_that_browsers_would_choke_on_are_refused():
    module = Module()
    f = module.add(StackFunction("f"))
    f.body = [b"\x01"] * (MOST_INSTRUCTIONS + 1)
    with pytest.raises(ValueError, match=f"{MOST_INSTRUCTIONS + 1} instructions, expected at most"):
        module.binary()


def test_an_export_is_refused_by_the_name_of_its_argument(tmp_path):
    with pytest.raises(ValueError, match=r"path: .*arm\.js.*expected \.wasm"):
        nlink.export_wasm(ARM, ["gravity_torque"], tmp_path / "arm.js")
    with pytest.raises(ValueError, match="names: 'gravity_torque', expected a list"):
        nlink.export_wasm(ARM, "gravity_torque", tmp_path / "arm.wasm")


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_node_calls_an_export(tmp_path):
    names = ["inverse_dynamics", "mass_matrix"]
    paths = nlink.export_wasm(ARM, names, tmp_path / "arm.wasm")
    assert re.findall(r"^  (\w+)\(", paths[2].read_text(), re.MULTILINE) == names
    script = tmp_path / "use.mjs"
    (tmp_path / "package.json").write_text('{"type": "module"}')
    script.write_text("""
        import { load } from "./arm.js";
        const arm = await load();
        const say = (make) => { try { return make(); } catch (error) { return String(error); } };
        console.log(JSON.stringify([[...arm.inverse_dynamics([.1, .2, .3], [1, 2, 3], [4, 5, 6])],
          [...arm.mass_matrix([.1, .2, .3])], say(() => arm.mass_matrix([1])),
          say(() => arm.mass_matrix())]));
    """)
    tau, M, length, count = json.loads(subprocess.run(
        [NODE, script], check=True, capture_output=True, text=True).stdout)
    np.testing.assert_allclose(tau, ARM.inverse_dynamics(
        [.1, .2, .3], [1., 2., 3.], [4., 5., 6.]), rtol=1e-13)
    np.testing.assert_allclose(M, ARM.mass_matrix([.1, .2, .3]).ravel(), rtol=1e-13)
    assert length == "RangeError: mass_matrix: q has the length 1, expected 3"
    assert count == "TypeError: mass_matrix: 0 arguments, expected 1: q"
