"""Reading with limits, writing atomically."""

from __future__ import annotations

import glob
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 16 * 1024 * 1024
LARGEST = 1e30
"""Larger numbers are no lengths, masses or moments of anything, and their squares overflow."""
_BINARY = getattr(os, "O_BINARY", 0)
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
"""The flag of `os.open` that refuses a name that is a link."""


def read_text(path: str | Path) -> str:
    """The text of a file of sane size."""
    path = Path(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path}: larger than {MAX_BYTES // 2**20} MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None


def own_name(argument: str, path: Path) -> Path:
    """A path whose last part is a name: "", ".", ".." and "/" have none, and what is written there
    would lie among other files."""
    if path.name in ("", ".."):
        raise ValueError(f"{argument}: {str(path)!r}, expected the name of a new file or directory")
    return path


def check_plain_file(path: Path) -> None:
    """Refuse a name that is a link, a pipe, a device or a directory instead of a file."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path.name} is {file_kind(mode)}, expected a file")


def file_kind(mode: int) -> str:
    """The kind of file that a name stands for.

    >>> file_kind(stat.S_IFIFO), file_kind(stat.S_IFLNK)
    ('a pipe', 'a link')
    """
    kinds = {stat.S_IFREG: "a file", stat.S_IFLNK: "a link", stat.S_IFDIR: "a directory",
             stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
             stat.S_IFBLK: "a device"}
    return kinds.get(stat.S_IFMT(mode), "something else")


def name_beside(path: Path, ending: str) -> Path:
    """A hidden name beside a file that no other file's is, however long the names are."""
    own = hashlib.sha256(path.name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return path.with_name(f".{path.name[:40]}.{own}.{ending}")


def remove_temporaries(path: Path) -> None:
    """Remove what writers of a file that were killed left beside it; for its only writer."""
    for left in path.parent.glob(f"{glob.escape(str(name_beside(path, '').name))}*.tmp"):
        with suppress(OSError):
            shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file in one step when the block ends without error:
    readers see the old content or the new, never a part."""
    path = Path(path)
    temporary = name_beside(path, f"{secrets.token_hex(8)}.tmp")
    try:
        # 0o666 as `open` asks for, of which the umask takes away what it does
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | _BINARY, 0o666)
        try:
            with os.fdopen(handle, "w+b") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file in one step."""
    with replacing(path) as stream:
        stream.write(data)


def write_text(path: str | Path, text: str) -> None:
    """`write_bytes` of UTF-8 text."""
    write_bytes(path, text.encode("utf-8"))
