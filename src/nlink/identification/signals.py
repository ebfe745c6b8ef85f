"""Signals of a log by their true stamps: rates and accelerations, and one filter for all columns.

Positions are differentiated by local polynomials of degree four, by least squares in a window
around each stamp: sampling may be ragged, and rows may be missing.

What is linear in the parameters stays so under any weighted sum over rows, with the same weights
for torques and for columns. So rows are averaged with the weights w of a low-pass filter of zero
phase, a windowed sinc between the true stamps, at instants 1/(2 cutoff) apart: there the averages
of white noise are all but uncorrelated, so that as many rows are counted as there is information.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

Array = np.ndarray
DEGREE = 4
"""Of the local polynomials."""
REACH = 0.78
"""The half window of a local polynomial is REACH / frequency: (DEGREE + 1) / 3.2 / 2."""
LOBES = 3
"""Lobes of the windowed sinc on each side."""
WIDER = 3.0
"""Positions are differentiated with so many times the cut-off of the filter."""
GAP = 12.0
"""A longer pause than so many median steps, and than half a period of the cut-off, is a gap."""
FASTEST, SLOWEST = 0.1, 0.5
"""The cut-off is at most this share of the sampling rate, and at least so many Hz."""
HARMONICS = 6.0
"""The cut-off is so many times the frequency below which 99 % of the motion is."""
CHUNK = 256


@dataclass(frozen=True)
class SmoothMotion:
    """Positions, rates and accelerations (N, n) at the stamps t (N,), and the pieces between gaps
    as (first, last + 1)."""

    t: Array
    q: Array
    qd: Array
    qdd: Array
    pieces: tuple[tuple[int, int], ...]


def median_step(t: Array) -> float:
    """The usual time between stamps."""
    return float(np.median(np.diff(t)))


def suggested_cutoff(t: Array, q: Array) -> float:
    """A cut-off in Hz from what the joints do: HARMONICS times the frequency below which 99 % of
    the power of their rates is, each joint's power counted alike."""
    step = median_step(t)
    count = min(int((t[-1] - t[0]) / max(step, 0.005)) + 1, 2**17)
    if count < 16:
        return FASTEST / step
    grid = np.linspace(t[0], t[-1], count)
    even = np.column_stack([np.interp(grid, t, x) for x in q.T])
    rates = np.diff(even, axis=0) / (grid[1] - grid[0])
    rates = (rates - rates.mean(axis=0)) * np.hanning(len(rates))[:, None]
    power = np.abs(np.fft.rfft(rates, axis=0)) ** 2
    total = power.sum(axis=0)
    moving = np.ptp(q, axis=0) > 0.02 * np.ptp(q, axis=0).max(initial=0.0)
    if not (total[moving] > 0).any():
        return FASTEST / step
    share = (power[:, moving] / total[moving]).mean(axis=1)
    top = np.fft.rfftfreq(len(rates), grid[1] - grid[0])[
        np.searchsorted(np.cumsum(share), 0.99 * share.sum())]
    return float(np.clip(HARMONICS * top, SLOWEST, FASTEST / step))


def pieces_of(t: Array, cutoff: float) -> list[tuple[int, int]]:
    """The rows between gaps."""
    step = np.diff(t)
    cuts = np.flatnonzero(step > max(GAP * np.median(step), 0.5 / cutoff)) + 1
    ends = [0, *cuts.tolist(), len(t)]
    return list(pairwise(ends))


def differentiated(t: Array, q: Array, cutoff: float, delay: float = 0.0) -> SmoothMotion:
    """q, qd and qdd at `delay` before the stamps, each smoothed alike; without the rows at ends
    and gaps where half of the window is missing."""
    half = half_window(t, cutoff)
    parts, kept, pieces, at = [], [], [], 0
    for first, last in pieces_of(t, cutoff):
        own = t[first:last]
        inside = (own - delay >= own[0] + 0.7 * half) & (own - delay <= own[-1] - 0.7 * half)
        if inside.sum() < 2 or last - first < 2 * DEGREE:
            continue
        rows = np.flatnonzero(inside) + first
        parts.append(_local_polynomials(own, q[first:last], t[rows] - delay, half))
        kept.append(rows)
        pieces.append((at, at + len(rows)))
        at += len(rows)
    if not parts:
        raise ValueError(f"log: {t[-1] - t[0]:.3g} s with {len(t)} rows is too short, expected "
                         f"several times {2 * half:.3g} s")
    smooth = np.concatenate(parts, axis=1)
    q, qd, qdd = smooth
    return SmoothMotion(t[np.concatenate(kept)], q, qd, qdd, tuple(pieces))


def within_pieces(motion: SmoothMotion, t: Array, cutoff: float, margin: float) -> SmoothMotion:
    """A motion without what is within `margin` seconds of the ends that it has for no delay, so
    that the same rows are left for all delays up to the margin; t are the stamps of the log."""
    keep, pieces, at = [], [], 0
    edge = 0.7 * half_window(t, cutoff) + margin
    for first, last in pieces_of(t, cutoff):
        own = np.flatnonzero((motion.t >= t[first] + edge) & (motion.t <= t[last - 1] - edge))
        if len(own) > 1:
            keep.append(own)
            pieces.append((at, at + len(own)))
            at += len(own)
    if not keep:
        raise ValueError(f"log: {t[-1] - t[0]:.3g} s with {len(t)} rows is too short, expected "
                         f"several times {2 * edge:.3g} s")
    rows = np.concatenate(keep)
    return SmoothMotion(motion.t[rows], motion.q[rows], motion.qd[rows], motion.qdd[rows],
                        tuple(pieces))


def half_window(t: Array, cutoff: float) -> float:
    """Half the width of the local polynomials, in seconds."""
    return max(REACH / (WIDER * cutoff), (DEGREE - 0.5) * median_step(t))


def _local_polynomials(t: Array, q: Array, at: Array, half: float) -> Array:
    """Value, rate and acceleration at instants, (3, instants, n): weighted least squares with
    Epanechnikov's weights within `half` of each, at least DEGREE + 2 rows."""
    found = np.empty((3, len(at), q.shape[1]))
    order = DEGREE + 1
    for start in range(0, len(at), CHUNK):
        own = at[start:start + CHUNK]
        middle = np.searchsorted(t, own)
        low, high = np.searchsorted(t, own - half), np.searchsorted(t, own + half)
        widest = max(int((high - low).max()), DEGREE + 3)
        first = np.clip(middle - widest // 2, 0, max(len(t) - widest, 0))
        size = np.maximum(half, 1.001 * np.maximum(  # a wider window where rows are missing
            np.minimum(own - t[first], half), np.minimum(t[np.minimum(
                first + widest, len(t)) - 1] - own, half)))
        few = high - low < DEGREE + 3
        size = np.where(few, np.maximum(own - t[first], t[np.minimum(
            first + widest, len(t)) - 1] - own) * 1.2, size)
        centre = q[np.minimum(middle, len(t) - 1)]
        row = np.minimum(first[:, None] + np.arange(widest), len(t) - 1)
        u = (t[row] - own[:, None]) / size[:, None]
        powers = np.empty((len(own), order, widest))
        powers[:, 0] = 1.0
        for k in range(1, order):
            np.multiply(powers[:, k - 1], u, out=powers[:, k])
        right = np.concatenate([powers.transpose(0, 2, 1), q[row] - centre[:, None]], axis=2)
        both = (powers * np.maximum(1.0 - u * u, 0.0)[:, None]) @ right
        a = np.linalg.solve(both[..., :order], both[..., order:])
        found[0, start:start + CHUNK] = a[:, 0] + centre
        found[1, start:start + CHUNK] = a[:, 1] / size[:, None]
        found[2, start:start + CHUNK] = 2 * a[:, 2] / size[:, None] ** 2
    return found


@dataclass(frozen=True)
class RowFilter:
    """The filter: instants (K,), and for each the weights of the rows around it."""

    t: Array
    """The stamps of the rows."""
    pieces: tuple[tuple[int, int], ...]
    cutoff: float

    @property
    def spacing(self) -> float:
        return 0.5 / self.cutoff

    @cached_property
    def instants(self) -> Array:
        parts = []
        for first, last in self.pieces:
            begin, end = self.t[first], self.t[last - 1]
            count = int((end - begin) / self.spacing - 1)
            if count > 0:
                parts.append((begin + end - (count - 1) * self.spacing) / 2
                             + self.spacing * np.arange(count))
        return np.concatenate(parts) if parts else np.zeros(0)

    @cached_property
    def _quadrature(self) -> Array:
        """The time each row stands for."""
        dt = np.zeros(len(self.t))
        for first, last in self.pieces:
            step = np.diff(self.t[first:last])
            dt[first:last - 1] += step / 2
            dt[first + 1:last] += step / 2
        return dt

    def chunks(self, most: int = 64) -> Iterator[tuple[slice, slice, Array]]:
        """Instants, rows, and the weights between them (instants, rows)."""
        reach = LOBES * self.spacing
        for first, last in self.pieces:
            t = self.t[first:last]
            inside = np.flatnonzero((self.instants >= t[0]) & (self.instants <= t[-1]))
            for begin in range(0, len(inside), most):
                own = inside[begin:begin + most]
                at = self.instants[own]
                low, high = np.searchsorted(t, (at[0] - reach, at[-1] + reach))
                u = (t[low:high] - at[:, None]) / self.spacing
                w = np.where(np.abs(u) < LOBES, np.sinc(u) * np.sinc(u / LOBES), 0.0)
                yield (slice(own[0], own[-1] + 1), slice(first + low, first + high),
                       w * self._quadrature[first + low:first + high])
