"""The step of `riccati.backward_step` for robots with many rates, in tiles.

The same equations, where coordinates are plain numbers: P = 1 and V = h. Forces have no bounds and
trajectories no gaps. Costs come as their derivatives, of the Hessian those that are not zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nlink.programs.program import Port
from nlink.programs.stepped import SteppedProgram
from nlink.programs.tiles import TiledFactors, Tiles
from nlink.scalars.graph import Node


def tiled_backward_step(n: int, motors: Sequence[int], h: float,
                        elements: Sequence[tuple[int, int]]) -> SteppedProgram:
    """The program of ports as in `ShootingProblem.backward`; `elements` are the rows and columns,
    i >= j, of the numbers in "hessian"."""
    m, z = len(motors), 2 * n
    given = [Port(name, (n, n)) for name in ("dqdd_dq", "dqdd_dqd", "dqdd_dtau")]
    given += [Port("gradient", (1, z + m)), Port("hessian", (1, max(1, len(elements)))),
              Port("damping", (1, 1)), Port("S", (z, z)), Port("s", (z, 1)),
              Port("slope", (1, 1)), Port("curve", (1, 1)), Port("least", (1, 1))]
    t = Tiles(given)
    port, damping = t.port, t.port["damping"]
    S, s = port["S"], port["s"]
    Sqq, Sqv, Svv, sq, sv = S[:n, :n], S[:n, n:], S[n:, n:], s[:n], s[n:]

    # the step: v' = (Dq, 1 + Dv) (dq, dv) + Du du
    Dq, Dv, Du = (t.each("scaled", t.new(n, size), port[f"dqdd_d{name}"][:, which],
                         text=lambda a, _: h * a)
                  for name, size, which in (("q", n, slice(None)), ("qd", n, slice(None)),
                                            ("tau", m, list(motors))))
    # the value by dq and dv'
    C = t.each("C", t.new(n, n), Sqq, Sqv.T, more=[damping],
               text=lambda a, b, d, on: h * (a + d) + b if on else h * a + b)
    W = t.each("W", t.new(n, n), Sqq, Sqv, Sqv.T, Svv, more=[damping],
               text=lambda a, b, c, e, d, on: (
                   h * (h * (a + d) + b + c) + e + d if on else h * (h * a + b + c) + e))
    w = t.each("w", t.new(n, 1), sq, sv, text=lambda a, b, _: h * a + b)
    # by (dq, dv) and du
    Yq, Yv = t.product(W, Dq, C), t.product(W, Dv, W)
    WF = t.product(W, Du)
    Qqq = t.product(Dq.T, Yq, Sqq, lower=True)
    Qqq = t.product(C.T, Dq, Qqq, lower=True, to=Qqq)
    Qvq = t.product(Dv.T, Yq, Yq)
    Qvv = t.product(Dv.T, Yv, Yv, lower=True)
    Quu = t.product(Du.T, WF, lower=True)
    for matrix in (Qqq, Quu):
        for place in np.diag(matrix):
            t.add(int(place), int(damping[0, 0]))
    Qux = np.concatenate([t.product(Du.T, Yq), t.product(Du.T, Yv)], axis=1)
    gradient = port["gradient"].T
    Qq = t.product(Dq.T, w, t.each("sum", t.new(n, 1), sq, gradient[:n], text=_sum))
    Qv = t.product(Dv.T, w, t.each("sum", t.new(n, 1), w, gradient[n:z], text=_sum))
    Qu = t.product(Du.T, w, gradient[z:])
    for k, (i, j) in enumerate(elements):
        t.add(int(_element(i, j, n, Qqq, Qvq, Qvv, Qux, Quu)), int(port["hessian"][0, k]))
    # the feedback
    K = np.concatenate([t.each("copy", t.new(m, n), half, text=lambda a, _: a)
                        for half in (Qux[:, :n], Qux[:, n:])], axis=1)
    k = t.each("copy", t.new(m, 1), Qu, text=lambda a, _: a)
    factors = TiledFactors(t, Quu)
    factors.solve_negative(K[:, :n])
    factors.solve_negative(K[:, n:])
    factors.solve_negative(k)
    least = factors.least(port["least"])
    slope = t.product(Qu.T, k, port["slope"])
    curve = t.product(Qu.T, k, port["curve"], scale=-1.0)
    # the value before
    q, v = slice(0, n), slice(n, z)
    t.product(Qux[:, q].T, K[:, q], Qqq, lower=True, to=Qqq)
    t.product(Qux[:, v].T, K[:, q], Qvq, to=Qvq)
    t.product(Qux[:, v].T, K[:, v], Qvv, lower=True, to=Qvv)
    before = np.concatenate([t.product(Qux[:, q].T, k, Qq), t.product(Qux[:, v].T, k, Qv)])
    value = np.block([[_mirrored(Qqq), Qvq.T], [Qvq, _mirrored(Qvv)]])
    return t.program("tiled_riccati", [
        (Port("S.next", (z * z,)), value), (Port("s.next", (z,)), before),
        (Port("slope.next", (1,)), slope), (Port("curve.next", (1,)), curve),
        (Port("least.next", (1,)), least), (Port("K", (m * z,)), K), (Port("k", (m,)), k)])


def _sum(a: Node, b: Node, _: Any) -> Any:
    return a + b


def _element(i: int, j: int, n: int, Qqq: np.ndarray, Qvq: np.ndarray, Qvv: np.ndarray,
             Qux: np.ndarray, Quu: np.ndarray) -> int:
    """The place of an element, i >= j, of the matrix by (dq, dv, du)."""
    z = 2 * n
    if i >= z:
        return Quu[i - z, j - z] if j >= z else Qux[i - z, j]
    if i < n:
        return Qqq[i, j]
    return Qvq[i - n, j] if j < n else Qvv[i - n, j - n]


def _mirrored(a: np.ndarray) -> np.ndarray:
    """A symmetric matrix of which the part on and below the diagonal is given."""
    return np.tril(a) + np.tril(a, -1).T
