"""The stiff method: its coefficients, its linear systems, and motions that others cannot follow."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.iterations.methods.rosenbrock import RODAS5P
from nlink.iterations.tableau import order_conditions
from nlink.simulation.implicit import jacobian_program, solving_programs
from nlink.simulation.simulator import simulate
from nlink.simulation.system import System
from nlink.testing import random_robot

PENDULUM = nlink.load("double_pendulum")


def spring(t, q, qd):
    """Rates of 1e2 and 1e5 per second, and a target that moves."""
    return [-1e6 * (q[0] - 0.3 * nlink.sin(2 * t)) - 1e4 * qd[0], -1e5 * qd[1]]


class Coefficients:
    """alpha, beta and weights of Rodas5P, from the transformed ones [Hairer and Wanner, IV.7]."""

    def __init__(self):
        s = len(RODAS5P.C)
        a, C = np.zeros((s, s)), np.zeros((s, s))
        for i, (row, other, _, _) in enumerate(RODAS5P.stages()):
            a[i, :len(row)], C[i, :len(other)] = row, other
        self.gamma = np.linalg.inv(np.eye(s) / RODAS5P.gamma - C)
        self.alpha = a @ self.gamma
        self.beta = self.alpha + self.gamma
        self.last, self.embedded = np.append(a[-1, :-1], 1.0), a[-1]

    def defect(self, weights, nodes, x=1.0):
        """The largest violation of the conditions for trees of so many nodes, after x h."""

        def phi(tree):
            values, matrix = np.ones(len(weights)), self.beta if len(tree) == 1 else self.alpha
            for branch in tree:
                values = values * (matrix @ phi(branch))
            return values

        return max(abs(weights @ self.gamma @ phi(tree) - x**nodes * float(value))
                   for tree, value in order_conditions(nodes))


def test_order_conditions_hold_to_the_order_and_no_further():
    method = Coefficients()
    for nodes in range(1, 6):
        assert method.defect(method.last, nodes) <= 1e-13
        assert method.defect(method.embedded, nodes) <= 1e-13 or nodes == 5
    assert method.defect(method.last, 6) > 1e-3
    assert method.defect(method.embedded, 5) > 1e-3
    _, _, c, d = zip(*RODAS5P.stages(), strict=True)
    np.testing.assert_allclose(method.alpha.sum(1), c, rtol=0, atol=1e-13)
    np.testing.assert_allclose(method.gamma.sum(1), d, rtol=0, atol=1e-13)


def test_interpolant_is_of_fourth_order():
    method, H = Coefficients(), np.array(RODAS5P.dense)
    for x in (0.2, 0.5, 0.9):
        weights = x * (method.last + (1 - x) * (H[0] + x * (H[1] + x * H[2])))
        assert max(method.defect(weights, nodes, x) for nodes in range(1, 5)) <= 1e-13
        assert method.defect(weights, 5, x) > 1e-5


def test_what_decays_fast_is_gone_after_a_step():
    """R(infinity) = 1 - b beta^-1 1 = 0, and |R(z)| <= 1 on the imaginary axis."""
    method = Coefficients()
    b, one = method.last @ method.gamma, np.ones(len(method.last))
    assert abs(1 - b @ np.linalg.solve(method.beta, one)) <= 1e-13
    for z in 1j * np.logspace(-2, 4, 200):
        assert abs(1 + z * b @ np.linalg.solve(np.eye(len(b)) - z * method.beta, one)) <= 1 + 1e-12


@pytest.mark.parametrize("driven", [False, True])
def test_order_of_convergence_at_imposed_steps(driven):
    """Time in the forces included: it has a term of its own in every stage."""
    tau = (lambda t, q, qd: [nlink.sin(20 * t) * q[1], nlink.exp(t) - qd[0]]) if driven else None
    options = {"tau": tau, "t": [0, 0.96]}
    exact = simulate(PENDULUM, [-1.2, -0.3], method="dop853", rtol=1e-13, atol=1e-15, **options)
    errors = []
    for steps in (48, 96):
        h = 0.96 / steps
        run = simulate(PENDULUM, [-1.2, -0.3], method="rodas5p", rtol=1e9, atol=1e9, step=h,
                       max_step=h, **options)
        assert run.stats.steps == steps
        errors.append(np.abs(run.q[-1] - exact.q[-1]).max())
    assert abs(np.log2(errors[0] / errors[1]) - 5) < 0.5


def _controller(t, q, qd):
    return [nlink.sin(3 * t) * x - 0.3 * q[-1] * q[0] for x in qd]


SYSTEMS = {
    "tree": System(random_robot(1, bodies=5), _controller, friction="smooth"),
    "quaternions": System(random_robot(11, bodies=2, types=("spherical",)), _controller,
                          friction="smooth"),
    "table": System(PENDULUM, np.zeros((3, PENDULUM.n))),
    "loop": System(nlink.load("four_bar"), _controller),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SYSTEMS)
def test_factors_solve_the_system_of_the_rates_own_derivatives(kind):
    """x - g (df/dy) x = b + w df/dt, quaternions of any length."""
    system, rng = SYSTEMS[kind], np.random.default_rng(5)
    q, qd = system.robot.random_state(5)
    size, inputs = system.shape.size, rng.normal(size=system.shape.inputs).tolist()
    y = [*(q + 0.05 * rng.normal(size=len(q)) * (kind == "quaternions")), *qd]
    t, b, w = [0.3], rng.normal(size=size), 0.7
    (slopes,) = jacobian_program(system)(t, y, inputs)
    slopes = np.reshape(slopes, (size, size + 1)).astype(float)
    f = system.program("rates")
    (rates,) = f(t, y, inputs)
    # the derivatives themselves, by differences
    step = 1e-6 * rng.normal(size=size)
    ends = [np.array(f(t, list(y + s * step), inputs)[0], float) for s in (1, -1)]
    np.testing.assert_allclose(slopes[:, :-1] @ step, (ends[0] - ends[1]) / 2, rtol=1e-5,
                               atol=1e-8 * np.abs(slopes).max() * 1e-6)
    programs = solving_programs(system)
    for g in (1e-3, 1.0, 30.0):
        (factors,) = programs["factor"](t, y, [*inputs, g], rates)
        (x,) = programs["solve"](t, b.tolist(), [*inputs, w], factors)
        matrix = np.eye(size) - g * slopes[:, :-1]
        exact = np.linalg.solve(matrix, b + w * slopes[:, -1])
        assert np.abs(np.array(x, float) - exact).max() <= 1e-12 * np.linalg.cond(
            matrix) * np.abs(exact).max()


@pytest.mark.slow
def test_a_stiff_motion_takes_few_steps_and_is_that_of_radau():
    options = {"t": 0.2, "tau": spring}
    few = simulate(PENDULUM, [0.1, 0.2], method="rodas5p", rtol=1e-8, atol=1e-10, **options)
    many = simulate(PENDULUM, [0.1, 0.2], method="rkf45", rtol=1e-8, atol=1e-10, **options)
    assert few.status == many.status == "done"
    assert 100 * few.stats.steps < many.stats.steps
    tight = {"rtol": 1e-11, "atol": 1e-13, **options}
    radau, rodas = (simulate(PENDULUM, [0.1, 0.2], method=method, **tight)
                    for method in ("radau", "rodas5p"))
    np.testing.assert_allclose(rodas.q, radau.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(few.q, rodas.q, rtol=0, atol=1e-9)  # within steps, too


class VanDerPol:
    """A controller whose own state relaxes at rates up to mu, and pushes a slide."""

    state = (2.0, 0.0)

    def __call__(self, t, q, qd, x):
        return [x[0] - 4.0 * qd[0]]

    def rates(self, t, q, qd, x):
        return [x[1], 1e6 * ((1.0 - x[0] * x[0]) * x[1] - x[0])]


def test_the_state_of_a_controller_may_be_stiff():
    """Van der Pol's oscillator with eps = 1e-6, its value at t = 2 from [Hairer and Wanner II,
    IV.10]."""
    slide = nlink.Robot.from_dh([{"joint": "prismatic", "mass": 1.0}], gravity=(0, 0, 0))
    run = simulate(slide, [0.0], t=[0.0, 2.0], tau=VanDerPol(), method="rodas5p", rtol=1e-8,
                   atol=1e-10)
    assert run.status == "done"
    assert run.stats.steps < 2000
    np.testing.assert_allclose(run.x[-1, 0], 1.706167732170483, rtol=1e-6)


def test_trajectories_beside_others_keep_their_bits():
    """Four lanes or two, each with its own factors."""
    q0 = np.array([[0.1, 0.2], [0.3, -0.4], [1.0, 0.0], [0.5, 0.5], [-1.0, 2.0]])
    options = {"t": 0.2, "tau": spring, "method": "rodas5p"}
    whole = simulate(PENDULUM, q0, **options)
    assert np.array_equal(whole.q[3:], simulate(PENDULUM, q0[3:], **options).q)


def test_what_has_no_derivatives_is_refused():
    with pytest.raises(ValueError, match="'rodas5p' needs the derivatives of the controller"):
        simulate(PENDULUM, tau=lambda t, q, qd: -q, method="rodas5p", traced=False)
    with pytest.raises(ValueError, match="sensitivities: not with method='rodas5p'"):
        simulate(PENDULUM, method="rodas5p", sensitivities="q0")
    with pytest.raises(ValueError, match=r"rows, expected at most 96; 'radau'"):
        solving_programs(System(random_robot(1, bodies=60)))
