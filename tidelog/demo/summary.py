"""Order-independent checksum of records: the Python counterpart of ``spark_pipeline.record_checksum``.

A record's canonical bytes are the ASCII text ``partition/offset/timestamp/key length/value length/``, followed by the key's and
the value's bytes. Its numbers are decimal, the timestamp in milliseconds since the epoch, -1 the length of a null. The checksum
is the CRC-32 of those bytes. Records are summed up by their count, and the sum and exclusive or of their checksums.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Summary:
    """Order-independent summary of a set of records, equal for equal sets."""

    count: int = 0
    checksum_sum: int = 0
    checksum_xor: int = 0

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.count + other.count, self.checksum_sum + other.checksum_sum, self.checksum_xor ^ other.checksum_xor
        )


def checksum(partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> int:
    """Return the checksum of one record, in ``[0, 2**32)``."""
    key_length = -1 if key is None else len(key)
    value_length = -1 if value is None else len(value)
    text = b"%d/%d/%d/%d/%d/" % (partition, offset, timestamp_ms, key_length, value_length)
    return zlib.crc32(text + (key or b"") + (value or b""))


def summarize(records: pa.Table) -> Summary:
    """Return the summary of an Arrow table with ``partition``, ``offset``, ``timestamp`` (any unit), ``key`` and ``value``."""
    timestamps = records["timestamp"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    columns = [records["partition"], records["offset"], timestamps, records["key"], records["value"]]
    count = total = exclusive_or = 0
    for fields in zip(*(column.to_pylist() for column in columns), strict=True):
        one = checksum(*fields)
        count += 1
        total += one
        exclusive_or ^= one
    return Summary(count, total, exclusive_or)
