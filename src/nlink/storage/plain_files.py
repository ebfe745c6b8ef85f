"""The files of a zarr group on this machine: plain files in directories, and nothing else.

zarr reads whatever a name leads to. A pipe would never end, a device neither, and a link would
have files elsewhere read, replaced or removed. This module needs zarr.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from typing import Any

from zarr.storage import LocalStore

from nlink.formats.files import file_kind


class PlainFiles(LocalStore):
    """A store of zarr's whose names lead to plain files, through plain directories; others are
    refused."""

    async def get(self, key: str, *args: Any, **more: Any) -> Any:
        self.check(key)
        return await super().get(key, *args, **more)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> Any:
        wanted = list(key_ranges)
        for key, _ in wanted:
            self.check(key)
        return await super().get_partial_values(prototype, wanted)

    async def set(self, key: str, *args: Any, **more: Any) -> None:
        self.check(key, replaced=True)
        await super().set(key, *args, **more)

    async def set_if_not_exists(self, key: str, *args: Any, **more: Any) -> None:
        self.check(key, replaced=True)
        await super().set_if_not_exists(key, *args, **more)

    async def delete(self, key: str) -> None:
        self.check(key, replaced=True)
        await super().delete(key)

    async def delete_dir(self, prefix: str) -> None:
        self.check(prefix)
        await super().delete_dir(prefix)

    def get_sync(self, key: str, **more: Any) -> Any:
        self.check(key)
        return super().get_sync(key, **more)

    def set_sync(self, key: str, value: Any) -> None:
        self.check(key, replaced=True)
        super().set_sync(key, value)

    def delete_sync(self, key: str) -> None:
        self.check(key, replaced=True)
        super().delete_sync(key)

    def check(self, key: str, *, replaced: bool = False) -> None:
        """Refuse a name that leads elsewhere; the last part of one that is replaced may be
        anything, since nothing is read or written through it."""
        path = self.root
        parts = [part for part in key.split("/") if part]
        for number, part in enumerate(parts, 1):
            path = path / part
            if replaced and number == len(parts):
                return
            try:
                mode = path.lstat().st_mode
            except (FileNotFoundError, NotADirectoryError):
                return
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                raise ValueError(f"{path} is {file_kind(mode)}, expected a file or a directory of "
                                 "the group")
