"""Read-ahead of whole lines in one thread while another sends earlier ones. The slower the sending, the larger the batches."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Final

from tidelog.cli.sources.lines import Lines
from tidelog.cli.terminal.console import CommandFailed

_AHEAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes read and not yet sent: one request's worth, and half of the largest request that a gateway accepts."""


class ReadAhead:
    """Iterable whose items are the lines of one file read since the last item, at least one."""

    def __init__(self, lines: Iterable[Lines]) -> None:
        self._lines = lines
        self._changed = threading.Condition()
        self._waiting: list[Lines] = []
        self._waiting_bytes = 0
        self._ended = False
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[Lines]:
        """Yield the lines. Raises what reading raised, after the lines read before."""
        threading.Thread(target=self._read, name="tidelog-read-ahead", daemon=True).start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
                self._changed.notify_all()
            if not waiting:
                if self._error is not None:
                    raise self._error
                return
            yield from _joined(waiting)

    def _read(self) -> None:
        try:
            for lines in self._lines:
                self._put(lines)
        except (OSError, CommandFailed) as error:
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _put(self, lines: Lines) -> None:
        size_bytes = sum(map(len, lines.lines)) + len(lines.lines)
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting or self._waiting_bytes + size_bytes <= _AHEAD_BYTES_MAX)
            self._waiting.append(lines)
            self._waiting_bytes += size_bytes
            self._changed.notify_all()


def _joined(parts: list[Lines]) -> Iterator[Lines]:
    """Yield adjacent parts of one file as one."""
    whole = parts[0]
    for part in parts[1:]:
        if part.path == whole.path and part.first == whole.first + len(whole.lines):
            whole = Lines(path=whole.path, first=whole.first, lines=whole.lines + part.lines)
            continue
        yield whole
        whole = part
    yield whole
