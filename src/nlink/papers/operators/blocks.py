"""The operators recursions are made of: block diagonals, one step along a tree, and all steps.

Bodies are numbered from 1 with parents first; `parents[i - 1]` is the parent of body i, 0 the
base. Whatever the numbers in the steps, a step operator E is nilpotent on a tree, and
(1 - E)^-1 = 1 + E + E^2 + ... is an outward recursion, its transpose an inward one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from nlink.papers.operators.linear import Array, Operator, Sizes


class BlockDiagonal(Operator):
    """diag(X_1, ..., X_n), memoryless in [RK88]; joints may have any number of rates.

    Two of them next to one another are one, so G = P @ H.T @ D.inv is again diagonal.
    """

    def __init__(self, name: str, blocks: Iterable[Array], definition: str | None = None) -> None:
        self.blocks = tuple(blocks)
        super().__init__(name, (len(block) for block in self.blocks),
                         (block.shape[1] for block in self.blocks),
                         definition or f"diag({name}_1, ..., {name}_n)")

    def apply(self, x: Array) -> Array:
        return _each(self.blocks, self.columns, x)

    def apply_transposed(self, x: Array) -> Array:
        return _each([block.T for block in self.blocks], self.rows, x)

    @overload
    def __matmul__(self, other: Operator) -> Operator: ...

    @overload
    def __matmul__(self, other: ArrayLike) -> Array: ...

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, BlockDiagonal) and self.columns == other.rows:
            return self.times(other)
        return super().__matmul__(other)

    def times(self, other: BlockDiagonal) -> BlockDiagonal:
        """The product, block by block."""
        blocks = (a @ b for a, b in zip(self.blocks, other.blocks, strict=True))
        name = f"{self.name} {other.name}"
        return BlockDiagonal(name, blocks, name)

    @property
    def T(self) -> BlockDiagonal:
        factors = reversed(self.name.split(" "))
        name = " ".join(f[:-2] if f.endswith("^T") else f"{f}^T" for f in factors)
        return BlockDiagonal(name, (block.T for block in self.blocks))

    def __call__(self, i: int, j: int | None = None) -> Array:
        if j in (None, i) and 1 <= i <= len(self.blocks):
            return self.blocks[i - 1].copy()
        return super().__call__(i, j)

    @property
    def pattern(self) -> Array:
        return np.eye(len(self.blocks), dtype=bool)

    def renamed(self, name: str) -> BlockDiagonal:
        """Still diagonal: neighbours keep fusing with it."""
        return BlockDiagonal(name, self.blocks, self.definition)


class Placed(Operator):
    """A column of blocks, at some bodies only: how one twist or wrench meets the chain."""

    def __init__(self, name: str, blocks: Mapping[int, Array], rows: Sequence[int],
                 definition: str) -> None:
        super().__init__(name, rows, (6,), definition)
        self.blocks = dict(blocks)

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


class ParentStep(Operator):
    """E: the block of each body from its parent, E_{i,parent(i)}, and nothing else."""

    def __init__(self, name: str, steps: Array, parents: Sequence[int], definition: str) -> None:
        sizes = (steps.shape[-1],) * len(parents)
        super().__init__(name, sizes, sizes, definition)
        self.steps, self.parents = steps, tuple(parents)

    def apply(self, x: Array) -> Array:
        x = x.reshape(len(self.parents), self.rows[0], -1)
        y = np.zeros(x.shape, np.result_type(x, self.steps))
        for i, parent in enumerate(self.parents):
            if parent:
                y[i] = self.steps[i] @ x[parent - 1]
        return y.reshape(self.shape[0], -1)

    def apply_transposed(self, x: Array) -> Array:
        x = x.reshape(len(self.parents), self.rows[0], -1)
        y = np.zeros(x.shape, np.result_type(x, self.steps))
        for i, parent in enumerate(self.parents):
            if parent:
                y[parent - 1] += self.steps[i].T @ x[i]
        return y.reshape(self.shape[0], -1)

    @property
    def pattern(self) -> Array:
        full = np.zeros((len(self.parents),) * 2, dtype=bool)
        for i, parent in enumerate(self.parents):
            if parent:
                full[i, parent - 1] = True
        return full


class Propagation(Operator):
    """(1 - E)^-1: blocks are products of steps along the tree, 1 on the diagonal.

    Applied outward, y_i = x_i + E_{i,parent} y_parent; transposed inward,
    y_i = x_i + sum over the children c of E_{c,i}^T y_c.
    """

    def __init__(self, name: str, step: ParentStep, definition: str) -> None:
        super().__init__(name, step.rows, step.columns, definition)
        self.step = step

    def apply(self, x: Array) -> Array:
        y = self._start(x)
        for i, parent in enumerate(self.step.parents):
            if parent:
                y[i] += self.step.steps[i] @ y[parent - 1]
        return y.reshape(self.shape[0], -1)

    def apply_transposed(self, x: Array) -> Array:
        y = self._start(x)
        for i in reversed(range(len(y))):
            parent = self.step.parents[i]
            if parent:
                y[parent - 1] += self.step.steps[i].T @ y[i]
        return y.reshape(self.shape[0], -1)

    def _start(self, x: Array) -> Array:
        dtype = np.result_type(x, self.step.steps)
        return np.array(x.reshape(len(self.rows), self.rows[0], -1), dtype)

    @property
    def pattern(self) -> Array:
        return descends(self.step.parents)


class Elementary(Operator):
    """E_k = 1 - alpha_k lambda_k^T, an elementary upper triangular matrix [Saha99, 41-44]."""

    def __init__(self, k: int, alpha: Array) -> None:
        sizes = (1,) * len(alpha)
        super().__init__(f"E_{k}", sizes, sizes, f"1 - alpha_{k} lambda_{k}^T")
        self.k, self.alpha = k, alpha

    def apply(self, x: Array) -> Array:
        return x - np.outer(self.alpha, x[self.k - 1])

    def apply_transposed(self, x: Array) -> Array:
        y = np.array(x, np.result_type(x, self.alpha))
        y[self.k - 1] -= self.alpha @ x
        return y

    @property
    def inverse(self) -> Operator:
        """1 + alpha_k lambda_k^T [Saha99, 52]."""
        return Elementary(self.k, -self.alpha).renamed(f"E_{self.k}^-1")

    @property
    def pattern(self) -> Array:
        full = np.eye(len(self.alpha), dtype=bool)
        full[:, self.k - 1] |= self.alpha != 0
        return full


def descends(parents: Sequence[int]) -> Array:
    """[i - 1, j - 1] is True where body j is i or one of its ancestors."""
    full = np.eye(len(parents), dtype=bool)
    for i, parent in enumerate(parents):
        if parent:
            full[i] |= full[parent - 1]
    return full


def _each(blocks: Sequence[Array], sizes: Sizes, x: Array) -> Array:
    """Every block on its own part of a stack."""
    parts, start = [], 0
    with np.errstate(invalid="ignore"):  # a zero pivot makes blocks that are not finite
        for block, size in zip(blocks, sizes, strict=True):
            parts.append(block @ x[start:start + size])
            start += size
    return np.concatenate(parts) if parts else np.zeros((0, x.shape[1]))
