"""Unit tests of ``tidelog.bodies.partitioner``."""

from __future__ import annotations

import random

import pyarrow as pa

from log_format.records.partitioner import partition_for_keys
from tidelog.bodies.partitioner import partition_for_key

KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Of Kafka's own test, ``UtilsTest.testMurmur2``."""


def test_keys_go_where_kafka_puts_them() -> None:
    """A topic moved here from Kafka keeps its partitions."""
    for key, hash_ in KAFKA.items():
        assert partition_for_key(key, 10_000) == (hash_ & 0x7FFFFFFF) % 10_000


def test_it_agrees_with_the_formats_own() -> None:
    """One key at a time or a column at a time, with the cache and beyond it: the same partition."""
    source = random.Random(7)
    keys = [source.randbytes(length) for length in range(150) for _ in range(3)]
    assert [partition_for_key(key, 97) for key in keys] == partition_for_keys(pa.array(keys, pa.binary()), 97).tolist()
