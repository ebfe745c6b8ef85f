"""Pendulums in closed form, by Jacobi's elliptic functions."""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def jacobi(u: Array, m: float) -> tuple[Array, Array, Array]:
    """sn, cn and dn of u for the parameter m = k^2, by the arithmetic-geometric mean.

    [Abramowitz, Stegun, 16.4]: with a_n, c_n of the mean of 1 and sqrt(1 - m), the amplitude is
    that of 2^N a_N u, halved by sin(2 phi_(n-1) - phi_n) = c_n / a_n sin phi_n.

    >>> sn, cn, dn = jacobi(np.array([0.5]), 0.0)
    >>> bool(abs(sn[0] - math.sin(0.5)) < 1e-15), float(dn[0])
    (True, 1.0)
    """
    a, b, pairs = 1.0, math.sqrt(1 - m), [(1.0, math.sqrt(m))]
    while pairs[-1][1] > 1e-15:
        a, b, c = (a + b) / 2, math.sqrt(a * b), (a - b) / 2
        pairs.append((a, c))
    phi = 2 ** (len(pairs) - 1) * pairs[-1][0] * np.asarray(u)
    for a, c in reversed(pairs[1:]):
        phi = (phi + np.arcsin(c / a * np.sin(phi))) / 2
    sn = np.sin(phi)
    return sn, np.cos(phi), np.sqrt(1 - m * sn**2)


def swinging(times: Array, rate: float, amplitude: float) -> Array:
    """The angle from the lowest point of phi'' = -rate^2 sin phi, from rest at the amplitude."""
    k = math.sin(amplitude / 2)
    _, cn, dn = jacobi(rate * times, k * k)
    return 2 * np.arcsin(k * cn / dn)


def turning_over(times: Array, rate: float, speed: float) -> tuple[Array, Array]:
    """The sine and cosine of phi of phi'' = -rate^2 sin phi that passes the top at a speed.

    With the speed w at the bottom, phi / 2 = am(w t / 2, m) from there, m = (2 rate / w)^2; the
    top is a quarter of a period later, where sn becomes cn / dn and cn becomes -k' sn / dn.
    """
    fastest = math.hypot(speed, 2 * rate)
    m = (2 * rate / fastest) ** 2
    sn, cn, dn = jacobi(fastest * times / 2, m)
    sine, cosine = cn / dn, -math.sqrt(1 - m) * sn / dn
    return 2 * sine * cosine, 1 - 2 * sine**2
