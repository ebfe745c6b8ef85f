"""The operators recursions are made of: block diagonals, one step along a tree, and all steps.

Bodies are numbered from 1 with parents first; `parents[i - 1]` is the parent of body i, 0 the
base. Whatever the numbers in the steps, a step operator E is nilpotent on a tree, and
(1 - E)^-1 = 1 + E + E^2 + ... is an outward recursion, its transpose an inward one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlink.papers.operators.linear import Array, Operator, span


class BlockDiagonal(Operator):
    """One block for each body, no coupling ("memoryless" in [RK88])."""

    def __init__(self, name: str, blocks: Array, definition: str | None = None) -> None:
        count, height, width = blocks.shape
        super().__init__(name, (height,) * count, (width,) * count)
        self.blocks = blocks
        self._definition = definition or f"diag({name}_1, ..., {name}_n)"

    def apply(self, x: Array) -> Array:
        return self._multiply(self.blocks, x)

    def apply_transposed(self, x: Array) -> Array:
        return self._multiply(np.swapaxes(self.blocks, 1, 2), x)

    def __call__(self, i: int, j: int | None = None) -> Array:
        span(self.rows, i, "row")
        span(self.columns, i if j is None else j, "column")
        return self.blocks[i - 1].copy() if j in (None, i) else np.zeros_like(self.blocks[i - 1])

    @staticmethod
    def _multiply(blocks: Array, x: Array) -> Array:
        count, height, width = blocks.shape
        with np.errstate(invalid="ignore"):  # a zero pivot makes blocks that are not finite
            return (blocks @ x.reshape(count, width, -1)).reshape(count * height, -1)

    @property
    def pattern(self) -> Array:
        return np.eye(len(self.blocks), dtype=bool)

    @property
    def definition(self) -> str:
        return self._definition


class Step(Operator):
    """E: the block of each body from its parent, E_{i,parent(i)}, and nothing else."""

    def __init__(self, name: str, steps: Array, parents: Sequence[int], definition: str) -> None:
        sizes = (steps.shape[-1],) * len(parents)
        super().__init__(name, sizes, sizes)
        self.steps, self.parents = steps, tuple(parents)
        self._definition = definition

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

    @property
    def definition(self) -> str:
        return self._definition


class Propagation(Operator):
    """(1 - E)^-1: blocks are products of steps along the tree, 1 on the diagonal.

    Applied outward, y_i = x_i + E_{i,parent} y_parent; transposed inward,
    y_i = x_i + sum over the children c of E_{c,i}^T y_c.
    """

    def __init__(self, name: str, step: Step, definition: str) -> None:
        super().__init__(name, step.rows, step.columns)
        self.step = step
        self._definition = definition

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

    @property
    def definition(self) -> str:
        return self._definition


class Elementary(Operator):
    """E_k = 1 - alpha_k lambda_k^T, an elementary upper triangular matrix [Saha99, 41-44]."""

    def __init__(self, k: int, alpha: Array) -> None:
        super().__init__(f"E_{k}", (1,) * len(alpha), (1,) * len(alpha))
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

    @property
    def definition(self) -> str:
        return f"1 - alpha_{self.k} lambda_{self.k}^T"


def descends(parents: Sequence[int]) -> Array:
    """[i - 1, j - 1] is True where body j is i or one of its ancestors."""
    full = np.eye(len(parents), dtype=bool)
    for i, parent in enumerate(parents):
        if parent:
            full[i] |= full[parent - 1]
    return full
