"""Memoryless operators whose blocks may differ in size, and blocks at a few bodies only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from nlink.papers.operators.linear import Array, Operator, Sizes


class MemorylessOperator(Operator):
    """diag(X(1), ..., X(n)), memoryless in [RK88]; joints may have any number of rates.

    Two of them next to one another are one, so G = P @ H.T @ D.inv is again diagonal.
    """

    def __init__(self, name: str, blocks: Iterable[Array], definition: str | None = None) -> None:
        self.blocks = tuple(blocks)
        super().__init__(name, (len(block) for block in self.blocks),
                         (block.shape[1] for block in self.blocks))
        self._definition = definition or f"diag({name}(1), ..., {name}(n))"

    def apply(self, x: Array) -> Array:
        return _each(self.blocks, self.columns, x)

    def apply_transposed(self, x: Array) -> Array:
        return _each([block.T for block in self.blocks], self.rows, x)

    @overload
    def __matmul__(self, other: Operator) -> Operator: ...

    @overload
    def __matmul__(self, other: ArrayLike) -> Array: ...

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, MemorylessOperator) and self.columns == other.rows:
            return self.times(other)
        return super().__matmul__(other)

    def times(self, other: MemorylessOperator) -> MemorylessOperator:
        """The product, block by block."""
        blocks = (a @ b for a, b in zip(self.blocks, other.blocks, strict=True))
        name = f"{self.name} {other.name}"
        return MemorylessOperator(name, blocks, name)

    @property
    def T(self) -> MemorylessOperator:
        factors = reversed(self.name.split(" "))
        name = " ".join(f[:-2] if f.endswith("^T") else f"{f}^T" for f in factors)
        return MemorylessOperator(name, (block.T for block in self.blocks))

    def __call__(self, i: int, j: int | None = None) -> Array:
        if j is None and 1 <= i <= len(self.blocks):
            return self.blocks[i - 1]
        return super().__call__(i, j)

    @property
    def pattern(self) -> Array:
        return np.eye(len(self.blocks), dtype=bool)

    @property
    def definition(self) -> str:
        return self._definition

    def renamed(self, name: str) -> MemorylessOperator:
        """Still diagonal: neighbours keep fusing with it."""
        return MemorylessOperator(name, self.blocks, self.definition)


class Placed(Operator):
    """A column of blocks, at some bodies only: how one twist or wrench meets the chain."""

    def __init__(self, name: str, blocks: Mapping[int, Array], rows: Sequence[int],
                 definition: str) -> None:
        super().__init__(name, rows, (6,))
        self.blocks = dict(blocks)
        self._definition = definition

    def apply(self, x: Array) -> Array:
        y = np.zeros((len(self.rows), 6, x.shape[1]), np.result_type(x, float))
        for k, block in self.blocks.items():
            y[k - 1] = block @ x
        return y.reshape(self.shape[0], -1)

    def apply_transposed(self, x: Array) -> Array:
        parts = x.reshape(len(self.rows), 6, -1)
        y = np.zeros((6, parts.shape[2]), np.result_type(x, float))
        for k, block in self.blocks.items():
            y += block.T @ parts[k - 1]
        return y

    @property
    def pattern(self) -> Array:
        return np.array([[k in self.blocks] for k in range(1, len(self.rows) + 1)])

    @property
    def definition(self) -> str:
        return self._definition


def _each(blocks: Sequence[Array], sizes: Sizes, x: Array) -> Array:
    """Every block on its own part of a stack."""
    parts, start = [], 0
    for block, size in zip(blocks, sizes, strict=True):
        parts.append(block @ x[start:start + size])
        start += size
    return np.concatenate(parts) if parts else np.zeros((0, x.shape[1]))
