"""Records of processes between memory and lanes, all lanes at once.

Which lanes move a record is decided lane by lane; each leaves in its cells where its record is.
Then elements are moved four at a time, transposed on the way. Lanes that move nothing have the
record of nobody, so that no element asks which lanes are meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nlink.backends.llvm.emit import Block
from nlink.backends.llvm.ir import Function, Lanes, repeat
from nlink.backends.llvm.memory import LaneRows, RowWriter
from nlink.backends.llvm.precision import FLOAT32
from nlink.backends.llvm.statements import Memory
from nlink.iterations.iteration import RECORD_HEAD, Layout, Shape

MOVES = ("row", "moving", "seen", "told")
"""Cells: where a lane's record is, whether it takes that, and where it tells of its state."""
TELLING = 2
"""Numbers that are told in double precision, the last ones."""


class RecordMoves:
    """Writes the code that moves records; `nobody` is where the record of nobody is."""

    def __init__(self, f: Function, block: Block, memory: Memory, layout: Layout, shape: Shape,
                 nobody: int) -> None:
        self.f, self.block, self.memory, self.layout = f, block, memory, layout
        self.shape, self.nobody, self.cell = shape, nobody, memory.cells
        self.counts = RECORD_HEAD[1:] if layout.marks else RECORD_HEAD[1:2]
        """What of the head of a record the lanes count: without marks there are no events."""

    def none(self) -> None:
        """No lane moves a record."""
        f, block = self.f, self.block
        nobody = f.let(f"ptrtoint ptr {f.offset('%scratch', self.nobody)} to i64")
        first = f.let(f"insertelement {block.integer} poison, i64 {nobody}, i32 0")
        every = f.let(f"shufflevector {block.integer} {first}, {block.integer} poison, "
                      f"<{block.width} x i32> zeroinitializer")
        for name in MOVES:
            f.store(block.integer, block.int(0) if name == "moving" else every, "%scratch",
                    self.cell[name])

    def taken(self) -> None:
        """Lanes that are moving take their records."""
        f, block, memory = self.f, self.block, self.memory
        mask = f.let(f"icmp ne {block.integer} "
                     f"{f.load(block.integer, '%scratch', self.cell['moving'])}, {block.int(0)}")
        rows = self._rows("row")

        def choose(element: str, here: str, at: int = 0) -> None:
            old = f.load(block.real, here, at)
            f.store(block.real, f.let(f"select {block.truth} {mask}, {block.real} {element}, "
                                      f"{block.real} {old}"), here, at)

        def take(count: int, begin: int, at: int) -> None:
            def some(k: str, width: int) -> None:
                here = f.offset("%scratch", f.let(f"add i64 {self._row_of(k)}, {at}"))
                found = self._moved(rows, k, begin)
                for j, x in enumerate(found.load_four(0) if width == 4 else [found.load(0)]):
                    choose(x, here, j * memory.row)

            self._in_blocks(count, some)

        take(len(self.counts), 8, self.cell[RECORD_HEAD[1]])
        take(memory.kept, 8 * len(RECORD_HEAD), 0)
        take(self.shape.own, 8 * (len(RECORD_HEAD) + memory.kept),
             memory.inputs + self.shape.timed * memory.row)
        for cell in self.layout.brief_cells:  # nothing of the process before it in this lane
            choose(block.const(0.0), "%scratch", self.cell[cell])

    def stored(self) -> None:
        """Lanes that leave store their cells and columns."""
        f, block, row, rows = self.f, self.block, self.memory.row, self._rows("row")

        def some(k: str, width: int) -> None:
            here = f.offset("%scratch", self._row_of(k))
            to = self._moved(rows, k, 8 * len(RECORD_HEAD))
            values = [f.load(block.real, here, j * row) for j in range(width)]
            if width == 4:
                to.store_four(0, values)
            else:
                to.store(0, *values)

        self._in_blocks(self.memory.kept, some)

    def tell(self, values: Sequence[str]) -> None:
        """Lanes that leave tell numbers of their states, all but the last ones as floats."""
        f, block = self.f, self.block
        single = Lanes(f, block.width, block.fma, precision=FLOAT32)
        rows = LaneRows(single, "", _rows=self._rows("seen"))
        writer = RowWriter(rows)
        # few lanes cannot be transposed four at a time
        write = rows.store if block.width % 4 else writer.write
        for k, value in enumerate(values[:-TELLING]):
            write(k, f.let(f"fptrunc {block.real} {value} to {single.real}"))
        writer.flush()
        LaneRows(block, "", _rows=self._rows("told")).store_some(0, values[-TELLING:])

    def _rows(self, cell: str) -> list[str]:
        return [self.f.load("ptr", "%scratch", self.cell[cell] + 8 * lane)
                for lane in range(self.block.width)]

    def _row_of(self, k: str) -> str:
        return self.f.let(f"mul i64 {k}, {self.memory.row}")

    def _moved(self, rows: Sequence[str], k: str, begin: int) -> LaneRows:
        """Rows from element k on, behind so many bytes."""
        f = self.f
        there = f.let(f"add i64 {f.let(f'shl i64 {k}, 3')}, {begin}")
        return LaneRows(self.block, "", _rows=[f.offset(row, there) for row in rows])

    def _in_blocks(self, count: int, body: Callable[[str, int], None]) -> None:
        """body(k, 4) for so many elements, four at a time, and the last four if some are left;
        body(k, 1) for each of fewer, or where there are fewer lanes."""
        f = self.f
        if count < 4 or self.block.width % 4:
            repeat(f, count, [], lambda k, _: body(k, 1) or [])
            return
        repeat(f, count // 4, [], lambda k, _: body(f.let(f"shl i64 {k}, 2"), 4) or [])
        if count % 4:
            body(str(count - 4), 4)
