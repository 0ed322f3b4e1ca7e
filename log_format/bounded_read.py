"""Reading a whole object up to a limit, so that an oversized object in the bucket can't fill a reader's memory."""

from __future__ import annotations

from log_format.errors import CorruptData, ObjectTooLarge
from log_format.store import ObjectStore


def read_bounded(store: ObjectStore, key: str, bytes_max: int) -> bytes:
    """Return the object. Raises ``CorruptData`` for a larger one, without reading it; ``ObjectMissing``, ``StoreUnavailable``."""
    try:
        return store.get(key, bytes_max=bytes_max)
    except ObjectTooLarge as problem:
        raise CorruptData(
            f"{key} has {problem.size_bytes} bytes, and Tidelog writes at most {bytes_max} there: it was replaced.",
            object=key,
        ) from problem
