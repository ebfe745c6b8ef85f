"""The contact problem of one step, as arrays: for those who bring a solver of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nlink.algorithms.contact_rows import contact_rows
from nlink.algorithms.inverse_dynamics import no_wrenches
from nlink.algorithms.sweep import Unrolled
from nlink.engines.computations import Computations
from nlink.engines.engines import run_program
from nlink.engines.kernels import kept
from nlink.model.mechanism import Mechanism
from nlink.programs.program import Port, Program
from nlink.programs.tracing import trace_function
from nlink.scalars.functions import Scalars

Array = np.ndarray


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
    """What shapes that touch make of a step."""

    def contact_problem(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike, step: ArrayLike = 1e-3,
                        ) -> ContactProblem:
        """The contact problem of a step of semi-implicit Euler, of all contacts that there may be.

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
        mechanism = self.mechanism
        if not mechanism.contacts:
            raise ValueError(f"contact_problem: {self.name} has no contacts, expected a robot "
                             "from robot.with_contacts(shapes, world)")
        if mechanism.closed:
            raise ValueError("contact_problem: a mechanism with loops, expected a tree; "
                             "`robot.tree` is the mechanism with its loops opened")
        function = kept(self, ("contact problem",), lambda: run_program(
            contact_program(mechanism)))
        G, g, gap = function(q, qd, tau, step)
        return ContactProblem(G, g, gap, np.array([x.friction for x in mechanism.contacts], float))


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
