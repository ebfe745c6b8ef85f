"""One step of the Adams-Bashforth-Moulton method, variable step and order, PECE.

The method of Shampine and Gordon's DE/STEP (SHAMGOR in [Saha03]) in modified divided
differences phi_j, on a vector of trajectories whose orders k differ [Hairer, Norsett,
Wanner I, III.5]:

    predict   p   = y + h sum_{j<k} g_j beta_j phi_j
    correct   new = p + h g_k phi_k(p),     phi_{j+1}(p) = phi_j(p) - beta_j phi_j,  phi_0(p) = f(p)

Coefficients g and beta are computed for every order there may be, and a lane takes those
it needs. Orders and steps are chosen as in STEP, from h (g_j - g_{j-1}) phi_j, the error of
order j. States between steps are the interpolating polynomial's, so outputs cost no steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from nlink.compiler.ir import Target, number
from nlink.compiler.states import Shape
from nlink.compiler.trajectories import Loop

if TYPE_CHECKING:
    from nlink.simulation.tableau import Adams as Method

FAILURES = 3
"""Rejections in a row after which the order is one again."""


class Adams(Loop):
    """The loop around steps of Adams methods up to an order."""

    def __init__(self, method: Method, shape: Shape, target: Target) -> None:
        self.method, self.orders = method, method.order
        self.phi = ["k0", *(f"phi{j}" for j in range(1, self.orders + 2))]
        self.psi = [f"psi{j}" for j in range(1, self.orders + 1)]
        super().__init__(["y", "stage", "new", "k0", "rate", "top"], self.phi[1:],
                         method.kept_cells, shape, target, new_rate="rate", interpolates=True,
                         adaptive=True, error_order=1)
        # values of the step being written: its coefficients, points and errors
        self.g: list[str] = []
        self.beta: list[str] = []
        self.far: list[str] = []
        self.sizes: list[str] = []

    def step(self) -> None:
        lanes, h, k = self.lanes, self.get("hs"), self.get("order")
        zero = lanes.const(0.0)
        self.coefficients(h)
        weights = [lanes.select(self.below(j, k), lanes.mul(lanes.mul(h, g), b), zero)
                   for j, (g, b) in enumerate(zip(self.g[:self.orders], self.beta, strict=False))]

        def predict(place: str, _: list[str]) -> list[str]:
            value = self.load(place, "y")
            for weight, phi in zip(weights, self.phi, strict=False):
                value = lanes.muladd(weight, self.load(place, phi), value)
            self.store(value, place, "stage")
            return []

        self.each(predict)
        self.evaluate("tnew", "stage", "rate")
        errors = self.errors(h, k)
        correction = lanes.mul(h, self.picked(k, self.g))

        def correct(place: str, _: list[str]) -> list[str]:
            self.store(lanes.muladd(correction, self.load(place, "top"),
                                    self.load(place, "stage")), place, "new")
            return []

        self.each(correct)
        self.restore("new")
        self.evaluate("tnew", "new", "rate")
        self.put("error", lanes.add(errors[0], self.bad("new")))
        self.sizes = errors

    def coefficients(self, h: str) -> None:
        """beta_j, and g_j by the recursion of III.5.(5.10), for all orders.

        psi_j is how far back point j lies; of points that do not exist yet it is any positive
        number, and what it leads to is not used.
        """
        lanes, n = self.lanes, self.orders
        old = [self.get(name) for name in self.psi]
        new = [h, *(lanes.add(h, x) for x in old)]
        self.beta = [lanes.const(1.0)]
        for far, near in zip(new[:n], old, strict=True):
            self.beta.append(lanes.mul(self.beta[-1], lanes.binary("fdiv", far, near)))
        c = [lanes.const(1 / q) for q in range(1, n + 3)]
        self.g = [c[0]]
        for far in new:
            ratio = lanes.neg(lanes.binary("fdiv", h, far))
            c = [lanes.muladd(ratio, b, a) for a, b in pairwise(c)]
            self.g.append(c[0])
        self.far = new[:n]

    def below(self, j: int, k: str) -> str:
        return self.lanes.compare("olt", self.lanes.const(float(j)), k)

    def picked(self, k: str, values: Sequence[str], first: int = 0) -> str:
        """values[k - first] of each lane."""
        lanes = self.lanes
        result = values[0]
        for j, value in enumerate(values[1:], first + 1):
            result = lanes.select(lanes.compare("oeq", k, lanes.const(float(j))), value, result)
        return result

    def errors(self, h: str, k: str) -> list[str]:
        """The errors over the tolerance of orders k, k - 1, k - 2; phi_k goes to `top`."""
        lanes, n = self.lanes, self.orders
        zero, one = lanes.const(0.0), lanes.const(1.0)

        def body(place: str, sums: list[str]) -> list[str]:
            inverse = lanes.binary("fdiv", one, self.scale(self.load(place, "y"),
                                                           self.load(place, "stage")))
            d = top = self.load(place, "rate")
            handed = []
            for j in range(n):
                d = lanes.muladd(lanes.neg(self.beta[j]), self.load(place, self.phi[j]), d)
                top = lanes.select(self.below(j, k), d, top)
                e = lanes.mul(d, inverse)
                handed.append(lanes.muladd(e, e, sums[j]))
            self.store(top, place, "top")
            return handed

        sums = self.each(body, *[zero] * n)
        sizes = [self.error_of(h, j, total) for j, total in enumerate(sums, 1)]
        return [self.picked(k, sizes, 1), self.picked(k, [one, *sizes], 1),
                self.picked(k, [one, one, *sizes], 1)]

    def error_of(self, h: str, j: int, total: str) -> str:
        lanes = self.lanes
        weight = lanes.intrinsic("fabs", lanes.mul(h, lanes.sub(self.g[j], self.g[j - 1])))
        return lanes.mul(weight, self.mean_root(total))

    def error_above(self, h: str, k: str) -> str:
        """The error of order k + 1, from differences with the corrected rate."""
        lanes, zero = self.lanes, self.lanes.const(0.0)
        betas = [lanes.select(lanes.compare("ole", lanes.const(float(j)), k), b, zero)
                 for j, b in enumerate(self.beta)]

        def body(place: str, sums: list[str]) -> list[str]:
            d = self.load(place, "rate")
            for b, phi in zip(betas, self.phi, strict=False):
                d = lanes.muladd(lanes.neg(b), self.load(place, phi), d)
            e = lanes.binary("fdiv", d, self.scale(self.load(place, "y"),
                                                   self.load(place, "stage")))
            return [lanes.muladd(e, e, sums[0])]

        (total,) = self.each(body, zero)
        changes = [lanes.sub(b, a) for a, b in zip(self.g[1:-1], self.g[2:], strict=True)]
        weight = lanes.mul(h, self.picked(k, changes, 1))
        return lanes.mul(lanes.intrinsic("fabs", weight), self.mean_root(total))

    def control(self, accepted: str, rejected: str) -> str:
        """Order and size of the next step, as STEP chooses them; the tolerance is 1/2.

        While it starts, order and step grow with every step. Later the order falls if lower
        ones have smaller errors, and rises only after k + 1 steps of one size.
        """
        lanes, both, either = self.lanes, "and", "or"
        one, two, half = (lanes.const(x) for x in (1.0, 2.0, 0.5))
        h, hs, k = self.get("h"), self.get("hs"), self.get("order")
        at, below, below2 = self.sizes
        above = self.error_above(hs, k)
        second = lanes.compare("oeq", k, two)
        lower = self.logic(either, self.logic(both, lanes.compare("ogt", k, two), lanes.compare(
            "ole", self.larger(below, below2), at)), self.logic(
                both, second, lanes.compare("ole", below, lanes.mul(half, at))))
        room = lanes.compare("olt", k, lanes.const(float(self.orders)))
        starting = lanes.compare("ogt", self.get("starting"), lanes.const(0.0))
        starting = self.logic(both, self.logic(both, starting, accepted),
                              self.logic(both, room, self.no(lower)))

        same = lanes.select(lanes.compare("oeq", hs, self.get("size")),
                            lanes.add(self.get("alike"), one), one)
        steady = self.logic(both, self.no(lower), lanes.compare("oge", same, lanes.add(k, one)))
        first = lanes.compare("oeq", k, one)
        down = self.logic(both, self.logic(both, steady, self.no(first)), lanes.compare(
            "ole", below, self.smaller(at, above)))
        up = self.logic(both, self.logic(both, steady, room), self.no(down))
        up = self.logic(both, up, lanes.compare("olt", above, lanes.select(
            first, lanes.mul(half, at), at)))
        down = self.logic(either, lower, self.logic(both, down, accepted))
        up = self.logic(either, starting, self.logic(both, up, accepted))
        error = lanes.select(up, above, lanes.select(down, below, at))
        order = lanes.select(up, lanes.add(k, one), lanes.select(down, lanes.sub(k, one), k))

        powers = [lanes.const(2.0 ** -(j + 2)) for j in range(1, self.orders + 1)]
        doubled = lanes.compare("ole", error, self.picked(order, powers, 1))
        small = lanes.compare("ole", error, half)
        factor = self.smaller(self.larger(self.root(lanes.mul(two, error), order), half),
                              lanes.const(0.9))
        factor = lanes.select(small, one, factor)
        factor = lanes.select(self.logic(either, doubled, starting), two, factor)
        wanted = lanes.mul(hs, factor)
        cut = lanes.compare("olt", hs, h)
        wanted = lanes.select(cut, self.larger(wanted, h), wanted)

        failures = lanes.select(accepted, lanes.const(0.0), lanes.add(self.get("failures"), one))
        often = lanes.compare("oge", failures, lanes.const(float(FAILURES)))
        order = lanes.select(self.logic(both, rejected, often), one, order)
        shrink = lanes.mul(hs, lanes.select(often, lanes.const(0.25), half))
        judged, zero = self.logic(either, accepted, rejected), lanes.const(0.0)
        for name, value in (
                ("failures", failures), ("starting", lanes.select(starting, one, zero)),
                ("alike", lanes.select(accepted, same, zero)),
                ("size", lanes.select(accepted, hs, zero)), ("order", order)):
            self.put(name, lanes.select(judged, value, self.get(name)))
        self.put("used", k)
        return lanes.select(rejected, shrink, wanted)

    def root(self, x: str, k: str) -> str:
        """About x^(-1/(k+1)) for x around 1, from the exponent alone."""
        lanes, f = self.lanes, self.f
        x = self.larger(self.smaller(x, lanes.const(1e10)), lanes.const(1e-10))
        one = lanes.const(1023.0 * 2.0**52)
        bits = f.let(f"sitofp {lanes.integer} {lanes.as_bits(x)} to {lanes.real}")
        log = lanes.binary("fdiv", lanes.sub(one, bits), lanes.add(k, lanes.const(1.0)))
        return lanes.as_real(f.let(
            f"fptosi {lanes.real} {lanes.add(one, log)} to {lanes.integer}"))

    def commit(self, accepted: str) -> None:
        """New differences up to order k + 1, with the rate of the corrected state."""
        lanes, k, zero = self.lanes, self.get("used"), self.lanes.const(0.0)
        last = lanes.add(k, lanes.const(1.0))
        known = [lanes.compare("ole", lanes.const(float(j)), last)
                 for j in range(len(self.phi))]

        def body(place: str, _: list[str]) -> list[str]:
            self.store(lanes.select(accepted, self.load(place, "new"), self.load(place, "y")),
                       place, "y")
            d = self.load(place, "rate")
            for j, phi in enumerate(self.phi):
                old = self.load(place, phi)
                kept = lanes.select(known[j], d, zero)
                self.store(lanes.select(accepted, kept, old), place, phi)
                if j < len(self.beta):
                    d = lanes.muladd(lanes.neg(self.beta[j]), old, d)
            return []

        self.each(body)
        for name, far in zip(self.psi, self.far, strict=True):
            self.put(name, lanes.select(accepted, far, self.get(name)))

    def forget(self, jumped: str) -> None:
        """The memory of a trajectory that has not started."""
        lanes, zero = self.lanes, self.lanes.const(0.0)

        def body(place: str, _: list[str]) -> list[str]:
            for phi in self.phi[1:]:
                self.store(lanes.select(jumped, zero, self.load(place, phi)), place, phi)
            return []

        self.each(body)
        for name, first in zip(self.method.kept_cells, self.method.memory(0), strict=True):
            self.put(name, lanes.select(jumped, lanes.const(first), self.get(name)))

    def interpolant(self) -> None:
        """Nothing: the differences are the interpolant."""

    def interpolation(self, place: str, due: str) -> list[str]:
        """Weights of phi_0, phi_1, ... in y(due) - y, by the recursion of INTRP."""
        f = self.f

        def let(op: str, a: str, b: str) -> str:
            return f.let(f"{op} double {a}, {b}")

        hi = let("fsub", due, self.lane_get(place, "t"))
        used = self.lane_get(place, "used")
        w = [number(1 / q) for q in range(1, self.orders + 2)]
        term, weights = number(0.0), [hi]
        for j, name in enumerate(self.psi, 1):
            psi = self.lane_get(place, name)
            gamma, eta = let("fdiv", let("fadd", hi, term), psi), let("fdiv", hi, psi)
            w = [let("fsub", let("fmul", gamma, a), let("fmul", eta, b))
                 for a, b in pairwise(w)]
            known = f.let(f"fcmp ole double {number(float(j))}, {used}")
            weights.append(f.let(f"select i1 {known}, double {let('fmul', hi, w[0])}, "
                                 f"double {number(0.0)}"))
            term = psi
        return weights

    def interpolated(self, here: str, weights: list[str]) -> str:
        f = self.f
        value = f.load("double", here, self.column["y"])
        for weight, phi in zip(weights, self.phi, strict=False):
            term = f.let(f"fmul double {weight}, {f.load('double', here, self.column[phi])}")
            value = f.let(f"fadd double {value}, {term}")
        return value
