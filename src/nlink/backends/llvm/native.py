"""Machine code as a builtin function of Python.

The entry `bare.emit_bare` writes refers to nothing outside itself, so it can be cached
like any other code. What it needs of this process it finds through its `self`: a tuple
whose first item is a bytes object, a table of addresses.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

BARE = "nlink_bare"

# offsets in PyObject and NumPy's PyArrayObject_fields on a 64-bit build
TYPE, DATA, NDIM, SHAPE, DESCR, FLAGS = 8, 16, 24, 32, 56, 64
INPUT_FLAGS = 0x1 | 0x100  # C-contiguous, aligned
OUTPUT_FLAGS = INPUT_FLAGS | 0x400  # writeable

TABLE = ("ndarray", "float64", "fallback", "vectorcall", "incref", "none", "data", "scratch",
         "most")
"""The words of the table: addresses, and the most states computed with the GIL held."""


@functools.cache
def supported() -> bool:
    """Whether this interpreter and this NumPy have the layout the code relies on."""
    if (sys.implementation.name != "cpython" or "free-threading" in sys.version
            or struct.calcsize("P") != 8):
        return False
    sample = np.arange(12.0).reshape(3, 4)
    frozen = sample[::-1, ::2]
    frozen.flags.writeable = False
    return all(_layout_agrees(x) for x in (sample, sample[0], frozen))


def _layout_agrees(x: np.ndarray) -> bool:
    def word(address: int, kind: Any = ctypes.c_size_t) -> int:
        return kind.from_address(address).value

    here = id(x)
    if object.__sizeof__(x) < FLAGS + 4 or type(x).__basicsize__ < FLAGS + 4:
        return False
    shape = word(here + SHAPE)
    return (word(here + TYPE) == id(np.ndarray)
            and word(here + DATA) == x.__array_interface__["data"][0]
            and word(here + NDIM, ctypes.c_int) == x.ndim
            and word(here + DESCR) == id(x.dtype)
            and word(here + FLAGS, ctypes.c_int) == x.flags.num
            and all(word(shape + 8 * k) == n for k, n in enumerate(x.shape)))


def identity() -> str:
    """What of the interpreter is compiled in."""
    return f"{sys.implementation.cache_tag} {tuple.__basicsize__} {bytes.__basicsize__}"


METH_FASTCALL = 0x80


def builtin(address: int, name: str, doc: str, fallback: Callable[..., Any],
            data: int, scratch: int, most: int, keep: Any) -> Callable[..., Any]:
    """The function object for code at an address; it keeps `keep` alive, and itself valid."""
    api = ctypes.pythonapi

    def entry(symbol: str) -> int:
        return ctypes.cast(getattr(api, symbol), ctypes.c_void_p).value or 0

    addresses = {
        "ndarray": id(np.ndarray), "float64": id(np.dtype(np.float64)), "fallback": id(fallback),
        "vectorcall": entry("PyObject_Vectorcall"), "incref": entry("Py_IncRef"),
        "none": id(None), "data": data, "scratch": scratch, "most": most}
    table = struct.pack(f"{len(TABLE)}P", *(addresses[name] for name in TABLE))
    # a PyMethodDef. The function reads it until its very end, so it lies in a bytes object: the
    # garbage collector clears ctypes' structures before the objects they are in cycles with
    texts = name.encode(), doc.encode()
    method = struct.pack("PPiP", _contents(texts[0]), address, METH_FASTCALL, _contents(texts[1]))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object,
                             ctypes.c_void_p)(("PyCFunction_NewEx", api))
    # the tuple is the function's self: all it points to lives as long as the function
    return make(_contents(method), (table, method, texts, fallback, keep), None)


def _contents(x: bytes) -> int:
    """Where a bytes object has its bytes, which end with a zero."""
    return id(x) + bytes.__basicsize__ - 1
