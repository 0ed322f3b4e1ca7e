"""The object ``_last_checkpoint``: where to start listing a table's log. This hint may be stale, or name an object
that is gone."""

from __future__ import annotations

from typing import Final

import msgspec

from log_format import layout, limits
from log_format.errors import ObjectMissing, ObjectTooLarge
from log_format.store import ObjectStore


class _Hint(msgspec.Struct):
    version: int
    size: int


_decode: Final = msgspec.json.Decoder(_Hint).decode


def read_hinted_version(store: ObjectStore, root: str) -> int | None:
    """Return the version in the hint of the table at ``root``; None without a readable hint. Raises ``StoreUnavailable``."""
    key = layout.table_last_checkpoint_key(root)
    try:
        return _decode(store.get(key, bytes_max=limits.CLUSTER_BYTES_MAX)).version
    except (ObjectMissing, ObjectTooLarge, msgspec.DecodeError):
        return None
