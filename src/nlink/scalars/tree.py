"""Values made of scalars: nested tuples and dataclasses, taken apart and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from nlink.scalars.functions import Scalar


@cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def leaves(value: Any) -> Iterator[Scalar]:
    """The scalars of a value, in the order of its fields; strings and None are structure."""
    if is_dataclass(value):
        for name in _field_names(type(value)):
            yield from leaves(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif value is not None and not isinstance(value, str):
        yield value


def map_leaves(function: Callable[[str, Scalar], Scalar], value: Any, path: str = "") -> Any:
    """The same value with every scalar x at `path` replaced by function(path, x)."""
    if is_dataclass(value):
        before = f"{path}." if path else ""
        parts = {name: map_leaves(function, getattr(value, name), f"{before}{name}")
                 for name in _field_names(type(value))}
        return type(value)(**parts)  # type: ignore[call-arg]
    if isinstance(value, tuple | list):
        return type(value)(map_leaves(function, item, f"{path}.{k}" if path else str(k))
                           for k, item in enumerate(value))
    if value is None or isinstance(value, str):
        return value
    return function(path, value)


def rebuild(like: Any, scalars: Iterator[Scalar]) -> Any:
    """A value of the shape of `like`, its scalars taken from an iterator."""
    return map_leaves(lambda _path, _old: next(scalars), like)
