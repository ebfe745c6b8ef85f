"""A simulation as a module of WebAssembly: what `nlink.simulate` would run, in a reader's browser.

    step, output, until     the iteration of the method, see `nlink.backends.wasm.wasm_machine`
    look(t, y, u, seen)     what a page shows: places of links (3 x 4, by rows), velocities of links
                            (angular, linear), centre of mass, kinetic and potential energy, joint
                            forces of the controller

Every link has a wrench of its own among the numbers that vary, so that a hand can pull it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nlink.backends.wasm.program_functions import write_program
from nlink.backends.wasm.wasm_library import complete_library
from nlink.backends.wasm.wasm_machine import Places, write_machine
from nlink.backends.wasm.wasm_module import Module
from nlink.programs.applying import perform
from nlink.programs.program import Port, Program
from nlink.simulation.ensemble import Ensemble
from nlink.simulation.implicit import solving_programs
from nlink.simulation.setting import Solver
from nlink.simulation.simulator import new_records_of
from nlink.simulation.system import System

Array = np.ndarray


@dataclass(frozen=True)
class LiveModule:
    """The bytes of a module, and what whoever runs it must know."""

    ensemble: Ensemble
    code: bytes
    head: dict[str, Any]
    """Where its numbers are, for a script."""
    states: Array
    """(trajectories, size): with what pieces of the system remember."""
    own: Array
    """(trajectories, width): what varies."""

    @staticmethod
    def of(ensemble: Ensemble, solver: Solver) -> LiveModule:
        """The module of an ensemble, its memory as one trajectory has it at the start."""
        system, method = ensemble.system, ensemble.method
        _expect_computable(system, method)
        recorded = system.recorded(method)
        called = recorded.calls()
        programs = {name: system.straight(name) for name in system.texts if name in called}
        if "derivatives" in method.needs:
            programs |= solving_programs(system)
        module, records = Module(), new_records_of(ensemble)
        places = write_machine(module, recorded, programs, system.shape)
        for name, at in (*places.cells.items(), *places.columns.items()):
            if name in (records.dtype.names or ()):
                for k, x in enumerate(np.ravel(records[0][name])):
                    module.set(at + 8 * k, float(x))
        given = solver.bounds(1.0) | {"begin": 0.0, "final": np.inf, "stop": np.inf}
        for name in places.given.keys() & given.keys():
            module.set(places.given[name], float(given[name]))
        seen = _look(system)
        write_program(module, seen, "look")
        module.exports["look"] = "look"
        complete_library(module)
        look = {"time": module.constants([0.0]),
                "seen": module.constants([0.0] * seen.outputs[0].size)}
        code = module.binary()
        head = _head(system, recorded.layout.marks, places, look)
        return LiveModule(ensemble, code, head, records["y"], ensemble.own.copy())


def _expect_computable(system: System, method: Any) -> None:
    if "python" in method.needs:
        raise ValueError(f"method: {method.name!r} runs in Python alone, expected one that is "
                         "compiled, such as 'rk4' or 'rkf45'")


def _head(system: System, marks: tuple[str, ...], places: Places, look: dict[str, int],
          ) -> dict[str, Any]:
    numbers = system.varied.split(range(system.varied.width))
    return {"cells": dict(places.cells), "given": dict(places.given), "y": places.columns["y"],
            "inputs": places.inputs, "own": places.inputs + 8 * system.shape.timed,
            "size": system.shape.size, "nq": system.robot.nq, "n": system.robot.n,
            "marks": marks, "links": len(system.robot.links), "wrenches": numbers["f_ext"][0],
            "look": look}


def _look(system: System) -> Program:
    """What a page shows of a state, traced."""
    ports, at = system.moment()
    robot = system.robot

    def asked(name: str, *columns: Any, **options: Any) -> list[Any]:
        request = robot.request(name, **options)
        return perform(replace(request, mechanism=at.mechanism), *columns)

    frames = range(1, len(robot.links) + 1)
    seen = [x for k in frames for x in asked("pose", at.q, frame=k)[:12]]
    seen += [x for k in frames for x in asked("frame_velocity", at.q, at.qd, frame=k)]
    seen += asked("center_of_mass", at.q)
    seen += [*asked("kinetic_energy", at.q, at.qd), *asked("potential_energy", at.q)]
    seen += system.drive.control(at)[0]
    return Program("look", ports, (Port("seen", (len(seen),)),),
                   tuple(at.t.graph.lift(x) for x in seen))
