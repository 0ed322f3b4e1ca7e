"""Lines from files and pipes, as soon as they are available, each with its file and line number."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import UnsupportedOperation
from pathlib import Path
from typing import BinaryIO, Final

from log_format.limits import REQUEST_BYTES_MAX
from tidelog.cli.sources.unpacked import unpacked
from tidelog.cli.terminal.console import CommandFailed

STANDARD_STREAM: Final = Path("-")
_BLOCK_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line or row of the input, counted from 1 in its file."""

    path: Path
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        """Return the place for the user; standard input has no name."""
        return (
            f"{self.unit} {self.number}" if self.path == STANDARD_STREAM else f"{self.path}, {self.unit} {self.number}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    r"""Consecutive lines of a file without their line breaks (``\n``; a ``\r`` before it stays); the first is number
    ``first``."""

    path: Path
    first: int
    lines: list[bytes]

    def place(self, index: int) -> Place:
        """Return the place of the line at ``index``."""
        return Place(path=self.path, number=self.first + index)


def sources(files: list[Path] | None) -> list[Path]:
    """Return the files, or standard input if there are none. Raises ``FileNotFoundError`` before anything is read."""
    chosen = files or [STANDARD_STREAM]
    for path in chosen:
        if path != STANDARD_STREAM and not path.exists():
            raise FileNotFoundError(f"file {path} does not exist")
    return chosen


def read_blocks(path: Path, count_bytes: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """Yield decompressed blocks, each as soon as it is available. ``count_bytes``: is told how many stored bytes were read.

    Raises ``CommandFailed`` for a damaged compressed file, after yielding the data before the damage.
    """
    blocks = _stored_blocks(path)
    stored = blocks if count_bytes is None else _counted(blocks, count_bytes)
    return unpacked(path, "standard input" if path == STANDARD_STREAM else str(path), stored)


def _counted(blocks: Iterator[bytes], count_bytes: Callable[[int], None]) -> Iterator[bytes]:
    for block in blocks:
        count_bytes(len(block))
        yield block


def _stored_blocks(path: Path) -> Iterator[bytes]:
    if path == STANDARD_STREAM:
        try:
            descriptor = sys.stdin.fileno()
        except (UnsupportedOperation, ValueError):
            yield from iter(lambda: sys.stdin.buffer.read(_BLOCK_BYTES), b"")
            return
        # Bypass Python's buffer: a thread waiting in it would hold its lock at the end of the process.
        yield from iter(lambda: os.read(descriptor, _BLOCK_BYTES), b"")
        return
    with path.open("rb", buffering=0) as file:
        yield from _blocks(file)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


def read_lines(paths: Iterable[Path], count_bytes: Callable[[int], None] | None = None) -> Iterator[Lines]:
    """Yield the lines of the files, one file after another, in batches as they are read. ``count_bytes``: as for ``read_blocks``.

    Raises ``CommandFailed`` for a line longer than a request may be, and as ``read_blocks``.
    """
    for path in paths:
        first = 1
        rest = b""
        for block in read_blocks(path, count_bytes):
            *lines, rest = (rest + block).split(b"\n") if b"\n" in block else (rest + block,)
            for index, line in enumerate((*lines, rest) if len(rest) + len(block) > REQUEST_BYTES_MAX else lines):
                if len(line) > REQUEST_BYTES_MAX:
                    place = Place(path=path, number=first + index)
                    raise CommandFailed(
                        f"{place} has more than {REQUEST_BYTES_MAX} bytes, the most that a request may have"
                    )
            if lines:
                yield Lines(path=path, first=first, lines=lines)
                first += len(lines)
        if rest:
            yield Lines(path=path, first=first, lines=[rest])
