"""Fehlberg's method of order 8 with an error estimate of order 7 [NASA TR R-287, Table X]."""

from __future__ import annotations

from nlink.iterations.runge_kutta import RungeKutta
from nlink.iterations.tableau import Tableau, fraction_row, fraction_rows

METHODS = (RungeKutta(Tableau(
    "rkf78", 8,
    a=((), *fraction_rows("""
2/27
1/36 1/12
1/24 0 1/8
5/12 0 -25/16 25/16
1/20 0 0 1/4 1/5
-25/108 0 0 125/108 -65/27 125/54
31/300 0 0 0 61/225 -2/9 13/900
2 0 0 -53/6 704/45 -107/9 67/90 3
-91/108 0 0 23/108 -976/135 311/54 -19/60 17/6 -1/12
2383/4100 0 0 -341/164 4496/1025 -301/82 2133/4100 45/82 45/164 18/41
3/205 0 0 0 0 -6/41 -3/205 -3/41 3/41 6/41 0
-1777/4100 0 0 -341/164 4496/1025 -289/82 2193/4100 51/82 33/164 12/41 0 1
""")),
    b=fraction_row("0 0 0 0 0 34/105 9/35 9/35 9/280 9/280 0 41/840 41/840"),
    c=fraction_row("0 2/27 1/9 1/6 5/12 1/2 5/6 1/6 2/3 1/3 1 0 1"),
    errors=(fraction_row("-41/840 0 0 0 0 0 0 0 0 0 -41/840 41/840 41/840"),), error_order=7)),)
"""The eighth-order result is kept."""
