"""Inverses of operator expressions that are recursions again.

Nothing is inverted but the blocks of diagonals. A recursion phi = (1 - S Delta)^-1 has the
inverse 1 - S Delta (a.10, a.11 of [RK88]); a triangular 1 + A phi S B has, by the matrix
inversion lemma, the inverse 1 - A phi' S B with phi'^-1 = phi^-1 + S B A, which is again one
step along the tree: for A = H, B = L that is Fact 4.2, phi' = psi.
"""

from __future__ import annotations

import numpy as np

from nlink.papers.operators.blocks import BlockDiagonal, ParentStep, Propagation
from nlink.papers.operators.linear import (
    Array,
    Identity,
    Named,
    Operator,
    OperatorProduct,
    OperatorSum,
    Scaled,
    Transposed,
)


def inverse(operator: Operator) -> Operator:
    """The inverse, where it is a recursion; otherwise a ValueError that says so."""
    found = _inverse(operator)
    if found is None:
        raise ValueError(f"{operator.name}.inv: no recursion is known for this inverse, expected "
                         "square diagonals, propagations, 1 + A Phi B, or products of them")
    return found


def _inverse(operator: Operator) -> Operator | None:
    if operator.rows != operator.columns and not isinstance(operator, OperatorProduct):
        return None
    if isinstance(operator, Identity):
        return operator
    if isinstance(operator, BlockDiagonal):
        return BlockDiagonal(_inverted(operator.name), (block_inverse(x) for x in operator.blocks))
    if isinstance(operator, Transposed):
        inner = _inverse(operator.of)
        return None if inner is None else inner.T
    if isinstance(operator, Named):
        inner = _inverse(operator.of)
        return None if inner is None else inner.renamed(_inverted(operator.name))
    if isinstance(operator, Scaled):
        inner = _inverse(operator.of)
        return None if inner is None else (1 / operator.factor) * inner
    if isinstance(operator, Propagation):
        return 1 - operator.step
    if isinstance(operator, OperatorProduct):
        inverses = [_inverse(factor) for factor in reversed(operator.factors)]
        known = [x for x in inverses if x is not None]
        return OperatorProduct(*known) if len(known) == len(inverses) else None
    return _of_sum(operator) if isinstance(operator, OperatorSum) else None


def _of_sum(operator: OperatorSum) -> Operator | None:
    """(1 + A phi S B)^-1 = 1 - A phi' S B, and its transpose."""
    rest = [term for term in operator.terms if not isinstance(term, Identity)]
    if len(operator.terms) != 2 or len(rest) != 1:
        return None
    factor, factors = _flat(rest[0])
    outward = any(isinstance(f, Propagation | ParentStep) for f in factors)
    if outward:
        factors = tuple(f.T for f in reversed(factors))
    found = _inward(operator.name, factor, factors)
    return found.T if found is not None and outward else found


def _inward(name: str, factor: float, factors: tuple[Operator, ...]) -> Operator | None:
    """The inverse of 1 + factor * (product of factors) with an inward recursion or step."""
    at = [k for k, f in enumerate(factors) if isinstance(f.T, Propagation | ParentStep)]
    if not at or at[-1] - at[0] != len(at) - 1 or len(at) > 2:
        return None
    A, B = _diagonal(factors[:at[0]]), _diagonal(factors[at[-1] + 1:])
    S = factors[at[-1]].T
    if A is None or B is None or not isinstance(S, ParentStep):
        return None
    ones = [np.eye(size) for size in S.rows]
    A, B = A or ones, B or ones
    if len(at) == 1:
        if not (_square(A) and _square(B)):
            return None
        steps = [B[i].T @ S.steps[i] @ A[max(parent, 1) - 1].T
                 for i, parent in enumerate(S.parents)]
        steps = -factor * np.reshape(steps, S.steps.shape)
        return _propagation("step^T", S, steps).T.renamed(f"({name})^-1")
    phi = factors[at[0]].T
    if not isinstance(phi, Propagation):
        return None
    fed = [(s.T @ b @ a).T for s, b, a in zip(S.steps, B, A, strict=True)]
    steps = phi.step.steps - factor * np.reshape(fed, S.steps.shape)
    changed = _propagation(f"{phi.T.name}'^T", S, steps).T
    fed_back = OperatorProduct(*factors[:at[0]], changed, *factors[at[0] + 1:])
    return 1 + fed_back if factor == -1 else 1 - (fed_back if factor == 1 else factor * fed_back)


def _flat(operator: Operator) -> tuple[float, tuple[Operator, ...]]:
    """A number and the factors of a product, names resolved."""
    if isinstance(operator, Scaled):
        factor, factors = _flat(operator.of)
        return operator.factor * factor, factors
    if isinstance(operator, Named):
        return _flat(operator.of)
    if isinstance(operator, Transposed) and isinstance(
            operator.of, Named | OperatorProduct | Scaled):
        factor, factors = _flat(operator.of)
        return factor, tuple(f.T for f in reversed(factors))
    if isinstance(operator, OperatorProduct):
        parts = [_flat(f) for f in operator.factors]
        total = 1.0
        for part in parts:
            total *= part[0]
        return total, tuple(f for part in parts for f in part[1])
    return 1.0, (operator,)


def _diagonal(factors: tuple[Operator, ...]) -> list[Array] | None:
    """The blocks of a product of diagonals; ones if there are none."""
    if not factors:
        return []
    blocks: list[Array] = []
    for f in factors:
        if not isinstance(f, BlockDiagonal):
            return None
        blocks = [a @ b for a, b in zip(blocks, f.blocks, strict=True)] if blocks else [*f.blocks]
    return blocks


def _propagation(name: str, like: ParentStep, steps: Array) -> Propagation:
    return Propagation(name, ParentStep(f"step of {name}", steps, like.parents, "one step"), name)


def _square(blocks: list[Array]) -> bool:
    return all(block.shape[0] == block.shape[1] for block in blocks)


def _inverted(name: str) -> str:
    return name[:-3] if name.endswith("^-1") else f"{name}^-1"


def block_inverse(block: Array) -> Array:
    """inf where a block of one number is zero, as in the compiled algorithms; nan if larger."""
    if block.shape == (1, 1):
        with np.errstate(divide="ignore"):
            return 1 / block
    try:
        return np.linalg.inv(block)
    except np.linalg.LinAlgError:
        return np.full_like(block, np.nan)
