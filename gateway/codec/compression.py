"""Decompression of the content encodings ``gzip`` and ``zstd``, in pieces and never beyond a bound.

1. At most ``bytes_max`` decompressed bytes are returned, whatever the stream claims. At no time is more than one piece beyond
   that in memory.
2. A stream that is truncated, corrupt, or followed by other bytes is refused. Several members (gzip) or frames (zstd) in a row
   are one stream, as both formats say, up to ``MEMBERS_MAX``.
"""

from __future__ import annotations

import io
import zlib
from typing import IO, Any, Final, Protocol, cast

import zstandard

from gateway.codec.refusal import malformed, too_large
from log_format.errors import ErrorCode, RequestRefused

ZSTD_WINDOW_BYTES_MIN: Final = 8 * 1024 * 1024
"""Window that every zstd decoder must support (RFC 8878); larger ones are supported only up to the bound on the output."""
MEMBERS_MAX: Final = 65_536
"""Most members or frames of one stream: each costs about 2 µs, an empty gzip member too. Empty zstd frames cost next to
nothing and are not counted."""
_PIECE_BYTES: Final = 256 * 1024
_FED_BYTES: Final = 16 * 1024
"""Size of the pieces in which zlib gets its input: it copies all bytes of a piece that follow the end of a member."""
_GZIP_WINDOW: Final = 31
"""zlib's number for the largest window with a gzip header."""
_HEADER: Final = "Content-Encoding"
_END_MARK: Final = b"the end of all frames"
_END_FRAME: Final = zstandard.ZstdCompressor(level=1, write_content_size=True).compress(_END_MARK)


class Decompressor:
    """Decompressor of one body. ``bytes_max`` bounds the decompressed size."""

    def __init__(self, encoding: str, bytes_max: int) -> None:
        """Choose by ``encoding``, the value of ``Content-Encoding``. Raise ``RequestRefused`` (415) unless it is gzip or zstd."""
        output = _Output(bytes_max)
        name = encoding.strip().lower()
        self._stream: _Stream
        if name == "zstd":
            self._stream = _Zstd(output)
        elif name in ("gzip", "x-gzip"):
            self._stream = _Gzip(output)
        else:
            raise RequestRefused(
                f"The content encoding {encoding[:100]!r} is not supported: gzip and zstd are, one at a time.",
                code=ErrorCode.UNSUPPORTED_MEDIA_TYPE,
                errors=[{"where": _HEADER, "what": "must be gzip, zstd or identity"}],
            )
        self._output = output
        self._name = name

    def feed(self, chunk: bytes) -> bytes:
        """Decompress the next ``chunk`` of the body.

        Raises ``RequestRefused``: 400 ``INVALID_REQUEST`` if the stream is corrupt, 413 ``REQUEST_TOO_LARGE`` beyond the bound.
        After an error the decompressor must not be used again.
        """
        try:
            self._stream.write(chunk)
        except (zlib.error, zstandard.ZstdError):
            raise self._refusal("is corrupt") from None
        return self._output.taken()

    def finish(self) -> bytes:
        """Return the rest at the end of the body. Raise ``RequestRefused`` (400) if the stream is truncated or corrupt."""
        try:
            whole = self._stream.ends_here()
        except zstandard.ZstdError:
            whole = False
        if not whole:
            raise self._refusal("is incomplete or corrupt")
        return self._output.taken()

    def _refusal(self, what: str) -> RequestRefused:
        return malformed(f"The {self._name} stream of the body {what}.", _HEADER)


class _Output:
    """Collector of pieces, up to a bound."""

    __slots__ = ("_bytes_max", "_left", "_pieces")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left = bytes_max
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        """Add a piece. Raise ``RequestRefused`` (413) beyond the bound."""
        self._left -= len(piece)
        if self._left < 0:
            self._pieces.clear()
            raise too_large(f"The body decompresses to more than {self._bytes_max} bytes.", self._bytes_max)
        self._pieces.append(bytes(piece))
        return len(piece)

    @property
    def bytes_max(self) -> int:
        return self._bytes_max

    def taken(self) -> bytes:
        """Return all bytes written since the last call."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


class _Stream(Protocol):
    """A compressed stream that is decompressed into an output."""

    def write(self, chunk: bytes) -> None:
        """Decompress more of the stream."""
        ...

    def ends_here(self) -> bool:
        """Return whether the stream is complete. Nothing may be written afterwards."""
        ...


class _Gzip:
    def __init__(self, output: _Output) -> None:
        self._output = output
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._begun = False
        self._members = 1

    def write(self, chunk: bytes) -> None:
        left = memoryview(chunk)
        while left:
            if self._member.eof:
                self._next_member()
            fed = left[:_FED_BYTES]
            self._begun = True
            self._output.write(self._member.decompress(fed, _PIECE_BYTES))
            rest = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            left = left[len(fed) - len(rest) :]

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MEMBERS_MAX:
            raise _too_many("gzip", "members")
        self._member = zlib.decompressobj(_GZIP_WINDOW)

    def ends_here(self) -> bool:
        # Output beyond the bound of a piece comes with the next byte of input or, if there is none, here.
        while not self._member.eof and (piece := self._member.decompress(b"", _PIECE_BYTES)):
            self._output.write(piece)
        return self._begun and self._member.eof


class _Zstd:
    """Decompressor of zstd. Only the library's writer returns its output in bounded pieces, but it does not tell whether a
    frame is complete. So at the end a frame of the gateway's own is written after the body: exactly its content comes out only
    if the body ended between frames. It is written byte by byte: given a whole frame, the library would ignore a header
    whose first bytes belong to the body."""

    def __init__(self, output: _Output) -> None:
        window = max(ZSTD_WINDOW_BYTES_MIN, output.bytes_max)
        decoder = zstandard.ZstdDecompressor(max_window_size=window)
        self._sink: _Sink = _Sink(output)
        self._writer = decoder.stream_writer(cast("IO[bytes]", self._sink), write_size=_PIECE_BYTES, closefd=False)
        self._begun = False

    def write(self, chunk: bytes) -> None:
        if chunk:
            self._begun = True
            # One piece may be short because the chunk ends; any other short piece ends a frame.
            self._sink.short_pieces_left += 1
            self._writer.write(chunk)

    def ends_here(self) -> bool:
        end = _Output(len(_END_MARK))
        self._sink.output = end
        self._sink.short_pieces_left += len(_END_FRAME)
        try:
            for byte in _END_FRAME:
                self._writer.write(bytes((byte,)))
        except RequestRefused:
            return False
        return self._begun and end.taken() == _END_MARK


class _Sink(io.RawIOBase):
    """File to which the library's writer writes; its output can be replaced."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self.output = output
        self.short_pieces_left = MEMBERS_MAX

    def write(self, piece: Any) -> int:
        if len(piece) < _PIECE_BYTES:
            self.short_pieces_left -= 1
            if self.short_pieces_left < 0:
                raise _too_many("zstd", "frames")
        return self.output.write(piece)


def _too_many(name: str, parts: str) -> RequestRefused:
    return malformed(
        f"The {name} stream of the body has more than {MEMBERS_MAX} {parts}: send fewer, larger ones.", _HEADER
    )
