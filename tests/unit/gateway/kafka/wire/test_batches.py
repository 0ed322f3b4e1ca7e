"""Record batches: what aiokafka writes is decoded alike, what is encoded it reads alike, and hostile bytes are refused."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.kafka.wire.batch_head import HEAD, OldMagic, WrongChecksum, encode_head, read_head, with_base_offset
from gateway.kafka.wire.compression import TooLarge
from gateway.kafka.wire.decoding import UnknownCodec, decode, decode_together
from gateway.kafka.wire.encoding import encode_batches
from gateway.kafka.wire.reading import Malformed
from log_format.records import single
from log_format.records.single import SingleRecord
from tests.support.cpu_time import is_cheap

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
REFUSALS = (Malformed, OldMagic, TooLarge, UnknownCodec)
BYTES_MAX = 1 << 20

maybe_bytes = st.none() | st.binary(max_size=200)
records = st.lists(
    st.tuples(
        st.integers(0, 4_000_000_000_000),
        maybe_bytes,
        maybe_bytes,
        st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=12),
    ),
    min_size=1,
    max_size=40,
)
codecs = st.sampled_from([0, 1, 2, 3, 4])


def batch_of(wanted: list[Record], codec: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for offset, (timestamp, key, value, headers) in enumerate(wanted):
        builder.append(offset, timestamp, key, value, headers)
    return bytes(builder.build())


def table_of(batch: bytes, now_ms: int = 7) -> pa.Table:
    view = memoryview(batch)
    return as_table(decode(read_head(view), view, now_ms, BYTES_MAX))


def as_table(records: pa.Table | SingleRecord) -> pa.Table:
    return single.records_to_table([records]) if isinstance(records, SingleRecord) else records


def listed(table: pa.Table) -> list[Record]:
    times = table.column("timestamp").combine_chunks().view(pa.int64()).to_pylist()
    rows = table.select(["key", "value", "headers"]).to_pylist()
    return [
        (micros // 1000, row["key"], row["value"], [(one["key"], one["value"]) for one in row["headers"] or ()])
        for micros, row in zip(times, rows, strict=True)
    ]


def placed(table: pa.Table, offsets: list[int]) -> pa.Table:
    partitions = pa.array([0] * len(offsets), pa.int32())
    return table.add_column(0, "offset", pa.array(offsets, pa.int64())).add_column(0, "partition", partitions)


@given(records, codecs)
def test_what_a_client_writes_is_decoded_alike(wanted: list[Record], codec: int) -> None:
    """Each key, value, null, header and timestamp, whatever the codec."""
    assert listed(table_of(batch_of(wanted, codec))) == wanted


@given(records, codecs, st.integers(0, 2**40), st.data())
def test_what_is_encoded_a_client_reads_alike(wanted: list[Record], codec: int, base: int, data: st.DataObject) -> None:
    """With gaps between offsets, before the first record and behind the last, as compaction leaves them."""
    gaps = data.draw(st.lists(st.integers(0, 1000), min_size=len(wanted) + 1, max_size=len(wanted) + 1))
    offsets = (base + np.cumsum(gaps[:-1]) + np.arange(len(wanted))).tolist()
    next_offset = offsets[-1] + 1 + gaps[-1]
    table = placed(table_of(batch_of(wanted)), offsets)
    cut = data.draw(st.integers(0, len(wanted)))
    batch = b"".join(encode_batches([table.slice(0, cut), table.slice(cut)], base, next_offset, codec=codec))
    read = DefaultRecordBatch(batch)
    assert read.validate_crc()
    assert (read.base_offset, read.next_offset) == (base, next_offset)
    assert [(one.offset, one.timestamp, one.key, one.value, list(one.headers)) for one in read] == [
        (offset, *record) for offset, record in zip(offsets, wanted, strict=True)
    ]


@given(records.filter(lambda wanted: len(wanted) <= 16), st.data())
def test_few_records_are_read_and_refused_as_many_are(wanted: list[Record], data: st.DataObject) -> None:
    """Record by record as by columns, whatever byte of them is another one."""
    batch = bytearray(batch_of(wanted))
    for _ in range(data.draw(st.integers(0, 2))):
        batch[data.draw(st.integers(HEAD.size, len(batch) - 1))] = data.draw(st.integers(0, 255))
    head, body = read_head(memoryview(batch_of(wanted))), bytes(batch[HEAD.size :])
    changed = memoryview(_with(head, body))

    def read(few_max: int) -> list[Record] | None:
        try:
            return listed(as_table(decode(head, changed, 7, BYTES_MAX, few_max=few_max)))
        except Malformed:
            return None

    assert read(0) == read(16)


@given(st.lists(records, min_size=1, max_size=4), st.booleans(), st.data())
def test_batches_are_read_and_refused_together_as_alone(
    wanted: list[list[Record]], has_times: bool, data: st.DataObject
) -> None:
    """One behind the other; whatever byte of them is another one, and where one batch ends amid the next one's record."""
    heads, batches = [], []
    for some in wanted:
        batch = bytearray(batch_of(some))
        for _ in range(data.draw(st.integers(0, 1))):
            batch[data.draw(st.integers(HEAD.size, len(batch) - 1))] = data.draw(st.integers(0, 255))
        head = read_head(memoryview(batch_of(some)))
        heads.append(head if has_times else replace(head, first_timestamp=-1))
        batches.append(memoryview(bytes(batch)))
    if data.draw(st.booleans()) and len(batches) > 1:
        cut = data.draw(st.integers(1, 20))
        batches[0], batches[1] = (
            batches[0][:-cut],
            memoryview(
                batches[1][: HEAD.size].tobytes() + batches[0][-cut:].tobytes() + batches[1][HEAD.size :].tobytes()
            ),
        )

    def alone() -> list[Record] | None:
        try:
            return [
                record
                for head, batch in zip(heads, batches, strict=True)
                for record in listed(as_table(decode(head, batch, 7, BYTES_MAX)))
            ]
        except Malformed:
            return None

    def together() -> list[Record] | None:
        try:
            return listed(decode_together(heads, batches, 7, BYTES_MAX))
        except Malformed:
            return None

    assert together() == alone()


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_192, 20_000])
def test_numbers_of_several_lengths_are_encoded_alike(count: int) -> None:
    """Offsets, times and lengths that need one, two or three bytes: those that change seldom, and those that change with each."""
    seldom: list[Record] = [(5 + index, None, b"v" * 90, []) for index in range(count)]
    often: list[Record] = [(5 + index % 2 * 100, b"k" * (index % 70), None, []) for index in range(count)]
    for wanted in (seldom, often):
        table = placed(table_of(batch_of(wanted)), list(range(count)))
        read = DefaultRecordBatch(b"".join(encode_batches([table], 0, count)))
        assert read.validate_crc()
        assert [(one.timestamp, one.key, one.value, list(one.headers)) for one in read] == wanted


def test_a_producer_s_batch_is_moved_without_another_checksum() -> None:
    """Its offset is another one, and so is the leader's epoch; all else is as it was sent."""
    batch = batch_of([(5, b"k", b"v", []), (6, None, b"w", [])])
    there = b"".join(with_base_offset(memoryview(batch), 77))
    read = DefaultRecordBatch(there)
    assert read.validate_crc()
    assert [(one.offset, one.timestamp, one.value) for one in read] == [(77, 5, b"v"), (78, 6, b"w")]
    assert (there[16:], there[12:16]) == (batch[16:], bytes(4))


def test_a_gap_without_records_is_an_empty_batch() -> None:
    """Its reader goes on behind it."""
    read = DefaultRecordBatch(b"".join(encode_batches([], 10, 25)))
    assert (read.base_offset, read.next_offset, list(read)) == (10, 25, [])


@pytest.mark.parametrize("count", [1, 511, 512, 513, 20_000])
def test_many_records_alike_are_as_one_by_one(count: int) -> None:
    """Those of one length are passed many at a time, also where others follow them."""
    wanted: list[Record] = [(5, None, b"x" * (90 if index % 3_000 else 91), []) for index in range(count)]
    assert listed(table_of(batch_of(wanted))) == wanted


def test_a_record_without_a_time_gets_the_gateway_s() -> None:
    """-1 is Kafka's word for none."""
    head, body = read_head(memoryview(batch_of([(5, None, b"x", [])]))), batch_of([(5, None, b"x", [])])[HEAD.size :]
    without = _with(head, body, first_timestamp=-1, max_timestamp=-1)
    assert listed(table_of(without, now_ms=99)) == [(99, None, b"x", [])]


def test_old_and_broken_batches_are_told_apart() -> None:
    """Magic 0 and 1, a wrong checksum, half a batch, two batches: each has its own refusal of Kafka's."""
    batch = batch_of([(5, b"k", b"v", [])])
    with pytest.raises(OldMagic):
        table_of(batch[:16] + b"\x01" + batch[17:])
    with pytest.raises(WrongChecksum):
        table_of(batch[:-1] + b"\x01")
    for broken in (b"", batch[:30], batch[:-1], batch + batch, batch + b"\0"):
        with pytest.raises(Malformed):
            table_of(broken)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_refused_at_the_bound(codec: int) -> None:
    """Little is decompressed of a batch that is a thousand times larger, and quickly."""
    bomb = batch_of([(5, None, bytes(64 << 20), [])], codec)

    def refuse() -> None:
        with pytest.raises(TooLarge):
            table_of(bomb)

    assert is_cheap(refuse, 2)


def test_very_many_headers_take_no_longer_than_their_bytes() -> None:
    """One record with a hundred thousand: they are read alike, and in a moment. Beyond the bound they are refused."""
    few: Record = (5, b"k", b"v", [("a", b"1")])
    many: Record = (5, None, b"", [("", None)] * 60_000)
    batch = batch_of([few, many, few])
    assert listed(table_of(batch)) == [few, many, few]
    assert is_cheap(lambda: listed(table_of(batch)), 2)
    with pytest.raises(TooLarge):
        table_of(batch_of([(5, None, b"", [("", None)] * 70_000)]))


@settings(max_examples=400)
@given(records, codecs, st.data())
def test_hostile_bytes_are_read_or_refused(wanted: list[Record], codec: int, data: st.DataObject) -> None:
    """Bytes that were changed under a right checksum: nothing else is raised, and nothing larger comes out."""
    batch = bytearray(batch_of(wanted, codec))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(HEAD.size - 4, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    body = bytes(batch[HEAD.size :])
    (count,) = struct.unpack_from(">i", batch, HEAD.size - 4)
    head = read_head(memoryview(batch_of(wanted, codec)))
    try:
        table = table_of(_with(head, body, count=count, last_offset_delta=count - 1))
    except REFUSALS:
        return
    assert table.num_rows == count
    table.validate(full=True)
    assert table.nbytes <= 64 * len(body) + 4096 or codec


def _with(head: Any, body: bytes, **fields: int) -> bytes:
    return encode_head(replace(head, **fields), [body]) + body
