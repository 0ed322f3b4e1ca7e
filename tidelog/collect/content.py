"""The bytes of an open file by offset, plain or compressed, and what is known of the file by its descriptor.

A compressed file reads as what was compressed: offsets count decompressed bytes, and going back means beginning anew. A stream
that ends too early is still being written: what is there is read now, the rest when the file has grown.
"""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path
from typing import Final, Protocol

import zstandard

_COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
_INPUT_BYTES: Final = 64 * 1024
_SKIP_BYTES: Final = 1024 * 1024


class ContentDamaged(Exception):
    """A compressed file does not decompress; what was read before is right."""


def compression_of(path: str) -> str | None:
    """``gzip``, ``zstd`` or None, by the name."""
    return _COMPRESSIONS.get(Path(path).suffix)


class _Stream(Protocol):
    def read(self, size: int) -> bytes: ...


class Content:
    """An open file. ``device`` and ``inode`` are its own, whichever file has its name meanwhile."""

    def __init__(self, path: str, compression: str | None, *, follow_links: bool = False) -> None:
        """Raises ``OSError`` when it can't be opened or is no regular file.

        With ``follow_links`` a link may lead to that file.
        """
        # Not blocking: a pipe where a file was must not stop the agent.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
        self._descriptor = os.open(path, flags)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise OSError(f"{path} is no regular file")
        self.device = status.st_dev
        self.inode = status.st_ino
        self._compression = compression
        self._stream: _Stream | None = None
        self._at = 0

    def stored_bytes(self) -> int:
        """The size on disk, compressed or not."""
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``; fewer only at the end.

        Raises ``ContentDamaged``, ``OSError``.
        """
        if self._compression is None:
            return self._read_plain(offset, size)
        if self._stream is None or offset < self._at:
            self._rewind()
        while self._at < offset:
            if not self._read_on(min(offset - self._at, _SKIP_BYTES)):
                return b""
        return self._read_on(size)

    def rewind(self) -> None:
        """Begin anew at the next read, after a compressed file has grown."""
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
        source = _Source(self._descriptor)
        if self._compression == "gzip":
            self._stream = _GzipStream(source)
        else:
            self._stream = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)  # type: ignore[arg-type]
        self._at = 0

    def _read_on(self, size: int) -> bytes:
        assert self._stream is not None
        pieces: list[bytes] = []
        read = 0
        try:
            while read < size and (data := self._stream.read(size - read)):
                pieces.append(data)
                read += len(data)
        except (zlib.error, zstandard.ZstdError) as error:
            self._stream = None
            raise ContentDamaged(str(error)) from error
        self._at += read
        return b"".join(pieces)


class _Source:
    """The stored bytes from the first on, without the descriptor's own position."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._at = 0

    def read(self, size: int) -> bytes:
        data = os.pread(self._descriptor, size, self._at)
        self._at += len(data)
        return data


class _GzipStream:
    """The members of a gzip file one behind the other; zeros behind the last are padding."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._input = b""
        self._member = zlib.decompressobj(wbits=31)
        self._begun = False

    def read(self, size: int) -> bytes:
        while True:
            if self._member.eof:
                self._input = self._member.unused_data.lstrip(b"\0")
                self._member = zlib.decompressobj(wbits=31)
                self._begun = False
            if not self._input:
                self._input = self._source.read(_INPUT_BYTES)
                if not self._begun:
                    self._input = self._input.lstrip(b"\0")
            if not self._input and not self._begun:
                return b""
            fed = bool(self._input)
            data = self._member.decompress(self._input, size)
            self._begun = True
            self._input = self._member.unconsumed_tail
            if data or (not fed and not self._member.eof):
                return data
