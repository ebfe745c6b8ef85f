"""Pinocchio's constraintDynamics confirms the bundled mechanisms with loops, from outside.

A planar mechanism closed by a point is the same as one closed by a hinge; Pinocchio needs the
proximal term for the row that is then redundant.
"""

from __future__ import annotations

import numpy as np
import pytest
from kkt import Dense, relative

import nlink
from nlink.formats.bridges import to_pinocchio
from nlink.formats.exchange import Exchange

pin = pytest.importorskip("pinocchio")

POINT, WELD = pin.ContactType.CONTACT_3D, pin.ContactType.CONTACT_6D
TWINS = {"four_bar": POINT, "slider_crank": POINT, "stewart": POINT, "two_arms_box": WELD}


class Twin:
    """A Pinocchio model with constraints where the robot has loops."""

    def __init__(self, robot: nlink.Robot, kind) -> None:
        d, model = robot.description, to_pinocchio(robot.description)
        self.model, self.exchange = model, Exchange.pinocchio(d, model)
        self.constraints = pin.StdVec_RigidConstraintModel()
        self.contacts = pin.StdVec_RigidConstraintData()
        for loop in d.loops:
            ends = []
            for end in (loop.of, loop.on):
                frame = model.frames[model.getFrameId(d.links[end.link - 1].name)]
                ends += [frame.parentJoint, frame.placement * pin.SE3(end.pose.R, end.pose.p)]
            self.constraints.append(pin.RigidConstraintModel(kind, model, *ends, pin.LOCAL))
            self.contacts.append(self.constraints[-1].createData())
        self.data = model.createData()
        pin.initConstraintDynamics(model, self.data, self.constraints, self.contacts)

    def forward_dynamics(self, q, qd, tau) -> np.ndarray:
        x, settings = self.exchange, pin.ProximalSettings(1e-14, 1e-10, 100)
        a = pin.constraintDynamics(self.model, self.data, x.q(q), x.v(q, qd), x.v(q, tau),
                                   self.constraints, self.contacts, settings)
        return x.a_back(q, qd, a)

    def forces(self) -> np.ndarray:
        """What the first frame does to the second, (moment, force), world axes."""
        found = []
        for contact in self.contacts:
            R, f = contact.oMc1.rotation, contact.contact_force
            found.append(np.r_[R @ -f.angular, R @ -f.linear])
        return np.array(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TWINS)
def test_accelerations_and_forces_are_those_of_pinocchio(name):
    robot = nlink.load(name)
    twin, dense = Twin(robot, TWINS[name]), Dense(robot)
    rng = np.random.default_rng(0)
    for _ in range(10):
        q = robot.loops.assemble(robot.integrate(robot.neutral, rng.normal(size=robot.n) * 0.1))
        qd, tau = dense.closed_rates(q, rng.normal(size=robot.n)), rng.normal(size=robot.n) * 5
        expected = twin.forward_dynamics(q, qd, tau)
        assert relative(robot.forward_dynamics(q, qd, tau), expected) < 1e-10
        # in a plane a hinge and a point carry the same force, and no moment
        assert relative(robot.loops.forces(q, qd, tau), twin.forces()) < 1e-9
