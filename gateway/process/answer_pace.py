"""Watches how fast a client takes an answer, and when that is too slow.

1. Less than ``PROGRESS_BYTES_MIN`` of a waiting answer in ``write_stall_ms`` is too little for any client.
2. While others wait for memory that the answer may hold, so is less than ``TAKEN_BYTES_MIN`` in ``UNREAD_MS``.
"""

from __future__ import annotations

from typing import Final

PROGRESS_BYTES_MIN: Final = 1024 * 1024
TAKEN_BYTES_MIN: Final = 256 * 1024
"""Bytes given to the connection at a time: a client of 1 Mbit/s takes them in time."""
UNREAD_MS: Final = 3_000
"""The system reports what a client took in steps of up to a megabyte. Over a shorter time a client of a few Mbit/s would seem to
stand still."""


class AnswerPace:
    """The pace of one connection. Times are monotonic milliseconds."""

    __slots__ = ("_progress_at_ms", "_progress_bytes", "_taken_at_ms", "_taken_bytes", "_write_stall_ms")

    def __init__(self, write_stall_ms: int, now_ms: int) -> None:
        self._write_stall_ms = write_stall_ms
        self._progress_bytes = self._taken_bytes = 0
        self._progress_at_ms = self._taken_at_ms = now_ms

    def fault(self, written_bytes: int, unsent_bytes: int, now_ms: int, *, is_needed: bool) -> str | None:
        """Why the client is to be cut off; None: it is not. To be asked about once a second. ``is_needed``: others wait for its
        memory."""
        taken_bytes = written_bytes - unsent_bytes
        if not unsent_bytes or taken_bytes - self._taken_bytes >= TAKEN_BYTES_MIN:
            self._taken_bytes, self._taken_at_ms = taken_bytes, now_ms
        if not unsent_bytes or taken_bytes - self._progress_bytes >= PROGRESS_BYTES_MIN:
            self._progress_bytes, self._progress_at_ms = taken_bytes, now_ms
        elif now_ms - self._progress_at_ms > self._write_stall_ms:
            return "a client does not read its answer"
        elif is_needed and now_ms - self._taken_at_ms > UNREAD_MS:
            return "a client does not read its answer while others wait for memory"
        return None
