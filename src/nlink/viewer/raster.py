"""Triangles to pixels in NumPy: a depth buffer for all triangles of one size at once.

A triangle covers the pixels of its bounding box where its three edge functions are not negative.
Boxes are grouped by powers of two, so that a group is one array of so many triangles by so many
pixels; of all fragments of a group the nearest in each pixel stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
FRAGMENTS = 500_000
"""How many pixels of boxes are looked at together."""
LARGE = 6
"""Boxes of more than 2^6 pixels across are looked at one by one, without a margin."""


@dataclass
class Work:
    """The pixels that may still be looked at for a picture, and how many triangles were left out
    because they would have taken more."""

    pixels: int
    left_out: int = 0

    def spend(self, costs: Array) -> Array:
        """Which of triangles with these costs are affordable, the cheapest first."""
        order = np.argsort(costs, kind="stable")
        total = np.cumsum(costs[order])
        taken = np.zeros(len(costs), bool)
        count = int(np.searchsorted(total, self.pixels, side="right"))
        taken[order[:count]] = True
        self.pixels -= int(total[count - 1]) if count else 0
        self.left_out += len(costs) - count
        return taken


@dataclass
class Buffer:
    """For each pixel the nearest triangle, -1 where there is none, its depth and where in it."""

    depth: Array
    triangle: Array
    weights: Array

    @classmethod
    def of(cls, width: int, height: int) -> Buffer:
        return cls(np.full(width * height, np.inf), np.full(width * height, -1),
                   np.zeros((width * height, 3), np.float32))


def rasterize(points: Array, triangles: Array, width: int, height: int,
              work: Work | None = None) -> Buffer:
    """Points (N, 3) are x, y in pixels from the upper left corner, and 1/distance, which is linear
    on the screen; what is behind the camera is nan. Only the part of a triangle's box that is in
    the picture is looked at, and no more boxes than `work` allows."""
    buffer = Buffer.of(width, height)
    corners = points[triangles]
    low = np.floor(corners[..., :2].min(axis=1) - 0.5)
    high = np.ceil(corners[..., :2].max(axis=1) + 0.5)
    fits: Array = np.asarray(np.isfinite(corners).all(axis=(1, 2)))
    low, high = np.where(fits[:, None], low, 0.0), np.where(fits[:, None], high, 0.0)
    bounds = np.array([width, height])
    low, high = np.clip(low, 0, bounds).astype(int), np.clip(high, 0, bounds).astype(int)
    span = (high - low).max(axis=1)
    seen = np.flatnonzero(fits & ((high - low).min(axis=1) > 0))
    if work is not None:
        seen = seen[work.spend(np.prod(high[seen] - low[seen], axis=1))]
    level = np.ceil(np.log2(np.maximum(span[seen], 1))).astype(int)
    for step in np.unique(level):
        group, side = seen[level == step], int(2**step)
        if step > LARGE:
            for k in group:
                across, down = (int(x) for x in high[k] - low[k])
                _fill(buffer, corners, np.array([k]), low, across, down, width, height)
            continue
        most = max(1, FRAGMENTS // side**2)
        for begin in range(0, len(group), most):
            _fill(buffer, corners, group[begin:begin + most], low, side, side, width, height)
    return buffer


def _fill(buffer: Buffer, corners: Array, group: Array, low: Array, across: int, down: int,
          width: int, height: int) -> None:
    """Triangles of a group in boxes of one size from their lower corners."""
    a, b, c = (corners[group, k] for k in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    area = np.where(np.abs(area) > 1e-12, area, np.nan)
    x = low[group, 0, None, None] + np.arange(across)[None, None, :]
    y = low[group, 1, None, None] + np.arange(down)[None, :, None]

    def edge(p: Array, q: Array) -> Array:
        px, py = p[:, 0, None, None], p[:, 1, None, None]
        dx, dy = (q[:, 0] - p[:, 0])[:, None, None], (q[:, 1] - p[:, 1])[:, None, None]
        return (dx * (y + 0.5 - py) - dy * (x + 0.5 - px)) / area[:, None, None]

    u, v = edge(b, c), edge(c, a)
    w = 1 - u - v
    inside = (u >= 0) & (v >= 0) & (w >= 0) & (x < width) & (y < height)
    which, row, column = np.nonzero(inside)
    u, v, w = (each[inside] for each in (u, v, w))
    near = u * a[which, 2] + v * b[which, 2] + w * c[which, 2]
    pixel = (low[group[which], 1] + row) * width + low[group[which], 0] + column
    depth = 1 / near
    # the nearest is written last; a triangle alone meets each pixel once
    order = np.argsort(-depth, kind="stable") if len(group) > 1 else np.arange(len(depth))
    pixel, depth = pixel[order], depth[order]
    nearer = depth < buffer.depth[pixel]
    order, pixel, depth = order[nearer], pixel[nearer], depth[nearer]
    buffer.depth[pixel] = depth
    buffer.triangle[pixel] = group[which[order]]
    buffer.weights[pixel] = np.stack([u[order], v[order], w[order]], axis=1)
