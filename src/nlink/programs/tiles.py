"""Programs on large matrices: steps on tiles, done again and again for other places in memory.

Products of matrices with dozens of rows are too long to be straight-line code. But all of their
tiles are computed alike, so the text of a tile is traced once, and a table says where each call
finds its numbers (`stepped.LikeStep`). A matrix is an array of places: transposes and parts of
it are views, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nlink.programs.program import Port
from nlink.programs.stepped import LikeStep, SteppedProgram, StepValue
from nlink.scalars.functions import minimum
from nlink.scalars.graph import Graph, Node

Places = np.ndarray
Text = Callable[[list[Node]], Sequence[Any]]
TILE, INNER = 4, 6
"""Rows and columns of a tile, and how many products are summed at a time: what fits registers."""


@dataclass
class _Kind:
    results: tuple[Node, ...]
    values: list[np.ndarray] = field(default_factory=list)
    first: list[int] = field(default_factory=list)


class Tiles:
    """Steps that are being written."""

    def __init__(self, inputs: Sequence[Port]) -> None:
        self.inputs, self.size = tuple(inputs), 0
        self.port = {port.name: self._take(port.size).reshape(port.shape) for port in inputs}
        self._kinds: dict[Hashable, _Kind] = {}
        self._order: list[Hashable] = []

    def _take(self, count: int) -> Places:
        first, self.size = self.size, self.size + count
        return np.arange(first, first + count)

    def new(self, rows: int, columns: int) -> Places:
        """Places of a matrix, those of a tile side by side."""
        found = np.empty((rows, columns), np.int64)
        for i in range(0, rows, TILE):
            for j in range(0, columns, TILE):
                part = found[i:i + TILE, j:j + TILE]
                part[:] = self._take(TILE * TILE)[:part.size].reshape(part.shape)
        return found

    def step(self, key: Hashable, values: Sequence[Places], to: Places, text: Text) -> None:
        """A call of the step of a key, whose results go to places side by side."""
        flat = np.concatenate([np.ravel(x) for x in values])
        if key not in self._kinds:
            graph = Graph()
            nodes = [graph.input(StepValue(k)) for k in range(len(flat))]
            self._kinds[key] = _Kind(tuple(graph.lift(x) for x in text(nodes)))
        kind = self._kinds[key]
        kind.values.append(flat)
        kind.first.append(int(np.ravel(to)[0]))
        self._order.append(key)

    def each(self, name: str, to: Places, *sources: Places, text: Callable[..., Any],
             more: Sequence[Places] = (), lower: bool = False) -> Places:
        """A matrix whose elements are a text of those of others, of `more` and of whether they are
        on the diagonal; tile by tile, those below the diagonal's alone if `lower`."""
        rows, columns = to.shape
        further = [np.ravel(x) for x in more]
        for i in range(0, rows, TILE):
            for j in range(0, columns, TILE):
                if lower and j > i:
                    continue
                part = to[i:i + TILE, j:j + TILE]
                diagonal = i == j

                def tile(x: list[Node], shape: tuple[int, ...] = part.shape,
                         diagonal: bool = diagonal) -> list[Any]:
                    count = shape[0] * shape[1]
                    rest = x[count * len(sources):]
                    return [text(*(x[k * count + n] for k in range(len(sources))), *rest,
                                 diagonal and n // shape[1] == n % shape[1])
                            for n in range(count)]

                self.step((name, part.shape, diagonal),
                          [*(x[i:i + TILE, j:j + TILE] for x in sources), *further], part, tile)
        return to

    def product(self, a: Places, b: Places, plus: Places | None = None, *, scale: float = 1.0,
                lower: bool = False, to: Places | None = None) -> Places:
        """scale a b + plus; the tiles on and below the diagonal alone if `lower`."""
        rows, inner, columns = *a.shape, b.shape[1]
        found = self.new(rows, columns) if to is None else to
        for i in range(0, rows, TILE):
            for j in range(0, columns, TILE):
                if lower and j > i:
                    continue
                part = found[i:i + TILE, j:j + TILE]
                before = None if plus is None else plus[i:i + TILE, j:j + TILE]
                for k in range(0, inner, INNER):
                    self._multiply(a[i:i + TILE, k:k + INNER], b[k:k + INNER, j:j + TILE], before,
                                   part, scale)
                    before = part
        return found

    def _multiply(self, a: Places, b: Places, plus: Places | None, to: Places, scale: float,
                  ) -> None:
        """A tile of scale a b + plus."""
        (r, inner), c = a.shape, b.shape[1]

        def tile(x: list[Node]) -> list[Any]:
            left, right, rest = x[:r * inner], x[r * inner:(r + c) * inner], x[(r + c) * inner:]
            own = abs(scale) == 1.0  # then the sum begins with what is added
            sums: list[Any] = list(rest) if own and rest else [0.0] * (r * c)
            for k in range(inner):
                for n in range(r * c):
                    one = left[n // c * inner + k] * right[k * c + n % c]
                    sums[n] = sums[n] - one if own and scale < 0 else sums[n] + one
            if own:
                return sums
            return [scale * x + y for x, y in zip(sums, rest or [0.0] * (r * c), strict=True)]

        self.step(("product", r, c, inner, plus is not None, scale),
                  [a, b] if plus is None else [a, b, plus], to, tile)

    def add(self, place: int, more: int) -> None:
        """Add a number to an element, in place."""
        self.step("add", [np.array([place, more])], np.array([place]), lambda x: [x[0] + x[1]])

    def program(self, name: str, outputs: Sequence[tuple[Port, Places]]) -> SteppedProgram:
        """The program, with ports and the places of their elements."""
        numbers = {key: k for k, key in enumerate(self._kinds)}
        kinds = tuple(LikeStep(kind.results, np.array(kind.values), np.empty((len(kind.first), 0)),
                               np.array(kind.first)) for kind in self._kinds.values())
        return SteppedProgram(
            name, self.inputs, tuple(port for port, _ in outputs), kinds,
            np.array([numbers[key] for key in self._order], np.int32), (),
            tuple(int(x) for _, places in outputs for x in np.ravel(places)), self.size)


class TiledFactors:
    """A = L D L^T of a symmetric matrix, of which the tiles on and below the diagonal are given,
    and are overwritten."""

    def __init__(self, tiles: Tiles, a: Places) -> None:
        self.tiles, n = tiles, len(a)
        self.cuts = [slice(i, min(n, i + TILE)) for i in range(0, n, TILE)]
        self.below: dict[tuple[int, int], Places] = {}
        self.unit: list[Places] = []
        self.inverse: list[Places] = []
        self.pivots: list[Places] = []
        for j, cut in enumerate(self.cuts):
            self._diagonal(a[cut, cut])
            scaled: dict[int, Places] = {}
            for i in range(j + 1, len(self.cuts)):
                scaled[i] = self._panel(j, i, a[self.cuts[i], cut])
            for i in range(j + 1, len(self.cuts)):
                for k in range(j + 1, i + 1):
                    part = a[self.cuts[i], self.cuts[k]]
                    tiles.product(scaled[i], self.below[k, j].T, part, scale=-1.0,
                                  to=part)

    def _diagonal(self, part: Places) -> None:
        n = len(part)
        found = self.tiles._take(n * n + 2 * n)

        def text(x: list[Node]) -> list[Any]:
            L: list[list[Any]] = [[float(i == j) for j in range(n)] for i in range(n)]
            pivots: list[Any] = []
            for i in range(n):
                for j in range(i):
                    L[i][j] = (x[n * i + j] - sum((L[i][k] * pivots[k] * L[j][k]
                                                   for k in range(j)), 0.0)) / pivots[j]
                pivots.append(x[n * i + i] - sum((L[i][k] * L[i][k] * pivots[k]
                                                  for k in range(i)), 0.0))
            return [*(y for row in L for y in row), *(1.0 / d for d in pivots), *pivots]

        self.tiles.step(("diagonal", n), [part], found, text)
        self.unit.append(found[:n * n].reshape(n, n))
        self.inverse.append(found[n * n:n * n + n])
        self.pivots.append(found[n * n + n:])

    def _panel(self, j: int, i: int, part: Places) -> Places:
        """L_ij D_j, from A_ij = L_ij D_j L_jj^T, and L_ij itself."""
        (r, c), unit = part.shape, self.unit[j]
        found = self.tiles._take(2 * r * c)

        def text(x: list[Node]) -> list[Any]:
            A, L, inverse = x[:r * c], x[r * c:r * c + c * c], x[r * c + c * c:]
            rows: list[list[Any]] = []
            for k in range(r):
                row: list[Any] = []
                for n in range(c):
                    row.append(A[k * c + n] - sum((row[p] * L[n * c + p] for p in range(n)), 0.0))
                rows.append(row)
            return [*(y for row in rows for y in row),
                    *(y * d for row in rows for y, d in zip(row, inverse, strict=True))]

        self.tiles.step(("panel", r, c), [part, unit, self.inverse[j]], found, text)
        self.below[i, j] = found[r * c:].reshape(r, c)
        return found[:r * c].reshape(r, c)

    def least(self, before: Places) -> Places:
        """The smallest pivot, or a number if that is smaller."""
        for part in self.pivots:
            after = self.tiles._take(1)

            def text(x: list[Node]) -> list[Any]:
                least: Any = x[0]
                for d in x[1:]:
                    least = minimum(least, d)
                return [least]

            self.tiles.step(("least", len(part)), [before, part], after, text)
            before = after
        return before

    def solve_negative(self, b: Places) -> Places:
        """-A^-1 b, in the places of b."""
        tiles, last = self.tiles, len(self.cuts) - 1
        for k, cut in enumerate(self.cuts):
            if k:
                left = np.concatenate([self.below[k, i] for i in range(k)], axis=1)
                tiles.product(left, b[:cut.start], b[cut], scale=-1.0, to=b[cut])
            self._within(k, b[cut], "forward")
        for k, cut in enumerate(self.cuts):
            self._within(k, b[cut], "scale")
        for k in reversed(range(last + 1)):
            cut = self.cuts[k]
            if k < last:
                left = np.concatenate([self.below[i, k].T for i in range(k + 1, last + 1)], axis=1)
                tiles.product(left, b[cut.stop:], b[cut], scale=-1.0, to=b[cut])
            self._within(k, b[cut], "backward")
        return b

    def _within(self, k: int, rows: Places, what: str) -> None:
        """A part of the solution within the rows of one tile."""
        unit, inverse = self.unit[k], self.inverse[k]
        n = len(unit)
        for j in range(0, rows.shape[1], TILE):
            part = rows[:, j:j + TILE]
            c = part.shape[1]

            def text(x: list[Node], c: int = c) -> list[Any]:
                y: list[list[Any]] = [list(x[c * i:c * (i + 1)]) for i in range(n)]
                L, d = x[n * c:n * c + n * n], x[n * c + n * n:]
                if what == "scale":
                    return [-(a * d[i]) for i in range(n) for a in y[i]]
                order = range(n) if what == "forward" else reversed(range(n))
                for i in order:
                    others = range(i) if what == "forward" else range(i + 1, n)
                    for p in others:
                        by = L[n * i + p] if what == "forward" else L[n * p + i]
                        y[i] = [a - by * b for a, b in zip(y[i], y[p], strict=True)]
                return [a for row in y for a in row]

            self.tiles.step((what, n, c), [part, unit, inverse], part, text)
