"""Products with the derivatives of anything a robot computes, without forming matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from nlink.algorithms.catalogue import Shape
from nlink.derivatives.parameter_derivatives import parameter_derivatives
from nlink.engines.computations import How
from nlink.engines.users_view import shows_options
from nlink.programs.products import find
from nlink.programs.program import Port
from nlink.programs.tracing import WRENCHES, ports
from nlink.robot import Robot, expect_robot
from nlink.scalars.arrays import batch, common_type


@shows_options
def jvp(robot: Robot, name: str, args: Any, tangents: Any, *, frame: int | str = -1,
        out: Any = None, **how: Unpack[How]) -> Any:
    """(df/dx) x': the rate of change of a computation as its arguments change.

    `name` is any computation (see `nlink count`), `args` its arrays and `tangents` the rates at
    which they change, None for those that do not. The tangent of q is in the tangent space: n rates
    v, with dq/dt = T(q) v. `f_ext` may be given last in both. Batches, `out`, `algorithm` and
    `engine` are as for the computation itself.

    >>> import nlink, numpy as np
    >>> robot, q, qd = nlink.load("planar3"), np.array([0.1, 0.2, 0.3]), np.array([1.0, -1.0, 2.0])
    >>> Mdot, C = nlink.jvp(robot, "mass_matrix", (q,), (qd,)), robot.coriolis_matrix(q, qd)
    >>> bool(np.allclose(Mdot, C + C.T))
    True
    """
    return RobotFunction(robot, name, frame, how).jvp(args, tangents, out=out)


@shows_options
def vjp(robot: Robot, name: str, args: Any, cotangent: Any, *, frame: int | str = -1,
        out: Any = None, **how: Unpack[How]) -> Any:
    """(df/dx)^T w: the gradient of w . f by all arguments of the computation f.

    `cotangent` is w, of the shape of the result (a tuple for a computation with several). There
    is one gradient for each of `args`, a tuple if `args` is one; that by q has n elements, one for
    each rate: T(q)^T df/dq^T w.

    >>> import nlink, numpy as np
    >>> robot, q = nlink.load("planar3"), np.array([0.1, 0.2, 0.3])
    >>> (g,) = nlink.vjp(robot, "potential_energy", (q,), 1.0)
    >>> bool(np.allclose(g, robot.gravity_torque(q)))
    True
    """
    return RobotFunction(robot, name, frame, how).vjp(args, cotangent, out=out)


@shows_options
def hvp(robot: Robot, name: str, args: Any, cotangent: Any, tangents: Any, *,
        frame: int | str = -1, out: Any = None, **how: Unpack[How]) -> Any:
    """The rate of change of `vjp` as the arguments change, at constant w: the product of the second
    derivatives of w . f with the tangents.

    Where coordinates are plain numbers these are symmetric. With quaternions the gradient has
    components in the body's axes, which turn, and the second derivatives of a function on rotations
    by such components are symmetric up to the commutator of rotations.

    >>> import nlink, numpy as np
    >>> robot, q, v = nlink.load("planar3"), np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.0, 0.0])
    >>> (h,) = nlink.hvp(robot, "potential_energy", (q,), 1.0, (v,))
    >>> bool(np.allclose(h, nlink.jvp(robot, "gravity_torque", (q,), (v,))))
    True
    """
    return RobotFunction(robot, name, frame, how).hvp(args, cotangent, tangents, out=out)


class RobotFunction:
    """A computation of a robot with its derivatives: what `nlink.function(robot, name)` gives.

    Arguments have any leading batch shape, and f_ext may be given last. Changes of q are in the
    tangent space, n numbers. `out` is as for the computation.
    """

    def __init__(self, robot: Robot, name: str, frame: int | str = -1, how: How | None = None,
                 ) -> None:
        self.robot, self.name = expect_robot(robot), name
        self.frame, self.how = frame, how or How()
        find(name, self.how.get("algorithm"), loops=robot.description.closed)  # or a sentence

    def __repr__(self) -> str:
        return f"<RobotFunction {self.name} of {self.robot.name}>"

    def __call__(self, *args: Any, out: Any = None) -> Any:
        return self._call(self.name, args, out)

    def jvp(self, args: Any, tangents: Any, *, out: Any = None) -> Any:
        """(df/dx) x', see `nlink.jvp`."""
        return self._product("jvp", args).call(out, self.how, tangents=tangents)

    def vjp(self, args: Any, cotangent: Any, *, out: Any = None) -> Any:
        """(df/dx)^T w, one gradient for each argument, see `nlink.vjp`."""
        return self._product("vjp", args).call(out, self.how, cotangent=cotangent)

    def hvp(self, args: Any, cotangent: Any, tangents: Any, *, out: Any = None) -> Any:
        """The rate of `vjp` along tangents at constant w, see `nlink.hvp`."""
        return self._product("hvp", args).call(out, self.how, cotangent=cotangent,
                                               tangents=tangents)

    def jacobian(self, *args: Any, out: Any = None) -> Any:
        """df/dx for each result and each argument but f_ext, (..., *shape of f, *shape of x)."""
        return self._call(f"{self.name}_derivatives", args, out)

    def hessian(self, *args: Any, out: Any = None) -> Any:
        """The derivatives of each matrix of `jacobian` by each argument, row by row."""
        return self._call(f"{self.name}_derivatives_derivatives", args, out)

    def by(self, parameter: str) -> Callable[..., Any]:
        """The derivatives by the robot's own numbers, "inertia", "gravity", ...: a function of the
        same arguments, and of `cotangent`, see `nlink.parameter_derivatives`."""
        def derivatives(*args: Any, cotangent: Any = None, out: Any = None) -> Any:
            return parameter_derivatives(self.robot, self.name, args, parameter,
                                         cotangent=cotangent, frame=self.frame, out=out,
                                         **self.how)

        return derivatives

    def _product(self, kind: str, args: Any) -> _Product:
        return _Product(self.robot, self.name, kind, args, self.frame)

    def _call(self, name: str, args: tuple[Any, ...], out: Any) -> Any:
        names = [port for port, _ in find(name, loops=self.robot.description.closed).inputs]
        needed = [port for port in names if WRENCHES not in port]
        if len(args) not in (len(needed), len(names)):
            raise TypeError(f"args: {len(args)} arrays, expected {len(needed)} "
                            f"({', '.join(needed)})")
        return self.robot.call_ports(name, (*args, out), self.how, len(args) > len(needed),
                                     self.frame)


class _Product:
    """One call: the arrays in the order of the ports, and the result in the shape of `args`."""

    def __init__(self, robot: Robot, name: str, kind: str, args: Any,
                 frame: int | str) -> None:
        self.robot, self.kind, self.frame = expect_robot(robot), kind, frame
        self.name = f"{name}_{kind}"
        entry = find(name, loops=robot.description.closed)
        self.base, self.results = entry.inputs, [port for port, _ in entry.outputs]
        self.single = not isinstance(args, tuple | list)
        self.args = self._listed("args", args)
        self.wrenches = len(self.args) == len(self.base) > len(self._without_wrenches())
        if not self.wrenches:
            self.base = self._without_wrenches()

    def _without_wrenches(self) -> tuple[tuple[str, Shape], ...]:
        """The arguments but for f_ext and, of a product, its tangents."""
        return tuple(port for port in self.base if WRENCHES not in port[0])

    def _listed(self, what: str, given: Any) -> list[Any]:
        """One array for each argument of the computation, f_ext being optional."""
        names = [name for name, _ in self.base]
        needed = [name for name, _ in self._without_wrenches()]
        listed = [given] if self.single else given
        if not isinstance(listed, tuple | list):
            raise TypeError(f"{what}: one {type(given).__name__}, expected a tuple of arrays "
                            f"({', '.join(names)})")
        expected = (names,) if what != "args" else (needed, names)
        if len(listed) not in map(len, expected):
            raise TypeError(f"{what}: {len(listed)} arrays, expected {len(expected[0])} "
                            f"({', '.join(expected[0])})")
        return list(listed)

    def call(self, out: Any, how: How, *, tangents: Any = None, cotangent: Any = None) -> Any:
        arrays = list(self.args)
        if self.kind != "jvp":
            arrays += self._weights(cotangent)
        if self.kind != "vjp":
            arrays += self._listed("tangents", tangents)
            kind = common_type(x for x in arrays if x is not None)
            if any(x is None for x in arrays[-len(self.base):]):
                arrays[-len(self.base):] = [
                    np.zeros(port.shape, kind) if x is None else x for port, x in zip(
                        self._ports()[-len(self.base):], arrays[-len(self.base):], strict=True)]
        try:
            result = self.robot.call_ports(
                self.name, (*arrays, out), how, self.wrenches, self.frame)
        except (TypeError, ValueError):
            self._expect_shapes(arrays)
            raise
        if self.kind == "jvp" or self.single or isinstance(result, tuple):
            return result
        return (result,)

    def _weights(self, cotangent: Any) -> Sequence[Any]:
        if len(self.results) == 1:
            return [cotangent]
        if not isinstance(cotangent, tuple | list) or len(cotangent) != len(self.results):
            raise TypeError(f"cotangent: expected a tuple of {len(self.results)} arrays "
                            f"({', '.join(self.results)})")
        return cotangent

    def _ports(self) -> tuple[Port, ...]:
        """Names and shapes of all arrays, in their order."""
        entry = find(self.name, loops=self.robot.description.closed)
        return ports(entry, self.robot.mechanism, wrenches=self.wrenches)[0]

    def _expect_shapes(self, arrays: Sequence[Any]) -> None:
        """Refuse weights and tangents that do not fit, by the names they have in the call."""
        count = len(self.base)
        names = [name for name, _ in self.base]
        if self.kind != "jvp":
            names += ["cotangent" if len(self.results) == 1 else f"cotangent ({name})"
                      for name in self.results]
        if self.kind != "vjp":
            names += [f"tangents ({name})" for name in names[:count]]
        for name, port, x in zip(names, self._ports(), arrays, strict=True):
            batch(name, x, port.shape, dtype=common_type([x]))
