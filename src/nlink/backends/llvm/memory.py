"""Row-major arrays in vector lanes: loads and stores that never transpose for the user.

Lane l of a vector is state l, so element k of eight states lies in eight rows. Elements
are moved two at a time: sixteen bytes of each row, inserted into two vectors of even and
odd rows and interleaved. That is one shuffle an element, where one by one would take
seven, and shuffles have but one port.
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

    def load(self, k: int) -> str:
        """Element k of every row, one by one."""
        f, lanes = self.lanes.function, self.lanes
        if lanes.width == 1:
            return f.load("double", self.base, 8 * k)
        value = "poison"
        for lane in range(lanes.width):
            x = f.load("double", self.row(lane), 8 * k)
            value = f.let(f"insertelement {lanes.real} {value}, double {x}, i32 {lane}")
        return value

    def load_pair(self, k: int) -> tuple[str, str]:
        """Elements k and k + 1 of every row."""
        f, lanes = self.lanes.function, self.lanes
        if lanes.width == 1:
            return self.load(k), self.load(k + 1)
        even, odd = (self._joined([f.load("<2 x double>", self.row(lane), 8 * k)
                                   for lane in range(parity, lanes.width, 2)])
                     for parity in (0, 1))
        return self._interleaved(even, odd, 0), self._interleaved(even, odd, 1)

    def store(self, k: int, value: str) -> None:
        """Element k of every row, one by one."""
        f, lanes = self.lanes.function, self.lanes
        if lanes.width == 1:
            f.store("double", value, self.base, 8 * k)
            return
        for lane in range(lanes.width):
            x = f.let(f"extractelement {lanes.real} {value}, i32 {lane}")
            f.store("double", x, self.row(lane), 8 * k)

    def store_pair(self, k: int, first: str, second: str) -> None:
        """Elements k and k + 1 of every row."""
        f, lanes = self.lanes.function, self.lanes
        if lanes.width == 1:
            self.store(k, first)
            self.store(k + 1, second)
            return
        for parity in (0, 1):
            half = self._interleaved(first, second, parity)
            for lane in range(parity, lanes.width, 2):
                begin = lane - parity
                pair = f.let(f"shufflevector {lanes.real} {half}, {lanes.real} poison, "
                             f"<2 x i32> <i32 {begin}, i32 {begin + 1}>")
                f.store("<2 x double>", pair, self.row(lane), 8 * k)

    def store_four(self, offset: str, values: Sequence[str], *, stream: bool = False) -> None:
        """Four elements of every row, the first of them some bytes after its beginning; streams
        go past the caches, to addresses that are multiples of 32."""
        f, lanes = self.lanes.function, self.lanes
        if lanes.width == 1:
            for k, value in enumerate(values):
                f.store("double", value, f.offset(self.base, offset), 8 * k)
            return
        for parity in (0, 1):
            first, second = (self._interleaved(values[k], values[k + 1], parity) for k in (0, 2))
            for lane in range(parity, lanes.width, 2):
                a, b = lane - parity, lane - parity + lanes.width
                four = self._shuffled(first, second, lanes.width, [a, a + 1, b, b + 1])
                if stream:
                    to = f.offset(self.row(lane), offset)
                    f.do(f"store <4 x double> {four}, ptr {to}, align 32, !nontemporal !1")
                else:
                    f.store("<4 x double>", four, self.row(lane), offset)

    def _interleaved(self, a: str, b: str, parity: int) -> str:
        """a[0] b[0] a[2] b[2] ... or, for parity 1, a[1] b[1] a[3] b[3] ..."""
        lanes = self.lanes
        order = [index for lane in range(parity, lanes.width, 2)
                 for index in (lane, lane + lanes.width)]
        return self._shuffled(a, b, lanes.width, order)

    def _joined(self, parts: list[str]) -> str:
        width = 2
        while len(parts) > 1:
            parts = [self._shuffled(a, b, width, list(range(2 * width)))
                     for a, b in zip(parts[::2], parts[1::2], strict=True)]
            width *= 2
        return parts[0]

    def _shuffled(self, a: str, b: str, width: int, order: list[int]) -> str:
        kind, indices = f"<{width} x double>", ", ".join(f"i32 {i}" for i in order)
        return self.lanes.function.let(
            f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{indices}>")


@dataclass(slots=True)
class Columns(LaneRows):
    """Rows whose element k lies `pitch` bytes after the one before, the lanes side by side."""

    pitch: int = 8

    def load(self, k: int) -> str:
        return self.lanes.function.load(self.lanes.real, self.base, self.pitch * k)

    def load_pair(self, k: int) -> tuple[str, str]:
        return self.load(k), self.load(k + 1)

    def load_by(self, table: str, k: int) -> str:
        """The element whose number is the k-th of a table of 32-bit integers."""
        f = self.lanes.function
        number = f.let(f"zext i32 {f.load('i32', table, 4 * k)} to i64")
        return f.load(self.lanes.real, self.base, f.let(f"mul i64 {number}, {self.pitch}"))

    def store(self, k: int, value: str) -> None:
        self.lanes.function.store(self.lanes.real, value, self.base, self.pitch * k)

    def store_pair(self, k: int, first: str, second: str) -> None:
        self.store(k, first)
        self.store(k + 1, second)

    def moved(self, offset: str) -> LaneRows:
        f = self.lanes.function
        further = f.let(f"mul i64 {offset}, {self.pitch // 8}")
        return Columns(self.lanes, f.offset(self.base, further), pitch=self.pitch)


@dataclass(slots=True)
class Reader:
    """Elements of a port, each loaded when first asked for, together with its neighbour."""

    rows: LaneRows
    size: int
    _values: dict[int, str] = field(default_factory=dict)

    def read(self, k: int) -> str:
        if k not in self._values:
            begin = min(k & ~1, self.size - 2)
            if begin < 0:
                self._values[k] = self.rows.load(k)
            else:
                first, second = self.rows.load_pair(begin)
                self._values.setdefault(begin, first)
                self._values.setdefault(begin + 1, second)
        return self._values[k]


@dataclass(slots=True)
class RowWriter:
    """Elements of a port, stored in pairs as soon as both are known."""

    rows: LaneRows
    _waiting: dict[int, str] = field(default_factory=dict)

    def write(self, k: int, value: str) -> None:
        other = self._waiting.pop(k ^ 1, None)
        if other is None:
            self._waiting[k] = value
        else:
            self.rows.store_pair(k & ~1, *((value, other) if k % 2 == 0 else (other, value)))

    def flush(self) -> None:
        """Store what has no neighbour."""
        for k, value in self._waiting.items():
            self.rows.store(k, value)
        self._waiting.clear()


def integer_table(name: str, numbers: Sequence[int]) -> str:
    """The definition of a constant table of 32-bit integers."""
    table = ", ".join(f"i32 {k}" for k in numbers)
    return f"@{name} = internal constant [{len(numbers)} x i32] [{table}]"


def copy_vectors(lanes: Lanes, size: int, source: str, to: str, table: str | None = None) -> None:
    """Code that copies so many vectors; those with the numbers in a table, if there is one."""
    f, pitch = lanes.function, 8 * lanes.width

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

    `places` says for each element which one of the column it is. Four elements are moved at a
    time: the first four, then on from where they are aligned, so that no store straddles two cache
    lines; the last four reach back over some that have been written. Where the truth `stream`
    holds and all rows are aligned alike, they go past the caches, which then need not read first
    what is overwritten.
    """
    f, lanes = source.lanes.function, source.lanes
    f.constants["places"] = integer_table("places", places)
    begin = 0
    for rows, size in ports:
        if size < 4:
            for k in range(size):
                rows.store(k, source.load(places[begin + k]))
        else:
            _distribute_port(source, rows, size, f.offset("@places", 4 * begin),
                             stream if lanes.width > 1 else None)
        begin += size


def _distribute_port(source: Columns, rows: LaneRows, size: int, places: str,
                     stream: str | None) -> None:
    """The elements of one port, at least four; `places` points to the first of its numbers."""
    f, lanes, last = source.lanes.function, source.lanes, size - 4
    if lanes.width > 1:
        rows.row(0)  # all addresses of rows are computed here, outside of any branch

    def move(k: str, *, stream: bool = False) -> list[str]:
        place = f.offset(places, f.let(f"shl i64 {k}, 2"))
        values = [source.load_by(place, j) for j in range(4)]
        rows.store_four(f.let(f"shl i64 {k}, 3"), values, stream=stream)
        return []

    # the first four, then from the first aligned element on, number 1 to 4
    move("0")
    place = f.let(f"lshr i64 {f.let(f'ptrtoint ptr {rows.base} to i64')}, 3")
    skipped = f.let(f"sub i64 4, {f.let(f'and i64 {place}, 3')}")
    whole = f.let(f"ashr i64 {f.let(f'sub i64 {size}, {skipped}')}, 2")

    def aligned(*, stream: bool = False) -> None:
        repeat(f, whole, [], lambda k, _: move(
            f.let(f"add i64 {f.let(f'shl i64 {k}, 2')}, {skipped}"), stream=stream))

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
    move(str(last))
