"""The contract with users: shapes, broadcasting, out=, refusals, NaN, engines, kernels."""

from __future__ import annotations

import copy
import inspect
import pydoc
import re

import numpy as np
import pytest

import nlink
from nlink.engines.engines import ENGINES

ENGINE = pytest.mark.parametrize("engine", ENGINES)
N = 6
SHAPES = {
    "inverse_dynamics": (N,), "forward_dynamics": (N,), "bias": (N,), "gravity_torque": (N,),
    "mass_matrix": (N, N), "inverse_mass_matrix": (N, N), "coriolis_matrix": (N, N),
    "pose": (4, 4), "jacobian": (6, N), "jacobian_dot_qd": (6,), "kinetic_energy": (),
    "potential_energy": ()}
RATES = {"inverse_dynamics": 2, "forward_dynamics": 2, "bias": 1, "coriolis_matrix": 1,
         "jacobian_dot_qd": 1, "kinetic_energy": 1}


@pytest.fixture(scope="module")
def robot() -> nlink.Robot:
    return nlink.load("puma560")


@pytest.fixture(scope="module")
def state() -> tuple[np.ndarray, ...]:
    return tuple(np.random.default_rng(0).normal(size=(3, 5, 4, N)))


def arguments(name: str, state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return state[:1 + RATES.get(name, 0)]


@pytest.mark.sampled(12)
@ENGINE
@pytest.mark.parametrize("name", SHAPES)
def test_leading_shapes_are_kept(robot, state, name, engine):
    for lead in ((), (3,), (5, 4), (0,), (2, 0)):
        rows = [np.resize(x, (*lead, N)) for x in arguments(name, state)]
        result = getattr(robot, name)(*rows, engine=engine)
        assert result.shape == lead + SHAPES[name]
        assert result.dtype == np.float64


@ENGINE
def test_leading_shapes_broadcast(robot, state, engine):
    q, qd, qdd = state[0][:, 0], state[1][0, :2, None], state[2][0, 0]
    whole = robot.inverse_dynamics(q, qd, qdd, engine=engine)
    assert whole.shape == (2, 5, N)
    for i in range(2):
        for j in range(5):
            one = robot.inverse_dynamics(q[j], qd[i, 0], qdd, engine=engine)
            np.testing.assert_array_equal(whole[i, j], one)


@ENGINE
@pytest.mark.parametrize("view", [
    lambda a: a[::2], lambda a: a[:, ::-1], lambda a: np.asfortranarray(a),
    lambda a: a.astype(np.float32).astype(">f8"), lambda a: np.swapaxes(a, 0, 1)])
def test_memory_layout_changes_nothing(robot, state, engine, view):
    rows = [view(x) for x in state]
    plain = [np.array(x, dtype=float, order="C") for x in rows]
    np.testing.assert_array_equal(robot.inverse_dynamics(*rows, engine=engine),
                                  robot.inverse_dynamics(*plain, engine=engine))


@ENGINE
def test_lists_and_integers_are_states(robot, engine):
    tau = robot.gravity_torque([0, 1, 0, 0, 0, 0], engine=engine)
    np.testing.assert_array_equal(
        tau, robot.gravity_torque(np.array([0.0, 1, 0, 0, 0, 0]), engine=engine))


@ENGINE
def test_out_is_filled_and_returned(robot, state, engine):
    expected = robot.inverse_dynamics(*state, engine=engine)
    out = np.full((5, 4, N), np.nan)
    assert robot.inverse_dynamics(*state, out=out, engine=engine) is out
    np.testing.assert_array_equal(out, expected)
    wide = np.zeros((5, 4, 2 * N))
    robot.inverse_dynamics(*state, out=wide[..., ::2], engine=engine)
    np.testing.assert_array_equal(wide[..., ::2], expected)
    assert not wide[..., 1::2].any()


@ENGINE
def test_out_may_be_an_input(robot, state, engine):
    expected = robot.inverse_dynamics(*state, engine=engine)
    q = state[0].copy()
    robot.inverse_dynamics(q, state[1], state[2], out=q, engine=engine)
    np.testing.assert_array_equal(q, expected)


@ENGINE
def test_two_outputs_are_a_tuple(robot, state, engine):
    U, D = robot.factor_mass_matrix(state[0], engine=engine)
    assert U.shape == (5, 4, N, N)
    assert D.shape == (5, 4, N)
    outs = np.empty_like(U), np.empty_like(D)
    robot.factor_mass_matrix(state[0], out=outs, engine=engine)
    np.testing.assert_array_equal(outs[0], U)
    np.testing.assert_array_equal(outs[1], D)


@ENGINE
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_stays_in_its_entry(robot, state, engine, bad):
    q = state[0].copy()
    q[2, 1, 3] = bad
    clean = robot.inverse_dynamics(*state, engine=engine)
    tau = robot.inverse_dynamics(q, *state[1:], engine=engine)
    assert np.isnan(tau[2, 1]).any()
    rest = np.ones((5, 4), dtype=bool)
    rest[2, 1] = False
    np.testing.assert_array_equal(tau[rest], clean[rest])


REFUSED = {
    "q: shape \\(5,\\), expected \\(..., 6\\)": lambda r: r.gravity_torque(np.zeros(5)),
    "q: shape \\(6, 4\\), expected \\(..., 6\\); did you mean q.T": (
        lambda r: r.gravity_torque(np.zeros((6, 4)))),
    "q: shape \\(\\), expected": lambda r: r.gravity_torque(1.0),
    "leading shapes do not broadcast: q \\(2, 6\\), qd \\(3, 6\\)": (
        lambda r: r.bias(np.zeros((2, N)), np.zeros((3, N)))),
    "f_ext: shape \\(6,\\), expected \\(..., 6, 6\\)": (
        lambda r: r.inverse_dynamics(*np.zeros((3, N)), f_ext=np.zeros(6))),
    "out \\(tau\\): shape \\(5,\\), expected \\(6,\\)": (
        lambda r: r.gravity_torque(np.zeros(N), out=np.zeros(5))),
    "engine: 'fortran', expected one of compiled, numpy, python": (
        lambda r: r.gravity_torque(np.zeros(N), engine="fortran")),
    "algorithm: 'magic' is no formulation of bias": (
        lambda r: r.bias(np.zeros(N), np.zeros(N), algorithm="magic")),
    "frame: 'elbow', expected one of base, ": lambda r: r.pose(np.zeros(N), "elbow"),
    "frame: 9, expected a name or an index from -7 to 6": lambda r: r.pose(np.zeros(N), 9),
    "'gravity' is not computed here, expected one of": lambda r: r.compile("gravity"),
    "pose has no argument f_ext": lambda r: r.compile("pose", f_ext=True),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_call_is_refused(robot, message):
    with pytest.raises(ValueError, match=message):
        REFUSED[message](robot)


def read_only() -> np.ndarray:
    out = np.zeros(N)
    out.flags.writeable = False
    return out


def test_a_read_only_out_is_refused(robot):
    with pytest.raises(ValueError, match="out \\(tau\\): the array is read-only"):
        robot.gravity_torque(np.zeros(N), out=read_only())


WRONG_TYPES = {
    "q: dtype complex128 does not convert to float64 safely": (
        lambda r: r.gravity_torque(np.zeros(N, dtype=complex))),
    "q: dtype <U1 does not convert": lambda r: r.gravity_torque(["0"] * N),
    "out \\(tau\\): dtype float32, expected float64": (
        lambda r: r.gravity_torque(np.zeros(N), out=np.zeros(N, dtype=np.float32))),
    "out \\(tau\\): a list, expected a NumPy array": (
        lambda r: r.gravity_torque(np.zeros(N), out=[0.0] * N)),
}


@pytest.mark.parametrize("message", WRONG_TYPES)
def test_a_wrong_type_is_refused(robot, message):
    with pytest.raises(TypeError, match=message):
        WRONG_TYPES[message](robot)


@ENGINE
def test_frames_are_names_or_numbers(robot, state, engine):
    q = state[0][0]
    last = robot.pose(q, engine=engine)
    np.testing.assert_array_equal(last, robot.pose(q, 6, engine=engine))
    np.testing.assert_array_equal(last, robot.pose(q, robot.links[-1].name, engine=engine))
    np.testing.assert_array_equal(robot.pose(q, -7, engine=engine),
                                  np.broadcast_to(np.eye(4), (4, 4, 4)))
    assert not robot.jacobian(q, 0, engine=engine).any()
    assert not robot.jacobian(q, 2, engine=engine)[..., 2:].any()


@pytest.mark.parametrize("name", SHAPES)
def test_a_bare_kernel_is_the_function(robot, state, name):
    fn = robot.compile(name)
    rows = [np.ascontiguousarray(x[0]) for x in arguments(name, state)]
    expected = getattr(robot, name)(*rows)
    out = np.empty((4, *SHAPES[name]))
    fn(*rows, out)
    np.testing.assert_array_equal(out, expected)
    one = np.empty(SHAPES[name])
    fn(*(x[2].copy() for x in rows), one)
    np.testing.assert_array_equal(one, expected[2])


def test_a_bare_kernel_takes_external_wrenches(robot, state):
    q, qd, qdd = (x[0, 0].copy() for x in state)
    f_ext = np.random.default_rng(1).normal(size=(6, 6))
    out = np.empty(N)
    robot.compile("inverse_dynamics", f_ext=True)(q, qd, qdd, f_ext, out)
    np.testing.assert_array_equal(out, robot.inverse_dynamics(q, qd, qdd, f_ext=f_ext))


def test_a_robot_describes_itself(robot):
    assert repr(robot) == "<Robot puma560: 6 joints, 6 rates, fixed base>"
    assert (robot.n, robot.nq, len(robot.joints), len(robot.links)) == (6, 6, 6, 6)
    assert robot.frames[0] == "base"
    np.testing.assert_array_equal(robot.gravity, [0, 0, -9.81])
    np.testing.assert_array_equal(robot.neutral, np.zeros(6))


def test_random_states_repeat(robot):
    for a, b in zip(robot.random_state(3, (2,)), robot.random_state(3, (2,)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_friction_and_armature_are_in_the_torque():
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0.01, 1 / 12, 1 / 12)}
    rough = rod | {"friction": {"viscous": 0.5, "coulomb": 0.25}, "armature": 2.0}
    plain, real = nlink.Robot.from_dh([rod]), nlink.Robot.from_dh([rough])
    for engine in ENGINES:
        extra = (real.inverse_dynamics([0.3], [-2.0], [3.0], engine=engine)
                 - plain.inverse_dynamics([0.3], [-2.0], [3.0], engine=engine))
        np.testing.assert_allclose(extra, [0.5 * -2 - 0.25 + 2 * 3], rtol=1e-14)
        np.testing.assert_array_equal(real.bias([0.3], [-2.0], engine=engine),
                                      plain.bias([0.3], [-2.0], engine=engine))


@pytest.mark.parametrize(("call", "error"), [
    (lambda r: r.mass_matrix(np.zeros(6), foo=1), "mass_matrix: unknown option 'foo'"),
    (lambda r: r.mass_matrix(np.zeros(6), frame=2), "mass_matrix: unknown option 'frame'"),
    (lambda r: r.mass_matrix(np.zeros(6), foo=[]), "mass_matrix: unknown option 'foo'"),
    (lambda r: r.compute("mass_matrix", np.zeros(6), np.zeros((6, 6))), "2 arrays given"),
    (lambda r: r.mass_matrix(np.zeros(6), engine=[]), "mass_matrix: frame, algorithm and engine"),
    (lambda r: r.operators(np.zeros(6) + 1j), "q: dtype complex128 does not convert to float64"),
    (lambda r: r.diagonal(["1"] * 6), "q: dtype <U1 does not convert to float64"),
])
def test_wrong_options_are_named(call, error):
    with pytest.raises(TypeError, match=re.escape(error)) as raised:
        call(nlink.load("puma560"))
    assert raised.value.__context__ is None or raised.value.__suppress_context__


def test_ragged_input_is_named():
    with pytest.raises(ValueError, match="q: not a rectangular array of numbers"):
        nlink.load("planar3").gravity_torque([[1, 2, 3], [1]])


@pytest.mark.parametrize("names", ["inverse_dynamics", []])
def test_c_is_written_of_a_list_of_names(names, tmp_path):
    with pytest.raises(ValueError, match="names: "):
        nlink.export_c(nlink.load("planar3"), names, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_method_that_has_been_called_can_be_overridden_copied_and_asked_for_help(robot, state):
    class Weightless(nlink.Robot):
        def inverse_dynamics(self, q, qd, qdd, f_ext=None, **how):
            return super().inverse_dynamics(q, qd, qdd, f_ext, **how) - self.gravity_torque(q)

    q, qd, qdd = (x[0] if x.ndim > 1 else x for x in arguments("inverse_dynamics", state))
    light = Weightless(robot.description)
    for each in (light, copy.copy(light), copy.deepcopy(light)):
        for _ in range(2):
            np.testing.assert_array_equal(
                each.inverse_dynamics(q, qd, qdd),
                robot.inverse_dynamics(q, qd, qdd) - robot.gravity_torque(q))
    text = pydoc.render_doc(robot.inverse_dynamics)
    assert "Joint forces: tau" in text
    assert list(inspect.signature(robot.inverse_dynamics).parameters)[:4] == [
        "q", "qd", "qdd", "f_ext"]
