"""What a bench says: rows for a terminal, Markdown for the page of benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nlink.bench import first_calls
from nlink.bench.bench_robots import HUMANOID, QUADRUPED
from nlink.bench.casadi_peer import CASADI
from nlink.bench.closed_chains_bench import LOOPED
from nlink.bench.derivatives_bench import DERIVATIVES, DIFFERENCES
from nlink.bench.dynamics import BATCH, BATCHES, CHAINS, LARGE_BATCH, PLAIN
from nlink.bench.timing import CPP, Bench
from nlink.bench.urdf_peers import URDF_PEERS


@dataclass(frozen=True, slots=True)
class BenchRow:
    """A line of the table: our time, the peer's, and how many times less ours is."""

    what: str
    ours: float
    peer: str
    theirs: float | None

    @property
    def ratio(self) -> str:
        return f"{self.theirs / self.ours:.1f}x" if self.theirs else "missing"


def rows(bench: Bench) -> list[BenchRow]:
    """What the table shows, in this order: batches, calls, threads, chains."""
    lines = []
    arms = [t.robot for t in bench.timings if t.what == "mass_matrix" and t.method == "nlink batch"]
    for robot in arms:
        for what, _ in PLAIN:
            ours = bench.seconds(robot, what, "nlink batch")
            if ours:
                lines.append(BenchRow(f"{robot} {what}, batch of {BATCH}", ours, "Pinocchio in C++",
                                      bench.in_cpp(robot, what)))
    for robot in (*arms, HUMANOID):
        for what, _ in DERIVATIVES:
            ours = bench.seconds(robot, what, "nlink batch")
            if ours:
                size = BATCH // 4 if robot == HUMANOID else BATCH
                name = f"{robot} {what}, batch of {size}"
                lines.append(BenchRow(name, ours, "Pinocchio in C++", bench.in_cpp(robot, what)))
                if casadi := bench.seconds(robot, what, CASADI):
                    lines.append(BenchRow(name, ours, CASADI, casadi))
    step = bench.seconds(QUADRUPED, "linearize", "nlink batch")
    if step:
        lines += [BenchRow(f"{QUADRUPED} linearised step, batch of {BATCH // 4}", step, peer,
                           bench.seconds(QUADRUPED, "linearize", peer)) for peer in DIFFERENCES]
    for what in ("inverse_dynamics", "forward_dynamics", "operational_mobility"):
        ours = bench.seconds(HUMANOID, what, "nlink batch")
        peer = CPP if what != "operational_mobility" else "Pinocchio call"
        if ours:
            name = "J M^-1 J^T of a frame" if what == "operational_mobility" else what
            lines.append(BenchRow(f"{HUMANOID} {name}, batch of {BATCH // 4}", ours, peer,
                                  bench.seconds(HUMANOID, what, peer)))
    for robot in LOOPED:
        for form in ("elimination", "early"):
            ours = bench.seconds(robot, "forward_dynamics", form)
            if ours:
                lines.append(BenchRow(f"{robot} forward_dynamics with loops, {form}", ours,
                                      "Pinocchio in C++", bench.in_cpp(robot, "forward_dynamics")))
    for robot in arms:
        for algorithm in ("diagonalized", "diagonalized-xi"):
            standard = bench.seconds(robot, "forward_dynamics", "nlink batch")
            ours = bench.seconds(robot, "forward_dynamics", algorithm)
            if ours and standard:
                lines.append(BenchRow(f"{robot} forward_dynamics, {algorithm}", ours,
                                      "nlink, default", standard))
    for robot in arms:
        for what, _ in PLAIN[:2]:
            ours = bench.seconds(robot, what, "nlink call")
            others = [method for method, _ in URDF_PEERS.values()
                      if bench.seconds(robot, what, method)]
            for peer in ("Pinocchio call", CPP, "MuJoCo call", *others):
                if ours:
                    lines.append(BenchRow(f"{robot} {what}, one call from Python", ours, peer,
                                          bench.seconds(robot, what, peer)))
    for robot in arms:
        for what, _ in PLAIN[:2]:
            for way in ("call, out=", "bare kernel"):
                ours = bench.seconds(robot, what, f"nlink {way}")
                if ours:
                    lines.append(BenchRow(f"{robot} {what}, {way}", ours, "Pinocchio call",
                                          bench.seconds(robot, what, "Pinocchio call")))
            for size in BATCHES:
                ours = bench.seconds(robot, what, f"nlink call of {size}")
                if ours:
                    lines.append(BenchRow(f"{robot} {what}, call of {size}, a state", ours,
                                          "Pinocchio in C++", bench.in_cpp(robot, what)))
    for robot in arms:
        what = f"inverse_dynamics of {LARGE_BATCH}"
        two = bench.seconds(robot, what, "nlink 2 threads")
        if two:
            lines.append(BenchRow(f"{robot} {what}, two threads", two, "nlink 1 thread",
                                  bench.seconds(robot, what, "nlink 1 thread")))
    return lines + _chain_rows(bench)


def _chain_rows(bench: Bench) -> list[BenchRow]:
    """Long chains, by joint and state, beside Pinocchio and beside the shortest chain."""
    lines = []
    names = {f"random{n}": n for n in CHAINS}
    chains = [(names[t.robot], t.what, t.seconds) for t in bench.timings
              if t.method == "nlink batch" and t.robot in names]
    for n, what, seconds in chains:
        name = f"chain of {n}, {what}, a joint and state"
        theirs = bench.seconds(f"random{n}", what, CPP)
        if theirs:
            lines.append(BenchRow(name, seconds / n, CPP, theirs / n))
        shortest = min(chains, key=lambda c: (c[1] != what, c[0]))
        if shortest[0] != n:
            lines.append(BenchRow(name, seconds / n, f"chain of {shortest[0]}",
                                  shortest[2] / shortest[0]))
    return lines


def limits(bench: Bench) -> list[str]:
    """The fraction of the core's peak that the batch kernels reach."""
    found = []
    for key, operations in bench.operations.items():
        robot, what = key.rsplit(maxsplit=1)
        seconds = bench.seconds(robot, what, "nlink batch")
        if seconds and what in ("inverse_dynamics", "forward_dynamics"):
            found.append(f"{robot} {what}: {operations} operations in {seconds * 1e9:.1f} ns, "
                         f"{operations / seconds / bench.peak:.0%} of the peak")
    for each in bench.limits:
        found.append(f"{each.kernel}: {each.strictest} alone would take "
                     f"{each.bounds[each.strictest] * 1e9:.1f} ns")
    return found


def _limit_lines(bench: Bench) -> list[str]:
    """What bounds forward dynamics: instructions by kind, and the least time for each of them."""
    if not bench.limits:
        return []
    kinds = list(bench.limits[0].bounds)
    lines = ["", "## What bounds forward dynamics", "", "Vector instructions by kind, counted in "
             "the machine code, and the time of one state if they alone took time, at the rate at "
             "which this core does them. Products include fused multiply-adds; spills are stores "
             "to the stack. See [the compiler](../compiler.md#what-bounds-a-kernel).",
             "", _line(["robot", "measured", *kinds, "spills", "all instructions", "code",
                        "scratch"]), "|---|---:|" + "---:|" * (len(kinds) + 4)]
    for limits in bench.limits:
        robot, what = limits.kernel.rsplit(maxsplit=1)
        seconds = bench.seconds(robot, what, "nlink batch")
        lines.append(_line([
            robot, _cell(seconds, None), *(
                f"{limits.instructions.get(kind, 0)}: {limits.bounds[kind] * 1e9:.1f} ns"
                for kind in kinds),
            *(str(limits.instructions.get(kind, 0)) for kind in ("spills", "all")),
            f"{limits.code / 1024:.0f} kB", f"{limits.scratch / 1024:.0f} kB"]))
    return lines


def conditions(bench: Bench) -> str:
    """Where and with what a bench ran, in a sentence."""
    parts = ", ".join(f"{name} {version}" for name, version in bench.versions.items())
    absent = f" Missing: {', '.join(bench.missing)}." if bench.missing else ""
    return (f"{bench.cpu}; one core unless said; FMA peak measured at "
            f"{bench.peak / 1e9:.0f} GFLOP/s; {parts} (pip's builds).{absent}")


def _cell(ours: float | None, theirs: float | None) -> str:
    """Our time and how many times less it is."""
    if not ours:
        return ""
    return f"{ours * 1e9:.1f} ns, {theirs / ours:.1f}x" if theirs else f"{ours * 1e9:.1f} ns"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown(bench: Bench) -> str:
    """The page of benchmarks: what a call costs first, then batches and kernels."""
    arms = list(dict.fromkeys(
        t.robot for t in bench.timings if t.method == "nlink batch" and t.what == "mass_matrix"))
    return "\n".join([
        f"# Benchmarks: {bench.cpu}", "", "Written by `nlink bench --markdown FILE` on the machine "
        "named; run it on yours. Times are the best of many repeats, all in one run on the same "
        "states, and only the ratios mean something.", "", conditions(bench),
        *_call_lines(bench, arms), *_first_call_lines(bench),
        *_urdf_peer_lines(bench, arms), *_kernel_lines(bench, arms),
        *_derivative_lines(bench, arms), *_loop_lines(bench), *_chain_lines(bench), "",
        "## Of the core's FMA peak", "",
        *(f"- {line}" for line in limits(bench)), *_limit_lines(bench), ""])


def _call_lines(bench: Bench, arms: Sequence[str]) -> list[str]:
    """What users call: the method for one state, for many, and by two threads."""
    lines = ["", "## A call from Python", "", "One state: `robot.inverse_dynamics(q, qd, qdd)` "
             "and `robot.forward_dynamics(q, qd, tau)` with the result allocated, with `out=`, and "
             "the bare kernel of `robot.compile`; ratios of the peers to the method.", "",
             _line(["robot", "computation", "method", "out=", "bare", "Pinocchio", "MuJoCo"]),
             "|---|---|---:|---:|---:|---:|---:|"]
    for robot in arms:
        for what, _ in PLAIN[:2]:
            ours = [_cell(bench.seconds(robot, what, f"nlink {way}"), None)
                    for way in ("call", "call, out=", "bare kernel")]
            peers = [_cell(bench.seconds(robot, what, f"{peer} call"), None)
                     + (f" ({r:.1f}x)" if (r := bench.ratio(robot, what, "nlink call",
                                                            f"{peer} call")) else "")
                     for peer in ("Pinocchio", "MuJoCo")]
            lines.append(_line([robot, what.replace("_", " "), *ours, *peers]))
    lines += ["", "Time per state when a method is called with a batch of this size; nlink chooses "
              "the number of threads.", "",
              _line(["robot", "computation", *map(str, BATCHES)]),
              "|---|---|" + "---:|" * len(BATCHES)]
    for robot in arms:
        for what, _ in PLAIN[:2]:
            lines.append(_line([robot, what.replace("_", " "), *(
                _cell(bench.seconds(robot, what, f"nlink call of {size}"), None)
                for size in BATCHES)]))
    large = f"inverse_dynamics of {LARGE_BATCH}"
    gains = [f"{robot} {r:.2f}x" for robot in arms
             if (r := bench.ratio(robot, large, "nlink 2 threads", "nlink 1 thread"))]
    return [*lines, "", f"Two threads against one, {LARGE_BATCH} states: {', '.join(gains)}."]


def _first_call_lines(bench: Bench) -> list[str]:
    """What compiling costs: first calls of a process, without and with kernels on disk."""
    names = list(dict.fromkeys(t.robot for t in bench.timings if t.method == first_calls.COMPILED))
    if not names:
        return []
    whats = (*first_calls.CALLS, first_calls.SIMULATION)
    lines = ["", "## The first call", "", "Milliseconds of the first call in a new process, which "
             "traces and compiles; below, of the same call once the kernel is on disk. "
             "`simulate` is `nlink.simulate` by rkf45.", "",
             _line(["robot", "kernel", *(what.replace("_", " ") for what in whats)]),
             "|---|---|" + "---:|" * len(whats)]
    for robot in names:
        for method in (first_calls.COMPILED, first_calls.LOADED):
            found = [bench.seconds(robot, what, method) for what in whats]
            lines.append(_line([robot, method.removeprefix("first call, ").removeprefix("kernel "),
                                *(f"{1e3 * x:.0f}" if x else "" for x in found)]))
    return lines


def _kernel_lines(bench: Bench, arms: Sequence[str]) -> list[str]:
    """Batches on one core, and ratios to Pinocchio's."""
    words = [what.replace("_", " ") for what, _ in PLAIN]
    lines = ["", "## Kernels", "",
             f"In a batch of {BATCH} states ({BATCH // 4} for {HUMANOID}), one core; ratios to "
             "Pinocchio's C++ batch on one thread (`rneaInParallel`, `abaInParallel`). For the "
             "matrices it has no batch: its call from Python, less what a call of inverse "
             "dynamics costs more than its batch.", "",
             _line(["robot", *words]), "|---|" + "---:|" * len(words)]
    for robot in arms:
        lines.append(_line([robot, *(
            _cell(bench.seconds(robot, what, "nlink batch"), bench.in_cpp(robot, what))
            for what, _ in PLAIN)]))
    if bench.seconds(HUMANOID, "inverse_dynamics", "nlink batch"):
        cells = [_cell(bench.seconds(HUMANOID, what, "nlink batch"),
                       bench.seconds(HUMANOID, what, CPP)) for what, _ in PLAIN[:2]]
        mobility = _cell(bench.seconds(HUMANOID, "operational_mobility", "nlink batch"),
                         bench.seconds(HUMANOID, "operational_mobility", "Pinocchio call"))
        lines += [_line([HUMANOID, *cells, "", "", ""]), "",
                  f"J M^-1 J^T of one frame of {HUMANOID}: {mobility} its Jacobian, M^-1 and two "
                  "products from Python."]
    return lines


def _derivative_lines(bench: Bench, arms: Sequence[str]) -> list[str]:
    """Derivatives of the dynamics, and the step of a quadruped."""
    words = [what.replace("_", " ") for what, _ in DERIVATIVES]
    lines = ["", "Derivatives of the dynamics in the same batches, beside Pinocchio's "
             "`computeRNEADerivatives` and `computeABADerivatives` (its call less Python's part, "
             "as above), and beside C that CasADi generates from our algorithms on its scalars, "
             "compiled with -O3 -march=native and called in a C loop.", "",
             _line(["robot", *words, *(f"{each}, CasADi" for each in words)]),
             "|---|---:|---:|---:|---:|"]
    for robot in (*arms, HUMANOID):
        cells = [_cell(bench.seconds(robot, what, "nlink batch"), bench.in_cpp(robot, what))
                 for what, _ in DERIVATIVES]
        casadi = [_cell(bench.seconds(robot, what, CASADI), None)
                  + (f" ({r:.1f}x)" if (r := bench.ratio(robot, what, "nlink batch", CASADI))
                     else "") for what, _ in DERIVATIVES]
        if any(cells):
            lines.append(_line([robot, *cells, *casadi]))
    step = bench.seconds(QUADRUPED, "linearize", "nlink batch")
    peers = [f"{t:.0f}x {peer} ({theirs * 1e6:.0f} us)" for peer in DIFFERENCES
             if (t := bench.ratio(QUADRUPED, "linearize", "nlink batch", peer))
             and (theirs := bench.seconds(QUADRUPED, "linearize", peer))]
    return lines if not step else [
        *lines, "", f"`nlink.linearize` of one semi-implicit step of {QUADRUPED}, A and B of all "
        f"joint forces, {BATCH // 4} states: {step * 1e6:.2f} us"
        f"{', ' * bool(peers)}{', '.join(peers)}. MuJoCo's are calls of `mjd_transitionFD` without "
        "contacts."]


def _urdf_peer_lines(bench: Bench, arms: Sequence[str]) -> list[str]:
    """Calls of the peers that read a URDF file, those that were run."""
    names = [method for method, _ in URDF_PEERS.values()
             if any(t.method == method for t in bench.timings)]
    if not names:
        return []
    lines = ["", "Further peers, one call from Python; in brackets the ratio to the method.", "",
             _line(["robot", "computation", *(name.removesuffix(" call") for name in names)]),
             "|---|---|" + "---:|" * len(names)]
    for robot in arms:
        for what, _ in PLAIN[:2]:
            cells = [_cell(bench.seconds(robot, what, name), None)
                     + (f" ({r:.1f}x)" if (r := bench.ratio(robot, what, "nlink call", name))
                        else "") for name in names]
            lines.append(_line([robot, what.replace("_", " "), *cells]))
    return lines


def _loop_lines(bench: Bench) -> list[str]:
    """Mechanisms with loops, beside constraintDynamics."""
    cells = [[robot, *(_cell(bench.seconds(robot, "forward_dynamics", form),
                             bench.in_cpp(robot, "forward_dynamics"))
                       for form in ("elimination", "early"))] for robot in LOOPED]
    if not any(cell for row in cells for cell in row[1:]):
        return []
    return ["", "Forward dynamics of mechanisms with loops, beside Pinocchio's "
            "`constraintDynamics` (one exact solve; its call less Python's part, as above).", "",
            _line(["mechanism", "rows late", "rows early"]), "|---|---:|---:|",
            *map(_line, cells)]


def _chain_lines(bench: Bench) -> list[str]:
    """Long chains: time for one joint and state, and the ratio to Pinocchio where it was run."""
    lines = ["", "Chains of n revolute joints with random twists, time for one joint and state.",
             "", _line(["n", *(what.replace("_", " ") for what, _ in PLAIN[:2])]),
             "|---:|---:|---:|"]
    found = False
    for n in CHAINS:
        cells = []
        for what, _ in PLAIN[:2]:
            ours = bench.seconds(f"random{n}", what, "nlink batch")
            theirs = bench.seconds(f"random{n}", what, CPP)
            cells.append(_cell(ours / n if ours else None, theirs / n if theirs else None))
            found = found or bool(ours)
        lines.append(_line([str(n), *cells]))
    return lines if found else []
