"""Logs: every format gives the same arrays, and everything wrong with one is said in a sentence."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest

import nlink

ROBOT = nlink.load("double_pendulum")
T = np.arange(60) * 0.01
Q = np.sin(T[:, None] * [2.0, 3.0])
TAU = np.cos(T[:, None] * [1.0, 5.0])
LOG = {"t": T, "q": Q, "tau": TAU}


def same(log):
    np.testing.assert_allclose(log.t - log.t[0], T, atol=1e-12)
    np.testing.assert_allclose(log.q, Q, atol=1e-12)
    np.testing.assert_allclose(log.tau, TAU, atol=1e-12)


HEADS = ["t,q1,q2,tau1,tau2", "time;q_0;q_1;tau_0;tau_1",
         "timestamp,joint1.position,joint2.position,joint1.effort,joint2.effort",
         "__time,/js/joint1/position,/js/joint2/position,/js/joint1/effort,/js/joint2/effort",
         "timestamp,actual_q_0,actual_q_1,torque[0],torque[1]", None,
         "time,q[0],q[1],tau_J[0],tau_J[1]",
         "%time,field.position0,field.position1,field.effort0,field.effort1",
         "Zeit;A1_pos;A2_pos;A1_trq;A2_trq", "# t q1 q2 tau1 tau2"]


@pytest.mark.parametrize("head", HEADS)
def test_columns_of_csv_are_found_by_name(tmp_path, head):
    head = head and head.replace("/js/", "/joint_states/")
    mark = ";" if head and ";" in head else None if head and head[0] == "#" else ","
    lines = [(mark or " ").join(map(repr, row)) for row in
             np.column_stack([T, Q, TAU]).tolist()]
    path = tmp_path / "run.csv"
    path.write_text("\n".join([head, *lines] if head else lines), "utf-8")
    same(nlink.read_log(path, ROBOT))


def test_columns_of_joints_are_put_in_the_order_of_the_robot(tmp_path):
    path = tmp_path / "run.csv"
    np.savetxt(path, np.column_stack([T, Q[:, ::-1], TAU[:, ::-1]]), delimiter=",", comments="",
               fmt="%.17g", header="t,joint2,joint1,joint2_torque,joint1_torque")
    same(nlink.read_log(path, ROBOT))


def test_npz_and_mat_and_mapping(tmp_path):
    np.savez(tmp_path / "a.npz", **LOG)
    same(nlink.read_log(tmp_path / "a.npz", ROBOT))
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "a.mat", {"t": T, "q": Q.T, "tau": TAU})
    same(nlink.read_log(str(tmp_path / "a.mat"), ROBOT))
    same(nlink.read_log(LOG, ROBOT))
    same(nlink.read_log({"clock": T, "x": Q, "u": TAU}, ROBOT,
                        columns={"t": "clock", "q": "x", "tau": "u"}))


def bag_writer(path, kind):
    """A writer of rosbags, the type store, and the file or directory that is read."""
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_typestore

    if kind == "bag":
        return rosbag1.Writer(path / "run.bag"), get_typestore(Stores.ROS1_NOETIC), "run.bag"
    plugin = rosbag2.StoragePlugin.MCAP if kind == "mcap" else rosbag2.StoragePlugin.SQLITE3
    read = {"directory": "run", "db3": "run/run.db3", "mcap": "run/run.mcap"}[kind]
    return (rosbag2.Writer(path / "run", version=9, storage_plugin=plugin),
            get_typestore(Stores.ROS2_HUMBLE), read)


@pytest.mark.skipif(find_spec("rosbags") is None, reason="needs rosbags")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bag", "mcap", "db3", "directory"])
def test_ros_bags(tmp_path, kind):
    writer, store, read = bag_writer(tmp_path, kind)
    JointState, Header, Time = (store.types[name] for name in (
        "sensor_msgs/msg/JointState", "std_msgs/msg/Header", "builtin_interfaces/msg/Time"))
    ros1 = {"seq": 0} if kind == "bag" else {}
    serialize = store.serialize_ros1 if kind == "bag" else store.serialize_cdr
    with writer:
        topic = writer.add_connection("/joint_states", JointState.__msgtype__, typestore=store)
        for t, q, tau in zip(T, Q, TAU, strict=True):
            stamp = round((t + 1.7e9) * 1e9)
            message = JointState(
                header=Header(stamp=Time(sec=stamp // 10**9, nanosec=stamp % 10**9), frame_id="",
                              **ros1),
                name=["gripper", "joint2", "joint1"], position=np.array([0.0, *q[::-1]]),
                velocity=np.zeros(3), effort=np.array([0.0, *tau[::-1]]))
            writer.write(topic, stamp, serialize(message, JointState.__msgtype__))
    log = nlink.read_log(tmp_path / read, ROBOT)
    np.testing.assert_allclose(log.t, T, atol=1e-6)
    np.testing.assert_allclose(log.q, Q)
    np.testing.assert_allclose(log.tau, TAU)


@pytest.mark.slow
def test_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="needs PyArrow")
    import pyarrow
    from pyarrow import parquet

    flat = {"time": T, **{f"{kind}_{k + 1}": x[:, k] for kind, x in (("q", Q), ("tau", TAU))
                          for k in range(2)}}
    listed = {"time": (T * 1e9).round().astype(np.int64) + 1_700_000_000_000_000_000,
              "position": Q.tolist(), "effort": TAU.tolist(), "note": ["a"] * len(T)}
    for name, columns in (("flat", flat), ("listed", listed)):
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
        same(nlink.read_log(tmp_path / f"{name}.parquet", ROBOT))
    (tmp_path / "bad.parquet").write_bytes(b"no such thing")
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        nlink.read_log(tmp_path / "bad.parquet", ROBOT)


def test_formats_name_the_package_they_need(tmp_path, monkeypatch):
    for name, modules, said in (
            ("a.parquet", ("pyarrow", "pyarrow.parquet"), "pip install pyarrow"),
            ("a.mcap", ("rosbags", "rosbags.highlevel"), r"pip install nlink\[logs\]")):
        (tmp_path / name).write_bytes(b"PAR1")
        for module in modules:
            monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=said):
            nlink.read_log(tmp_path / name, ROBOT)


def test_units_of_time_are_seen():
    for key, scale in (("t_ms", 1e3), ("timestamp", 1e9), ("stamp", 1e6)):
        log = nlink.read_log({key: 5 * scale + T * scale, "q": Q, "tau": TAU}, ROBOT)
        np.testing.assert_allclose(log.t - log.t[0], T, atol=1e-9)


def test_whole_nanoseconds_keep_their_digits():
    stamps = 1_700_000_000_123_456_789 + (T * 1e9).round().astype(np.int64)
    log = nlink.read_log({"t": stamps, "q": Q, "tau": TAU}, ROBOT)
    np.testing.assert_allclose(log.t - log.t[0], T, atol=1e-9)


def changed(**parts):
    return {**LOG, **parts}


def with_one(x, place, value):
    x = x.copy()
    x[place] = value
    return x


BAD = {
    "NaN": (changed(q=with_one(Q, (16, 1), np.nan)), "q is nan in row 17, column 2"),
    "back": (changed(t=with_one(T, 30, 0.1)), "stamps are not increasing: t is 0.1 in row 31"),
    "stands": (changed(t=np.zeros(60)), "stamps are not increasing"),
    "lengths": (changed(tau=TAU[:-5]), "55 rows of tau, expected 60"),
    "width": (changed(tau=np.ones((60, 3))), "3 columns of tau, expected 2"),
    "no torque": ({"t": T, "q": Q}, "no torque column"),
    "no positions": ({"t": T, "tau": TAU}, "no positions"),
    "no time": ({"q": Q, "tau": TAU}, "no column of time"),
    "missing joint": ({"t": T, "q1": Q[:, 0], "tau": TAU}, "columns of q for 1, expected one of"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_logs_are_refused_in_a_sentence(name):
    data, said = BAD[name]
    with pytest.raises(ValueError, match=r"(?s)^log: ") as refused:
        nlink.read_log(data, ROBOT)
    assert said in str(refused.value)


def test_rows_of_the_same_time_are_left_out_and_said():
    log = nlink.read_log(changed(t=with_one(T, 10, T[9])), ROBOT)
    assert len(log) == 59
    assert "1 of 60 rows have the time of the row before" in log.notes[0]


@pytest.mark.parametrize(("text", "said"), [
    ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "a pointer of git-lfs"),
    ("", "empty"), ("t,q1,q2,tau1,tau2\n", "no rows below the names"),
    ("t,q1,q2,tau1,tau2\n0,1,2,3\n", "5 names and 4 columns"),
    ("t,q1,q2,tau1,tau2\n0,1,2,3,4\n0,1,2,3\n", "line 3: 4 columns, expected 5"),
    ("t,q1,q2,tau1,tau2\n0,1,2,3,4\n0.1,1,x,3,4\n", "line 3: 'x' in column 3 (q2)"),
    ("t,q1,q2,tau1,tau2\n0,1,2,3,4\n0.1,1,,3,4\n", "q is nan in row 2, column 2"),
    ("0,1,2,3\n0.1,1,2,3\n", "4 columns without names"),
    ("t,q1,q1,tau1,tau2\n0,1,2,3,4\n", "two columns named 'q1'")])
def test_bad_files_are_refused_in_a_sentence(tmp_path, text, said):
    path = tmp_path / "run.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"run\.csv") as refused:
        nlink.read_log(path, ROBOT)
    assert said in str(refused.value)


def test_files_that_are_no_logs(tmp_path):
    for name in ("a.npz", "b.mat", "c.xyz"):
        (tmp_path / name).write_bytes(b"no such thing" * 20)
        with pytest.raises(ValueError, match=name):
            nlink.read_log(tmp_path / name, ROBOT)
    with pytest.raises(ValueError, match="cannot be read"):
        nlink.read_log(tmp_path / "none.csv", ROBOT)
    np.savez(tmp_path / "d.npz", q=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="no positions"):
        nlink.read_log(tmp_path / "d.npz", ROBOT)


def test_decimal_commas_comments_and_units_in_names(tmp_path):
    rows = np.column_stack([1e3 * T, np.degrees(Q), 1e3 * TAU]).tolist()
    lines = [";".join(repr(x).replace(".", ",") for x in row) for row in rows]
    head = "Time [ms];pos_A1 [deg];pos_A2 [deg];torque_A1 [Nmm];torque_A2 [Nmm]"
    text = "\n".join(["// a trace", "# of today", head, *lines])
    (tmp_path / "run.csv").write_text(text, "utf-8")
    log = nlink.read_log(tmp_path / "run.csv", ROBOT)
    same(log)
    assert "q: read in deg, as the names of columns say" in log.notes


def test_full_turns_of_encoders_are_taken_out():
    q = 1.5 * np.column_stack([4 * T, -9 * T]) + [2.5, -2.0]
    log = nlink.read_log({**LOG, "q": (q + np.pi) % (2 * np.pi) - np.pi}, ROBOT)
    np.testing.assert_allclose(np.diff(log.q, axis=0), np.diff(q, axis=0), atol=1e-12)
    assert any("jumps of a full turn" in note for note in log.notes)
