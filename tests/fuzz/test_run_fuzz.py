"""Runs under way that something changes, interrupts or kills, again and again.

Whatever it was, the same call gives the numbers of a run that nothing happened to, or one
sentence. Children do the work: a crash of theirs is a failure, not the end of the tests.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHANGES, HITS = 30, 3
"""How many runs are changed, and how often one is interrupted or killed."""
LONGEST = 600.0
"""Seconds after which something hangs, on the busiest machine."""
COMMON = """
import os, random, shutil, sys
from pathlib import Path

import numpy as np

import nlink
from nlink.simulation import simulator as integration

place, changes = Path(sys.argv[1]), int(sys.argv[2])
integration.SLICE, integration.CHECKPOINT = 1e-3, 0.02
robot = nlink.load("double_pendulum")
options = dict(t=20.0, every=0.5, method="dop853", rtol=1e-6, threads=2,
               tau=lambda t, q, qd: [-0.02 * v for v in qd],
               events={"turns": lambda t, q, qd: qd[0], "passes": lambda t, q, qd: q[1]})

def simulate(count, path=None, progress=None):
    q0 = np.random.default_rng(0).normal(size=(count, 2))
    return nlink.simulate(robot, q0, save=path, progress=progress, **options)

def same(run, whole):
    events = [getattr(each.events, name) for name in ("trajectory", "t", "which", "q", "qd")
              for each in (run, whole)]
    states = [getattr(each, name) for name in ("q", "qd", "tau", "t_end") for each in (run, whole)]
    return all(np.array_equal(a, b, equal_nan=True) for values in (events, states)
               for a, b in zip(values[::2], values[1::2]))
"""
SPOIL = COMMON + """
class Stop(Exception):
    pass

looks = []
def stop(share):
    looks.append(share)
    if share > 0.5:
        raise Stop

def spoil(path, rng):
    file = rng.choice(sorted(each for each in path.rglob("*") if each.is_file()))
    data = bytearray(file.read_bytes())
    at = rng.randrange(len(data)) if data else 0
    kind = rng.choice(["bits", "bytes", "cut", "grow", "word", "remove", "other"])
    if kind == "bits":
        data[at:at + 1] = bytes([data[at] ^ 1 << rng.randrange(8)]) if data else b"?"
    elif kind == "bytes":
        data[at:at + 8] = rng.randbytes(8)
    elif kind == "cut":
        del data[at:]
    elif kind == "grow":
        data += rng.randbytes(rng.randrange(1, 5000))
    elif kind == "word":
        data[at // 8 * 8:at // 8 * 8 + 8] = rng.choice([10**7, -1, 2**62, 1]).to_bytes(
            8, "little", signed=True)
    elif kind == "remove":
        return file.unlink()
    else:
        data = rng.choice(sorted(each for each in path.rglob("*") if each.is_file())).read_bytes()
    file.write_bytes(data)

rng, whole, refused, parts = random.Random(0), simulate(20), 0, []
for name in ("run", "run.zarr"):
    looks.clear()
    try:
        simulate(20, place / name, stop)
        raise AssertionError("not interrupted")
    except Stop:
        parts.append(place / name)
for change in range(changes):
    part = rng.choice(parts)
    path = place / f"copy{part.suffix}"
    shutil.copytree(part, path)
    spoil(path, rng)
    for call in (nlink.load_run, lambda path: simulate(20, path)):
        try:
            run = call(path)
        except ValueError as error:
            assert "\\n" not in str(error), error
            run, refused = None, refused + 1
    assert run is None or same(run, whole), change
    shutil.rmtree(path)
assert refused > changes // 4, refused
"""
GO_ON = COMMON + """
print("begun", flush=True)
run = simulate(800, place)
print(len(run.events))
assert same(run, simulate(800))
"""


def child(text: str, place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", text, str(place), str(CHANGES)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_changed_runs_are_refused_or_come_to_the_same_numbers(tmp_path):
    pytest.importorskip("zarr")
    process = child(SPOIL, tmp_path)
    _, error = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, error


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("name", ["run", "run.zarr"])
def test_signals_change_no_number_and_lose_no_event(tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    rng, hit = random.Random(name), 0
    path = tmp_path / name
    while True:
        process = child(GO_ON, path)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        if hit < HITS:
            time.sleep(rng.uniform(0.0, 0.8))
            process.send_signal(rng.choice([signal.SIGINT, signal.SIGKILL]))
            hit += 1
        out, error = process.communicate(timeout=LONGEST)
        if process.returncode == 0 or "AssertionError" in error or "ValueError" in error:
            break
        assert process.returncode in (-signal.SIGINT, -signal.SIGKILL), error
    assert process.returncode == 0, error
    assert hit > 0
    assert int(out) > 1000
