"""Decompression of gzip, zstd, bzip2 and lz4 streams of any size, in bounded memory.

1. Data before a damaged place is returned before ``Damaged`` is raised; for lz4 all but less than 1 KiB of it.
2. A truncated stream ends normally, with ``cut_off`` set: the rest may still be written.
3. Concatenated streams are read as one. Zeros after the last one are padding of gzip.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

SUFFIXES: Final = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".lz4": "lz4"}
# bzip2's magic includes the level and a block's or the end's head: a line of text may begin with just its letters.
_MAGIC: Final = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    **{b"BZh%d%b" % (level, b"\x31\x41\x59\x26\x53\x59"): "bzip2" for level in range(1, 10)},
    **{b"BZh%d%b" % (level, b"\x17\x72\x45\x38\x50\x90"): "bzip2" for level in range(1, 10)},
}
MAGIC_BYTES: Final = max(map(len, _MAGIC))
_INPUT_BYTES: Final = 8 * 1024
_ZSTD_INPUT_BYTES: Final = 2 * 1024
"""Input per step. zstd's decompressor does not bound its output: this input becomes 64 MiB at worst."""
_LZ4_READ_BYTES: Final = 1024
"""Output per step, which is lost for lz4 if it ends at a damaged place."""

Source = Callable[[int], bytes]
"""Function that returns up to so many stored bytes; none at their end."""


class Damaged(Exception):
    """The stored bytes can't be decompressed; data returned before is right."""


def compression_of(path: str) -> str | None:
    """Return the compression of a file of this name, by its suffix."""
    return SUFFIXES.get(PurePath(path).suffix)


def compression_by_magic(head: bytes) -> str | None:
    """Return the compression of data that begins with ``head``, which has at least ``MAGIC_BYTES`` unless the data is shorter."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def may_be_magic(head: bytes) -> bool:
    """Return whether more bytes after ``head`` could make it the start of a compressed stream."""
    return any(magic.startswith(head) for magic in _MAGIC)


class Unpacked:
    """Decompressed view of a source, from its first byte on. ``cut_off``: the source ended before its stream did.

    Raises ``ModuleNotFoundError`` if zstandard is missing for zstd, or pyarrow for lz4.
    """

    def __init__(self, compression: str, source: Source) -> None:
        self.cut_off = False
        self.taken_bytes = 0
        """Number of stored bytes decompressed for certain: a damaged place is behind them."""
        self._source = source
        self._member = _DECOMPRESSORS[compression](self._read_stored)
        self._last = 0
        self._damage: Damaged | None = None

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, at least one; none at the end. Raises ``Damaged``."""
        if self._damage is not None:
            raise self._damage
        try:
            data: bytes = self._member.read(size)
        except Damaged as error:
            self._damage = error
            raise
        self.cut_off = self._member.cut_off
        return data

    def read_all(self, size: int) -> bytes:
        """Return ``size`` bytes; fewer only at the end, and before a damaged place. Raises ``Damaged`` at that place."""
        pieces: list[bytes] = []
        read = 0
        try:
            while read < size and (data := self.read(size - read)):
                pieces.append(data)
                read += len(data)
        except Damaged:
            if not pieces:
                raise
        return b"".join(pieces)

    @property
    def damaged(self) -> bool:
        """Whether a damaged place was reached."""
        return self._damage is not None

    def _read_stored(self, size: int) -> bytes:
        data = self._source(size)
        self.taken_bytes += self._last
        self._last = len(data)
        return data


class _Members:
    """Concatenated members, read by a decompressor like ``bz2.BZ2Decompressor``."""

    input_bytes = _INPUT_BYTES
    padding = b""

    def __init__(self, source: Source) -> None:
        self.cut_off = False
        self._source = source
        self._input = b""
        self._member = self._new()
        self._begun = False
        self._hungry = True

    def read(self, size: int) -> bytes:
        while True:
            if self._member.eof:
                self._input = self._member.unused_data
                self._member = self._new()
                self._begun, self._hungry = False, True
            if self._hungry and not self._input:
                self._input = self._source(self.input_bytes)
                ended = not self._input
            else:
                ended = False
            if not self._begun and self.padding:
                self._input = self._input.lstrip(self.padding)
                if not self._input and not ended:
                    continue
            if ended and not self._begun:
                self.cut_off = False
                return b""
            try:
                data = self._decompress(size)
            except (zlib.error, OSError, ValueError, EOFError) as error:
                raise Damaged(str(error)) from error
            self._begun = True
            if data or (ended and not self._member.eof):
                self.cut_off = not data
                return data

    def _new(self) -> Any:
        return bz2.BZ2Decompressor()

    def _decompress(self, size: int) -> bytes:
        data: bytes = self._member.decompress(self._input, size)
        self._input = b""
        self._hungry = self._member.eof or self._member.needs_input
        return data


class _Gzip(_Members):
    padding = b"\0"

    def _new(self) -> Any:
        return zlib.decompressobj(wbits=31)

    def _decompress(self, size: int) -> bytes:
        data: bytes = self._member.decompress(self._input, size)
        self._input = self._member.unconsumed_tail
        # A full output may leave more data inside the decompressor.
        self._hungry = self._member.eof or (not self._input and len(data) < size)
        return data


class _Zstd(_Members):
    input_bytes = _ZSTD_INPUT_BYTES

    def __init__(self, source: Source) -> None:
        import zstandard  # noqa: PLC0415 - only where there is something to decompress

        self._zstandard = zstandard
        self._ready = memoryview(b"")
        super().__init__(source)

    def read(self, size: int) -> bytes:
        if not self._ready:
            self._ready = memoryview(super().read(size))
        data, self._ready = self._ready[:size], self._ready[size:]
        return bytes(data)

    def _new(self) -> Any:
        return self._zstandard.ZstdDecompressor().decompressobj()

    def _decompress(self, size: int) -> bytes:  # noqa: ARG002 - zstandard can't bound its output
        if not self._input:
            return b""
        try:
            data: bytes = self._member.decompress(self._input)
        except self._zstandard.ZstdError as error:
            raise Damaged(str(error)) from error
        self._input = b""
        return data


class _Lz4:
    """Arrow's stream. It fails at a damaged place without the data of the same read, so reads are short."""

    def __init__(self, source: Source) -> None:
        import pyarrow as pa  # noqa: PLC0415 - only where there is something to decompress

        self.cut_off = False
        self._stream = pa.CompressedInputStream(pa.PythonFile(_Readable(source), "r"), "lz4")

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(min(size, _LZ4_READ_BYTES))
        except OSError as error:
            if "Truncated" not in str(error):
                raise Damaged(str(error)) from error
            self.cut_off = True
            return b""
        return data


class _Readable:
    """A source as a Python file object."""

    closed = False

    def __init__(self, source: Source) -> None:
        self.read = source

    def close(self) -> None:
        """Do nothing."""


_DECOMPRESSORS: Final[dict[str, Any]] = {"gzip": _Gzip, "zstd": _Zstd, "bzip2": _Members, "lz4": _Lz4}
