"""Weighted least squares on the rows of motors, with what the rows do not tell.

Each motor has its own noise, found from what is left. One orthogonal factorization of the weighted
rows has all that the data say: R beta = c. Directions of beta in which R is smaller than the noise
are left where the prior is. What is left between neighbouring rows is alike where a model is not
perfect; intervals are widened by as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
ROUNDS = 5
FAINT = 3.0
"""Directions that would be known to no better than so many times their plausible size are not
fitted."""
LAGS = 8
TAIL = 4.685
"""Tukey's constant: residuals of so many deviations and more do not count."""
LEAST_NOISE = 1e-3
"""What the physical fit takes for the noise at least, as a share of a motor's torque."""


@dataclass(frozen=True)
class BaseFit:
    """What one fit gives."""

    values: Array
    covariance: Array
    sigma: Array
    """The noise of motors, for one sample."""
    inflation: Array
    """How much more the rows of a motor vary together than white noise would."""
    R: Array
    c: Array
    """R values = c, rows whitened by `sigma` and the inflation: all that the data say."""
    directions: Array
    """(directions, parameters): orthonormal in units of plausible sizes, best known first."""
    deviations: Array
    """How well each is known, in those units."""
    kept: Array
    """Whether it was fitted."""
    weights: Array

    @property
    def half_widths(self) -> Array:
        """Of 95 % intervals; infinite where a direction that the data do not tell takes part."""
        return 1.96 * np.sqrt(np.diag(self.covariance))


def base_fit(X: Array, y: Array, use: Array, size: Array, prior: Array, *,
             robust: bool = False, runs: Array | None = None) -> BaseFit:
    """Fit y (K, motors) by X (K, motors, p) where `use`; `size` (p,) are plausible sizes."""
    K, n, p = X.shape
    counts = use.sum(axis=0)
    typical = np.array([_rms(y[use[:, j], j]) for j in range(n)])
    least = np.maximum(1e-6 * np.maximum(typical, 1e-3 * typical.max(initial=0.0)), 1e-12)
    sigma = np.maximum(typical, least)
    weights = use.astype(float)
    scaled = X * size
    values, left, V, kept = prior, y, np.eye(p), np.zeros(p, dtype=bool)
    s = np.ones(p)
    for _ in range(ROUNDS + 5 * robust):
        root = np.sqrt(weights) / sigma
        rows, target = (scaled * root[..., None]).reshape(-1, p), ((y - X @ prior) * root).ravel()
        R, c = _factor(rows, target)
        U, s, V = np.linalg.svd(R, full_matrices=False)
        s = np.maximum(s, 1e-300)
        kept = (1.0 / s < FAINT) & (s > 1e-13 * s.max(initial=0.0))
        step = V.T[:, kept] @ ((U.T[kept] @ c) / s[kept])
        values = prior + size * step
        left = y - X @ values
        leverage = (((rows @ (V.T[:, kept] / s[kept])) ** 2).sum(axis=1)).reshape(K, n).sum(axis=0)
        free = np.maximum(weights.sum(axis=0) - leverage, 1.0)
        sigma = np.maximum(np.sqrt((weights * left**2).sum(axis=0) / free), least)
        if robust:
            middle = np.array([1.4826 * np.median(np.abs(left[use[:, j], j])) if counts[j] else 1.0
                               for j in range(n)])
            u = left / (TAIL * np.maximum(middle, least))
            weights = use * np.maximum(1 - u * u, 0.0) ** 2
            sigma = np.maximum(middle, least)
    inflation = _inflation(left * np.sqrt(weights), use, runs)
    spread = V.T[:, kept] / s[kept]
    rows = (scaled * (np.sqrt(weights) / sigma)[..., None])
    middle = sum((inflation[j] * (g := rows[:, j] @ spread).T @ g for j in range(n)),
                 np.zeros((int(kept.sum()),) * 2))
    inner = spread @ middle @ spread.T
    covariance = inner * np.outer(size, size)
    faint = (np.abs(V[~kept]) > 1e-3).any(axis=0) if (~kept).any() else np.zeros(p, dtype=bool)
    covariance[faint, faint] = np.inf
    wide = np.maximum(sigma * np.sqrt(inflation), LEAST_NOISE * typical + least)
    root = np.sqrt(weights) / wide
    R, c = _factor((X * root[..., None]).reshape(-1, p), (y * root).ravel())
    return BaseFit(values, covariance, sigma, inflation, R, c, V, np.asarray(1.0 / s), kept,
                   weights)


def _factor(rows: Array, target: Array) -> tuple[Array, Array]:
    """R and c of least squares, by one QR."""
    R = np.asarray(np.linalg.qr(np.column_stack([rows, target]), mode="r"))
    p = rows.shape[1]
    if len(R) < p:
        R = np.vstack([R, np.zeros((p - len(R), p + 1))])
    return R[:p, :p], R[:p, p]


def _inflation(left: Array, use: Array, runs: Array | None) -> Array:
    """1 + 2 sum of the autocorrelations of residuals, by Bartlett's weights, at least 1."""
    K, n = left.shape
    found = np.ones(n)
    for j in range(n):
        e = np.where(use[:, j], left[:, j], 0.0)
        power = float(e @ e)
        if power <= 0:
            continue
        total = 1.0
        for k in range(1, min(LAGS, K - 1)):
            same = np.ones(K - k, dtype=bool) if runs is None else runs[k:] == runs[:-k]
            total += 2 * (1 - k / LAGS) * float((e[k:] * e[:-k])[same].sum()) / power
        found[j] = max(total, 1.0)
    return found


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x * x))) if len(x) else 0.0
