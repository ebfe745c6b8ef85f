"""What a study varies: values, or distributions from which a chunk draws its own.

Drawing is inversion: a point u of the unit cube, one coordinate for each number that varies,
becomes the numbers F^-1(u). The points of a chunk are a function of the study's seed and the
chunk's number alone, so it does not matter who computes it, or when:

- "random": NumPy's generator, seeded by (seed, chunk);
- "latin": a Latin hypercube of the chunk's size, seeded likewise, so that the study is a
  replicated Latin hypercube [McKay, Beckman, Conover 79], one replicate for each chunk;
- "sobol": elements begin to end - 1 of one scrambled Sobol sequence [Owen 98], whose scrambling
  is seeded by the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray
DRAWN = ("random", "latin", "sobol")
"""Samples from distributions."""
SAMPLES = ("grid", "table", *DRAWN)


class Distribution(Protocol):
    """What numbers are drawn from, each by its own coordinate of the unit cube."""

    @property
    def size(self) -> int:
        """How many numbers: 1 if the parameters are numbers, else their length."""
        ...

    def quantile(self, u: Array) -> Array:
        """F^-1(u), (..., size)."""
        ...


@dataclass(frozen=True)
class _TwoParameters:
    """What distributions of two parameters share: numbers, or as many as there are columns."""

    a: Any
    b: Any

    def __post_init__(self) -> None:
        what = type(self).__name__
        try:
            a, b = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (self.a, self.b)))
        except (TypeError, ValueError):
            raise ValueError(f"{what}: {self.a!r} and {self.b!r}, expected numbers, or two "
                             "sequences of one length") from None
        if a.ndim > 1 or not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise ValueError(f"{what}: {self.a!r} and {self.b!r}, expected finite numbers, or "
                             "sequences of them")
        for name, x in (("a", a), ("b", b)):
            object.__setattr__(self, name, tuple(x.tolist()) if x.ndim else float(x))
        self.check(a, b)

    def check(self, a: Array, b: Array) -> None:
        """Refuse parameters of no distribution."""
        if (a > b).any():
            raise ValueError(f"{type(self).__name__}: {self.a!r} to {self.b!r}, expected the lower "
                             "bound first")

    @property
    def size(self) -> int:
        return np.size(self.a)


@dataclass(frozen=True)
class Uniform(_TwoParameters):
    """The uniform distribution from a to b: a + (b - a) u.

    >>> Uniform(0.0, 2.0).quantile(np.array([[0.25], [1.0]])).tolist()
    [[0.5], [2.0]]
    """

    def quantile(self, u: Array) -> Array:
        a, b = np.asarray(self.a), np.asarray(self.b)
        return a + (b - a) * u


@dataclass(frozen=True)
class LogUniform(_TwoParameters):
    """The distribution from a to b that is uniform in the logarithm: a (b / a)^u.

    >>> LogUniform(1.0, 100.0).quantile(np.array([[0.5]])).tolist()
    [[10.0]]
    """

    def check(self, a: Array, b: Array) -> None:
        super().check(a, b)
        if (a <= 0).any():
            raise ValueError(f"LogUniform: from {self.a!r}, expected positive numbers")

    def quantile(self, u: Array) -> Array:
        a, b = np.asarray(self.a), np.asarray(self.b)
        return a * (b / a) ** u


@dataclass(frozen=True)
class Normal(_TwoParameters):
    """The normal distribution with mean a and standard deviation b: a + b Phi^-1(u).

    >>> from nlink.studies import Normal
    >>> float(Normal(1.0, 0.1).quantile(0.5).round(6))
    1.0
    """

    def check(self, a: Array, b: Array) -> None:
        if (b < 0).any():
            raise ValueError(f"Normal: deviation {self.b!r}, expected numbers >= 0")

    def quantile(self, u: Array) -> Array:
        from scipy.special import ndtri

        return np.asarray(self.a) + np.asarray(self.b) * ndtri(u)


def unit_points(sample: str, size: int, seed: int, chunk: int, begin: int, end: int) -> Array:
    """Points begin to end - 1 of a sample of the unit cube, (end - begin, size)."""
    if not size:
        return np.empty((end - begin, 0))
    if sample == "random":
        return np.random.default_rng([seed, chunk]).random((end - begin, size))
    qmc = _qmc()
    if sample == "latin":
        return qmc.LatinHypercube(size, rng=np.random.default_rng([seed, chunk])).random(
            end - begin)
    sequence = qmc.Sobol(size, scramble=True, bits=BITS, rng=np.random.default_rng(seed))
    if not begin:  # a power of two, as SciPy wants it of those who draw once
        return sequence.random(1 << (end - 1).bit_length())[:end]
    sequence.fast_forward(begin)  # 6 ms for a million points
    return sequence.random(end - begin)


BITS = 32
"""Bits of a coordinate of Sobol points, of which there are 2^BITS at most."""


def _qmc() -> Any:
    try:
        from scipy.stats import qmc
    except ImportError:
        raise ImportError("samples 'latin' and 'sobol' need scipy: pip install nlink[scale]"
                          ) from None
    return qmc
