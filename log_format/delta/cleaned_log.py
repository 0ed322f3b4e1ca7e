"""A note next to a log that says how many of its first commits clean-up may have deleted, so that no reader must list the log.

1. The note is an object ``_cleaned/<version, 20 digits>``: commits below that version may be gone. Clean-up writes the note
   before it deletes the first of them. So a version with no note above it was never cleaned away.
2. A listing of the log from that version on says the same. A bucket answers that in one request, but a directory must be read as
   a whole (``ObjectStore.lists_from_key``).
3. Clean-up deletes a note once two notes of greater versions exist. A concurrent listing may miss the deleted note and the newest
   one, but not the one between. There are two notes, or a few more after a crash.
"""

from __future__ import annotations

from log_format import layout
from log_format.store import ObjectStore


def cleaned_below(store: ObjectStore, root: str) -> int:
    """Return the version below which commits of the table may have been deleted; 0 if none was. Raises ``StoreUnavailable``."""
    return max(_list_notes(store, root), default=0)


def note_cleaned(store: ObjectStore, root: str, version: int) -> None:
    """Note that commits below ``version`` are about to be deleted. Durable on return. Raises ``StoreUnavailable``."""
    noted = _list_notes(store, root)
    if version > max(noted, default=0):
        store.put(layout.table_cleaned_key(root, version), b"{}")
        noted.append(version)
    for other in sorted(noted)[:-2]:
        store.delete(layout.table_cleaned_key(root, other))


def _list_notes(store: ObjectStore, root: str) -> list[int]:
    names = (info.key.rpartition("/")[2] for info in store.list(layout.table_cleaned_prefix(root)))
    return [int(name) for name in names if name.isdecimal()]
