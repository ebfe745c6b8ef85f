"""Progress on standard error: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(what: str) -> Iterator[Callable[..., None]]:
    """A function to be told the share that is done, from 0 to 1, and, if it changes, with what;
    nothing told, nothing drawn. rich draws the bar."""
    from rich.console import Console
    from rich.progress import Progress

    shown = Progress(console=Console(stderr=True), transient=True)
    task = shown.add_task(what, total=1.0)

    def tell(share: float, doing: str = what) -> None:
        if not shown.live.is_started:
            shown.start()
        shown.update(task, completed=share, description=doing)

    try:
        yield tell
    finally:
        if shown.live.is_started:
            shown.stop()


def lines() -> Callable[[float, str], None]:
    """A function to be told the share that is done and with what: a line for each new part."""
    told: list[str] = []

    def tell(share: float, doing: str) -> None:
        if doing not in told[-1:] and share < 1:
            told.append(doing)
            print(f"nlink: {doing} ({100 * share:.0f} %)", file=sys.stderr, flush=True)

    return tell
