"""Bytes of an open file by offset, plain or compressed, and the file's identity by its descriptor.

A compressed file reads as its decompressed content: offsets count decompressed bytes, and going back restarts decompression. A
truncated stream is assumed to be still being written: its present part is read now, the rest when the file has grown.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from tidelog.unpacking import Unpacked

_SKIP_BYTES: Final = 1024 * 1024


class Content:
    """An open file. ``device`` and ``inode`` are its own, whichever file has its name meanwhile."""

    def __init__(self, path: str, compression: str | None, *, follow_links: bool = False) -> None:
        """Open the file. Raises ``OSError`` when it can't be opened or is no regular file.

        ``follow_links``: whether a link may lead to the file.
        """
        # Non-blocking: a pipe in place of a file must not stop the agent.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
        self._descriptor = os.open(path, flags)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise OSError(f"{path} is not a regular file")
        self.device = status.st_dev
        self.inode = status.st_ino
        self._compression = compression
        self._stream: Unpacked | None = None
        self._at = 0

    def stored_bytes(self) -> int:
        """Return the size on disk, compressed or not."""
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``offset``; fewer only at the end.

        Raises ``Damaged``, ``OSError``.
        """
        if self._compression is None:
            return self._read_plain(offset, size)
        if self._stream is None or offset < self._at:
            self._rewind()
        while self._at < offset:
            if not self._read_on(min(offset - self._at, _SKIP_BYTES)):
                return b""
        return self._read_on(size)

    @property
    def cut_off(self) -> bool:
        """Whether the last read reached the end of the file in the middle of a compressed stream."""
        return self._stream is not None and self._stream.cut_off

    @property
    def damaged(self) -> bool:
        """Whether a read reached a place that does not decompress; the bytes before it were returned."""
        return self._stream is not None and self._stream.damaged

    def undecompressed_bytes(self) -> int:
        """Return how many stored bytes were not decompressed for certain: those from the damage on, and a few before it."""
        return self.stored_bytes() - (0 if self._stream is None else self._stream.taken_bytes)

    def rewind(self) -> None:
        """Restart decompression at the next read, after a compressed file has grown."""
        self._stream = None

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _read_plain(self, offset: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        if not data or len(data) == size:
            return data
        pieces = [data]
        read = len(data)
        while read < size and (data := os.pread(self._descriptor, size - read, offset + read)):
            pieces.append(data)
            read += len(data)
        return b"".join(pieces)

    def _rewind(self) -> None:
        assert self._compression is not None
        at = 0

        def stored(size: int) -> bytes:
            # Not the descriptor's own position, which other streams share.
            nonlocal at
            data = os.pread(self._descriptor, size, at)
            at += len(data)
            return data

        self._stream = Unpacked(self._compression, stored)
        self._at = 0

    def _read_on(self, size: int) -> bytes:
        assert self._stream is not None
        data = self._stream.read_all(size)
        self._at += len(data)
        return data
