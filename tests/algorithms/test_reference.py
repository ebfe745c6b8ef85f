"""The papers' runs, recomputed by three independent implementations: tests/data/reference.json."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nlink
from nlink.engines.engines import ENGINES

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "reference.json").read_text())
T = 10.0
STANFORD_START = np.radians([0, 90, 0, 0, 0, 0])
STANFORD_END = np.array([*np.radians([60, 60]), 0.1, *np.radians([60, 60, 60])])
RUNS = {
    "planar": ("planar3", np.zeros(3), np.full(3, np.pi)),
    "stanford": ("stanford", STANFORD_START, STANFORD_END),
    # the paper prints 1/2 [...], the case xT - x0 = pi
    "stanford_printed": ("stanford", STANFORD_START, STANFORD_START + np.pi),
    "puma_abs": ("puma560", np.zeros(6), np.full(6, np.pi)),
    "puma_printed": ("puma_saha", np.zeros(6), np.full(6, np.pi)),
}


def trajectory(t: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, ...]:
    """x0 + (xT - x0)/(2 pi) [w t - sin w t] with w = 2 pi / T, and its two derivatives."""
    w, rise = 2 * np.pi / T, (end - start) / (2 * np.pi)
    phase = w * t[:, None]
    return (start + rise * (phase - np.sin(phase)), rise * w * (1 - np.cos(phase)),
            rise * w**2 * np.sin(phase))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("run", RUNS)
def test_torques_along_the_papers_trajectory(run, engine):
    name, start, end = RUNS[run]
    torques = REFERENCE[run]["torques"]
    motion = trajectory(np.array([float(t) for t in torques]), start, end)
    tau = nlink.load(name, physical="ignore").inverse_dynamics(*motion, engine=engine)
    expected = np.array(list(torques.values()))
    scale = np.abs(expected).max(axis=1, keepdims=True)
    assert (np.abs(tau - expected) <= 1e-12 * scale).all()


def test_every_run_of_the_file_is_tested():
    assert set(RUNS) == set(REFERENCE)
