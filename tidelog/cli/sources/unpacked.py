"""Decompression of input: detected by its first bytes, since standard input has no name, and by a file's suffix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidelog.cli.terminal.console import CommandFailed
from tidelog.unpacking import MAGIC_BYTES, Damaged, Unpacked, compression_by_magic, compression_of, may_be_magic

_READ_BYTES: Final = 4 * 1024 * 1024


def unpacked(path: Path, name: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes of ``blocks``, decompressed if needed. ``path`` is their file, ``name`` its name in messages.

    Raises ``CommandFailed`` after the data that could be decompressed, when the rest can't be or is missing.
    """
    head = b""
    for block in blocks:
        head += block
        if len(head) >= MAGIC_BYTES or not may_be_magic(head):
            break
    compression = compression_by_magic(head)
    if compression is None:
        named = compression_of(str(path))
        if named is not None and head:
            raise CommandFailed(
                f"{name} has the suffix of {named} but is not {named}: rename it, or check that the file is complete"
            )
        if head:
            yield head
        yield from blocks
        return
    try:
        stream = Unpacked(compression, _Stored(head, blocks).read)
        while block := stream.read(_READ_BYTES):
            yield block
    except Damaged as error:
        raise CommandFailed(
            f"{name} is damaged: after {stream.taken_bytes:,} bytes it does not decompress as {compression} ({error})"
        ) from None
    except ModuleNotFoundError as error:
        raise CommandFailed(f"{name} is compressed with {compression}, and {error.name} is not installed") from None
    if stream.cut_off:
        raise CommandFailed(f"{name} ends in the middle of its {compression} stream: lines up to there were read")


class _Stored:
    """Source that serves blocks in arbitrary sizes."""

    def __init__(self, head: bytes, blocks: Iterator[bytes]) -> None:
        self._block = memoryview(head)
        self._blocks = blocks

    def read(self, size: int) -> bytes:
        if not self._block:
            self._block = memoryview(next(self._blocks, b""))
        data, self._block = self._block[:size], self._block[size:]
        return bytes(data)
