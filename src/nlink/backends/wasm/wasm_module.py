"""Modules of WebAssembly: words, functions, and the bytes they become.

A body is written as words, as the text format has them: "local.get 0 f64.const 2 f64.mul". The
same functions give the same bytes, whatever the machine is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

F64, I64, I32 = 0x7C, 0x7E, 0x7F
"""Types of values."""
KINDS = {"f64": F64, "i64": I64, "i32": I32}
PAGE = 65536
"""Memory comes in pages of so many bytes."""
MOST_INSTRUCTIONS = 250_000
"""Of a module: browsers refuse functions of several megabytes, and compile large ones slowly."""

_NOTHING = 0x40
_PLAIN = {
    "unreachable": 0x00, "else": 0x05, "end": 0x0B, "return": 0x0F, "drop": 0x1A, "select": 0x1B,
    "i32.eqz": 0x45, "i32.eq": 0x46, "i32.ne": 0x47, "i32.lt_s": 0x48, "i32.lt_u": 0x49,
    "i32.gt_s": 0x4A, "i32.le_s": 0x4C, "i32.ge_s": 0x4E, "i32.add": 0x6A, "i32.sub": 0x6B,
    "i32.mul": 0x6C, "i32.and": 0x71, "i32.or": 0x72, "i32.xor": 0x73, "i32.shl": 0x74,
    "i32.shr_u": 0x76,
    "i64.add": 0x7C, "i64.sub": 0x7D, "i64.mul": 0x7E, "i64.and": 0x83, "i64.or": 0x84,
    "i64.xor": 0x85, "i64.shl": 0x86, "i64.shr_s": 0x87, "i64.shr_u": 0x88,
    "f64.eq": 0x61, "f64.ne": 0x62, "f64.lt": 0x63, "f64.gt": 0x64, "f64.le": 0x65, "f64.ge": 0x66,
    "f64.abs": 0x99, "f64.neg": 0x9A, "f64.ceil": 0x9B, "f64.floor": 0x9C, "f64.sqrt": 0x9F,
    "f64.add": 0xA0, "f64.sub": 0xA1, "f64.mul": 0xA2, "f64.div": 0xA3, "f64.min": 0xA4,
    "f64.max": 0xA5, "f64.convert_i64_s": 0xB9, "f64.convert_i32_u": 0xB8,
    "i64.reinterpret_f64": 0xBD, "f64.reinterpret_i64": 0xBF}
WORDS = {name: bytes([code]) for name, code in _PLAIN.items()} | {
    "block": bytes([0x02, _NOTHING]), "loop": bytes([0x03, _NOTHING]),
    "if": bytes([0x04, _NOTHING]), "block_i32": bytes([0x02, I32]),
    "i32.trunc_sat_f64_s": bytes([0xFC, 2]), "i64.trunc_sat_f64_s": bytes([0xFC, 6])}
"""Words that stand alone."""


def unsigned(n: int) -> bytes:
    """A number >= 0 in groups of seven bits (LEB128)."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def signed(n: int) -> bytes:
    """The same for any whole number, its sign in the last group."""
    out = bytearray()
    while not -0x40 <= n < 0x40:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n & 0x7F])


_WITH_NUMBER = {
    "br": (0x0C, unsigned), "br_if": (0x0D, unsigned), "local.get": (0x20, unsigned),
    "local.set": (0x21, unsigned), "local.tee": (0x22, unsigned),
    "i32.const": (0x41, signed), "i64.const": (0x42, signed)}
_ACCESS = {"f64.load": 0x2B, "f64.store": 0x39}


def assembled(text: str) -> list[bytes | str]:
    """Words as bytes; calls stay names until all functions are known."""
    words, out = iter(text.split()), list[bytes | str]()
    for word in words:
        if word in WORDS:
            out.append(WORDS[word])
        elif word in _WITH_NUMBER:
            code, encode = _WITH_NUMBER[word]
            out.append(bytes([code]) + encode(int(next(words))))
        elif word in _ACCESS:
            out.append(bytes([_ACCESS[word], 3]) + unsigned(int(next(words))))
        elif word == "f64.const":
            out.append(b"\x44" + struct.pack("<d", float(next(words))))
        elif word == "call":
            out.append(next(words))
        else:
            raise ValueError(f"{word!r} is no word of WebAssembly")
    return out


@dataclass
class StackFunction:
    """A function under construction: its words so far, and its locals, which are used again."""

    name: str
    parameters: Sequence[int] = ()
    results: Sequence[int] = ()
    body: list[bytes | str] = field(default_factory=list)
    locals: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free: dict[int, list[int]] = {kind: [] for kind in KINDS.values()}

    def do(self, text: str) -> None:
        """Append words."""
        self.body += assembled(text)

    def local(self, kind: int = F64) -> int:
        """A local that nothing else uses now."""
        if self._free[kind]:
            return self._free[kind].pop()
        self.locals.append(kind)
        return len(self.parameters) + len(self.locals) - 1

    def release(self, local: int) -> None:
        """A local is needed no more."""
        self._free[self.locals[local - len(self.parameters)]].append(local)

    def signature(self) -> bytes:
        return b"\x60" + _vector([bytes([x]) for x in self.parameters]) + _vector(
            [bytes([x]) for x in self.results])

    def code(self, places: Mapping[str, int]) -> bytes:
        runs: list[list[int]] = []
        for kind in self.locals:
            if runs and runs[-1][1] == kind:
                runs[-1][0] += 1
            else:
                runs.append([1, kind])
        head = _vector([unsigned(count) + bytes([kind]) for count, kind in runs])
        body = b"".join(x if isinstance(x, bytes) else b"\x10" + unsigned(places[x])
                        for x in self.body)
        return _sized(head + body + WORDS["end"])


class Module:
    """Functions with one memory, which begins with constants."""

    def __init__(self) -> None:
        self.functions: dict[str, StackFunction] = {}
        self.exports: dict[str, str] = {}
        """Names outside, and those of functions."""
        self._data = bytearray()
        self._tables: dict[str, int] = {}

    def add(self, function: StackFunction) -> StackFunction:
        self.functions[function.name] = function
        return function

    def constants(self, values: Iterable[float]) -> int:
        """Where in memory some numbers begin, in bytes."""
        begin = len(self._data)
        for value in values:
            self._data += struct.pack("<d", value)
        return begin

    def table(self, name: str, values: Iterable[float]) -> int:
        """The same for numbers that have a name, and are written once."""
        if name not in self._tables:
            self._tables[name] = self.constants(values)
        return self._tables[name]

    def set(self, at: int, value: float) -> None:
        """What a number in memory is before anything has run."""
        struct.pack_into("<d", self._data, at, value)

    @property
    def used(self) -> int:
        """Bytes of memory that have a meaning."""
        return len(self._data)

    def binary(self) -> bytes:
        """The module as bytes."""
        count = sum(len(f.body) for f in self.functions.values())
        if count > MOST_INSTRUCTIONS:
            raise ValueError(f"the module has {count} instructions, expected at most "
                             f"{MOST_INSTRUCTIONS}: more than a browser compiles in a moment")
        functions = list(self.functions.values())
        places = {f.name: k for k, f in enumerate(functions)}
        signatures = list(dict.fromkeys(f.signature() for f in functions))
        pages = -(-max(self.used, 1) // PAGE)
        # zeros at the end of memory need not be written
        data = bytes(self._data).rstrip(b"\0")
        exports = [_name("memory") + b"\x02\x00", *(
            _name(outside) + b"\x00" + unsigned(places[name])
            for outside, name in self.exports.items())]
        sections = {
            1: _vector(signatures),
            3: _vector([unsigned(signatures.index(f.signature())) for f in functions]),
            5: _vector([b"\x00" + unsigned(pages)]),
            7: _vector(exports),
            10: _vector([f.code(places) for f in functions]),
            11: _vector([b"\x00" + assembled_bytes("i32.const 0 end") + _sized(data)])}
        return b"\0asm\1\0\0\0" + b"".join(
            bytes([number]) + _sized(content) for number, content in sections.items())


def assembled_bytes(text: str) -> bytes:
    """Words without calls, as bytes."""
    return b"".join(x for x in assembled(text) if isinstance(x, bytes))


def _sized(content: bytes) -> bytes:
    return unsigned(len(content)) + content


def _vector(items: Sequence[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


def _name(text: str) -> bytes:
    return _sized(text.encode("utf-8"))
