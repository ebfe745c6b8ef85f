"""What NumPy says of arrays of traced values, in words that help a user.

A node refuses what it cannot do by itself (`graph.Node`); but a function such as `np.linalg.solve`
looks at the type of an array and never asks the nodes in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
                        "functions of nlink, or simulate with traced=False; NumPy says: "
                        + said) from error
