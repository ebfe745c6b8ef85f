"""Checks of a run on disk: a file that was changed is refused.

A row of the records' file is a trajectory's record and four sums: of its states and of its
joint forces as far as they are known, of its events, and of the row itself. They find
accidents, not forgeries.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np

from nlink.iterations.integration import STATUS
from nlink.model.names import visible

Array = np.ndarray
SUMS = np.dtype([("states", "u8"), ("forces", "u8"), ("events", "u8"), ("row", "u8")])
_ODD = 0x9E3779B97F4A7C15


def checksum(words: Array) -> Array:
    """A sum (n,) for each row of (n, k) words of eight bytes; any change of one word shows."""
    words = words.view(np.uint64)
    weights = np.arange(1, words.shape[1] + 1, dtype=np.uint64) * np.uint64(_ODD) | np.uint64(1)
    # the upper half of a word, signs of numbers included, reaches all bits of the product
    return np.einsum("ij,j->i", words ^ words >> np.uint64(32), weights)


def known_sum(values: Array, known: Array) -> Array:
    """The sum of each trajectory's (outputs, width) values at the outputs that are known."""
    shown = np.where(known[..., None], values, 0.0)
    return checksum(shown.reshape(len(shown), math.prod(shown.shape[1:])))


def whole_sum(values: Array) -> Array:
    """The sum of each trajectory's (outputs, width) values."""
    return known_sum(values, np.ones(values.shape[:2], bool))


def bytes_sum(arrays: Mapping[str, Array]) -> str:
    """A digest of the names and the bytes of arrays."""
    digest = sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + arrays[name].tobytes())
    return digest.hexdigest()


def head_sum(head: dict[str, Any]) -> str:
    """A digest of what is said of a run besides its records."""
    rest = {key: value for key, value in head.items() if key not in ("t", "check")}
    text = json.dumps(rest, sort_keys=True)
    return sha256(text.encode() + np.asarray(head["t"], float).tobytes()).hexdigest()


def fresh(records: Array) -> Array:
    """Whose trajectories have not made a step: they may have ended before they started."""
    return records["next"] + records["steps"] + records["rejects"] == 1


def known_outputs(records: Array, outputs: int) -> Array:
    """(count, outputs): what of the states is to stay as it is. Fresh ones are written anew."""
    done = records["status"] != STATUS["running"]
    known = np.arange(outputs) < np.where(done, outputs, records["next"])[:, None]
    return known & ~fresh(records)[:, None]


def seal(records: Array, sums: Array, first: int = 0) -> Array:
    """Rows of bytes: records, of trajectories from `first` on, and their sums, the last of which
    is filled in."""
    count = len(records)
    rows = np.empty(count, [("index", "i8"), ("record", records.dtype), ("sums", SUMS)])
    rows["index"], rows["record"], rows["sums"] = np.arange(first, first + count), records, sums
    rows["sums"]["row"] = 0
    rows["sums"]["row"] = checksum(_bytes(rows).view(np.uint64))
    return _bytes(rows)[:, 8:].copy()


def unseal(raw: Array, head: dict[str, Any], kind: np.dtype | None = None) -> tuple[Array, Array]:
    """Records and sums of rows that `seal` made; records are of the type given, or of the one
    that the head names."""
    count, kind = math.prod(head["lead"]), record_type(head) if kind is None else kind
    width, extra = kind.itemsize + SUMS.itemsize, SUMS.itemsize
    if raw.dtype != np.uint8 or raw.shape != (count, width):
        raise ValueError(f"records of {raw.dtype} and shape {raw.shape}, expected {count} of "
                         f"{width} bytes")
    raw = np.ascontiguousarray(raw)
    records = raw[:, :width - extra].copy().view(kind).ravel()
    sums = raw[:, width - extra:].copy().view(SUMS).ravel()
    if not np.array_equal(seal(records, sums), raw):
        raise ValueError("a record was changed")
    _check_ranges(records, np.asarray(head["t"]), watched=bool(head["events"]))
    return records, sums


def record_type(head: dict[str, Any]) -> np.dtype:
    """The type of a run's records, all of them words of eight bytes."""
    columns = [(str(name), str(form), *(tuple(map(int, x)) for x in shape))
               for name, form, *shape in head["record"]]
    if any(form not in ("<i8", "<f8") for _, form, *_ in columns):
        raise ValueError("records of other than numbers")
    return np.dtype(columns)


def check_status(codes: Array) -> Array:
    """Status codes of a file, if all are known."""
    unknown = np.setdiff1d(codes, list(STATUS.values()))
    if unknown.size or codes.dtype.kind not in "iu":
        raise ValueError(f"the status code {unknown.tolist()[0] if unknown.size else codes.dtype}, "
                         f"expected one of 0 to {max(STATUS.values())}")
    return codes


def _check_ranges(records: Array, t: Array, *, watched: bool) -> None:
    """Refuse records that an integration cannot have left."""
    running = records[check_status(records["status"]) == STATUS["running"]]
    good = {"next": (records["next"] >= 1) & (records["next"] <= len(t)),
            "fill": records["fill"] == 0,
            "events": (records["events"] >= 0) & (watched | (records["events"] == 0)),
            "t": (running["t"] >= t[0]) & (running["t"] <= t[-1]) & (running["next"] < len(t)),
            "h": running["h"] >= 0}
    good |= {name: records[name] >= 0 for name in ("steps", "rejects", "sweeps")}
    for name, truths in good.items():
        if not truths.all():
            raise ValueError(f"a record whose {name} is out of range")


@contextmanager
def refused(sentence: str, further: str = "") -> Iterator[None]:
    """Whatever readers raise if a file holds something else becomes one sentence: readers raise
    anything then."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"{sentence}: {reason(error)}{further}") from None


def reason(error: Exception) -> str:
    """What an error says, in one line."""
    said = visible(" ".join(str(error).split()))
    return f"no {said}" if isinstance(error, KeyError) else said or type(error).__name__


def _bytes(rows: Array) -> Array:
    return rows.view(np.uint8).reshape(len(rows), rows.itemsize)
