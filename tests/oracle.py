"""Pinocchio as an independent implementation: the same mechanism, its functions, our order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from nlink import Description, Fixed, Pose, Revolute


@dataclass(frozen=True)
class Oracle:
    """A Pinocchio model and, for each link (base first), its joint and its place in it."""

    model: pin.Model
    data: pin.Data
    places: tuple[tuple[int, Pose], ...]

    @classmethod
    def of(cls, description: Description) -> Oracle:
        """Joints keep their order, so that joint k of Pinocchio moves coordinate k - 1."""
        model = pin.Model()
        model.gravity = pin.Motion(np.array(description.gravity), np.zeros(3))
        places = [(0, Pose())]
        for link, joint in zip(description.links, description.joints, strict=True):
            parent, at = places[joint.parent]
            seat = at @ joint.placement.before
            if isinstance(joint.type, Fixed):
                places.append((parent, seat @ joint.placement.after))
            else:
                kind = (pin.JointModelRevoluteUnaligned if isinstance(joint.type, Revolute)
                        else pin.JointModelPrismaticUnaligned)
                number = model.addJoint(parent, kind(np.array(joint.type.axis)), _se3(seat),
                                        joint.name)
                places.append((number, joint.placement.after))
            number, place = places[-1]
            inertia = pin.Inertia(link.mass, np.array(link.com), np.array(link.inertia))
            model.appendBodyToJoint(number, inertia, _se3(place))
        model.armature = np.array([j.armature for j in description.joints if j.type.nv])
        return cls(model, model.createData(), tuple(places))

    def inverse_dynamics(self, q, qd, qdd, f_ext=None) -> np.ndarray:
        """`f_ext` is (links, 6), moment first, world axes, about the links' origins; Pinocchio
        wants one force a joint, force first, in the joint's own frame."""
        if f_ext is None:
            return pin.rnea(self.model, self.data, q, qd, qdd)
        pin.forwardKinematics(self.model, self.data, q)
        forces = pin.StdVec_Force()
        forces.extend(pin.Force.Zero() for _ in range(self.model.njoints))
        for (number, place), wrench in zip(self.places[1:], f_ext, strict=True):
            R = self.data.oMi[number].rotation
            local = pin.Force(R.T @ wrench[3:], R.T @ wrench[:3])
            forces[number] += pin.SE3(np.eye(3), place.p).act(local)
        return pin.rnea(self.model, self.data, q, qd, qdd, forces)

    def forward_dynamics(self, q, qd, tau) -> np.ndarray:
        return pin.aba(self.model, self.data, q, qd, tau)

    def mass_matrix(self, q) -> np.ndarray:
        """By columns of inverse dynamics without gravity: Pinocchio's own `crba` leaves out entries
        unless joints are numbered depth first."""
        model = pin.Model(self.model)
        model.gravity = pin.Motion.Zero()
        data, still = model.createData(), np.zeros(model.nv)
        return np.array([pin.rnea(model, data, q, still, unit) for unit in np.eye(model.nv)]).T

    def pose(self, q, link: int) -> np.ndarray:
        pin.forwardKinematics(self.model, self.data, q)
        number, place = self.places[link]
        return (self.data.oMi[number] * _se3(place)).homogeneous

    def jacobian(self, q, link: int) -> np.ndarray:
        frame = self._frame(link)
        J = pin.computeFrameJacobian(self.model, self.model.createData(), q, frame,
                                     pin.LOCAL_WORLD_ALIGNED)
        J = J.reshape(6, self.model.nv)  # one column comes as a vector
        return np.vstack([J[3:], J[:3]])

    def jacobian_dot_qd(self, q, qd, link: int) -> np.ndarray:
        frame, data = self._frame(link), self.model.createData()
        pin.forwardKinematics(self.model, data, q, qd, np.zeros_like(qd))
        a = pin.getFrameClassicalAcceleration(self.model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        return np.concatenate([a.angular, a.linear])

    def kinetic_energy(self, q, qd) -> float:
        """Pinocchio 4.1 adds the armature for some types of joints only: here, for all."""
        bare = pin.Model(self.model)
        bare.armature = np.zeros(self.model.nv)
        rotors = float(self.model.armature @ np.square(qd)) / 2
        return pin.computeKineticEnergy(bare, bare.createData(), q, qd) + rotors

    def potential_energy(self, q) -> float:
        return pin.computePotentialEnergy(self.model, self.data, q)

    def _frame(self, link: int) -> int:
        name, (number, place) = f"link {link}", self.places[link]
        if not self.model.existFrame(name):
            self.model.addFrame(pin.Frame(name, number, 0, _se3(place), pin.FrameType.OP_FRAME))
        return self.model.getFrameId(name)


def _se3(pose: Pose) -> pin.SE3:
    return pin.SE3(pose.R, pose.p)
