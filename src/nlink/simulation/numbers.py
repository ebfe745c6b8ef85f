"""The numbers of a system, which no program depends on: what stands in tables, and what varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.scalars.arrays import batch
from nlink.simulation.control_scheme import Controller
from nlink.simulation.variation import NOTHING, Variation, Varied
from nlink.simulation.wrenches import AppliedWrenches, given_wrenches

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
MOST_PUSHED = 128
"""Joints of robots with wrenches on links: the code of these is not rolled."""


@dataclass(frozen=True)
class Numbers:
    """Tables on the output times, and values of what varies."""

    forces: Array | None = None
    """(..., times, n)"""
    wrenches: Array | None = None
    """(..., times, 6 wrenches)"""
    variation: Variation | None = None
    """Values of (..., width)."""

    def table(self, times: int) -> Array | None:
        """One table, (..., times, columns), of joint forces and then wrenches; its rows are those
        of so many output times."""
        for name, x in (("tau", self.forces), ("f_ext", self.wrenches)):
            if x is not None and x.shape[-2] != times:
                what = ": joint forces at each output time" if name == "tau" else (
                    ": a wrench at each output time")
                raise ValueError(f"{name}: shape {x.shape}, expected (..., {times}, "
                                 f"{x.shape[-1]}){what}")
        known = [x for x in (self.forces, self.wrenches) if x is not None]
        if len(known) < 2:
            return known[0] if known else None
        try:
            lead = np.broadcast_shapes(*(x.shape[:-2] for x in known))
        except ValueError:
            raise ValueError(f"leading shapes do not broadcast: tau {known[0].shape[:-2]}, f_ext "
                             f"{known[1].shape[:-2]}") from None
        return np.concatenate([np.broadcast_to(x, (*lead, times, x.shape[-1])) for x in known],
                              axis=-1)

    def leading_shapes(self) -> dict[str, tuple[int, ...]]:
        """The leading shapes of what was given, by its name."""
        found = {"tau": () if self.forces is None else self.forces.shape[:-2],
                 "f_ext": () if self.wrenches is None else self.wrenches.shape[:-2]}
        if self.variation is not None:
            found["vary"] = self.variation.values.shape[:-1]
        return found


def given_numbers(robot: Robot, tau: ArrayLike | Controller | None, f_ext: Any,
                  vary: Mapping[str, Any] | None, *, functions: bool = False,
                  ) -> tuple[Numbers, Varied, AppliedWrenches | None]:
    """The arguments `tau`, `f_ext` and `vary` of a system, checked: their numbers, what varies, and
    wrenches; `functions` besides these may have parameters."""
    vary = dict(vary or {})
    controller = tau if callable(tau) else None
    forces = _joint_forces(robot, tau)
    if forces is not None and forces.ndim == 1:
        if "tau" in vary:
            raise ValueError("vary: 'tau' beside joint forces in tau, expected one of them")
        vary["tau"], forces = forces, None
    wrenches = given_wrenches(robot, f_ext)
    applied = wrenches.applied
    if wrenches.numbers is not None:
        assert applied is not None
        if "f_ext" in vary:
            raise ValueError("vary: 'f_ext' beside numbers in f_ext, expected one of them")
        vary["f_ext"] = {link + 1: x for link, x in zip(applied.numbers, np.split(
            wrenches.numbers, len(applied.numbers)), strict=True)}
    functions = functions or (applied is not None and bool(applied.functions))
    variation = Variation.of(robot, tau if forces is not None else controller, vary, functions)
    if variation is not None and variation.varied.links:
        applied = replace(applied or AppliedWrenches(), numbers=variation.varied.links)
    if applied is not None and len(robot.mechanism.joints) > MOST_PUSHED:
        raise ValueError(f"f_ext: {len(robot.mechanism.joints)} joints, expected at most "
                         f"{MOST_PUSHED} for wrenches in a simulation")
    return (Numbers(forces, wrenches.table, variation),
            NOTHING if variation is None else variation.varied, applied)


def _joint_forces(robot: Robot, tau: ArrayLike | Controller | None) -> Array | None:
    """Joint forces given as numbers: (n,) that never change, or (..., times, n)."""
    if tau is None or callable(tau):
        return None
    values = batch("tau", tau, ())
    if (values.ndim < 2 and values.shape != (robot.n,)) or values.shape[-1:] != (robot.n,):
        raise ValueError(f"tau: shape {values.shape}, expected ({robot.n},), or (..., times, "
                         f"{robot.n}): joint forces at each output time")
    return np.array(values)
