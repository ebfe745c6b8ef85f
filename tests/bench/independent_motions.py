"""Equations of motion of published problems, written by hand and integrated by SciPy.

Nothing here uses nlink: these are the references where no published number has enough digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.integrate import solve_ivp

Array = np.ndarray
GRAVITY = 9.81


def integrated(rates: Callable[[float, Array], Array], start: Sequence[float],
               times: Sequence[float], method: str = "DOP853",
               tolerance: float = 1e-13) -> Array:
    """The states at some times, a row for each."""
    done = solve_ivp(rates, (0.0, times[-1]), start, method, times, rtol=tolerance,
                     atol=tolerance * 1e-2)
    assert done.success
    return done.y.T


# Andrews' squeezer: seven bodies, three pins in one point E. A point is a constant and a sum of
# vectors (x, y) fixed in bodies, so that its derivatives are known.
BODIES = np.array([[1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0],
                   [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1],
                   [0, 0, 0, 0, 0, 0, 1]], dtype=float)
"""The bodies' angles by beta, theta, gamma, phi, delta, omega, epsilon."""
O, A, B, C = (0.0, 0.0), (-.06934, -.00227), (-.03635, .03273), (.014, .072)
F, G, H = (0, .007, 0), (4, .04, 0), (6, 0, -.04)
CENTRES = [(O, [(0, .00092, 0)]), (O, [F, (1, -.0115, 0)]), (B, [(2, .01043, -.01874)]),
           (A, [G, (3, 0, .01421 - .02)]), (A, [(4, .02308, .00916)]),
           (A, [H, (5, .02 - .01421, 0)]), (A, [(6, -.00449, -.01228)])]
PINS = [(O, [F, (1, -.028, 0)]), (B, [(2, 0, -.035)]), (A, [G, (3, 0, -.02)]),
        (A, [H, (5, .02, 0)])]
SPRING = (B, [(2, .02, -.018)])
MASSES = np.array([.04325, .00365, .02373, .00706, .07050, .00706, .05498])
INERTIAS = np.array([2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5])
TORQUE, STIFFNESS, REST = 0.033, 4530.0, 0.07785


def point(place: tuple, q: Array, v: Array) -> tuple[Array, Array, Array]:
    """Where a point is, its Jacobian, and the part of its acceleration that rates make."""
    (x0, y0), terms = place
    x, J, bias = np.array([x0, y0]), np.zeros((2, 7)), np.zeros(2)
    for body, a, b in terms:
        c, s = math.cos(BODIES[body] @ q), math.sin(BODIES[body] @ q)
        r = np.array([a * c - b * s, a * s + b * c])
        x, J = x + r, J + np.outer((-r[1], r[0]), BODIES[body])
        bias -= (BODIES[body] @ v) ** 2 * r
    return x, J, bias


def squeezer_rates(_t: float, y: Array) -> Array:
    """Newton's equations of the bodies in the seven angles, with a multiplier for each pin row."""
    q, v = y[:7], y[7:]
    M, force = BODIES.T @ np.diag(INERTIAS) @ BODIES, np.zeros(7)
    force[0] = TORQUE
    for mass, centre in zip(MASSES, CENTRES, strict=True):
        _, J, bias = point(centre, q, v)
        M, force = M + mass * J.T @ J, force - mass * J.T @ bias
    x, J, _ = point(SPRING, q, v)
    length = math.dist(x, C)
    force += J.T @ (-STIFFNESS * (length - REST) / length * (x - C))
    (_, first, b), *others = (point(pin, q, v) for pin in PINS)
    K = np.vstack([first - J for _, J, _ in others])
    right = np.concatenate([force, np.concatenate([bias - b for _, _, bias in others])])
    left = np.block([[M, K.T], [K, np.zeros((6, 6))]])
    return np.concatenate([v, np.linalg.solve(left, right)[:7]])


def squeezer_motion(times: Sequence[float], beta: float) -> Array:
    """The seven angles from rest."""
    start = squeezer_closed((beta, 0, 0.455, 0.223, 0.487, -0.223, 1.231))
    return integrated(squeezer_rates, [*start, *np.zeros(7)], times)[:, :7]


def squeezer_closed(guess: Sequence[float]) -> Array:
    """The angles near a guess that close the pins; beta stays."""
    q = np.array(guess, dtype=float)
    for _ in range(20):
        (x, first, _), *others = (point(pin, q, np.zeros(7)) for pin in PINS)
        K = np.vstack([first - J for _, J, _ in others])[:, 1:]
        q[1:] -= np.linalg.solve(K, np.concatenate([x - p for p, _, _ in others]))
    return q


# Bricard's mechanism: five thin rods of 1 kg and 1 m in the points P0 to P5 and axes u0 to u5
SIGNS = (1, -1, 1, -1, 1)
"""Rod k is SIGNS[k] u_k x u_k+1."""
GRAM = np.array([[2.0, 1.0], [1.0, 2.0]]) / 6
"""The kinetic energy of a thin rod by the velocities of its ends is v' GRAM v / 2."""


def bricard_rates(_t: float, y: Array) -> Array:
    """P1 to P4 and u1 to u4 as coordinates, all constraints quadratic, the system by pseudoinverse.

    Gravity acts along -y; P0, u0, P5 and u5 are fixed.
    """
    still = (0, 0, 0)
    u = np.vstack([(0, 1, 0), y[12:24].reshape(4, 3), (1, 0, 0)])
    ud = np.vstack([still, y[36:].reshape(4, 3), still])
    M, force = np.zeros((12, 12, 3)), np.zeros((12, 3))  # points, then axes, the fixed ones too
    rows, right = [], []
    for k in range(5):
        for i in (0, 1):
            force[k + i, 1] -= GRAVITY / 2
            for j in (0, 1):
                M[k + i, k + j] += GRAM[i, j]
        length = np.zeros((3, 12, 3))
        length[:, k + 1], length[:, k] = np.eye(3), -np.eye(3)
        length[:, 6 + k] = SIGNS[k] * skew(u[k + 1])
        length[:, 7 + k] = -SIGNS[k] * skew(u[k])
        rows += list(length)
        right += list(2 * SIGNS[k] * np.cross(ud[k], ud[k + 1]))
        square = np.zeros((12, 3))
        square[6 + k], square[7 + k] = u[k + 1], u[k]
        rows.append(square)
        right.append(-2 * ud[k] @ ud[k + 1])
    for k in range(1, 5):
        unit = np.zeros((12, 3))
        unit[6 + k] = u[k]
        rows.append(unit)
        right.append(-ud[k] @ ud[k])
    free = [1, 2, 3, 4, 7, 8, 9, 10]
    K = np.array(rows)[:, free].reshape(len(rows), 24)
    mass = np.zeros((8, 3, 8, 3))
    for axis in range(3):
        mass[:, axis, :, axis] = M[np.ix_(free, free)][..., axis]
    left = np.block([[mass.reshape(24, 24), K.T], [K, np.zeros((len(K), len(K)))]])
    found = np.linalg.lstsq(left, np.concatenate([force[free].ravel(), right]), rcond=1e-9)[0]
    return np.concatenate([y[24:], found[:24]])


def skew(a: Array) -> Array:
    """The matrix of a x."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def bricard_motion(times: Sequence[float]) -> Array:
    """P3 at some times, from rest in the corner of a cube."""
    start = [(1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1), (1, 0, 0), (0, 1, 0),
             (0, 0, 1)]
    y = integrated(bricard_rates, [*np.ravel(start), *np.zeros(24)], times)
    return y[:, 6:9]


# The flyball governor: both arms at the same angle below the horizontal
ARM, BALL, SLIDER = 0.3, 5.0, 3.0
THICK = 1e-4
"""The square of the arms' width, in m^2."""


def governor_motion(times: Sequence[float]) -> Array:
    """Height of the slider and angle of the arms; the angular momentum about the shaft stays."""
    def about_shaft(a: float) -> tuple[float, float]:
        c, s = math.cos(a), math.sin(a)
        across, along = ARM * (1 + THICK) / 12, ARM * 2 * THICK / 12
        arm = ARM * (0.05 + c / 2) ** 2 + across * c * c + along * s * s + BALL * (0.05 + c) ** 2
        slope = (-ARM * (0.05 + c / 2) * s + 2 * (along - across) * c * s
                 - 2 * BALL * (0.05 + c) * s)
        return 2 * arm + ARM * 2 * THICK / 12 + SLIDER * 0.02 / 12, 2 * slope

    momentum = about_shaft(math.pi / 6)[0] * 2 * math.pi
    inertia = 2 * (ARM * (1 + THICK) / 12 + ARM / 4 + BALL)

    def rates(_t: float, y: Array) -> Array:
        h, a, hd, ad = y
        c, s = math.cos(a), math.sin(a)
        reach = np.array([c / 2, 1 - s / 2 - h])
        speed = np.array([-s / 2 * ad, -c / 2 * ad - hd])
        length = math.hypot(*reach)
        line = reach / length
        pull = 8e5 * (length - 0.5) + 4e4 * line @ speed  # of each of the two springs
        J, slope = about_shaft(a)
        turning = (slope / 2 * (momentum / J) ** 2 + 2 * GRAVITY * (ARM * c / 2 + BALL * c)
                   - 2 * pull * (line @ (-s / 2, -c / 2)))
        return np.array([hd, ad, -GRAVITY + 2 * pull * line[1] / SLIDER, turning / inertia])

    return integrated(rates, [0.5, math.pi / 6, 0.0, 0.0], times, "Radau", 1e-12)[:, :2]


# The heavy top: Euler's equations about the fixed point
def top_motion(times: Sequence[float]) -> Array:
    """The mass centre of the top and the quaternion of its axes."""
    inertia, weight = np.array([15.234375, 0.46875, 15.234375]), 15 * GRAVITY

    def rates(_t: float, y: Array) -> Array:
        q, w = y[:4], y[4:]
        down = -weight * rotation(q)[2]  # the weight in the body's axes
        turning = np.cross((0, 1, 0), down) - np.cross(w, inertia * w)
        return np.concatenate([quaternion_rate(q, w), turning / inertia])

    y = integrated(rates, [1, 0, 0, 0, 0, 150, -4.61538], times)
    return np.array([[*rotation(q)[:, 1], *q] for q in y[:, :4]])


def rotation(q: Array) -> Array:
    """The matrix of a quaternion (w, x, y, z)."""
    w, v = q[0], q[1:]
    return (w * w - v @ v) * np.eye(3) + 2 * np.outer(v, v) + 2 * w * skew(v)


def quaternion_rate(q: Array, w: Array) -> Array:
    """q (0, w) / 2 for w in the body's axes."""
    return 0.5 * np.array([-q[1:] @ w, *(q[0] * w + np.cross(q[1:], w))])


# The spatial slider-crank: one angle, the kinetic energy as its function
ROD = (4e-4, 4e-3, 4e-3)
"""Moments of inertia about the rod, its hinge, and across both."""


def slider_crank_motion(times: Sequence[float], rod: Sequence[float] = ROD) -> Array:
    """Position of the slider and angle of the crank.

    The rod's axis d, the direction b in which it is hinged, across d and the slide, and d x b are
    its principal axes. Derivatives by the angle are taken by a step along the imaginary axis.
    """
    def rates(_t: float, y: Array) -> Array:
        inertia, potential = reduced(y[0] + 1e-20j, rod)
        slope, force = inertia.imag / 1e-20, -potential.imag / 1e-20
        return np.array([y[1], (force - slope / 2 * y[1] ** 2) / inertia.real])

    y = integrated(rates, [0.0, 6.0], times)
    return np.array([[slide(a)[0], a] for a in y[:, 0]])


def slide(a: complex) -> tuple[complex, Array, Array]:
    """Slider, crank pin, and the pin's rate, at a crank angle."""
    pin = np.array([0.0, 0.1 - 0.08 * np.sin(a), 0.12 + 0.08 * np.cos(a)])
    rate = np.array([0.0, -0.08 * np.cos(a), -0.08 * np.sin(a)])
    return np.sqrt(0.09 - pin @ pin), pin, rate


def reduced(a: complex, rod: Sequence[float]) -> tuple[complex, complex]:
    """Twice the kinetic energy at unit rate of the crank, and the potential energy."""
    x, pin, pin_rate = slide(a)
    x_rate = -(pin @ pin_rate) / x
    d = (np.array([x, 0, 0]) - pin) / 0.3
    d_rate = (np.array([x_rate, 0, 0]) - pin_rate) / 0.3
    b = np.array([0, -d[2], d[1]])  # the slide x d
    size = np.sqrt(b @ b)
    b_rate = np.array([0, -d_rate[2], d_rate[1]]) / size
    b = b / size
    b_rate = b_rate - b * (b @ b_rate)
    c, c_rate = np.cross(d, b), np.cross(d_rate, b) + np.cross(d, b_rate)
    turning = np.array([b_rate @ c, c_rate @ d, d_rate @ b])  # about d, b and c
    centre = (pin_rate + np.array([x_rate, 0, 0])) / 2
    bar = 0.5 * (centre @ centre) + np.array(rod) @ turning**2
    crank = 1e-4 + 0.12 * 0.04**2
    potential = GRAVITY * (0.12 * (0.12 + 0.04 * np.cos(a)) + 0.5 * pin[2] / 2)
    return crank + bar + 2.0 * x_rate**2, potential
