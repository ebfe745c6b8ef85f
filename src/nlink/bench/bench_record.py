"""What all benches have in common: what was measured, and where."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class BenchRecord:
    """The results of one run; derived classes add them."""

    cpu: str
    versions: dict[str, str]
    missing: list[str]
    """Peers that are not installed."""

    def derived(self) -> dict[str, Any]:
        """What follows from the fields, for JSON."""
        return {}

    def to_json(self) -> str:
        return json.dumps(asdict(self) | self.derived(), indent=1)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[str]) -> str:
    """A table as Markdown, the columns of `text` to the left."""
    sides = ["---" if heading in text else "---:" for heading in headings]
    lines = [" | ".join(headings), "|".join(sides), *map(" | ".join, rows)]
    return "".join(f"|{line}|\n" if k == 1 else f"| {line} |\n" for k, line in enumerate(lines))
