"""The object ``_last_checkpoint``: where to start listing a table's log. This hint may be stale, or name an object
that is gone."""

from __future__ import annotations

from typing import Final

import msgspec

from log_format import layout, limits
from log_format.errors import DECODE_ERRORS, ObjectMissing, ObjectTooLarge
from log_format.store import ObjectStore


class CheckpointHint(msgspec.Struct, frozen=True):
    """The newest checkpoint, and its number of parts if there are several. ``size``: its rows."""

    version: int
    size: int
    parts: int | None = None

    def key(self, root: str) -> str:
        """Return the key of the checkpoint of the table at ``root``, or of its first part."""
        return layout.table_checkpoint_keys(root, self.version)[self.parts is not None]


_decode: Final = msgspec.json.Decoder(CheckpointHint).decode


def read_hint(store: ObjectStore, root: str) -> CheckpointHint | None:
    """Return the hint of the table at ``root``; None without a readable one. Raises ``StoreUnavailable``."""
    key = layout.table_last_checkpoint_key(root)
    try:
        return _decode(store.get(key, bytes_max=limits.CLUSTER_BYTES_MAX))
    except (*DECODE_ERRORS, ObjectMissing, ObjectTooLarge):
        return None


def read_hinted_version(store: ObjectStore, root: str) -> int | None:
    """Return the version in the hint of the table at ``root``; None without a readable hint. Raises ``StoreUnavailable``."""
    hint = read_hint(store, root)
    return None if hint is None else hint.version
