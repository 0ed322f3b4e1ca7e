"""Unit tests of ``tidelog.bodies.partitioner``."""

from __future__ import annotations

import random

import pyarrow as pa

from log_format.records.partitioner import partition_for_keys
from tidelog.bodies.partitioner import partition_for_key


def test_it_agrees_with_the_formats_own() -> None:
    """One key at a time or a column at a time, with the cache and beyond it: the partition where Kafka puts the key.

    That the format's own agrees with Kafka is tested in ``tests/unit/log_format/records``.
    """
    source = random.Random(7)
    keys = [source.randbytes(length) for length in range(150) for _ in range(3)]
    assert [partition_for_key(key, 97) for key in keys] == partition_for_keys(pa.array(keys, pa.binary()), 97).tolist()
