"""Derivatives of a step with contacts, by the implicit function theorem.

At a solution each contact is open, sticks or slides, and each rate that rubs or has limits slides,
rests or is held at a limit. As long as none of them changes, the forces f obey smooth equations
R(y, f) = 0:

    open     f = 0
    sticks   sig = 0
    slides   sig_n = 0,  d . f_t = mu f_n,  e . (sig_t + s f_t) = 0,    d = f_t / |f_t|, e across it
    rests    w = 0, at a limit w = its bound, and f = -+level where it slides

(s is the slip of the solution, sig_t = -s f_t), and the state after the step is N(y, f). So

    R_f df = -R_y dy,       dN = N_y dy + N_f df,

and backwards R_f^T m = N_f^T w and N'^T w = N_y^T w - R_y^T m. Where several forces are right R_f
is singular, and df is the shortest: velocities have derivatives there, forces have not. Between
modes nothing has a derivative; `smooth` differentiates the smoothed laws of `contact_newton` in
their place, which mix what is near, at their own solution.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nlink.iterations.contact_cone import ContactBlock
from nlink.iterations.contact_newton import ScaledContacts, natural_map
from nlink.iterations.iteration import equal
from nlink.iterations.joint_block import ON_LOWER, ON_UPPER, RESTS, UP, JointBlock
from nlink.iterations.methods import METHODS
from nlink.programs.derivatives import jvp, vjp
from nlink.programs.program import Port, Program
from nlink.scalars.functions import Scalar, Scalars, divide, less, less_equal, maximum, sqrt, where
from nlink.simulation.contact_texts import (
    CONTACT_MODE,
    FORCE,
    JOINT_FORCE,
    JOINT_MODE,
    OPEN,
    SLIDES,
    SLIP,
    StepRows,
)
from nlink.simulation.integration_kernels import one_step
from nlink.simulation.moment import Moment
from nlink.simulation.sensitivity import in_tangent_space
from nlink.simulation.system import System

Array = np.ndarray
SINGULAR = 1e10
"""Equations with this ratio of sizes have more than one solution, about."""
STEPS, LENGTHS = 60, (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
"""Newton's steps for smoothed laws, and their lengths."""
LEAST = 1e-200


class ContactStep:
    """A step of a system with contacts on arrays of states (count, size), and its derivatives."""

    def __init__(self, system: System, h: float, smooth: float = 0.0) -> None:
        contacts = system.contacts
        assert contacts is not None
        self.system, self.h, self.smooth, self.contacts = system, h, smooth, contacts
        names = [part.name for part in contacts.parts(system)]
        self.places = [system.layout.place([name]) for name in names]
        forces = [place for name, place in zip(names, self.places, strict=True)
                  if name in (FORCE, JOINT_FORCE)]
        self.forces = np.concatenate([np.arange(at.start, at.stop) for at in forces])
        """Where states have forces."""

    def after(self, y: Array, u: Array, t: float) -> tuple[Array, Array]:
        """The states with the forces of the step that begins there, and those after it."""
        new = one_step(self.system, METHODS["semi_implicit"], y, u, t, self.h)
        y = self.with_forces(y, new)
        if not self.smooth:
            return y, new
        y = self._smoothed(y, u, t)
        return y, self._kernel("contact laws")(np.full((len(y), 1), t), y, self._inputs(y, u))[1]

    def with_forces(self, y: Array, new: Array) -> Array:
        """States with the forces, slips and modes of the steps after them."""
        y = y.copy()
        for at in self.places:
            y[:, at] = new[:, at]
        return y

    # the equations

    def _program(self) -> Program:
        """R and N of a moment, whose cells are h and the forces of the solution."""
        system, contacts = self.system, self.contacts.whole
        ports, at = system.moment(1 + len(self.forces))
        reference = at.cells[1:]
        at = replace(at, u=at.u[:len(at.u) - len(reference)])
        rows = contacts.rows(at)
        at = replace(at, shared=rows)
        laws = self._smooth_laws(contacts.forces(at), rows) if self.smooth else self._laws(
            at, rows, reference)
        *new, _depth, _switches, _missed = contacts.move(at)
        outputs = Port("laws", (len(laws),)), Port("new", (len(new),))
        return Program("contact_laws", ports, outputs, tuple(
            at.t.graph.lift(x) for x in (*laws, *new)))

    def _laws(self, at: Moment, rows: StepRows, reference: Scalars) -> list[Scalar]:
        forces, found = self.contacts.whole.forces(at), list[Scalar]()
        sig = [_sum(row, forces, g) for row, g in zip(rows.W, rows.rows.g, strict=True)]
        modes = [*at.parts[CONTACT_MODE], *at.parts.get(JOINT_MODE, ())]
        slips, first = [*at.parts[SLIP], *[0.0] * len(self.contacts.rates)], 0
        for block, mode, slip in zip(rows.blocks, modes, slips, strict=True):
            own = slice(first, first + block.size)
            if isinstance(block, ContactBlock):
                found += _law_of_contact(block, mode, slip, sig[own], forces[own], reference[own])
            else:
                found.append(_law_of_rate(block, mode, sig[first], forces[first]))
            first += block.size
        return found

    def _smooth_laws(self, forces: Scalars, rows: StepRows) -> list[Scalar]:
        scaled = ScaledContacts.of(rows.blocks, rows.W, rows.rows.g)
        x = [f / d for f, d in zip(forces, scaled.D, strict=True)]
        y = [a + b for a, b in zip(scaled.apply(x), scaled.h, strict=True)]
        return natural_map(scaled, x, y, self.smooth)

    def _kernel(self, name: str) -> Any:
        makes = {"contact laws": self._program,
                 "contact laws, moved": lambda: jvp(self._program(), ("y", "u")),
                 "contact laws, pulled back": lambda: vjp(self._program(), ("y", "u"))}
        return self.system.kernel(f"{name}, smooth {self.smooth}", makes[name])

    def _inputs(self, y: Array, u: Array) -> Array:
        return np.concatenate([u, np.full((len(y), 1), self.h), y[:, self.forces]], axis=1)

    def _by_forces(self, y: Array, u: Array, t: float) -> Array:
        """The transpose of R_f."""
        rows, u = len(self.forces), self._inputs(y, u)
        laws, _ = self._kernel("contact laws, moved")(
            np.full((len(y), 1, 1), t), y[:, None], u[:, None], self._units,
            np.zeros((rows, u.shape[1])))
        return laws

    @property
    def _units(self) -> Array:
        """Unit changes of each force."""
        units = np.zeros((len(self.forces), self.system.shape.size))
        units[np.arange(len(self.forces)), self.forces] = 1.0
        return units

    # its derivatives

    def moved(self, y: Array, u: Array, t: float, dy: Array, du: Array) -> Array:
        """How the states after steps change, (count, directions, size), with changes of the states
        y (that have the forces of their steps) and of their inputs u, (..., directions, size)."""
        count, rows, full = len(y), len(self.forces), self._inputs(y, u)
        dy = np.concatenate([dy, np.broadcast_to(self._units, (count, rows, y.shape[1]))], axis=1)
        changes = np.zeros((dy.shape[1], full.shape[1]))
        changes[:len(du), :u.shape[1]] = du
        laws, new = self._kernel("contact laws, moved")(
            np.full((count, 1, 1), t), y[:, None], full[:, None], dy, changes)
        df = -laws[:, :-rows] @ _inverse(laws[:, -rows:])
        return new[:, :-rows] + df @ new[:, -rows:]

    def pulled(self, y: Array, u: Array, t: float, w: Array) -> tuple[Array, Array]:
        """Gradients by the states and by their inputs, from those by the states after steps."""
        count, rows, full = len(y), len(self.forces), self._inputs(y, u)
        times, back = np.full((count, 1), t), self._kernel("contact laws, pulled back")
        w = w.copy()
        for at in self.places:
            w[:, at] = 0.0
        by_force = back(times, y, full, np.zeros((count, rows)), w)[0][:, self.forces]
        m = np.einsum("kij,kj->ki", _inverse(self._by_forces(y, u, t)), by_force)
        by_y, by_u = back(times, y, full, -m, w)
        for at in self.places:
            by_y[:, at] = 0.0
        return by_y, by_u[:, :u.shape[1]]

    def matrices(self, y: Array, u: Array, t: float, elements: list[int]) -> tuple[Array, Array]:
        """A and B of steps from states, by changes of q in its tangent space, of some elements of
        the state behind it, and of the joint forces that end what varies."""
        robot, count = self.system.robot, len(y)
        nq, n, size = robot.nq, robot.n, robot.n + len(elements)
        y, new = self.after(y, u, t)
        dy = np.zeros((count, size + n, y.shape[1]))
        q = [y[:, k] for k in range(nq)]
        for j, unit in enumerate(np.eye(n)):
            dy[:, j, :nq] = np.stack([np.broadcast_to(x, count) for x in (
                robot.mechanism.space.tangent(q, unit.tolist()))], axis=1)
        dy[:, np.arange(n, size), elements] = 1.0
        du = np.zeros((size + n, u.shape[1]))
        du[size:, -n:] = np.eye(n)
        change = self.moved(y, u, t, dy, du).swapaxes(1, 2)
        rows = np.concatenate([in_tangent_space(robot, new[:, :nq], change[:, :nq]),
                               change[:, elements]], axis=1)
        return rows[:, :, :size], rows[:, :, size:]

    def _smoothed(self, y: Array, u: Array, t: float) -> Array:
        """The states with forces that obey the smoothed laws, by Newton's method."""
        count, full, value = len(y), self._inputs(y, u), self._kernel("contact laws")
        times = np.full((count, 1), t)

        def size_of(forces: Array) -> tuple[Array, Array]:
            y[:, self.forces] = forces
            laws = value(times, y, full)[0]
            return laws, np.linalg.norm(laws, axis=1)

        forces = y[:, self.forces].copy()
        laws, size = size_of(forces)
        for _ in range(STEPS):
            step = -np.einsum("kj,kji->ki", laws, _inverse(self._by_forces(y, u, t)))
            best, found = np.full(count, np.inf), forces.copy()
            for length in LENGTHS:
                _, tried = size_of(forces + length * step)
                found = np.where((tried < best)[:, None], forces + length * step, found)
                best = np.fmin(best, tried)
            if not (best < size).any():
                break
            forces = np.where((best < size)[:, None], found, forces)
            laws, size = size_of(forces)
        return y


def _law_of_contact(block: ContactBlock, mode: Scalar, slip: Scalar, sig: Scalars, f: Scalars,
                    at: Scalars) -> list[Scalar]:
    flat = sqrt(at[0] * at[0] + at[1] * at[1])
    over = divide(1.0, maximum(flat, LEAST))
    d1, d2 = where(less(0.0, flat), at[0] * over, 1.0), at[1] * over
    along = block.rho * (d1 * f[0] + d2 * f[1] - block.mu * f[2])
    across = where(less_equal(block.mu, 0.0), block.rho * (d1 * f[1] - d2 * f[0]),
                   d1 * (sig[1] + slip * f[1]) - d2 * (sig[0] + slip * f[0]))
    opens, slides = equal(mode, OPEN), equal(mode, SLIDES)
    return [where(opens, block.rho * free, where(slides, sliding, sticking))
            for free, sliding, sticking in zip(f, (along, across, sig[2]), sig, strict=True)]


def _law_of_rate(block: JointBlock, mode: Scalar, rate: Scalar, f: Scalar) -> Scalar:
    law = block.rho * (f + where(equal(mode, UP), 1.0, -1.0) * block.level)
    law = where(equal(mode, RESTS), rate, law)
    for bound, held in ((block.low, ON_LOWER), (block.high, ON_UPPER)):
        if bound is not None:
            law = where(equal(mode, held), rate - bound, law)
    return law


def _sum(row: Scalars, x: Scalars, start: Scalar) -> Scalar:
    for a, b in zip(row, x, strict=True):
        start = start + a * b
    return start


def _inverse(K: Array) -> Array:
    """The inverses of matrices (count, rows, rows); of singular ones those that are least."""
    scale = np.maximum(np.abs(K).max(axis=1, keepdims=True), LEAST)  # each equation by its size
    K = K / scale
    with np.errstate(all="ignore"):
        try:
            found = np.linalg.inv(K)
        except np.linalg.LinAlgError:
            found = np.full_like(K, np.inf)
        ratio = np.linalg.norm(K, axis=(1, 2)) * np.linalg.norm(found, axis=(1, 2))
    singular = ~(ratio < SINGULAR)
    if singular.any():
        finite = singular & np.isfinite(K).all(axis=(1, 2))
        found[singular] = np.nan
        found[finite] = np.linalg.pinv(K[finite], rcond=1.0 / SINGULAR)
    return found / scale.swapaxes(1, 2)
