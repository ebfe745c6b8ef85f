"""Methods are what their names say: every order condition, and the order seen in practice."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import nlink
from nlink.iterations.driver import drive
from nlink.iterations.integration import STATUS, Integration
from nlink.iterations.methods import METHODS
from nlink.iterations.tableau import Tableau, trees

TABLEAUX = {name: method.tableau for name, method in METHODS.items()
            if hasattr(method, "tableau")}
GAUSS4, DOP853 = TABLEAUX["symplectic"], TABLEAUX["dop853"]
methods = pytest.mark.parametrize("method", TABLEAUX.values(), ids=lambda m: m.name)


def test_rooted_trees_are_counted():
    assert [len(trees(n)) for n in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]


@methods
def test_order_conditions_hold_to_the_order_and_no_further(method):
    exact = isinstance(method.b[0], Fraction)
    assert method.order_defect(method.order) <= (0 if exact else 1e-14)
    if method.order < 8:  # beyond, the trees are too many
        assert method.order_defect(method.order + 1) > 1e-4


@methods
def test_embedded_formulas_have_their_order(method):
    """Weights of the error reach over the rate at the new state, a stage more."""
    if not method.errors:
        return
    longer = Tableau(method.name, method.order, (*method.a, method.b), (*method.b, 0.0),
                     (*method.c, 1.0))
    orders = (5, 3) if method is DOP853 else (method.error_order,)
    for weights, order in zip(method.errors, orders, strict=True):
        weights = (*weights, *[0] * (len(longer.b) - len(weights)))
        embedded = [b - e for b, e in zip(longer.b, weights, strict=True)]
        assert longer.order_defect(order, embedded) <= 1e-14
        assert longer.order_defect(order + 1, embedded) > 1e-6
    assert all(abs(sum(weights)) <= 1e-14 for weights in method.errors)


@methods
def test_interpolants_meet_both_ends_with_their_slopes(method):
    if not method.dense:
        return
    F = np.array([[float(x) for x in row] for row in method.dense])
    size = F.shape[1]
    first, new = np.eye(size)[0], np.eye(size)[len(method.b)]
    b = np.zeros(size)
    b[:len(method.b)] = [float(x) for x in method.b]
    assert np.abs(F[0] - b).max() <= 1e-15  # y(1) = y + h sum b K
    assert np.abs(F[0] + F[1] - first).max() <= 1e-15  # slope K_0 at x = 0
    assert np.abs(F[0] - F[1] - F[2] - new).max() <= 1e-14  # slope K_s at x = 1


def test_gauss_is_symplectic():
    """b_i a_ij + b_j a_ji = b_i b_j [Sanz-Serna]."""
    a, b = np.array(GAUSS4.a), np.array(GAUSS4.b)
    assert np.abs(b[:, None] * a + (b[:, None] * a).T - np.outer(b, b)).max() <= 1e-16


def test_a_wrong_tableau_is_refused():
    with pytest.raises(ValueError, match=r"row 1 of a sums to 1/3, expected c = 1/2"):
        Tableau("x", 2, ((), (Fraction(1, 3),)), (Fraction(0), Fraction(1)),
                (Fraction(0), Fraction(1, 2)))
    with pytest.raises(ValueError, match="neither strictly lower triangular nor square"):
        Tableau("x", 2, ((), ()), (0.5, 0.5), (0.0, 0.0))


@pytest.mark.parametrize(("method", "order", "steps"), [
    ("rk4", 4, (0.01, 0.005, 0.0025)), ("symplectic", 4, (0.04, 0.02, 0.01)),
    ("semi_implicit", 1, (0.002, 0.001, 0.0005))])
def test_order_of_convergence_of_fixed_steps(method, order, steps):
    robot = nlink.load("double_pendulum")
    q0, t = [0.4 - np.pi / 2, -0.3], [0.0, 0.96]
    exact = nlink.simulate(robot, q0, t=t, method="dop853", rtol=1e-13, atol=1e-15).q[-1]
    errors = [np.abs(nlink.simulate(robot, q0, t=t, method=method, step=h).q[-1] - exact).max()
              for h in steps]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.abs(orders - order).max() < 0.25


@pytest.mark.slow
def test_an_implicit_step_is_solved_where_the_iteration_converges():
    """The change of a sweep goes up and down on its way to rounding."""
    robot = nlink.load("panda")
    q0, qd0 = robot.random_state(0, (24,))
    run = nlink.simulate(robot, q0, qd0, t=0.5, method="symplectic")
    assert set(run.status) == {"done"}
    short = nlink.simulate(robot, q0, qd0, t=0.5, method="symplectic", step=0.005)
    exact = nlink.simulate(robot, q0, qd0, t=0.5, method="dop853")
    error, half = (np.abs(each.q - exact.q).max() for each in (run, short))
    assert half <= error / 8


@pytest.mark.parametrize(("rate", "step", "said"), [
    (40.0, 0.05, "done"), (40.0, 0.2, "not converged"), (np.nan, 0.05, "not finite")])
def test_an_iteration_that_does_not_converge_says_so(rate, step, said):
    """The iteration for a harmonic oscillator converges if rate * step is not too large."""
    given = {"rates": lambda t, y: rate * np.array([y[1], -y[0]]), "least": 1e-15, "most": 1000,
             "largest": np.inf}
    times = np.array([0.0, 0.4])
    done = drive(Integration(METHODS["symplectic"], dense=False), given,
                 {"y": [1.0, 0.0], "h": step}, times, dense=False)
    assert done.status == STATUS[said]
    robot = nlink.Robot.from_dh([{"joint": "prismatic", "mass": 1.0}], gravity=(0, 0, 0))
    run = nlink.simulate(robot, [1.0], t=times, method="symplectic", step=step,
                         tau=lambda t, q, qd: [-rate**2 * q[0]])
    assert run.status == said
    if said == "done":
        # scaled to (q, p / rate) the equations of the robot are those above
        assert np.abs(run.q[-1] - done.out[-1, 0]).max() <= 1e-12


@pytest.mark.parametrize(("method", "robot", "q0", "end", "n"), [
    ("rkf45", "double_pendulum", [0.4 - np.pi / 2, -0.3], 0.96, 64),
    ("dopri5", "double_pendulum", [0.4 - np.pi / 2, -0.3], 0.96, 64),
    ("verner65", "puma560", np.zeros(6), 1.0, 24),
    ("dop853", "planar3", [-1.2, 0.3, 0.2], 2.0, 32),
    ("rkf78", "planar3", [-1.2, 0.3, 0.2], 2.0, 32)])
def test_order_of_convergence_at_imposed_steps(method, robot, q0, end, n):
    """Tolerances so loose that every step is one output interval, where the table of forces,
    all zero, makes methods with an interpolant stop as well."""
    robot = nlink.load(robot)
    exact = nlink.simulate(robot, q0, t=[0, end], method="dop853", rtol=1e-13, atol=1e-15)
    errors = []
    for steps in (n, 2 * n):
        run = nlink.simulate(robot, q0, t=np.linspace(0, end, steps + 1), method=method,
                             tau=np.zeros((steps + 1, robot.n)), rtol=1e9, atol=1e9, step=end)
        assert run.stats.steps == steps
        errors.append(max(np.abs(run.q[-1] - exact.q[-1]).max(),
                          np.abs(run.qd[-1] - exact.qd[-1]).max()))
    assert abs(np.log2(errors[0] / errors[1]) - TABLEAUX[method].order) < 0.7


@pytest.mark.slow
def test_the_adams_method_takes_fewer_evaluations_the_tighter_it_is():
    """Its order rises with the tolerance's demands: errors fall in step, costs hardly grow."""
    robot, q0 = nlink.load("puma560"), np.zeros(6)
    exact = nlink.simulate(robot, q0, t=1.0, method="dop853", rtol=1e-13, atol=1e-15).q
    costs = []
    for rtol in (1e-5, 1e-8, 1e-11):
        run = nlink.simulate(robot, q0, t=1.0, method="abm", rtol=rtol, atol=rtol / 100)
        assert np.abs(run.q - exact).max() <= 100 * rtol
        costs.append(run.stats.evaluations)
    others = nlink.simulate(robot, q0, t=1.0, rtol=1e-11, atol=1e-13)
    assert costs[2] < 5 * costs[0]
    assert costs[2] < others.stats.evaluations / 2


def test_adams_is_exact_for_polynomials_of_its_order():
    """A slide pushed by a force linear in time moves along a cubic: any order above two has it."""
    slide = nlink.Robot.from_dh([{"joint": "prismatic", "mass": 1.0}], gravity=(0, 0, 0))
    run = nlink.simulate(slide, [0.0], t=2.0, every=0.1, tau=lambda t, q, qd: [6 * t],
                         method="abm", rtol=1e-6, atol=1e-8)
    assert np.abs(run.q[:, 0] - run.t**3).max() <= 1e-6
    assert run.stats.steps < 60
