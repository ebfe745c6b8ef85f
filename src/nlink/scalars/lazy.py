"""Properties that are computed once and kept, without a lock.

Before Python 3.12 `functools.cached_property` holds a lock while it computes. A fork in another
thread at that moment leaves the child with a lock that nobody will ever release. Here two threads
may compute the same value, and the first one stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):
    """A property whose value is kept in the object's `__dict__`."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        known = vars(instance)
        return known[self.name] if self.name in known else known.setdefault(
            self.name, self.function(instance))
