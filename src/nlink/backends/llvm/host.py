"""The host: what its processor can do, and machine code made for it and loaded into it.

llvmlite is imported here and nowhere else, and this module when a kernel is needed. LLVM is
used, and its objects are disposed of, only while `MAKING` is held: see there.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar, ParamSpec, TypeVar

import llvmlite
import llvmlite.binding as llvm

from nlink.backends.llvm import cache
from nlink.backends.llvm.ir import COMMON, LIBRARY, MODULE_BREAK, Target, once
from nlink.backends.llvm.threads import FORK_WAITS_FOR, MAKING, InterruptKeptBack
from nlink.scalars.primitives import PRIMITIVES

# a kernel that is freed, by any thread at any time, takes llvmlite's own lock
if (_lock := getattr(getattr(llvm.ffi.lib, "_lock", None), "_lock", None)) is not None:
    FORK_WAITS_FOR.append(_lock)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _alone(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, with LLVM to itself until its local variables are gone.

    Ctrl-C waits: raised within llvmlite, it could leave a lock behind.
    """

    @functools.wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with MAKING, InterruptKeptBack():
            return function(*args, **kwargs)

    return wrapped


@functools.cache
@_alone
def _triple() -> str:
    """The platform, by the name LLVM gives it. Asked once, and undisturbed: llvmlite frees a text
    of LLVM's a second time if Ctrl-C comes while it frees it."""
    return llvm.get_default_triple()


@dataclass(frozen=True, slots=True)
class Host:
    """The processor the code is for, by the names LLVM gives it."""

    cpu: str
    features: str
    target: Target

    @property
    def identity(self) -> str:
        """Everything that decides whether object code made elsewhere will do here."""
        version = ".".join(map(str, llvm.llvm_version_info))
        return "|".join((_triple(), self.cpu, self.features, str(self.target),
                         f"llvmlite {llvmlite.__version__}", f"llvm {version}"))


_PORTABLE: ContextVar[bool] = ContextVar("portable", default=False)


def host() -> Host:
    """The host of this process, or within `portable` the one that many have in common."""
    return _common_host() if _PORTABLE.get() else _own_host()


@contextmanager
def portable() -> Iterator[None]:
    """Within this, code is made for a processor that all machines of one kind contain, and so
    gives the same bits on each: x86-64-v3 (AVX2 and fused multiply-add, vectors of four), or
    64-bit ARM without extensions (vectors of two)."""
    before = _PORTABLE.set(True)
    try:
        yield
    finally:
        _PORTABLE.reset(before)


@functools.cache
def _common_host() -> Host:
    own = _own_host()
    if _triple().startswith(("aarch64", "arm64")):
        return Host("generic", "", Target(2, fma=True))
    missing = [name for name in ("avx2", "fma", "bmi2") if f"+{name}" not in
               own.features.split(",")]
    if missing:
        raise ValueError(f"reproducible: the processor {own.cpu} has no {', '.join(missing)}, "
                         "expected those of x86-64-v3")
    return Host("x86-64-v3", "", Target(4, fma=True))


@functools.cache
@_alone
def _own_host() -> Host:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    try:
        found = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell on this platform: its baseline is safe
        found = llvm.FeatureMap()
    arm = _triple().startswith(("aarch64", "arm64"))
    width = 8 if found.get("avx512f") else 4 if found.get("avx") else 2
    features = found.flatten() if found else ""
    return Host(llvm.get_host_cpu_name(), features,
                Target(width, fma=arm or bool(found.get("fma"))))


def _machine(opt: int = 2) -> llvm.TargetMachine:
    here = host()  # registers the targets
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=here.cpu, features=here.features, opt=opt, codemodel="jitdefault", jit=True)


def compile_object(ir: str) -> bytes:
    """The object code of modules: how many they are, the size of each, and all of them.

    The passes have left nothing for LLVM's own optimizer to do; instruction selection,
    scheduling and register allocation are what it is used for. Between modules Ctrl-C is heard.
    Most modules behind the first are pieces of large code, for which scheduling once is enough:
    a second time would take a quarter more, and on a humanoid no gain could be measured.
    """
    texts = ir.split(MODULE_BREAK)
    objects = [_common_object(text) if text.startswith(COMMON) else
               _compile_module(text, 1 if k else 2) for k, text in enumerate(texts)]
    sizes = struct.pack(f"<{1 + len(objects)}Q", len(objects), *map(len, objects))
    return sizes + b"".join(objects)


@_alone
def _compile_module(ir: str, opt: int) -> bytes:
    module = llvm.parse_assembly(once(ir))
    module.verify()
    return _machine(opt).emit_object(module)


MOST_COMMON = 256
"""Objects of modules that kernels have in common, kept in this process."""

_common: dict[str, bytes] = {}


def _common_object(ir: str) -> bytes:
    """The object code of a module that many kernels share: what their calls, batches and
    integrators differ in is a few sizes. Its text is its name, in this process and on disk."""
    name = f"common {host().identity} {hashlib.sha256(ir.encode()).hexdigest()}"
    found = _common.pop(name, None) or cache.read(name)
    if found is None:
        found = _compile_module(ir, 2)
        cache.write(name, found)
    _common[name] = found  # the last one used is the last to go
    while len(_common) > MOST_COMMON:
        del _common[next(iter(_common))]
    return found


def _objects(code: bytes) -> Iterator[bytes]:
    """The objects that `compile_object` has joined."""
    (count,) = struct.unpack_from("<Q", code)
    at = 8 + 8 * count
    for size in struct.unpack_from(f"<{count}Q", code, 8):
        yield code[at:at + size]
        at += size


@_alone
def assembly(ir: str) -> str:
    """The assembly of modules, for reading."""
    return "".join(_machine().emit_assembly(llvm.parse_assembly(once(text)))
                   for text in ir.split(MODULE_BREAK))


@functools.cache
def resolve_library() -> None:
    """Tell LLVM where the functions of the mathematics library are in this process.

    The symbols are nlink's own, so object code means the same functions wherever it is loaded,
    whatever the platform's linker would have found.
    """
    names = ("ucrtbase", "msvcrt") if sys.platform == "win32" else (None, "libm.so.6")
    for row in PRIMITIVES.values():
        if row.library:
            llvm.add_symbol(LIBRARY + row.library, _address(row.library, names))


def _address(function: str, libraries: tuple[str | None, ...]) -> int:
    for library in libraries:
        try:
            found = getattr(ctypes.CDLL(library), function)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(found, ctypes.c_void_p).value or 0
    raise LookupError(f"this process has no function {function!r} of the mathematics library")


class Image:
    """Object code loaded into this process, for as long as this object lives."""

    _discarded: ClassVar[list[llvm.ExecutionEngine]] = []
    """Engines nobody uses any more: the garbage collector may find them in any thread."""

    @_alone
    def __init__(self, code: bytes) -> None:
        resolve_library()
        self._discarded.clear()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        for each in _objects(code):
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(each))
        self._engine.finalize_object()

    def __del__(self) -> None:
        if hasattr(self, "_engine"):
            self._discarded.append(self._engine)

    @_alone
    def address(self, symbol: str) -> int:
        address = self._engine.get_function_address(symbol)
        if not address:
            raise LookupError(f"the object code has no symbol {symbol!r}")
        return address
