"""How much of a log's beginning clean-up may have deleted: a note beside the log, which saves listing it.

1. The note is an object ``_cleaned/<version, 20 digits>``: commits below that version may be gone. It is put before the first of
   them is deleted. So a version that no note lies above was never cleaned away.
2. That is what else a listing of the log from that version on would tell, which a bucket answers in one request, but a
   directory only when all of it is read (``ObjectStore.lists_from_key``).
3. A note goes once there are two of greater versions: a listing that runs meanwhile may show neither the one that goes nor the
   one that comes, but it shows the one between. Of notes there are two, or a few after a crash.
"""

from __future__ import annotations

from log_format import layout
from log_format.store import ObjectStore


def cleaned_below(store: ObjectStore, root: str) -> int:
    """Commits below this version of the table below ``root`` may have been deleted; 0: none. Raises ``StoreUnavailable``."""
    return max(_noted(store, root), default=0)


def note_cleaned(store: ObjectStore, root: str, version: int) -> None:
    """Say that commits below ``version`` are about to be deleted. Durable when this returns. Raises ``StoreUnavailable``."""
    noted = _noted(store, root)
    if version > max(noted, default=0):
        store.put(layout.table_cleaned_key(root, version), b"{}")
        noted.append(version)
    for other in sorted(noted)[:-2]:
        store.delete(layout.table_cleaned_key(root, other))


def _noted(store: ObjectStore, root: str) -> list[int]:
    names = (info.key.rpartition("/")[2] for info in store.list(layout.table_cleaned_prefix(root)))
    return [int(name) for name in names if name.isdecimal()]
