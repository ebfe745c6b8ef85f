"""The Adams-Bashforth-Moulton method, variable step and order, PECE.

The method of Shampine and Gordon's DE/STEP (SHAMGOR in [Saha03]) in modified divided
differences phi_j [Hairer, Norsett, Wanner I, III.5]:

    predict   p   = y + h sum_{j<k} g_j beta_j phi_j
    correct   new = p + h g_k phi_k(p),     phi_{j+1}(p) = phi_j(p) - beta_j phi_j,  phi_0(p) = f(p)

Coefficients g and beta are computed for every order there may be, and a trajectory takes those
it needs. Orders and steps are chosen as in STEP, from h (g_j - g_{j-1}) phi_j, the error of
order j. States between steps are the interpolating polynomial's, so outputs cost no steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nlink.iterations.integration import Attempt, StepCost, Trial
from nlink.iterations.iteration import Column, Layout, State, equal, kept, total, totals
from nlink.iterations.projection import restored
from nlink.iterations.rules import (
    larger,
    mean_root,
    not_finite,
    pick,
    rough_root,
    smaller,
    tolerance,
)
from nlink.scalars.functions import Scalar, less, less_equal, where

FAILURES = 3
"""Rejections in a row after which the order is one again."""


@dataclass(frozen=True)
class AdamsStep:
    """The coefficients of a step, and its errors."""

    g: list[Scalar]
    beta: list[Scalar]
    psi: list[Scalar]
    """How far back each point lies from the end of the step."""
    errors: tuple[Scalar, ...] = ()
    """Over the tolerance, of orders k, k - 1 and k - 2."""
    predicted: Column = None


class Adams:
    """Adams methods of orders from one up to `order`."""

    adaptive, interpolates, error_order = True, True, 1
    needs, cost, decides_modes = frozenset({"history"}), StepCost(2), False

    def __init__(self, name: str, order: int) -> None:
        self.name, self.order = name, order
        self.phi = tuple(f"phi{j}" for j in range(1, order + 2))
        self.psi = tuple(f"psi{j}" for j in range(1, order + 1))
        self.layout = Layout(self.phi, dict.fromkeys(self.psi, 1.0) | {
            "order": 1.0, "used": 1.0, "alike": 0.0, "size": 0.0, "failures": 0.0, "starting": 1.0})

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h, k, phi = trial.size, s.order, self._differences(s)
        step = self._coefficients(s, h)
        value = s.y
        for j, (g, beta) in enumerate(zip(step.g[:self.order], step.beta, strict=False)):
            value = where(less(float(j), k), h * g * beta, 0.0) * phi[j] + value
        predicted = kept(value)
        rate = given.rates(trial.time, predicted)
        d = top = rate
        scale, squares = 1.0 / tolerance(given, s.y, predicted), []
        for j in range(self.order):
            d = d - step.beta[j] * phi[j]
            top = where(less(float(j), k), d, top)
            squares.append((d * scale) * (d * scale))
        top = kept(top)
        sizes = [abs(h * (step.g[j] - step.g[j - 1])) * mean_root(x, given)
                 for j, x in enumerate(totals(*squares), 1)]
        errors = (pick(k, sizes, 1), pick(k, [1.0, *sizes], 1), pick(k, [1.0, 1.0, *sizes], 1))
        s, new = restored(s, trial.time, predicted + h * pick(k, step.g) * top, given)
        step = AdamsStep(step.g, step.beta, step.psi, errors, predicted)
        error = errors[0] + total(not_finite(new))
        return Attempt(s, new, given.rates(trial.time, new), error, stages=(step,))

    def _differences(self, s: State) -> list[Column]:
        return [s.k0, *(s[name] for name in self.phi)]

    def _coefficients(self, s: State, h: Scalar) -> AdamsStep:
        """beta_j, and g_j by the recursion of III.5.(5.10), for all orders.

        psi_j is how far back point j lies; of points that do not exist yet it is any positive
        number, and what it leads to is not used.
        """
        old = [s[name] for name in self.psi]
        new = [h, *(h + x for x in old)]
        beta: list[Scalar] = [1.0]
        for far, near in zip(new, old, strict=False):
            beta.append(beta[-1] * (far / near))
        c: list[Scalar] = [1 / q for q in range(1, self.order + 3)]
        g = [c[0]]
        for far in new:
            ratio = h / far
            c = [a - ratio * b for a, b in pairwise(c)]
            g.append(c[0])
        return AdamsStep(g, beta, new[:self.order])

    def _error_above(self, s: State, attempt: Attempt, h: Scalar, given: Any) -> Scalar:
        """The error of order k + 1, from differences with the corrected rate."""
        step, k, d = attempt.stages[0], s.order, attempt.rate
        for j, (beta, phi) in enumerate(zip(step.beta, self._differences(s), strict=False)):
            d = d - where(less_equal(float(j), k), beta, 0.0) * phi
        e = d / tolerance(given, s.y, step.predicted)
        changes = [b - a for a, b in zip(step.g[1:-1], step.g[2:], strict=True)]
        return abs(h * pick(k, changes, 1)) * mean_root(total(e * e), given)

    def control(self, s: State, attempt: Attempt, trial: Trial, accepted: Any, rejected: Any,
                given: Any) -> State:
        """Order and size of the next step, as STEP chooses them; the tolerance is 1/2.

        While it starts, order and step grow with every step. Later the order falls if lower
        ones have smaller errors, and rises only after k + 1 steps of one size.
        """
        hs, k = trial.size, s.order
        at, below, below2 = attempt.stages[0].errors
        above = self._error_above(s, attempt, hs, given)
        first, second, room = equal(k, 1.0), equal(k, 2.0), less(k, float(self.order))
        lower = ((less(2.0, k) & less_equal(larger(below, below2), at))
                 | (second & less_equal(below, 0.5 * at)))
        starting = less(0.0, s.starting) & accepted & room & ~lower

        alike = where(equal(hs, s.size), s.alike + 1.0, 1.0)
        steady = ~lower & less_equal(k + 1.0, alike)
        down = steady & ~first & less_equal(below, smaller(at, above))
        up = steady & room & ~down & less(above, where(first, 0.5 * at, at))
        down, up = lower | (down & accepted), starting | (up & accepted)
        error = where(up, above, where(down, below, at))
        order = where(up, k + 1.0, where(down, k - 1.0, k))

        doubled = less_equal(error, pick(order, [2.0**-(j + 2) for j in range(1, self.order + 1)],
                                          1))
        factor = smaller(larger(rough_root(2.0 * error, order), 0.5), 0.9)
        factor = where(less_equal(error, 0.5), 1.0, factor)
        wanted = hs * where(doubled | starting, 2.0, factor)
        wanted = where(less(hs, s.h), larger(wanted, s.h), wanted)  # cut short by a stop

        failures = where(accepted, 0.0, s.failures + 1.0)
        often = less_equal(float(FAILURES), failures)
        judged = accepted | rejected
        changes = {"failures": failures, "starting": where(starting, 1.0, 0.0),
                   "alike": where(accepted, alike, 0.0), "size": where(accepted, hs, 0.0),
                   "order": where(rejected & often, 1.0, order)}
        changes = {name: where(judged, value, s[name]) for name, value in changes.items()}
        return s.replace(**changes, used=k, h=where(
            rejected, hs * where(often, 0.25, 0.5), wanted))

    def commit(self, s: State, attempt: Attempt, accepted: Any) -> State:
        """New differences up to order k + 1, with the rate of the corrected state."""
        step, d, changes = attempt.stages[0], attempt.rate, {}
        for j, name in enumerate(("k0", *self.phi)):
            d_now = where(less_equal(float(j), s.used + 1.0), d, 0.0)
            changes[name] = where(accepted, d_now, s[name])
            if j < len(step.beta):
                d = d - step.beta[j] * s[name]
        points = {name: where(accepted, far, s[name])
                  for name, far in zip(self.psi, step.psi, strict=True)}
        return s.replace(y=where(accepted, attempt.new, s.y), **changes, **points)

    def forget(self, s: State, jumped: Any) -> State:
        """The memory of a trajectory that has not started."""
        return s.replace(**{name: where(jumped, 0.0, s[name]) for name in self.phi}, **{
            name: where(jumped, first, s[name]) for name, first in self.layout.cells.items()})

    def interpolant(self, s: State, attempt: Attempt, trial: Trial, given: Any) -> State:
        """The same: the differences are the interpolant."""
        return s

    def output(self, s: State, given: Any) -> Column:
        """y(due) - y as a sum over phi_0, phi_1, ..., by the recursion of INTRP."""
        hi = given.due - s.t
        w: list[Scalar] = [1 / q for q in range(1, self.order + 2)]
        term, value = 0.0, s.y + hi * s.k0
        for j, name in enumerate(self.psi, 1):
            gamma, eta = (hi + term) / s[name], hi / s[name]
            w = [gamma * a - eta * b for a, b in pairwise(w)]
            value = value + where(less_equal(float(j), s.used), hi * w[0], 0.0) * s[f"phi{j}"]
            term = s[name]
        return value


METHODS = (Adams("abm", 12),)
"""Shampine and Gordon's variable-order, variable-step Adams method, SHAMGOR in [Saha03]."""
