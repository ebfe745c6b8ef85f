"""Programs as C: one file and one header, for a controller without Python.

The text is C99 and needs libm only. Every function computes one state, keeps nothing
between calls, and writes its outputs last, so an output may be one of the inputs. All numbers are
double, or all are float: then so are constants and the functions of libm, and a processor that has
no doubles computes none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nlink.backends.llvm.code import Code, lower
from nlink.backends.llvm.emit import split_name
from nlink.backends.llvm.passes import optimize
from nlink.programs.program import Port, Program
from nlink.scalars.graph import operation
from nlink.scalars.primitives import PRIMITIVES, c_number

REALS = {"float64": "double", "float32": "float"}
"""C's types of numbers, by NumPy's names."""
_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while asm bool catch class delete explicit export false friend "
    "mutable namespace new operator private protected public template this throw true try "
    "typename using virtual main memcpy int64_t INFINITY NAN")
_CALLED = {name for row in PRIMITIVES.values() for name in re.findall(r"(\w+)\(", row.c)}
_LIBRARY = sorted(name for name in _CALLED if not name.startswith("nlink_"))
RESERVED = (frozenset(_KEYWORDS.split()) | _CALLED | {f"{name}f" for name in _LIBRARY})
"""Keywords of C and C++ (the header serves both), and the names the text itself uses."""


def c_files(programs: Sequence[Program], name: str, dtype: str = "float64",
            ) -> tuple[tuple[str, str], tuple[str, str]]:
    """The source and the header, each a file's name and its text, with a function for each
    program. Those of float32 have it in their names."""
    names = _Names()
    stem = names.take(name if dtype == "float64" else f"{name}_{dtype}")
    functions = [_Function.of(program, names.take(f"{stem}_{program.name}"), REALS[dtype])
                 for program in programs]
    return ((f"{stem}.c", _source(stem, name, functions)),
            (f"{stem}.h", _header(stem, name, functions)))


def _in_floats(text: str) -> str:
    """A text on doubles as one on floats: its types, the functions of libm and the literals.

    What looks at the bits of a number stays one on doubles, to which C converts.
    """
    if "memcpy" in text:
        return text
    text = re.sub(rf"\b({'|'.join(_LIBRARY)})\(", r"\1f(", text.replace("double", "float"))
    return re.sub(r"(?<![\w.])(\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)", r"\1f", text)


class _Names:
    """Distinct C identifiers."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(RESERVED) | set(taken)

    def take(self, wanted: str) -> str:
        plain = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "x"
        if plain[0].isdigit():
            plain = f"n{plain}"
        chosen, number = plain, 2
        while chosen in self._taken:
            chosen, number = f"{plain}_{number}", number + 1
        self._taken.add(chosen)
        return chosen


@dataclass(frozen=True, slots=True)
class _Function:
    """One program with C names for everything in it."""

    name: str
    program: Program
    code: Code
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    real: str

    @staticmethod
    def of(program: Program, name: str, real: str) -> _Function:
        code = optimize(lower(program.results), fma=True)
        # temporaries are t0, t1, ... and h0, h1, ...: a port of such a name gives way
        names = _Names([name, *(f"t{k}" for k in range(len(code.instructions))),
                        *(f"h{k}" for k in range(len(code.results)))])
        return _Function(name, program, code, tuple(names.take(p.name) for p in program.inputs),
                         tuple(names.take(p.name) for p in program.outputs), real)

    def number(self, value: float) -> str:
        """A constant."""
        if self.real == "double":
            return c_number(value)
        with np.errstate(over="ignore"):
            nearest = np.float32(value)
        return _in_floats(c_number(float(str(nearest))))

    def text(self, c: str) -> str:
        """An expression or a definition for numbers of this function's type."""
        return c if self.real == "double" else _in_floats(c)

    def signature(self) -> str:
        parts = [f"const {self.declared(p, c)}"
                 for p, c in zip(self.program.inputs, self.inputs, strict=True)]
        parts += [self.declared(p, c)
                  for p, c in zip(self.program.outputs, self.outputs, strict=True)]
        return f"void {self.name}({', '.join(parts) or 'void'})"

    def comment(self) -> str:
        def described(ports: tuple[Port, ...]) -> str:
            return ", ".join(f"{_safe(p.name)} {p.shape}" if p.shape else _safe(p.name)
                             for p in ports)

        return (f"/* {_safe(self.program.name)}: {described(self.program.inputs)} -> "
                f"{described(self.program.outputs)};\n"
                f"   arrays are row-major; {self.code.operations()} operations, a fused "
                "multiply-add counted as one. */")

    def declared(self, port: Port, name: str) -> str:
        return f"{self.real} {name}[{port.size}]" if port.size else f"{self.real} *{name}"

    def definition(self) -> str:
        c_name = {p.name: c for p, c in zip(self.program.inputs, self.inputs, strict=True)}
        lines: list[str] = []
        values: list[str] = []
        read = set()
        for index, i in enumerate(self.code.instructions):
            if i.op == "const":
                values.append(self.number(i.value))
            elif i.op == "input":
                port, k = split_name(i.name)
                read.add(port)
                values.append(f"{c_name[port]}[{k}]")
            else:
                row = operation(i.op)
                expression = self.text(row.c).format(*(values[a] for a in i.args))
                kind = "int" if row.is_truth else self.real
                lines.append(f"const {kind} t{index} = {expression};")
                values.append(f"t{index}")
        results = iter(values[r] for r in self.code.results)
        # inputs copied straight to outputs are read before anything is written
        stores, held = [], []
        for port, c in zip(self.program.outputs, self.outputs, strict=True):
            for k in range(port.size):
                value = next(results)
                if value.endswith("]"):
                    held.append(f"const {self.real} h{len(held)} = {value};")
                    value = f"h{len(held) - 1}"
                stores.append(f"{c}[{k}] = {value};")
        unused = [f"(void){c};" for p, c in zip(self.program.inputs, self.inputs, strict=True)
                  if p.name not in read]
        unused += [f"(void){c};" for p, c in zip(self.program.outputs, self.outputs, strict=True)
                   if not p.size]
        body = "\n".join(f"    {line}" for line in (*unused, *lines, *held, *stores))
        return f"{self.signature()}\n{{\n{body}\n}}\n"


def _safe(name: str) -> str:
    """A name as it may stand in a comment: ASCII letters, digits and a few signs."""
    return re.sub(r"[^A-Za-z0-9 ._+-]", "_", name)


def _header(stem: str, title: str, functions: Sequence[_Function]) -> str:
    guard = f"{stem.upper()}_H"
    declarations = "\n\n".join(f"{f.comment()}\n{f.signature()};" for f in functions)
    return (f"/* {_safe(title)}: generated by nlink; C99, needs libm. */\n"
            f"#ifndef {guard}\n#define {guard}\n\n"
            f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{declarations}\n\n'
            f"#ifdef __cplusplus\n}}\n#endif\n\n#endif\n")


def _source(stem: str, title: str, functions: Sequence[_Function]) -> str:
    used = {i.op: f for f in functions for i in f.code.instructions
            if i.op not in ("const", "input")}
    helpers = "".join(f"{f.text(helper)}\n" for op, f in sorted(used.items(), key=lambda x: x[0])
                      if (helper := operation(op).c_helper))
    more = "#include <stdint.h>\n#include <string.h>\n" if "memcpy" in helpers else ""
    definitions = "\n".join(f.definition() for f in functions)
    return (f"/* {_safe(title)}: generated by nlink; C99, needs libm. */\n"
            f'#include <math.h>\n{more}\n#include "{stem}.h"\n\n{helpers}{definitions}')
