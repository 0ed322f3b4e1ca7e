"""Cancelled delayed records: ``cancelled/<due, 15 digits>~<name>~<row, 10 digits>`` below the topic's ``scheduled_root``.

Keys are sorted by due time, so that a window finds its cancellations by one listing. Blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from log_format.store import ObjectStore


class Cancellation(NamedTuple):
    """A row of an object that must not be published."""

    due_ms: int
    name: str
    row: int

    def key(self, root: str) -> str:
        """Return the key. ``root``: the topic's ``scheduled_root``."""
        return f"{root}cancelled/{self.due_ms:015d}~{self.name}~{self.row:010d}"


def list_cancellations(store: ObjectStore, root: str, after_ms: int, until_ms: int) -> Iterator[Cancellation]:
    """Yield the cancellations due in ``(after_ms, until_ms]``. Raises ``StoreUnavailable``."""
    prefix = f"{root}cancelled/"
    for info in store.list(prefix, start_after=f"{prefix}{after_ms + 1:015d}"):
        parts = info.key.removeprefix(prefix).split("~")
        if len(parts) != 3 or not all(text.isascii() and text.isdigit() for text in (parts[0], parts[2])):
            continue
        if int(parts[0]) > until_ms:
            return
        yield Cancellation(int(parts[0]), parts[1], int(parts[2]))
