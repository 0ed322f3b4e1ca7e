"""Any records come back as they went in; any bytes decode or raise ``CorruptData``, nothing else."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from log_format.errors import CorruptData
from log_format.records.schema import HEADERS, RECORD_SCHEMA, TIMESTAMP, TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from log_format.records.size import head_within, record_bytes
from log_format.segments.footer import Footer
from log_format.segments.reader import SegmentReader
from log_format.segments.run import SegmentRef
from log_format.segments.segment import (
    EncodedSegment,
    decode_footer,
    decode_row_group,
    decode_row_groups,
    encode_segment,
)
from log_format.stores.memory import MemoryStore

PATH = "segments/any.parquet"
OFFSET_MAX = 2**62
COMPRESSIONS = st.sampled_from(["zstd", "lz4", "snappy", "gzip", "uncompressed"])
BYTES = st.none() | st.binary(max_size=30) | st.sampled_from([b"again", b"and again"])
RECORD = st.fixed_dictionaries(
    {
        "timestamp_ms": st.integers(TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX),
        "key": BYTES,
        "value": BYTES,
        "headers": st.none()
        | st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": BYTES}), max_size=3),
    }
)
RUN = st.tuples(st.integers(0, OFFSET_MAX), st.lists(st.tuples(st.integers(1, 5), RECORD), min_size=1, max_size=12))
"""A base offset, and records with their distances."""


def table_of(runs: dict[int, tuple[int, list[tuple[int, dict[str, Any]]]]]) -> pa.Table:
    rows = []
    for partition in sorted(runs):
        offset, records = runs[partition]
        for distance, record in records:
            rows.append((partition, offset, record))
            offset += distance
    return pa.table(
        [
            pa.array([partition for partition, _, _ in rows], pa.int32()),
            pa.array([offset for _, offset, _ in rows], pa.int64()),
            pa.array([record["timestamp_ms"] * 1000 for _, _, record in rows], pa.int64()).cast(TIMESTAMP),
            pa.array([record["key"] for _, _, record in rows], pa.binary()),
            pa.array([record["value"] for _, _, record in rows], pa.binary()),
            pa.array([record["headers"] for _, _, record in rows], HEADERS),
        ],
        schema=RECORD_SCHEMA,
    )


RECORDS = st.dictionaries(st.integers(0, 9_999), RUN, min_size=1, max_size=4).map(table_of)


@given(records=RECORDS, compression=COMPRESSIONS, row_group_bytes_max=st.integers(1, 300))
def test_any_records_come_back(records: pa.Table, compression: str, row_group_bytes_max: int) -> None:
    """Whole and row group by row group; the runs cover exactly what is inside, and sizes add up to the object."""
    segment = encode_segment(records, compression=compression, row_group_bytes_max=row_group_bytes_max)
    ref = segment.ref(PATH)
    footer = decode_footer(segment.data[segment.footer_start :], ref)
    parts = [
        decode_row_group(footer, index, segment.data[group.start : group.end])
        for index, group in enumerate(footer.row_groups)
    ]
    assert pa.concat_tables(parts).equals(records)
    every = range(len(footer.row_groups))
    assert decode_row_groups(footer, every, memoryview(segment.data)[4 : ref.footer_start]).equals(records)
    assert sum(run.record_count for run in segment.runs) == records.num_rows
    assert 4 + sum(run.size_bytes for run in segment.runs) == ref.footer_start
    partitions, offsets = records.column("partition").to_pylist(), records.column("offset").to_pylist()
    times = [moment // 1000 for moment in records.column("timestamp").cast(pa.int64()).to_pylist()]
    for run in segment.runs:
        mine = [index for index, partition in enumerate(partitions) if partition == run.partition]
        assert (run.base_offset, run.end_offset) == (offsets[mine[0]], offsets[mine[-1]] + 1)
        assert run.record_count == len(mine)
        assert run.min_timestamp_ms == min(times[index] for index in mine)
        assert run.max_timestamp_ms == max(times[index] for index in mine)


@given(data=st.data(), records=RECORDS, row_group_bytes_max=st.integers(1, 300), whole=st.booleans())
def test_any_read_is_a_scan(data: st.DataObject, records: pa.Table, row_group_bytes_max: int, whole: bool) -> None:
    """Whatever the offsets, limits and row groups, the reader returns what a scan of the records would.

    Where the bytes are used up, records without any may be left for the next read: they could be in another row group.
    """
    segment = encode_segment(records, compression="lz4", row_group_bytes_max=row_group_bytes_max)
    store = MemoryStore()
    store.put(f"topics/t/{PATH}", segment.data)
    run = data.draw(st.sampled_from(segment.runs))
    start = data.draw(st.integers(max(0, run.base_offset - 2), run.end_offset + 1))
    end = data.draw(st.none() | st.integers(start, run.end_offset + 1))
    limits = {"bytes_max": data.draw(st.integers(0, 200)), "records_max": data.draw(st.integers(1, 15))}
    reader = SegmentReader(store, whole_object_bytes_max=1 << 20 if whole else 0)
    found = reader.read("t", segment.ref(PATH), run.partition, start, end_offset=end, **limits)
    kept = [
        partition == run.partition and start <= offset < (end if end is not None else 2**63)
        for partition, offset in zip(
            *(records.column(name).to_pylist() for name in ("partition", "offset")), strict=True
        )
    ]
    expected = head_within(records.filter(pa.array(kept)), **limits)
    if found.num_rows and record_bytes(found).sum() >= limits["bytes_max"]:
        assert not record_bytes(expected)[found.num_rows :].any()
        expected = expected.slice(0, found.num_rows)
    assert found.equals(expected)


def _segment() -> EncodedSegment:
    """Three runs in five row groups, headers in some, repeated keys in one."""
    runs = {
        partition: (
            100 * partition,
            [
                (
                    1,
                    {
                        "timestamp_ms": 1_763_683_200_000 + index,
                        "key": b"k%d" % (index % (3 + partition)),
                        "value": b'{"n": %d}' % index,
                        "headers": [{"key": "h", "value": b"%d" % index}] if partition == 1 else None,
                    },
                )
                for index in range(40)
            ],
        )
        for partition in range(3)
    }
    return encode_segment(table_of(runs), compression="zstd", row_group_bytes_max=1_200)


SEGMENT = _segment()
REF = SEGMENT.ref(PATH)
FOOTER_BYTES = SEGMENT.data[REF.footer_start :]
FOOTER = decode_footer(FOOTER_BYTES, REF)
MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "set", "cut", "insert", "copy"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=6,
)


def mutate(data: bytes, mutations: list[tuple[str, float, int]]) -> bytes:
    mutated = bytearray(data)
    for kind, where, value in mutations:
        position = int(where * len(mutated))
        if kind == "flip" and mutated:
            mutated[position] ^= 1 << value % 8
        elif kind == "set" and mutated:
            mutated[position] = value
        elif kind == "cut":
            del mutated[position : position + value]
        elif kind == "insert":
            mutated[position:position] = bytes([value])
        elif kind == "copy":
            mutated[position : position + 4] = mutated[value : value + 4]
    return bytes(mutated)


def decodes_or_is_corrupt(decode: Callable[[], object]) -> bool:
    """True when it decodes; every error but ``CorruptData`` with the segment's path passes through and fails the test."""
    try:
        decode()
    except CorruptData as problem:
        if problem.fields["segment"] != PATH:
            raise
        return False
    return True


def read_everything(footer: Footer, data: bytes) -> None:
    for index, group in enumerate(footer.row_groups):
        decode_row_group(footer, index, data[group.start : group.end]).validate(full=True)


@given(data=st.binary(max_size=200), crc_fits=st.booleans(), footer_start=st.integers(0, 1000))
def test_any_bytes_are_no_footer(data: bytes, crc_fits: bool, footer_start: int) -> None:
    """Random bytes never decode, also when the log has just their checksum."""
    crc32 = zlib.crc32(data) if crc_fits else 0
    ref = SegmentRef(PATH, footer_start + len(data), footer_start, crc32)
    assert not decodes_or_is_corrupt(lambda: decode_footer(data, ref))


@given(mutations=MUTATIONS)
def test_no_damage_to_a_footer_passes(mutations: list[tuple[str, float, int]]) -> None:
    """A footer with bytes changed, lost or added is refused."""
    damaged = mutate(FOOTER_BYTES, mutations)
    assert decodes_or_is_corrupt(lambda: decode_footer(damaged, REF)) == (damaged == FOOTER_BYTES)


@given(mutations=MUTATIONS, index=st.integers(0, len(FOOTER.row_groups) - 1))
def test_no_damage_to_a_row_group_passes(mutations: list[tuple[str, float, int]], index: int) -> None:
    """A row group with bytes changed, lost or added is refused."""
    group = FOOTER.row_groups[index]
    data = SEGMENT.data[group.start : group.end]
    damaged = mutate(data, mutations)
    assert decodes_or_is_corrupt(lambda: decode_row_group(FOOTER, index, damaged)) == (damaged == data)


@given(mutations=MUTATIONS)
def test_a_damaged_footer_with_its_checksum_decodes_or_is_corrupt(mutations: list[tuple[str, float, int]]) -> None:
    """Checksums are not what keeps other exceptions away: the writer of wrong bytes may have summed them up, too."""
    damaged = mutate(FOOTER_BYTES[:-8], mutations)
    damaged += len(damaged).to_bytes(4, "little") + b"PAR1"
    ref = SegmentRef(PATH, REF.footer_start + len(damaged), REF.footer_start, zlib.crc32(damaged))
    decodes_or_is_corrupt(lambda: read_everything(decode_footer(damaged, ref), SEGMENT.data))


@given(mutations=MUTATIONS, index=st.integers(0, len(FOOTER.row_groups) - 1))
def test_a_damaged_row_group_with_its_checksum_decodes_or_is_corrupt(
    mutations: list[tuple[str, float, int]], index: int
) -> None:
    """As for footers: what decodes is at least a valid table whose records are where the footer says."""
    group = FOOTER.row_groups[index]
    damaged = mutate(SEGMENT.data[group.start : group.end], mutations)
    changed = dataclasses.replace(group, size_bytes=len(damaged), crc32=zlib.crc32(damaged))
    groups = (*FOOTER.row_groups[:index], changed, *FOOTER.row_groups[index + 1 :])
    footer = dataclasses.replace(FOOTER, row_groups=groups)
    decodes_or_is_corrupt(lambda: decode_row_group(footer, index, damaged).validate(full=True))
