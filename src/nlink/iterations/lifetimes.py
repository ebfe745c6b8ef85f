"""How long the temporary columns of a recording are needed, so that they can share memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nlink.iterations.recording import Call, Pass, Recording, Statement, When, reads
from nlink.scalars.graph import Node
from nlink.scalars.traversal import reachable


def share_columns(recording: Recording, placed_already: Collection[str]) -> dict[str, int]:
    """A number for each column that has no place yet; those never needed at the same time may
    share one."""
    names, body = recording.graph.columns, flat(recording.body)
    ends: dict[str, int] = {}
    for k, statement in enumerate(body):
        for node in reachable([*reads(statement), *_written(statement)]):
            name = names.get(node.index)
            if name is not None and name not in placed_already:
                ends[name] = k
    placed: dict[str, int] = {}
    busy: dict[int, str] = {}
    for k, statement in enumerate(body):
        for node in _written(statement):
            name = names.get(node.index)
            if name in ends and name not in placed:
                # a pass reads an element before it writes it, a call does not
                free = (p for p in range(len(names)) if p not in busy
                        or ends[busy[p]] < k + isinstance(statement, Pass))
                placed[name] = place = next(free)
                busy[place] = name
    return placed


def flat(body: Sequence[Statement]) -> list[Statement]:
    """All statements in order, the bodies after the test that they are in."""
    found: list[Statement] = []
    for each in body:
        if isinstance(each, When):
            found += [When(each.truth, [], []), *flat(each.body), When(each.truth, [], each.merged)]
        else:
            found.append(each)
    return found


def _written(statement: Statement) -> list[Node]:
    match statement:
        case Pass(stores, _):
            return [column for column, _ in stores]
        case Call(_, _, _, _, results):
            return [x for x in results if isinstance(x, Node)]
        case When():
            return []
