"""Users' own functions that call methods of a robot: traced, they give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.engines import engines
from nlink.programs.program import Port
from nlink.programs.tracing import trace_function
from nlink.simulation import PDGravity
from nlink.simulation.control_scheme import ControlScheme
from nlink.testing.mechanisms import EVERY, random_robot

PLANAR = nlink.load("planar3")
Q, QD = np.array([0.3, -0.4, 0.5]), np.array([0.2, 0.1, -0.3])

METHODS = {
    "inverse_dynamics": lambda r, q, a, b: r.inverse_dynamics(q, a, b),
    "forward_dynamics": lambda r, q, a, b: r.forward_dynamics(q, a, b),
    "articulated": lambda r, q, a, b: r.forward_dynamics(q, a, b, algorithm="articulated"),
    "mass_matrix": lambda r, q, a, b: r.mass_matrix(q),
    "inverse_mass_matrix": lambda r, q, a, b: r.inverse_mass_matrix(q),
    "factor_mass_matrix": lambda r, q, a, b: r.factor_mass_matrix(q)[0],
    "solve": lambda r, q, a, b: r.solve(q, b),
    "coriolis_matrix": lambda r, q, a, b: r.coriolis_matrix(q, a),
    "bias": lambda r, q, a, b: r.bias(q, a),
    "gravity_torque": lambda r, q, a, b: r.gravity_torque(q),
    "regressor": lambda r, q, a, b: r.regressor(q, a, b),
    "pose": lambda r, q, a, b: r.pose(q),
    "pose of a number": lambda r, q, a, b: r.pose(q, 1),
    "poses": lambda r, q, a, b: r.poses(q),
    "jacobian": lambda r, q, a, b: r.jacobian(q, r.frames[1]),
    "jacobian_dot_qd": lambda r, q, a, b: r.jacobian_dot_qd(q, a),
    "jacobian_rate": lambda r, q, a, b: r.jacobian_rate(q, a),
    "jacobian_derivatives": lambda r, q, a, b: r.jacobian_derivatives(q),
    "mass_matrix_derivatives": lambda r, q, a, b: r.mass_matrix_derivatives(q),
    "dynamics_derivatives": lambda r, q, a, b: r.inverse_dynamics_derivatives(q, a, b)[0],
    "forward_derivatives": lambda r, q, a, b: r.forward_dynamics_derivatives(q, a, b)[0],
    "link_accelerations": lambda r, q, a, b: r.link_accelerations(q, a, b),
    "operational_mobility": lambda r, q, a, b: r.operational_inertia(q, inverse=True),
    "kinetic_energy": lambda r, q, a, b: r.kinetic_energy(q, a),
    "potential_energy": lambda r, q, a, b: r.potential_energy(q),
    "center_of_mass": lambda r, q, a, b: r.center_of_mass(q),
    "frame_velocity": lambda r, q, a, b: r.frame_velocity(q, a),
    "frame_acceleration": lambda r, q, a, b: r.frame_acceleration(q, a, b),
    "centroidal_momentum_matrix": lambda r, q, a, b: r.centroidal_momentum_matrix(q),
    "centroidal_momentum": lambda r, q, a, b: r.centroidal_momentum(q, a),
    "centroidal_momentum_drift": lambda r, q, a, b: r.centroidal_momentum_drift(q, a),
    "com_jacobian": lambda r, q, a, b: r.com_jacobian(q),
    "com_jacobian_dot_qd": lambda r, q, a, b: r.com_jacobian_dot_qd(q, a),
    "integrate": lambda r, q, a, b: r.integrate(q, a),
    "difference": lambda r, q, a, b: r.difference(q, r.integrate(q, 0.1 * a)),
    "compute": lambda r, q, a, b: r.compute("gravity_torque", q),
    "jvp": lambda r, q, a, b: nlink.jvp(r, "gravity_torque", (q,), (a,)),
    "f_ext": lambda r, q, a, b: r.inverse_dynamics(
        q, a, b, f_ext=np.ones((len(r.links), 6)) * a[0]),
    "nlink.solve": lambda r, q, a, b: nlink.solve(r.mass_matrix(q), b),
    "a batch of one": lambda r, q, a, b: r.mass_matrix([q]) @ b,
    "numbers beside": lambda r, q, a, b: r.inverse_dynamics(q, np.zeros(r.n), b),
    "a list": lambda r, q, a, b: r.gravity_torque(list(q)),
}


def assert_traced_equals_untraced(robot, call, state):
    q, a, b = state
    expected = np.asarray(call(robot, q, a, b))
    traced = nlink.function(lambda q, a, b: call(robot, q, a, b), robot.nq, robot.n, robot.n)
    found = np.asarray(traced(q, a, b, engine="python"))
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-12 * (1 + np.abs(expected).max()))


@pytest.fixture
def untraced_on_floats(monkeypatch):
    """Expected numbers are those of floats: nothing is compiled for them."""
    monkeypatch.setattr(engines, "default_engine", engines.ENGINES["python"])


def state_of(robot, seed=0):
    rng = np.random.default_rng(seed)
    return *robot.random_state(rng), rng.normal(size=robot.n)


@pytest.mark.usefixtures("untraced_on_floats")
@pytest.mark.parametrize("name", METHODS)
def test_every_method_traced_gives_its_numbers(name):
    robot = nlink.load("double_pendulum")
    assert_traced_equals_untraced(robot, METHODS[name], state_of(robot))


@pytest.mark.slow
@pytest.mark.usefixtures("untraced_on_floats")
@pytest.mark.parametrize("seed", [3, 4, 7])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_random_mechanisms_traced_gives_its_numbers(name, seed):
    """Between them the mechanisms have joints of every kind."""
    robot = random_robot(seed, 3, types=EVERY, fixed=False)
    assert_traced_equals_untraced(robot, METHODS[name], state_of(robot, seed))


@pytest.mark.parametrize("name", ["mass_matrix", "gravity_torque", "pose", "forward_dynamics"])
def test_methods_of_a_closed_chain_traced_give_their_numbers(name):
    robot = nlink.load("four_bar")
    assert_traced_equals_untraced(robot, METHODS[name], state_of(robot))


def test_rows_of_loops_traced_give_their_numbers():
    robot = nlink.load("four_bar")
    for call in (lambda r, q, a, b: r.loops.jacobian(q), lambda r, q, a, b: r.loops.error(q),
                 lambda r, q, a, b: r.loops.velocity(q, a)):
        assert_traced_equals_untraced(robot, call, state_of(robot))


def test_equal_calls_share_the_graph():
    once = nlink.function(lambda q: PLANAR.gravity_torque(q), 3)
    twice = nlink.function(lambda q: PLANAR.gravity_torque(q) + PLANAR.gravity_torque(q), 3)
    sums = len(twice.program().live()) - len(once.program().live())
    assert sums == 3


def test_a_warm_and_a_cold_robot_trace_alike():
    def call(robot):
        return nlink.function(lambda q, qd: robot.inverse_dynamics(q, qd, qd), 3, 3)(Q, QD)

    cold = nlink.load("planar3")
    before = call(cold)
    cold.inverse_dynamics(Q, QD, QD)
    assert np.array_equal(call(cold), before)


def hold(t, q, qd):
    force = np.array([0.0, 0.0, 0.0, 3.0 * nlink.sin(t), -2.0, 0.0])
    return PLANAR.gravity_torque(q) - 5 * qd + PLANAR.jacobian(q, "link2").T @ force


@pytest.mark.slow
def test_a_controller_that_calls_the_robot_gives_the_same_run_untraced():
    traced = nlink.simulate(PLANAR, Q, QD, t=0.3, tau=hold, every=0.1)
    plain = nlink.simulate(PLANAR, Q, QD, t=0.3, tau=hold, every=0.1, traced=False)
    assert np.allclose(traced.q, plain.q, rtol=0, atol=1e-11)
    assert np.allclose(traced.tau, plain.tau, rtol=0, atol=1e-9)


def test_a_controller_of_ones_own_is_the_program_of_the_bundled_one():
    """As many operations as PDGravity: it costs what that costs."""
    def own(t, q, qd):
        return 40.0 * (Q - q) - 10.0 * qd + PLANAR.gravity_torque(q)

    def length(controller):
        scheme = ControlScheme.of(controller, 3)
        ports = [Port("t", (1,)), Port("q", (3,)), Port("qd", (3,))]
        program = trace_function("tau", ports, [Port("tau", (3,))],
                                 lambda t, q, qd: scheme.tau(t[0], q, qd))
        return len(program.live())

    assert length(own) <= length(PDGravity(PLANAR, Q, 40.0, 10.0)) + 1


def test_a_robot_at_rest_is_simulated_untraced():
    run = nlink.simulate(PLANAR, t=0.1, tau=lambda t, q, qd: PLANAR.gravity_torque(q),
                         traced=False)
    assert np.allclose(run.q[-1], 0.0, atol=1e-12)


@pytest.mark.slow
def test_an_event_calls_the_robot():
    low = nlink.Event(lambda t, q, qd: PLANAR.pose(q)[1, 3] + 0.5, terminal=True, name="low")
    runs = [nlink.simulate(PLANAR, t=2.0, events=[low], traced=traced) for traced in (True, False)]
    assert [run.status for run in runs] == ["event", "event"]
    assert np.isclose(runs[0].events.t[0], runs[1].events.t[0], rtol=1e-9)
    assert np.isclose(PLANAR.pose(runs[0].events.q[0])[1, 3], -0.5)


@pytest.mark.slow
def test_a_cost_calls_the_robot():
    def miss(q, qd):
        return PLANAR.potential_energy(q) + PLANAR.kinetic_energy(q, qd)

    found = nlink.adjoint(PLANAR, miss, Q, QD, t=0.1)
    by_q = nlink.function(miss, 3, 3).gradient(Q, QD)[0]
    assert np.allclose(found.gradient["q0"], by_q, atol=1e-5)  # the energy is conserved
    assert np.allclose(found.gradient["qd0"], PLANAR.mass_matrix(Q) @ QD, atol=1e-5)


@pytest.mark.slow
def test_a_controller_of_a_long_chain_calls_the_robot():
    robot = random_robot(1, 60, tree=False, types=("revolute",), fixed=True)
    own = nlink.function(lambda q, qd: robot.gravity_torque(q) - 5.0 * qd, robot.n, robot.n)
    q, qd, _ = state_of(robot)
    expected = robot.gravity_torque(q, engine="python") - 5.0 * qd
    assert np.allclose(own(q, qd, engine="python"), expected, rtol=1e-12, atol=1e-9)


@pytest.mark.slow
def test_the_robot_that_is_called_is_the_nominal_one():
    run = nlink.simulate(PLANAR, Q, t=0.2, vary={"payload": [0.0, 3.0]},
                         tau=lambda t, q, qd: PLANAR.gravity_torque(q))
    assert np.allclose(run.q[0, -1], Q, atol=1e-9)
    assert np.abs(run.q[1, -1] - Q).max() > 1e-3
    assert np.allclose(run.tau[:, 0], PLANAR.gravity_torque(Q))


def test_symbols_go_through_methods():
    sympy = pytest.importorskip("sympy")
    symbols = sympy.symbols("a b c")
    energy = PLANAR.potential_energy(symbols)
    slopes = [energy.diff(x).subs(dict(zip(symbols, Q.tolist(), strict=True))) for x in symbols]
    assert np.allclose(np.array(slopes, float), PLANAR.gravity_torque(Q))


def test_solve_is_numpys_for_numbers():
    A = PLANAR.mass_matrix(Q)
    assert np.allclose(nlink.solve(A, np.eye(3)), np.linalg.inv(A))
    assert nlink.solve(A, QD).dtype == float


REFUSED = {
    "a batch": (lambda q: PLANAR.gravity_torque([q, q]), ValueError,
                r"q: shape \(2, 3\) beside traced values, expected \(3,\)"),
    "numbers of a batch": (lambda q: PLANAR.bias(q, np.zeros((5, 3))), ValueError,
                           r"qd: shape \(5, 3\) beside traced values"),
    "a shape": (lambda q: PLANAR.gravity_torque(q[:2]), ValueError,
                r"q: shape \(2,\), expected \(3,\)"),
    "out": (lambda q: PLANAR.gravity_torque(q, out=np.zeros(3)), ValueError, "out: an array, but"),
    "an argument": (lambda q: PLANAR.bias(q, [None] * 3), TypeError, "qd: dtype object"),
    "a determinant": (lambda q: PLANAR.manipulability(q), TypeError,
                      "manipulability: q has traced values, .* traced=False"),
    "a search": (lambda q: PLANAR.limit_distance(q), TypeError,
                 "q: traced values, expected numbers: .* traced=False"),
    "operators": (lambda q: PLANAR.operators(q), TypeError, "q: traced values, .* traced=False"),
    "inverse kinematics": (lambda q: PLANAR.ik(q), TypeError,
                           "target: traced values, .* traced=False"),
    "assembly": (lambda q: nlink.load("four_bar").loops.assemble(q), TypeError,
                 "guess: traced values, .* traced=False"),
    "np.linalg": (lambda q: np.linalg.inv(PLANAR.mass_matrix(q)), TypeError, "nlink.solve"),
    "an option": (lambda q: PLANAR.gravity_torque(q, algoritm="x"), TypeError, "unknown option"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_traced_says_so(name):
    call, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        nlink.function(call, 3)
