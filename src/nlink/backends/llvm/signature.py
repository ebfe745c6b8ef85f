"""How machine code is called from outside Python: by C, by Numba, by other frameworks."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nlink.programs.program import Port

if TYPE_CHECKING:
    from nlink.backends.llvm.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Signature:
    """The calling convention of a kernel's native function, which lies at `kernel.address`.

        void function(void **ports, int64_t *strides, int64_t count, void *data, void *scratch)

    `ports` has the address of the first state of each input, then of each output, in the order
    of `inputs` and `outputs`. Within a state the numbers lie side by side, row-major, aligned to
    one number. `strides` has as many items: the bytes from one state to the next. They may be
    negative, and 0 for an input that all states share. `count` is the number of states, which
    may be 0. `data` is the kernel's own table of constants: pass `signature.data`. `scratch` is
    memory for this call: `signature.scratch` bytes, which need not be initialised, best aligned
    to `signature.alignment`.

    An output must not overlap an input, another output or its own other rows. The function
    allocates nothing, needs no GIL, keeps nothing between calls and may run in several threads at
    once, if each has its own outputs and scratch memory. It computes in the calling thread, the
    same bits at any `count`. Nothing is checked: shapes and types are up to the caller.

    The address and `data` are valid while the kernel, or what `robot.compile` returned, exists.
    They differ from process to process; a child made by `os.fork` may use its parent's.

    >>> import nlink
    >>> print(nlink.load("planar3").compile("gravity_torque").signature)
    gravity_torque(q: float64 (3,)) -> tau: float64 (3,)
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    """Each with `.name`, `.shape`, the shape of one state, and `.size`, its numbers."""
    data: int
    scratch: int
    alignment: int
    dtype: str = "float64"
    """The type of all numbers, by NumPy's name: "float64" or "float32"."""

    DECLARATION = ("void (*)(void **ports, int64_t *strides, int64_t count, void *data, "
                   "void *scratch)")
    """The type of a pointer to the function, in C and in cffi."""

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, then outputs: the order of `ports` and `strides`."""
        return (*self.inputs, *self.outputs)

    def __str__(self) -> str:
        def written(ports: tuple[Port, ...]) -> str:
            return ", ".join(f"{port.name}: {self.dtype} {port.shape}" for port in ports)

        return f"{self.name}({written(self.inputs)}) -> {written(self.outputs)}"


class CompiledFunction(functools.partial[Any]):
    """The bare call of a kernel: `fn(q, qd, out)`, see `robot.compile`.

    >>> import nlink, numpy as np
    >>> fn = nlink.load("planar3").compile("gravity_torque")
    >>> fn(np.zeros(3), np.empty(3))
    array([44.145, 19.62 ,  4.905])
    >>> fn.address == fn.kernel.address
    True
    """

    kernel: Kernel

    @property
    def address(self) -> int:
        """The address of the native function; see `signature` for how it is called."""
        return self.kernel.address

    @property
    def signature(self) -> Signature:
        """How the native function at `address` is called."""
        return self.kernel.signature


def compiled_function(kernel: Kernel) -> CompiledFunction:
    """The bare call of a kernel, with what callers from outside Python need."""
    function = CompiledFunction(kernel.bare)
    function.kernel = kernel
    return function
