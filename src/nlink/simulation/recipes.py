"""Digests of systems: two with the same have the same programs and share their kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nlink.engines.kernels import kept
from nlink.programs.keys import key
from nlink.scalars.misuse import explained

if TYPE_CHECKING:
    from nlink.simulation.system import System


def recipe_of(system: System) -> str:
    """A digest of all programs that are integrated; only what users wrote is traced for it if an
    equal system has been integrated before."""
    watch = key(system.program("watch")) if system.watched else None
    limits = [(each.g, each.rate) for each in system.watched if each.trigger.bounds]
    pushed = None if system.wrenches is None else (
        replace(system.wrenches, functions=()), system.columns, _push_key(system))
    here = repr((type(system), system.drive.recipe(system), system.parts, pushed, system.velocity,
                 system.algorithm, system.closing, system.varied, system.modes, system.contacts,
                 system.width, system.watching.triggers, watch, limits, system.watching.restitution,
                 None if system.motion is None else system.motion.recipe(system)))
    return kept(system.robot, ("recipe of a system", here),
                lambda: key(system.shape, system.programs))


def _push_key(system: System) -> str | None:
    """A digest of the functions that wrenches come from: they are traced alone."""
    assert system.wrenches is not None
    if not system.wrenches.functions:
        return None
    _, at = system.moment()
    none = [0.0] * (6 * len(system.robot.links))
    with explained():
        values = system.wrenches.on_links(len(system.robot.links), none, none, at.t, *at.state,
                                        *system.varied.parameters(at.own))
    return key([link for link, _ in system.wrenches.functions],
               [at.t.graph.lift(x) for x in values])
