"""Row-major arrays in vector lanes: loads and stores that never transpose for the user.

Lane l of a vector is state l, so element k of eight states lies in eight rows. Elements
are moved sixteen bytes of a row at a time: two doubles, inserted into two vectors of even and
odd rows and interleaved, or four floats, as the transpose of a matrix of 4 x 4. That is one
shuffle an element, or two, where one by one would take seven or more, and shuffles have but
one port.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nlink.backends.llvm.ir import Lanes, repeat


@dataclass(slots=True)
class LaneRows:
    """One row of a port for each lane: a pointer and a byte stride between rows."""

    lanes: Lanes
    base: str
    stride: str = "0"
    _rows: list[str] = field(default_factory=list)

    def row(self, lane: int) -> str:
        """The address of a lane's row, from multiples of the stride that addressing knows."""
        if not self._rows:
            f = self.lanes.function
            steps = [0, self.stride, f.let(f"shl i64 {self.stride}, 1"),
                     f.let(f"mul i64 {self.stride}, 3")]
            base = self.base
            for quad in range(0, self.lanes.width, 4):
                if quad:
                    base = f.offset(base, f.let(f"shl i64 {self.stride}, 2"))
                self._rows.extend(f.offset(base, s) for s in steps)
        return self._rows[lane]

    def moved(self, offset: str) -> LaneRows:
        """The rows that begin some bytes further."""
        return LaneRows(self.lanes, self.lanes.function.offset(self.base, offset), self.stride)

    @property
    def together(self) -> int:
        """Elements that are moved together: sixteen bytes of a row."""
        return 16 // self.lanes.size

    def load(self, k: int) -> str:
        """Element k of every row, one by one."""
        f, lanes, real = self.lanes.function, self.lanes, self.lanes.precision.real
        if lanes.width == 1:
            return f.load(real, self.base, lanes.size * k)
        value = "poison"
        for lane in range(lanes.width):
            x = f.load(real, self.row(lane), lanes.size * k)
            value = f.let(f"insertelement {lanes.real} {value}, {real} {x}, i32 {lane}")
        return value

    def load_some(self, k: int, count: int) -> list[str]:
        """`count` elements of every row from number k on: one, two, or those of sixteen bytes."""
        f, lanes = self.lanes.function, self.lanes
        if lanes.width == 1 or count == 1:
            return [self.load(k + j) for j in range(count)]
        kind = f"<{count} x {lanes.precision.real}>"
        return self._transposed([self._joined([
            f.load(kind, self.row(lane), lanes.size * k)
            for lane in range(first, lanes.width, count)], count) for first in range(count)])

    def store(self, k: int, value: str) -> None:
        """Element k of every row, one by one."""
        f, lanes, real = self.lanes.function, self.lanes, self.lanes.precision.real
        if lanes.width == 1:
            f.store(real, value, self.base, lanes.size * k)
            return
        for lane in range(lanes.width):
            x = f.let(f"extractelement {lanes.real} {value}, i32 {lane}")
            f.store(real, x, self.row(lane), lanes.size * k)

    def store_some(self, k: int, values: Sequence[str]) -> None:
        """Elements of every row from number k on: one, two, or those of sixteen bytes."""
        f, lanes, count = self.lanes.function, self.lanes, len(values)
        if lanes.width == 1 or count == 1:
            for j, value in enumerate(values):
                self.store(k + j, value)
            return
        rows = self._transposed(values)
        for first in range(count):
            for lane in range(first, lanes.width, count):
                own = self._shuffled(rows[first], "poison", lanes.width,
                                     list(range(lane - first, lane - first + count)))
                f.store(f"<{count} x {lanes.precision.real}>", own, self.row(lane),
                        lanes.size * k)

    def store_wide(self, offset: str, values: Sequence[str], *, stream: bool = False) -> None:
        """Elements of 32 bytes of every row, the first of them some bytes after its beginning;
        streams go past the caches, to addresses that are multiples of 32."""
        f, lanes, half = self.lanes.function, self.lanes, self.together
        if lanes.width == 1:
            for k, value in enumerate(values):
                f.store(lanes.real, value, f.offset(self.base, offset), lanes.size * k)
            return
        kind = f"<{2 * half} x {lanes.precision.real}>"
        rows, others = self._transposed(values[:half]), self._transposed(values[half:])
        for first in range(half):
            for lane in range(first, lanes.width, half):
                order = list(range(lane - first, lane - first + half))
                own = self._shuffled(rows[first], others[first], lanes.width,
                                     [*order, *(lanes.width + k for k in order)])
                if stream:
                    to = f.offset(self.row(lane), offset)
                    f.do(f"store {kind} {own}, ptr {to}, align 32, !nontemporal !1")
                else:
                    f.store(kind, own, self.row(lane), offset)

    def load_four(self, k: int) -> list[str]:
        """Four doubles of every row from number k on: lanes four apart in one vector, which is
        transposed in each four lanes."""
        f, lanes, width = self.lanes.function, self.lanes, self.lanes.width
        rows = [self._joined([f.load("<4 x double>", self.row(lane), lanes.size * k)
                              for lane in range(first, width, 4)], 4) for first in range(4)]
        return self._of_four(rows)

    def store_four(self, k: int, values: Sequence[str]) -> None:
        """Four doubles of every row from number k on."""
        f, lanes, width = self.lanes.function, self.lanes, self.lanes.width
        for first, row in enumerate(self._of_four(values)):
            for lane in range(first, width, 4):
                own = row if width == 4 else self._shuffled(
                    row, "poison", width, list(range(lane - first, lane - first + 4)))
                f.store("<4 x double>", own, self.row(lane), lanes.size * k)

    def _of_four(self, parts: Sequence[str]) -> list[str]:
        """Four vectors of doubles as a square matrix in each four lanes, transposed."""
        pairs = [self._by_block(a, b, order, 4) for a, b in (parts[:2], parts[2:])
                 for order in ([0, 4, 2, 6], [1, 5, 3, 7])]
        return [self._by_block(pairs[j % 2], pairs[2 + j % 2],
                               [0, 1, 4, 5] if j < 2 else [2, 3, 6, 7], 4) for j in range(4)]

    def _transposed(self, parts: Sequence[str]) -> list[str]:
        """Two or four vectors as a square matrix in each two or four lanes, transposed.

        Lanes k and k + 1 of result j are element j of vectors k and k + 1, and so on.
        """
        if len(parts) == 2:
            return [self._by_block(parts[0], parts[1], [j, 2 + j], 2) for j in range(2)]
        first, second = ([self._by_block(a, b, order, 4) for order in ([0, 4, 1, 5], [2, 6, 3, 7])]
                         for a, b in (parts[:2], parts[2:]))
        return [self._by_block(a, b, order, 4) for a, b in zip(first, second, strict=True)
                for order in ([0, 1, 4, 5], [2, 3, 6, 7])]

    def _by_block(self, a: str, b: str, order: Sequence[int], size: int) -> str:
        """A shuffle within each block of so many lanes, in which b's are behind those of a."""
        width = self.lanes.width
        return self._shuffled(a, b, width, [
            begin + (k if k < size else width + k - size)
            for begin in range(0, width, size) for k in order])

    def _joined(self, parts: list[str], width: int) -> str:
        while len(parts) > 1:
            parts = [self._shuffled(a, b, width, list(range(2 * width)))
                     for a, b in zip(parts[::2], parts[1::2], strict=True)]
            width *= 2
        return parts[0]

    def _shuffled(self, a: str, b: str, width: int, order: list[int]) -> str:
        kind = f"<{width} x {self.lanes.precision.real}>"
        indices = ", ".join(f"i32 {i}" for i in order)
        return self.lanes.function.let(
            f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{indices}>")


@dataclass(slots=True)
class Columns(LaneRows):
    """Rows whose element k lies `pitch` bytes after the one before, the lanes side by side."""

    pitch: int = 8

    def load(self, k: int) -> str:
        return self.lanes.function.load(self.lanes.real, self.base, self.pitch * k)

    def load_some(self, k: int, count: int) -> list[str]:
        return [self.load(k + j) for j in range(count)]

    def load_by(self, table: str, k: int) -> str:
        """The element whose number is the k-th of a table of 32-bit integers."""
        f = self.lanes.function
        number = f.let(f"zext i32 {f.load('i32', table, 4 * k)} to i64")
        return f.load(self.lanes.real, self.base, f.let(f"mul i64 {number}, {self.pitch}"))

    def store(self, k: int, value: str) -> None:
        self.lanes.function.store(self.lanes.real, value, self.base, self.pitch * k)

    def store_some(self, k: int, values: Sequence[str]) -> None:
        for j, value in enumerate(values):
            self.store(k + j, value)

    def moved(self, offset: str) -> LaneRows:
        f = self.lanes.function
        further = f.let(f"mul i64 {offset}, {self.pitch // self.lanes.size}")
        return Columns(self.lanes, f.offset(self.base, further), pitch=self.pitch)


@dataclass(slots=True)
class Reader:
    """Elements of a port, each loaded when first asked for, together with its neighbours."""

    rows: LaneRows
    size: int
    _values: dict[int, str] = field(default_factory=dict)

    def read(self, k: int) -> str:
        if k not in self._values:
            count = next(n for n in (self.rows.together, 2, 1) if n <= self.size)
            begin = min(k - k % count, self.size - count)
            for j, value in enumerate(self.rows.load_some(begin, count)):
                self._values.setdefault(begin + j, value)
        return self._values[k]


@dataclass(slots=True)
class RowWriter:
    """Elements of a port, stored with their neighbours as soon as all of them are known."""

    rows: LaneRows
    _waiting: dict[int, str] = field(default_factory=dict)

    def write(self, k: int, value: str) -> None:
        self._waiting[k] = value
        self._store(k, self.rows.together)

    def _store(self, k: int, count: int) -> None:
        """Store an element with its neighbours if all are known."""
        some = range(k - k % count, k - k % count + count)
        if all(j in self._waiting for j in some):
            self.rows.store_some(some[0], [self._waiting.pop(j) for j in some])

    def flush(self) -> None:
        """Store the others: in pairs, then those that have no neighbour."""
        for count in (2, 1):
            for k in list(self._waiting):
                self._store(k, count)


def integer_table(name: str, numbers: Sequence[int]) -> str:
    """The definition of a constant table of 32-bit integers."""
    table = ", ".join(f"i32 {k}" for k in numbers)
    return f"@{name} = internal constant [{len(numbers)} x i32] [{table}]"


def copy_vectors(lanes: Lanes, size: int, source: str, to: str, table: str | None = None) -> None:
    """Code that copies so many vectors; those with the numbers in a table, if there is one."""
    f, pitch = lanes.function, lanes.pitch

    def copy(k: str, _: list[str]) -> list[str]:
        own = k if table is None else f.let(
            f"zext i32 {f.load('i32', table, f.let(f'shl i64 {k}, 2'))} to i64")
        value = f.load(lanes.real, source, f.let(f"mul i64 {own}, {pitch}"))
        f.store(lanes.real, value, to, f.let(f"mul i64 {k}, {pitch}"))
        return []

    repeat(f, size, [], copy)


def distribute(source: Columns, ports: Sequence[tuple[LaneRows, int]], places: Sequence[int],
               stream: str | None = None) -> None:
    """Copy elements of a column to all elements of some ports, given their rows and sizes.

    `places` says for each element which one of the column it is. Elements of 32 bytes are moved at
    a time: the first ones, then on from where they are aligned, so that no store straddles two
    cache lines; the last ones reach back over some that have been written. Where the truth `stream`
    holds and all rows are aligned alike, they go past the caches, which then need not read first
    what is overwritten.
    """
    f, lanes = source.lanes.function, source.lanes
    f.constants["places"] = integer_table("places", places)
    begin = 0
    for rows, size in ports:
        if size < 2 * rows.together:
            writer = RowWriter(rows)
            for k in range(size):
                writer.write(k, source.load(places[begin + k]))
            writer.flush()
        else:
            _distribute_port(source, rows, size, f.offset("@places", 4 * begin),
                             stream if lanes.width > 1 else None)
        begin += size


def _distribute_port(source: Columns, rows: LaneRows, size: int, places: str,
                     stream: str | None) -> None:
    """The elements of one port, at least those of 32 bytes; `places` points to the first of its
    numbers."""
    f, lanes, wide = source.lanes.function, source.lanes, 2 * rows.together
    shift, bits = lanes.size.bit_length() - 1, wide.bit_length() - 1
    if lanes.width > 1:
        rows.row(0)  # all addresses of rows are computed here, outside of any branch

    def move(k: str, *, stream: bool = False) -> list[str]:
        place = f.offset(places, f.let(f"shl i64 {k}, 2"))
        values = [source.load_by(place, j) for j in range(wide)]
        rows.store_wide(f.let(f"shl i64 {k}, {shift}"), values, stream=stream)
        return []

    # the first ones, then from the first aligned element behind number 0 on
    move("0")
    place = f.let(f"lshr i64 {f.let(f'ptrtoint ptr {rows.base} to i64')}, {shift}")
    skipped = f.let(f"sub i64 {wide}, {f.let(f'and i64 {place}, {wide - 1}')}")
    whole = f.let(f"ashr i64 {f.let(f'sub i64 {size}, {skipped}')}, {bits}")

    def aligned(*, stream: bool = False) -> None:
        repeat(f, whole, [], lambda k, _: move(
            f.let(f"add i64 {f.let(f'shl i64 {k}, {bits}')}, {skipped}"), stream=stream))

    if stream is None:
        aligned()
    else:
        alike = f.let(f"icmp eq i64 {f.let(f'and i64 {rows.stride}, 31')}, 0")
        past, through, end = (f.fresh(label) for label in ("past", "through", "end"))
        f.branch(f.let(f"and i1 {stream}, {alike}"), past, through)
        f.begin(past)
        aligned(stream=True)
        f.go(end)
        f.begin(through)
        aligned()
        f.go(end)
        f.begin(end)
    move(str(size - wide))
