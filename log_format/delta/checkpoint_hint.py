"""``_last_checkpoint``: where to start listing a table's log. The hint may be old, or name an object that is gone."""

from __future__ import annotations

import msgspec

from log_format import limits
from log_format.errors import ObjectMissing, ObjectTooLarge
from log_format.store import ObjectStore


class _Hint(msgspec.Struct):
    version: int
    size: int


def hinted_version(store: ObjectStore, key: str) -> int | None:
    """The version that the hint under ``key`` names; None without a readable one. Raises ``StoreUnavailable``."""
    try:
        return msgspec.json.decode(store.get(key, bytes_max=limits.CLUSTER_BYTES_MAX), type=_Hint).version
    except (ObjectMissing, ObjectTooLarge, msgspec.DecodeError):
        return None
