"""`nlink bench`: nlink and its peers side by side, in one run, on the same states.

Every number is the best of many repeats; ratios within one run are what counts, since
machines differ and are noisy. Per-call times cycle through different states.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata

import numpy as np

from nlink.backends.llvm.host import host
from nlink.bench.bench_robots import HUMANOID, QUADRUPED, bench_robot, random_arm
from nlink.bench.closed_chains_bench import bench_loops
from nlink.bench.derivatives_bench import bench_derivatives, bench_linearized_step
from nlink.bench.first_calls import bench_first_calls
from nlink.bench.peers import bench_mobility, bench_mujoco, bench_pinocchio
from nlink.bench.timing import Bench, adder, best, best_call, caller, filler
from nlink.bench.urdf_peers import URDF_PEERS, bench_urdf_peers
from nlink.engines.complexity import count
from nlink.engines.engines import kernel
from nlink.formats.bridges import pinocchio_order, to_pinocchio
from nlink.model.names import plain
from nlink.programs.program import Program
from nlink.robot import Robot

BATCH = 4096
LARGE_BATCH = 65536
BATCHES = (1, 16, 256, 1024, 4096, LARGE_BATCH)
"""Numbers of states in the arrays with which methods of robots are timed."""
CHAINS = (100, 200, 1000, 10_000)
ARMS = ("puma560", "ur5", "panda", "random7")


PLAIN = (
    ("inverse_dynamics", ("q", "qd", "qdd")),
    ("forward_dynamics", ("q", "qd", "tau")),
    ("mass_matrix", ("q",)),
    ("inverse_mass_matrix", ("q",)),
    ("coriolis_matrix", ("q", "qd")),
    ("regressor", ("q", "qd", "qdd")),
)


def run_bench(robots: Sequence[str] | None = None, *,
              seconds: float = 0.25, chains: Sequence[int] = CHAINS,
              progress: Callable[[str], None] = lambda _message: None) -> Bench:
    """All timings; `progress` is told what is being measured."""
    from nlink.bench.machine_limits import fma_peak

    progress("the limit of this core")
    bench = Bench(cpu_name(), versions(), missing(), fma_peak())
    rates = _rates()
    for name in robots or ARMS:
        robot = bench_robot(name)
        assert robot is not None
        robot = Robot(replace(robot.description, name=plain(robot.name)))  # for Markdown, too
        progress(robot.name)
        _bench_robot(bench, robot, seconds)
        _bench_limits(bench, robot, rates)
    if not robots:  # nothing was asked for in particular
        progress("first calls, in new processes")
        bench_first_calls(bench)
        progress("humanoid with a floating base")
        _bench_humanoid(bench, seconds, rates)
        progress("linearised step of a quadruped")
        _bench_quadruped(bench, seconds)
        bench_loops(bench, seconds, progress)
    for n in chains:
        progress(f"chain of {n} joints")
        _bench_chain(bench, n, seconds)
    return bench


def _bench_robot(bench: Bench, robot: Robot, seconds: float) -> None:
    states = _states(robot, BATCH)
    model = to_pinocchio(robot.description) if "pin" not in bench.missing else None
    for what, names in PLAIN:
        key = f"{robot.name} {what}"
        bench.operations[key] = count(robot, what).total
        add = adder(bench, robot.name, what)
        inputs = [states[name] for name in names]
        code = kernel(robot.request(what))
        outs = [np.empty((BATCH, port.size)) for port in code.outputs]
        add("nlink batch", best(partial(code.run, inputs, outs, BATCH, 1), seconds) / BATCH)
        few = [[x[k].copy() for x in inputs] for k in range(64)]
        method, out = getattr(robot, what), np.empty(code.outputs[0].shape)
        add("nlink call", best_call(caller(method, few), len(few), seconds))
        if len(names) == 3:
            add("nlink call, out=", best_call(filler(method, few, out), len(few), seconds))
        filled = [[*arrays, out] for arrays in few]
        add("nlink bare kernel", best_call(caller(code.bare, filled), len(few), seconds))
        in_numpy = partial(getattr(robot, what), *inputs, engine="numpy")
        add("numpy batch", best(in_numpy, seconds) / BATCH)
        if model is not None:
            bench_pinocchio(add, model, what, inputs, seconds)
        if "mujoco" not in bench.missing and what in ("inverse_dynamics", "forward_dynamics"):
            bench_mujoco(add, robot.description, what, states, seconds)
    bench_derivatives(bench, robot, states, model, seconds)
    bench_urdf_peers(bench, robot.description, {
        what: [states[name] for name in names] for what, names in PLAIN[:2]}, seconds)
    for algorithm in ("diagonalized", "diagonalized-xi"):
        code = kernel(robot.request("forward_dynamics", algorithm=algorithm))
        inputs, outs = [states[name] for name in ("q", "qd", "tau")], [np.empty((BATCH, robot.n))]
        adder(bench, robot.name, "forward_dynamics")(
            algorithm, best(partial(code.run, inputs, outs, BATCH, 1), seconds) / BATCH)
    large = _states(robot, LARGE_BATCH)
    for what, names in PLAIN[:2]:
        for size in BATCHES:
            some = [large[name][:size].copy() for name in names]
            adder(bench, robot.name, what)(
                f"nlink call of {size}", best(partial(getattr(robot, what), *some), seconds) / size)
    code = kernel(robot.request("inverse_dynamics"))
    inputs = [large[name] for name in ("q", "qd", "qdd")]
    out = [np.empty((LARGE_BATCH, robot.n))]
    add = adder(bench, robot.name, f"inverse_dynamics of {LARGE_BATCH}")
    for threads in (1, 2):
        add(f"nlink {threads} thread{'s' * (threads > 1)}",
            best(lambda t=threads: code.run(inputs, out, LARGE_BATCH, t), seconds) / LARGE_BATCH)


def _rates() -> dict[str, float]:
    """What this core does of each kind of instruction; nothing where they are not known."""
    from nlink.bench.machine_limits import measured_rates

    return measured_rates() if platform.machine().lower() in ("x86_64", "amd64") else {}


def _bench_limits(bench: Bench, robot: Robot, rates: Mapping[str, float]) -> None:
    """What bounds forward dynamics."""
    from nlink.bench.machine_limits import machine_limits

    program = robot.request("forward_dynamics").program()
    if rates and isinstance(program, Program):
        bench.limits.append(machine_limits(f"{robot.name} forward_dynamics", program, rates))


def _bench_humanoid(bench: Bench, seconds: float, rates: Mapping[str, float]) -> None:
    """A floating base and dozens of rates, as legged robots have."""
    robot = bench_robot(HUMANOID)
    if robot is None:
        bench.missing.append("example-robot-data")
        return
    states = _states(robot, BATCH // 4)
    order = pinocchio_order(robot.description)
    model = to_pinocchio(robot.description) if "pin" not in bench.missing else None
    for what, names in (*PLAIN[:2], ("operational_mobility", ("q",))):
        code = kernel(robot.request(what))
        inputs = [states[name] for name in names]
        outs = [np.empty((len(inputs[0]), port.size)) for port in code.outputs]
        add = adder(bench, robot.name, what)
        bench.operations[f"{robot.name} {what}"] = count(robot, what).total
        add("nlink batch",
            best(partial(code.run, inputs, outs, len(inputs[0]), 1), seconds) / len(inputs[0]))
        if model is not None and what != "operational_mobility":
            swapped = [x[:, order.coordinates if name == "q" else order.rates]
                       for x, name in zip(inputs, names, strict=True)]
            bench_pinocchio(add, model, what, swapped, seconds)
        elif model is not None:
            bench_mobility(add, model, states["q"][:, order.coordinates], seconds)
    _bench_limits(bench, robot, rates)
    bench_derivatives(bench, robot, states, model, seconds)


def _bench_quadruped(bench: Bench, seconds: float) -> None:
    """One step of a floating quadruped, linearised at many states."""
    robot = bench_robot(QUADRUPED)
    if robot is not None:  # else the humanoid, of the same package, was missing
        bench_linearized_step(bench, robot, _states(robot, BATCH // 4), seconds)


def _bench_chain(bench: Bench, n: int, seconds: float) -> None:
    """Long chains by the rolled driver; times are for one state, all joints."""
    robot = random_arm(n)
    batch = max(8, 8192 // n * 8)
    states = _states(robot, batch)
    for what, names in PLAIN[:2]:
        code = kernel(robot.request(what))
        inputs = [states[name] for name in names]
        outs = [np.empty((batch, robot.n))]
        adder(bench, robot.name, what)(
            "nlink batch", best(lambda i=inputs, k=code, o=outs: k.run(i, o, batch, 1), seconds)
            / batch)
    if n <= 200 and "pin" not in bench.missing:
        model = to_pinocchio(robot.description)
        few = {key: value[:8] for key, value in states.items()}
        for what, names in PLAIN[:2]:
            bench_pinocchio(adder(bench, robot.name, what), model, what,
                             [np.ascontiguousarray(np.resize(few[name], (64, robot.n)))
                              for name in names], seconds)


def _states(robot: Robot, batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    q, qd = robot.random_state(rng, (batch,))
    return {"q": q, "qd": qd, "qdd": rng.normal(size=qd.shape), "tau": rng.normal(size=qd.shape)}


def missing() -> list[str]:
    """Peers that are not installed, by package name."""
    absent = []
    for package in ("pin", "mujoco", "casadi", *URDF_PEERS):
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            absent.append(package)
    return absent


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("numpy", "llvmlite", "pin", "mujoco", "casadi", *URDF_PEERS):
        if package not in missing():
            found[package] = metadata.version(package)
    return found


def cpu_name() -> str:
    """The processor, as the system names it and as code is made for it now."""
    made_for = host()
    return f"{_named()} ({made_for.cpu}, {made_for.target.width} numbers in a vector)"


def _named() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
