"""Files that are not read completely: they can't be opened, are damaged, or end too early. Each is reported once."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.collect import limits
from tidelog.collect.journal import Journal, Level


class UnreadableFiles:
    """Registry of such files. ``lose``: called with the bytes of files that are given up."""

    def __init__(self, journal: Journal, lose: Callable[[int], None] = lambda _: None) -> None:
        self._journal = journal
        self._lose = lose
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._reasons)

    def report(self, path: str, reason: str) -> None:
        """Report a file that can't be read now, and is retried."""
        if self._note(path, reason):
            self._journal.report(Level.WARNING, "File can't be read", file=path, reason=reason)

    def damaged(self, path: str, *, from_offset: int, lost_bytes: int, reason: str) -> None:
        """Report a file that does not decompress from ``from_offset`` on. ``lost_bytes``: stored bytes after that."""
        if self._note(path, f"{reason}, {from_offset}"):
            self._lose(lost_bytes)
            self._journal.report(
                Level.ERROR, "File is damaged: it was read up to the damage", file=path, from_offset=from_offset,
                lost_bytes=lost_bytes, reason=reason,
            )  # fmt: skip

    def cut_off(self, path: str, *, offset: int) -> None:
        """Report a file that ends at ``offset``, in the middle of a compressed stream. The missing bytes were never in it."""
        if self._note(path, f"cut off at {offset}"):
            self._journal.report(
                Level.ERROR, "File ends in the middle of its compressed stream: it was read up to there", file=path,
                from_offset=offset,
            )  # fmt: skip

    def read(self, path: str) -> None:
        """Remove a file that was read after all."""
        self._reasons.pop(path, None)

    def _note(self, path: str, reason: str) -> bool:
        """Store the reason, and return whether it is new."""
        if self._reasons.get(path) == reason:
            return False
        if len(self._reasons) >= limits.FILES_MAX:
            self._reasons.clear()
        self._reasons[path] = reason
        return True
