"""Key -> partition for one key, without numpy. The gateway's own choice is the same: Kafka's default hash.

``partition = (murmur2(key) & 0x7fffffff) % partition_count``; murmur2 is the 32-bit MurmurHash2 with seed ``0x9747b28c``,
as ``org.apache.kafka.common.utils.Utils.murmur2`` has it. ``log_format.records.partitioner`` does the same for whole Arrow
columns.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from tidelog.limits import MURMUR2_CACHE_KEY_BYTES_MAX, MURMUR2_CACHE_KEYS

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of ``key`` among ``partition_count``, which is 1 or more."""
    hash_ = _remembered(key) if len(key) <= MURMUR2_CACHE_KEY_BYTES_MAX else _positive_murmur2(key)
    return hash_ % partition_count


def _positive_murmur2(key: bytes) -> int:
    length = len(key)
    word_count = length >> 2
    hash_ = _SEED ^ length
    for word in struct.unpack_from(f"<{word_count}I", key):
        mixed = (word * _MULTIPLIER) & _MASK
        mixed = ((mixed ^ (mixed >> 24)) * _MULTIPLIER) & _MASK
        hash_ = ((hash_ * _MULTIPLIER) & _MASK) ^ mixed
    if length & 3:
        hash_ = ((hash_ ^ int.from_bytes(key[word_count << 2 :], "little")) * _MULTIPLIER) & _MASK
    hash_ = ((hash_ ^ (hash_ >> 13)) * _MULTIPLIER) & _MASK
    return (hash_ ^ (hash_ >> 15)) & 0x7FFFFFFF


_remembered = lru_cache(maxsize=MURMUR2_CACHE_KEYS)(_positive_murmur2)
