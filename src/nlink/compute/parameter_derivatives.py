"""Derivatives by the numbers of the mechanism itself: masses, lengths, friction, gravity.

Each number x of the mechanism becomes x + d with an input d, the graph is differentiated by the
d, and then they are zero: what remains is compiled for the robot as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from nlink.compute.engines import Engine, Function, Request, run_program
from nlink.model.mechanism import Attachment, Mechanism
from nlink.programs.products import WRENCHES
from nlink.programs.program import Port, Program
from nlink.programs.tracing import run
from nlink.robot import Robot, expect_robot
from nlink.scalars.differentiation import jacobian, pullback
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import substitute
from nlink.spatial import Matrix, RigidInertia, Symmetric, Vector
from nlink.spatial.transform import Spin

Nodes = Sequence[Node]


def parameter_derivatives(robot: Robot, name: str, args: Sequence[Any], by: str, *,
                          cotangent: Any = None, frame: int | str = -1,
                          algorithm: str | None = None, engine: Engine | None = None,
                          out: Any = None) -> Any:
    """The derivatives of what a robot computes by its own parameters.

    `by` says which, and determines the last dimensions of the result, after those of the
    computation:

    - "gravity", (3,): the components of `robot.gravity`;
    - "inertia", (links, 10): mass, first moments m c and moments of inertia (xx, yy, zz, xy, xz,
      yz) of each link about the origin of its frame, in its axes;
    - "placement", (joints, 6): a small displacement of each moving joint, with all it carries,
      (turn, shift) about the origin and along the axes of the link that it is on;
    - "armature", "viscous", "coulomb", (n,): the numbers of each rate.

    With `cotangent`, w of the shape of the result, it is the gradient of w . f alone, by one
    reverse pass. `args` are the arrays of the computation, with f_ext last if given.

    >>> import nlink, numpy as np
    >>> robot, q = nlink.load("planar3"), np.array([0.1, 0.2, 0.3])
    >>> by_gravity = parameter_derivatives(robot, "gravity_torque", (q,), "gravity")
    >>> bool(np.allclose(by_gravity @ robot.gravity, robot.gravity_torque(q)))
    True
    """
    if by not in _CHANGES:
        raise ValueError(f"by: {by!r}, expected one of {', '.join(_CHANGES)}")
    args = tuple(args) if isinstance(args, tuple | list) else (args,)
    known = _FUNCTIONS.setdefault(expect_robot(robot), {})
    key = (name, by, cotangent is None, frame, algorithm, engine, len(args))
    if key not in known:
        request = robot.request(name, algorithm=algorithm, frame=frame)
        if len(args) > len(request.ports[0]) and WRENCHES in dict(request.algorithm.inputs):
            request = replace(request, wrenches=True)
        known[key] = run_program(_program(robot, request, by, cotangent is not None), engine)
    more = () if cotangent is None else (
        tuple(cotangent) if isinstance(cotangent, tuple | list) and len(
            robot.request(name, algorithm=algorithm, frame=frame).algorithm.outputs) > 1
        else (cotangent,))
    return known[key](*args, *more, out=out)


_FUNCTIONS: WeakKeyDictionary[Robot, dict[Any, Function]] = WeakKeyDictionary()


def _program(robot: Robot, request: Request, by: str, weighted: bool) -> Program:
    """The program of derivatives of a request, or of the gradient of its weighted results."""
    graph, (inputs, outputs) = Graph(), request.ports
    widths, change = _CHANGES[by]
    shape = widths(robot)
    port = Port(f"d{by}", shape)
    small = [graph.input((by, k)) for k in range(port.size)]
    values = [[graph.input(f"{each.name}[{k}]") for k in range(each.size)] for each in inputs]
    mechanism = request.algorithm.prepare(change(robot, request.mechanism, small))
    y = [graph.lift(x) for x in run(request.algorithm, mechanism, request.options, values)]
    if weighted:
        weights = tuple(Port(f"w_{each.name}", each.shape) for each in outputs)
        w = [graph.input(f"{each.name}[{k}]") for each in weights for k in range(each.size)]
        inputs, found, results = (*inputs, *weights), (port,), pullback(y, w, small)
    else:
        found = tuple(Port(f"d{each.name}_d{by}", (*each.shape, *shape)) for each in outputs)
        results = [x for row in jacobian(y, small) for x in row]
    here = dict.fromkeys((x.index for x in small), graph.const(0))
    return Program(f"{request.algorithm.name}_by_{by}", inputs, found,
                   tuple(substitute(results, graph, here)))


def _by_gravity(_robot: Robot, mechanism: Mechanism, d: Nodes) -> Mechanism:
    return replace(mechanism, gravity=mechanism.gravity + Vector(*d).rotate(mechanism.base.R.T))


def _by_inertia(_robot: Robot, mechanism: Mechanism, d: Nodes) -> Mechanism:
    joints = list(mechanism.joints)
    for link, own in zip(mechanism.links[1:], _rows(d, 10), strict=True):
        if link.body:
            m, hx, hy, hz, *J = own
            more = _seen_from_body(link, m, Vector(hx, hy, hz), Symmetric(*J))
            joint = joints[link.body - 1]
            joints[link.body - 1] = replace(joint, inertia=joint.inertia + more)
    return replace(mechanism, joints=tuple(joints))


def _seen_from_body(link: Attachment, m: Node, h: Vector, J: Symmetric) -> RigidInertia:
    """Moments of mass about a link's origin, about the origin of its body: S = tr(J)/2 - J."""
    S = Symmetric((J.yy + J.zz - J.xx) * 0.5, (J.xx + J.zz - J.yy) * 0.5,
                  (J.xx + J.yy - J.zz) * 0.5, -J.xy, -J.xz, -J.yz)
    return RigidInertia(m, h.rotate(link.R), S.rotate(link.R)).shift(link.p)


def _by_placement(robot: Robot, mechanism: Mechanism, d: Nodes) -> Mechanism:
    moving = [joint for joint in robot.joints if joint.type.nv]
    joints = []
    for joint, given, own in zip(mechanism.joints, moving, _rows(d, 6), strict=True):
        link = mechanism.links[given.parent]  # in which the displacement is given
        turn, shift = (Vector(*part).rotate(link.R) for part in (own[:3], own[3:]))
        spin = Matrix.from_rows(((1, -turn.z, turn.y), (turn.z, 1, -turn.x),
                                 (-turn.y, turn.x, 1)))  # to first order, which is what counts
        fixed: Any = (Spin(spin), *joint.fixed)
        joints.append(replace(joint, p=joint.p + shift + turn.cross(joint.p - link.p),
                              fixed=fixed))
    return replace(mechanism, joints=tuple(joints))


def _by_rates(name: str) -> Callable[[Robot, Mechanism, Nodes], Mechanism]:
    def change(_robot: Robot, mechanism: Mechanism, d: Nodes) -> Mechanism:
        return replace(mechanism, joints=tuple(
            replace(joint, **{name: tuple(x + y for x, y in zip(
                getattr(joint, name), own, strict=True))})
            for joint, own in zip(mechanism.joints, mechanism.split(d, "nv"), strict=True)))

    return change


def _rows(values: Nodes, width: int) -> list[Nodes]:
    return [values[k:k + width] for k in range(0, len(values), width)]


_CHANGES: dict[str, tuple[Callable[[Robot], tuple[int, ...]],
                          Callable[[Robot, Mechanism, Nodes], Mechanism]]] = {
    "gravity": (lambda _robot: (3,), _by_gravity),
    "inertia": (lambda robot: (len(robot.links), 10), _by_inertia),
    "placement": (lambda robot: (len(robot.mechanism.joints), 6), _by_placement),
    **{name: (lambda robot: (robot.n,), _by_rates(name))
       for name in ("armature", "viscous", "coulomb")},
}
"""For each kind of parameter the shape of its changes, and the mechanism with them."""
