"""Object code on disk, so that a second process does not compile.

The cache trusts nothing it did not write: an entry is signed with a secret that only
its owner can read, and a directory that others could write to is not used at all. An
entry that is truncated, altered, or of another key is no entry. Nothing here raises: a
disk that is full, read-only or missing is a cache that is empty. A directory that is not
used is told of once, in the log "nlink", and by `nlink cache info`.

`NLINK_CACHE` moves the directory, or switches the cache off ("off", "0" or empty).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"nlink kernel 1\n"
SUFFIX = ".kernel"
SECRET = "secret"
SECRET_SIZE = 32
BOUND = 256 * 2**20
"""Bytes of entries kept; the oldest go first."""
LOOK = 16
"""A process looks at all entries when it has written this part of the bound since it last did."""
OFF = "switched off by NLINK_CACHE"
TEMPORARY = ".tmp"
ABANDONED = 3600.0
"""Seconds after which a temporary file is one of a process that was killed."""


def directory() -> Path | None:
    """Where entries are kept, or None when the cache is switched off or has no place."""
    place = _place()
    return place if isinstance(place, Path) else None


def _place() -> Path | str:
    """Where entries are kept, or why they are not."""
    chosen = os.environ.get("NLINK_CACHE")
    if chosen is not None and chosen.strip().lower() in ("", "0", "off"):
        return OFF
    try:
        if chosen is not None:
            return Path(chosen).expanduser()
        from platformdirs import user_cache_path  # slow to import

        place = user_cache_path("nlink", appauthor=False)
    except RuntimeError:
        return "no home directory" if chosen is None else f"NLINK_CACHE={chosen} has no such user"
    return place if place.is_absolute() else "no home directory"


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the cache holds, for `nlink cache info`."""

    directory: Path | None
    entries: int
    size: int
    bound: int
    problem: str
    """Why no entries are kept, or nothing."""


def info() -> CacheInfo:
    """The state of the cache; entries of other versions of nlink are counted too."""
    place = directory()
    sizes = [size for _, size, _ in _files(place, SUFFIX)] if place else []
    return CacheInfo(place, len(sizes), sum(sizes), BOUND, _problem())


def clear() -> int:
    """Remove all entries, and what killed processes left; how many entries there were."""
    place = directory()
    removed = 0
    for path, _, _ in _files(place, SUFFIX, TEMPORARY) if place else ():
        with contextlib.suppress(OSError):
            path.unlink()
            removed += path.suffix == SUFFIX
    return removed


def read(key: str) -> bytes | None:
    """The entry of a key, if there is one and it is whole and our own."""
    place = _usable()
    if place is None:
        return None
    try:
        entry = _path(place, key).read_bytes()
        secret = (place / SECRET).read_bytes()
    except OSError:
        return None
    head = len(MAGIC) + hashlib.sha256().digest_size
    payload = entry[head:]
    if len(secret) != SECRET_SIZE or not entry.startswith(MAGIC):
        return None
    signature = _signature(secret, key, payload)
    return payload if hmac.compare_digest(entry[len(MAGIC):head], signature) else None


def write(key: str, payload: bytes) -> None:
    """Keep an entry, all of it or nothing; of processes that write at once one wins."""
    place = directory()
    if place is None:
        return
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _usable() is None:  # asked after it exists: nobody can slip in another
            return
        secret = _secret(place)
        _replace(_path(place, key), MAGIC + _signature(secret, key, payload) + payload)
        _unseen[place] = _unseen.get(place, BOUND) + len(payload)
        if _unseen[place] > BOUND // LOOK:
            _evict(place)
            _unseen[place] = 0
    except OSError:
        return


_unseen: dict[Path, int] = {}
"""Bytes that this process has written to a directory since it last looked at all entries: to look
takes longer the more there are."""


def _path(place: Path, key: str) -> Path:
    return place / (hashlib.sha256(key.encode()).hexdigest()[:40] + SUFFIX)


def _signature(secret: bytes, key: str, payload: bytes) -> bytes:
    # the digest of the key has a fixed length, so key and payload cannot be shifted
    return hmac.digest(secret, hashlib.sha256(key.encode()).digest() + payload, "sha256")


def _usable() -> Path | None:
    """The directory, if entries may be kept there; if not, the reason is told."""
    problem = _problem()
    if problem and problem != OFF:
        _tell(problem)
    return None if problem else directory()


def _problem() -> str:
    """Why no entries are kept, or nothing: the directory is ours and nobody else may write to
    it, or does not exist yet."""
    place = _place()
    if isinstance(place, str):
        return place
    try:
        status = place.lstat()
    except OSError:
        return ""
    if not stat.S_ISDIR(status.st_mode):
        return f"{place} is not a directory, or is a link to one"
    if os.name != "posix":  # the profile directory of a user is private by inheritance
        return ""
    if status.st_uid != os.geteuid():
        return f"{place} belongs to another user"
    if status.st_mode & 0o022:
        return (f"others may write to {place} (mode {status.st_mode & 0o777:o}), "
                "expected a directory of mode 700")
    return ""


@functools.cache
def _tell(problem: str) -> None:
    """Log, once in a process, why compiled kernels are not kept.

    Not a warning, which could be turned into an error: without a cache all results are the same.
    """
    import logging  # slow to import

    logging.getLogger("nlink").warning("compiled kernels are not kept: %s", problem)


def _secret(place: Path) -> bytes:
    """The secret of this directory, made by the first process that needs it."""
    path = place / SECRET
    with contextlib.suppress(FileNotFoundError):
        secret = path.read_bytes()
        if len(secret) == SECRET_SIZE:
            return secret
        path.unlink(missing_ok=True)
    fresh = _temporary(place, os.urandom(SECRET_SIZE))
    try:
        os.link(fresh, path)  # unlike a rename, this never replaces another's secret
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links: the last writer wins
        os.replace(fresh, path)
        return path.read_bytes()
    finally:
        fresh.unlink(missing_ok=True)
    return path.read_bytes()


def _temporary(place: Path, content: bytes) -> Path:
    """A new private file with some content, on disk."""
    import tempfile  # not needed to read, and slow to import

    handle, name = tempfile.mkstemp(dir=place, prefix=".", suffix=TEMPORARY)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _replace(path: Path, content: bytes) -> None:
    fresh = _temporary(path.parent, content)
    try:
        os.replace(fresh, path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _files(place: Path, *suffixes: str) -> Iterator[tuple[Path, int, float]]:
    """Path, size and time of each entry or temporary file."""
    with contextlib.suppress(OSError), os.scandir(place) as found:
        for item in found:
            with contextlib.suppress(OSError):
                if item.name.endswith(suffixes) and item.is_file(follow_symlinks=False):
                    status = item.stat(follow_symlinks=False)
                    yield Path(item.path), status.st_size, status.st_mtime


def _evict(place: Path) -> None:
    """Remove the oldest entries beyond the bound, and what killed processes left."""
    for path, _, changed in _files(place, TEMPORARY):
        if time.time() - changed > ABANDONED:
            path.unlink(missing_ok=True)
    entries = sorted(_files(place, SUFFIX), key=lambda entry: entry[2])
    excess = sum(size for _, size, _ in entries) - BOUND
    for path, size, _ in entries:
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= size
