"""Where bodies may touch: gap, normal and point of every contact, on any scalar.

How two features meet is in `feature_pairs`.

The gap g is the distance of two features, negative where they overlap, and the normal n is its
gradient by the place of the first body: moving that body by v changes the gap at the rate n . v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nlink.algorithms.closures import Ends
from nlink.algorithms.feature_pairs import meeting
from nlink.algorithms.kinematics import HERE, Place
from nlink.algorithms.sweep import Column, Driver
from nlink.model.contacts import Contact
from nlink.scalars.functions import Scalar, divide, less, where
from nlink.spatial import Matrix, Vector, Wrench


class TouchingDriver(Driver, Protocol):
    """What an algorithm of contact is given besides."""

    @property
    def contacts(self) -> tuple[Contact, ...]: ...


@dataclass(frozen=True, slots=True)
class Touch:
    """A contact in one configuration, in the world's axes.

    The forces of the contact act at one point of both bodies, which is on the surface of the
    first: `arm` leads there from the body's origin, in the body's own axes.
    """

    contact: Contact
    gap: Scalar
    normal: Vector
    """Of length 1, from the other body to the first."""
    arm: Vector
    place: Place
    """Of the first body."""
    other: Place
    """Of the other body; the world's if there is none."""

    @property
    def point(self) -> Vector:
        """Where forces act, in the world."""
        return self.place.p + self.place.R @ self.arm

    @property
    def tangents(self) -> tuple[Vector, Vector]:
        """Two directions along the surface: with the normal, a right-handed frame (t, u, n)."""
        return tangents(self.normal)

    def on_bodies(self) -> Ends:
        """For each direction, t, u, n, the unit wrench on each moving body (from 0), in its axes,
        about its origin: on the first along the direction, on the other against it."""
        contact, rows = self.contact, []
        for direction in (*self.tangents, self.normal):
            ends = []
            if contact.body:
                force = self.place.R.T @ direction
                ends.append((contact.body - 1, Wrench(self.arm.cross(force), force)))
            if contact.other:
                back = self.other.R.T
                force = -(back @ direction)
                arm = back @ (self.point - self.other.p)
                ends.append((contact.other - 1, Wrench(arm.cross(force), force)))
            rows.append(tuple(ends))
        return rows


def contact_points(mechanism: TouchingDriver, places: Column, origin: Vector = HERE,
                   ) -> list[Touch]:
    """Every contact, for bodies in these places, the base's origin being at `origin`."""
    world = Place(Matrix.identity(), origin - mechanism.base.p)
    touches = []
    for contact in mechanism.contacts:
        one, two = (mechanism.at(places, body) if body else world
                    for body in (contact.body, contact.other))
        gap, normal, arm = meeting(contact.one, one, contact.two, two)
        touches.append(Touch(contact, gap, normal, arm, one, two))
    return touches


def tangents(n: Vector) -> tuple[Vector, Vector]:
    """t and u with (t, u, n) right-handed and of length 1, on any scalar.

    [Duff et al., Building an orthonormal basis, revisited, JCGT 6(1), 2017].
    """
    s = where(less(n.z, 0.0), -1.0, 1.0)
    a = divide(-1.0, s + n.z)
    b = n.x * n.y * a
    return (Vector(1.0 + s * n.x * n.x * a, s * b, -(s * n.x)),
            Vector(b, s + n.y * n.y * a, -n.y))
