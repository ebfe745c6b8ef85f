"""Four-bar and slider-crank against their equation of motion in one coordinate.

With the crank angle t and everything else a function of it, Lagrange gives

    I(t) tdd + 1/2 I'(t) td^2 + V'(t) = tau,
    I = sum m |c'|^2 + J phi'^2,   V = -sum m g . c,

of mass centres c and angles phi of the bodies, in plane geometry alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import sympy

import nlink

T = sympy.Symbol("t", real=True)
G = sympy.Matrix([0, -9.81])
CIRCLE = np.linspace(0, 2 * np.pi, 25)


class OneCoordinate:
    """The reduced equation of planar bodies, (mass, inertia, centre, angle), all functions of t,
    and the coordinates of the tree."""

    def __init__(self, bodies, coordinates) -> None:
        inertia = sum(m * c.diff(T).dot(c.diff(T)) + J * sympy.diff(phi, T) ** 2
                      for m, J, c, phi in bodies)
        potential = -sum(m * G.dot(c) for m, _, c, _ in bodies)
        self.parts = self._function([inertia, inertia.diff(T) / 2, sympy.diff(potential, T)])
        q = sympy.Matrix(coordinates)
        self.motion = self._function([q, q.diff(T), q.diff(T, 2)])

    @staticmethod
    def _function(expressions) -> Callable[[float], list]:
        return sympy.lambdify(T, expressions, "numpy", cse=True)

    def state(self, t: float, td: float):
        q, dq, _ = self.motion(t)
        return np.ravel(q), np.ravel(dq) * td

    def acceleration(self, t: float, td: float, tau: float):
        """tdd, and with it that of every coordinate."""
        inertia, change, slope = self.parts(t)
        tdd = (tau - change * td ** 2 - slope) / inertia
        _, dq, ddq = self.motion(t)
        return np.ravel(dq) * tdd + np.ravel(ddq) * td ** 2


def direction(angle):
    return sympy.Matrix([sympy.cos(angle), sympy.sin(angle)])


def rod(mass: float, length: float, start, angle):
    return mass, mass * length ** 2 / 12, start + direction(angle) * length / 2, angle


def four_bar() -> OneCoordinate:
    """Crank 0.4, coupler 1.0, rocker 0.8, ground 1.0; the coupler's end lies on two circles."""
    crank, coupler, rocker = 0.4, 1.0, 0.8
    wrist, ground = crank * direction(T), sympy.Matrix([1.0, 0.0])
    gap = ground - wrist
    d = sympy.sqrt(gap.dot(gap))
    along = (d ** 2 + coupler ** 2 - rocker ** 2) / (2 * d)
    across = sympy.sqrt(coupler ** 2 - along ** 2)
    pin = wrist + gap * along / d + sympy.Matrix([-gap[1], gap[0]]) * across / d
    a, b = pin - wrist, pin - ground
    phi, psi = sympy.atan2(a[1], a[0]), sympy.atan2(b[1], b[0])
    zero = sympy.zeros(2, 1)
    bodies = [rod(0.8, crank, zero, T), rod(2.0, coupler, wrist, phi),
              rod(1.6, rocker, ground, psi)]
    return OneCoordinate(bodies, [T, phi - T, psi])


def slider_crank() -> OneCoordinate:
    """Crank 0.3, rod 1.0, a piston on the x axis."""
    wrist = 0.3 * direction(T)
    phi = -sympy.asin(wrist[1])
    piston = sympy.Matrix([wrist[0] + sympy.sqrt(1 - wrist[1] ** 2), 0])
    zero = sympy.zeros(2, 1)
    bodies = [rod(1.2, 0.3, zero, T), rod(1.0, 1.0, wrist, phi), (0.7, 0.0, piston, sympy.S.Zero)]
    return OneCoordinate(bodies, [T, phi - T, piston[0]])


@pytest.fixture(scope="module", params=[four_bar, slider_crank], ids=lambda f: f.__name__)
def pair(request):
    return nlink.load(request.param.__name__), request.param()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "numpy", "compiled"])
def test_accelerations_over_a_turn_are_those_of_lagrange(pair, engine):
    robot, reduced = pair
    rng = np.random.default_rng(0)
    for t in CIRCLE:
        td, tau = rng.normal() * 3, rng.normal() * 20
        q, qd = reduced.state(t, td)
        assert np.abs(robot.loops.error(q)).max() < 1e-14
        expected = reduced.acceleration(t, td, tau)
        found = robot.forward_dynamics(q, qd, [tau, 0, 0], engine=engine)
        assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max() + 1e-11


@pytest.mark.slow
def test_inverse_dynamics_over_a_turn_is_that_of_lagrange(pair):
    robot, reduced = pair
    rng = np.random.default_rng(1)
    for t in CIRCLE:
        td, wanted = rng.normal() * 3, rng.normal() * 20
        q, qd = reduced.state(t, td)
        qdd = reduced.acceleration(t, td, wanted)
        tau, _ = robot.loops.inverse_dynamics(q, qd, qdd)
        assert tau == pytest.approx([wanted, 0, 0], rel=1e-10, abs=1e-9)


@pytest.mark.slow
def test_a_turn_of_the_crank_is_that_of_the_reduced_equation(pair):
    """A driven motion over several turns against quadrature-free integration of one equation."""
    from scipy.integrate import solve_ivp

    robot, reduced = pair
    start, speed = float(robot.neutral[0]), 6.0
    times = np.linspace(0, 2, 21)
    exact = solve_ivp(lambda _, y: [y[1], reduced.acceleration(y[0], y[1], 1.5)[0]], (0, 2),
                      [start, speed], method="DOP853", rtol=1e-12, atol=1e-12, t_eval=times)
    q, qd = reduced.state(start, speed)
    run = nlink.simulate(robot, q, qd, t=2.0, tau=np.tile([1.5, 0, 0], (21, 1)), method="dop853",
                         rtol=1e-12, atol=1e-13, every=0.1)
    assert np.abs(run.q[:, 0] - exact.y[0]).max() < 1e-8
    assert np.abs(run.qd[:, 0] - exact.y[1]).max() < 1e-8
    assert run.q[-1, 0] - run.q[0, 0] > 2 * np.pi
