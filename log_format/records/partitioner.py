"""The partition of a key by Kafka's default hash, so that records keep the partition that they had in Kafka.

``partition = (murmur2(key) & 0x7fffffff) % partition_count``; ``murmur2`` has the hash of one key.

The array form creates no Python object per key. It hashes all keys in parallel, one 4-byte word at a time. Keys are sorted by
length, longest first, so the keys that have another word are always a prefix. If a few keys are much longer than the rest, they
are finished one by one.

A null key gets -1: the caller decides its partition.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_format.limits import PARTITION_COUNT_MAX
from log_format.records.murmur2 import MASK, MULTIPLIER, POSITIVE, SEED, SHIFT, finish, positive_murmur2

_LONG_KEY_BYTES: Final = 128
"""Length from which a single key is hashed faster with numpy."""

_KEYS_MIN: Final = 64
"""Number of keys below which a step of numpy costs more than the same step in Python for each key."""

_WORDS_MIN: Final = 64
"""Number of words left below which finishing key by key does not pay."""

_BLOCK_KEYS: Final = 16_384
"""Number of keys hashed together, so that their columns stay in the processor's cache."""

_Words = npt.NDArray[np.uint32]
_Int64s = npt.NDArray[np.int64]


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of one key, in ``[0, partition_count)``. ``partition_count`` is 1 to ``PARTITION_COUNT_MAX``."""
    _check_partition_count(partition_count)
    if partition_count == 1:
        return 0
    if len(key) < _LONG_KEY_BYTES:
        return positive_murmur2(key) % partition_count
    words_end = len(key) & ~3
    return finish(_finish_words(SEED ^ len(key), key[:words_end]), key[words_end:]) % partition_count


def partition_for_keys(keys: pa.Array | pa.ChunkedArray, partition_count: int) -> npt.NDArray[np.int32]:
    """Return the partition of each key: an int32 array as long as ``keys``, -1 for a null key.

    ``keys`` is binary, or can be cast to binary without a copy, as string can; slices are fine. ``partition_count`` is 1 to
    ``PARTITION_COUNT_MAX``. Raises ``ValueError`` for another count.
    """
    _check_partition_count(partition_count)
    if not isinstance(keys, pa.ChunkedArray):
        return _partitions(keys, partition_count)
    if keys.num_chunks == 0:
        return np.empty(0, dtype=np.int32)
    return np.concatenate([_partitions(chunk, partition_count) for chunk in keys.chunks])


def _check_partition_count(partition_count: int) -> None:
    if not 1 <= partition_count <= PARTITION_COUNT_MAX:
        raise ValueError(f"partition_count is {partition_count}, not 1 to {PARTITION_COUNT_MAX}")


def _partitions(keys: pa.Array, partition_count: int) -> npt.NDArray[np.int32]:
    if len(keys) == keys.null_count:
        return np.full(len(keys), -1, dtype=np.int32)
    if not pa.types.is_binary(keys.type):
        keys = keys.cast(pa.binary())
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    # With four zero bytes after the last key, its last word can be read as a whole even if it is partial.
    padded = (bytes(data_buffer[first:last]) if data_buffer is not None else b"") + bytes(4)
    starts = offsets[:-1] - first
    lengths = np.diff(offsets)
    valid = None
    if keys.null_count:
        # A null slot's bytes in the data are arbitrary; hashing it as empty costs nothing.
        valid = keys.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.where(valid, lengths, 0)
    hashes = np.empty(len(keys), dtype=np.uint32)
    for block in range(0, len(keys), _BLOCK_KEYS):
        part = slice(block, block + _BLOCK_KEYS)
        hashes[part] = _murmur2(padded, starts[part], lengths[part])
    partitions = ((hashes & np.uint32(POSITIVE)) % np.uint32(partition_count)).astype(np.int32)
    if valid is not None:
        partitions[~valid] = -1
    return partitions


def _murmur2(padded: bytes, starts: _Int64s, lengths: _Int64s) -> _Words:
    """Return the hash of ``padded[start : start + length]`` for each pair."""
    word_counts = lengths >> 2
    fewest, most = int(word_counts.min()), int(word_counts.max())
    order = None
    if fewest != most:
        order = _longest_first(word_counts, most)
        starts, lengths, word_counts = starts[order], lengths[order], word_counts[order]
    descending = -word_counts
    # A view with a little-endian word at every byte position: unaligned reads instead of a copy per position.
    words = np.ndarray((len(padded) - 3,), dtype="<u4", buffer=padded, strides=(1,))
    hashes = np.uint32(SEED) ^ lengths.astype(np.uint32)
    multiplier = np.uint32(MULTIPLIER)
    for index in range(most):
        active = len(hashes) if index < fewest else int(np.searchsorted(descending, -index, side="left"))
        if active < _KEYS_MIN and most - index > _WORDS_MIN:
            _finish_longest(hashes, padded, starts[:active], word_counts[:active], index)
            break
        mixed = words[starts[:active] + 4 * index]
        mixed *= multiplier
        mixed ^= mixed >> np.uint32(SHIFT)
        mixed *= multiplier
        head = hashes[:active]
        head *= multiplier
        head ^= mixed
    tail_lengths = lengths & 3
    tails = words[starts + 4 * word_counts] & _TAIL_MASKS[tail_lengths]
    hashes = np.where(tail_lengths != 0, (hashes ^ tails) * multiplier, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= multiplier
    hashes ^= hashes >> np.uint32(15)
    if order is None:
        return hashes
    unordered = np.empty_like(hashes)
    unordered[order] = hashes
    return unordered


_TAIL_MASKS: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32)


def _longest_first(word_counts: _Int64s, most: int) -> npt.NDArray[np.intp]:
    descending = most - word_counts
    # numpy sorts 16-bit integers by radix, several times faster than wider ones.
    return np.argsort(descending.astype(np.uint16) if most <= 0xFFFF else descending, kind="stable")


def _finish_longest(hashes: _Words, padded: bytes, starts: _Int64s, word_counts: _Int64s, index: int) -> None:
    """Finish the hashes of the first ``len(starts)`` keys, from word ``index`` to the end of their whole words."""
    for number, (start, word_count) in enumerate(zip(starts.tolist(), word_counts.tolist(), strict=True)):
        hashes[number] = _finish_words(int(hashes[number]), padded[start + 4 * index : start + 4 * word_count])


def _finish_words(hash_: int, data: bytes) -> int:
    """Return ``hash_`` after the whole words of ``data``. Only the last step of each word depends on the word before."""
    mixed = np.frombuffer(data, dtype="<u4") * np.uint32(MULTIPLIER)
    mixed ^= mixed >> np.uint32(SHIFT)
    mixed *= np.uint32(MULTIPLIER)
    for word in mixed.tolist():
        hash_ = ((hash_ * MULTIPLIER) & MASK) ^ word
    return hash_
