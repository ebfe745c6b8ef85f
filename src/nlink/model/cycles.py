"""The plan by which a mechanism with loops is eliminated: a tree, and an order.

Bodies are the nodes of a graph, joints and loops its edges. Any spanning tree of it will do, not
only the one that the author's joints are. An edge that is not in the tree is *cut*: it becomes
rows, 6 - nv for a joint and those of the constraint for a loop, with a multiplier each. The
unknowns are eliminated one after the other:

- A body, tips first, with the rates of the edge that holds it in the tree. Its open rows, those
  of cut edges on whose cycle it lies, go on to its parent.
- The multipliers of a cut edge, once all bodies of its cycle but the last one, where its two
  branches meet, are gone. A motion of that one as a whole does not open the cycle, so what the
  rows then know of each other is complete.

What this costs grows with the square of the rows that are open at a body. So of several trees the
one of least work is taken: the author's, one that is shallow and branches (breadth first), and
what exchanging edges makes of the better one. All of this is known before any number is, and the
same mechanism always gets the same plan.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush

NARROW = 18
"""Open rows at one body, up to which no better tree is sought."""
MOVES, EFFORT = 2000, 300_000
"""Exchanges of edges that are tried at most, and bodies that are looked at in all of them."""


@dataclass(frozen=True, slots=True)
class JointEdge:
    """A joint or a loop between two bodies, 0 being the base: `child` is carried by `parent`."""

    child: int
    parent: int
    rates: int
    """The number of rates that it leaves free."""
    rows: int
    """The number of its rows when it is cut."""
    cuttable: bool = True
    carries_child: bool = True
    """Whether the child may be eliminated along it: the body alone resists each of its rates."""
    carries_parent: bool = True

    def other(self, body: int) -> int:
        return self.parent if body == self.child else self.child

    def carries(self, body: int) -> bool:
        return self.carries_child if body == self.child else self.carries_parent


@dataclass(frozen=True, slots=True)
class TiedRates:
    """Rows on the rates of joints, such as a gear: the edges of these joints."""

    edges: tuple[int, ...]
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Held:
    """How a body hangs in the tree: by which edge, and from which body."""

    edge: int
    parent: int


@dataclass(frozen=True, slots=True)
class EliminationStep:
    """One step of the plan: a body, or the rows of a cut edge (`number`)."""

    is_body: bool
    number: int
    meets: int = 0
    """Of rows: the body where the branches of the cycle meet; of early ones the body that their
    other end is on."""
    early: bool = False
    """Whether the rows go when one branch is gone, whose rates are to be enough for them."""


@dataclass(frozen=True, slots=True)
class EliminationPlan:
    """A spanning tree of joints and loops, and the order in which it is eliminated."""

    edges: tuple[JointEdge, ...]
    ties: tuple[TiedRates, ...]
    tree: tuple[Held, ...]
    """How bodies 1, 2, ... hang."""
    cut: tuple[int, ...]
    """The edges that are not in the tree and have rows."""
    loose: tuple[int, ...]
    """Those that are not in the tree and have none: joints that hold nothing."""
    order: tuple[EliminationStep, ...]
    width: int
    """The most rows that are open at one body."""
    work: float
    """About how many multiplications the rows take."""

    @property
    def rows(self) -> int:
        return sum(self.edges[k].rows for k in self.cut) + sum(tie.rows for tie in self.ties)

    @property
    def early(self) -> bool:
        """Whether some rows go early."""
        return any(step.early for step in self.order)


def plan_edges(bodies: int, joints: int, edges: Sequence[JointEdge],
               ties: Sequence[TiedRates] = (), *, early: bool = False) -> EliminationPlan:
    """The plan of least work for so many bodies; the first `joints` edges are the author's tree,
    edge i - 1 carrying body i.

    With `early`, rows between a branch from the base that is mobile enough alone and another body
    go as soon as that branch is gone: less work, but no answer where the branch is singular.
    """
    return _planned(bodies, joints, tuple(edges), tuple(ties), early)


@lru_cache(64)
def _planned(bodies: int, joints: int, edges: tuple[JointEdge, ...], ties: tuple[TiedRates, ...],
             early: bool) -> EliminationPlan:
    graph = JointGraph(bodies, edges, ties, early)
    authors = {i + 1: Held(i, edges[i].parent) for i in range(joints)}
    found = [graph.plan(authors)]
    shallow = graph.breadth_first()
    if shallow is not None and shallow != authors:
        found.append(graph.plan(shallow))
    best = min(found, key=lambda plan: plan.work)
    if best.width > NARROW:
        start = {i + 1: held for i, held in enumerate(best.tree)}
        found.append(graph.plan(graph.exchanged(start)))
    return min(found, key=lambda plan: plan.work)


Tree = dict[int, Held]


@dataclass
class JointGraph:
    """Bodies, the edges between them, and what is counted on them."""

    bodies: int
    edges: tuple[JointEdge, ...]
    ties: tuple[TiedRates, ...]
    early: bool
    at: list[list[int]] = field(init=False)
    """The edges of each body."""

    def __post_init__(self) -> None:
        self.at = [[] for _ in range(self.bodies + 1)]
        for k, edge in enumerate(self.edges):
            self.at[edge.child].append(k)
            self.at[edge.parent].append(k)

    # trees

    def breadth_first(self) -> Tree | None:
        """A shallow tree from the base, edges of many rows first; None if an edge that may not be
        cut, or carries no body that way, stands in the way."""
        tree: Tree = {}
        while len(tree) < self.bodies:
            before = len(tree)
            self._spread(tree, lambda edge: edge.rows > 0)
            if len(tree) < self.bodies:  # a part that only joints that hold nothing tie to it
                free = next((k for k, edge in enumerate(self.edges) if edge.rows == 0
                             and self._reached(tree, edge.child) != self._reached(
                                 tree, edge.parent)), None)
                if free is None:
                    return None
                edge = self.edges[free]
                body = edge.parent if self._reached(tree, edge.child) else edge.child
                tree[body] = Held(free, edge.other(body))
            if len(tree) == before:
                return None
        used = {held.edge for held in tree.values()}
        kept = all(edge.cuttable or k in used for k, edge in enumerate(self.edges))
        sound = all(self.edges[held.edge].carries(body) for body, held in tree.items())
        return tree if kept and sound else None

    @staticmethod
    def _reached(tree: Tree, body: int) -> bool:
        return body == 0 or body in tree

    def _spread(self, tree: Tree, admits: Callable[[JointEdge], bool]) -> None:
        """All that can be reached by edges of some kind, level by level; what may not be cut is
        followed at once, so that it is of the tree."""
        level = self._joined(tree, [0, *tree])
        while level:
            following = []
            for body in level:
                for k in sorted(self.at[body], key=lambda k: (-self.edges[k].rows, k)):
                    edge = self.edges[k]
                    far = edge.other(body)
                    if admits(edge) and edge.carries(far) and not self._reached(tree, far):
                        tree[far] = Held(k, body)
                        following += self._joined(tree, [far])
            level = following

    def _joined(self, tree: Tree, bodies: list[int]) -> list[int]:
        """Some bodies of the tree, and all that edges which may not be cut hang on them."""
        found = list(bodies)
        for body in found:  # grows meanwhile
            for k in self.at[body]:
                far = self.edges[k].other(body)
                if not self.edges[k].cuttable and not self._reached(tree, far):
                    tree[far] = Held(k, body)
                    found.append(far)
        return found

    def exchanged(self, tree: Tree) -> Tree:
        """A tree with fewer open rows: edges change places with cut ones while the sum of their
        squares falls, and at first also if it rises a little (seeded, so always the same)."""
        chance = random.Random(0)
        loads, through = self._loads(tree)
        cost = sum(m * m for m in loads)
        best, least = tree, cost
        moves = min(MOVES, EFFORT // max(1, self.bodies))
        for move in range(moves):
            total, x = chance.random() * cost, 0
            while x < self.bodies and total >= 0:
                x += 1
                total -= loads[x] ** 2
            cuts = through.get(x)
            if not cuts:
                break
            changed = self._with_exchange(tree, x, chance.choice(cuts))
            if changed is None:
                continue
            new_loads, new_through = self._loads(changed)
            new = sum(m * m for m in new_loads)
            heat = 0.02 * cost * (1 - move / (0.7 * moves))
            if new < cost or (heat > 0 and chance.random() < 0.3 * math.exp((cost - new) / heat)):
                tree, loads, through, cost = changed, new_loads, new_through, new
            if cost < least:
                best, least = tree, cost
        return best

    def _with_exchange(self, tree: Tree, body: int, cut: int) -> Tree | None:
        """The tree with a cut edge in place of the one that holds a body on its cycle."""
        gone = tree[body].edge
        edge = self.edges[cut]
        if not self.edges[gone].cuttable:
            return None
        # the part that hangs on the body is hung up by the cut edge, and turned inside out
        end = edge.child if body in _path(tree, edge.child) else edge.parent
        changed, x, held = dict(tree), end, Held(cut, edge.other(end))
        while True:
            if not self.edges[held.edge].carries(x):
                return None
            above = tree[x]
            changed[x] = held
            if x == body:
                return changed
            held, x = Held(above.edge, x), above.parent

    def _loads(self, tree: Tree) -> tuple[list[int], dict[int, list[int]]]:
        """The number of open rows at each body, and the cut edges with it on their cycles."""
        loads, through = [0] * (self.bodies + 1), dict[int, list[int]]()
        used, depth = {held.edge for held in tree.values()}, _depths(tree)
        for k, edge in enumerate(self.edges):
            if k not in used and edge.rows:
                for body in _cycle(tree, depth, edge)[0]:
                    loads[body] += edge.rows
                    through.setdefault(body, []).append(k)
        return loads, through

    # orders

    def plan(self, tree: Tree) -> EliminationPlan:
        """The order of least work along a tree: of what can be eliminated, that with the fewest
        neighbours first, and rows before bodies."""
        used, depth = {held.edge for held in tree.values()}, _depths(tree)
        cut = [k for k, edge in enumerate(self.edges) if k not in used and edge.rows]
        rows = [self.edges[k].rows for k in cut] + [tie.rows for tie in self.ties]
        cycles = [_cycle(tree, depth, self.edges[k]) for k in cut]
        cycles += [self._tied(tree, depth, tie) for tie in self.ties]
        waits = [len(bodies) for bodies, _ in cycles]
        through: dict[int, list[int]] = {}
        for c, (bodies, _) in enumerate(cycles):
            for body in bodies:
                through.setdefault(body, []).append(c)
        branches = self._branches(tree, depth, cut, cycles) if self.early else {}
        order = _Order(tree, rows, through, waits, [meets for _, meets in cycles],
                       [self.edges[tree[i].edge].rates if i in tree else 0
                        for i in range(self.bodies + 1)], branches)
        order.run()
        loose = tuple(k for k, edge in enumerate(self.edges) if k not in used and not edge.rows)
        return EliminationPlan(
            self.edges, self.ties, tuple(tree[i] for i in range(1, self.bodies + 1)), tuple(cut),
            loose, tuple(order.steps), order.width, order.work)

    def _branches(self, tree: Tree, depth: dict[int, int], cut: list[int],
                  cycles: Sequence[tuple[list[int], int]]) -> dict[int, tuple[list[int], int]]:
        """For cuts that may go early, a branch from the base that no other one has, with rates
        enough for its rows, and the body at the other end. `cycles` are those of all cuts, then
        those of rows on rates."""
        found: dict[int, tuple[list[int], int]] = {}
        taken: set[int] = set()
        for c, k in enumerate(cut):
            edge = self.edges[k]
            if _meeting(tree, depth, edge.child, edge.parent):
                continue
            for end in (edge.child, edge.parent):
                branch = list(_path(tree, end))
                rates = [self.edges[tree[x].edge].rates for x in branch]
                if not taken & set(branch) and max(rates, default=6) < 6 and (
                        sum(rates) >= edge.rows):
                    found[c] = branch, edge.other(end)
                    taken |= set(branch)
                    break
        # what waits for both of its branches may have no body of an early one
        late = [c for c in range(len(cycles)) if c not in found]
        for c in late:  # grows meanwhile
            shared = [k for k, (branch, _) in found.items() if set(branch) & set(cycles[c][0])]
            for k in shared:
                del found[k]
            late += shared
        return found

    def _tied(self, tree: Tree, depth: dict[int, int], tie: TiedRates) -> tuple[list[int], int]:
        """The bodies between joints that are tied, and the one where their branches meet."""
        starts, anchors = list[int](), list[int]()
        for k in tie.edges:
            ends = self.edges[k].child, self.edges[k].parent
            own = next((x for x in ends if x and tree[x].edge == k), None)
            starts += ends if own is None else [own]
            anchors += ends if own is None else [tree[own].parent]
        meets = anchors[0]
        for anchor in anchors[1:]:
            meets = _meeting(tree, depth, meets, anchor)
        bodies: dict[int, None] = {}
        for x in starts:
            while x != meets:
                bodies[x] = None
                x = tree[x].parent
        return list(bodies), meets


class _Order:
    """EliminationStep of a graph in which bodies and rows are nodes, by what it leaves coupled."""

    def __init__(self, tree: Tree, rows: list[int], through: dict[int, list[int]],
                 waits: list[int], meets: list[int], rates: list[int],
                 branches: dict[int, tuple[list[int], int]]) -> None:
        self.tree, self.rows, self.rates, self.branches = tree, rows, rates, branches
        self.waits, self.meets = list(waits), list(meets)
        self.through = {body: [c for c in cuts if c not in branches]
                        for body, cuts in through.items()}
        self.blocked = dict.fromkeys((0, *tree), 0)
        """How many early cuts a body has to wait for."""
        for c, (branch, end) in branches.items():
            self.waits[c], self.meets[c] = len(branch), end
            self.blocked[end] += 1
            for body in branch:
                self.through.setdefault(body, []).append(c)
        self.open: dict[int, set[int]] = {body: set() for body in (0, *tree)}
        """The cuts whose rows a body knows."""
        self.coupled: list[set[int]] = [set() for _ in rows]
        """The cuts whose rows the rows of a cut know."""
        for body, cuts in self.through.items():
            self.open[body] |= set(cuts)
        for c, (_, end) in branches.items():
            self.open[end].add(c)
        self.ready: list[tuple[int, int]] = []
        """Bodies that can go, least cost first."""
        self.children = dict.fromkeys((0, *tree), 0)
        for held in tree.values():
            self.children[held.parent] += 1
        self.steps: list[EliminationStep] = []
        self.width, self.work = 0, 0.0

    def run(self) -> None:
        for body in self.tree:
            self._offer(body)
        for c, left in enumerate(self.waits):
            if not left:
                self._close(c)
        while self.ready:
            cost, body = heappop(self.ready)
            now = self._cost(body)
            if now > cost:  # what it knows has grown since
                heappush(self.ready, (now, body))
                continue
            for c in self._eliminate(body):
                self._close(c)
            parent = self.tree[body].parent
            self.children[parent] -= 1
            self._offer(parent)

    def _offer(self, body: int) -> None:
        """A body can go if nothing hangs on it and no rows are to go before."""
        if body and not self.children[body] and not self.blocked[body]:
            heappush(self.ready, (self._cost(body), body))

    def _open_rows(self, cuts: Iterable[int]) -> int:
        return sum(self.rows[c] for c in cuts)

    def _cost(self, body: int) -> int:
        return self._open_rows(self.open[body])

    def _eliminate(self, body: int) -> list[int]:
        """A body goes: its rows couple, and its parent knows them. Returns the cuts that are
        complete."""
        cuts, parent = self.open.pop(body), self.tree[body].parent
        m = self._open_rows(cuts)
        self.width = max(self.width, m)
        self.work += self.rates[body] * (m * (m + 1) / 2 + 12 * m) + 40 * m * (parent > 0)
        self.steps.append(EliminationStep(True, body))
        for c in cuts:
            self.coupled[c] |= cuts - {c}
        if parent:
            self.open[parent] |= cuts
        complete = []
        for c in sorted(self.through.get(body, ())):
            self.waits[c] -= 1
            if not self.waits[c]:
                complete.append(c)
        return complete

    def _close(self, c: int) -> None:
        """The rows of a cut go: what they couple is coupled without them."""
        near, meets = self.coupled[c], self.meets[c]
        m = self._open_rows(near) + 6 * (meets > 0)
        s = self.rows[c]
        self.work += sum((s - 1 - i + m) * (s - i + m) / 2 for i in range(s))
        self.steps.append(EliminationStep(False, c, meets, c in self.branches))
        for other in near:
            self.coupled[other] |= near - {other}
            self.coupled[other].discard(c)
        if meets:
            self.open[meets] |= near
            self.open[meets].discard(c)
        if c in self.branches:
            self.blocked[meets] -= 1
            self._offer(meets)


def _path(tree: Tree, body: int) -> Iterator[int]:
    """A body and all that carry it."""
    while body:
        yield body
        body = tree[body].parent


def _depths(tree: Tree) -> dict[int, int]:
    """How far each body is from the base."""
    depths = {0: 0}
    for body in tree:
        way = []
        while body not in depths:
            way.append(body)
            body = tree[body].parent
        for x in reversed(way):
            depths[x] = depths[tree[x].parent] + 1
    return depths


def _cycle(tree: Tree, depth: dict[int, int], edge: JointEdge) -> tuple[list[int], int]:
    """The bodies on the cycle that an edge closes, and the one where its branches meet."""
    meets, bodies = _meeting(tree, depth, edge.child, edge.parent), list[int]()
    for x in (edge.child, edge.parent):
        while x != meets:
            bodies.append(x)
            x = tree[x].parent
    return bodies, meets


def _meeting(tree: Tree, depth: dict[int, int], a: int, b: int) -> int:
    """The last body that carries both."""
    while a != b:
        if depth[a] < depth[b]:
            a, b = b, a
        a = tree[a].parent
    return a
