"""Keys of kernels: equal programs have one, and whatever changes a program changes it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from random_programs import random_program, random_rolled_program

from nlink.model.joints import Revolute
from nlink.programs.keys import key
from nlink.programs.program import Port, Program
from nlink.scalars.graph import Graph


def program(build, inputs=("x",), outputs=(("y", (1,)),)):
    graph = Graph()
    values = [graph.input(f"{name}[0]") for name in inputs]
    return Program("p", tuple(Port(name, (1,)) for name in inputs),
                   tuple(Port(*output) for output in outputs),
                   tuple(graph.lift(x) for x in build(graph, *values)))


DIFFERENT = [
    program(lambda g, x: [x + 1]),
    program(lambda g, x: [x + np.nextafter(1, 2)]),
    program(lambda g, x: [x - 1]),
    program(lambda g, x: [x * x]),
    program(lambda g, x: [x.sin()]),
    program(lambda g, x: [x.cos()]),
    program(lambda g, x: [x + 1], outputs=[("z", (1,))]),
    program(lambda g, x: [x + 1], outputs=[("y", ())]),
    program(lambda g, w: [w + 1], inputs=("w",)),
    program(lambda g, x, y: [x - y], inputs=("x", "y")),
    program(lambda g, x, y: [y - x], inputs=("x", "y")),
    program(lambda g, x: [x, x + 1], outputs=[("y", (2,))]),
    program(lambda g, x: [x + 1, x], outputs=[("y", (2,))]),
    replace(program(lambda g, x: [x + 1]), name="other"),
]


def test_different_programs_have_different_keys():
    assert len({key(each) for each in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("build", [random_program, lambda seed: random_rolled_program(seed, 5)])
def test_programs_traced_twice_have_one_key(build):
    assert key(build(3)) == key(build(3))
    assert len({key(build(seed)) for seed in range(20)}) == 20


def test_what_is_not_reached_does_not_count():
    def with_dead_code(graph, x):
        (x * 7).sin()
        return [x + 1]

    assert key(program(with_dead_code)) == key(DIFFERENT[0])


def test_parts_cannot_be_shifted():
    parts = [("ab",), ("a", "b"), ("a", ("b",)), (("a", "b"),), ("a", None, "b"), (1,), (1.0,),
             (True,), ("1",), (np.float32([1, 2]),), (np.float64([1, 2]),), ([1.0, 2.0],),
             ({"a": 1},), (DIFFERENT[0], DIFFERENT[1]), ((DIFFERENT[0], DIFFERENT[1]),)]
    assert len({key(*each) for each in parts}) == len(parts)
    assert key(np.float64(1.5)) == key(1.5)


@dataclass(frozen=True)
class Own(Revolute):
    """Whose methods nobody can digest."""


@pytest.mark.parametrize("part", [Own(), len, object(), np.array([None])])
def test_what_may_hide_something_is_refused(part):
    with pytest.raises(TypeError, match=r"part of a key is a .*, expected programs"):
        key("name", part)


JOINT = """
from dataclasses import dataclass
import nlink
from nlink.model.joints import Revolute
from nlink.spatial import Twist, Vector

@dataclass(frozen=True, slots=True)
class Geared(Revolute):
    def rate(self, q, qd):
        return Twist(Vector(0, 0, RATIO * qd[0]), Vector.zero())

body = nlink.Link("body", mass=1.0, com=(0.5, 0, 0), inertia=((1, 0, 0), (0, 1, 0), (0, 0, 1)))
robot = nlink.Robot(nlink.Description("geared", (body,), (nlink.Joint("gear", Geared()),)))
for engine in ("compiled", "python"):
    print(robot.inverse_dynamics([0.3], [0.2], [1.0], engine=engine).round(9))
for traced in (True, False):
    run = nlink.simulate(robot, [0.1], [0.2], t=0.1, every=0.1, tau=lambda t, q, qd: 1 + 0 * q,
                         traced=traced)
    print(run.q[-1].round(9))
"""


@pytest.mark.slow
def test_an_edited_method_of_an_own_joint_gives_a_new_kernel(tmp_path):
    """Each in a process of its own, on one cache: all that is compiled agrees with Python."""
    seen = set()
    for ratio in ("1.0", "2.0"):
        (tmp_path / "own.py").write_text(JOINT.replace("RATIO", ratio))
        done = subprocess.run([sys.executable, str(tmp_path / "own.py")], capture_output=True,
                              text=True, timeout=600, check=True,
                              env=os.environ | {"NLINK_CACHE": str(tmp_path / "cache")})
        compiled, python, integrated, stepped = done.stdout.split("\n")[:4]
        assert (compiled, integrated) == (python, stepped)
        seen |= {compiled, integrated}
    assert len(seen) == 4
