"""Partition of a single key, as Kafka and the gateway choose it; hashes of short keys are cached."""

from __future__ import annotations

from functools import lru_cache

from log_format.records.murmur2 import positive_murmur2
from tidelog.limits import MURMUR2_CACHE_KEY_BYTES_MAX, MURMUR2_CACHE_KEYS


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of ``key`` among ``partition_count`` (1 or more)."""
    hash_ = _remembered(key) if len(key) <= MURMUR2_CACHE_KEY_BYTES_MAX else positive_murmur2(key)
    return hash_ % partition_count


_remembered = lru_cache(maxsize=MURMUR2_CACHE_KEYS)(positive_murmur2)
