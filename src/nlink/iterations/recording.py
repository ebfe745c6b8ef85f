"""An iteration, run once on graph nodes: what remains is a short list of statements.

    Pass    columns get elementwise expressions, cells are sums or maxima of such: one pass
    Call    a program maps a cell, columns and further cells to a column, cells or shared numbers
    When    statements that may be skipped where no process needs them, and that change the
            state of no other process
    Repeat  the same again and again, at most so often, while a process needs them

Everything else is expressions: a node that depends on a column is one element of it, any other
node is a cell. A back end that can print these four and scalar expressions runs every
iteration. A column is never overwritten before all that reads it has been computed, but by
`when`; reading the old one after that is refused.

Temporary columns share memory: `share_columns` finds how long each of them is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nlink.iterations.iteration import Iteration, Layout, State, WithOutputs
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import reachable

GIVEN = "given "
"""How the names of nodes begin that are numbers a text is given."""


@dataclass(frozen=True)
class Pass:
    """One pass over the elements."""

    stores: list[tuple[Node, Node]]
    """Columns, and the expressions of their elements."""
    reductions: list[tuple[Node, str, Node]]
    """Cells, "sum" or "max", and what is reduced."""


@dataclass(frozen=True)
class SharedNumbers:
    """Numbers that a program leaves for others within a step, such as the factors of a matrix; how
    many is the program's business."""

    program: str
    number: int


@dataclass(frozen=True)
class Call:
    """results = name(time, column, u, ...), u being the inputs of the process, then the cells."""

    name: str
    time: Node
    columns: tuple[Node | SharedNumbers, ...]
    """The column, and what else the program is given."""
    cells: tuple[Node, ...]
    results: tuple[Node | SharedNumbers, ...]
    """A column, cells, a column and then cells, or shared numbers."""


@dataclass(frozen=True)
class Gives:
    """What a program gives."""

    column: bool = True
    cells: int = 0
    shared: bool = False
    """Numbers that other programs read, and nothing else."""


@dataclass(frozen=True)
class When:
    """The body, unless `truth` holds for no process that runs."""

    truth: Node
    body: list[Statement]
    merged: list[tuple[Node, Node, Node]]
    """Cells, with their values after the body (for processes that did not want it, those before)
    and without it. Columns are merged where the body stores them."""


@dataclass(frozen=True)
class Repeat:
    """The body, as often as `truth` holds for a process that runs, and at most `most` times."""

    most: int
    truth: Node
    """Of the cells that are handed on."""
    body: list[Statement]
    merged: list[tuple[Node, Node, Node]]
    """Cells, with their values after a body and before the first one."""
    lasting: tuple[Node, ...] = ()
    """Columns that the body reads: they are needed until it is done for the last time."""


Statement = Pass | Call | When | Repeat


@dataclass(frozen=True)
class Recording:
    """The statements of a text, and where its results are."""

    graph: Recorder
    body: list[Statement]
    cells: Mapping[str, Node]
    """New values of the state's cells that change."""


class Recorder(Graph):
    """The graph of one text, which keeps statements besides nodes."""

    def __init__(self, layout: Layout, name: str) -> None:
        super().__init__()
        self.layout, self.name = layout, name
        self.body: list[Statement] = []
        self.columns: dict[int, str] = {}
        """Nodes that are a column in memory, by index, and the name of that memory."""
        self.stale: set[int] = set()
        """Nodes of columns that have been overwritten."""
        self.current: dict[str, Node] = {}
        """The node for what is in a memory now."""
        self.condition: Node | None = None
        """What holds for the processes whose state may change: the truths of all `when` around."""
        self._pending: list[tuple[Node, Node]] = []
        self._elementwise: dict[int, bool] = {}
        self._count = 0

    def start(self) -> State:
        """The state before a step."""
        layout = self.layout
        cells = {name: self.input(f"cell {name}")
                 for name in (*layout.cells, *layout.brief_cells)}
        return State(cells | {name: self._column(name)
                              for name in (*layout.columns, *layout.brief_columns)})

    def _column(self, memory: str) -> Node:
        """A node for what is in some column's memory now."""
        self._count += 1
        node = self.input(f"column {memory} {self._count}")
        self.columns[node.index], self.current[memory] = memory, node
        return node

    def fresh_cell(self) -> Node:
        self._count += 1
        return self.input(f"value {self._count}")

    def elementwise(self, node: Node) -> bool:
        """Whether a node is an element of a column."""
        known = self._elementwise
        if node.index not in known:
            known[node.index] = node.index in self.columns or node.name == "index" or any(
                self.elementwise(a) for a in node.args)
        return known[node.index]

    def keep(self, column: Any) -> Node:
        """Memory of its own for a column, filled by the next pass."""
        column = self.lift(column)
        if column.index in self.columns:
            return column
        node = self._column(f"{self.name} {self._count}")
        self._pending.append((node, column))
        return node

    def reduce(self, how: str, columns: Sequence[Any]) -> tuple[Node, ...]:
        cells = tuple(self.fresh_cell() for _ in columns)
        self._pass([(cell, how, self.lift(x)) for cell, x in zip(cells, columns, strict=True)])
        return cells

    def _pass(self, reductions: Sequence[tuple[Node, str, Node]] = ()) -> None:
        stores, self._pending = self._pending, []
        if stores or reductions:
            self._add(Pass(stores, list(reductions)))

    def _add(self, statement: Statement) -> None:
        self._expect_current(reachable(reads(statement)))
        self.body.append(statement)

    def _expect_current(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.index in self.stale:
                raise ValueError(f"{node.name}: read after it was overwritten")

    def call(self, name: str, time: Any, column: Any, cells: Sequence[Any] = (), *more: Any,
             gives: Gives) -> Any:
        """Call a program; its results are a column, a list of cells, both, or shared numbers."""
        columns = tuple(x if isinstance(x, SharedNumbers) else self.keep(x)
                        for x in (column, *more))
        self._pass()
        given = tuple(self.lift(x) for x in cells)
        if gives.shared:
            self._count += 1
            first = [SharedNumbers(name, self._count)]
        else:
            first = [self._column(f"{self.name} {self._count}")] if gives.column else []
        found = [self.fresh_cell() for _ in range(gives.cells)]
        self._add(Call(name, self.lift(time), columns, given, (*first, *found)))
        return found if not first else (first[0], found) if found else first[0]

    def settle(self, state: State) -> State:
        """All columns of a state in their own memory, where the condition holds."""
        self._pass()
        columns = self._columns(state)
        self._expect_current(columns.values())
        moved = {name: self._chosen(node, self.current[name]) for name, node in columns.items()
                 if self.columns.get(node.index) != name}
        if not moved:
            return state
        # both sides of a pass are read before anything is written, element by element
        old = [node for node, memory in list(self.columns.items()) if memory in moved]
        fresh = {name: self._column(name) for name in moved}
        self._add(Pass([(fresh[name], node) for name, node in moved.items()], []))
        self.stale.update(old)
        return state.replace(**fresh)

    def _columns(self, state: State) -> dict[str, Node]:
        return {name: self.lift(state[name])
                for name in (*self.layout.columns, *self.layout.brief_columns)}

    def when(self, truth: Node, state: State, change: Callable[[State], State]) -> State:
        if truth.op in ("true", "false"):
            return change(state) if truth.op == "true" else state
        state = self.settle(state)
        outer, self.body, around = self.body, [], self.condition
        # within another body it is those of both that change
        self.condition = wanted = truth if around is None else around & truth
        after = self.settle(change(state))
        cells = [name for name in state if after[name] is not state[name]
                 and name not in self._columns(state)]
        merged = [(self.fresh_cell(), self._chosen(after[name], state[name]),
                   self.lift(state[name])) for name in cells]
        body, self.body, self.condition = self.body, outer, around
        self._add(When(wanted, body, merged))
        return after.replace(**{name: value for name, (value, _, _) in zip(
            cells, merged, strict=True)})

    def repeat(self, most: int, names: Sequence[str], wanted: Callable[[State], Any], state: State,
               change: Callable[[State], State]) -> State:
        state = self.settle(state)
        heads = {name: self.fresh_cell() for name in names}
        inside = state.replace(**heads)
        outer, self.body, around = self.body, [], self.condition
        truth = wanted(inside)
        self.condition = truth = truth if around is None else around & truth
        after = self.settle(change(inside))
        for name in state.keys() - self._columns(state).keys() - heads.keys():
            if after[name] is not state[name]:
                raise ValueError(f"repeat: {name!r} changes, expected it among the cells "
                                 f"{', '.join(names)}")
        merged = [(head, self._chosen(after[name], head), self.lift(state[name]))
                  for name, head in heads.items()]
        body, self.body, self.condition = self.body, outer, around
        lasting = {node.index: node for each in flat(body) for node in reachable(reads(each))
                   if node.index in self.columns}
        self._add(Repeat(most, truth, body, merged, tuple(lasting.values())))
        return after.replace(**heads)

    def _chosen(self, new: Any, old: Any) -> Node:
        """The new value where the condition holds, else the old one, by one choice if the new
        value is itself a choice between another and the old one."""
        new, old, condition = self.lift(new), self.lift(old), self.condition
        if condition is None:
            return new
        known = _parts(condition)
        while new.op == "where":
            truth, yes, no = new.args
            if _parts(truth) <= known:  # it holds wherever the condition does
                new = yes
            elif no is old:
                return self.where(truth if known <= _parts(truth) else condition & truth, yes, old)
            else:
                break
        return self.where(condition, new, old)

    def finish(self, state: State) -> Recording:
        """What has been recorded, with this state at the end."""
        before = {name: f"cell {name}" for name in (*self.layout.cells, *self.layout.brief_cells)}
        cells = {name: self.lift(state[name]) for name in before}
        self.settle(state)
        return Recording(self, self.body, {name: node for name, node in cells.items()
                                           if node.name != before[name]})


def _parts(truth: Node) -> set[int]:
    """The truths that must hold for one that is made of them by `&`."""
    if truth.op == "logical_and":
        return set[int]().union(*map(_parts, truth.args))
    return {truth.index}


def reads(statement: Statement) -> list[Node]:
    """All expressions that a statement computes, without those of a body."""
    match statement:
        case Pass(stores, reductions):
            return [*(value for _, value in stores), *(value for _, _, value in reductions)]
        case Call(_, time, columns, cells, _):
            return [time, *(x for x in columns if isinstance(x, Node)), *cells]
        case When(truth, _, merged) | Repeat(_, truth, _, merged):
            return [truth, *(x for _, inside, outside in merged for x in (inside, outside))]


class RecordedInputs:
    """What a recorded text is given: nodes for numbers, calls for programs."""

    def __init__(self, recorder: Recorder, programs: Mapping[str, Gives], discrete: int) -> None:
        self._recorder, self._programs = recorder, programs
        self.discrete = discrete
        """How many elements only jump: structure, not a value."""

    def __getattr__(self, name: str) -> Any:
        recorder, programs = self._recorder, self._programs
        if name == "index":
            return recorder.input("index")
        if name == "restore" and name not in programs:  # states stay where they belong
            return lambda time, column: column
        if name == "coordinate_rates" and name not in programs:  # nobody says which these are
            name = "rates"
        if name not in programs:
            return recorder.input(GIVEN + name)
        return lambda time, column, cells=(), *more: recorder.call(
            name, time, column, cells, *more, gives=programs[name])


@dataclass(frozen=True)
class RecordedIteration:
    """All that a back end needs of an iteration."""

    layout: Layout
    step: Recording
    output: Recording | None = None
    """None where nothing is ever due."""
    row: str = ""
    """The memory of the column that is an output."""
    telling: Recording | None = None
    """What is told of a state when its process leaves."""
    told: tuple[Node, ...] = ()
    """The cells that it gives."""

    @property
    def recordings(self) -> tuple[Recording, ...]:
        return tuple(x for x in (self.step, self.output, self.telling) if x is not None)

    def parts(self) -> tuple[Any, ...]:
        """All that determines the compiled code."""
        layout = self.layout
        return (layout.columns, dict(layout.cells), layout.brief_columns, layout.brief_cells,
                layout.marks, self.row, self.told, *((part.body, dict(part.cells))
                                          for part in self.recordings))

    def calls(self) -> frozenset[str]:
        """The names of the programs that are called."""
        return frozenset(each.name for part in self.recordings for each in flat(part.body)
                         if isinstance(each, Call))

    def given(self) -> tuple[str, ...]:
        """The numbers that the text reads, by name."""
        names = set[str]()
        for part in self.recordings:
            read = [x for statement in flat(part.body) for x in reads(statement)]
            names |= {str(x.name) for x in reachable([*read, *part.cells.values()])
                      if x.op == "input"}
        return tuple(sorted(x.removeprefix(GIVEN) for x in names if x.startswith(GIVEN)))


def record(iteration: Iteration, programs: Mapping[str, Gives], discrete: int = 0,
           ) -> RecordedIteration:
    """An iteration that may call `programs`, on states of which so many elements only jump. What
    "observe" gives, if it is among them, is told when a process leaves."""
    recorder = Recorder(iteration.layout, "step")
    given = RecordedInputs(recorder, programs, discrete)
    step = recorder.finish(iteration.step(recorder.start(), given))
    if not isinstance(iteration, WithOutputs):
        return RecordedIteration(iteration.layout, step)
    recorder = Recorder(iteration.layout, "output")
    state = recorder.start()
    column = recorder.keep(iteration.output(state, RecordedInputs(
        recorder, programs, discrete)))
    output, row = recorder.finish(state), recorder.columns[column.index]
    if "observe" not in programs:
        return RecordedIteration(iteration.layout, step, output, row)
    recorder = Recorder(iteration.layout, "telling")
    state = recorder.start()
    told = RecordedInputs(recorder, programs, discrete).observe(state.t, state.y)
    return RecordedIteration(iteration.layout, step, output, row, recorder.finish(state),
                             tuple(told))


def share_columns(recording: Recording, placed_already: Collection[str]) -> dict[str, int]:
    """A number for each column that has no place yet; those never needed at the same time may
    share one."""
    names, body = recording.graph.columns, flat(recording.body)
    ends: dict[str, int] = {}
    for k, statement in enumerate(body):
        needed = [*reads(statement), *_written(statement)]
        if isinstance(statement, Repeat):
            needed += statement.lasting
        for node in reachable(needed):
            name = names.get(node.index)
            if name is not None and name not in placed_already:
                ends[name] = k
    placed: dict[str, int] = {}
    busy: dict[int, str] = {}
    for k, statement in enumerate(body):
        for node in _written(statement):
            name = names.get(node.index)
            if name in ends and name not in placed:
                # a pass reads an element before it writes it, a call does not
                free = (p for p in range(len(names)) if p not in busy
                        or ends[busy[p]] < k + isinstance(statement, Pass))
                placed[name] = place = next(free)
                busy[place] = name
    return placed


def flat(body: Sequence[Statement]) -> list[Statement]:
    """All statements in order, the bodies after the test that they are in."""
    found: list[Statement] = []
    for each in body:
        if isinstance(each, When):
            found += [When(each.truth, [], []), *flat(each.body), When(each.truth, [], each.merged)]
        elif isinstance(each, Repeat):
            found += [Repeat(0, each.truth, [], []), *flat(each.body),
                      Repeat(0, each.truth, [], each.merged, each.lasting)]
        else:
            found.append(each)
    return found


def _written(statement: Statement) -> list[Node]:
    match statement:
        case Pass(stores, _):
            return [column for column, _ in stores]
        case Call(_, _, _, _, results):
            return [x for x in results if isinstance(x, Node)]
        case When() | Repeat():
            return []
