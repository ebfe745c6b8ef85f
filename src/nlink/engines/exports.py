"""A robot's computations in other languages: closed forms and C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from nlink.backends.wasm.module_files import wasm_files
from nlink.closed_forms.expressions import Symbolic
from nlink.engines.engines import checked_type
from nlink.formats.files import write_bytes
from nlink.model.parameters import named
from nlink.programs.program import Program
from nlink.programs.tracing import trace
from nlink.robot import Robot, expect_robot


def symbolic(robot: Robot, name: str, *, parameters: Literal["numbers", "names"] = "numbers",
             algorithm: str | None = None, frame: int | str = -1) -> Symbolic:
    """Closed-form expressions of anything the robot computes, as SymPy.

    `parameters="names"` keeps the robot's zeros and names its other numbers (m_1, a_1, g, ...).

    >>> import nlink
    >>> print(symbolic(nlink.load("double_pendulum"), "gravity_torque", parameters="names"
    ...                ).simplified())
    tau_1 = c_2*g*m_2*cos(q_1 + q_2) + g*(a_1*m_2 + c_1*m_1)*cos(q_1)
    tau_2 = c_2*g*m_2*cos(q_1 + q_2)
    """
    if parameters not in ("numbers", "names"):
        raise ValueError(f"parameters: {parameters!r}, expected 'numbers' or 'names'")
    request = expect_robot(robot).request(name, algorithm=algorithm, frame=frame)
    lift = None if parameters == "numbers" else (
        lambda graph, mechanism: named(mechanism, graph.parameter))
    program = trace(request.algorithm, request.mechanism, request.options, lift=lift)
    if name == "operational_inertia" and any(
            node.op == "const" and math.isnan(node.value) for node in program.results):
        raise ValueError(f"{name}: does not exist for {robot.name} and this frame, whatever the "
                         "state is: too few rates move the frame, expected six or more, or "
                         "'operational_mobility', which always exists")
    return Symbolic(program)


class Traced(Protocol):
    """A function of one's own, made by `nlink.function`."""

    name: str

    def program(self) -> Program:
        """The function as a graph."""
        ...


def export_c(robot: Robot, names: Sequence[str | Traced], directory: str | Path, *,
             dtype: str = "float64") -> tuple[Path, Path]:
    """Write one C99 file and its header with a function for each named computation.

    The functions need only libm and compute one state. Code of long chains is written out here too.
    Beside names there may be functions of one's own, from `nlink.function`: a cost, a controller, a
    step. With `dtype="float32"` all numbers are float, constants and functions of libm too, and
    the files and functions have "_float32" in their names.

    >>> import nlink, tempfile
    >>> from pathlib import Path
    >>> directory = Path(tempfile.mkdtemp())
    >>> _ = nlink.export_c(nlink.load("double_pendulum"), ["inverse_dynamics"], directory)
    >>> sorted(path.suffix for path in directory.iterdir())
    ['.c', '.h']
    """
    return write_c(_programs(robot, names), robot.name, directory, checked_type(dtype))


def export_wasm(robot: Robot, names: Sequence[str | Traced], path: str | Path) -> tuple[Path, ...]:
    """Write a module of WebAssembly with a function for each named computation, and a loader in
    JavaScript with its types: `path` ends in .wasm, the other files are written beside it.

    A page or Node calls `const robot = await load()` and `robot.inverse_dynamics(q, qd, qdd)`, with
    arrays of numbers. The module imports nothing; its numbers are the same in every browser.

    >>> import nlink, tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "pendulum.wasm"
    >>> files = nlink.export_wasm(nlink.load("double_pendulum"), ["inverse_dynamics"], path)
    >>> [each.name for each in files], path.stat().st_size < 4000
    (['pendulum.wasm', 'pendulum.js', 'pendulum.d.ts'], True)
    """
    path = Path(path)
    if path.suffix != ".wasm":
        raise ValueError(f"path: {str(path)!r} has the suffix {path.suffix!r}, expected .wasm")
    files = wasm_files(_programs(robot, names), path.stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_bytes(path.parent / name, content)
    return tuple(path.parent / name for name in files)


def _programs(robot: Robot, names: Sequence[str | Traced]) -> list[Program]:
    """The named computation, traced for one state; long chains are written out."""
    if isinstance(names, str) or not names:
        raise ValueError(f"names: {names!r}, expected a list such as ['inverse_dynamics']")
    programs, robot = [], expect_robot(robot)
    for name in names:
        if not isinstance(name, str):
            programs.append(replace(name.program(), name=name.name))
            continue
        request = robot.request(name)
        programs.append(trace(request.algorithm, request.mechanism, request.options))
    return programs


def write_c(programs: Sequence[Program], name: str, directory: str | Path,
            dtype: str = "float64") -> tuple[Path, Path]:
    """Write `name.c` and `name.h` with a function for each program; the two paths."""
    from nlink.backends.c import c_files

    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    source, header = ((place / file, text) for file, text in c_files(programs, name, dtype))
    for path, text in (header, source):
        write_bytes(path, text.encode("ascii"))
    return source[0], header[0]
