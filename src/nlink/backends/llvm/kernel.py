"""Kernels: machine code for one program, and the ways to call it.

Nothing that writes code is imported here, so that a kernel from the cache loads fast.
"""

from __future__ import annotations

import collections
import ctypes
import json
import math
import struct
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.backends.llvm import native, team
from nlink.backends.llvm.reuse import empty
from nlink.backends.llvm.signature import Signature
from nlink.backends.llvm.threads import Trials, checked, cores
from nlink.backends.llvm.threads import threads as allowed
from nlink.programs.calling import Flat, call, contiguous_rows, rows_contiguous
from nlink.programs.program import Port
from nlink.scalars.arrays import SINGLE, common_type
from nlink.scalars.lazy import lazy

if TYPE_CHECKING:
    from nlink.backends.llvm.host import Image

BATCH = "nlink_batch"
SHARE = "nlink_share"
"""The symbols of the functions that compute a batch, or a thread's share of one: see `batch`."""

_ALIGNMENT = 64

HELD = 100e-6
"""Work, in seconds of one core as the operations promise, for which the GIL is held."""

LEADS = 25
"""How many times as long as leading others takes, the work has to take before others help: to
prepare it takes some times as long, too."""

PARTS = 32
"""Parts of a batch for each thread: who is late, or slow, does fewer."""

BLOCK = 16
"""Vectors of states that code in pieces goes over, if its scratch memory is not too large for them;
a part of a batch has a whole number of blocks."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Object code and all that is needed to call it, as bytes for the cache."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    width: int
    operations: int
    """Arithmetic operations for one state, about: for deciding on threads."""
    scratch: int
    """Bytes of scratch memory a block of states needs."""
    data: bytes
    """Constant tables the code reads, aligned to eight bytes."""
    code: bytes
    split: int = 0
    """Where in the scratch memory that of an integration's right-hand side begins."""
    dtype: str = "float64"
    """The type of all numbers, by NumPy's name."""

    def to_bytes(self) -> bytes:
        head = json.dumps({
            "name": self.name, "width": self.width, "operations": self.operations,
            "scratch": self.scratch, "data": len(self.data), "split": self.split,
            "dtype": self.dtype,
            "inputs": [(p.name, p.shape) for p in self.inputs],
            "outputs": [(p.name, p.shape) for p in self.outputs]}).encode()
        return struct.pack("<Q", len(head)) + head + self.data + self.code

    @staticmethod
    def from_bytes(image: bytes) -> Compiled:
        begin = 8 + struct.unpack_from("<Q", image)[0]
        head = json.loads(image[8:begin])
        end = begin + head["data"]
        inputs, outputs = (tuple(Port(name, tuple(shape)) for name, shape in head[side])
                           for side in ("inputs", "outputs"))
        return Compiled(head["name"], inputs, outputs, head["width"], head["operations"],
                        head["scratch"], image[begin:end], image[end:], head["split"],
                        head["dtype"])


_UNLIMITED = np.array([0, 2**62], np.int64)

_BATCH_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                               ctypes.c_void_p, ctypes.c_void_p)


class Kernel:
    """Machine code loaded into this process, callable like a NumPy gufunc.

    Results do not depend on the size of the batch or on the number of threads, to the
    last bit. A kernel can be called from several threads at once.
    """

    make_single: Callable[[], Kernel] | None = None
    """Makes the kernel for arrays of float32, of one for float64."""

    def __init__(self, compiled: Compiled) -> None:
        from nlink.backends.llvm.host import Image

        self.name, self.dtype = compiled.name, np.dtype(compiled.dtype)
        self.inputs, self.outputs = compiled.inputs, compiled.outputs
        self.operations, self.width = compiled.operations, compiled.width
        self._scratch = compiled.scratch
        self._image: Image = Image(compiled.code)
        self._data = Room(len(compiled.data))
        self._data.bytes[:] = np.frombuffer(compiled.data, np.uint8)
        self._address = self._image.address(BATCH)
        self._batch = _BATCH_TYPE(self._address)
        self._share_address = self._image.address(SHARE)
        held = max(1, int(HELD * 1e9 * self.width / max(1, self.operations)))
        self._limits = np.array([held, 2 * held], np.int64)
        self._measured = False
        self._trials = collections.defaultdict[int, Trials](Trials)
        # scratch memory no thread is using: fresh pages cost more than they hold
        self._rooms: list[Room] = []

    @property
    def address(self) -> int:
        """The address of the native function for a batch, valid while the kernel exists."""
        return self._address

    @lazy
    def signature(self) -> Signature:
        """How the native function at `address` is called."""
        return Signature(self.name, self.inputs, self.outputs, self._data.address, self._scratch,
                         _ALIGNMENT, self.dtype.name)

    def for_type(self, arrays: Sequence[Any]) -> Kernel:
        """The kernel that computes with numbers of the arrays' type: itself, or `single`."""
        if self.make_single is None or common_type(arrays) is not SINGLE:
            return self
        return self.single

    @lazy
    def single(self) -> Kernel:
        """The same computation in float32, of which native code is asked from now on before
        Python is."""
        assert self.make_single is not None
        made = self.make_single()
        if native.supported():
            native.ask_first(self.plain, made._builtin(self._general, absent=True))
        return made

    def __call__(self, *arrays: Any, out: Any = None, threads: int | None = None) -> Any:
        """Any leading shapes, broadcast against each other; see `calling.call`."""
        if threads is not None:
            several, kernel = checked(threads), self.for_type(arrays)
            return call(self.inputs, self.outputs, arrays, out,
                        lambda i, o, count: kernel.run(i, o, count, several), kernel.dtype)
        return self.plain(*arrays, out)

    def _general(self, *arguments: Any) -> Any:
        """`plain` in Python: what native code does not take is made plain first, if it can be."""
        *arrays, out = arguments
        kernel = self.for_type(arrays)
        if kernel is not self:
            return kernel.plain(*arguments)
        if len(arrays) != len(self.inputs) or isinstance(out, tuple):
            return self._by_convention(*arguments)
        rows = [contiguous_rows(port, x, self.dtype)
                for port, x in zip(self.inputs, arrays, strict=True)]
        leads = {x.shape[:x.ndim - len(port.shape)]
                 for port, x in zip(self.inputs, rows, strict=True)}
        lead = max(leads, key=lambda own: (len(own), own))
        if len(lead) > 1:
            return self._several_dimensions(rows, out, leads)
        if sum(lead) > self._limits[1]:  # at most one dimension
            return self._many_rows(rows, out, lead)
        return self._plain_rows(*rows, out)

    def _many_rows(self, rows: Sequence[np.ndarray], out: Any, lead: tuple[int, ...]) -> Any:
        """Many states in one dimension, of which other threads may compute a part."""
        if out is None:
            results = [empty(lead + port.shape, self.dtype) for port in self.outputs]
        elif (type(out) is np.ndarray and out.dtype is self.dtype and out.flags.carray
              and out.shape == lead + self.outputs[0].shape and len(self.outputs) == 1
              and not any(np.may_share_memory(out, x) for x in rows)):
            results = [out]
        else:
            return self._by_convention(*rows, out)
        if any(len(x) not in (1, *lead) for port, x in zip(self.inputs, rows, strict=True)
               if x.ndim > len(port.shape)):
            return self._by_convention(*rows, out)  # says that they do not fit
        whole = [x if x.ndim > len(port.shape) and len(x) == lead[0]
                 else np.broadcast_to(x, lead + port.shape)
                 for port, x in zip(self.inputs, rows, strict=True)]
        self._compute([*whole, *results], lead[0])
        return results[0] if len(results) == 1 else tuple(results)

    def _several_dimensions(self, rows: Sequence[np.ndarray], out: Any,
                            leads: Collection[tuple[int, ...]]) -> Any:
        """Several leading dimensions as one."""
        try:
            lead = np.broadcast_shapes(*leads) if len(leads) > 1 else next(iter(leads))
        except ValueError:
            return self._by_convention(*rows, out)
        if out is not None and not (type(out) is np.ndarray and out.flags.c_contiguous
                                    and out.shape == lead + self.outputs[0].shape):
            return self._by_convention(*rows, out)
        count, flat = math.prod(lead), list[np.ndarray]()
        for port, x in zip(self.inputs, rows, strict=True):
            own = x.shape[:x.ndim - len(port.shape)]
            whole = x if own in (lead, ()) else np.broadcast_to(x, lead + port.shape)
            flat.append(whole.reshape(count, *port.shape) if own else x)
        found = self.plain(*flat, None if out is None else out.reshape(
            count, *self.outputs[0].shape))
        if out is not None:
            return out
        if len(self.outputs) == 1:
            return found.reshape(*lead, *self.outputs[0].shape)
        return tuple(x.reshape(*lead, *port.shape)
                     for x, port in zip(found, self.outputs, strict=True))

    @lazy
    def _plain_rows(self) -> Callable[..., Any]:
        """`plain` for batches of any length, in this thread."""
        return self._builtin(self._by_convention, absent=True, limits=_UNLIMITED)

    def _by_convention(self, *arguments: Any) -> Any:
        """`plain` for everything there is, or an error that says what is wrong."""
        return call(self.inputs, self.outputs, arguments[:-1], arguments[-1], self.run,
                    self.dtype)

    def run(self, inputs: Flat, outputs: Flat, count: int, threads: int | None = None) -> None:
        """Compute flat arrays as `calling.call` prepares them, without the GIL.

        `threads=None` takes one or as many as `nlink.threads` allows, as has been faster.
        """
        ports = (*self.inputs, *self.outputs)
        arrays = [x.reshape(count, *port.shape)
                  for x, port in zip((*inputs, *outputs), ports, strict=True)]
        if threads is None:
            self._compute(arrays, count)
        else:
            self._share(arrays, count, threads)

    def _compute(self, arrays: Sequence[np.ndarray], count: int) -> None:
        """Compute all states by one thread or several, as has been faster."""
        most = allowed()
        if most > 1 and count > self._limits[1] and not self._measured:
            self._measure(arrays)
        if most == 1 or count <= self._limits[1]:
            self._part(*arrays)
            return
        trials = self._trials[count.bit_length()]
        several, begin = trials.several(), time.perf_counter()
        self._share(arrays, count, most if several else 1)
        seconds = time.perf_counter() - begin
        trials.learn(several=several, seconds=seconds / count)
        if not several:
            self._limits[1] = max(_worth(count, seconds), self._limits[1])

    def _measure(self, arrays: Sequence[np.ndarray]) -> None:
        """Find out, by some of the states, how many are not worth asking others for."""
        some, most = [x[:self._limits[1]] for x in arrays], 0
        for _ in range(4):
            begin = time.perf_counter()
            self._part(*some)
            most = max(most, _worth(len(some[0]), time.perf_counter() - begin))
        self._limits[1], self._measured = most, True

    def _share(self, arrays: Sequence[np.ndarray], count: int, threads: int) -> None:
        """Compute all states by so many threads, but not by more than there are helpers for."""
        threads = min(threads, 1 + cores())
        if threads == 1 or count <= self.width:
            self._part(*arrays)
            return
        ports, strides = self._pointers(arrays)
        block = BLOCK * self.width
        step = max(1, count // (PARTS * threads * block)) * block
        taken, rooms = ctypes.c_int64(0), [self._room() for _ in range(threads)]
        job = (self._share_address, ctypes.addressof(ports), ctypes.addressof(strides), count,
               self._data.address, ctypes.addressof(taken), step)
        led = team.team.lead(job, [room.address for room in rooms])
        self._rooms += rooms
        if not led:  # other threads share a batch at the moment
            self._part(*arrays)

    @lazy
    def _part(self) -> Callable[..., Any]:
        """Compute states in this thread, without the GIL; holding the arrays, it keeps them."""
        return self._builtin(self._strided, absent=False, limits=_UNLIMITED)

    def _strided(self, *arrays: np.ndarray) -> None:
        """`_part` for rows that are any constant number of bytes apart."""
        room = self._room()
        self._batch(*self._pointers(arrays), len(arrays[0]), self._data.address, room.address)
        self._rooms.append(room)

    def _pointers(self, arrays: Sequence[np.ndarray]) -> tuple[Any, Any]:
        """Where arrays begin, and how many bytes apart their rows are."""
        return ((ctypes.c_void_p * len(arrays))(*map(native.data_address, arrays)),
                (ctypes.c_int64 * len(arrays))(*[x.strides[0] for x in arrays]))

    def _room(self) -> Room:
        """Scratch memory that no other thread uses, to be put back."""
        try:
            return self._rooms.pop()
        except IndexError:
            return Room(self._scratch)

    @lazy
    def bare(self) -> Callable[..., Any]:
        """The call with the least overhead: one state, (inputs..., outputs...).

        All arguments are arrays of the kernel's dtype, of exactly the ports' shapes, or have one
        leading dimension more, and their rows are contiguous. Outputs are written; the only
        output, or None, is returned. Where outputs are left out they are allocated, at the usual
        price of a call. Anything else raises TypeError or ValueError.
        """
        return self._builtin(self._checked, absent=False)

    @lazy
    def plain(self) -> Callable[..., Any]:
        """The call itself, `plain(*arrays, out)`: native for one state or a batch of plain
        arrays, with the result allocated or written into `out`."""
        return self._builtin(self._general, absent=True)

    def _builtin(self, fallback: Callable[..., Any], *, absent: bool,
                 limits: np.ndarray | None = None) -> Callable[..., Any]:
        """Native code for plain arrays, with a Python function for everything else."""
        if not native.supported():
            return fallback
        names = ", ".join(port.name for port in (*self.inputs, *self.outputs))
        limits = self._limits if limits is None else limits
        scratch = Room(self._scratch)  # one is enough: the GIL is held
        return native.builtin(
            self._image.address(native.BARE), self.name, f"{self.name}({names})", fallback,
            (self._image, self._data, scratch, limits), absent=absent,
            dtype=id(self.dtype), data=self._data.address, scratch=scratch.address,
            room=self._scratch, limits=native.data_address(limits))

    def _checked(self, *arguments: Any) -> Any:
        """`bare` in Python: for what native code does not take, and where there is none."""
        n = len(self.inputs)
        ports = (*self.inputs, *self.outputs)
        if len(arguments) not in (n, len(ports)):
            names = ", ".join(port.name for port in ports)
            raise TypeError(f"{self.name}: {len(arguments)} arguments, expected {n} or "
                            f"{len(ports)} ({names})")
        for port, x in zip(ports, arguments, strict=False):
            where = f"{self.name}: {port.name}"
            if type(x) is not np.ndarray:
                raise TypeError(f"{where}: a {type(x).__name__}, expected a NumPy array")
            if x.dtype != self.dtype or not x.dtype.isnative:
                raise TypeError(f"{where}: dtype {x.dtype}, expected {self.dtype}")
            if not rows_contiguous(port, x):
                raise ValueError(f"{where}: its rows are not contiguous and aligned")
        outs = arguments[n:]
        result = self(*arguments[:n], out=outs or None)
        return None if outs and len(self.outputs) > 1 else result


def _worth(count: int, seconds: float) -> int:
    """The number of states from which helpers are worth asking, from the time of one thread."""
    return int(LEADS * team.seconds_to_lead() * count / max(seconds, 1e-9))


class Room:
    """So many bytes of memory, at an address a vector register likes."""

    def __init__(self, size: int) -> None:
        room = np.empty(size + _ALIGNMENT, np.uint8)
        address = native.data_address(room)
        begin = -address % _ALIGNMENT
        self.bytes = room[begin:begin + size]
        self.address = address + begin
