"""The machine that runs an iteration: processes flow through the lanes of a vector.

    void nlink_processes(int64_t *words)

A lane takes the next process that is waiting, steps it until its status says that it has
ended, writes what is due on the way, stores what it must remember in the process's record, and
takes another. A call that has spent its budget of steps leaves all processes in their records,
to be taken up by the next. Lanes never look at each other, so the numbers of a process do not
depend on its neighbours, on threads, or on where a run was interrupted. The machine knows jobs,
records, budgets, outputs and logs; it knows no method, no event and no mechanics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nlink.backends.llvm.ir import COMMON, MODULE_TAIL, Function, Target, number, repeat
from nlink.backends.llvm.kernel import Compiled
from nlink.backends.llvm.process_kernel import ENTRY, POINTERS, WORDS
from nlink.backends.llvm.rates import Rates, RolledRates, emit_narrow_rates, emit_rates
from nlink.backends.llvm.record_moves import MOVES, TELLING, RecordMoves
from nlink.backends.llvm.sincos import with_reduction
from nlink.backends.llvm.statements import Memory, StatementWriter
from nlink.iterations.iteration import RECORD_HEAD, Shape
from nlink.iterations.recording import RecordedIteration
from nlink.programs.program import Port, Program

OWN = ("due", "stop", "active", "job", *MOVES, *RECORD_HEAD[1:])
"""Cells of the machine: times, whether a lane is taken, by which job, what moves its record, and
counts of the record, which come last."""
KNOWN = ("due", "stop", "begin", "final", "share", "continuous", "coordinates")
"""Numbers that texts read and the machine knows: of times and of shapes."""


def compile_iteration(iteration: RecordedIteration,
                      programs: Mapping[str, Program | RolledRates], shape: Shape, width: int, *,
                      evaluations: int, dense: bool = False, narrow: str | None = None) -> Compiled:
    """Machine code for the host that runs an iteration, `width` processes at a time.

    `programs` are called by their names with a time, a column, the inputs, and further columns
    and shared numbers; the first may be a rolled one. A step evaluates it about so many times.
    `dense` says that outputs lie within steps, else steps stop at each. All other numbers that
    the text reads are those of a call, the inputs of what is compiled. The program that `narrow`
    names is computed in float32, all else in float64.
    """
    from nlink.backends.llvm.host import compile_object, host

    target = Target(width, host().target.fma)
    blocks = {program.name: len(program.results) for program in programs.values()
              if isinstance(program, Program)}
    machine = Machine(iteration, shape, target, blocks, dense=dense)
    called, data = list[Rates](), b""
    for program in programs.values():
        emitted = emit_narrow_rates if program.name == narrow else emit_rates
        called.append(emitted(program, target, len(data)))
        data += called[-1].data
        data = data.ljust(-(-len(data) // 64) * 64, b"\0")
    # the machine knows programs by their names: systems of one size have it in common
    modules = ["\n".join(each.text for each in called),
               *(text for each in called for text in each.modules), COMMON + machine.function()]
    text = with_reduction([f"{each}\n{MODULE_TAIL}" for each in modules], target)
    split = -(-machine.scratch // 64) * 64
    given = tuple(Port(name, ()) for name in machine.given)
    outputs = () if iteration.output is None else (Port("out", (shape.size,)),)
    return Compiled("iteration", given, outputs, width, called[0].operations * evaluations,
                    split + max(each.room for each in called), data, compile_object(text), split)


class Machine:
    """Writes the function that runs an iteration."""

    def __init__(self, iteration: RecordedIteration, shape: Shape, target: Target,
                 blocks: Mapping[str, int], *, dense: bool = False) -> None:
        self.layout, self.shape, self.target, self.dense = iteration.layout, shape, target, dense
        self.iteration = iteration
        self.given = tuple(name for name in iteration.given() if name not in KNOWN)
        """The numbers that a call gives."""
        self.memory = Memory(iteration.layout, shape.size, shape.inputs, OWN,
                             iteration.recordings, target, blocks)
        self.cell = self.memory.cells
        self.counter = self.memory.at
        self.record = 8 * (len(RECORD_HEAD) + self.memory.kept + shape.own)
        self.spent, nobody = self.counter + 8, self.counter + 16
        # the record of nobody, for lanes that move none
        self.scratch = nobody + max(self.record, 8 * len(iteration.told))
        self.f = Function()
        self.writer = StatementWriter(self.f, target, self.memory, {}, "")
        self.block = self.writer.block
        self.moves = RecordMoves(self.f, self.block, self.memory, self.layout, shape, nobody)

    def function(self) -> str:
        f, block = self.f, self.block
        # the words of the argument
        for k, name in enumerate(WORDS):
            kind = "ptr" if name in POINTERS else "i64"
            f.do(f"%{name} = load {kind}, ptr {f.offset('%words', 8 * k)}, align 8")
        # numbers that the text is given: those of the call, of the shape, of the times
        given = {name: block.broadcast(f.load("double", "%given", 8 * k))
                 for k, name in enumerate(self.given)}
        given |= {"share": block.const(1.0 / self.shape.continuous),
                  "continuous": block.const(float(self.shape.continuous)),
                  "coordinates": block.const(float(self.shape.coordinates))}
        if self.iteration.output is not None:
            last = self.time_at(f.let("sub i64 %outputs, 1"))
            f.do(f"%final = load double, ptr {last}, align 8")
            f.do("%begin = load double, ptr %times, align 8")
            given |= {name: block.broadcast(f"%{name}") for name in ("begin", "final")}
        # no lane has a process, and idle lanes compute with zeros
        repeat(f, self.counter // self.memory.row, [], lambda k, _: f.store(
            block.real, block.const(0.0), f.offset("%scratch", self.row_of(k))) or [])
        for word in (self.counter, self.spent):
            f.store("i64", "0", "%scratch", word)
        f.go("main")

        # lanes without a process take one; when there is none left, all is done
        f.begin("main")
        self.fill()
        active = self.active()
        f.branch(block.any(active), "affordable", "end")
        # a step costs one of the budget
        f.begin("affordable")
        spent = f.load("i64", "%scratch", self.spent)
        f.store("i64", f.let(f"add i64 {spent}, 1"), "%scratch", self.spent)
        f.branch(f.let(f"icmp slt i64 {spent}, %budget"), "attempt", "suspend")
        # the budget is spent: all processes go back to their records, still running
        f.begin("suspend")
        self.moves.none()
        self.each_lane(lambda place: self.if_active(place, lambda: self.retire(place, "0")))
        self.moves.stored()
        f.go("end")

        # one step of all lanes, and what it leaves to the machine
        f.begin("attempt")
        self.writer.given = given | self.aims()
        self.writer.active = active
        self.writer.write(self.iteration.step)
        self.finish_step(given)
        f.go("main")
        f.begin("end")
        f.do("ret void")
        return f.define(f"void @{ENTRY}(ptr noalias %words) "
                        f"alignstack({max(16, self.memory.row)})")

    def finish_step(self, given: Mapping[str, str]) -> None:
        """What a step leaves to the machine: outputs that are due, log entries, ends."""
        f, block = self.f, self.block
        # lanes that have to be looked at one by one: ended, or with marks for the log, or outputs
        ended = block.compare("one", self.load("status"), block.const(0.0))
        if self.layout.marks:
            marked = block.compare("ogt", self.load("marked"), block.const(0.0))
            ended = block.logic("or", ended, marked)
        ended, output = block.logic("and", ended, self.active()), self.iteration.output
        # outputs are written first: a process may end at one
        wanted = ended if output is None else block.logic("or", self.due(), ended)
        outputs, write, ends, seen = (f.fresh(s) for s in ("outputs", "write", "ends", "seen"))
        f.branch(block.any(wanted), ends if output is None else outputs, seen)
        if output is not None:
            f.begin(outputs)
            f.branch(block.any(self.due()), write, ends)
            f.begin(write)
            self.writer.given = dict(given) | self.aims()
            self.writer.write(output)
            self.each_lane(self.write_row)
            f.go(outputs)
        f.begin(ends)
        self.moves.none()
        self.each_lane(lambda place: self.if_active(place, lambda: self.conclude(place)))
        self.moves.stored()
        if self.iteration.telling is not None:
            self.writer.given = dict(given) | self.aims()
            self.writer.write(self.iteration.telling)
            self.moves.tell([self.writer.value(x) for x in self.iteration.told])
        f.go(seen)
        f.begin(seen)

    def aims(self) -> dict[str, str]:
        """The time of the next output, and where a step must stop for it."""
        if self.iteration.output is None:
            return {}
        return {name: self.load(name) for name in ("due", "stop")}

    def load(self, cell: str, kind: str = "double") -> str:
        return self.f.load(self.block.of(kind), "%scratch", self.cell[cell])

    def active(self) -> str:
        zero = self.block.int(0)
        return self.f.let(f"icmp ne {self.block.integer} {self.load('active', 'i64')}, {zero}")

    def due(self) -> str:
        """Lanes whose next output has been reached."""
        return self.block.logic("and", self.active(), self.block.compare(
            "ole", self.load("due"), self.load("t")))

    def each_lane(self, body: Callable[[str], None]) -> None:
        """Lanes one by one; body(pointer to the lane's place in the scratch memory)."""
        repeat(self.f, self.target.width, [], lambda k, _: body(
            self.f.offset("%scratch", self.f.let(f"shl i64 {k}, 3"))) or [])

    def if_active(self, place: str, body: Callable[[], None]) -> None:
        self.if_true(f"icmp ne i64 {self.get(place, 'active')}, 0", body)

    def if_true(self, condition: str, body: Callable[[], None]) -> None:
        f, yes, no = self.f, self.f.fresh("yes"), self.f.fresh("no")
        f.branch(f.let(condition), yes, no)
        f.begin(yes)
        body()
        f.go(no)
        f.begin(no)

    def get(self, place: str, cell: str, kind: str = "i64") -> str:
        return self.f.load(kind, place, self.cell[cell])

    def put(self, place: str, cell: str, value: str, kind: str = "i64") -> None:
        self.f.store(kind, value, place, self.cell[cell])

    def row_of(self, k: str) -> str:
        return self.f.let(f"mul i64 {k}, {self.memory.row}")

    def time_at(self, k: str) -> str:
        return self.f.let(f"getelementptr double, ptr %times, i64 {k}")

    def copy(self, count: int, lane: str, row: str, *, to_lane: bool) -> None:
        """So many numbers between vectors, one lane of them, and a row of memory."""
        f = self.f

        def one(k: str, _: list[str]) -> list[str]:
            vector, single = f.offset(lane, self.row_of(k)), f.offset(row, f.let(f"shl i64 {k}, 3"))
            source, target = (single, vector) if to_lane else (vector, single)
            f.store("double", f.load("double", source), target)
            return []

        repeat(f, count, [], one)

    def fill(self) -> None:
        """Idle lanes take the processes that wait, in order."""
        f, block = self.f, self.block
        idle = block.logic("xor", self.active(), block.splat("i1", "true"))
        waiting = f.let(f"icmp slt i64 {f.load('i64', '%scratch', self.counter)}, %count")
        self.if_true(f"and i1 {block.any(idle)}, {waiting}", self.load_records)

    def load_records(self) -> None:
        """Idle lanes take processes."""
        self.moves.none()
        self.each_lane(self.take)
        self.moves.taken()
        if self.iteration.output is not None:
            self.each_lane(lambda place: self.if_true(
                f"icmp ne i64 {self.get(place, 'moving')}, 0", lambda: self.aim(place)))

    def take(self, place: str) -> None:
        """One lane, if it is idle, finds the next process that is running."""
        f = self.f
        seek, look, found, done = (f.fresh(s) for s in ("seek", "look", "found", "taken"))
        # the next record whose status is running
        f.branch(f.let(f"icmp eq i64 {self.get(place, 'active')}, 0"), seek, done)
        f.begin(seek)
        index = f.load("i64", "%scratch", self.counter)
        f.branch(f.let(f"icmp slt i64 {index}, %count"), look, done)
        f.begin(look)
        f.store("i64", f.let(f"add i64 {index}, 1"), "%scratch", self.counter)
        record = f.offset("%records", f.let(f"mul i64 {index}, {self.record}"))
        status = f.load("i64", record)
        running, resumed = (f.let(f"icmp eq i64 {status}, {x}") for x in ("0", "%resumed"))
        f.branch(f.let(f"or i1 {running}, {resumed}"), found, seek)
        f.begin(found)
        for cell, value in (("job", index), ("active", "1"), ("moving", "1"),
                            ("row", f.let(f"ptrtoint ptr {record} to i64"))):
            self.put(place, cell, value)
        f.go(done)
        f.begin(done)

    def aim(self, place: str) -> None:
        """The lane's next output time, where its steps must stop, and the held values."""
        f, after = self.f, self.get(place, "next")
        due = f.load("double", self.time_at(after))
        self.put(place, "due", due, "double")
        self.put(place, "stop", "%final" if self.dense else due, "double")
        if self.shape.held:
            before, inputs = f.let(f"sub i64 {after}, 1"), f.offset(place, self.memory.inputs)
            f.store("double", f.load("double", self.time_at(before)), inputs)
            f.store("double", due, inputs, self.memory.row)
            table = f.offset("%held", f.let(f"mul i64 {self.get(place, 'job')}, %held_stride"))
            table = f.offset(table, f.let(f"mul i64 {before}, %held_row"))
            self.copy(self.shape.held, f.offset(inputs, 2 * self.memory.row), table, to_lane=True)

    def write_row(self, place: str) -> None:
        """One lane whose output is due writes it, and aims at the next."""
        f = self.f
        due = f.let(f"fcmp ole double {self.get(place, 'due', 'double')}, "
                    f"{self.get(place, 't', 'double')}")
        active = f.let(f"icmp ne i64 {self.get(place, 'active')}, 0")

        def write() -> None:
            # the row of this job and this output
            index = self.get(place, "next")
            rows = f.let(f"mul i64 {self.get(place, 'job')}, %outputs")
            row = f.let(f"mul i64 {f.let(f'add i64 {rows}, {index}')}, {8 * self.shape.size}")
            column = f.offset(place, self.memory.columns[self.iteration.row])
            self.copy(self.shape.size, column, f.offset("%out", row), to_lane=False)
            following = f.let(f"add i64 {index}, 1")
            self.put(place, "next", following)
            # beyond the last output nothing is due
            self.put(place, "due", number(float("inf")), "double")
            self.if_true(f"icmp slt i64 {following}, %outputs", lambda: self.aim(place))

        self.if_true(f"and i1 {due}, {active}", write)

    def conclude(self, place: str) -> None:
        """One lane after its outputs: log entries, and the end if it has come."""
        f, crowded = self.f, "false"
        if self.layout.marks:
            marked = f"fcmp ogt double {self.get(place, 'marked', 'double')}, {number(0.0)}"
            self.if_true(marked, lambda: self.write_log(place))
            room = f.let(f"add i64 {self.get(place, 'fill')}, {len(self.layout.marks)}")
            # it waits for the next call if the next step might not find room
            crowded = f.let(f"icmp sgt i64 {room}, %log_rows")
        # status 0 goes on, unless all outputs are written
        code = f.let(f"fptosi double {self.get(place, 'status', 'double')} to i64")
        if self.iteration.output is not None:  # all outputs are written
            running = f.let(f"icmp eq i64 {code}, 0")
            over = f.let(f"icmp eq i64 {self.get(place, 'next')}, %outputs")
            done = f.let(f"and i1 {running}, {over}")
            code = f.let(f"select i1 {done}, i64 1, i64 {code}")
        ended = f.let(f"icmp ne i64 {code}, 0")
        self.if_true(f"or i1 {ended}, {crowded}", lambda: self.retire(place, code))

    def write_log(self, place: str) -> None:
        """The marks of one lane, as rows of time, number and column."""
        f, width = self.f, 8 * (2 + self.shape.size)
        first = f.let(f"mul i64 {self.get(place, 'job')}, %log_rows")
        rows = f.let(f"mul i64 {first}, {width}")

        def write(mark: str) -> None:
            fill = self.get(place, "fill")
            row = f.offset(f.offset("%log", rows), f.let(f"mul i64 {fill}, {width}"))
            f.store("double", self.get(place, "mark_time", "double"), row)
            f.store("double", f.let(f"sitofp i64 {mark} to double"), row, 8)
            column = f.offset(place, self.memory.columns["mark"])
            self.copy(self.shape.size, column, f.offset(row, 16), to_lane=False)
            for name in ("fill", "events"):
                self.put(place, name, f.let(f"add i64 {self.get(place, name)}, 1"))

        def look(k: str, _: list[str]) -> list[str]:
            at = f.offset(place, self.row_of(k))
            mark = f.load("double", at, self.cell[self.layout.marks[0]])
            self.if_true(f"fcmp ogt double {mark}, {number(0.0)}", lambda: write(k))
            return []

        repeat(f, len(self.layout.marks), [], look)  # marks are cells side by side
        self.put(place, "marked", number(0.0), "double")

    def retire(self, place: str, status: str) -> None:
        """Store the head of the lane's record, mark the rest to be stored, and free the lane."""
        f = self.f
        record = f.offset("%records", f.let(f"mul i64 {self.get(place, 'job')}, {self.record}"))
        f.store("i64", status, record)
        ended = 8 * WORDS.index("ended")
        self.if_true(f"icmp ne i64 {status}, %resumed", lambda: f.store(
            "i64", f.let(f"add i64 {f.load('i64', '%words', ended)}, 1"), "%words", ended))
        for k, name in enumerate(self.moves.counts, 1):
            f.store("i64", self.get(place, name), record, 8 * k)
        self.put(place, "row", f.let(f"ptrtoint ptr {record} to i64"))
        if self.iteration.told:
            for cell, width in (("seen", 4 * (len(self.iteration.told) - TELLING)),
                                ("told", 8 * TELLING)):
                at = f.offset(f"%{cell}", f.let(f"mul i64 {self.get(place, 'job')}, {width}"))
                self.put(place, cell, f.let(f"ptrtoint ptr {at} to i64"))
        self.put(place, "active", "0")
