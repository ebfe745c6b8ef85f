"""What acts on a mechanism with loops, and what it does: right-hand sides of the elimination.

A load is reduced along with the bodies and rows that are eliminated, or after them, by factors that
are known (`algorithms.cycle_elimination`). What it does is then found outward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nlink.algorithms.cycle_elimination import (
    ClosedSystem,
    EliminatedBody,
    EliminatedRows,
    Node,
    Row,
    inside,
    outside,
)
from nlink.algorithms.hybrid_dynamics import truth_of
from nlink.algorithms.sweep import Column, PerJoint
from nlink.scalars.functions import Scalar, literal, where
from nlink.spatial import Twist, Wrench


@dataclass
class AppliedLoad:
    """What acts on a closed system, reduced body by body: wrenches that bodies need, the forces
    of drives, and how cut and tree edges open."""

    system: ClosedSystem
    f: dict[int, Wrench]
    drives: Sequence[Sequence[Scalar]]
    """For each joint; loops have none."""
    openings: Sequence[Sequence[Scalar]]
    """For each loop, then for each gear, how its rows open."""
    g: dict[Row, Scalar] = field(default_factory=dict)
    reduced: list[tuple[Scalar, ...]] = field(default_factory=list)
    """For each node what is left to be borne by its rates or rows."""

    def __post_init__(self) -> None:
        system, plan = self.system, self.system.plan
        joints = len(system.mechanism.joints)
        for c, k in enumerate(plan.cut):
            for n, key in enumerate(system.keys(c)):
                self.g[key] = self.openings[k - joints][n] if k >= joints else 0
        for c, own in enumerate(self.openings[len(plan.edges) - joints:], len(plan.cut)):
            key, = system.keys(c)
            self.g[key], = own
        for k in (*plan.cut, *plan.loose):
            if k < joints:
                self._drive(k)
        self.given = dict(self.f)

    def _drive(self, k: int) -> None:
        """A cut joint drives its two bodies."""
        edge, ends = self.system.edges[k], self.system.plan.edges[k]
        for s, t in zip(edge.S, self.drives[k], strict=True):
            w = Wrench.of(s.components) * t
            for body, X, sign in ((ends.child, edge.child, -1), (ends.parent, edge.parent, 1)):
                if body:
                    self.f[body] = self.f[body] + outside(X, w) * sign

    def reduce(self, node: Node) -> None:
        """What a node's elimination does to the right-hand side."""
        if isinstance(node, EliminatedBody):
            self._reduce_body(node)
        else:
            self._reduce_rows(node)

    def _offset(self, node: EliminatedBody) -> Twist | None:
        """The acceleration across a loop of the tree that keeps its rows from opening."""
        columns, joints = self.system.edges[node.edge].columns, len(self.system.mechanism.joints)
        if not columns:
            return None
        total = Twist.zero()
        for column, x in zip(columns, self.openings[node.edge - joints], strict=True):
            total = total + column * x
        return total * -node.sense

    def _reduce_body(self, node: EliminatedBody) -> None:
        f, d = inside(node.inner, self.f[node.body]), self._offset(node)
        if d is not None:
            f = f + node.I @ d
            for key, w in node.K.items():
                self.g[key] = self.g[key] + d.dot(w)
        us: list[Scalar] = []
        joints = len(self.system.mechanism.joints)
        drives = (reversed(self.drives[node.edge]) if node.edge < joints
                  else (0,) * len(node.pivots))
        for t, pivot in zip(drives, node.pivots, strict=True):
            u, f = pivot.eliminate(f, t * node.sense)
            us.append(u)
        if node.parent:
            self.f[node.parent] = self.f[node.parent] + outside(node.outer, f)
        for rows in self.system.steps(node.K):
            for shares, u in zip(node.shares, us, strict=True):
                for key in rows:
                    if key in shares:
                        self.g[key] = self.g[key] + shares[key] * u
        self.reduced.append(tuple(us))

    def _reduce_rows(self, node: EliminatedRows) -> None:
        for key in node.rows:
            for later in node.rows:
                if later in node.ratios[key]:
                    self.g[later] = self.g[later] - node.ratios[key][later] * self.g[key]
            if key in node.K:
                self.f[node.meets] = self.f[node.meets] + node.K[key] * (
                    node.inverses[key] * self.g[key])
        for others in self.system.steps(node.others):
            for key in node.rows:
                for other in others:
                    if other in node.ratios[key]:
                        self.g[other] = self.g[other] - node.ratios[key][other] * self.g[key]
        self.reduced.append(tuple(self.g[key] for key in node.rows))

    def answer(self) -> Answer:
        """Outward: accelerations of bodies and rates, and the multipliers."""
        system = self.system
        A: dict[int, Twist] = {0: Twist.zero()}
        mu: dict[Row, Scalar] = {}
        rates: dict[int, tuple[Scalar, ...]] = {}
        forces: dict[int, tuple[Scalar, ...]] = {}
        for node, left in zip(reversed(system.nodes), reversed(self.reduced), strict=True):
            system.mechanism.mark()
            if isinstance(node, EliminatedBody):
                A[node.body], rates[node.edge], forces[node.edge] = self._accelerate(
                    node, left, A[node.parent], mu)
                continue
            self._multiply(node, left, A, mu)
        return Answer(self, A, mu, rates, forces)

    def _multiply(self, node: EliminatedRows, left: tuple[Scalar, ...], A: dict[int, Twist],
                  mu: dict[Row, Scalar]) -> None:
        """The multipliers of a cut edge, the last one first."""
        known = {key: g for key, g in zip(node.rows, left, strict=True)
                 if literal(node.inverses[key]) != 0}
        for key, x in known.items():
            if key in node.K:
                x = x + A[node.meets].dot(node.K[key])
            known[key] = x * node.inverses[key]
        for others in self.system.steps(node.others):
            for key in known:
                for other in others:
                    if other in node.ratios[key] and literal(mu[other]) != 0:
                        known[key] = known[key] - node.ratios[key][other] * mu[other]
        for key in reversed(node.rows):
            x = known.get(key, 0)
            for later in node.rows:
                if later in node.ratios[key]:
                    x = x - node.ratios[key][later] * mu[later]
            mu[key] = x

    def _accelerate(self, node: EliminatedBody, us: tuple[Scalar, ...], parent: Twist,
                    mu: dict[Row, Scalar],
                    ) -> tuple[Twist, tuple[Scalar, ...], tuple[Scalar, ...]]:
        """The acceleration of a body, of the rates of its edge, and the forces that hold them."""
        A = parent if node.outer is None or not node.parent else node.outer.twist_to_child(parent)
        rates, holding, forces = list[Scalar](), list[Scalar](), list(us)
        for rows in self.system.steps(node.K):
            for n, ks in enumerate(node.ks):
                for key in rows:
                    if key in ks and literal(mu[key]) != 0:
                        forces[n] = forces[n] - ks[key] * mu[key]
        held = self.system.edges[node.edge].held
        for pivot, u, U, h in zip(reversed(node.pivots), reversed(forces), reversed(node.needs),
                                  held, strict=True):
            truth, before = truth_of(h), A
            A, rate = pivot.accelerate(A, u)
            rates.append(rate * node.sense if truth is None else where(
                truth, 0.0, rate * node.sense))
            holding.append(0.0 if truth is None or U is None else where(
                truth, (before.dot(U) - u) * node.sense, 0.0))
        d = self._offset(node)
        if d is not None:
            A = A + d
        A = A if node.inner is None else node.inner.twist_to_parent(A)
        return A, tuple(rates), tuple(holding)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a load does: accelerations of bodies in their own frames, multipliers of cut rows, and
    rates of the edges of the tree."""

    load: AppliedLoad
    A: dict[int, Twist]
    mu: dict[Row, Scalar]
    rates: dict[int, tuple[Scalar, ...]]
    forces: dict[int, tuple[Scalar, ...]]
    """What holds the held rates of edges of the tree."""

    @property
    def system(self) -> ClosedSystem:
        return self.load.system

    def joints(self) -> Column:
        """The accelerations of all joints."""
        system, found = self.system, PerJoint()
        for k in range(len(system.mechanism.joints)):
            if k not in self.rates:
                system.mechanism.mark()
                edge, ends = system.edges[k], system.plan.edges[k]
                t = self.A[ends.child]
                if ends.parent:
                    assert edge.parent is not None
                    t = t - edge.parent.twist_to_child(self.A[ends.parent])
                own = [t.dot(Wrench.of(s.components)) for s in edge.S]
                for row in edge.along:
                    if row.held is not None:
                        own[row.rate] = where(row.held, 0.0, own[row.rate])
                found.append(tuple(own))
            else:
                found.append(self.rates[k])
        return found

    def holding(self) -> Column:
        """The forces that hold joints."""
        system, found = self.system, PerJoint()
        cuts = {k: c for c, k in enumerate(system.plan.cut)}
        for k, joint in enumerate(system.mechanism.joints):
            own: list[Scalar] = [0.0] * joint.type.nv
            if k in cuts:
                edge = system.edges[k]
                keys = system.keys(cuts[k])[len(edge.rows):]
                for key, row in zip(keys, edge.along, strict=True):
                    if row.held is not None:
                        own[row.rate] = where(row.held, -self.mu[key], 0.0)
            found.append(self.forces.get(k, tuple(own)))
        return found

    def gear_forces(self) -> list[Scalar]:
        """The force of each gear, which acts on its joints times their ratios."""
        system = self.system
        return [-self.mu[key] for c in range(len(system.mechanism.gears))
                for key in system.keys(len(system.plan.cut) + c)]

    def edge_wrenches(self) -> dict[int, Wrench]:
        """What loops do to their children, about the origin of the edge's frame and in its axes:
        of those that are cut by their multipliers, of others what all that hangs there needs."""
        system, plan = self.system, self.system.plan
        joints, found = len(system.mechanism.joints), dict[int, Wrench]()
        needs: dict[int, Wrench] = {}
        if any(held.edge >= joints for held in plan.tree):
            needs = self._needs()
        for node in system.nodes:
            if isinstance(node, EliminatedRows):
                if node.cut >= len(plan.cut):  # a gear
                    continue
                k = plan.cut[node.cut]
                total = Wrench.zero()
                for key, row in zip(system.keys(node.cut), system.edges[k].rows, strict=False):
                    total = total - row * self.mu[key]
                found[k] = total
            elif node.edge >= joints:
                found[node.edge] = inside(node.inner, needs[node.body]) * node.sense
        return found

    def _needs(self) -> dict[int, Wrench]:
        """The wrench that each body and all that hangs on it need from the edge that holds it,
        in the frame of the body."""
        system, plan = self.system, self.system.plan
        needs = {i: self.load.given[i] + joint.inertia @ self.A[i]
                 for i, joint in enumerate(system.mechanism.joints, 1)}
        for c, k in enumerate(plan.cut):
            edge, ends = system.edges[k], plan.edges[k]
            for key, row in zip(system.keys(c), edge.units, strict=True):
                for body, X, sense in ((ends.child, edge.child, 1), (ends.parent, edge.parent, -1)):
                    if body:
                        needs[body] = needs[body] + outside(X, row) * (self.mu[key] * sense)
        held = {held.edge for held in plan.tree}
        for c, gear in enumerate(system.mechanism.gears, len(plan.cut)):
            key, = system.keys(c)
            for k, ratio in zip(gear.joints, gear.ratios, strict=True):
                if k not in held:
                    for body, w in system.on_bodies(k, ratio * self.mu[key]):
                        needs[body] = needs[body] + w
        for node in system.nodes:
            if isinstance(node, EliminatedBody) and node.parent:
                own = inside(node.inner, needs[node.body])
                needs[node.parent] = needs[node.parent] + outside(node.outer, own)
        return needs


def opening(system: ClosedSystem, openings: Sequence[Sequence[Scalar]]) -> AppliedLoad:
    """A load of nothing but openings of the loops."""
    bodies = range(1, 1 + len(system.mechanism.joints))
    return AppliedLoad(system, dict.fromkeys(bodies, Wrench.zero()),
                [(0,) * joint.type.nv for joint in system.mechanism.joints], openings)


def closed_again(system: ClosedSystem, openings: Sequence[Sequence[Scalar]]) -> Column:
    """What closes other openings, by the factors that are known."""
    load = opening(system, openings)
    for node in system.nodes:
        system.mechanism.mark()
        load.reduce(node)
    return load.answer().joints()
