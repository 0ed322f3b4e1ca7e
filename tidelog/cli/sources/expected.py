"""How many records files are expected to have, so that a bar has an end: by the lines of what was read of them so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.cli.sources.lines import STANDARD_STREAM, Lines


class ExpectedLines:
    """An estimate that gets better as the files are read. There is none for standard input and pipes, whose size nobody knows."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._stored_bytes: int | None = 0
        self._read_bytes = 0
        self._lines = 0
        for path in paths:
            if path == STANDARD_STREAM or not path.is_file():
                self._stored_bytes = None
                return
            self._stored_bytes += path.stat().st_size

    def count_bytes(self, read_bytes: int) -> None:
        """Note that so many stored bytes were read."""
        self._read_bytes += read_bytes

    def counted(self, batches: Iterable[Lines]) -> Iterator[Lines]:
        """Yield the batches, and count their lines."""
        for batch in batches:
            self._lines += len(batch.lines)
            yield batch

    @property
    def total(self) -> int | None:
        """Number of lines that the files seem to have; None while it can't be told."""
        if self._stored_bytes is None or not self._lines or not self._read_bytes:
            return None
        return max(self._lines, round(self._lines * self._stored_bytes / self._read_bytes))
