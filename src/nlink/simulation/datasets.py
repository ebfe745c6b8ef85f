"""Runs as xarray datasets: names, units, and what was varied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.coordinates import coordinate_units, effort_units, rate_units
from nlink.simulation.sensitivity import PREFIX

if TYPE_CHECKING:
    from nlink.simulation.run import Run

VARIED_UNITS = {"payload": "kg", "com": "m", "inertia": "kg m^2", "gravity": "m/s^2"}
PARAMETERS = ["m", "mx", "my", "mz", "xx", "yy", "zz", "xy", "xz", "yz"]
"""The ten parameters of a link."""
INERTIA = ("xx", "yy", "zz", "xy", "xz", "yz")


def to_xarray(run: Run) -> Any:
    """q, qd, tau, energy, sensitivities and how trajectories ended, with dimensions named time,
    coordinate, rate and ensemble axes.

    Coordinates and rates have the names of `robot.q_names` and `robot.qd_names`, their units beside
    them; what `vary` gave the trajectories are coordinates of the ensemble, such as `payload`.
    """
    try:
        import xarray
    except ImportError:
        raise ImportError("to_xarray needs xarray: pip install nlink[sim]") from None
    lead = [f"ensemble_{k}" for k in range(run.status_codes.ndim)]
    if len(lead) == 1:
        lead = ["ensemble"]
    d = run.robot.description
    rates = rate_units(d)
    arrays: dict[str, Any] = {
        "q": ([*lead, "time", "coordinate"], np.asarray(run.q), {"long_name": "coordinates"}),
        "qd": ([*lead, "time", "rate"], np.asarray(run.qd), {"long_name": "rates"}),
        "tau": ([*lead, "time", "rate"], np.asarray(run.tau), {"long_name": "joint forces"}),
        "energy": ([*lead, "time"], run.energy, {"units": "J"}),
        "status": (lead, np.asarray(run.status, dtype=str)),
        "t_end": (lead, np.asarray(run.t_end), {"units": "s"})}
    if "x" in run.parts:
        arrays["x"] = ([*lead, "time", "controller_state"], np.asarray(run.x),
                       {"long_name": "state of the controller"})
    for name in (part.removeprefix(PREFIX) for part in run.parts if part.startswith(PREFIX)):
        change = run.sensitivity(name)
        for what, values in (("q", change.q), ("qd", change.qd)):
            arrays[f"d{what}_d{name}"] = (
                [*lead, "time", "rate", f"{name}_number"], values,
                {"long_name": f"derivatives of {what} by {name}"})
    if run.desired is not None:
        arrays["desired"] = (["time", "coordinate"], run.desired)
    labels = {
        "time": ("time", run.t, {"units": "s"}),
        "coordinate": list(run.robot.q_names), "rate": list(run.robot.qd_names),
        "q_unit": ("coordinate", list(coordinate_units(d))),
        "qd_unit": ("rate", [f"{unit}/s" for unit in rates]),
        "tau_unit": ("rate", list(effort_units(d)))}
    attributes: dict[str, Any] = {"robot": run.robot.name, "method": run.method}
    if run.variation is not None:
        labels |= _varied(run, lead)
        if any(name == "payload" for name, _ in run.variation.varied.columns):
            frame = run.variation.varied.frame
            attributes["payload_frame"] = frame if isinstance(frame, str) else (
                run.robot.frames[:len(run.robot.links) + 1][frame])
    return xarray.Dataset(arrays, labels, attributes)


WRENCH = ["moment_x", "moment_y", "moment_z", "force_x", "force_y", "force_z"]


def _varied(run: Run, lead: list[str]) -> dict[str, Any]:
    """The numbers of the trajectories by their names in `vary`."""
    assert run.variation is not None
    axes = {"com": "axis", "gravity": "axis", "inertia": "moment"}
    found: dict[str, Any] = {}
    at = 0
    for name, width in run.variation.varied.columns:
        values = run.variation.values[..., at:at + width]
        at += width
        units = {"units": VARIED_UNITS[name]} if name in VARIED_UNITS else {}
        if name == "tau":  # it is among the arrays
            continue
        if name == "payload":
            found[name] = (lead, values[..., 0], units)
            continue
        if name == "f_ext":
            links = [run.robot.links[k].name for k in run.variation.varied.links]
            found[name] = ([*lead, "pushed_link", "wrench"],
                           values.reshape(*values.shape[:-1], len(links), -1), units)
            found |= {"pushed_link": links, "wrench": WRENCH}
            continue
        if name == "inertia" and width > len(INERTIA):
            found[name] = ([*lead, "inertial_link", "parameter"],
                           values.reshape(*values.shape[:-1], -1, len(PARAMETERS)))
            found |= {"inertial_link": [link.name for link in run.robot.links],
                      "parameter": PARAMETERS}
            continue
        axis = axes.get(name, "rate" if width == run.robot.n else f"{name}_number")
        found[name] = ([*lead, axis], values, units)
        if name in axes:
            found[axis] = list(INERTIA if name == "inertia" else "xyz")
    return found
