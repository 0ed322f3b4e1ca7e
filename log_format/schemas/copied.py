"""The object that says that a store is a copy of another, and when it was made.

The other store may have registered schemas since, and given ids that the copy does not know. So the copy skips ids before it
gives the next (``changes.Register``). What is in the topics of the copy was registered before: schemas are copied last.
"""

from __future__ import annotations

import msgspec

from log_format import layout
from log_format.errors import CorruptData, ObjectMissing
from log_format.limits import CLUSTER_BYTES_MAX
from log_format.store import ObjectStore, read_bounded


class CopiedAt(msgspec.Struct, frozen=True, kw_only=True):
    """When the copy was made, in ms since the epoch."""

    at_ms: int

    def encoded(self) -> bytes:
        """Return the object."""
        return msgspec.json.encode(self)


_DECODER = msgspec.json.Decoder(CopiedAt)


def copied_at_ms(store: ObjectStore) -> int:
    """Return when the store was copied from another; 0 if it was not. Raises ``StoreUnavailable``, ``CorruptData``."""
    try:
        return _DECODER.decode(read_bounded(store, layout.COPIED, CLUSTER_BYTES_MAX)).at_ms
    except ObjectMissing:
        return 0
    except ValueError as problem:
        raise CorruptData(f"{layout.COPIED} is damaged: {problem}.", object=layout.COPIED) from problem
