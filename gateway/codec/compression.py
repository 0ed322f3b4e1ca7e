"""Decodes the content encodings ``gzip`` and ``zstd``, piece by piece and never past a bound.

1. At most ``bytes_max`` decompressed bytes come out, whatever the stream claims. At no time is more than a piece beyond that in
   memory.
2. A stream that is cut, corrupt, or followed by something else is refused. Several members (gzip) or frames (zstd) in a row are
   one stream, as both formats say, up to ``MEMBERS_MAX``.
"""

from __future__ import annotations

import io
import zlib
from typing import IO, Any, Final, Protocol, cast

import zstandard

from gateway.codec.refusal import malformed, too_large
from log_format.errors import ErrorCode, RequestRefused

ZSTD_WINDOW_BYTES_MIN: Final = 8 * 1024 * 1024
"""A window that every zstd decoder must offer (RFC 8878); larger ones are offered only up to the bound on the output."""
MEMBERS_MAX: Final = 65_536
"""Members or frames of one stream: each costs about 2 µs, an empty gzip member too. Empty zstd frames cost next to nothing and
are not counted."""
_PIECE_BYTES: Final = 256 * 1024
_FED_BYTES: Final = 16 * 1024
"""zlib's input at a time: of that it copies all that lies after a member's end."""
_GZIP_WINDOW: Final = 31
"""zlib's number for the largest window with a gzip header."""
_HEADER: Final = "Content-Encoding"
_END_MARK: Final = b"the end of all frames"
_END_FRAME: Final = zstandard.ZstdCompressor(level=1, write_content_size=True).compress(_END_MARK)


class Decompressor:
    """Undoes the content encoding of one body. ``bytes_max`` bounds the decompressed size."""

    def __init__(self, encoding: str, bytes_max: int) -> None:
        """``encoding`` is the value of ``Content-Encoding``. Raises ``RequestRefused`` (415) unless it is gzip or zstd."""
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
        """The next ``chunk`` of the body, decompressed.

        Raises ``RequestRefused``: 400 ``INVALID_REQUEST`` when the stream is corrupt, 413 ``REQUEST_TOO_LARGE`` past the bound.
        After an error the decompressor must not be used again.
        """
        try:
            self._stream.write(chunk)
        except (zlib.error, zstandard.ZstdError):
            raise self._refusal("is corrupt") from None
        return self._output.taken()

    def finish(self) -> bytes:
        """The rest at the end of the body. Raises ``RequestRefused`` (400) when the stream is cut or corrupt."""
        try:
            whole = self._stream.ends_here()
        except zstandard.ZstdError:
            whole = False
        if not whole:
            raise self._refusal("is cut or corrupt")
        return self._output.taken()

    def _refusal(self, what: str) -> RequestRefused:
        return malformed(f"The {self._name} stream of the body {what}.", _HEADER)


class _Output:
    """Collects pieces, up to a bound."""

    __slots__ = ("_bytes_max", "_left", "_pieces")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left = bytes_max
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        """Take a piece. Raises ``RequestRefused`` (413) past the bound."""
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
        """Everything since the last call."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


class _Stream(Protocol):
    """A compressed stream that is written into an output."""

    def write(self, chunk: bytes) -> None:
        """Take more of it."""
        ...

    def ends_here(self) -> bool:
        """Whether the stream is whole. Nothing may be written afterwards."""
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
        # Output that the bound on a piece held back comes with the next byte of input or, without one, here.
        while not self._member.eof and (piece := self._member.decompress(b"", _PIECE_BYTES)):
            self._output.write(piece)
        return self._begun and self._member.eof


class _Zstd:
    """Of the library's decoders only the writer hands its output over in bounded pieces, but it does not say whether a frame is
    over. So at the end a frame of the gateway's own is written behind the body: exactly its content comes out only between
    frames. It goes in byte by byte: given a whole frame, the library tries that, and ignores a header whose first bytes it got
    before.
    """

    def __init__(self, output: _Output) -> None:
        window = max(ZSTD_WINDOW_BYTES_MIN, output.bytes_max)
        decoder = zstandard.ZstdDecompressor(max_window_size=window)
        self._sink: _Sink = _Sink(output)
        self._writer = decoder.stream_writer(cast("IO[bytes]", self._sink), write_size=_PIECE_BYTES, closefd=False)
        self._begun = False

    def write(self, chunk: bytes) -> None:
        if chunk:
            self._begun = True
            # One piece may be short because the chunk ends; each other short one ends a frame.
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
    """The library's writer writes to it; its output can be replaced."""

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
