"""A progress bar on standard error, drawn by rich when it is first told something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(what: str) -> Iterator[Callable[..., None]]:
    """A function to be told the share that is done, from 0 to 1, and, if it changes, with what;
    nothing told, nothing drawn."""
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
