"""A file in a store, opened to be read by ranges.

Tested by `tests/builders/storage/stores/test_errors.py`.
"""

from __future__ import annotations

import io
from typing import Any

from builders.storage.stores.errors import told


class RemoteFile(io.RawIOBase):
    """A file of fsspec whose errors are sentences.

    Args:
        opened: the file, opened to be read.
        address: its path, for messages.
    """

    def __init__(self, opened: Any, address: str) -> None:
        super().__init__()
        self._opened, self.name = opened, address

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read from anywhere: always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte; nothing is requested before something is read."""
        return int(self._opened.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; less is read at the end of the file alone.

        Raises:
            BuildError: the store refuses or fails.
            FileNotFoundError: the file was removed.
        """
        target = memoryview(buffer).cast("B")
        with told("read", self.name):
            data = self._opened.read(len(target))
        target[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        """Read bytes, all that are left if no size is given, in one request or from what was read ahead.

        Raises:
            BuildError, FileNotFoundError: as `readinto`.
        """
        with told("read", self.name):
            return bytes(self._opened.read(-1 if size is None else size))

    def readall(self) -> bytes:
        """Read all that is left."""
        return self.read(-1)

    def close(self) -> None:
        """Give what was read ahead back."""
        if not self.closed:
            self._opened.close()
        super().close()
