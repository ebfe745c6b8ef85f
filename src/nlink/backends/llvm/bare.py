"""The bare call: the entry that Python calls directly.

    PyObject *nlink_bare(PyObject *self, PyObject *const *args, Py_ssize_t nargs)

It is called without a tuple or any conversion (METH_FASTCALL), checks every argument by
the layout of NumPy's array object, and calls the kernel on the data pointers. Whatever
it does not recognise it passes on to the fallback, a Python function that either knows
how to do it or raises an error that says what is wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from nlink.backends.llvm.ir import Function
from nlink.backends.llvm.kernel import BATCH
from nlink.backends.llvm.native import (
    BARE,
    DATA,
    DESCR,
    FLAGS,
    INPUT_FLAGS,
    NDIM,
    OUTPUT_FLAGS,
    SHAPE,
    TABLE,
    TYPE,
)
from nlink.programs.program import Port


def emit_bare(inputs: Sequence[Port], outputs: Sequence[Port]) -> str:
    """The native entry: (inputs..., outputs...), contiguous float64, one state or a batch."""
    f, ports = Function(), (*inputs, *outputs)
    table = f.offset(f.load("ptr", "%self", tuple.__basicsize__), bytes.__basicsize__ - 1)
    places = [f.let(f"alloca [{len(ports)} x i64]") for _ in range(2)]
    checks = _Checks(f, table)
    checks.require(f.let(f"icmp eq i64 %nargs, {len(ports)}"))
    arrays = [f.load("ptr", "%args", 8 * k) for k in range(len(ports))]
    for array in arrays:
        checks.is_array(array)
    first = f.load("i32", arrays[0], NDIM)
    f.branch(f.let(f"icmp eq i32 {first}, {len(ports[0].shape)}"), "single", "batch")

    f.begin("single")
    pointers = checks.pointers(arrays, ports, len(inputs), "")
    arguments = "".join(f"ptr {p}, " for p in pointers)
    f.do(f"call void @one({arguments}ptr {checks.word('data')}, ptr {checks.word('scratch')})")
    f.go("done")

    f.begin("batch")
    checks.require(f.let(f"icmp eq i32 {first}, {len(ports[0].shape) + 1}"))
    count = f.load("i64", f.load("ptr", arrays[0], SHAPE))
    most = f.load("i64", table, 8 * TABLE.index("most"))
    checks.require(f.let(f"icmp sle i64 {count}, {most}"))
    pointers = checks.pointers(arrays, ports, len(inputs), count)
    for k, (port, pointer) in enumerate(zip(ports, pointers, strict=True)):
        f.store("ptr", pointer, places[0], 8 * k)
        f.store("i64", str(8 * port.size), places[1], 8 * k)
    f.do(f"call void @{BATCH}(ptr {places[0]}, ptr {places[1]}, i64 {count}, "
         f"ptr {checks.word('data')}, ptr {checks.word('scratch')})")
    f.go("done")

    f.begin("done")
    result = arrays[len(inputs)] if len(outputs) == 1 else checks.word("none")
    f.do(f"call void {checks.word('incref')}(ptr {result})")
    f.do(f"ret ptr {result}")
    f.begin("fallback")
    answer = f.let(f"call ptr {checks.word('vectorcall')}"
                   f"(ptr {checks.word('fallback')}, ptr %args, i64 %nargs, ptr null)")
    f.do(f"ret ptr {answer}")
    return f.define(f"ptr @{BARE}(ptr %self, ptr %args, i64 %nargs)")


@dataclass(slots=True)
class _Checks:
    """Conditions that send a call to the fallback when they do not hold."""

    f: Function
    table: str

    def word(self, name: str) -> str:
        """A word of the table of addresses."""
        return self.f.load("ptr", self.table, 8 * TABLE.index(name))

    def require(self, *conditions: str) -> None:
        """Go on if all conditions hold."""
        f, passed = self.f, self.f.fresh("passed")
        both = functools.reduce(lambda a, b: f.let(f"and i1 {a}, {b}"), conditions)
        f.branch(f.let(f"xor i1 {both}, true"), "fallback", passed, unlikely=True)
        f.begin(passed)

    def is_array(self, value: str) -> None:
        """Exactly NumPy's array type: only then has it NumPy's fields."""
        kind = self.f.load("ptr", value, TYPE)
        self.require(self.f.let(f"icmp eq ptr {kind}, {self.word('ndarray')}"))

    def pointers(self, arrays: Sequence[str], ports: Sequence[Port], inputs: int,
                 count: str) -> list[str]:
        """The data of arrays of the ports' shapes, after a dimension of `count` if not ""."""
        f, found = self.f, list[str]()
        for k, (array, port) in enumerate(zip(arrays, ports, strict=True)):
            wanted = INPUT_FLAGS if k < inputs else OUTPUT_FLAGS
            flags = f.let(f"and i32 {f.load('i32', array, FLAGS)}, {wanted}")
            sizes = [*([count] if count else []), *map(str, port.shape)]
            self.require(
                f.let(f"icmp eq ptr {f.load('ptr', array, DESCR)}, {self.word('float64')}"),
                f.let(f"icmp eq i32 {f.load('i32', array, NDIM)}, {len(sizes)}"),
                f.let(f"icmp eq i32 {flags}, {wanted}"))
            if sizes:
                shape = f.load("ptr", array, SHAPE)
                self.require(*(f.let(f"icmp eq i64 {f.load('i64', shape, 8 * d)}, {n}")
                               for d, n in enumerate(sizes)))
            found.append(f.load("ptr", array, DATA))
        lengths = [f.let(f"mul i64 {count}, {8 * p.size}") if count else str(8 * p.size)
                   for p in ports]
        ends = [f.offset(p, n) for p, n in zip(found, lengths, strict=True)]
        for k in range(inputs, len(ports)):
            for i in range(k):  # outputs share no byte with anything before them
                before = f.let(f"icmp ule ptr {ends[i]}, {found[k]}")
                after = f.let(f"icmp ule ptr {ends[k]}, {found[i]}")
                self.require(f.let(f"or i1 {before}, {after}"))
        return found
