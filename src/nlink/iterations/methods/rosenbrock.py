"""Rosenbrock methods, for stiff systems: implicit steps without an iteration.

With J = df/dy and g = gamma h, the stages u_i solve linear systems with one matrix,

    (1 - g J) u_i = g f(t + c_i h, y + sum_j a_ij u_j) + gamma sum_j C_ij u_j + g h d_i df/dt,

in the variables of [Hairer and Wanner II, IV.7, 7.25], which need no product with J. The methods
are stiffly accurate: the last two stages start from the results of the stages before,

    Y_7 = Y_6 + u_6,    Y_8 = Y_7 + u_7,    new = Y_8 + u_8,

and u_8 is the estimate of the error. Whatever decays fast is gone after a step of any size. J must
be the derivative itself: with anything else these methods have no order.

`given.factor(t, y, [g], ydot)` factors 1 - g J, `given.solve(t, b, [w], factors)` solves for
b + w df/dt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nlink.iterations.integration import Attempt, StepCost, Trial
from nlink.iterations.iteration import Column, Layout, State, kept, total
from nlink.iterations.projection import restored
from nlink.iterations.rules import mean_root, tolerance
from nlink.iterations.runge_kutta import StepControl, weighted
from nlink.scalars.functions import less, where

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class RosenbrockTableau:
    """The coefficients of a stiffly accurate method whose last stage is its error."""

    name: str
    order: int
    gamma: float
    a: Rows
    """Rows for all stages but the last two, which follow from the last row."""
    C: Rows
    c: tuple[float, ...]
    """Nodes of the stages that have a row in `a`; those of the last two are 1."""
    d: tuple[float, ...]
    """Sums of the rows of Gamma, for the same stages; those of the last two are 0."""
    dense: Rows
    """Rows H_r, the weights of y(t + x h) = y + x (new - y + (1 - x) (H_0 + x (H_1 + ...)))."""

    def stages(self) -> Iterator[tuple[tuple[float, ...], tuple[float, ...], float, float]]:
        """For each stage its row of a, its row of C, and c and d."""
        last = len(self.a)
        for i, row in enumerate(self.C):
            if i < last:
                yield self.a[i], row, self.c[i], self.d[i]
            else:
                yield (*self.a[-1], *[1.0] * (i - last + 1)), row, 1.0, 0.0


class Rosenbrock(StepControl):
    """The method of a tableau."""

    adaptive = interpolates = True
    needs = frozenset({"derivatives"})

    def __init__(self, rosenbrock: RosenbrockTableau) -> None:
        self.name, self.rosenbrock = rosenbrock.name, rosenbrock
        self.error_order, self.cost = rosenbrock.order - 1, StepCost(len(rosenbrock.C))
        self.layout = Layout((), {}, ("base", *(
            f"H{r}" for r in range(len(rosenbrock.dense) + 1))), ("begin", "length"))

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h, gamma = trial.size, self.rosenbrock.gamma
        g = gamma * h
        factors = given.factor(s.t, s.y, [g], s.k0)
        U: list[Column] = []
        Y, rate = s.y, s.k0
        for a, C, c, d in self.rosenbrock.stages():
            if U:
                Y = kept(s.y + weighted(a, U))
                rate = given.rates(s.t + c * h, Y)
            b = g * rate + weighted([gamma * x for x in C], U) if U else g * rate
            U.append(given.solve(s.t, b, [g * h * d], factors))
        s, new = restored(s, trial.time, Y + U[-1], given)
        scale = tolerance(given, s.y, new)
        # an infinite state would make its own tolerance
        error = U[-1] / where(less(scale, math.inf), scale, math.nan)
        size = mean_root(total(error * error), given)
        return Attempt(s, new, given.rates(trial.time, new), size, stages=tuple(U))

    def interpolant(self, s: State, attempt: Attempt, trial: Trial, given: Any) -> State:
        rows = {f"H{r}": weighted(row, attempt.stages)
                for r, row in enumerate(self.rosenbrock.dense, 1)}
        return s.replace(base=s.y, begin=s.t, length=trial.size, H0=attempt.new - s.y, **rows)

    def output(self, s: State, given: Any) -> Column:
        x = (given.due - s.begin) / s.length
        value = 0.0
        for r in reversed(range(1, len(self.rosenbrock.dense) + 1)):
            value = s[f"H{r}"] + x * value
        return s.base + x * (s.H0 + (1.0 - x) * value)


def _rows(text: str) -> Rows:
    """Numbers, separated by blanks, a row on each line."""
    return tuple(tuple(map(float, line.split())) for line in text.strip("\n").split("\n"))


RODAS5P = RosenbrockTableau(
    "rodas5p", 5, 0.21193756319429014,
    a=((), *_rows("""
3
2.849394379747939 0.45842242204463923
-6.954028509809101 2.489845061869568 -10.358996098473584
2.8029986275628964 0.5072464736228206 -0.3988312541770524 -0.04721187230404641
-7.502846399306121 2.561846144803919 -11.627539656261098 -0.18268767659942256 0.030198172008377946
""")),
    C=((), *_rows("""
-14.155112264123755
-17.97296035885952 -2.859693295451294
147.12150275711716 -1.41221402718213 71.68940251302358
165.43517024871676 -0.4592823456491126 42.90938336958603 -5.961986721573306
24.854864614690072 -3.0009227002832186 47.4931110020768 5.5814197821558125 -0.6610691825249471
30.91273214028599 -3.1208243349937974 77.79954646070892 34.28646028294783 -19.097331116725623 """
                   """-28.087943162872662
37.80277123390563 -3.2571969029072276 112.26918849496327 66.9347231244047 -40.06618937091002 """
                   """-54.66780262877968 -9.48861652309627
""")),
    c=(0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0),
    d=(0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734,
       2.325825639765069, 0.0),
    dense=_rows("""
25.948786856663858 -2.5579724845846235 10.433815404888879 -2.3679251022685204 0.524948541321073 """
                """1.1241088310450404 0.4272876194431874 -0.17202221070155493
-9.91568850695171 -0.9689944594115154 3.0438037242978453 -24.495224566215796 20.176138334709044 """
                """15.98066361424651 -6.789040303419874 -6.710236069923372
11.419903575922262 2.8879645146136994 72.92137995996029 80.12511834622643 -52.072871366152654 """
                """-59.78993625266729 -0.15582684282751913 4.883087185713722
"""))
"""Rodas5P [Steinebach 2023, BIT 63:27]: eight stages, order 5, error of order 4, L-stable, its
interpolant of order 4."""

METHODS = (Rosenbrock(RODAS5P),)
