"""Scans as machine code: many of them side by side, one in each lane of a vector.

    void nlink_scan(int64_t *words)

The words are the number of scans and of rows, the addresses of data and scratch memory, and for
each array its address, the strides in bytes from scan to scan and from row to row, and the address
of a list with the number of each scan's place in it. Between the programs of a row, and from row
to row, all values stay in columns: nothing is shuffled there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nlink.backends.llvm.emit import StraightCode, emit_straight_in_columns
from nlink.backends.llvm.ir import MODULE_TAIL, Function, Lanes, Target, repeat
from nlink.backends.llvm.kernel import Compiled
from nlink.backends.llvm.memory import Columns, LaneRows, copy_vectors
from nlink.backends.llvm.rolled import emit_in_columns
from nlink.backends.llvm.scan_kernel import ENTRY, HEAD, WORDS_OF_ARRAY
from nlink.backends.llvm.sincos import with_reduction
from nlink.backends.llvm.step_calls import emit_steps_in_columns
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.scans import AnyProgram, Scan
from nlink.programs.stepped import SteppedProgram

CHUNK = 16
"""Elements of a row that are copied between loop conditions."""


def compile_scan(scan: Scan, width: int) -> Compiled:
    """Machine code for the host that runs scans, so many at a time."""
    from nlink.backends.llvm.host import compile_object, host

    target = Target(width, host().target.fma)
    writer = _ScanWriter(scan, target)
    codes, data, starts = list[StraightCode](), b"", list[int]()
    for k, program in enumerate(scan.programs):
        starts.append(len(data))
        codes.append(_in_columns(program, target, f"program{k}"))
        data += codes[-1].data.ljust(-(-len(codes[-1].data) // 64) * 64, b"\0")
    modules = ["\n".join([*(each.text for each in codes), writer.function(starts)]),
               *(text for each in codes for text in each.apart)]
    ports = scan.ports
    return Compiled(
        scan.name, tuple(ports[name] for name in scan.arrays), (), width, 0,
        writer.room + max(each.scratch for each in codes), data,
        compile_object(with_reduction([f"{each}\n{MODULE_TAIL}" for each in modules], target)))


def _in_columns(program: AnyProgram, target: Target, name: str) -> StraightCode:
    """A program as a function of columns, data and scratch memory."""
    if isinstance(program, SteppedProgram):
        return emit_steps_in_columns(program, target, name)
    if isinstance(program, RolledProgram):
        code = emit_in_columns(program, target, name)
        return StraightCode(code.text, (), code.scratch, None, code.data)
    return emit_straight_in_columns(program, target, name)


class _ScanWriter:
    """Writes the function."""

    def __init__(self, scan: Scan, target: Target) -> None:
        self.scan, self.target = scan, target
        self.f = Function()
        self.lanes = replace(Lanes.on(target), function=self.f)
        self.sizes = {name: port.size for name, port in scan.ports.items()}
        at, self.places = 0, dict[str, int]()
        for name, size in self.sizes.items():
            self.places[name] = at
            at += max(1, size) * target.vector
        self.room = -(-at // 64) * 64

    def function(self, starts: Sequence[int]) -> str:
        f, scan, width = self.f, self.scan, self.target.width
        for k, name in enumerate(HEAD):
            kind = "ptr" if name in ("data", "scratch") else "i64"
            f.do(f"%{name} = load {kind}, ptr {f.offset('%words', 8 * k)}, align 8")
        groups = f.let(f"udiv i64 {f.let(f'add i64 %count, {width - 1}')}, {width}")
        last = f.let("sub i64 %count, 1")
        rooms = f.offset("%scratch", self.room)

        def group(g: str, _: list[str]) -> list[str]:
            # the last lanes do the last scan once more
            numbers = [f.let(f"call i64 @llvm.smin.i64(i64 {f.let(f'add i64 {first}, {lane}')}, "
                             f"i64 {last})") for first in [f.let(f"mul i64 {g}, {width}")]
                       for lane in range(width)]
            rows = {name: self._rows(k, numbers) for k, name in enumerate(scan.arrays)}
            for name in (*scan.carried, *scan.once):
                self._copy(rows[name], name, to_lanes=True)

            def row(k: str, _: list[str]) -> list[str]:
                here = {name: self._moved(number, rows[name], k)
                        for number, name in enumerate(scan.arrays)
                        if name in (*scan.read, *scan.written)}
                for name in scan.read:
                    self._copy(here[name], name, to_lanes=True)
                for number, program in enumerate(scan.programs):
                    ports = ", ".join(f"ptr {f.offset('%scratch', self.places[port.name])}"
                                      for port in (*program.inputs, *program.outputs))
                    f.do(f"call void @program{number}({ports}, "
                         f"ptr {f.offset('%data', starts[number])}, ptr {rooms})")
                for name in scan.written:
                    self._copy(here[name], name, to_lanes=False)
                for name, left in scan.carried.items():
                    copy_vectors(self.lanes, self.sizes[name],
                                 f.offset("%scratch", self.places[left]),
                                 f.offset("%scratch", self.places[name]))
                return []

            repeat(f, "%rows", [], row)
            for name in scan.carried:
                self._copy(rows[name], name, to_lanes=False)
            return []

        repeat(f, groups, [], group)
        f.do("ret void")
        return f.define(f"void @{ENTRY}(ptr noalias %words) "
                        f"alignstack({max(16, self.target.vector)})")

    def _word(self, array: int, k: int, kind: str = "i64") -> str:
        return self.f.load(kind, "%words", 8 * (len(HEAD) + WORDS_OF_ARRAY * array + k))

    def _rows(self, array: int, numbers: Sequence[str]) -> list[str]:
        """The address of each lane's first row of an array."""
        f = self.f
        base, stride, places = (self._word(array, k, kind) for k, kind in (
            (0, "ptr"), (1, "i64"), (3, "ptr")))
        return [f.offset(base, f.let(f"mul i64 {stride}, {place}")) for place in (
            f.load("i64", f.let(f"getelementptr i64, ptr {places}, i64 {number}"))
            for number in numbers)]

    def _moved(self, array: int, rows: Sequence[str], k: str) -> list[str]:
        """The addresses of row k."""
        f = self.f
        further = f.let(f"mul i64 {self._word(array, 2)}, {k}")
        return [f.offset(row, further) for row in rows]

    def _copy(self, rows: Sequence[str], name: str, *, to_lanes: bool) -> None:
        """Copy a row of each lane to its column, or back."""
        f, size, pitch = self.f, self.sizes[name], self.target.vector
        column = f.offset("%scratch", self.places[name])

        def part(rows: Sequence[str], column: str, count: int) -> None:
            lane_rows = LaneRows(self.lanes, rows[0], "0", list(rows))
            vectors = Columns(self.lanes, column, pitch=pitch)
            together = lane_rows.together
            for k in range(0, count, together):
                some = min(together, count - k)
                if to_lanes:
                    vectors.store_some(k, lane_rows.load_some(k, some))
                else:
                    lane_rows.store_some(k, vectors.load_some(k, some))

        def chunk(k: str, _: list[str]) -> list[str]:
            further = f.let(f"mul i64 {k}, {8 * CHUNK}")
            part([f.offset(row, further) for row in rows],
                 f.offset(column, f.let(f"mul i64 {k}, {pitch * CHUNK}")), CHUNK)
            return []

        whole = size // CHUNK if size > 2 * CHUNK else 0
        if whole:
            repeat(f, whole, [], chunk)
        done = whole * CHUNK
        part([f.offset(row, 8 * done) for row in rows], f.offset(column, pitch * done),
             size - done)
