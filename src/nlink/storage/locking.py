"""One writer at a time for one output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nlink.formats.files import NO_LINKS, name_beside, remove_temporaries

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def one_writer(path: Path) -> Iterator[None]:
    """Hold a lock on an output, which ends with the block or with the process, however that
    ends; what writers that were killed left beside it is removed."""
    path = Path(os.path.abspath(path))
    file = name_beside(path, "lock")
    try:
        handle = _acquire(file)
    except (BlockingIOError, PermissionError) as error:
        if isinstance(error, PermissionError) and sys.platform != "win32":
            raise PermissionError(error.errno, error.strerror, str(path)) from None
        raise ValueError(f"{path} is being written by another process; wait for its end or choose "
                         "another name") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        remove_temporaries(path)
        yield
    finally:
        # Windows removes no open file, so nobody else's there; elsewhere only the holder may
        if sys.platform != "win32":
            file.unlink(missing_ok=True)
        os.close(handle)
        if sys.platform == "win32":
            with suppress(OSError):
                file.unlink()


def _acquire(file: Path) -> int:
    """The handle of a file that is locked and still has its name."""
    while True:
        handle = os.open(file, os.O_CREAT | os.O_RDWR | NO_LINKS, 0o666)
        try:
            try:
                _lock(handle)
            except (BlockingIOError, PermissionError):
                raise
            except OSError:
                return handle  # a file system that knows no locks
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(file)):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the last holder removed it meanwhile
