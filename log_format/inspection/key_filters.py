"""Checks of a segment's filters on keys: they are those that the log names, and rule out no key that is there.

The second check takes a few keys of each row group. A filter that rules out a key that is there would hide it from an erasure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from log_format.segments.key_filters import FooterT, KeyFilters, as_hashes, hash_key, read_filters
from log_format.segments.run import SegmentRef
from log_format.store import ObjectStore

KEYS_OF_ROW_GROUP: Final = 16
"""Number of keys that are looked for in a row group's filter: Python hashes one in some 5 µs."""


class CheckedFilters(Generic[FooterT]):
    """The footer and filters of a segment. ``problem``: what is wrong with the filters, so far.

    Args:
        store: where the segment is.
        key: its key there.
        segment: the segment.
        filters: its filters, by the log.
        decode: decodes its footer.

    Raises ``CorruptData`` for a damaged footer, ``ObjectMissing``, ``StoreUnavailable``.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        segment: SegmentRef,
        filters: KeyFilters | None,
        decode: Callable[[bytes | memoryview, SegmentRef], FooterT],
    ) -> None:
        self._path = segment.path
        self.problem: str | None = None
        read = None if filters is None else read_filters(store, key, segment, filters, decode)
        if filters is not None and read is None:
            self.problem = f"The filters on keys of segment {segment.path} do not match the log."
        self._may_have = None if read is None else read[1]
        if read is None:
            self.footer = decode(store.get_range(key, segment.footer_start, segment.size_bytes), segment)
        else:
            self.footer = read[0]

    def check(self, index: int, keys: pa.ChunkedArray) -> None:
        """Look for some keys of a row group in its filter."""
        if self._may_have is None or self.problem is not None:
            return
        places = np.unique(np.linspace(0, len(keys) - 1, KEYS_OF_ROW_GROUP).astype(np.int64))
        for found in pc.drop_null(keys.take(pa.array(places))).to_pylist():
            if not self._may_have(index, as_hashes([hash_key(found)])):
                self.problem = f"The filters on keys of segment {self._path} rule out a key that it has."
                return
