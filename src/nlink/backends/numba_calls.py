"""Kernels as functions of Numba: a type for them, how a call is typed, and its code.

In compiled code a kernel is two words, the addresses of the native function and of its constants
(see `Signature`). They are known when the code runs, not when it is compiled, so code that takes a
kernel as an argument can be cached. Its type has all that is compiled in: the shapes of the ports,
the type of numbers, the bytes of scratch memory.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, errors, types
from numba.core.imputils import lower_constant
from numba.core.typing.templates import signature

from nlink.backends.llvm.signature import Signature
from nlink.programs.program import Port

ON_STACK = 1 << 15
"""Bytes of scratch memory that are taken from the stack; more is allocated by each call."""
ALIGNMENT = 64
NUMBERS = (types.Float, types.Integer)
WORD, POINTER = ir.IntType(64), ir.IntType(8).as_pointer()
NATIVE = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, WORD, POINTER, POINTER]).as_pointer()
_CONSTANTS: list[NumbaFunction] = []
"""Functions that compiled code has taken from global names: it keeps them."""


class NumbaFunction:
    """A kernel that code compiled by Numba calls: what `nlink.numba.function` gives."""

    def __init__(self, compiled: Any) -> None:
        self._compiled, s = compiled, compiled.signature
        self.signature: Signature = s
        self.address, self.data = compiled.address, s.data
        self.numba_type = KernelType(s.name, s.inputs, s.outputs, s.dtype, s.scratch)

    def __call__(self, *arrays: Any) -> Any:
        """The same call outside of compiled code: as of `robot.compile`."""
        return self._compiled(*arrays)

    def __reduce__(self) -> Any:
        raise TypeError(f"{self.signature.name}: machine code is not pickled, which Numba would do "
                        "to cache a closure: hand it over as an argument")

    def __repr__(self) -> str:
        return f"<nlink.numba function {self.signature}>"


class KernelType(types.Callable):
    """The type of a kernel in Numba: equal for kernels that are called alike."""

    def __init__(self, kernel: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...],
                 dtype: str, scratch: int) -> None:
        self.kernel, self.inputs, self.outputs = kernel, inputs, outputs
        self.real, self.scratch = getattr(types, dtype), scratch
        ports = ", ".join(f"{port.name} {port.shape}" for port in (*inputs, *outputs))
        super().__init__(f"nlink({kernel}: {ports}; {len(inputs)} inputs, {dtype}, {scratch})")

    def get_impl_key(self, sig: Any) -> Any:
        return KernelType

    def get_call_signatures(self) -> tuple[list[Any], bool]:
        return [], True

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Inputs and perhaps outputs: C-contiguous arrays of one state, or of many."""
        ports = (*self.inputs, *self.outputs)
        names = ", ".join(port.name for port in ports)
        if kws or len(args) not in (len(self.inputs), len(ports)):
            raise errors.TypingError(f"{self.kernel}: {len(args)} arguments, expected "
                                     f"{len(self.inputs)} or {len(ports)} without names ({names})")
        several = max([False, *map(self._several, self.inputs, args)])
        if len(args) == len(ports):
            for port, x in zip(self.outputs, args[len(self.inputs):], strict=True):
                if self._several(port, x, output=True) != several:
                    raise errors.TypingError(
                        f"{self.kernel}: {port.name} is {x}, expected an array of "
                        f"{len(port.shape) + several} dimensions")
            return signature(types.none, *self._converted(args), recvr=self)
        made = [types.Array(self.real, len(port.shape) + several, "C")
                if port.shape or several else self.real for port in self.outputs]
        return signature(made[0] if len(made) == 1 else types.Tuple(made),
                         *self._converted(args), recvr=self)

    def _converted(self, args: Any) -> list[Any]:
        """The types of arguments, single numbers converted."""
        return [self.real if isinstance(x, NUMBERS) else x for x in args]

    def _several(self, port: Port, x: Any, *, output: bool = False) -> bool:
        """Whether an argument has many states; or an error that says why it does not fit."""
        if not port.shape and not output and isinstance(x, NUMBERS):
            return False
        fits = (isinstance(x, types.Array) and x.dtype == self.real and x.layout == "C"
                and x.aligned and 0 <= x.ndim - len(port.shape) <= 1
                and (x.mutable or not output))
        if not fits:
            raise errors.TypingError(
                f"{self.kernel}: {port.name} is {x}, expected a C-contiguous "
                f"{'writable ' * output}array of {self.real} of {len(port.shape)} dimensions "
                f"{port.shape}, or one more")
        return x.ndim > len(port.shape)


@extending.register_model(KernelType)
class _KernelModel(extending.models.StructModel):
    def __init__(self, manager: Any, of: KernelType) -> None:
        super().__init__(manager, of, [("address", types.uintp), ("data", types.uintp)])


@extending.typeof_impl.register(NumbaFunction)
def _typeof(value: NumbaFunction, _context: Any) -> KernelType:
    return value.numba_type


@extending.unbox(KernelType)
def _unbox(typ: KernelType, given: Any, c: Any) -> extending.NativeValue:
    """The two words of an argument."""
    value = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    for name in ("address", "data"):
        number = c.pyapi.object_getattr_string(given, name)
        setattr(value, name, c.pyapi.long_as_ulonglong(number))
        c.pyapi.decref(number)
    return extending.NativeValue(value._getvalue(), is_error=cgutils.is_not_null(
        c.builder, c.pyapi.err_occurred()))


@lower_constant(KernelType)
def _constant(context: Any, builder: Any, typ: KernelType, value: NumbaFunction) -> Any:
    """A function that is a global name: its addresses are of this process, so Numba does not cache
    the code, and says so."""
    _CONSTANTS.append(value)
    words = cgutils.create_struct_proxy(typ)(context, builder)
    for name in ("address", "data"):
        pointer = context.add_dynamic_addr(builder, getattr(value, name), info=typ.name)
        setattr(words, name, builder.ptrtoint(pointer, WORD))
    return words._getvalue()


@extending.lower_builtin(KernelType, KernelType, types.VarArg(types.Any))
def _call(context: Any, builder: Any, sig: Any, args: tuple[Any, ...]) -> Any:
    """Checks of shapes, then a call of the native function."""
    typ: KernelType = sig.args[0]
    kernel = cgutils.create_struct_proxy(typ)(context, builder, args[0])
    ports, inputs = (*typ.inputs, *typ.outputs), len(typ.inputs)
    several = any(isinstance(x, types.Array) and x.ndim > len(port.shape)
                  for port, x in zip(ports, sig.args[1:], strict=False))
    places = [cgutils.alloca_once(builder, WORD, size=len(ports)) for _ in range(2)]
    size, count, spans = typ.real.bitwidth // 8, WORD(1), list[tuple[Any, Any]]()

    def require(truth: Any, message: str) -> None:
        with builder.if_then(builder.not_(truth), likely=False):
            context.call_conv.return_user_exc(builder, ValueError, (f"{typ.kernel}: {message}",))

    def place(k: int, address: Any, states: Any | None) -> None:
        """Where a port begins, how far apart its states are, and where it ends."""
        stride, begin = WORD(size * ports[k].size), builder.ptrtoint(address, WORD)
        for words, value in zip(places, (begin, stride if states else WORD(0)), strict=True):
            builder.store(value, cgutils.gep_inbounds(builder, words, k))
        end = builder.add(begin, builder.mul(stride, states or WORD(1)))
        for first, last in spans if k >= inputs else ():
            apart = builder.or_(builder.icmp_unsigned("<=", last, begin),
                                builder.icmp_unsigned("<=", end, first))
            require(apart, f"{ports[k].name} shares memory with another argument")
        spans.append((begin, end))

    known = False
    for k, (port, given, value) in enumerate(zip(ports, sig.args[1:], args[1:], strict=False)):
        if not isinstance(given, types.Array):  # a number
            place(k, cgutils.alloca_once_value(builder, value), None)
            continue
        array = context.make_array(given)(context, builder, value)
        shape = cgutils.unpack_tuple(builder, array.shape, given.ndim)
        states = shape.pop(0) if given.ndim > len(port.shape) else None
        for n, wanted in zip(shape, port.shape, strict=True):
            require(builder.icmp_signed("==", n, WORD(wanted)),
                    f"{port.name}: its shape is not {'(..., ' * several}{port.shape}"
                    + ")" * several)
        if states is not None and known:
            require(builder.icmp_signed("==", states, count),
                    f"{port.name}: not as many states as the arguments before it have")
        elif states is not None:
            count, known = states, True
        place(k, array.data, states)
    made = []
    for k, port in enumerate(typ.outputs if len(args) == 1 + inputs else (), inputs):
        result = types.Array(typ.real, len(port.shape) + several, "C")
        lead = (types.intp,) if several else ()
        made.append((result, context.compile_internal(
            builder, _maker(port.shape, typ.real.name, several), signature(result, *lead),
            [count] if several else [])))
        array = context.make_array(result)(context, builder, made[-1][1])
        place(k, array.data, count if several else None)
    _native_call(context, builder, typ, kernel, places, count)
    return _result(context, builder, sig.return_type, made)


def _native_call(context: Any, builder: Any, typ: KernelType, kernel: Any, places: list[Any],
                 count: Any) -> None:
    """The call itself, with scratch memory of its own."""
    large = typ.scratch > ON_STACK
    room = WORD(typ.scratch + ALIGNMENT)
    memory = (context.nrt.allocate(builder, room) if large
              else cgutils.alloca_once(builder, ir.IntType(8), size=typ.scratch + ALIGNMENT))
    if large:
        with builder.if_then(cgutils.is_null(builder, memory), likely=False):
            context.call_conv.return_user_exc(builder, MemoryError, (typ.kernel,))
    aligned = builder.and_(builder.add(builder.ptrtoint(memory, WORD), WORD(ALIGNMENT - 1)),
                           WORD(-ALIGNMENT))
    native = builder.inttoptr(kernel.address, NATIVE)
    builder.call(native, [*(builder.bitcast(words, POINTER) for words in places), count,
                          builder.inttoptr(kernel.data, POINTER),
                          builder.inttoptr(aligned, POINTER)])
    if large:
        context.nrt.free(builder, memory)


def _result(context: Any, builder: Any, typ: Any, made: list[tuple[Any, Any]]) -> Any:
    """New arrays, a tuple of several, a number for an array without dimensions; or None."""
    if not made:
        return context.get_dummy_value()
    values = []
    for array, value in made:
        values.append(value)
        if not array.ndim:
            values[-1] = builder.load(context.make_array(array)(context, builder, value).data)
            context.nrt.decref(builder, array, value)
    return values[0] if len(values) == 1 else context.make_tuple(builder, typ, values)


@functools.cache
def _maker(shape: tuple[int, ...], dtype: str, several: bool) -> Any:
    """A function that allocates an output."""
    real = np.dtype(dtype)
    if several:
        return lambda count: np.empty((count, *shape), real)
    return lambda: np.empty(shape, real)
