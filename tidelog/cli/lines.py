"""Lines from files and pipes, as soon as they are there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from io import UnsupportedOperation
from pathlib import Path
from typing import BinaryIO, Final

from log_format.limits import REQUEST_BYTES_MAX
from tidelog.cli.console import CommandFailed

STANDARD_INPUT: Final = Path("-")
_BLOCK_BYTES: Final = 4 * 1024 * 1024


def sources(files: list[Path] | None) -> list[Path]:
    """The files, or standard input when there are none. Raises ``FileNotFoundError`` before anything is read."""
    chosen = files or [STANDARD_INPUT]
    for path in chosen:
        if path != STANDARD_INPUT and not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
    return chosen


def read_blocks(path: Path) -> Iterator[bytes]:
    """What is there, block by block, as soon as it is there."""
    if path == STANDARD_INPUT:
        try:
            descriptor = sys.stdin.fileno()
        except (UnsupportedOperation, ValueError):
            yield from iter(lambda: sys.stdin.buffer.read(_BLOCK_BYTES), b"")
            return
        # Not through Python's buffer: a thread that waits in it would hold its lock at the end of the process.
        yield from iter(lambda: os.read(descriptor, _BLOCK_BYTES), b"")
        return
    with path.open("rb", buffering=0) as file:
        yield from _blocks(file)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


def read_lines(path: Path) -> Iterator[list[bytes]]:
    """The lines without their line breaks (``\\n``; a ``\\r`` before it stays), as many at a time as are there.

    Raises ``CommandFailed`` for a line longer than a request may be.
    """
    rest = b""
    for block in read_blocks(path):
        *lines, rest = (rest + block).split(b"\n") if b"\n" in block else (rest + block,)
        if len(rest) > REQUEST_BYTES_MAX or any(len(line) > REQUEST_BYTES_MAX for line in lines):
            raise CommandFailed(f"{path} has a line of more than {REQUEST_BYTES_MAX} bytes")
        if lines:
            yield lines
    if rest:
        yield [rest]
