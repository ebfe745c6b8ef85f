"""Splines through waypoints: those of SciPy, in controllers, from files, of any size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import nlink
from nlink.simulation import PD, ComputedTorque, FeedForward, Spline

PUMA = nlink.load("puma560")
RNG = np.random.default_rng(0)


def waypoints(count: int, n: int = 6):
    return np.cumsum(RNG.uniform(0.01, 0.1, count)) - 1.0, RNG.normal(size=(count, n))


@pytest.mark.parametrize("count", [2, 3, 7, 1000])
@pytest.mark.parametrize("ends", ["natural", "clamped", "rates"])
def test_a_spline_is_that_of_scipy(count, ends):
    t, q = waypoints(count)
    rates = RNG.normal(size=(2, 6)) if ends == "rates" else None
    spline = Spline(t, q, "clamped" if ends == "rates" else ends, rates)
    reference = CubicSpline(t, q, bc_type=ends if rates is None else ((1, rates[0]), (1, rates[1])))
    at = np.concatenate([RNG.uniform(t[0], t[-1], 500), t, np.nextafter(t[1:], -np.inf)])
    size = np.abs(np.diff(q, axis=0)).max() / np.diff(t).min() ** np.arange(3)
    for k, values in enumerate(spline(at)):
        assert np.abs(values - reference(at, k)).max() <= 1e-13 * size[k]


def test_a_spline_rests_outside_its_times():
    t, q = waypoints(5, 2)
    spline = Spline(t, q, "natural")
    for time, end in ((-1e9, 0), (t[0] - 1e-9, 0), (t[-1] + 1e-9, -1), (1e9, -1)):
        where, *moving = spline(float(time))
        assert np.array_equal(where, q[end])
        assert not np.any(moving)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 12, 2000])
def test_a_spline_traced_is_the_spline(count):
    """In a kernel, on vectors and on single lanes, at waypoints and next to them."""
    t, q = waypoints(count)
    t -= t[0]
    spline = Spline(t, q)
    run = nlink.simulate(PUMA, np.zeros((5, 6)), t=np.append(t, t[-1] + 1.0)[:12], method="rk4",
                         step=1.0, tau=lambda t, q, qd: [a + 3 * b - 0.1 * c for a, b, c in zip(
                             *spline(t), strict=True)])
    a, b, c = spline(run.t)
    assert np.abs(run.tau - (a + 3 * b - 0.1 * c)).max() <= 1e-12 * np.abs(c).max()


def test_the_number_of_waypoints_does_not_change_the_size_of_a_law():
    sizes = set()
    for count in (20, 5000):
        t, q = waypoints(count)
        system = nlink.System(PUMA, ComputedTorque(PUMA, Spline(t, q), 100.0, 20.0))
        sizes.add(len(system.control_program.live()))
    assert len(sizes) == 1


@pytest.mark.slow
@pytest.mark.parametrize("controller", [PD, ComputedTorque, FeedForward])
def test_controllers_follow_a_spline(controller):
    t = np.linspace(0.0, 1.0, 11)
    q = 0.2 * np.sin(np.outer(t, np.arange(1, 7)))
    spline = Spline(t, q, rates=0.2 * np.arange(1, 7) * np.cos(np.outer([0, 1], np.arange(1, 7))))
    gains = {FeedForward: (), PD: (4000.0, 400.0)}.get(controller, (100.0, 20.0))
    run = nlink.simulate(PUMA, q[0], spline(0.0)[1], t=1.0, tau=controller(PUMA, spline, *gains),
                         rtol=1e-10)
    error = np.abs(run.q - spline(run.t)[0]).max()
    assert error <= (0.05 if controller is PD else 1e-6)


def test_waypoints_from_files(tmp_path):
    t, q = waypoints(50, 3)
    rows = [[repr(float(x)) for x in (a, *b)] for a, b in zip(t, q, strict=True)]
    plain = "\n".join(",".join(row) for row in rows)
    files = {"plain.csv": plain, "named.csv": f"t,q_1,q_2,q_3\n{plain}\n",
             "shuffled.csv": "q_2,t,qd_1,q_1,q_3\n" + "\n".join(
                 ",".join((r[2], r[0], "0.5", r[1], r[3])) for r in rows)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    np.savez(tmp_path / "points.npz", t=t, q=q)
    for name in (*files, "points.npz"):
        spline = Spline.from_file(tmp_path / name, ends="natural")
        assert np.array_equal(spline.t, t)
        assert np.array_equal(spline.q, q)
        assert spline.ends == "natural"


def test_what_simulate_writes_is_a_trajectory(tmp_path):
    from nlink.cli.simulate import write

    run = nlink.simulate(PUMA, t=0.5)
    again = Spline.from_file(write(run, tmp_path / "run.csv"))
    assert np.array_equal(again.q, run.q)


@pytest.mark.parametrize(("text", "match"), [
    ("", "empty, expected rows of t, q_1"),
    ("0,1\n1,x\n", "row 2: '1,x', expected 2 numbers"),
    ("t,q_1\n0,1\n1\n", "row 3: '1', expected 2 numbers"),
    ("time,q_1\n0,1\n1,2\n", "columns time, q_1, expected t, q_1"),
    ("t,q_2\n0,1\n1,2\n", "columns t, q_2, expected t, q_1"),
    ("trajectory,t,q_1\n0,0,1\n0,1,2\n", "columns trajectory, t, q_1, expected t, q_1"),
    ("0,1\n0,2\n", "t: expected increasing, finite times"),
    ("0,1\n1,nan\n", "q: contains a number that is not finite"),
    ("0,1\n", "t: shape .1,., expected 2 to 20000 times"),
    ("0\n1\n", "q: no columns, expected one for each coordinate"),
    ("0,0\n1e-9,1\n1,0\n", "t: the shortest interval is 1e-09 of 1 s, expected at least a"),
])
def test_wrong_files_are_refused_by_name(tmp_path, text, match):
    path = tmp_path / "points.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"points\.csv: {match}"):
        Spline.from_file(path)


def test_wrong_archives_and_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"none\.csv: cannot be read"):
        Spline.from_file(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"none\.npz: cannot be read"):
        Spline.from_file(tmp_path / "none.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"bad\.npz: "):
        Spline.from_file(tmp_path / "bad.npz")
    np.savez(tmp_path / "other.npz", t=[0.0])
    with pytest.raises(ValueError, match=r"other\.npz: no array q, expected t and q"):
        Spline.from_file(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="ends: 'loose', expected one of clamped, natural"):
        Spline([0, 1], [[0], [1]], "loose")
    with pytest.raises(ValueError, match="rates: only with ends='clamped'"):
        Spline([0, 1], [[0], [1]], "natural", [[0], [0]])
    with pytest.raises(ValueError, match=r"rates: shape \(1,\), expected \(2, 1\)"):
        Spline([0, 1], [[0], [1]], rates=[0])
