"""10,080 random contact problems of 3 to 36 rows, half of them with singular G: how many the search
of a step leaves. `python tests/iterations/many_contact_problems.py` takes a minute or two."""

from __future__ import annotations

import sys

import numpy as np
from test_contact_solver import random


def main(each: int = 210) -> None:
    count = left = 0
    for contacts in range(1, 13):
        for rates in (max(1, 3 * contacts // 4), 3 * contacts // 2, 3 * contacts, 4 * contacts):
            with np.errstate(all="ignore"):
                residual = random(1000 * contacts + rates, contacts, rates, each).searched()
            unsolved = ~(residual < 1e-8)
            count, left = count + each, left + int(unsolved.sum())
            if unsolved.any():
                print(f"{contacts} contacts, {rates} rates: {unsolved.sum()} of {each}, worst "
                      f"residual {residual.max():.1e} m/s, {np.isnan(residual).sum()} nan")
    print(f"{count} problems, {left} not solved to 1e-8 m/s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
