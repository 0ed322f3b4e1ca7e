"""Detection of clients that read their answers too slowly.

1. A client that reads less than ``PROGRESS_BYTES_MIN`` of a pending answer within ``write_stall_ms`` is too slow.
2. While other requests wait for memory that the answer may hold, so is one that reads less than ``TAKEN_BYTES_MIN`` within
   ``UNREAD_MS``.
"""

from __future__ import annotations

from typing import Final

PROGRESS_BYTES_MIN: Final = 1024 * 1024
TAKEN_BYTES_MIN: Final = 256 * 1024
"""Size of the pieces given to the connection: a client of 1 Mbit/s reads one in time."""
UNREAD_MS: Final = 3_000
"""The system reports what a client has read in steps of up to a megabyte. Within a shorter time a client of a few Mbit/s would
seem to have read nothing."""


class AnswerPace:
    """The pace of one connection. Times are monotonic milliseconds."""

    __slots__ = ("_progress_at_ms", "_progress_bytes", "_taken_at_ms", "_taken_bytes", "_write_stall_ms")

    def __init__(self, write_stall_ms: int, now_ms: int) -> None:
        self._write_stall_ms = write_stall_ms
        self._progress_bytes = self._taken_bytes = 0
        self._progress_at_ms = self._taken_at_ms = now_ms

    def disconnect_reason(self, written_bytes: int, unsent_bytes: int, now_ms: int, *, is_needed: bool) -> str | None:
        """Return why the client has to be disconnected; None if it need not be. Call it once a second.

        ``is_needed``: whether other requests wait for memory that the answer may hold.
        """
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
