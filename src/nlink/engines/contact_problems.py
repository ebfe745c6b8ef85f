"""The contact problem of one step, as arrays, for those who bring a solver of their own; and a step
as one kernel, for those who call it from a loop of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nlink.algorithms.contact_rows import contact_rows, respond
from nlink.algorithms.inverse_dynamics import no_wrenches
from nlink.algorithms.sweep import Unrolled
from nlink.backends.llvm.signature import CompiledFunction, compiled_function
from nlink.engines.computations import Computations
from nlink.engines.engines import machine_code, run_program
from nlink.engines.kernels import kept
from nlink.iterations.contact_cone import ContactBlock, sweep, worst
from nlink.model.mechanism import Mechanism
from nlink.programs.program import Port, Program
from nlink.programs.tracing import trace_function
from nlink.scalars.functions import Scalars

Array = np.ndarray
VISITS = 6
"""How often a step as one kernel visits its contacts."""


class ContactProblem(NamedTuple):
    """sig = G lam + g; see `Robot.contact_problem`."""

    G: Array
    """(..., 3 contacts, 3 contacts): J M^-1 J^T, symmetric and positive semidefinite."""
    g: Array
    """(..., 3 contacts): velocities without impulses, and for normals what gaps allow."""
    gap: Array
    """(..., contacts): distances, negative where bodies have sunk into each other."""
    friction: Array
    """(contacts,): Coulomb's coefficients."""


class ContactProblems(Computations):
    """Steps of robots whose shapes touch a world."""

    def contact_problem(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike, step: ArrayLike = 1e-3,
                        ) -> ContactProblem:
        """The contact problem of a step of semi-implicit Euler, with all possible contacts.

        Impulses lam and velocities sig = G lam + g have three elements a contact, along t, u and
        n, a right-handed frame with n from the world to the body. With Coulomb's coefficient mu
        they obey

            0 <= lam_n,  0 <= sig_n,  lam_n sig_n = 0,  |lam_t| <= mu lam_n,

        and where sig_t is not zero, lam_t is as large as it may be and against it. In sig_n is
        gap / step where there is a gap: it may close within the step.

        >>> import nlink
        >>> arm = nlink.load("planar3").with_contacts({"link3": nlink.Sphere(0.1)})
        >>> problem = arm.contact_problem([0.1, 0.2, 0.3], [0, 0, 0], [0, 0, 0])
        >>> problem.G.shape, problem.gap.shape
        ((3, 3), (1,))
        """
        mechanism = self._touching("contact_problem")
        function = kept(self, ("contact problem",), lambda: run_program(
            contact_program(mechanism)))
        G, g, gap = function(q, qd, tau, step)
        return ContactProblem(G, g, gap, np.array([x.friction for x in mechanism.contacts], float))

    def compile(self, name: str, *, algorithm: str | None = None, frame: int | str = -1,
                f_ext: bool = False, dtype: str = "float64") -> CompiledFunction:
        """The bare kernel of an algorithm, at the lowest cost of a call.

        `fn(q, qd, qdd, out)` takes contiguous arrays of the dtype, "float64" or "float32", of
        exactly these shapes, or with one leading dimension; outputs are written in place.
        `fn.address` is the address of the machine code, and `fn.signature` says how to call it
        without Python.

        "contact_step" is a step of semi-implicit Euler with contacts, `fn(q, qd, tau, force, slip,
        step, q_new, qd_new, force_new, slip_new, residual)`: forces (3 contacts) and slips
        (contacts) are those of the step before, zeros at first. It visits all contacts six times,
        and no more: the residual, in m/s, says how far velocities are from the laws of contact.

        >>> import nlink, numpy as np
        >>> robot = nlink.load("planar3")
        >>> fn = robot.compile("gravity_torque")
        >>> out = np.empty(3)
        >>> _ = fn(np.zeros(3), out)
        >>> out
        array([44.145, 19.62 ,  4.905])
        """
        if name != "contact_step":
            return super().compile(name, algorithm=algorithm, frame=frame, f_ext=f_ext, dtype=dtype)
        for wrong, what in ((algorithm is not None, f"algorithm={algorithm!r}"),
                            (frame != -1, f"frame={frame!r}"), (f_ext, "f_ext=True"),
                            (dtype != "float64", f"dtype={dtype!r}")):
            if wrong:
                raise ValueError(f"compile: 'contact_step' with {what}, expected it alone")
        mechanism = self._touching("contact_step")
        return compiled_function(kept(self, ("contact step",), lambda: machine_code(
            contact_step_program(mechanism))))

    def _touching(self, called: str) -> Mechanism:
        """The mechanism, if it has contacts and no loops."""
        mechanism = self.mechanism
        if not mechanism.contacts:
            raise ValueError(f"{called}: {self.name} has no contacts, expected a robot from "
                             "robot.with_contacts(shapes, world)")
        if mechanism.closed:
            raise ValueError(f"{called}: a mechanism with loops, expected a tree; "
                             "`robot.tree` is the mechanism with its loops opened")
        return mechanism


def contact_step_program(mechanism: Mechanism) -> Program:
    """A step with contacts that visits each of them a few times."""
    mechanism = mechanism.regrouped()
    nq, n, count = mechanism.nq, mechanism.nv, len(mechanism.contacts)

    def text(q: Scalars, qd: Scalars, tau: Scalars, force: Scalars, slip: Scalars, step: Scalars,
             ) -> list:
        (h,), driver, split = step, Unrolled(mechanism), mechanism.split
        rows = contact_rows(driver, split(q, "nq"), split(qd, "nv"), split(tau, "nv"),
                            no_wrenches(driver), h)
        W = [[h * x for x in row] for row in rows.G]
        blocks = [ContactBlock.of([row[3 * i:3 * i + 3] for row in W[3 * i:3 * i + 3]], mu)
                  for i, mu in enumerate(rows.friction)]
        for _ in range(VISITS):
            force, slip = sweep(blocks, W, rows.g, force, slip)
        after = respond(driver, rows, [h * f for f in force])
        q_new, qd_new = mechanism.space.step(q, [x for own in after for x in own], h)
        return [*q_new, *qd_new, *force, *slip, worst(blocks, W, rows.g, force)]

    return trace_function(
        "contact_step",
        (Port("q", (nq,)), Port("qd", (n,)), Port("tau", (n,)), Port("force", (3 * count,)),
         Port("slip", (count,)), Port("step", ())),
        (Port("q_new", (nq,)), Port("qd_new", (n,)), Port("force_new", (3 * count,)),
         Port("slip_new", (count,)), Port("residual", ())), text)


def contact_program(mechanism: Mechanism) -> Program:
    """G, g and gaps of q, qd, tau and the size of the step."""
    mechanism = mechanism.regrouped()
    count = len(mechanism.contacts)

    def text(q: Scalars, qd: Scalars, tau: Scalars, step: Scalars) -> list:
        driver = Unrolled(mechanism)
        rows = contact_rows(driver, mechanism.split(q, "nq"), mechanism.split(qd, "nv"),
                            mechanism.split(tau, "nv"), no_wrenches(driver), step[0])
        return [*(x for row in rows.G for x in row), *rows.g, *rows.gaps]

    n = mechanism.nv
    return trace_function(
        "contact_problem",
        (Port("q", (mechanism.nq,)), Port("qd", (n,)), Port("tau", (n,)), Port("step", ())),
        (Port("G", (3 * count, 3 * count)), Port("g", (3 * count,)), Port("gap", (count,))), text)
