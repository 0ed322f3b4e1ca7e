"""Keys land where Kafka's default partitioner puts them, however they lie in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.limits import PARTITION_COUNT_MAX
from log_format.records.partitioner import partition_for_key, partition_for_keys

KAFKA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""From the unit test of Kafka's ``Utils.murmur2``."""


def murmur2(data: bytes) -> int:
    """The algorithm as its author wrote it, one word after another; a signed result as in Java."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    value = 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        value = value * multiplier & mask ^ word
    if whole != len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    value = (value ^ value >> 13) * multiplier & mask
    value ^= value >> 15
    return value - (1 << 32) if value >> 31 else value


def expected(key: bytes | None, partition_count: int) -> int:
    return -1 if key is None else (murmur2(key) & 0x7FFFFFFF) % partition_count


@pytest.mark.parametrize(("key", "hash_"), KAFKA_VECTORS.items())
def test_agrees_with_kafka(key: bytes, hash_: int) -> None:
    """Kafka's own vectors: a key keeps the partition that it had in Kafka."""
    assert murmur2(key) == hash_
    for partition_count in (1, 2, 7, 8, 100, PARTITION_COUNT_MAX):
        partition = (hash_ & 0x7FFFFFFF) % partition_count
        assert partition_for_key(key, partition_count) == partition
        assert partition_for_keys(pa.array([key]), partition_count).tolist() == [partition]


@given(
    keys=st.lists(st.none() | st.binary(max_size=40), max_size=60),
    partition_count=st.integers(1, PARTITION_COUNT_MAX),
    first=st.integers(0, 10),
    length=st.integers(0, 60),
)
def test_any_array_agrees_with_the_scalar_algorithm(
    keys: list[bytes | None], partition_count: int, first: int, length: int
) -> None:
    """Nulls, empty keys, mixed lengths, slices, chunks: each key by itself decides."""
    array = pa.array(keys, pa.binary()).slice(min(first, len(keys)), length)
    wanted = [expected(key, partition_count) for key in array.to_pylist()]
    assert partition_for_keys(array, partition_count).tolist() == wanted
    assert [-1 if key is None else partition_for_key(key, partition_count) for key in array.to_pylist()] == wanted
    chunked = pa.chunked_array([array, array.slice(1), array.slice(0, 0)])
    assert partition_for_keys(chunked, partition_count).tolist() == wanted + wanted[1:] + []


def test_lengths_that_take_every_path() -> None:
    """A few very long keys among many short ones, more keys than one block, and equal lengths give what the scalar gives."""
    short = [b"k%d" % index for index in range(20_000)]
    long = [bytes([index]) * (1000 + index) for index in range(5)]
    for keys in (short + long, [b"same-%04d" % index for index in range(300)], long, [b"\xff" * 70_001, b""]):
        assert partition_for_keys(pa.array(keys), 97).tolist() == [expected(key, 97) for key in keys]


def test_what_a_null_slot_spans_does_not_matter() -> None:
    """Arrow lets a null slot span any bytes; they belong to no key."""
    array = pa.array([b"abc", b"hidden", b"21"])
    masked = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(bytes([0b101])), *array.buffers()[1:]])
    assert masked.to_pylist() == [b"abc", None, b"21"]
    assert partition_for_keys(masked, 50).tolist() == [expected(b"abc", 50), -1, expected(b"21", 50)]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view()])
def test_other_layouts_of_the_same_bytes(type_: pa.DataType) -> None:
    """The hash is over the bytes, not over their Arrow type."""
    keys = pa.array(["abc", None, "", "füß"], pa.string()).cast(type_)
    assert partition_for_keys(keys, 8).tolist() == [
        expected(b"abc", 8),
        -1,
        expected(b"", 8),
        expected("füß".encode(), 8),
    ]


@pytest.mark.parametrize(
    "keys", [pa.array([], pa.binary()), pa.nulls(3, pa.binary()), pa.chunked_array([], pa.binary())]
)
def test_arrays_without_keys(keys: pa.Array) -> None:
    """Nothing to hash is no error."""
    assert partition_for_keys(keys, 4).tolist() == [-1] * len(keys)


@pytest.mark.parametrize("partition_count", [0, -1, PARTITION_COUNT_MAX + 1])
def test_impossible_partition_counts_are_refused(partition_count: int) -> None:
    """A wrong count would put records into partitions where no reader looks."""
    with pytest.raises(ValueError, match="partition_count"):
        partition_for_key(b"k", partition_count)
    with pytest.raises(ValueError, match="partition_count"):
        partition_for_keys(pa.array([b"k"]), partition_count)
