"""Each spatial type against dense 3x3 and 6x6 NumPy matrices."""

from __future__ import annotations

import numpy as np
import pytest

from nlink.spatial import (
    ArticulatedInertia,
    Matrix,
    RigidInertia,
    Rotation,
    Symmetric,
    Transform,
    Turn,
    Twist,
    Vector,
    Wrench,
    euler_tensor,
)

EPS = np.finfo(float).eps
SEEDS = range(5)


def dense(value) -> np.ndarray:
    """Vectors and twists by components, tensors by rows, inertias as 6x6 matrices."""
    if isinstance(value, Matrix | Symmetric):
        return np.array(value.rows, dtype=float)
    if isinstance(value, RigidInertia):
        c = skew(dense(value.h))
        return np.block([[dense(value.J), c], [-c, value.m * np.eye(3)]])
    if isinstance(value, ArticulatedInertia):
        H = dense(value.H)
        return np.block([[dense(value.J), H], [H.T, dense(value.M)]])
    return np.array(value.components, dtype=float)


def skew(v: np.ndarray) -> np.ndarray:
    x, y, z = v
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def turned(axis: str, c: float, s: float) -> np.ndarray:
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]] if axis == "x"
                    else [[c, -s, 0], [s, c, 0], [0, 0, 1]])


def motion_matrix(X: Transform) -> np.ndarray:
    """B with t_child = B t_parent, the twist of the child's origin in the child's axes."""
    R = dense(X.R.matrix())
    origin = dense(X.point(Vector.zero()))
    return np.block([[R.T, np.zeros((3, 3))], [-R.T @ skew(origin), R.T]])


class Draw:
    """Random values of every spatial type."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def vector(self) -> Vector:
        return Vector(*self.rng.normal(size=3).tolist())

    def matrix(self) -> Matrix:
        return Matrix.from_rows(self.rng.normal(size=(3, 3)).tolist())

    def symmetric(self) -> Symmetric:
        return Symmetric(*self.rng.normal(size=6).tolist())

    def twist(self) -> Twist:
        return Twist(self.vector(), self.vector())

    def wrench(self) -> Wrench:
        return Wrench(self.vector(), self.vector())

    def turn(self, axis: str) -> Turn:
        angle = self.rng.uniform(-3, 3)
        return Turn(axis, float(np.cos(angle)), float(np.sin(angle)))

    def transform(self) -> Transform:
        turns = (self.turn("z"), self.turn("x"), self.turn("z"))
        return Transform(self.vector(), Rotation(turns), self.vector())

    def rigid(self) -> RigidInertia:
        return RigidInertia(float(self.rng.uniform(1, 2)), self.vector(), self.symmetric())

    def articulated(self) -> ArticulatedInertia:
        return ArticulatedInertia(self.symmetric(), self.matrix(), self.symmetric())


@pytest.fixture(params=SEEDS)
def draw(request) -> Draw:
    return Draw(request.param)


def assert_equal(value, expected: np.ndarray) -> None:
    got = value if isinstance(value, float) else dense(value)
    np.testing.assert_allclose(got, expected, rtol=0, atol=64 * EPS * (1 + np.abs(expected).max()))


def test_vector_arithmetic_is_componentwise(draw):
    a, b = draw.vector(), draw.vector()
    assert_equal(a + b, dense(a) + dense(b))
    assert_equal(a - b, dense(a) - dense(b))
    assert_equal(-a, -dense(a))
    assert_equal(a * 3.0, dense(a) * 3)
    assert_equal(a.dot(b), dense(a) @ dense(b))
    assert_equal(a.cross(b), np.cross(dense(a), dense(b)))


@pytest.mark.parametrize("axis", ["x", "z"])
@pytest.mark.parametrize("kind", ["vector", "matrix", "symmetric"])
def test_a_turn_is_its_rotation_matrix(draw, axis, kind):
    turn, thing = draw.turn(axis), getattr(draw, kind)()
    R = turned(axis, turn.c, turn.s)
    expected = R @ dense(thing) if kind == "vector" else R @ dense(thing) @ R.T
    assert_equal(turn.to_parent(thing), expected)
    assert_equal(turn.to_child(turn.to_parent(thing)), dense(thing))


def test_turns_about_one_axis_compose(draw):
    a, b = draw.turn("z"), draw.turn("z")
    both = a @ b
    assert_equal(both.to_parent(Matrix.identity()), np.eye(3))
    v = draw.vector()
    assert_equal(both.to_parent(v), dense(a.to_parent(b.to_parent(v))))


def test_rotation_matrix_is_the_product_of_turns(draw):
    rotation = draw.transform().R
    R = np.eye(3)
    for turn in rotation.turns:
        R = R @ turned(turn.axis, turn.c, turn.s)
    assert_equal(rotation.matrix(), R)
    v = draw.vector()
    assert_equal(rotation.to_parent(v), R @ dense(v))
    assert_equal(rotation.to_child(v), R.T @ dense(v))


def test_matrix_and_symmetric_act_like_dense(draw):
    v = draw.vector()
    for tensor, other in ((draw.matrix(), draw.matrix()), (draw.symmetric(), draw.symmetric())):
        assert_equal(tensor @ v, dense(tensor) @ dense(v))
        assert_equal(tensor + other, dense(tensor) + dense(other))
        assert_equal(tensor - other, dense(tensor) - dense(other))
    M = draw.matrix()
    assert_equal(M.T, dense(M).T)
    assert Matrix.from_rows(M.rows) == M
    assert dense(Symmetric.diagonal(1, 2, 3)).tolist() == np.diag([1, 2, 3]).tolist()


def test_euler_tensor_is_skew_wd_plus_square_of_skew_w(draw):
    w, wd = draw.vector(), draw.vector()
    assert_equal(euler_tensor(w, wd), skew(dense(wd)) + skew(dense(w)) @ skew(dense(w)))


def test_twists_and_wrenches_transform_by_transposes(draw):
    X, t, f = draw.transform(), draw.twist(), draw.wrench()
    B = motion_matrix(X)
    assert_equal(X.twist_to_child(t), B @ dense(t))
    assert_equal(X.wrench_to_parent(f), B.T @ dense(f))


def test_power_does_not_depend_on_the_frame(draw):
    X, t, f = draw.transform(), draw.twist(), draw.wrench()
    assert_equal(X.twist_to_child(t).dot(f), dense(t) @ dense(X.wrench_to_parent(f)))


def test_twist_and_wrench_arithmetic_is_componentwise(draw):
    for a, b in ((draw.twist(), draw.twist()), (draw.wrench(), draw.wrench())):
        assert_equal(a + b, dense(a) + dense(b))
        assert_equal(a - b, dense(a) - dense(b))
        assert_equal(a * 2.0, dense(a) * 2)


def test_wrench_shift_moves_the_reference_point(draw):
    f, r = draw.wrench(), draw.vector()
    moment = dense(f.moment) + np.cross(dense(r), dense(f.force))
    assert_equal(f.shift(r), np.concatenate([moment, dense(f.force)]))


@pytest.mark.parametrize("operation", ["__add__", "__sub__"])
def test_a_motion_is_never_added_to_a_force(operation):
    t, f = Twist.zero(), Wrench.zero()
    assert getattr(t, operation)(f) is NotImplemented
    with pytest.raises(TypeError, match="unsupported operand"):
        t + f
    with pytest.raises(TypeError, match="unsupported operand"):
        f - t


def test_rigid_inertia_from_com_is_huygens_steiner(draw):
    m, c, I = 2.5, draw.vector(), draw.symmetric()
    inertia = RigidInertia.from_com(m, c, I)
    C = skew(dense(c))
    assert_equal(inertia.h, m * dense(c))
    assert_equal(inertia.J, dense(I) - m * C @ C)


@pytest.mark.parametrize("kind", ["rigid", "articulated"])
def test_inertias_transform_by_congruence(draw, kind):
    I, other, X, t = getattr(draw, kind)(), getattr(draw, kind)(), draw.transform(), draw.twist()
    B = motion_matrix(X)
    assert_equal(I @ t, dense(I) @ dense(t))
    assert_equal(I + other, dense(I) + dense(other))
    assert_equal(I.to_parent(X), B.T @ dense(I) @ B)


def test_a_rigid_inertia_is_an_articulated_one(draw):
    I, r = draw.rigid(), draw.vector()
    assert_equal(ArticulatedInertia.from_rigid(I), dense(I))
    assert_equal(ArticulatedInertia.from_rigid(I).shift(r), dense(I.shift(r)))


def test_newton_euler_is_the_rate_of_momentum(draw):
    I, w, wd, a = draw.rigid(), draw.vector(), draw.vector(), draw.vector()
    J, h, W = dense(I.J), dense(I.h), skew(dense(w))
    moment = J @ dense(wd) + W @ J @ dense(w) + np.cross(h, dense(a))
    force = I.m * dense(a) + (skew(dense(wd)) + W @ W) @ h
    assert_equal(I.newton_euler(euler_tensor(w, wd), a), np.concatenate([moment, force]))


@pytest.mark.parametrize("kind", [Vector, Matrix, Symmetric, Twist, Wrench])
def test_zeros_are_literal(kind):
    assert not np.any(dense(kind.zero()))


@pytest.mark.parametrize("kind", [RigidInertia, ArticulatedInertia])
def test_zero_inertias_are_zero(kind):
    assert not np.any(dense(kind.zero()))
