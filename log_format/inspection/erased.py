"""Whether anything that was erased is left in a store: reading a topic's objects without its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from log_format.errors import CorruptData, ObjectMissing
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import TYPED_NAMES
from log_format.segments.footer import PARQUET_ERRORS
from log_format.store import ObjectStore
from log_format.topic.erasures import Erasure, erase_records


def erased_in(store: ObjectStore, key: str, erasures: Sequence[Erasure], secret: bytes) -> Mapping[str, int]:
    """Return how many records of an object each of the requests is about, by its id; none, if the object is gone.

    Args:
        store: where the object is.
        key: the object's key: a segment, whatever the log says about it.
        erasures: the requests.
        secret: the cluster's key.

    Raises ``CorruptData`` for an object that is no segment, ``StoreUnavailable``.
    """
    found: Counter[str] = Counter()
    for records in read_segment_object(store, key):
        found.update(erase_records(records, erasures, secret).counts)
    return found


def read_segment_object(store: ObjectStore, key: str) -> Iterator[pa.Table]:
    """Yield the records of an object, a row group at a time: ``RECORD_SCHEMA`` and typed columns; nothing, if it is gone.

    Raises the same errors as ``erased_in``.
    """
    try:
        data = store.get(key)
    except ObjectMissing:
        return
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = [*RECORD_SCHEMA.names, *(name for name in TYPED_NAMES if name in file.schema_arrow.names)]
        for index in range(file.num_row_groups):
            table = file.read_row_group(index, columns=names, use_threads=False).select(names)
            plain = table.select(RECORD_SCHEMA.names).cast(RECORD_SCHEMA)
            for name in names[len(RECORD_SCHEMA) :]:
                plain = plain.append_column(name, table.column(name))
            yield plain
    except (*PARQUET_ERRORS, pa.ArrowInvalid) as problem:
        raise CorruptData(f"{key} is no segment: {problem}.", object=key) from problem
