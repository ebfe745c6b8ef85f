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
TYPE, DATA, NDIM, SHAPE, STRIDES, DESCR, FLAGS = 8, 16, 24, 32, 40, 56, 64
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

NEW_ARRAY, SCALAR_OF = 93, 76  # PyArray_New and PyArray_Return in NumPy's table of functions
NUMPY_ABIS = (0x1000009, 0x2000000)  # of NumPy 1 and 2

PYTHON = {"vectorcall": "PyObject_Vectorcall", "incref": "Py_IncRef", "decref": "Py_DecRef",
          "new_tuple": "PyTuple_New", "release": "PyEval_SaveThread",
          "acquire": "PyEval_RestoreThread", "allocate": "PyMem_RawMalloc",
          "free": "PyMem_RawFree"}
"""Functions of the interpreter, by their names in the table."""

TABLE = ("ndarray", "dtype", "fallback", "none", "absent", "new_array", "scalar_of", "data",
         "scratch", "room", "limits", *PYTHON)
"""The words of the table: addresses, and the bytes of scratch memory ("room"). `limits` are
two numbers of states: the most computed with the GIL held, and the most computed natively."""


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
    shape, strides = word(here + SHAPE), word(here + STRIDES)
    return (word(here + TYPE) == id(np.ndarray)
            and word(here + DATA) == x.__array_interface__["data"][0]
            and word(here + NDIM, ctypes.c_int) == x.ndim
            and word(here + DESCR) == id(x.dtype)
            and word(here + FLAGS, ctypes.c_int) == x.flags.num
            and all(word(shape + 8 * k) == n for k, n in enumerate(x.shape))
            and all(word(strides + 8 * k, ctypes.c_ssize_t) == n
                    for k, n in enumerate(x.strides)))


def data_address(x: np.ndarray) -> int:
    """Where an array's data begin."""
    if supported():
        return ctypes.c_size_t.from_address(id(x) + DATA).value
    return x.__array_interface__["data"][0]


def identity() -> str:
    """The facts about the interpreter that are compiled in."""
    return f"{sys.implementation.cache_tag} {tuple.__basicsize__} {bytes.__basicsize__}"


METH_FASTCALL = 0x80


@functools.cache
def _process() -> dict[str, int]:
    """The words of the table that all functions share."""
    words = {"ndarray": id(np.ndarray), "none": id(None)}
    for name, symbol in PYTHON.items():
        words[name] = ctypes.cast(getattr(ctypes.pythonapi, symbol), ctypes.c_void_p).value or 0
    return words | _numpy_functions()


def _numpy_functions() -> dict[str, int]:
    """NumPy's functions that make arrays, zeros where its table is not a known one."""
    try:
        from numpy._core import _multiarray_umath as numpy_api  # pyright: ignore
    except ImportError:
        from numpy.core import _multiarray_umath as numpy_api  # pyright: ignore
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi))
    functions = pointer(numpy_api._ARRAY_API, None) or 0

    def entry(number: int) -> int:
        return ctypes.c_size_t.from_address(functions + 8 * number).value

    known = ctypes.CFUNCTYPE(ctypes.c_uint)(entry(0))() in NUMPY_ABIS
    return {"new_array": entry(NEW_ARRAY) if known else 0,
            "scalar_of": entry(SCALAR_OF) if known else 0}


def builtin(address: int, name: str, doc: str, fallback: Callable[..., Any], keep: Any, *,
            absent: bool, **words: int) -> Callable[..., Any]:
    """The function object for code at an address; it keeps `keep` alive, and itself valid.

    `absent` allows None in place of the outputs; `words` are the dtype, data, scratch, room and
    limits.
    """
    api = ctypes.pythonapi
    words |= {"fallback": id(fallback), "absent": id(None) if absent else 0, **_process()}
    table = struct.pack(f"{len(TABLE)}P", *(words[name] for name in TABLE))
    # a PyMethodDef. The function reads it until its very end, so it lies in a bytes object: the
    # garbage collector clears ctypes' structures before the objects they are in cycles with
    texts = name.encode(), doc.encode()
    method = struct.pack("PPiP", _contents(texts[0]), address, METH_FASTCALL, _contents(texts[1]))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object,
                             ctypes.c_void_p)(("PyCFunction_NewEx", api))
    # the tuple is the function's self: all it points to lives as long as the function
    return make(_contents(method), (table, method, texts, [fallback], keep), None)


def ask_first(function: Callable[..., Any], other: Callable[..., Any]) -> None:
    """From now on what the code of a builtin function does not take goes to another one, which
    has the former fallback as its own."""
    table, _, _, kept, _ = function.__self__  # pyright: ignore[reportFunctionMemberAccess]
    kept.append(other)  # a call of the former one may be under way: it is kept, too
    place = _contents(table) + TABLE.index("fallback") * struct.calcsize("P")
    ctypes.c_void_p.from_address(place).value = id(other)


def _contents(x: bytes) -> int:
    """Where a bytes object has its bytes, which end with a zero."""
    return id(x) + bytes.__basicsize__ - 1
