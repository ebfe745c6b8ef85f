"""The loops of a mechanism: how well they are closed, what they carry, how to close them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.iterations.projection import CALLS, CLOSED
from nlink.loops import assembly, balance
from nlink.loops.assembly import Mobility
from nlink.loops.plans import LoopPlan
from nlink.model.constraints import ANGLE_TOLERANCE
from nlink.model.coordinates import joint_slices
from nlink.programs.calling import call
from nlink.programs.program import Port
from nlink.scalars.arrays import batch, single
from nlink.scalars.lazy import lazy

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray


class Loops:
    """The loops of one robot; `robot.loops`.

    Errors and Jacobians are those of all rows, in the order of the loops and in the axes of their
    frames `on`; `rows` names the loop of each. All functions take batches. M, C, g and inverse
    dynamics of a robot with loops are those of its tree: with the forces in the loops they obey
    M qdd + C qd + g = tau + J^T lambda.

    >>> import nlink
    >>> four_bar = nlink.load("four_bar")
    >>> four_bar.loops
    <Loops of four_bar: pin (revolute)>
    >>> bool(abs(four_bar.loops.error(four_bar.neutral)).max() < 1e-12)
    True
    """

    def __init__(self, robot: Robot) -> None:
        if not robot.description.closed:
            raise ValueError(f"{robot.name} has no loops")
        self.robot = robot

    def __repr__(self) -> str:
        d = self.robot.description
        loops = ", ".join([*(f"{loop.name} ({loop.constraint.name})" for loop in d.loops),
                           *(f"{gear.name} (gear)" for gear in d.gears)])
        return f"<Loops of {self.robot.name}: {loops}>"

    @lazy
    def names(self) -> tuple[str, ...]:
        """The loops, then the gears."""
        d = self.robot.description
        return tuple(each.name for each in (*d.loops, *d.gears))

    @lazy
    def rows(self) -> tuple[str, ...]:
        """The loop, or the gear, of each row."""
        return tuple(name for name, own in zip(self.names, self.row_slices, strict=True)
                     for _ in range(own.stop - own.start))

    @lazy
    def units(self) -> tuple[str, ...]:
        """The unit of each row's error."""
        return tuple("rad" if x else "m" for x in self.angular)

    def error(self, q: ArrayLike) -> Array:
        """How far each row is from closed, metres and radians, (..., rows).

        Rows that restrict only velocities (the spin of a soft finger) have no error.
        """
        return self.robot.compute("closure_error", q)

    def velocity(self, q: ArrayLike, qd: ArrayLike) -> Array:
        """J qd: how fast the loops open, (..., rows)."""
        return self.robot.compute("closure_velocity", q, qd)

    def jacobian(self, q: ArrayLike) -> Array:
        """J, (..., rows, n)."""
        return self.robot.compute("closure_jacobian", q)

    def acceleration(self, q: ArrayLike, qd: ArrayLike) -> Array:
        """Jdot qd, (..., rows): J qdd + Jdot qd = 0 while the loops stay closed."""
        return self.robot.compute("closure_acceleration", q, qd)

    def forces(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
               f_ext: ArrayLike | None = None) -> Array:
        """The wrench in each loop, (..., loops, 6), that its frame `of` exerts on its frame `on`:
        (moment, force) about the origin of `of`, in world axes. That of a gear is one number, the
        first; it acts on each joint of the gear times its ratio.

        Where rows are redundant only their sum is determined, and those that depend on rows before
        them have no force. `f_ext` as in `forward_dynamics`.
        """
        return self.robot.compute("closure_forces", q, qd, tau, f_ext=f_ext)

    def project(self, q: ArrayLike, qd: ArrayLike, *, held: ArrayLike | None = None,
                ) -> tuple[Array, Array]:
        """A closed state near an almost closed one: positions first, then velocities.

        The change of qd is one that impulses in the loops can make, so the remaining kinetic energy
        is the least possible. Rates that are `held`, booleans (n,), and their coordinates stay as
        they are.
        """
        name, own = "project", list[ArrayLike]()
        if held is not None:
            name, own = "hybrid_projection", [single("held", np.asarray(held, dtype=float),
                                                     (self.robot.n,))]
        *at, opening = self.robot.compute(name, q, qd, *own)
        for _ in range(CALLS - 1):
            left = np.greater(opening, CLOSED)
            if not left.any():
                break
            *closer, after = self.robot.compute(name, *at, *own)
            at = [np.where(left[..., None], a, b) for a, b in zip(closer, at, strict=True)]
            opening = np.where(left, after, opening)
        return at[0], at[1]

    def assemble(self, guess: ArrayLike | None = None, *, keep: Sequence[str] = (),
                 tolerance: float = 1e-12, iterations: int = 100) -> Array:
        """Closed configurations near guesses, (..., nq), by damped Newton steps.

        `keep` names joints that stay as they are in the guess. If the loops cannot be closed from
        there the error says how far they stayed open.

        >>> import nlink
        >>> four_bar = nlink.load("four_bar")
        >>> q = four_bar.loops.assemble(four_bar.neutral + [0.3, 0, 0], keep=["crank"])
        >>> bool(abs(q[0] - four_bar.neutral[0] - 0.3) < 1e-15)
        True
        """
        robot = self.robot
        given = batch("guess", robot.neutral if guess is None else guess, (robot.nq,))
        q = given.reshape(-1, robot.nq)
        if not np.isfinite(q).all():
            raise ValueError("guess: contains a number that is not finite")
        free = np.ones(robot.n, dtype=bool)
        if isinstance(keep, str):
            raise ValueError(f"keep: {keep!r}, expected a sequence of names")
        for name in keep:
            free[self.rates_of("keep", name)] = False
        q, closed = self.close(_unit("guess", robot, q), free, tolerance, iterations)
        if not closed.all():
            k = int(np.argmin(closed))
            which = f"guess[{', '.join(map(str, np.unravel_index(k, given.shape[:-1])))}]" if (
                given.ndim > 1) else "guess"
            held = f" with {', '.join(keep)} as given" if keep else ""
            raise ValueError(f"{which}: the loops do not close from here{held}; "
                             f"{self.describe_opening(q[k])}")
        return q.reshape(given.shape)

    def close(self, q: Array, free: Array | None = None, tolerance: float = 1e-12,
              iterations: int = 100) -> tuple[Array, Array]:
        """Configurations (count, nq) brought as close to closed as Newton's steps by the `free`
        rates get, all if not given, and which of them are closed."""
        return assembly.close(self, q, free, tolerance, iterations)

    def describe_opening(self, q: ArrayLike) -> str:
        """A sentence that says which loop is most open in these configurations, and how far."""
        e = np.abs(self.error(q)).reshape(-1, len(self.rows)).max(axis=0)
        row = int((e / self.scale).argmax())
        gear = row >= len(e) - len(self.robot.description.gears)
        far = 2 * np.arctan(e[row] / 2) if self.angular[row] and not gear else e[row]
        return f"{self.rows[row]!r} is open by {far:.3g} {self.units[row]}"

    def closed(self, q: ArrayLike, qd: ArrayLike | None = None) -> Array:
        """Whether the loops are closed in these states and, if rates are given, stay closed: to
        1e-5 rad, or 1e-5 of the size of the loop or of the motion of the rates; (...).

        >>> import nlink
        >>> four_bar = nlink.load("four_bar")
        >>> bool(four_bar.loops.closed(four_bar.neutral))
        True
        """
        closed = np.asarray((np.abs(self.error(q)) <= ANGLE_TOLERANCE * self.scale).all(axis=-1))
        if qd is None:
            return closed
        speeds = np.abs(self.velocity(q, qd)) / self.scale
        J = np.abs(self.jacobian(q)) / self.scale[:, None]
        moved = np.einsum("...ij,...j->...i", J, np.abs(qd)).max(axis=-1, keepdims=True)
        return np.logical_and(closed, (speeds <= ANGLE_TOLERANCE * moved).all(axis=-1))

    def expect_closed(self, q: Array, qd: Array | None = None) -> None:
        """Refuse states in which loops are open, and rates that open them."""
        if not self.closed(q).all():
            raise ValueError(f"q: the loop {self.describe_opening(q)}, expected a closed "
                             "configuration; robot.loops.assemble(q) finds one")
        if qd is not None and not self.closed(q, qd).all():
            speeds = np.abs(self.velocity(q, qd)).reshape(-1, len(self.rows)).max(axis=0)
            row = int((speeds / self.scale).argmax())
            raise ValueError(f"qd: the loop {self.rows[row]!r} opens with {speeds[row]:.3g} "
                             f"{self.units[row]}/s, expected J qd = 0; robot.loops.project(q, qd) "
                             "has rates that keep it closed")

    def random_state(self, rng: np.random.Generator, shape: tuple[int, ...] = (),
                     spread: float = 0.3) -> tuple[Array, Array]:
        """Closed states around home: rates of deviation `spread` are followed for a unit of time
        and what they open is closed; guesses that do not close are drawn again."""
        return assembly.random_closed_state(self, rng, shape, spread)

    @lazy
    def plan(self) -> LoopPlan:
        """In which tree and order the mechanism is eliminated: printed, or drawn by `plot`."""
        return LoopPlan.of(self.robot)

    def mobility(self, q: ArrayLike | None = None) -> Mobility:
        """How many rates are independent in a configuration, and which of them determine the
        others.

        >>> import nlink
        >>> nlink.load("four_bar").loops.mobility()
        Mobility(freedom=1, independent=('crank',), rows=5, redundant=3)
        """
        given = self.robot.neutral if q is None else q
        return assembly.mobility(self, _state("q", given, self.robot.nq))

    def complete(self, q: ArrayLike, rates: Mapping[str, ArrayLike],
                 accelerations: Mapping[str, ArrayLike] | None = None) -> tuple[Array, Array]:
        """All rates and accelerations of one closed configuration, from those of some joints.

        `rates` maps names of joints to their rates, `accelerations` the same joints to theirs (zero
        if not given): J qd = 0 and J qdd + Jdot qd = 0 determine the rest.

        >>> import nlink
        >>> four_bar = nlink.load("four_bar")
        >>> qd, qdd = four_bar.loops.complete(four_bar.neutral, {"crank": 1.0})
        >>> bool(abs(four_bar.loops.velocity(four_bar.neutral, qd)).max() < 1e-12)
        True
        """
        q = _state("q", q, self.robot.nq)
        self.expect_closed(q)
        return assembly.complete(
            self, q, rates, dict.fromkeys(rates, 0.0) if accelerations is None else accelerations)

    def inverse_dynamics(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike,
                         internal: ArrayLike | None = None, f_ext: ArrayLike | None = None,
                         ) -> tuple[Array, Array]:
        """tau on the actuated joints, zero elsewhere, and the wrenches in the loops, for a motion
        that keeps the loops closed.

        M qdd + h = tau + J^T lambda leaves a choice where there are more motors than degrees of
        freedom: the tau of least norm is taken or, with `internal` (wrenches in the loops, (...,
        loops, 6), signs and axes as in `forces`; a squeeze, for instance), the one whose
        multipliers are nearest to it. `f_ext` as in `forward_dynamics`. A motion that the motors
        cannot make raises ValueError, as do a state that is not closed and a motion that opens the
        loops.

        >>> import nlink
        >>> bar = nlink.load("four_bar")
        >>> tau, forces = bar.loops.inverse_dynamics(bar.neutral, [0, 0, 0], [0, 0, 0])
        >>> tau[1:], forces.shape
        (array([0., 0.]), (1, 6))
        """
        robot = self.robot
        given: dict[str, tuple[ArrayLike, tuple[int, ...]]] = {
            "q": (q, (robot.nq,)), "qd": (qd, (robot.n,)), "qdd": (qdd, (robot.n,))}
        if internal is not None:
            given["internal"] = internal, (len(self.names), 6)
            if not np.isfinite(np.asarray(internal, dtype=float)).all():
                raise ValueError("internal: contains a number that is not finite")
        if f_ext is not None:
            given["f_ext"] = f_ext, (len(robot.links), 6)
        outputs = [Port("tau", (robot.n,)), Port("forces", (len(self.names), 6))]

        def run(inputs: list[Array], results: list[Array], count: int) -> None:
            finite = np.all([np.isfinite(x).all(axis=1) for x in inputs], axis=0)
            for result in results:
                result[~finite] = np.nan
            self.expect_closed(inputs[0][finite], inputs[1][finite])
            for k in np.flatnonzero(finite):
                state = {name: x[k].reshape(shape) for (name, (_, shape)), x in zip(
                    given.items(), inputs, strict=True)}
                results[0][k], multipliers = balance.balance(self, **state)
                results[1][k] = self.wrenches(state["q"], multipliers).ravel()

        return call([Port(name, shape) for name, (_, shape) in given.items()], outputs,
                    [array for array, _ in given.values()], None, run)

    def wrenches(self, q: ArrayLike, multipliers: ArrayLike) -> Array:
        """The wrenches in the loops, (..., loops, 6), from a multiplier for each row; signs and
        axes as in `forces`."""
        given = np.asarray(multipliers, dtype=float)
        if given.shape[-1:] != (len(self.rows),):
            raise ValueError(f"multipliers: shape {given.shape}, expected (..., {len(self.rows)})")
        return balance.wrenches(self, q, given)

    def multipliers(self, q: ArrayLike, wrenches: ArrayLike) -> Array:
        """The multiplier of each row in one state whose wrenches are nearest to given ones."""
        return balance.multipliers(
            self, q, _state("wrenches", wrenches, len(self.names), 6))

    def internal(self, q: ArrayLike, wrenches: ArrayLike, link: str) -> Array:
        """The part of the wrenches in the loops of one state that only squeezes a link, (loops, 6).

        It is the difference between the multipliers and the smallest ones (in SI units, moments and
        forces alike) with the same resultant on the link.
        """
        robot = self.robot
        q, given = _state("q", q, robot.nq), _state("wrenches", wrenches, len(self.names), 6)
        number = 1 + _index("link", link, [x.name for x in robot.links])
        return balance.squeeze(self, q, given, number)

    @lazy
    def actuated(self) -> Array:
        """Whether a motor acts on each rate; a free joint never has one."""
        return np.array(self.robot.description.motors)

    @lazy
    def angular(self) -> Array:
        """Whether each row holds an angle (else a length)."""
        mechanism = self.robot.mechanism
        return np.array([*(x for closure in self.robot.description.loops
                           for x in closure.constraint.angular),
                         *(gear.angular for gear in mechanism.gears)])

    @lazy
    def scale(self) -> Array:
        """The unit by which each row's error is measured: a radian, or the size of the loop."""
        return np.array(self.robot.mechanism.scales)

    @lazy
    def rate_scale(self) -> Array:
        """The unit by which each rate is measured: a radian, or the size of the largest loop."""
        mechanism = self.robot.mechanism
        size = mechanism.size
        return np.array([1.0 if any(twist.angular.components) else size for joint in
                         mechanism.joints for twist in joint.subspace(joint.type.space.neutral)])

    @lazy
    def weight(self) -> float:
        """The moment of all links' weight at the size of the largest loop, N m."""
        robot = self.robot
        size = robot.mechanism.size
        return sum(link.mass for link in robot.links) * float(np.linalg.norm(robot.gravity)) * size

    def ratios(self, J: Array) -> Array:
        """J without units, in radians and sizes of loops: its elements do not depend on the size of
        the mechanism."""
        return J / self.scale[:, None] * self.rate_scale

    def rank(self, J: Array) -> int:
        """The rank of rows in such ratios, those of axes that are almost parallel being one."""
        return assembly.rank(J)

    def rates_of(self, argument: str, name: str) -> slice:
        """Where qd has the rates of a joint that moves."""
        description = self.robot.description
        for joint, place in joint_slices(description, "nv"):
            if joint.name == name and joint.type.nv:
                return place
        moving = [joint.name for joint in description.joints if joint.type.nv]
        raise ValueError(f"{argument}: {name!r}, expected joints that move, of "
                         f"{', '.join(moving)}")

    @lazy
    def row_slices(self) -> list[slice]:
        """Which rows each loop has, then each gear."""
        d = self.robot.description
        counts = [*(loop.constraint.count for loop in d.loops), *(1 for _ in d.gears)]
        return [slice(end - count, end) for end, count in zip(
            np.cumsum(counts).tolist(), counts, strict=True)]


def _index(what: str, name: str, names: list[str]) -> int:
    if name not in names:
        raise ValueError(f"{what}: {name!r}, expected one of {', '.join(names)}")
    return names.index(name)


def _unit(name: str, robot: Robot, q: Array) -> Array:
    """Coordinates brought into their spaces: quaternions of any length but zero, made unit."""
    with np.errstate(invalid="ignore"):
        valid = np.stack(np.broadcast_arrays(*robot.mechanism.space.normalize(tuple(q.T))), -1)
    if not np.isfinite(valid).all():
        raise ValueError(f"{name}: a quaternion of length zero, expected a rotation")
    return valid


def _state(name: str, given: ArrayLike, *shape: int) -> Array:
    return single(name, given, shape, ": one state")
