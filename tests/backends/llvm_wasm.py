"""A second opinion on modules of WebAssembly: programs compiled by LLVM for wasm32.

nlink's emitter for LLVM writes them, one lane wide and without fused products; functions that
machines have no words for are functions here, too, from the same texts. A relocatable object is
already a module whose addresses are right if memory begins at zero: it only lacks exports.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import llvmlite.binding as llvm
import numpy as np
import wasmtime

from nlink.backends.llvm.code import lower
from nlink.backends.llvm.emit import Block, split_name
from nlink.backends.llvm.ir import Function, once
from nlink.backends.llvm.passes import optimize
from nlink.programs.program import Program
from nlink.scalars import elementary
from nlink.scalars.functions import abs as magnitude
from nlink.scalars.functions import less_equal, where
from nlink.scalars.graph import Graph, operation
from nlink.scalars.primitives import PRIMITIVES

TRIPLE = "wasm32-unknown-unknown"
CUSTOM, IMPORTS, EXPORTS, FUNCTION, HIDDEN = 0, 2, 7, 0, 0x12


def angles(k):
    """Sine or cosine: near or far, as modules choose."""
    def text(x):
        size = magnitude(x)
        near, far = elementary.reduce_near(size), elementary.reduce_far(size)
        reduced = (where(less_equal(size, elementary.NEAR), a, b)
                   for a, b in zip(near, far, strict=True))
        return elementary.turn(x, *reduced)[k]

    return text


TEXTS = elementary.FUNCTIONS | {"sin": angles(0), "cos": angles(1)}


def written(code, read, store) -> Iterator[str]:
    """Names of the values of straight-line code."""
    f = store.function
    block = Block(f, 1, False, None)
    values: list[str] = []
    for i in code.instructions:
        if i.op == "const":
            values.append(block.const(i.value))
        elif i.op == "input":
            values.append(read(i.name))
        elif i.op in TEXTS:
            given = ", ".join(f"double {values[a]}" for a in i.args)
            values.append(f.let(f"call double @text_{i.op}({given})"))
        else:
            values.append(operation(i.op).llvm(block, *(values[a] for a in i.args)))
    return (values[r] for r in code.results)


class _Holder:
    def __init__(self) -> None:
        self.function = Function()


def texts_called(code, known: dict[str, str]) -> None:
    """Functions for the texts that code calls, and that those call."""
    for name in {i.op for i in code.instructions} & TEXTS.keys() - known.keys():
        graph, holder = Graph(), _Holder()
        arity = PRIMITIVES[name].arity
        own = optimize(lower([graph.lift(TEXTS[name](*(graph.input(k) for k in range(arity))))]),
                       fma=False)
        known[name] = ""
        (value,) = written(own, lambda k: f"%x{k}", holder)
        holder.function.do(f"ret double {value}")
        parameters = ", ".join(f"double %x{k}" for k in range(arity))
        known[name] = holder.function.define(f"internal double @text_{name}({parameters})")
        texts_called(own, known)


def module(program: Program) -> bytes:
    """A function `f` of the addresses of a program's inputs and outputs."""
    code, holder = optimize(lower(program.results), fma=False), _Holder()
    f, known = holder.function, {}
    texts_called(code, known)
    inputs = {port.name: f"%p{k}" for k, port in enumerate(program.inputs)}

    def read(name):
        port, k = split_name(name)
        return f.load("double", inputs[port], 8 * k)

    places = [(f"%p{k}", 8 * element) for k, port in enumerate(
        program.outputs, len(program.inputs)) for element in range(port.size)]
    for value, (pointer, at) in zip(written(code, read, holder), places, strict=True):
        f.store("double", value, pointer, at)
    f.do("ret void")
    count = len(program.inputs) + len(program.outputs)
    whole = f.define(f"void @f({', '.join(f'ptr noalias %p{k}' for k in range(count))})")
    text = f'target triple = "{TRIPLE}"\n' + "\n".join([*known.values(), whole])
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    parsed = llvm.parse_assembly(once(text))
    parsed.verify()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(opt=2)
    return with_exports(machine.emit_object(parsed))


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where the next one begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def unsigned(n: int) -> bytes:
    more = bytes([n & 127 | 128]) if n > 127 else b""
    return more + unsigned(n >> 7) if more else bytes([n])


def sections(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 8
    while at < len(data):
        kind = data[at]
        size, at = number_at(data, at + 1)
        yield kind, data[at:at + size]
        at += size


def function_symbols(linking: bytes) -> Iterator[tuple[str, int]]:
    """Names and numbers of the functions that others may call, of the section "linking"."""
    _, at = number_at(linking, 0)  # its version
    while at < len(linking):
        kind = linking[at]
        size, begin = number_at(linking, at + 1)
        at = begin + size
        if kind != 8:  # the table of symbols
            continue
        count, k = number_at(linking, begin)
        for _ in range(count):
            what, (flags, k) = linking[k], number_at(linking, k + 1)
            if what == 1:  # data
                size, k = number_at(linking, k)
                k += size
                for _ in range(0 if flags & 0x10 else 3):
                    _, k = number_at(linking, k)
                continue
            index, k = number_at(linking, k)
            if what == 3 or (flags & 0x10 and not flags & 0x40):  # a section; one without a name
                continue
            size, k = number_at(linking, k)
            if what == FUNCTION and not flags & HIDDEN:
                yield linking[k:k + size].decode(), index
            k += size


def with_exports(data: bytes) -> bytes:
    """An object as a module that exports its functions."""
    kept, exported = {}, b""
    for kind, content in sections(data):
        if kind != CUSTOM:
            kept[kind] = content
            continue
        size, at = number_at(content, 0)
        if content[at:at + size] == b"linking":
            found = [(name.encode(), k) for name, k in function_symbols(content[at + size:])]
            exported = unsigned(len(found)) + b"".join(
                unsigned(len(name)) + name + b"\0" + unsigned(k) for name, k in found)
    kept[EXPORTS] = exported
    order = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11]
    return data[:8] + b"".join(bytes([kind]) + unsigned(len(kept[kind])) + kept[kind]
                               for kind in order if kind in kept)


class LlvmInstance:
    """A module of LLVM's, run by wasmtime: it imports its memory and a pointer to its stack."""

    FREE = 1 << 17
    """Where data and stack of the module have ended."""

    def __init__(self, program: Program, states: int) -> None:
        self.program, self.store = program, wasmtime.Store()
        loaded = wasmtime.Module(self.store.engine, module(program))
        ports = (*program.inputs, *program.outputs)
        pages = 2 + -(-8 * states * sum(port.size for port in ports) // 65536)
        given = {"__linear_memory": wasmtime.Memory(
            self.store, wasmtime.MemoryType(wasmtime.Limits(pages, None))),
            "__stack_pointer": wasmtime.Global(self.store, wasmtime.GlobalType(
                wasmtime.ValType.i32(), True), wasmtime.Val.i32(self.FREE)),
            "__indirect_function_table": wasmtime.Table(self.store, wasmtime.TableType(
                wasmtime.ValType.funcref(), wasmtime.Limits(0, None)), None)}
        self.memory = given["__linear_memory"]
        exports = wasmtime.Instance(self.store, loaded, [
            given[each.name] for each in loaded.imports]).exports(self.store)
        self.f = exports["f"]

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for arrays of states."""
        count, at, rows = len(arrays[0]), self.FREE, []
        ports = (*self.program.inputs, *self.program.outputs)
        for port in ports:
            rows.append((at, 8 * port.size))
            at += 8 * port.size * count
        for x, (begin, _) in zip(arrays, rows, strict=False):
            self.memory.write(self.store, np.ascontiguousarray(x, float).tobytes(), begin)
        for k in range(count):
            self.f(self.store, *(begin + k * size for begin, size in rows))
        return [np.array(struct.unpack(f"<{count * port.size}d", bytes(self.memory.read(
            self.store, begin, begin + count * size)))).reshape(count, port.size)
            for port, (begin, size) in list(zip(ports, rows, strict=True))[len(arrays):]]
