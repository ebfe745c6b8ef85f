"""The explicit Runge-Kutta methods of the papers and of the field, as tableaux.

Each is the table printed in its source, as exact fractions where the source has them; tests
check every order condition. A new method is one more `Tableau`, here or in a file of its own.
"""

from __future__ import annotations

from fractions import Fraction

from nlink.iterations import dop853
from nlink.iterations.runge_kutta import RungeKutta
from nlink.iterations.tableau import Number, Tableau, fraction_row, fraction_rows


def _difference(b: tuple[Number, ...], other: tuple[Number, ...]) -> tuple[Number, ...]:
    return tuple(x - y for x, y in zip(b, other, strict=True))


RK4 = Tableau(
    "rk4", 4,
    a=((), *fraction_rows("""
1/2
0 1/2
0 0 1
""")),
    b=fraction_row("1/6 1/3 1/3 1/6"), c=fraction_row("0 1/2 1/2 1"))
"""Kutta's classical method, fixed step."""

_FEHLBERG_4 = fraction_row("25/216 0 1408/2565 2197/4104 -1/5 0")
RKF45 = Tableau(
    "rkf45", 5,
    a=((), *fraction_rows("""
1/4
3/32 9/32
1932/2197 -7200/2197 7296/2197
439/216 -8 3680/513 -845/4104
-8/27 2 -3544/2565 1859/4104 -11/40
""")),
    b=fraction_row("16/135 0 6656/12825 28561/56430 -9/50 2/55"),
    c=fraction_row("0 1/4 3/8 12/13 1 1/2"),
    errors=(_difference(fraction_row("16/135 0 6656/12825 28561/56430 -9/50 2/55"), _FEHLBERG_4),),
    error_order=4)
"""Runge-Kutta-Fehlberg 4(5), the scheme of [Saha03]; the fifth-order result is kept."""

_DORMAND_B = fraction_row("35/384 0 500/1113 125/192 -2187/6784 11/84")
DOPRI5 = Tableau(
    "dopri5", 5,
    a=((), *fraction_rows("""
1/5
3/40 9/40
44/45 -56/15 32/9
19372/6561 -25360/2187 64448/6561 -212/729
9017/3168 -355/33 46732/5247 49/176 -5103/18656
""")),
    b=_DORMAND_B, c=fraction_row("0 1/5 3/10 4/5 8/9 1"),
    errors=(fraction_row("71/57600 0 -71/16695 71/1920 -17253/339200 22/525 -1/40"),),
    error_order=4,
    dense=(
        (*_DORMAND_B, Fraction(0)),
        tuple(Fraction(i == 0) - x for i, x in enumerate((*_DORMAND_B, Fraction(0)))),
        tuple(2 * x - (i in (0, 6)) for i, x in enumerate((*_DORMAND_B, Fraction(0)))),
        fraction_row("-12715105075/11282082432 0 87487479700/32700410799 "
                     "-10690763975/1880347072 701980252875/199316789632 "
                     "-1453857185/822651844 69997945/29380423")))
"""Dormand and Prince 5(4); fourth-order continuous [Hairer, Norsett, Wanner I, II.6]."""

_VERNER_B = fraction_row("3/40 0 875/2244 23/72 264/1955 0 125/11592 43/616")
VERNER65 = Tableau(
    "verner65", 6,
    a=((), *fraction_rows("""
1/6
4/75 16/75
5/6 -8/3 5/2
-165/64 55/6 -425/64 85/96
12/5 -8 4015/612 -11/36 88/255
-8263/15000 124/75 -643/680 -81/250 2484/10625 0
3501/1720 -300/43 297275/52632 -319/2322 24068/84065 0 3850/26703
""")),
    b=_VERNER_B, c=fraction_row("0 1/6 4/15 2/3 5/6 1 1/15 1"),
    errors=(_difference(_VERNER_B, fraction_row("13/160 0 2375/5984 5/16 12/85 3/44 0 0")),),
    error_order=5)
"""Verner's fifth/sixth-order pair, the DVERK of [Saha03] and the order [Saha99] names."""

DOP853 = Tableau(
    "dop853", 8, a=dop853.A, b=dop853.B, c=dop853.C, errors=(dop853.E5, dop853.E3),
    error_order=7, extra=dop853.EXTRA, extra_c=dop853.EXTRA_C, dense=dop853.DENSE)
"""Dormand and Prince 8(5,3), seventh-order continuous [Hairer, Norsett, Wanner I, II.10]."""

METHODS = tuple(map(RungeKutta, (RKF45, RK4, DOPRI5, VERNER65, DOP853)))
