"""What NumPy says of arrays of traced values, in words that help a user.

A node refuses what it cannot do by itself (`graph.Node`); but a function such as `np.linalg.solve`
looks at the type of an array and never asks the nodes in it.

Warnings that point at the user's line, however deep in the package they come from.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, cast

SIGNS = ("dtype('O')", "'Node' object has no attribute", "of type Node",
         "not supported for the input types")
"""Parts of NumPy's messages."""


@contextmanager
def explained() -> Iterator[None]:
    """Around calls of users' functions with traced values."""
    try:
        yield
    except (TypeError, AttributeError) as error:
        said = str(error)
        if not any(sign in said for sign in SIGNS):
            raise
        raise TypeError("a function of NumPy was given traced values, expected numbers: use "
                        "functions of nlink, or simulate with traced=False (nlink.solve takes the "
                        "place of np.linalg.solve and inv); NumPy says: "
                        + said) from error


Function = TypeVar("Function", bound=Callable[..., Any])


def instead_of(**names: str) -> Callable[[Function], Function]:
    """A function that says what arguments of other libraries, or misspelt ones, are called here.

    >>> @instead_of(dt="step")
    ... def advance(step=1.0):
    ...     return step
    >>> advance(dt=0.1)
    Traceback (most recent call last):
    TypeError: advance: unknown argument 'dt', expected step
    >>> advance(stpe=0.1)
    Traceback (most recent call last):
    TypeError: advance: unknown argument 'stpe', expected step
    """
    def around(function: Function) -> Function:
        known = signature(function).parameters

        @wraps(function)
        def called(*arguments: Any, **options: Any) -> Any:
            if not options.keys() <= known.keys():
                refuse_unknown(function, known, options, names)
            return function(*arguments, **options)

        return cast("Function", called)

    return around


def refuse_unknown(function: Callable[..., Any], known: Iterable[str], options: Iterable[str],
                   names: Mapping[str, str]) -> None:
    """Say what the first unknown argument is called here."""
    known = [each for each in known if each != "self"]
    name = next(each for each in options if each not in known)
    close = get_close_matches(name, known, 1)
    expected = names.get(name) or (close[0] if close else f"some of {', '.join(known)}")
    raise TypeError(f"{function.__qualname__.removesuffix('.__init__')}: unknown argument "
                    f"{name!r}, expected {expected}")


PACKAGE = str(Path(__file__).parents[1]) + ("\\" if sys.platform == "win32" else "/")


def tell(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the place of the innermost call that is not in nlink (or in code without a file,
    as what `dataclasses` writes).

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     tell("mind the step")
    >>> str(caught[0].message)
    'mind the step'
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith((PACKAGE, "<string>")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
