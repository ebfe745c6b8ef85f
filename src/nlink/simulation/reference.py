"""The integration loop as plain Python: what the compiled one is tested against.

It runs any right-hand side, so it also serves control laws that cannot be traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nlink.compiler.runge_kutta import ITERATIONS, LOOSE, PATIENCE, TIGHT
from nlink.compiler.trajectories import GROW, SAFETY, SHRINK, STRETCH
from nlink.simulation.tableau import Tableau
from nlink.simulation.watcher import Watcher

Array = np.ndarray
Rates = Callable[[float, Array], Array]


@dataclass(slots=True)
class Outcome:
    """How one integration ended."""

    out: Array
    status: str
    t: float
    steps: int
    rejects: int
    evaluations: int


def integrate(f: Rates, y: Array, times: Array, tableau: Tableau, *, rtol: float, atol: float,
              h: float = 0.0, least: float, largest: float = math.inf, most: int,
              restore: Callable[[Array], Array] = lambda y: y, watcher: Watcher | None = None,
              ) -> Outcome:
    """One trajectory, the states at `times`; steps stop at each of them."""
    a = [np.array([float(x) for x in row]) for row in tableau.a]
    b, c = np.array([float(x) for x in tableau.b]), [float(x) for x in tableau.c]
    errors = [np.array([float(x) for x in row]) for row in tableau.errors]
    out = np.full((len(times), len(y)), np.nan)
    out[0] = y
    t, done = float(times[0]), Outcome(out, "done", float(times[0]), 0, 0, 1)
    k0 = f(t, y)
    if watcher is not None:
        watcher.start(t, y)
        if watcher.status:
            done.status = watcher.status
            return done
    if tableau.adaptive and h == 0:
        h = first_step(f, t, y, k0, times[1] - t, tableau.error_order, rtol, atol)
        done.evaluations += 1

    def stepped(size: float) -> tuple[float, Array]:
        """The step of another size from where it stands, and no more."""
        done.evaluations += tableau.evaluations
        K, _ = _stages(f, t, y, k0, size, a, c, tableau.explicit)
        return t + size, restore(y + size * (b @ K))

    for g, stop in enumerate(times[1:], 1):
        while t < stop:
            left, h = float(stop) - t, min(h, largest)
            final = h * STRETCH >= left
            size = left if final else min(h, left / 2) if tableau.adaptive else h
            tnew = float(stop) if final else t + size
            K, smallest = _stages(f, t, y, k0, size, a, c, tableau.explicit)
            new = restore(y + size * (b @ K))
            knew = f(tnew, new)
            done.evaluations += tableau.evaluations
            error = _error([*K, knew], errors, size, y, new, rtol, atol)
            if smallest > LOOSE:
                error = math.inf if smallest < math.inf else math.nan
            accepted = error <= 1
            if tableau.adaptive:
                power = min(max(error, 1e-10), 1e10) if not math.isnan(error) else 1e10
                factor = min(max(SAFETY * power ** (-1 / (tableau.error_order + 1)), SHRINK), GROW)
                wanted = size * factor if accepted else size * min(factor, SAFETY)
                h = max(wanted, h) if accepted and size < h else wanted
            done.steps, done.rejects = done.steps + accepted, done.rejects + (not accepted)
            jump = watcher.step(stepped, size, (tnew, new)) if accepted and watcher else None
            if watcher is not None and jump is not None:
                t, y = jump
                k0 = f(t, y)
                if watcher.status:
                    done.status, done.t = watcher.status, t
                    return done
                ahead = times[times > t]
                if tableau.adaptive and len(ahead):
                    h = first_step(f, t, y, k0, float(ahead[0]) - t, tableau.error_order, rtol,
                                   atol)
            elif accepted:
                t, y, k0 = tnew, new, knew
            elif not (tableau.adaptive and h >= least):  # nor is nan a size
                refused = "step too small" if tableau.adaptive else "not converged"
                done.status = "not finite" if math.isnan(error) else refused
                done.t = t
                return done
            if done.steps + done.rejects >= most and (g < len(times) - 1 or t < stop):
                done.status, done.t = "too many steps", t
                return done
        out[g] = y
    done.t = t
    return done


def first_step(f: Rates, t: float, y: Array, k0: Array, left: float, order: int, rtol: float,
               atol: float) -> float:
    """The size of a first step [Hairer, Norsett, Wanner I, II.4]."""
    scale = atol + rtol * np.abs(y)
    d0, d1 = _rms(y / scale), _rms(k0 / scale)
    h0 = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, left)
    d2 = _rms((f(t + h0, y + h0 * k0) - k0) / scale) / h0
    largest = max(d1, d2)
    h1 = max(1e-6, 1e-3 * h0) if largest <= 1e-15 else (100 * largest) ** (-1 / (order + 1))
    return min(100 * h0, h1)


def _stages(f: Rates, t: float, y: Array, k0: Array, h: float, a: list[Array], c: list[float],
            explicit: bool) -> tuple[Array, float]:
    """The stages, and the smallest change of a sweep of the iteration that found them: see
    `nlink.compiler.runge_kutta.RungeKutta.solve`."""
    if explicit:
        K = [k0]
        for row, node in zip(a[1:], c[1:], strict=True):
            K.append(f(t + node * h, y + h * (row @ np.array(K))))
        return np.array(K), 0.0
    K, smallest, idle = np.array([k0] * len(a)), math.inf, 0
    for _ in range(ITERATIONS):
        change = 0.0
        for i, (row, node) in enumerate(zip(a, c, strict=True)):
            at = y + h * (row @ K)
            new = f(t + node * h, at)
            change = np.maximum(change, np.abs(h * (new - K[i]) / (np.abs(at) + 1)).max())
            K[i] = new
        idle = 0 if change < smallest else idle + 1
        smallest = float(change) if change < smallest else smallest
        if not change > TIGHT or idle == PATIENCE:
            break
    return K, smallest


def _error(K: list[Array], errors: list[Array], h: float, y: Array, new: Array, rtol: float,
           atol: float) -> float:
    if not errors or not np.isfinite(new).all():
        return float(np.sum(new * 0.0))  # nan if a number is not finite
    scale = atol + rtol * np.maximum(np.abs(y), np.abs(new))
    sums = [_rms((row @ np.array(K[:len(row)])) / scale) for row in errors]
    if len(sums) == 1:
        return h * sums[0]
    e5, e3 = sums
    both = e5 * e5 + 0.01 * e3 * e3
    return h * e5 * e5 / math.sqrt(both) if both else 0.0


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x * x)))
