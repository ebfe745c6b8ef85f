"""Arrays of users: one sentence names the argument, what came and what was expected."""

import numpy as np
import pytest

import nlink
from nlink.scalars.arrays import batch, single


@pytest.mark.parametrize(("given", "shape", "error", "message"), [
    ([1.0, 2.0], (3,), ValueError, r"q: shape \(2,\), expected \(\.\.\., 3\)$"),
    (np.ones((3, 2)), (3,), ValueError, r"expected \(\.\.\., 3\); did you mean q\.T\?"),
    ([[1.0], [1.0, 2.0]], (2,), ValueError, "q: not a rectangular array of numbers"),
    (["a"], (1,), TypeError, "q: dtype <U1 does not convert to float64 safely"),
    ([1j], (1,), TypeError, "q: dtype complex128 does not"),
])
def test_batches_are_refused_in_a_sentence(given, shape, error, message):
    with pytest.raises(error, match=message):
        batch("q", given, shape)


@pytest.mark.parametrize(("given", "shape", "message"), [
    ("down", (3,), r"g: 'down', expected numbers of shape \(3,\)"),
    ([[1.0, 2.0]], (2,), r"g: shape \(1, 2\), expected \(2,\)"),
    ([[1.0, 2.0]], (None, 3), r"g: shape \(1, 2\), expected \(n, 3\)"),
    ([np.nan], (None,), "contains a number that is not finite"),
])
def test_single_arrays_are_refused_in_a_sentence(given, shape, message):
    with pytest.raises(ValueError, match=message):
        single("g", given, shape)


def test_a_batch_that_fits_is_not_copied_and_a_single_array_is():
    x = np.ones((4, 3))
    assert batch("q", x, (3,)) is x
    assert not np.shares_memory(single("q", x, (4, 3)), x)
    assert single("q", [np.inf], (1,), finite=False)[0] == np.inf


def test_every_door_says_the_same():
    robot = nlink.load("planar3")
    for door in (lambda q: robot.mass_matrix(q), lambda q: nlink.simulate(robot, q0=q, t=0.1)):
        with pytest.raises(ValueError, match=r"q0?: shape \(2,\), expected \(\.\.\., 3\)"):
            door([0.0, 0.0])
