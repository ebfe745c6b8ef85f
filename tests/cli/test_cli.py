"""The command: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import typer

import nlink
from nlink import cli
from nlink.iterations.methods import METHODS
from nlink.simulation.scipy_methods import SCIPY

ROBOT = "planar3"
HOLD = [44.145, 19.62, 4.905]
"""Joint torques of the planar arm held out straight, by hand: m g (4.5, 2, 0.5) l."""


@pytest.fixture
def run(capfd):
    """Run a command line in this process: status, standard output, standard error."""
    def call(*arguments):
        status = cli.run([str(a) for a in arguments])
        return status, *capfd.readouterr()

    return call


@pytest.fixture
def refuse(run):
    """The one line a bad command line gets."""
    def call(*arguments):
        status, out, err = run(*arguments)
        assert status == 2
        assert out == ""
        assert err.startswith("nlink: ")
        assert err.count("\n") == 1
        return err

    return call


def give_stdin(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.slow
def test_robots_lists_every_bundled_robot(run):
    status, out, _ = run("robots", "--json")
    assert status == 0
    assert sorted(json.loads(out)) == sorted(nlink.robots())
    _, table, _ = run("robots")
    assert all(name in table for name in nlink.robots())


def test_unphysical_robots_are_flagged(run):
    data = json.loads(run("robots", "--json")[1])
    assert data["puma560"]["physical"]
    assert not data["puma_saha"]["physical"]


def test_info_is_the_robot(run):
    data = json.loads(run("info", "puma560", "--json")[1])
    robot = nlink.load("puma560")
    assert data["n"] == robot.n
    assert [row["mass"] for row in data["links"]] == [link.mass for link in robot.links]
    assert data["links"][0]["limits"]["effort"] is None  # JSON has no infinity


@pytest.mark.parametrize("name", sorted(nlink.robots()))
def test_info_fits_eighty_columns(run, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("info", name)
    # sentences are wrapped by the terminal
    assert max(len(line) for line in out.splitlines() if not line.startswith("numbers: ")) <= 80
    assert "\u2026" not in out
    words = out.split()
    for link in nlink.load(name, physical="ignore").links:
        assert link.name in words


def test_a_check_fits_eighty_columns(run):
    status, out, _ = run("check", ROBOT, "--quick")
    table = out.split(f"{ROBOT} obeys")[0].splitlines()
    assert status == 0
    assert all(len(line) + len("BROKEN") - len("ok") <= 80 for line in table)
    assert all("  " in line[20:] for line in table)


FORKED = """<robot name="forked"><link name="trunk"/>""" + "".join(
    f'''<link name="{name}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/>
    </inertial></link><joint name="to_{name}" type="continuous"><parent link="{parent}"/>
    <child link="{name}"/></joint>''' for name, parent in (
        ("left_arm_with_a_name_as_long_as_those_in_files_of_humanoids_are", "trunk"),
        ("left_hand", "left_arm_with_a_name_as_long_as_those_in_files_of_humanoids_are"),
        ("right_arm", "trunk"))) + """<link name="camera"/>
    <joint name="to_camera" type="fixed"><parent link="trunk"/><child link="camera"/></joint>
    </robot>"""


def test_info_draws_the_tree_and_cuts_no_name(run, tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    path = tmp_path / "forked.urdf"
    path.write_text(FORKED)
    arm = "left_arm_with_a_name_as_long_as_those_in_files_of_humanoids_are"
    _, out, _ = run("info", path)
    lines = [line.split() for line in out.splitlines()]
    trunk = next(k for k, line in enumerate(lines) if line[:1] == ["trunk"])
    assert lines[trunk][-1] == "camera"  # a frame, not a branch
    assert [line[:4] for line in lines[trunk + 1:trunk + 4]] == [
        ["├─", arm, f"to_{arm}", "revolute"], ["│", "left_hand", "to_left_hand", "revolute"],
        ["└─", "right_arm", "to_right_arm", "revolute"]]
    assert "\n  link without <inertial> read as massless: 2 (trunk, camera)\n" in out
    monkeypatch.setenv("COLUMNS", "84")
    _, narrow, _ = run("info", path)
    assert arm in narrow
    assert "no room for frames, joint" in " ".join(narrow.split())


def test_info_lists_loops(run):
    assert "loop pin: coupler held on rocker, revolute" in run("info", "four_bar")[1]
    data = json.loads(run("info", "four_bar", "--json")[1])
    assert data["loops"] == [{"name": "pin", "joint": "revolute", "of": "coupler", "on": "rocker"}]


def test_id_of_one_state(run):
    _, out, _ = run("id", ROBOT, "--q", "0,0,0", "--json")
    np.testing.assert_allclose(json.loads(out)["tau"], [HOLD], rtol=1e-14)


def test_id_lists_may_start_with_a_minus(run):
    _, out, _ = run("id", ROBOT, "--q", "-1,0,0", "--qd=-1,2,0", "--qdd", "1,2,3", "--json")
    expected = nlink.load(ROBOT).inverse_dynamics([-1, 0, 0], [-1, 2, 0], [1, 2, 3])
    np.testing.assert_array_equal(json.loads(out)["tau"], [expected])


@pytest.mark.parametrize("form", ["csv", "headed", "npy", "stdin csv", "stdin npy"])
def test_id_reads_states_from_anywhere(run, tmp_path, monkeypatch, form):
    states = np.random.default_rng(0).normal(size=(4, 9))
    if form.endswith("npy"):
        file = io.BytesIO()
        np.save(file, states)
        data = file.getvalue()
    else:
        head = "# states\nq1,q2,q3,qd1,qd2,qd3,qdd1,qdd2,qdd3\n" if form == "headed" else ""
        lines = (",".join(map(repr, row)) for row in states.tolist())
        data = (head + "\n".join(lines)).encode()
    path = tmp_path / "states"
    path.write_bytes(data)
    give_stdin(monkeypatch, data)
    status, out, _ = run("id", ROBOT, "-" if form.startswith("stdin") else path)
    assert status == 0
    head, *rows = out.splitlines()
    assert head == "tau_1,tau_2,tau_3"
    tau = np.array([[float(x) for x in row.split(",")] for row in rows])
    expected = nlink.load(ROBOT).inverse_dynamics(*np.split(states, 3, axis=1))
    np.testing.assert_array_equal(tau, expected)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_input_that_is_not_finite_is_refused(refuse, value, tmp_path):
    """Whether or not the result depends on it."""
    six = f"{value},0,0,0,0,0"
    for command, option in (("fd", "--q"), ("id", "--qdd"), ("simulate", "--qd")):
        more = [] if option == "--q" else ["--q", "0,0,0,0,0,0"]
        message = refuse(command, "puma560", *more, f"{option}={six}")
        assert f"{option}: '{six}', expected finite numbers" in message
    table = tmp_path / "states.csv"
    table.write_text("0,0,0,0,0,0,0,0,0\n" + f"0,0,{value},0,0,0,0,0,0\n")
    assert "state 2 has " in refuse("id", ROBOT, table)
    np.save(tmp_path / "states.npy", np.full((1, 9), float(value)))
    assert "in column 1, expected finite numbers" in refuse("id", ROBOT, tmp_path / "states.npy")


def test_count_is_the_count(run):
    data = json.loads(run("count", "puma560", "inverse_dynamics", "--general", "--json")[1])
    robot = nlink.load("puma560")
    row = data["counts"]["inverse_dynamics"]
    assert row["robot"]["mul"] == nlink.count(robot).mul
    assert row["general"]["add"] == nlink.count(robot, customize=False).add


def test_count_stands_beside_the_published_table(run):
    _, out, _ = run("count", "puma560", "inverse_dynamics", "--tables")
    assert "(120n-44)M (97n-55)A" in out
    assert "nlink, puma560" in out


def test_symbolic_prints_expressions(run):
    _, out, _ = run("symbolic", "double_pendulum", "gravity_torque", "--names", "--simplify")
    assert out.splitlines()[1] == "tau_2 = c_2*g*m_2*cos(q_1 + q_2)"


@pytest.mark.parametrize(("option", "sign"), [
    (["--latex"], r"\tau_{1}"), (["--cse"], "x0 = "), (["--code", "c"], "const double tau_1 = "),
    (["--code", "python"], "math.cos"), (["--json"], '"tau": [')])
def test_symbolic_has_many_forms(run, option, sign):
    status, out, _ = run("symbolic", "planar3", "gravity_torque", *option)
    assert status == 0
    assert sign in out


@pytest.mark.slow
def test_check_passes_for_a_physical_robot(run):
    status, out, _ = run("check", "planar3")
    assert status == 0
    assert "planar3 obeys" in out


FLAWED = '''<robot name="flawed"><link name="trunk"><inertial><mass value="2"/>
<inertia ixx="-1" iyy="1" izz="1"/></inertial></link><link name="arm"/>
<joint name="j" type="continuous"><parent link="trunk"/><child link="arm"/></joint></robot>'''
"""No body has such a trunk, and the arm has no mass."""


def test_a_flawed_file_is_shown_and_converted_with_a_line_about_it(run, tmp_path):
    path = tmp_path / "flawed.urdf"
    path.write_text(FLAWED)
    status, out, _ = run("info", path)
    assert status == 0
    assert "numbers: joint 'j': moves no mass" in out
    status, out, _ = run("convert", path, tmp_path / "flawed.toml")
    assert status == 0
    assert "reading: joint 'j': moves no mass" in out
    assert (tmp_path / "flawed.toml").exists()


@pytest.mark.slow
def test_a_base_floats_where_asked(run, tmp_path):
    path, copy = tmp_path / "body.urdf", tmp_path / "copy.toml"
    path.write_text('<robot name="body"><link name="trunk"><inertial><mass value="2"/>'
                    '<inertia ixx="1" iyy="1" izz="1"/></inertial></link></robot>')
    data = json.loads(run("info", path, "--floating", "--json")[1])
    assert (data["n"], data["nq"]) == (6, 7)
    still = "--q=0,0,0,1,0,0,0"
    qdd = json.loads(run("fd", path, "--floating", still, "--json")[1])["qdd"][0]
    tau = json.loads(run("id", path, "--floating", still, "--json")[1])["tau"][0]
    assert sorted(np.abs(qdd).round(9)) == [0, 0, 0, 0, 0, 9.81]
    assert sorted(np.abs(tau).round(9)) == [0, 0, 0, 0, 0, 19.62]
    assert run("check", path, "--floating", "--quick")[0] == 0
    assert run("count", path, "bias", "--floating")[0] == 0
    assert "qd_6" in run("symbolic", path, "kinetic_energy", "--floating")[1]
    assert run("export", path, tmp_path / "c", "--floating")[0] == 0
    assert run("convert", path, copy, "--floating")[0] == 0
    assert nlink.load(copy).n == 6


def test_a_floating_body_falls(run, tmp_path):
    path, out = tmp_path / "body.urdf", tmp_path / "run.npz"
    path.write_text('<robot name="body"><link name="trunk"><inertial><mass value="2"/>'
                    '<inertia ixx="1" iyy="1" izz="1"/></inertial></link></robot>')
    assert run("simulate", path, "--floating", "--t", "1", "--ensemble", "3", "--out", out)[0] == 0
    motion = nlink.load_run(out)
    np.testing.assert_allclose(motion.q[:, -1, 2] - motion.q[:, 0, 2], -9.81 / 2, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(motion.q[..., 3:], axis=-1), 1.0, rtol=1e-12)


@pytest.mark.slow
def test_a_ball_lands(run, tmp_path):
    """A file with a world is simulated with contact, and the command says how well."""
    ball = nlink.free_body("ball", 1.0, nlink.Sphere(0.1), nlink.World())
    ball.save(tmp_path / "ball.toml")
    command = ("simulate", tmp_path / "ball.toml", "--q", "0,0,0.3,1,0,0,0", "--t", "0.4")
    status, out, err = run(*command, "--method", "semi_implicit", "--step", "1e-3", "--json")
    assert status == 0
    assert json.loads(out)["contact"]["residual"] < 1e-9
    status, out, err = run(*command)
    assert status != 0
    assert "expected method='semi_implicit'" in err


@pytest.mark.slow
def test_check_fails_for_an_unphysical_robot_with_status_one(run):
    status, out, err = run("check", "puma_saha", "--quick", "--json")
    assert status == 1
    assert json.loads(out)["ok"] is False
    assert err.startswith("nlink: warning: puma_saha: not a physical mechanism")


def test_warnings_are_one_line(run):
    status, _, err = run("id", "puma_saha", "--q", "0,0,0,0,0,0")
    assert status == 0
    assert err.startswith("nlink: warning: ")
    assert err.count("\n") == 1


def test_export_writes_source_and_header(run, tmp_path):
    status, out, _ = run("export", ROBOT, tmp_path / "c", "gravity_torque", "--json")
    assert status == 0
    files = {path.name for path in (tmp_path / "c").iterdir()}
    assert files == {os.path.basename(path) for path in json.loads(out)["files"]}
    assert {name.rsplit(".")[-1] for name in files} == {"c", "h"}


def test_cache_reports_and_clears(run, tmp_path, monkeypatch):
    monkeypatch.setenv("NLINK_CACHE", str(tmp_path / "kernels"))
    assert json.loads(run("cache", "info", "--json")[1])["entries"] == 0
    run("id", ROBOT, "--q", "0,0,0")
    entries = json.loads(run("cache", "info", "--json")[1])["entries"]
    assert json.loads(run("cache", "clear", "--json")[1]) == {"removed": entries}


@pytest.mark.parametrize(("place", "said"), [
    ("off", "switched off"), ("~nosuchuser/x", "~nosuchuser/x has no such user")])
def test_cache_info_says_why_nothing_is_kept(run, monkeypatch, place, said):
    monkeypatch.setenv("NLINK_CACHE", place)
    status, out, _ = run("cache", "info")
    assert status == 0
    assert said in out
    assert said in json.loads(run("cache", "info", "--json")[1])["problem"]


@pytest.mark.parametrize(("arguments", "said"), [
    (["bogus"], "No such command 'bogus'"),
    (["info"], "Missing argument 'ROBOT'"),
    (["info", "nope"], "'nope' is not bundled"),
    (["info", "no/such/file.toml"], "no/such/file.toml: cannot be read"),
    (["id", ROBOT, "--q", "0,0"], "--q: 2 numbers, expected 3"),
    (["id", ROBOT, "--q", "0,x,0"], "--q: '0,x,0', expected 3 numbers"),
    (["id", ROBOT, "no.csv"], "no.csv: No such file"),
    (["id", ROBOT, "-", "--q", "0,0,0"], "exclude each other"),
    (["count", ROBOT, "nothing"], "'nothing' is not computed here"),
    (["count", ROBOT, "bias", "--algorithm", "x"], "'x' is no formulation of bias"),
    (["symbolic", ROBOT, "bias", "--code", "fortran"], "fortran"),
    (["symbolic", ROBOT, "bias", "--latex", "--cse"], "exclude each other"),
    (["check", ROBOT, "--seed", "x"], "'--seed'"),
    (["info", "puma56"], "did you mean 'puma560'?"),
    (["simulte", ROBOT], "Did you mean 'simulate'?"),
    (["count", ROBOT, "inverse-dynamics"], "did you mean 'inverse_dynamics'?"),
    (["simulate", ROBOT, "--atol", "inf"], "atol: inf, expected finite numbers"),
    (["simulate", ROBOT, "--control", "pd", "--to", "1,1,1", "--kp", "1,2"],
     "--kp: 2 numbers, expected 3"),
])
def test_bad_command_lines_are_refused_in_one_line(refuse, arguments, said):
    assert said in refuse(*arguments)


@pytest.mark.parametrize(("data", "said"), [
    (b"", "no states"),
    (b"1,2,3\n", "shape (1, 3), expected (states, 9): 3 q, 3 qd, 3 qdd"),
    (b"0,0,0,0,0,0,0,0,0\n0,0\n", "line 2: 2 columns, expected 9"),
    (b"0,0,0,0,0,0,0,0,zero\n", "line 1: 'zero', expected a number"),
    (b"\xff\xfe\x00", "neither UTF-8 text nor NPY"),
    (b"\x93NUMPY garbage", "not a readable NPY file"),
])
def test_bad_states_are_refused_in_one_line(refuse, monkeypatch, data, said):
    give_stdin(monkeypatch, data)
    assert said in refuse("id", ROBOT, "-")


@pytest.mark.parametrize("array", [np.array([["a"] * 9]), np.ones((1, 9), complex)])
def test_arrays_that_are_not_real_are_refused(refuse, tmp_path, array):
    np.save(tmp_path / "states.npy", array)
    assert "expected real numbers" in refuse("id", ROBOT, tmp_path / "states.npy")


def test_pickled_arrays_are_refused(refuse, tmp_path):
    np.save(tmp_path / "states.npy", np.array([[{}] * 9]), allow_pickle=True)
    assert "not a readable NPY file" in refuse("id", ROBOT, tmp_path / "states.npy")


def test_help_is_what_no_arguments_get(run):
    status, out, _ = run()
    assert status == 0
    assert out.startswith("Usage: nlink")
    assert "reproduce" in out


def test_every_method_is_named_where_one_is_chosen(run):
    """Help does not load them, so it has their names by heart."""
    told = set(re.findall(r"\w+", run("simulate", "--help")[1]))
    for name in METHODS | SCIPY:
        assert name in told
        assert f'"{name}"' in (nlink.simulate.__doc__ or "")


def command_lines(command, *path):
    """The arguments of every command and group of commands."""
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from command_lines(each, *path, name)


@pytest.mark.slow
def test_help_at_eighty_columns_cuts_nothing(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    every = list(command_lines(typer.main.get_command(cli.app)))
    assert ("cache", "clear") in every
    for path in every:
        _, out, _ = run(*path, "--help")
        lines = [line for line in out.splitlines() if not line.startswith("Usage:")]
        assert not [line for line in lines if line.endswith(("...", "\u2026"))], path
        assert max(map(len, lines)) <= 80, path


def test_version(run):
    assert run("--version")[1] == f"nlink {nlink.__version__}\n"


def test_help_does_not_import_numpy():
    code = "import sys, nlink.cli; nlink.cli.run(['--help']); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_interrupt_ends_quietly(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(nlink, "load", interrupted)
    status, out, err = run("info", ROBOT)
    assert (status, out, err) == (130, "", "")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("arguments", [["robots"], ["robots", "--json"], ["--help"]])
def test_a_reader_that_leaves_causes_no_traceback(arguments):
    command = [sys.executable, "-m", "nlink", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() in (0, 1)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the shell's redirections")
@pytest.mark.parametrize(("command", "status"), [
    ("robots >&-", 0), ("fd planar3 --q 0,0,0 >&-", 0), ("info planar3 >&- 2>&- <&-", 0),
    ("fd planar3 - <&-", 2), ("nonsense 2>&-", 2), ("nonsense 2>&1 | true", 0),
    ("robots > /dev/full", 2)])
def test_closed_streams_cause_no_traceback(command, status, tmp_path):
    if "/dev/full" in command and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" -m nlink {command}'], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1


def test_reproduce_says_where_the_report_is(run, tmp_path, monkeypatch):
    monkeypatch.setattr("nlink.papers.reproduce.reproduce",
                        lambda out, progress: (progress(0.5, "half"), out / "report.html")[1])
    assert run("reproduce", "--out", tmp_path)[1] == f"report: {tmp_path / 'report.html'}\n"
    assert json.loads(run("reproduce", "--out", tmp_path, "--json")[1]) == {
        "report": str(tmp_path / "report.html")}


@pytest.mark.slow
def test_forward_dynamics_undoes_inverse_dynamics(run):
    _, torques, _ = run("id", "puma560", "--q", "0,0.5,1,0,0,0", "--qdd", "1,2,3,4,5,6", "--json")
    tau = ",".join(map(str, json.loads(torques)["tau"][0]))
    _, out, _ = run("fd", "puma560", "--q", "0,0.5,1,0,0,0", f"--tau={tau}", "--json")
    assert json.loads(out)["qdd"][0] == pytest.approx([1, 2, 3, 4, 5, 6], rel=1e-9)


def test_forward_dynamics_names_its_own_options(run):
    status, _, err = run("fd", "puma560", "states.csv", "--tau", "1")
    assert (status, err) == (2, "nlink: STATES and --q, --qd, --tau exclude each other\n")


def test_degrees_are_degrees_and_large_angles_are_asked_about(run):
    _, plain, _ = run("id", ROBOT, "--q", f"{np.pi / 2},0,0")
    _, degrees, error = run("id", ROBOT, "--q", "90,0,0", "--deg")
    assert degrees == plain
    assert not error
    _, _, error = run("id", ROBOT, "--q", "90,0,0")
    assert error == "nlink: warning: --q: 90 rad is 14.3 turns; --deg takes angles in degrees\n"
    assert run("id", ROBOT)[1] == run("id", ROBOT, "--q", "0,0,0")[1]


def test_a_controlled_run_says_how_well_it_followed_and_what_it_wrote(run, tmp_path):
    from nlink.simulation import Cycloid, PDGravity

    out = tmp_path / "a.csv"
    command = ("simulate", ROBOT, "--control", "pd", "--to", "20,-10,5", "--deg", "--kp",
               "100,80,60", "--kd", "20", "--t", "1", "--every", "0.1")
    status, said, _ = run(*command, "--out", out)
    assert status == 0
    assert "follows within" in said
    assert "largest effort" in said
    assert "energy" not in said
    assert f"wrote {out}" in said
    data = json.loads(run(*command, "--json")[1])
    assert data["files"] == []
    arm = nlink.load(ROBOT)
    path = Cycloid(np.zeros(3), np.deg2rad([20, -10, 5]), 1.0)
    same = nlink.simulate(arm, np.zeros(3), t=1.0, every=0.1, tau=PDGravity(
        arm, path, [100, 80, 60], 20.0))
    assert data["tracking"]["error"] == np.abs(same.tracking_error).max()
    assert data["tracking"]["effort"] == np.abs(same.tau).max()
