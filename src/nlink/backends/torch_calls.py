"""Functions with derivatives as PyTorch has them: one operator, `nlink::call`.

The operator calls the machine code of a function, which it knows by a name. Its tensors are flat:
each has the dimensions of its port, or one more in front, for the states; what has none is shared
by all of them. It has a rule for shapes (for torch.compile), one for vmap, and a gradient: the same
operator with the function f_vjp(x, w), so gradients have gradients. `torch.func` takes the same
rules from an `autograd.Function` around the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from nlink.backends.llvm.threads import threads
from nlink.backends.mapped_calls import one_batch

if TYPE_CHECKING:
    from nlink.derivatives.differentiable import Differentiable

_FUNCTIONS: WeakValueDictionary[str, Differentiable] = WeakValueDictionary()
_NAMES: WeakKeyDictionary[Differentiable, str] = WeakKeyDictionary()
"""Functions by what they compute, and names of these and their products: "digest.vjp.vjp". A
compiled graph may outlive the process; in another one its names mean the same functions or none."""
_transformed: Callable[[], bool] = getattr(
    torch._C, "_are_functorch_transforms_active", lambda: True)
_modes: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_recorder: Callable[[], Any] = getattr(torch._C, "_get_tracing_state", lambda: 1)
"""Whether `torch.func` transforms, how many modes see what is called, and what `torch.jit` records
in; where PyTorch does not say it, calls take the way on which nothing is missed."""
NUMBERS = (Tensor, torch.nn.Parameter)
"""Tensors that are nothing but numbers."""
DTYPES = {torch.float64: "float64", torch.float32: "float32"}


def registered(f: Differentiable) -> str:
    """The name of a function; it is known for as long as the function lives."""
    if f not in _NAMES:
        _NAMES[f] = f"{f.name}:{f.digest[:32]}"
        _FUNCTIONS[_NAMES[f]] = f
    return _NAMES[f]


def _found(name: str) -> Differentiable:
    _, *products = name.split(".")
    f = _whole(name)
    for each in products:
        f = getattr(f, each) if each in ("jvp", "vjp") else getattr(f.curved.space, each)  # type: ignore
    return f


def _whole(name: str) -> Differentiable:
    """The function that a name is of, or a product of."""
    head = name.partition(".")[0]
    f = _FUNCTIONS.get(head)
    if f is None:
        raise RuntimeError(f"nlink::call: no function {head!r} in this process, expected one that "
                           "nlink.torch has made and that still exists")
    return f


def call(f: Differentiable, given: Sequence[Any], present: Sequence[Any] = ()) -> list[Tensor]:
    """The outputs of a function of tensors with any leading dimensions, which broadcast; `present`
    are values of its last arguments, of the type of the others."""
    name, tensors = registered(f), _of_one_type(f, given)
    tensors += [torch.tensor(x, dtype=tensors[0].dtype) for x in present]
    leads = []
    for port, x in zip(f.inputs, tensors, strict=True):
        core = len(port.shape)
        if tuple(x.shape[x.ndim - core:]) != port.shape or x.ndim < core:
            raise RuntimeError(f"{f.name}: {port.name} has shape {tuple(x.shape)}, expected "
                               f"(..., {', '.join(map(str, port.shape))})")
        leads.append(tuple(x.shape[:x.ndim - core]))
    whole = set(leads) - {()}
    lead = torch.broadcast_shapes(*leads) if len(whole) > 1 else next(iter(whole), ())
    plain = len(whole) <= 1 and len(lead) <= 1
    flat = tensors if plain else [x.expand(lead + port.shape).reshape(-1, *port.shape) if own else x
            for port, x, own in zip(f.inputs, tensors, leads, strict=True)]
    if f.curved is not None:
        for k in f.curved.points:
            flat = [*flat]
            (flat[k],) = _applied([flat[k]], f"{name}.normalize")
    found = _applied(flat, name)
    return [*found] if plain else [
        x.reshape(lead + port.shape) for port, x in zip(f.outputs, found, strict=True)]


def _of_one_type(f: Differentiable, given: Sequence[Any]) -> list[Tensor]:
    """Tensors of float64 or of float32, to which others are promoted as PyTorch does it."""
    tensors = [x if isinstance(x, Tensor) else torch.tensor(x) for x in given]
    dtype = tensors[0].dtype
    if dtype in DTYPES and all(x.dtype is dtype for x in tensors):
        return tensors
    for x in tensors[1:]:
        dtype = torch.promote_types(dtype, x.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    if dtype not in DTYPES:
        raise RuntimeError(f"{f.name}: tensors of {dtype}, expected float64 or float32")
    return [x.to(dtype) for x in tensors]


def _called(arrays: Sequence[Tensor], name: str) -> list[Tensor]:
    _states(arrays, name)
    return _computed(arrays, name)


operator: Any = torch.library.custom_op("nlink::call", mutates_args=(), device_types="cpu")(_called)


def _computed(arrays: Sequence[Tensor], name: str) -> list[Tensor]:
    """The outputs of a function of tensors that hold numbers."""
    f = _found(name)
    kernel, _ = f.compiled(DTYPES[arrays[0].dtype])
    # no more threads than PyTorch may have, in a worker of its own that is one; a state needs one
    several = any(x.ndim > len(port.shape) for x, port in zip(arrays, f.inputs, strict=True))
    most = torch.get_num_threads() if several else None
    found = kernel(*[(x.detach() if x.requires_grad else x).numpy() for x in arrays],
                   threads=None if most is None or most >= threads() else most)
    return [torch.from_numpy(np.asarray(x)) for x in (found if type(found) is tuple else (found,))]


def _only_numbers(arrays: Sequence[Tensor]) -> bool:
    """Whether nothing differentiates, transforms, records or traces a call."""
    return (all(type(x) in NUMBERS for x in arrays)
            and not (torch.is_grad_enabled() and any(x.requires_grad for x in arrays))
            and not _transformed() and not _modes() and forward_ad._current_level < 0
            and _recorder() is None)


@operator.register_fake
def _outputs(arrays: Sequence[Tensor], name: str) -> list[Tensor]:
    lead = _states(arrays, name)
    return [arrays[0].new_empty([*lead, *port.shape]) for port in _found(name).outputs]


def _states(arrays: Sequence[Tensor], name: str) -> list[Any]:
    """The dimension of states, if there is one, of tensors that fit a function."""
    f = _found(name)
    dtypes = {x.dtype for x in arrays}
    if len(dtypes) > 1 or not dtypes <= DTYPES.keys():
        raise RuntimeError(f"{f.name}: tensors of {', '.join(map(str, dtypes))}, expected float64 "
                           "or float32 throughout")
    lead = list[Any]()
    for port, x in zip(f.inputs, arrays, strict=True):
        several = x.ndim - len(port.shape)
        if several not in (0, 1) or tuple(x.shape[several:]) != port.shape:
            raise RuntimeError(f"{f.name}: {port.name} has shape {tuple(x.shape)}, expected "
                               f"{port.shape}, or one dimension more")
        if several and not lead:
            lead = [x.shape[0]]
        elif several:
            torch._check(x.shape[0] == lead[0], lambda: f"{f.name}: different numbers of states")
    return lead


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    arrays, ctx.name = inputs
    ctx.whole = _whole(ctx.name)  # as long as there may be gradients
    ctx.save_for_backward(*arrays)


def _backward(ctx: Any, weights: Sequence[Tensor | None]) -> tuple[Any, None]:
    return _gradients(operator, ctx.name, ctx.saved_tensors, weights), None


operator.register_autograd(_backward, setup_context=_remember)


def _gradients(apply: Any, name: str, arrays: Sequence[Tensor],
               weights: Sequence[Tensor | None]) -> list[Tensor]:
    """Gradients by all arrays, as `apply`, which may be differentiated, computes them."""
    f = _found(name)
    lead = next((x.shape[:1] for port, x in zip(f.inputs, arrays, strict=True)
                 if x.ndim > len(port.shape)), ())
    w = [arrays[0].new_zeros([*lead, *port.shape]) if x is None else x
         for port, x in zip(f.outputs, weights, strict=True)]
    found = [*apply([*arrays, *w], f"{name}.vjp")]
    if f.curved is not None:
        for k in f.curved.points:
            (found[k],) = apply([arrays[k], found[k]], f"{name}.pulled")
    # what all states share has the sum of their gradients
    return [g.sum(0) if g.ndim > x.ndim else g for x, g in zip(arrays, found, strict=True)]


def _batched(info: Any, in_dims: Any, arrays: Sequence[Tensor], name: str) -> tuple[Any, Any]:
    f, dims = _found(name), in_dims[0]
    flat, shaped = one_batch(f.inputs, arrays, dims, info.batch_size,
                             lambda x, d: x.movedim(d, 0), lambda x, shape: x.expand(shape))
    found = [shaped(x) for x in _applied(flat, name)]
    return found, [0] * len(found)


operator.register_vmap(_batched)


class _Call(torch.autograd.Function):
    """The operator with the rules that `torch.func` asks for, which operators cannot have."""

    @staticmethod
    def forward(name: str, *arrays: Tensor) -> Any:
        numbers = all(type(x) in NUMBERS for x in arrays) and not _modes()
        return tuple((_computed if numbers else operator)(arrays, name))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        name, *arrays = inputs
        _remember(ctx, (arrays, name), output)
        ctx.save_for_forward(*arrays)

    @staticmethod
    def backward(ctx: Any, *weights: Tensor | None) -> Any:
        return None, *_gradients(_applied, ctx.name, ctx.saved_tensors, weights)

    @staticmethod
    def jvp(ctx: Any, _: None, *rates: Tensor | None) -> Any:  # pyright: ignore
        f, arrays = _found(ctx.name), ctx.saved_tensors
        moved = [torch.zeros_like(x) if r is None else r
                 for x, r in zip(arrays, rates, strict=True)]
        if f.curved is not None:
            for k in f.curved.points:
                (moved[k],) = _applied([arrays[k], moved[k]], f"{ctx.name}.rates")
        return tuple(_applied([*arrays, *moved], f"{ctx.name}.jvp"))

    @staticmethod
    def vmap(info: Any, in_dims: Any, name: str, *arrays: Tensor) -> Any:  # pyright: ignore
        found, dims = _batched(info, (in_dims[1:], None), arrays, name)
        return tuple(found), tuple(dims)


def _applied(arrays: Sequence[Tensor], name: str) -> Sequence[Tensor]:
    """The outputs of a function, by what the present transformations know."""
    if torch.compiler.is_compiling():
        return operator(arrays, name)
    if _only_numbers(arrays):
        return _computed(arrays, name)
    return _Call.apply(name, *arrays)


_Call.forward.__signature__ = signature(_Call.forward)  # type: ignore[attr-defined]
# PyTorch asks for it at every call, which else takes longer than the call
