"""Mechanisms with loops in O(n): elimination along any spanning tree of joints and loops.

The accelerations A of the bodies and the multipliers mu of the rows of all cut edges obey

    I A + f + K^T mu = 0   of each body,        K A + g = 0   of each row,

where f is the wrench that a body needs for the motion it has with qdd = 0, and g is how the row
opens with that motion. An edge of the tree of the plan (`model.cycles`), a joint of the author's or
a loop, leaves the rates x free: A = X A_parent + S x + d. Bodies are eliminated tips first, and
their open rows travel inward as so many more wrenches. With U = I S, D = S^T U and k_r = S^T K_r,

    I -= U U^T / D,   K_r -= k_r U / D,   L_rs += k_r k_s / D,   f += U u / D,   g_r += k_r u / D,

u = t - S^T f. Once all bodies of a cycle but the one where its branches meet are gone, the rows of
its cut edge say K A + g = L mu with a matrix L that is complete, since a motion of that body as a
whole does not open the cycle. L D L^T in the order of the rows eliminates mu: I += K^T L^-1 K and
f += K^T L^-1 g there, and rows still open fill in. Then everything is found outward. It is the
KKT system itself in another order: nothing is iterated, and there is no penalty.

**Rank.** A row is left out if its pivot is that of rounding. Had the axis of a rate another
direction, or another place, the row could have been as mobile as

    F_r = sum |moment of K_r about the joint|^2 / D     (|force|^2 / D of a rate that slides),
    G_r = sum l^2 |force of K_r|^2 / D                  with a length l of the loop.

A pivot of 9e-10 F is one of axes askew by 3e-5, which are meant to be parallel, and one of 1e-16 G
is rounding of their places. None of this depends on where the base is or on units.

**Gears** are rows on rates. With the ratios c a row is c x + ... + g = 0, so k_r = S^T K_r + c at
an edge of the tree, where K_r is zero before; at a cut joint, whose rate is S^T of what its bodies
have, c S is a wrench on these. The cycle is made of the paths between the joints.

**Held rates** do not yield (`algorithms.hybrid_dynamics`): in the tree 1/D is left out, and at a
cut joint the force that holds is the multiplier of one more row. Which rates are held is a choice
by `where`, unless it is a number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

from nlink.algorithms.closures import HeldClosure
from nlink.algorithms.hybrid_dynamics import truth_of
from nlink.algorithms.sweep import Column, Unrolled
from nlink.model.constraints import ANGLE_TOLERANCE, UNITS, Constraint, X, Y
from nlink.model.cycles import EliminationPlan, EliminationStep, JointEdge, TiedRates, plan_edges
from nlink.model.joints import Coordinates
from nlink.model.mechanism import GearRow, Mechanism, MovingJoint
from nlink.scalars.functions import Scalar, divide, less, literal, sign, sqrt, where
from nlink.spatial import (
    ArticulatedInertia,
    Matrix,
    Pivot,
    Rotation,
    Spin,
    Transform,
    Twist,
    Vector,
    Wrench,
)

DEPENDENT = (3 * ANGLE_TOLERANCE) ** 2
"""A pivot of this share of F is one of axes that are meant to be parallel."""
ROUNDING = 1e-16
"""A pivot of this share of G is rounding."""

SINGULAR = 1e4 * DEPENDENT
"""A pivot of this share of F is too near a singular state of a branch to divide by."""

FEW_CUTS = 1
"""Cuts with rows at one body, up to which these are one step."""

Row = tuple[int, int]
"""A row of a cut edge: when its rows are eliminated, and which of them it is."""
WRENCHES = tuple(Wrench.of(unit.components) for unit in UNITS)


# what is known off-line

def plan_of(mechanism: Mechanism, *, early: bool = False, held: Column | None = None,
            ) -> EliminationPlan:
    """The plan of a mechanism: of its joints and loops, where some rates may be held."""
    held = none_held(mechanism) if held is None else held
    bodies, kept = len(mechanism.joints), _not_cut(mechanism)
    carries = mechanism.carries or ((True, True),) * (bodies + len(mechanism.closures))
    joints = []
    for i, (joint, parent, own) in enumerate(zip(mechanism.joints, mechanism.parents, held,
                                                 strict=True)):
        rows, cuttable = _cut(joint, own)
        joints.append(JointEdge(i + 1, parent, joint.type.nv, rows, cuttable and i not in kept,
                                carries_parent=carries[i][1]))
    loops = [JointEdge(c.a.body, c.b.body, _freedoms(c.constraint), c.constraint.count, True,
                       *(own if c.constraint.carries else (False, False)))
             for c, own in zip(mechanism.closures, carries[bodies:], strict=True)]
    ties = [TiedRates(gear.joints) for gear in mechanism.gears]
    return plan_edges(len(joints), len(joints), [*joints, *loops], ties, early=early)


def _freedoms(constraint: Constraint) -> int:
    """How many rates a loop leaves free."""
    if not constraint.carries:
        return 6 - constraint.count
    return len(constraint.freedom(Matrix.identity()).S)


def _not_cut(mechanism: Mechanism) -> set[int]:
    """Joints (from 0) by which bodies carry something that are accelerated by that alone."""
    alone = [child for child, _ in mechanism.carries]
    heavy, kept = list(alone), dict[int, int]()
    for i in reversed(range(len(mechanism.joints) if alone else 0)):
        parent = mechanism.parents[i] - 1
        if heavy[i] and parent >= 0 and not alone[parent]:
            heavy[parent], kept[parent] = True, i
    return set(kept.values())


def regrouped(mechanism: Mechanism, *, early: bool = False) -> Mechanism:
    """Inertias regrouped along the joints of the tree that carry bodies as the author has them:
    elsewhere a regrouped body alone need not have a positive inertia."""
    plan = plan_of(mechanism, early=early)
    return mechanism.regrouped([held.edge == i for i, held in enumerate(plan.tree)])


def none_held(mechanism: Mechanism | Unrolled) -> list[Coordinates]:
    return [(0,) * joint.type.nv for joint in mechanism.joints]


def _cut(joint: MovingJoint, held: Coordinates) -> tuple[int, bool]:
    """How many rows a joint has when it is cut, and whether it may be."""
    along = sum(literal(x) != 0 or literal(h) != 0
                for x, h in zip(joint.armature, held, strict=True))
    return 6 - joint.type.nv + along, joint.axes is not None


# the edges of one state

@dataclass(frozen=True, slots=True)
class RateRow:
    """A row of a cut joint along one of its rates, which has an armature, or may be held."""

    rate: int
    unit: Wrench
    give: Scalar
    """What of a unit it gives: 1 / armature, and nothing if the rate is held."""
    held: Any
    """The truth that the rate is held; None of one that never is."""
    armed: bool

    @classmethod
    def of(cls, rate: int, unit: Wrench, armature: Scalar, held: Scalar) -> RateRow | None:
        truth, armed = truth_of(held), literal(armature) != 0
        if truth is None and not armed:
            return None
        give = divide(1, armature) if armed else 0
        return cls(rate, unit, give if truth is None else where(truth, 0, give), truth, armed)

    @property
    def sometimes(self) -> Any:
        """The truth that it is a row at all; None if it always is."""
        return None if self.armed else self.held


@dataclass(frozen=True, slots=True)
class Edge:
    """A joint or a loop in one configuration: its frame as its two bodies see it.

    A transform leads from the frame of the edge to that of the body; None if they are the same.
    """

    child: Transform | None
    parent: Transform | None
    S: tuple[Twist, ...]
    armature: tuple[Scalar, ...]
    rows: tuple[Wrench, ...]
    """If it is cut: unit wrenches on the child, in the frame of the edge."""
    along: tuple[RateRow, ...] = ()
    """More rows of a cut joint."""
    held: tuple[Scalar, ...] = ()
    """Of a joint, which rates are held."""
    columns: tuple[Twist, ...] = ()
    """Of a loop of the tree, the twists that open it row by row."""
    size: float = 1.0

    def at(self, body_is_child: bool) -> tuple[Transform | None, Transform | None]:
        """From the frame of the edge to a body and to the other one."""
        return (self.child, self.parent) if body_is_child else (self.parent, self.child)

    @property
    def units(self) -> tuple[Wrench, ...]:
        """All its rows."""
        return (*self.rows, *(row.unit for row in self.along))


def joint_edge(joint: MovingJoint, X: Transform, q: Coordinates, size: float,
               held: Coordinates) -> Edge:
    axes = joint.axes or ()
    rows = tuple(row for row in WRENCHES if row.axis not in axes)
    units = [row for axis in axes for row in WRENCHES if row.axis == axis]
    along = tuple(row for n, unit in enumerate(units)
                  if (row := RateRow.of(n, unit, joint.armature[n], held[n])) is not None)
    return Edge(None, X, joint.subspace(q), joint.armature, rows, along, held, size=size)


def loop_edge(contact: HeldClosure, *, cut: bool) -> Edge:
    closure, turn, C, columns = contact.closure, contact.turn, contact.C, ()
    rows, S = closure.constraint.rows(contact.R, contact.x), ()
    if not cut:
        free = closure.constraint.freedom(contact.R)
        S, columns = free.S, free.columns
        C = Matrix(C @ free.turn.to_parent(X), C @ free.turn.to_parent(Y), C.z)
    back = Matrix(*(turn.T @ c for c in (C.x, C.y, C.z)))
    return Edge(_seen(closure.a.p, back), _seen(closure.b.p + contact.arm, C), S, (0,) * len(S),
                rows, (), (0,) * len(S), columns, closure.size)


def _seen(p: Vector, R: Matrix) -> Transform:
    """From a frame with the axes R at p to the body in which it is."""
    plain = all(literal(x) == int(i == j) for i, row in enumerate(R.rows)
                for j, x in enumerate(row))
    return Transform(p, Rotation(() if plain else (Spin(R),)), Vector.zero())


def inside(X: Transform | None, f: Wrench) -> Wrench:
    return f if X is None else X.wrench_to_child(f)


def outside(X: Transform | None, f: Wrench) -> Wrench:
    return f if X is None else X.wrench_to_parent(f)


# the factors

@dataclass(frozen=True, slots=True)
class EliminatedBody:
    """A body that is gone, with the rates of its edge."""

    body: int
    parent: int
    edge: int
    sense: int
    """1 if the body is the edge's child, else -1: its rates then count backwards."""
    inner: Transform | None
    outer: Transform | None
    I: ArticulatedInertia
    """In the frame of the edge, before its rates were eliminated."""
    K: dict[Row, Wrench]
    """The same of open rows."""
    pivots: tuple[Pivot, ...]
    """Of the last rate first, as the following two."""
    ks: tuple[dict[Row, Scalar], ...]
    """k_r of open rows."""
    shares: tuple[dict[Row, Scalar], ...]
    """k_r / D."""
    needs: tuple[Wrench | None, ...]
    """U of each rate that may be held."""


@dataclass(frozen=True, slots=True)
class EliminatedRows:
    """The rows of a cut edge that are gone."""

    cut: int
    meets: int
    rows: tuple[Row, ...]
    others: tuple[Row, ...]
    """Rows still open that know of them."""
    inverses: dict[Row, Scalar]
    """1 / pivot; 0 for rows that were left out."""
    ratios: dict[Row, dict[Row, Scalar]]
    """What rows still open lose of each."""
    K: dict[Row, Wrench]
    """On the body where the branches meet."""


Node = EliminatedBody | EliminatedRows


@dataclass
class ClosedSystem:
    """A mechanism with loops in one configuration, and its factors once they are known."""

    mechanism: Unrolled
    plan: EliminationPlan
    edges: list[Edge]
    closeness: float = 0.0
    """How closely the state is known, as an angle, if not to rounding: its square is then the
    share of G that decides."""
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.closes = {step.number: k for k, step in enumerate(self.plan.order)
                       if not step.is_body}
        """When the rows of each cut are eliminated."""

    @classmethod
    def of(cls, mechanism: Unrolled, q: Column, transforms: Column,
           closures: Sequence[HeldClosure], *, early: bool = False, closeness: float = 0.0,
           held: Column | None = None) -> ClosedSystem:
        held = none_held(mechanism) if held is None else held
        plan = plan_of(mechanism.mechanism, early=early, held=held)
        size = min((c.size for c in mechanism.closures), default=1.0)
        edges = [joint_edge(joint, X, own, size, rates) for joint, X, own, rates in zip(
            mechanism.joints, transforms, q, held, strict=True)]
        edges += [loop_edge(contact, cut=k in plan.cut) for k, contact in enumerate(
            closures, len(edges))]
        return cls(mechanism, plan, edges, closeness)

    def keys(self, cut: int) -> list[Row]:
        """The rows of a cut edge; of what comes after these, of a gear."""
        if cut >= len(self.plan.cut):
            return [(self.closes[cut], 0)]
        edge = self.edges[self.plan.cut[cut]]
        return [(self.closes[cut], r) for r in range(len(edge.rows) + len(edge.along))]

    def on_bodies(self, k: int, force: Scalar) -> Iterator[tuple[int, Wrench]]:
        """The wrenches by which a force along the rate of a cut joint acts on its bodies."""
        edge, ends = self.edges[k], self.plan.edges[k]
        s, = edge.S
        w = Wrench.of(s.components) * force
        for body, at, sense in ((ends.child, edge.child, 1), (ends.parent, edge.parent, -1)):
            if body:
                yield body, outside(at, w) * sense

    def steps(self, rows: Iterable[Row]) -> Iterator[list[Row]]:
        """Rows by the cuts they belong to; where they are many, each cut is a step of its own."""
        cuts: dict[int, list[Row]] = {}
        for row in rows:
            cuts.setdefault(row[0], []).append(row)
        for each in cuts.values():
            if len(cuts) > FEW_CUTS:
                self.mechanism.mark()
            yield each

    def independent(self, node: EliminatedRows, key: Row) -> Scalar:
        """1 for a row that does not follow from those before it, else 0."""
        return sign(node.inverses[key]) if literal(node.inverses[key]) != 0 else 0

    def eliminate(self) -> Iterator[Node]:
        """The factors, one after the other in the order of the plan."""
        state = _Fronts(self)
        for step in self.plan.order:
            self.mechanism.mark()
            node = state.body(step.number) if step.is_body else state.rows(step)
            self.nodes.append(node)
            yield node


class _Fronts:
    """What is known of bodies and rows that are not yet eliminated."""

    def __init__(self, system: ClosedSystem) -> None:
        plan, mechanism = system.plan, system.mechanism
        self.system, self.plan = system, plan
        self.I = {i: ArticulatedInertia.from_rigid(joint.inertia)
                  for i, joint in enumerate(mechanism.joints, 1)}
        self.K: dict[int, dict[Row, Wrench]] = {i: {} for i in self.I}
        self.L: dict[Row, dict[Row, Scalar]] = {}
        self.F: dict[Row, Scalar] = {}
        self.G: dict[int, Scalar] = {}
        self.reach: dict[Row, float] = {}
        """How large the force of a row is, times a length of its loop."""
        self.rigid: set[Row] = set()
        """Rows that may depend on others: those that do not yield by themselves."""
        self.ratios: dict[int, dict[Row, Scalar]] = {}
        """For edges of the tree, what gears have of their rates."""
        self.sometimes: dict[Row, Any] = {}
        """The truths under which rows are rows."""
        for c, k in enumerate(plan.cut):
            mechanism.mark()
            self._open(c, k)
        for c, gear in enumerate(mechanism.gears, len(plan.cut)):
            mechanism.mark()
            self._open_gear(c, gear)

    def _open(self, cut: int, k: int) -> None:
        """The rows of a cut edge on its two bodies."""
        edge, ends = self.system.edges[k], self.plan.edges[k]
        rows: list[RateRow | None] = [*[None] * len(edge.rows), *edge.along]
        for key, unit, row in zip(self.system.keys(cut), edge.units, rows, strict=True):
            for body, at, way in ((ends.child, edge.child, 1), (ends.parent, edge.parent, -1)):
                if body:
                    self.K[body][key] = outside(at, unit) * way
            self.L[key] = {key: 0 if row is None else row.give}
            self.F[key] = self.G[key[0]] = 0
            self.reach[key] = edge.size * _size(unit.force)
            if row is None or row.held is not None:
                self.rigid.add(key)
            if row is not None and row.sometimes is not None:
                self.sometimes[key] = row.sometimes

    def _open_gear(self, cut: int, gear: GearRow) -> None:
        """The row of a gear: on rates of edges of the tree, and on the bodies of cut ones."""
        key, = self.system.keys(cut)
        self.L[key] = {key: 0}
        self.F[key] = self.G[key[0]] = 0
        self.reach[key] = 0.0
        self.rigid.add(key)
        holds = {held.edge: body for body, held in enumerate(self.plan.tree, 1)}
        for k, ratio in zip(gear.joints, gear.ratios, strict=True):
            if k in holds:
                self.ratios.setdefault(k, {})[key] = ratio
                self.K[holds[k]].setdefault(key, Wrench.zero())
                continue
            for body, w in self.system.on_bodies(k, ratio):
                K = self.K[body]
                K[key] = K[key] + w if key in K else w

    def body(self, i: int) -> EliminatedBody:
        """A body goes, and with it the rates of its edge, the last one first."""
        held = self.plan.tree[i - 1]
        edge, forward = self.system.edges[held.edge], self.plan.edges[held.edge].child == i
        inner, outer = edge.at(forward)
        I = self.I.pop(i) if inner is None else self.I.pop(i).to_child(inner)
        before, pivots, needs = I, list[Pivot](), list[Wrench | None]()
        for S, armature, h in reversed(list(zip(edge.S, edge.armature, edge.held, strict=True))):
            truth = truth_of(h)
            needs.append(None if truth is None else I @ S)
            I, pivot = I.eliminate(S, armature, truth)
            pivots.append(pivot)
        if held.parent:
            self.I[held.parent] = self.I[held.parent] + (
                I if outer is None else I.to_parent(outer))
        K = dict(sorted(self.K.pop(i).items()))
        ks: list[dict[Row, Scalar]] = [{} for _ in pivots]
        ratios = {key: x * (1 if forward else -1)
                  for key, x in self.ratios.get(held.edge, {}).items()}
        cuts = list(self.system.steps(K))
        for keys in cuts:
            for key in keys:
                if len(cuts) > FEW_CUTS:
                    self.system.mechanism.mark()
                K[key] = inside(inner, K[key])
                w = self._travel(key, K[key], ratios.get(key, 0), pivots, ks)
                if held.parent:
                    above, up = self.K[held.parent], outside(outer, w)
                    above[key] = above[key] + up if key in above else up
            for pivot in pivots:
                if _turns(pivot.S):
                    self.G[keys[0][0]] = self.G[keys[0][0]] + pivot.inverse
        shares = [{key: k * pivot.inverse for key, k in own.items()}
                  for own, pivot in zip(ks, pivots, strict=True)]
        for one, other in self._pairs(cuts):
            for own, share in zip(ks, shares, strict=True):
                self._couple(one, other, own, share)
        return EliminatedBody(i, held.parent, held.edge, 1 if forward else -1, inner, outer,
                              before, K, tuple(pivots), tuple(ks), tuple(shares),
                              tuple(needs))

    def _pairs(self, cuts: list[list[Row]]) -> Iterator[tuple[list[Row], list[Row]]]:
        """Pairs of cuts; where they are many, each pair is a step of its own."""
        for pair in combinations_with_replacement(cuts, 2):
            if len(cuts) > FEW_CUTS:
                self.system.mechanism.mark()
            yield pair

    def _travel(self, key: Row, w: Wrench, ratio: Scalar, pivots: Sequence[Pivot],
                ks: Sequence[dict[Row, Scalar]]) -> Wrench:
        """A row passes the rates of an edge: what is left of it. Its k of each go to `ks`; that of
        a gear has its `ratio` besides."""
        for pivot, own in zip(pivots, ks, strict=True):
            k = pivot.S.dot(w) + ratio
            if key in self.rigid:
                across, along = _parts(pivot.S.axis, w.moment if _turns(pivot.S) else w.force)
                if along or literal(ratio) != 0:  # k^2 / D, which L has too
                    self.F[key] = self.F[key] + (k * pivot.inverse) * k
                self.F[key] = self.F[key] + across * pivot.inverse
            if literal(k) != 0:
                own[key] = k
                _, w = pivot.eliminate(w, -ratio)
        return w

    def _couple(self, one: Sequence[Row], other: Sequence[Row], own: dict[Row, Scalar],
                shares: dict[Row, Scalar], *, less: bool = False) -> None:
        """L_rs += k_r k_s / D of the rows of two cuts, or as much less."""
        for key in one:
            if key in own:
                row = self.L[key]
                for another in other:
                    if another in own and key <= another:
                        x = shares[key] * own[another]
                        x = -x if less else x
                        row[another] = row[another] + x if another in row else x

    def rows(self, step: EliminationStep) -> EliminatedRows:
        """The multipliers of a cut edge go: L D L^T in the order of its rows, first of their own
        block, then of what other cuts know of them."""
        keys, meets = self.system.keys(step.number), step.meets
        K = self.K[meets] if meets else {}
        L = {key: self.L.pop(key) for key in keys}
        own = {key: w for key in keys if (w := K.pop(key, None)) is not None}
        inverses: dict[Row, Scalar] = dict.fromkeys(keys, 0)
        ratios: dict[Row, dict[Row, Scalar]] = {key: {} for key in keys}
        kept: list[Row] = []
        for n, key in enumerate(keys):
            pivot = L[key].get(key, 0)
            if literal(pivot) == 0:
                continue
            kept.append(key)
            inverse = inverses[key] = self._inverse(key, pivot, early=step.early)
            for m, later in enumerate(keys[n + 1:], n + 1):
                x = L[key].get(later, 0)
                if literal(x) != 0:
                    share = ratios[key][later] = x * inverse
                    for last in keys[m:]:
                        y = L[key].get(last, 0)
                        if literal(y) != 0:
                            L[later][last] = L[later].get(last, 0) - share * y
                    if key in own:
                        taken = own[key] * share
                        own[later] = own[later] - taken if later in own else taken * -1
            if key in own:
                self.I[meets] = self.I[meets].with_rows(own[key], own[key] * inverse)
        known = sorted({other for key in kept for other in L[key]} - set(keys))
        cuts: list[list[Row]] = []
        for others in self.system.steps(known):
            cuts.append(others)
            for n, key in enumerate(kept):
                for other in others:
                    x = L[key].get(other, 0)
                    for before in kept[:n]:
                        if key in ratios[before] and other in ratios[before]:
                            x = x - ratios[before][key] * L[before][other]
                    if literal(x) != 0:
                        L[key][other] = x
                        share = ratios[key][other] = x * inverses[key]
                        if key in own:
                            taken = own[key] * share
                            K[other] = K[other] - taken if other in K else taken * -1
        for one, other in self._pairs(cuts):
            for key in kept:
                self._couple(one, other, {o: L[key][o] for o in ratios[key]}, ratios[key],
                             less=True)
        return EliminatedRows(step.number, meets, tuple(keys), tuple(known), inverses, ratios,
                              {key: own[key] for key in kept if key in own})

    def _inverse(self, key: Row, pivot: Scalar, *, early: bool) -> Scalar:
        """1 / pivot; 0 where the row depends on those before it, or nan if the row goes early, as
        what was to come might have made it independent."""
        if key not in self.rigid:
            return divide(1, pivot)
        if early:
            return sqrt(sign(pivot - self.F[key] * SINGULAR)) / pivot
        share = max(ROUNDING, self.system.closeness ** 2)
        floor = self.F[key] * DEPENDENT + (
            self.G[key[0]] * (share * self.reach[key] ** 2) + 1e-300)
        independent = less(floor, pivot)
        if key in self.sometimes:
            independent = independent & self.sometimes[key]
        return where(independent, divide(1, where(independent, pivot, 1)), 0)


def _turns(S: Twist) -> bool:
    """Whether a rate turns the body."""
    return any(literal(x) != 0 for x in S.angular.components)


def _parts(axis: str | None, way: Vector) -> tuple[Scalar, bool]:
    """The square of a moment (or force), and whether that is but for the part along the axis."""
    if axis is None:
        return way.dot(way), False
    x, y = (x for name, x in zip("xyz", way.components, strict=True) if name != axis[-1])
    return x * x + y * y, True


def _size(v: Vector) -> float:
    """The size of a vector of numbers; of others, which are units, 1."""
    values = [literal(x) for x in v.components]
    return 1.0 if None in values else math.hypot(*[x or 0.0 for x in values])
