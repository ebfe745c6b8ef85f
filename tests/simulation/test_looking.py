"""Figures, datasets and notebooks: what is drawn and labelled is what the run has."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.simulation import PDGravity, Quintic
from nlink.simulation.following import target_of

ARM = nlink.load("planar3")
GOAL = np.array([0.4, -0.3, 0.2])
PATH = Quintic(np.zeros(3), GOAL, 1.0)
CONTROL = PDGravity(ARM, PATH, 100.0, 20.0)


@pytest.fixture(scope="module")
def followed():
    return nlink.simulate(ARM, np.zeros(3), t=1.0, tau=CONTROL, every=0.05)


@pytest.fixture(scope="module")
def many():
    q0 = np.random.default_rng(0).normal(scale=0.1, size=(40, 3))
    return nlink.simulate(ARM, q0, t=0.5, every=0.05, vary={
        "payload": np.linspace(0, 1, 40), "viscous": np.full((40, 1), 0.1)})


def test_a_run_knows_what_it_was_to_follow(followed, tmp_path):
    np.testing.assert_allclose(followed.desired[-1], GOAL, atol=1e-12)
    np.testing.assert_allclose(followed.tracking_error, followed.desired - followed.q, atol=1e-15)
    for name in ("run.npz", "run.zarr"):
        again = nlink.load_run(followed.save(tmp_path / name))
        np.testing.assert_array_equal(again.desired, followed.desired)
    free = nlink.simulate(ARM, np.zeros(3), t=0.1)
    assert free.desired is free.tracking_error is None


def test_what_a_frame_follows_is_no_configuration():
    from nlink.simulation import OperationalSpace

    robot = nlink.load("puma560").lock(["joint4", "joint5", "joint6"])
    assert target_of(OperationalSpace(robot, [0.3, 0.1, 0.2], 10.0, 5.0), robot) is None


def test_figures_have_names_units_and_desired_curves(followed):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    figure = followed.plot()
    assert pyplot.get_fignums() == before  # nothing is left open
    panels = figure.axes
    assert [panel.get_title(loc="left") for panel in panels] == list(ARM.q_names)
    assert {panel.get_title(loc="right") for panel in panels} == {"rad"}
    for k, panel in enumerate(panels):
        curves = {line.get_label(): line.get_ydata() for line in panel.lines}
        np.testing.assert_array_equal(curves["q"], followed.q[:, k])
        np.testing.assert_array_equal(curves["desired"], followed.desired[:, k])
    assert {p.get_title(loc="right") for p in followed.plot(what="tau").axes} == {"N m"}
    errors = followed.plot(what="error").axes
    np.testing.assert_allclose(errors[1].lines[0].get_ydata(), followed.tracking_error[:, 1])
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_ensembles_are_bands_of_quantiles(many):
    pytest.importorskip("matplotlib")
    panel = many.plot().axes[0]
    np.testing.assert_allclose(panel.lines[0].get_ydata(), np.median(many.q[..., 0], axis=0))
    wide, narrow = panel.collections
    for band, (low, high) in ((wide, (0.05, 0.95)), (narrow, (0.25, 0.75))):
        heights = band.get_paths()[0].vertices[:, 1]
        quantiles = np.quantile(many.q[..., 0], (low, high), axis=0)
        assert np.isclose(heights.min(), quantiles.min())
        assert np.isclose(heights.max(), quantiles.max())


def test_what_is_constant_looks_constant():
    pytest.importorskip("matplotlib")
    hold = PDGravity(ARM, [0.0, 0.0, 0.5], 100.0, 20.0)
    still = nlink.simulate(ARM, np.zeros(3), t=0.5, tau=hold)
    for panel in still.plot().axes:
        low, high = panel.get_ylim()
        assert high - low > 0.05
    total = still.plot(what="energy").axes[0]
    assert {"energy", "kinetic", "potential"} <= {line.get_label() for line in total.lines}


def test_plots_refuse_in_a_sentence(many):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match=r"what: 'enrgy', .* did you mean 'energy'"):
        many.plot(what="enrgy")
    with pytest.raises(ValueError, match="has followed no trajectory"):
        many.plot(what="error")


@pytest.mark.slow
def test_datasets_have_names_units_and_what_varied(many, followed):
    pytest.importorskip("xarray")
    data = many.to_xarray()
    assert list(data.coordinate.values) == list(ARM.q_names)
    assert set(data.q_unit.values) == {"rad"}
    assert set(data.qd_unit.values) == {"rad/s"}
    assert set(data.tau_unit.values) == {"N m"}
    np.testing.assert_array_equal(data.payload.values, np.linspace(0, 1, 40))
    assert data.payload.attrs == {"units": "kg"}
    assert data.attrs["payload_frame"] == "link3"
    assert data.viscous.dims == ("ensemble", "rate")
    assert set(data.status.values) == {"done"}
    heavy = data.where(data.payload > 0.5, drop=True)
    assert 0 < heavy.sizes["ensemble"] < 40
    one = followed.to_xarray()
    np.testing.assert_array_equal(one.desired.sel(coordinate="joint2"), followed.desired[:, 1])


@pytest.mark.slow
def test_notebooks_show_tables_and_escape_names(followed):
    from dataclasses import replace

    hostile = nlink.Robot(replace(ARM.description, name="<script>alert(1)</script>"))
    for shown in (hostile._repr_html_(), replace(followed, robot=hostile)._repr_html_(),
                  nlink.check(hostile, states=1, quick=True, engine="numpy")._repr_html_()):
        assert "<script>" not in shown
        assert "&lt;script&gt;" in shown
        assert shown.count("<tr>") == shown.count("</tr>") > 2
    assert ">3</td>" in nlink.Count(mul=3)._repr_html_()


def test_reprs_are_one_line_without_insides():
    one = ARM.lock(["joint2", "joint3"])
    assert repr(one) == "<Robot planar3: 1 joint, 1 rate, fixed base>"
    assert repr(nlink.Coupled(one)) == "<Coupled planar3: 1 rate, 0 mimic joints>"
    assert repr(nlink.Count(mul=3, add=2, trig=1)) == "Count(mul=3, add=2, trig=1)"
    report = nlink.check(one, states=1, quick=True, engine="numpy")
    assert repr(report) == f"<CheckReport: {report.verdict.rstrip('.')}>"


def test_simulation_lists_what_it_offers():
    import nlink.simulation

    assert {"PD", "Quintic", "Spline", "simulate"} <= set(dir(nlink.simulation))
    assert set(dir(nlink.simulation)) >= set(nlink.simulation.__all__)
