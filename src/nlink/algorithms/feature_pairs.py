"""How two features of bodies meet: gap, normal, and the point where they touch, on any scalar.

The normal n is the gradient of the gap by the place of the first body. Against a half space the
point that touches is the lowest of the first body, its support against n; between round features,
which are points and lines with a radius around them, it lies on the shortest way between both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nlink.algorithms.kinematics import Place
from nlink.model.contacts import (
    EllipsoidSurface,
    Feature,
    HalfSpace,
    RimPoint,
    RoundPoint,
    RoundSegment,
    SolidBox,
    Terrain,
)
from nlink.scalars.functions import (
    Scalar,
    clip,
    divide,
    floor,
    less,
    maximum,
    minimum,
    sqrt,
    where,
)
from nlink.spatial import Matrix, Vector

Meeting = tuple[Scalar, Vector, Vector]
"""Gap, normal, and the arm of the point in the axes of the first body."""
UP = Vector(0.0, 0.0, 1.0)
UPRIGHT = 1e-12
"""The square of the sine of a cylinder's tilt below which no point of its rim is the lowest."""
PARALLEL = 1e-12
"""The square of the sine of the angle between lines that are taken for parallel."""
LEAST = 1e-200
"""What is divided by is not smaller."""
SAME = 1e-6
"""Places on a line that are nearer to each other, as parts of its length, are one."""
APART = 1e6
"""A gap, in m, that never closes."""


def meeting(one: Feature, place: Place, two: Feature, other: Place) -> Meeting:
    """Two features on bodies in these places."""
    return MEETINGS[type(one), type(two)](one, place, two, other)


def _round_on_plane(one: RoundPoint, place: Place, two: HalfSpace, other: Place) -> Meeting:
    """A ball above a plane: its lowest point is a radius from the centre, against the normal."""
    n = other.R @ two.normal
    centre = place.p + place.R @ one.centre
    gap = n.dot(centre - other.p) - two.offset - one.radius
    return gap, n, one.centre - (place.R.T @ n) * one.radius


def _support_on_plane(one: Any, place: Place, two: HalfSpace, other: Place) -> Meeting:
    """A body above a plane: its lowest point."""
    n = other.R @ two.normal
    arm = support(one, place.R.T @ n)
    return n.dot(place.p + place.R @ arm - other.p) - two.offset, n, arm


def support(one: RoundPoint | RimPoint | EllipsoidSurface, n: Vector) -> Vector:
    """The lowest point of a feature where n is up, in the axes of its body."""
    if isinstance(one, RoundPoint):
        return one.centre - n * one.radius
    if isinstance(one, EllipsoidSurface):
        # x = A u with |u| = 1 is lowest where u = -A n / |A n|
        squares = [a * a for a in one.half_axes]
        m = one.R.T @ n
        x = Vector(*(a * b for a, b in zip(squares, m.components, strict=True)))
        return one.centre - one.R @ x * divide(1.0, sqrt(x.dot(m)))
    height = n.dot(one.axis)
    across = n - one.axis * height
    size = across.dot(across)
    over = divide(1.0, sqrt(maximum(size, UPRIGHT)))
    tilted = less(UPRIGHT, size)
    down = Vector(*(where(tilted, -(x * over), y) for x, y in zip(
        across.components, one.aside.components, strict=True)))
    end: Scalar = one.end or where(less(height, 0.0), 1.0, -1.0)
    c, s = one.turn
    return (one.centre + one.axis * (one.half * end)
            + (down * c + one.axis.cross(down) * s) * one.radius)


def _support_on_terrain(one: Any, place: Place, two: Terrain, other: Place) -> Meeting:
    """A body above terrain: its lowest point along the normal of the patch below its centre, and
    how far that point is from the patch below itself."""
    _, n = ground(two, place.p + place.R @ one.centre - other.p)
    arm = support(one, place.R.T @ n)
    point = place.p + place.R @ arm - other.p
    height, n = ground(two, point)
    return (point.z - height) * n.z, n, arm


def ground(terrain: Terrain, at: Vector) -> tuple[Scalar, Vector]:
    """The height and the normal of terrain below a point: of the patch

    z = (1 - u) ((1 - v) z00 + v z01) + u ((1 - v) z10 + v z11).
    """
    cells, parts, inside = [], [], []
    for x, start, step, count in zip((at.x, at.y), terrain.start, terrain.step, terrain.count,
                                     strict=True):
        u = (x - start) * (1.0 / step)
        cell = clip(floor(u), 0.0, count - 2.0)
        cells.append(cell)
        parts.append(clip(u - cell, 0.0, 1.0))
        inside.append(where(less(0.0, u) & less(u, count - 1.0), 1.0 / step, 0.0))
    first = cells[0] * terrain.count[1] + cells[1]
    z00, z01, z10, z11 = (terrain.table(first + k) for k in (
        0.0, 1.0, float(terrain.count[1]), terrain.count[1] + 1.0))
    u, v = parts
    low, high = z00 + v * (z01 - z00), z10 + v * (z11 - z10)
    along_x = (high - low) * inside[0]
    along_y = ((1.0 - u) * (z01 - z00) + u * (z11 - z10)) * inside[1]
    over = divide(1.0, sqrt(1.0 + along_x * along_x + along_y * along_y))
    return (low + u * (high - low) + terrain.lift,
            Vector(-(along_x * over), -(along_y * over), over))


def _apart(one: Vector, two: Vector, radii: Scalar, radius: Scalar, place: Place) -> Meeting:
    """Points with radii around them, the first in the body of that place: along their distance."""
    way = one - two
    distance = sqrt(way.dot(way))
    known = less(0.0, distance)
    over = divide(1.0, maximum(distance, LEAST))
    n = Vector(*(where(known, x * over, y) for x, y in zip(
        way.components, UP.components, strict=True)))
    return distance - radii, n, place.R.T @ (one - place.p - n * radius)


def _round_on_round(one: RoundPoint, place: Place, two: RoundPoint, other: Place) -> Meeting:
    """Two balls."""
    return _apart(place.p + place.R @ one.centre, other.p + other.R @ two.centre,
                  one.radius + two.radius, one.radius, place)


def _round_on_segment(one: RoundPoint, place: Place, two: RoundSegment, other: Place) -> Meeting:
    """A ball and a capsule: by the nearest point of its line."""
    centre = place.p + place.R @ one.centre
    a, b = (other.p + other.R @ x for x in (two.a, two.b))
    along = b - a
    s = clip((centre - a).dot(along) / along.dot(along), 0.0, 1.0)
    return _apart(centre, a + along * s, one.radius + two.radius, one.radius, place)


def _segment_on_segment(one: RoundSegment, place: Place, two: RoundSegment, other: Place,
                        ) -> Meeting:
    """Two capsules, by the nearest points of their lines [Ericson, Real-time collision detection,
    5.1.9]; of lines that are parallel, in the middle of where they lie beside each other."""
    a1, b1 = (place.p + place.R @ x for x in (one.a, one.b))
    a2, b2 = (other.p + other.R @ x for x in (two.a, two.b))
    d1, d2, r = b1 - a1, b2 - a2, a1 - a2
    a, e, b, c, f = d1.dot(d1), d2.dot(d2), d1.dot(d2), d1.dot(r), d2.dot(r)
    square = a * e - b * b
    first, last = -(c / a), (b - c) / a  # where the second line begins and ends beside the first
    middle = 0.5 * (clip(minimum(first, last), 0.0, 1.0) + clip(maximum(first, last), 0.0, 1.0))
    parallel = less(square, PARALLEL * (a * e))
    s = where(parallel, middle, clip((b * f - c * e) / where(parallel, 1.0, square), 0.0, 1.0))
    t = clip((b * s + f) / e, 0.0, 1.0)
    s = where(parallel, s, clip((b * t - c) / a, 0.0, 1.0))
    return _apart(a1 + d1 * s, a2 + d2 * t, one.radius + two.radius, one.radius, place)


def _round_on_box(one: RoundPoint, place: Place, two: SolidBox, other: Place) -> Meeting:
    """A ball and a box: by the nearest point of the box to its centre."""
    return _box(place.p + place.R @ one.centre, one.radius, place, *_axes(two, other))


def _axes(two: SolidBox, other: Place) -> tuple[Vector, Matrix, tuple[Scalar, ...]]:
    """Centre, axes and half edges of a box in the world."""
    columns = (other.R @ x for x in (two.R.x, two.R.y, two.R.z))
    return other.p + other.R @ two.centre, Matrix(*columns), two.half


def _box(centre: Vector, radius: Scalar, place: Place, middle: Vector, R: Matrix,
         half: tuple[Scalar, ...]) -> Meeting:
    """A point with a radius around it, and a box: outside of it along the shortest way to it,
    inside through the nearest face."""
    x = (R.T @ (centre - middle)).components
    off = [a - clip(a, -h, h) for a, h in zip(x, half, strict=True)]
    square = off[0] * off[0] + off[1] * off[1] + off[2] * off[2]
    outside = less(0.0, square)
    distance = sqrt(square)
    over = divide(1.0, maximum(distance, LEAST))
    depths = [h - abs(a) for a, h in zip(x, half, strict=True)]
    depth = minimum(minimum(depths[0], depths[1]), depths[2])
    # one face alone, the first of those that are equally near
    faces = [~less(depth, depths[0]), ~less(depth, depths[1]), ~less(depth, depths[2])]
    faces = [faces[0], faces[1] & ~faces[0], faces[2] & ~faces[0] & ~faces[1]]
    n = R @ Vector(*(where(outside, d * over, where(face, where(less(a, 0.0), -1.0, 1.0), 0.0))
                     for d, face, a in zip(off, faces, x, strict=True)))
    arm = place.R.T @ (centre - place.p - n * radius)
    return where(outside, distance, -depth) - radius, n, arm


def _segment_on_box(one: RoundSegment, place: Place, two: SolidBox, other: Place) -> Meeting:
    """A capsule across a box, between its ends; nowhere if what is asked for is an end."""
    middle, R, half = _axes(two, other)
    ends = [place.p + place.R @ x for x in (one.a, one.b)]
    a, b = (R.T @ (x - middle) for x in ends)
    line = [*zip(a.components, (b - a).components, half, strict=True)]
    t = _nearest_to_box(line)
    known: Scalar = less(0.0, t) & less(t, 1.0)
    if one.far:
        low, high = _above_face(line, t)
        far = where(less(t - low, high - t), high, low)
        known = less(0.0, far) & less(far, 1.0) & less(low, high) & less(SAME, abs(far - t))
        t = far
    gap, n, arm = _box(ends[0] + (ends[1] - ends[0]) * t, one.radius, place, middle, R, half)
    return where(known, gap, APART), n, arm


Line = list[tuple[Scalar, Scalar, Scalar]]
"""For each axis of a box, where a line begins, how far it leads, and half of the box's edge."""


def _nearest_to_box(line: Line) -> Scalar:
    """Where from 0 to 1 a line is nearest to a box.

    The half of the derivative of its squared distance, phi(t) = d . (x - y) with y the nearest
    point of the box, grows in straight pieces that part where the line passes the plane of a
    face: its zero lies between two of these six places, and there on a straight piece.
    """

    def phi(t: Scalar) -> Scalar:
        total: Scalar = 0.0
        for x, dx, h in line:
            at = x + t * dx
            total = total + dx * (at - clip(at, -h, h))
        return total

    low, high, least, most = 0.0, 1.0, phi(0.0), phi(1.0)
    for x, dx, h in line:
        crosses = less(0.0, abs(dx))
        over = divide(1.0, where(crosses, dx, 1.0))
        for face in (-h, h):
            t = clip((face - x) * over, 0.0, 1.0)
            value = phi(t)
            up = less(value, 0.0) & less(low, t) & crosses
            down = ~less(value, 0.0) & less(t, high) & crosses
            low, least = where(up, t, low), where(up, value, least)
            high, most = where(down, t, high), where(down, value, most)
    between = less(least, 0.0) & less(0.0, most)
    t = low + (high - low) * where(
        between, divide(-least, where(between, most - least, 1.0)), 0.0)
    return where(less(least, 0.0), where(between, t, high), low)


def _above_face(line: Line, t: Scalar) -> tuple[Scalar, Scalar]:
    """From where to where, from 0 to 1, a line is above the face that it is nearest to at t."""
    off = [abs(x + t * dx) - h for x, dx, h in line]
    most = maximum(maximum(off[0], off[1]), off[2])
    low, high = 0.0, 1.0
    for (x, dx, h), own in zip(line, off, strict=True):
        beside = less(own, most) & less(0.0, abs(dx))
        over = divide(1.0, where(beside, dx, 1.0))
        one, two = (-h - x) * over, (h - x) * over
        low = where(beside, maximum(low, minimum(one, two)), low)
        high = where(beside, minimum(high, maximum(one, two)), high)
    return low, high


MEETINGS: dict[tuple[type, type], Callable[[Any, Place, Any, Place], Meeting]] = {
    (RoundPoint, HalfSpace): _round_on_plane,
    (RimPoint, HalfSpace): _support_on_plane,
    (EllipsoidSurface, HalfSpace): _support_on_plane,
    (RoundPoint, Terrain): _support_on_terrain,
    (RimPoint, Terrain): _support_on_terrain,
    (EllipsoidSurface, Terrain): _support_on_terrain,
    (RoundPoint, RoundPoint): _round_on_round,
    (RoundPoint, RoundSegment): _round_on_segment,
    (RoundSegment, RoundSegment): _segment_on_segment,
    (RoundPoint, SolidBox): _round_on_box,
    (RoundSegment, SolidBox): _segment_on_box,
}
"""How two features meet, by their types."""
