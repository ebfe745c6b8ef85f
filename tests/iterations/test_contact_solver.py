"""The contact solver on problems with known laws: random ones, singular ones, huge numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nlink.iterations.contact_cone import ContactBlock, cleared, sweep, worst
from nlink.iterations.contact_newton import ScaledContacts, newton_step, unscaled
from nlink.iterations.contact_steps import SEARCH


class Problems:
    """Problems side by side: each scalar is an array over them."""

    def __init__(self, G: np.ndarray, g: np.ndarray, mu: np.ndarray) -> None:
        self.rows, self.count = g.shape[1], len(g)
        self.G = [[G[:, i, j] for j in range(self.rows)] for i in range(self.rows)]
        self.g = [g[:, i] for i in range(self.rows)]
        self.blocks = [ContactBlock.of([row[k:k + 3] for row in self.G[k:k + 3]], mu[:, k // 3])
                       for k in range(0, self.rows, 3)]

    def swept(self, sweeps: int) -> tuple[list, np.ndarray]:
        lam, slips = [np.zeros(self.count)] * self.rows, [np.zeros(self.count)] * (self.rows // 3)
        for _ in range(sweeps):
            lam, slips = sweep(self.blocks, self.G, self.g, lam, slips)
        return lam, worst(self.blocks, self.G, self.g, lam)

    def searched(self) -> np.ndarray:
        """The residuals that the search of a step ends with."""
        scaled = ScaledContacts.of(self.blocks, self.G, self.g)
        best = [np.zeros(self.count)] * self.rows, [np.zeros(self.count)] * len(self.blocks)
        least = np.full(self.count, np.inf)

        def visit(lam: list, slips: list, times: int = 2) -> None:
            nonlocal best, least
            for _ in range(times):
                lam, slips = sweep(self.blocks, self.G, self.g, lam, slips)
            found = worst(self.blocks, self.G, self.g, lam)
            best = tuple([np.where(found < least, a, b) for a, b in zip(*pair, strict=True)]
                         for pair in zip((lam, slips), best, strict=True))
            least = np.fmin(least, found)

        for sweeps, start, steps, fall in SEARCH:
            for _ in range(sweeps if least.max() > 1e-9 else 0):
                visit(*best)
            x, eps = best[0], np.full(self.count, start)
            for _ in range(steps):
                if least.max() < 1e-9:
                    return least
                x, eps = newton_step(scaled, x, eps, fall, lambda: None)
                found = cleared(self.blocks, self.G, self.g, unscaled(scaled, x))
                visit(*found, times=0)
                visit(*found)
        return least


def random(seed: int, contacts: int, rates: int, count: int = 200) -> Problems:
    """G = J J^T of random rows: singular where there are fewer rates than rows."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(count, 3 * contacts, rates))
    v = rng.normal(size=(count, rates))
    return Problems(J @ J.swapaxes(1, 2), np.einsum("kij,kj->ki", J, v),
                    rng.uniform(0.0, 1.0, (count, contacts)))


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def test_laws_hold_where_the_residual_is_zero():
    """Signorini, the cone, and sliding against the impulse, of what sweeps give."""
    problems = random(0, 2, 8)
    lam, residual = problems.swept(300)
    solved = residual < 1e-10
    assert solved.mean() > 0.9
    sig = [sum(row[j] * lam[j] for j in range(6)) + g
           for row, g in zip(problems.G, problems.g, strict=True)]
    for k, block in ((0, problems.blocks[0]), (3, problems.blocks[1])):
        n, t = lam[k + 2][solved], np.hypot(lam[k], lam[k + 1])[solved]
        speed, slip = sig[k + 2][solved], np.hypot(sig[k], sig[k + 1])[solved]
        assert n.min() >= 0
        assert speed.min() > -1e-9
        assert abs(n * speed).max() < 1e-8
        assert (t <= block.mu[solved] * n + 1e-9).all()
        power = (sig[k] * lam[k] + sig[k + 1] * lam[k + 1])[solved]
        np.testing.assert_allclose(power, -block.mu[solved] * n * slip, atol=1e-7)


@pytest.mark.parametrize("rates", [3, 6, 12])
def test_problems_are_solved_or_known_not_to_be(rates):
    """Singular ones too: no nan, and a method for what the other leaves."""
    problems = random(rates, 3, rates, count=100)
    lam, residual = problems.swept(50)
    assert np.isfinite(np.array(lam)).all()
    assert np.isfinite(residual).all()
    best = problems.searched()
    assert np.isfinite(best).all()
    assert (best < 1e-8).all()


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_numbers_of_any_size_give_numbers(scale):
    rng = np.random.default_rng(0)
    J, v = rng.normal(size=(2, 20, 6, 6))[0], rng.normal(size=(20, 6))
    problems = Problems(J @ J.swapaxes(1, 2) * scale, v * scale, np.full((20, 2), 0.5))
    lam, _ = problems.swept(20)
    assert np.isfinite(np.array(lam)).all()


def test_one_contact_is_solved_by_one_visit_or_two():
    """Whether it opens, sticks or slides: by the laws, and by hand where friction is 0."""
    problems = random(5, 1, 3, count=500)
    assert np.quantile(problems.swept(3)[1], 0.99) < 1e-9
    smooth = Problems(np.array([np.diag([1.0, 2.0, 4.0])]), np.array([[3.0, 4.0, -8.0]]),
                      np.zeros((1, 1)))
    lam, residual = smooth.swept(2)
    assert np.ravel(lam) == pytest.approx([0, 0, 2.0])
    assert residual[0] < 1e-12


def test_a_wall_that_nothing_moves_is_reported():
    """G = 0 with a speed into it has no solution, and a residual that says so."""
    lam, residual = Problems(np.zeros((1, 3, 3)), np.array([[0.0, 0.0, -1.0]]),
                             np.ones((1, 1))).swept(5)
    assert np.isfinite(np.array(lam)).all()
    assert residual[0] == pytest.approx(1.0)


STORED = np.load(Path(__file__).parents[1] / "data" / "contact_problems.npz")


@pytest.mark.slow
@pytest.mark.parametrize("name", dict.fromkeys(key.split("/")[0] for key in STORED.files))
def test_problems_of_simulated_robots_are_solved(name):
    """Quadrupeds that stand, land, slide, trip, are stiff or heavy; a box on eight corners, and a
    stack with the heaviest body on top: those of many that sweeps found hardest."""
    half, g, mu = (STORED[f"{name}/{key}"] for key in ("G", "g", "friction"))
    G = np.zeros((len(g), g.shape[1], g.shape[1]))
    i, j = np.triu_indices(g.shape[1])
    G[:, i, j] = G[:, j, i] = half
    problems = Problems(G, g, mu)
    _, best = problems.swept(50)
    hard = best > 1e-8
    if hard.any():
        best[hard] = Problems(G[hard], g[hard], mu[hard]).searched()
    assert best.max() < 1e-8
