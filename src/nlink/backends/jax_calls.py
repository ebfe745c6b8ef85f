"""Functions with derivatives as JAX has them: one primitive, called by XLA's FFI.

The primitive calls the machine code of a function f. Its arrays are flat: each has the dimensions
of its port, or one more in front, for the states; what has none is shared by all of them. Rules say
the rest:

    vmap        the new dimension and that of the states become one;
    jvp         f_jvp(x, x'), bound to f;
    transpose   a call that is bound to f is linear in x': its transpose is f_vjp(x, w).

The derivatives of both are those of f_jvp and f_vjp, which are functions of the same kind. So jit,
vmap, grad, jacfwd, jacrev and scan combine to any order.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from nlink.backends.llvm.threads import MAKING
from nlink.backends.llvm.xla_handler import XlaHandler, expect_known_api
from nlink.backends.mapped_calls import one_batch

if TYPE_CHECKING:
    from nlink.derivatives.differentiable import Differentiable

Arrays = Sequence[Any]

expect_known_api(Path(jax.ffi.include_dir()))

_HANDLERS: dict[str, XlaHandler] = {}
"""By the name of the target. XLA never forgets one, so a kernel that it has got stays."""

CALL = Primitive("nlink")
"""(arrays; f, of): the outputs of f; `of` is the function whose rates they are, if they are."""
CALL.multiple_results = True


def call(f: Differentiable, given: Arrays, present: Arrays = ()) -> list[Any]:
    """The outputs of a function of arrays with any leading dimensions, which broadcast; `present`
    are values of its last arguments, of the type of the others."""
    arrays = _of_one_type(f, given)
    arrays += [jax.numpy.asarray(x, arrays[0].dtype) for x in present]
    leads = []
    for port, x in zip(f.inputs, arrays, strict=True):
        core = len(port.shape)
        if x.shape[x.ndim - core:] != port.shape or x.ndim < core:
            raise ValueError(f"{f.name}: {port.name} has shape {x.shape}, expected "
                             f"(..., {', '.join(map(str, port.shape))})")
        leads.append(x.shape[:x.ndim - core])
    try:
        lead = np.broadcast_shapes(*leads)
    except ValueError:
        shapes = ", ".join(f"{port.name} {x.shape}" for port, x in zip(
            f.inputs, arrays, strict=True))
        raise ValueError(f"{f.name}: leading shapes do not broadcast: {shapes}") from None
    flat = [x if not own else jax.numpy.broadcast_to(x, lead + port.shape).reshape(-1, *port.shape)
            for port, x, own in zip(f.inputs, arrays, leads, strict=True)]
    if f.curved is not None:
        for k in f.curved.points:
            flat[k] = _bind(f.curved.space.normalize, flat[k])[0]
    found = _bind(f, *flat)
    return [x.reshape(lead + port.shape) for port, x in zip(f.outputs, found, strict=True)]


def _of_one_type(f: Differentiable, arrays: Arrays) -> list[Any]:
    """Arrays of float64 or of float32, to which other numbers are promoted as JAX does it."""
    arrays = [x if hasattr(x, "dtype") or isinstance(x, int | float) else jax.numpy.asarray(x)
              for x in arrays]
    dtype = jax.numpy.result_type(*arrays)
    if dtype.kind in "iub":
        dtype = jax.numpy.result_type(float)
    if dtype not in (np.float64, np.float32):
        names = ", ".join(str(jax.numpy.result_type(x)) for x in arrays)
        raise TypeError(f"{f.name}: arrays of {names}, expected float64 or float32")
    return [jax.numpy.asarray(x, dtype) for x in arrays]


def _bind(f: Differentiable, *arrays: Any, of: Differentiable | None = None) -> list[Any]:
    """The primitive; within shard_map, of arrays that all vary along the same axes."""
    axes = frozenset[Any]().union(*(_varying(x) for x in arrays))
    if axes:
        arrays = tuple(_vary(x, tuple(axes - _varying(x))) for x in arrays)
    return CALL.bind(*arrays, f=f, of=of)


def _vary(x: Any, axes: tuple[Any, ...]) -> Any:
    """An array that is the same along some axes of a mesh as one that need not be: the gradient by
    it is the sum along them."""
    if not axes:
        return x
    lax: Any = jax.lax
    return lax.pcast(x, axes, to="varying") if hasattr(lax, "pcast") else lax.pvary(x, axes)


def _varying(x: Any) -> frozenset[Any]:
    """The axes of a mesh along which an array may differ: a name of JAX's that has moved."""
    aval = jax.typeof(x)
    return aval.mat.varying if hasattr(aval, "mat") else getattr(aval, "vma", frozenset())


def _states(f: Differentiable, arrays: Arrays) -> tuple[int, ...]:
    """The dimension of the states: none if all arrays are shared."""
    return next((x.shape[:1] for port, x in zip(f.inputs, arrays, strict=True)
                 if x.ndim > len(port.shape)), ())


@CALL.def_abstract_eval
def _abstract(*avals: Any, f: Differentiable, of: Differentiable | None) -> list[Any]:
    lead = _states(f, avals)
    return [avals[0].update(shape=lead + port.shape, weak_type=False) for port in f.outputs]


def _computed(*arrays: Any, f: Differentiable, of: Differentiable | None) -> Any:
    lead, dtype = _states(f, arrays), arrays[0].dtype
    types = [jax.ShapeDtypeStruct(lead + port.shape, dtype) for port in f.outputs]
    return jax.ffi.ffi_call(_target(f, str(dtype)), types)(*arrays)


def _target(f: Differentiable, dtype: str) -> str:
    """The name by which XLA knows the machine code of a function: it is of what is computed, so
    that in another process, too, it means this function or none."""
    kernel, digest = f.compiled(dtype)
    name = f"nlink_{f.name}_{dtype}_{digest[:32]}"
    with MAKING:
        if name not in _HANDLERS:
            handler = XlaHandler(kernel)
            jax.ffi.register_ffi_target(name, _capsule(handler.address), platform="cpu")
            _HANDLERS[name] = handler
    return name


def _capsule(address: int) -> Any:
    return jax.ffi.pycapsule(ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address))


@CALL.def_impl
def _run(*arrays: Any, f: Differentiable, of: Differentiable | None) -> Any:
    jitted = vars(f).get("_jitted")
    if jitted is None:
        jitted = vars(f)["_jitted"] = jax.jit(functools.partial(_computed, f=f, of=None))
    return jitted(*arrays)


mlir.register_lowering(CALL, mlir.lower_fun(_computed, multiple_results=True), platform="cpu")


def _batched(arrays: Arrays, dims: Sequence[int | None], *, f: Differentiable,
             of: Differentiable | None) -> tuple[list[Any], list[int]]:
    size = next(x.shape[d] for x, d in zip(arrays, dims, strict=True) if d is not None)
    flat, shaped = one_batch(f.inputs, arrays, dims, size,
                             lambda x, d: jax.numpy.moveaxis(x, d, 0), jax.numpy.broadcast_to)
    found = [shaped(x) for x in _bind(f, *flat, of=of)]
    return found, [0] * len(found)


batching.primitive_batchers[CALL] = _batched


def _moved(primals: Arrays, tangents: Arrays, *, f: Differentiable, of: Differentiable | None,
           ) -> tuple[list[Any], list[Any]]:
    found = _bind(f, *primals, of=of)
    held = 0 if of is None else len(of.inputs)
    if of is not None and all(type(x) is ad.Zero for x in tangents[:held]):
        return found, _bind(f, *primals[:held], *map(ad.instantiate_zeros, tangents[held:]), of=of)
    rates = [ad.instantiate_zeros(x) for x in tangents]
    if f.curved is not None:
        space = f.curved.space
        for k in f.curved.points:
            (rates[k],) = _bind(space.rates, primals[k], rates[k], of=space.displacement)
    return found, _bind(f.jvp, *primals, *rates, of=f)


ad.primitive_jvps[CALL] = _moved


def _transposed(weights: Arrays, *arrays: Any, f: Differentiable, of: Differentiable | None,
                ) -> list[Any]:
    assert of is not None, f"{f.name} is not linear"
    held = len(of.inputs)
    w = [ad.instantiate_zeros(x) for x in weights]
    gradients = _bind(of.vjp, *arrays[:held], *w)
    found: list[Any] = [None] * held
    for x, g in zip(arrays[held:], gradients, strict=True):
        if not ad.is_undefined_primal(x):  # a rate of zero
            found.append(None)
            continue
        # what all states share has the sum of their gradients
        found.append(g.sum(axis=0) if g.ndim > len(x.aval.shape) else g)
    return found


ad.primitive_transposes[CALL] = _transposed
