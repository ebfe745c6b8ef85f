"""The bare call: the entry that Python calls directly.

    PyObject *nlink_bare(PyObject *self, PyObject *const *args, Py_ssize_t nargs)

It is called without a tuple or any conversion (METH_FASTCALL), checks every argument by
the layout of NumPy's array object, and calls the kernel on the data pointers; outputs that
are left out it allocates. In a batch, rows have to be contiguous but may be any number of
bytes apart, and an input without the leading dimension, or with one of size 1, is the same for
all states. Batches that take longer are computed without the GIL. Whatever it does not
recognise it passes on to the fallback, a Python function that either knows how to do it or
raises an error that says what is wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nlink.backends.llvm.ir import Function
from nlink.backends.llvm.kernel import BATCH
from nlink.backends.llvm.native import (
    ALIGNED,
    BARE,
    CONTIGUOUS,
    DATA,
    DESCR,
    FLAGS,
    NDIM,
    SHAPE,
    STRIDES,
    TABLE,
    TYPE,
    WRITEABLE,
)
from nlink.backends.llvm.precision import FLOAT64, Precision
from nlink.programs.program import Port

ALIGNMENT = 64  # of scratch memory: that of a vector register


def emit_bare(inputs: Sequence[Port], outputs: Sequence[Port],
              precision: Precision = FLOAT64) -> str:
    """The native entry: arrays of the precision with contiguous rows, one state or a batch.

    Arguments are (inputs..., outputs...), the inputs alone, or (inputs..., None).
    """
    f, ports, n = Function(), (*inputs, *outputs), len(inputs)
    # the function is bound to a tuple that begins with the table of addresses, as bytes
    table = f.offset(f.load("ptr", "%self", tuple.__basicsize__), bytes.__basicsize__ - 1)
    checks = _Checks(f, table, precision)
    # on the stack: output objects, data pointers and strides, and the shape of a new output
    objects, places, strides = (f.let(f"alloca [{len(ports)} x i64]") for _ in range(3))
    sizes = f.let(f"alloca [{1 + max(len(port.shape) for port in outputs)} x i64]")
    # an input without the leading dimension reads these in place of its own
    one = f.let("alloca [2 x i64]")  # size and stride of a dimension that is not there
    f.store("i64", "1", one)
    f.store("i64", "0", one, 8)

    # were outputs given? not if there are inputs alone, or inputs and then None
    checks.require(f.let(f"icmp uge i64 %nargs, {n}"))
    last = f.load("ptr", f.offset("%args", f.let("shl i64 %nargs, 3")), -8)
    none = f.let(f"icmp eq ptr {last}, {checks.word('absent')}")
    none = f.let(f"and i1 {none}, {f.let(f'icmp eq i64 %nargs, {n + 1}')}")
    fresh = f.let(f"or i1 {none}, {f.let(f'icmp eq i64 %nargs, {n}')}")
    checks.require(f.let(f"or i1 {fresh}, {f.let(f'icmp eq i64 %nargs, {len(ports)}')}"))
    # every input has to be an array of NumPy's; are all of them without leading dimension?
    given = [f.load("ptr", "%args", 8 * k) for k in range(n)]
    for array in given:
        checks.is_array(array)
    alone = [f.let(f"icmp eq i32 {f.load('i32', array, NDIM)}, {len(port.shape)}")
             for array, port in zip(given, inputs, strict=True)]
    f.branch(functools.reduce(lambda a, b: f.let(f"and i1 {a}, {b}"), alone), "single", "batch")

    def gather(kind: str, rows: list[_Rows], count: str) -> None:
        """Leave output objects, data pointers and strides in memory; go on in a block "run"."""
        for k, row in enumerate(rows):
            f.store("ptr", row.data, places, 8 * k)
            f.store("i64", row.stride, strides, 8 * k)
        f.branch(fresh, f"{kind}_fresh", f"{kind}_given")
        # allocated here
        f.begin(f"{kind}_fresh")
        checks.require(f.let(f"icmp ne ptr {checks.word('new_array')}, null"))
        made: list[str] = []
        for port in outputs:
            made.append(_new_array(checks, port, count, sizes, made))
        for k, (x, port) in enumerate(zip(made, outputs, strict=True)):
            f.store("ptr", x, objects, 8 * k)
            f.store("ptr", f.load("ptr", x, DATA), places, 8 * (n + k))
            f.store("i64", str(precision.size * port.size), strides, 8 * (n + k))
        f.go(f"{kind}_run")
        # given by the caller
        f.begin(f"{kind}_given")
        outs = [f.load("ptr", "%args", 8 * k) for k in range(n, len(ports))]
        for array in outs:
            checks.is_array(array)
        found = [checks.output(array, port, count)
                 for array, port in zip(outs, outputs, strict=True)]
        checks.separate([*rows, *found], n, count)
        for k, (x, row) in enumerate(zip(outs, found, strict=True)):
            f.store("ptr", x, objects, 8 * k)
            f.store("ptr", row.data, places, 8 * (n + k))
            f.store("i64", row.stride, strides, 8 * (n + k))
        f.go(f"{kind}_run")
        f.begin(f"{kind}_run")

    # one state: whole contiguous arrays
    f.begin("single")
    if len(outputs) > 1 and not all(port.shape for port in outputs):
        checks.require(f.let(f"xor i1 {fresh}, true"))  # a tuple of scalars: no such kernel
    gather("single", [checks.state(array, port, CONTIGUOUS | ALIGNED)
                      for array, port in zip(given, inputs, strict=True)], "")
    # compute it, and return a scalar as a number
    arguments = "".join(f"ptr {f.load('ptr', places, 8 * k)}, " for k in range(len(ports)))
    f.do(f"call void @one({arguments}ptr {checks.word('data')}, ptr {checks.word('scratch')})")
    if len(outputs) == 1 and not outputs[0].shape:
        f.branch(fresh, "scalar", "done")
        f.begin("scalar")  # as NumPy's own functions: a number, no array without dimensions
        number = f.let(f"call ptr {checks.word('scalar_of')}(ptr {f.load('ptr', objects)})")
        f.do(f"ret ptr {number}")
    else:
        f.go("done")

    # a batch: arrays with one leading dimension; a very long one is the fallback's
    f.begin("batch")
    rows, count = checks.batch(given, inputs, one)
    limits = checks.word("limits")
    checks.require(f.let(f"icmp sle i64 {count}, {f.load('i64', limits, 8)}"))
    gather("batch", rows, count)

    def run(scratch: str) -> None:
        f.do(f"call void @{BATCH}(ptr {places}, ptr {strides}, i64 {count}, "
             f"ptr {checks.word('data')}, ptr {scratch})")

    # a short batch keeps the GIL, and uses the kernel's scratch memory
    f.branch(f.let(f"icmp sle i64 {count}, {f.load('i64', limits)}"), "held", "released")
    f.begin("held")
    run(checks.word("scratch"))
    f.go("done")
    # without the GIL, in scratch memory of its own: other threads may be here, too
    f.begin("released")
    room = f.let(f"add i64 {f.load('i64', table, 8 * TABLE.index('room'))}, {ALIGNMENT}")
    memory = f.let(f"call ptr {checks.word('allocate')}(i64 {room})")
    f.branch(f.let(f"icmp eq ptr {memory}, null"), "held", "roomy", unlikely=True)
    # the scratch memory begins at a multiple of a vector register's size
    f.begin("roomy")
    state = f.let(f"call ptr {checks.word('release')}()")
    begin = f.let(f"ptrtoint ptr {memory} to i64")
    begin = f.let(f"and i64 {f.let(f'add i64 {begin}, {ALIGNMENT - 1}')}, {-ALIGNMENT}")
    run(f.let(f"inttoptr i64 {begin} to ptr"))
    f.do(f"call void {checks.word('acquire')}(ptr {state})")
    f.do(f"call void {checks.word('free')}(ptr {memory})")
    f.go("done")

    f.begin("done")
    results = [f.load("ptr", objects, 8 * k) for k in range(len(outputs))]
    f.branch(fresh, "own", "borrowed")
    # return what was allocated here: an array, or a tuple of several
    f.begin("own")
    if len(outputs) == 1:
        f.do(f"ret ptr {results[0]}")
    else:
        both = f.let(f"call ptr {checks.word('new_tuple')}(i64 {len(outputs)})")
        f.branch(f.let(f"icmp eq ptr {both}, null"), "no_tuple", "tuple", unlikely=True)
        f.begin("no_tuple")
        checks.fail(results)
        f.begin("tuple")
        for k, x in enumerate(results):
            f.store("ptr", x, both, tuple.__basicsize__ + 8 * k)
        f.do(f"ret ptr {both}")
    # return what the caller gave: one more reference to it, or to None
    f.begin("borrowed")
    result = results[0] if len(outputs) == 1 else checks.word("none")
    f.do(f"call void {checks.word('incref')}(ptr {result})")
    f.do(f"ret ptr {result}")
    # whatever was not recognised
    f.begin("fallback")
    answer = f.let(f"call ptr {checks.word('vectorcall')}"
                   f"(ptr {checks.word('fallback')}, ptr %args, i64 %nargs, ptr null)")
    f.do(f"ret ptr {answer}")
    return f.define(f"ptr @{BARE}(ptr %self, ptr %args, i64 %nargs)")


def _new_array(checks: _Checks, port: Port, count: str, sizes: str, before: Sequence[str]) -> str:
    """A new array for an output; without memory the call ends, and the ones before are freed."""
    f, shape = checks.f, [*([count] if count else []), *map(str, port.shape)]
    for d, size in enumerate(shape):
        f.store("i64", size, sizes, 8 * d)
    x = f.let(f"call ptr {checks.word('new_array')}(ptr {checks.word('ndarray')}, "
              f"i32 {len(shape)}, ptr {sizes}, i32 {checks.precision.numpy_number}, ptr null, "
              "ptr null, i32 0, i32 0, ptr null)")
    failed, passed = f.fresh("failed"), f.fresh("made")
    f.branch(f.let(f"icmp eq ptr {x}, null"), failed, passed, unlikely=True)
    f.begin(failed)
    checks.fail(before)
    f.begin(passed)
    return x


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where the first state lies, and how many bytes apart states are."""

    data: str
    stride: str
    size: int
    """Bytes of a row."""


@dataclass(slots=True)
class _Checks:
    """Conditions that send a call to the fallback when they do not hold."""

    f: Function
    table: str
    precision: Precision

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

    def fail(self, objects: Sequence[str]) -> None:
        """Return with the error that Python has been told."""
        for x in objects:
            self.f.do(f"call void {self.word('decref')}(ptr {x})")
        self.f.do("ret ptr null")

    def state(self, array: str, port: Port, flags: int, dimension: str = "0") -> _Rows:
        """An array of numbers with these flags whose shape, from a dimension on, is the port's."""
        f = self.f
        known = f.let(f"and i32 {f.load('i32', array, FLAGS)}, {flags}")
        self.require(
            f.let(f"icmp eq ptr {f.load('ptr', array, DESCR)}, {self.word('dtype')}"),
            f.let(f"icmp eq i32 {known}, {flags}"))
        if port.shape:
            begin = f.let(f"shl i64 {dimension}, 3")
            shape = f.offset(f.load("ptr", array, SHAPE), begin)
            fits = [f.let(f"icmp eq i64 {f.load('i64', shape, 8 * d)}, {n}")
                    for d, n in enumerate(port.shape)]
            if not flags & CONTIGUOUS and port.size:
                apart = f.offset(f.load("ptr", array, STRIDES), begin)
                fits += [f.let(f"icmp eq i64 {f.load('i64', apart, 8 * d)}, "
                               f"{self.precision.size * port.stride(d)}")
                         for d, n in enumerate(port.shape) if n > 1]
            self.require(*fits)
        return _Rows(f.load("ptr", array, DATA), "0", self.precision.size * port.size)

    def batch(self, arrays: Sequence[str], ports: Sequence[Port],
              one: str) -> tuple[list[_Rows], str]:
        """The rows of inputs that may have a leading dimension, and its size.

        `one` points to the size and the stride of a dimension that is not there.
        """
        f, rows, leads, count = self.f, list[_Rows](), list[str](), "1"
        for array, port in zip(arrays, ports, strict=True):
            more = f.let(f"sub i32 {f.load('i32', array, NDIM)}, {len(port.shape)}")
            self.require(f.let(f"icmp ule i32 {more}, 1"))
            rows.append(self.state(array, port, ALIGNED, f.let(f"zext i32 {more} to i64")))
            leading = f.let(f"icmp ne i32 {more}, 0")
            lead, stride = (f.load("i64", f.let(
                f"select i1 {leading}, ptr {f.load('ptr', array, field)}, "
                f"ptr {f.offset(one, place)}")) for field, place in ((SHAPE, 0), (STRIDES, 8)))
            same = f.let(f"icmp eq i64 {lead}, 1")
            stride = f.let(f"select i1 {same}, i64 0, i64 {stride}")
            count = f.let(f"select i1 {same}, i64 {count}, i64 {lead}")
            rows[-1] = replace(rows[-1], stride=stride)
            leads.append(f.let(f"select i1 {same}, i64 -1, i64 {lead}"))
        for lead in leads:
            self.require(f.let(f"or i1 {f.let(f'icmp eq i64 {lead}, -1')}, "
                               f"{f.let(f'icmp eq i64 {lead}, {count}')}"))
        return rows, count

    def output(self, array: str, port: Port, count: str) -> _Rows:
        """An array to write to, with a leading dimension of `count` if not "", whose rows are
        apart."""
        f, more = self.f, bool(count)
        self.require(f.let(f"icmp eq i32 {f.load('i32', array, NDIM)}, {len(port.shape) + more}"))
        if not more:
            return self.state(array, port, CONTIGUOUS | ALIGNED | WRITEABLE)
        row = self.state(array, port, ALIGNED | WRITEABLE, "1")
        stride = f.load("i64", f.load("ptr", array, STRIDES))
        length = f.let(f"call i64 @llvm.abs.i64(i64 {stride}, i1 false)")
        few = f.let(f"icmp sle i64 {count}, 1")
        self.require(
            f.let(f"icmp eq i64 {f.load('i64', f.load('ptr', array, SHAPE))}, {count}"),
            f.let(f"or i1 {few}, {f.let(f'icmp sge i64 {length}, {row.size}')}"))
        return replace(row, stride=stride)

    def separate(self, rows: Sequence[_Rows], inputs: int, count: str) -> None:
        """Outputs share no byte with anything before them."""
        f, spans = self.f, list[tuple[str, str]]()
        steps = ""
        if count:
            steps = f.let(f"call i64 @llvm.smax.i64(i64 {f.let(f'sub i64 {count}, 1')}, i64 0)")
        for row in rows:
            first = last = row.data
            if count:
                reach = f.let(f"mul i64 {steps}, {row.stride}")
                first = f.offset(first, f.let(f"call i64 @llvm.smin.i64(i64 {reach}, i64 0)"))
                last = f.offset(last, f.let(f"call i64 @llvm.smax.i64(i64 {reach}, i64 0)"))
            spans.append((first, f.offset(last, row.size)))
        for k in range(inputs, len(rows)):
            for i in range(k):
                before = f.let(f"icmp ule ptr {spans[i][1]}, {spans[k][0]}")
                after = f.let(f"icmp ule ptr {spans[k][1]}, {spans[i][0]}")
                self.require(f.let(f"or i1 {before}, {after}"))
