"""A large transaction cut into pieces, from the names of its batches alone."""

from __future__ import annotations

import re

import pytest

from log_format import limits
from log_format.errors import CorruptData
from log_format.transactions.pieces import split_pieces
from log_format.transactions.staged_index import (
    INDEX_BYTES_MAX,
    IndexedBatch,
    decode_index,
    encode_index,
    group_by_topic,
)
from log_format.transactions.staged_records import (
    StagedLane,
    incarnation_hash,
    parse_name,
    staged_key,
    staged_name,
    topic_hash,
)


def batch(partition: int, sequence: int, size_bytes: int = 10, records: int = 2) -> IndexedBatch:
    lane = StagedLane(partition, sequence, records)
    return IndexedBatch(staged_name(0, "t", lane, "u"), size_bytes, topic_hash("t"), lane)


def test_pieces_are_in_order_of_partition_and_of_what_came_first() -> None:
    """Also where sequences have begun anew at 0; a batch larger than a piece is one by itself."""
    batches = [batch(1, 2**31 - 2), batch(1, 0), batch(0, 0), batch(0, 2, 100), batch(0, 4)]
    pieces = split_pieces(batches, 20)
    assert [[(one.lane.partition, one.lane.sequence) for one in piece.batches] for piece in pieces] == [
        [(0, 0)],
        [(0, 2)],
        [(0, 4), (1, 2**31 - 2)],
        [(1, 0)],
    ]
    assert [dict(piece.counts) for piece in pieces] == [{0: 2}, {0: 2}, {0: 2, 1: 2}, {1: 2}]


def test_a_piece_has_a_bounded_number_of_batches() -> None:
    """Each takes memory beside its records."""
    pieces = split_pieces([batch(0, 2 * number) for number in range(10_000)], 1 << 30)
    assert [len(piece.batches) for piece in pieces] == [4_096, 4_096, 1_808]


def test_the_largest_transaction_has_an_index_and_pieces_of_bounded_size() -> None:
    """100,000 batches of 10 GiB in partitions with long numbers, in two topics with long names."""
    size = limits.KAFKA_TRANSACTION_BYTES_MAX // limits.KAFKA_TRANSACTION_BATCHES_MAX
    rows = [
        (
            staged_name(0, "tu"[number % 2] * 249, StagedLane(9_999 - number % 2, 2**31 - 1, 10**6, "0" * 8), "u" * 36),
            size,
        )
        for number in range(limits.KAFKA_TRANSACTION_BATCHES_MAX)
    ]
    data = encode_index(rows)
    assert len(data) < INDEX_BYTES_MAX // 4
    topics = group_by_topic(decode_index(data, "key"))
    assert [len(batches) for batches in topics] == [50_000, 50_000]
    pieces = [piece for batches in topics for piece in split_pieces(batches, 32 << 20)]
    assert 320 <= len(pieces) < 330
    assert all(sum(one.size_bytes for one in piece.batches) <= 32 << 20 for piece in pieces)


@pytest.mark.parametrize("data", [b"", b"{}", b'[["x", 1]]', b'[["../x.arrow", 1]]', b'[["00000000-aa-x-u.arrow", 1]]'])
def test_an_index_that_is_none_is_corrupt(data: bytes) -> None:
    """Whoever put it there: nothing outside of the transaction is read."""
    with pytest.raises(CorruptData):
        decode_index(data, "key")


def test_a_batchs_name_is_one_for_gateways_of_before() -> None:
    """One that does not know of incarnations must not pass over the batch: it would commit the transaction without it."""
    before = re.compile(
        r"([0-9]{8})-([0-9a-f]{20})-(x|[0-9]{1,18}|k([0-9]{1,9})\.([0-9]{1,10})\.([0-9]{1,10}))-[A-Za-z0-9-]+(?:\.arrow|\.json)"
    )
    unique = "0f8fad5b-d9cb-469f-a165-70867728950e"
    for incarnation in ("", incarnation_hash("i")):
        lane = StagedLane(3, 4, 5, incarnation)
        name = staged_name(0, "t", lane, unique)
        assert before.fullmatch(name), name
        staged = parse_name(name)
        assert staged is not None
        assert staged.lane == lane


def test_the_name_of_an_index_is_a_staged_object() -> None:
    """And nothing that leads out of the transaction's prefix."""
    assert staged_key("t", "a-1.index") == "system/transactions/staged/t/a-1.index"
    for name in ("../a.index", "a/b.index", ".index", "a.index.index"):
        with pytest.raises(CorruptData):
            staged_key("t", name)
