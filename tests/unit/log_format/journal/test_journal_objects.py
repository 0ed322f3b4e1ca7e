"""A journal's object gives back the records of many topics, each run by itself; damage is always noticed."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.errors import CorruptData
from log_format.journal.journal_object import EncodedObject, TopicRecords, decode_group, decode_index, encode_object
from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.limits import ROW_GROUP_BYTES_MAX, SEGMENT_WHOLE_BYTES_MAX
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.run import SegmentRef
from log_format.stores.memory import MemoryStore
from tests.support.records import records_of

PATH = "segments/one.parquet"
KEY = f"system/journals/0/{PATH}"


def part(topic: str, values: list[bytes], partitions: list[int]) -> TopicRecords:
    return TopicRecords(topic, f"{topic}-id", records_of(values), np.array(partitions, np.int32))


def many(count: int, size_bytes: int = 10) -> EncodedObject:
    """``count`` topics with two records each."""
    rng = np.random.default_rng(1)
    return encode_object(
        [part(f"t{n:04d}", [rng.bytes(size_bytes), rng.bytes(size_bytes)], [1, 0]) for n in range(count)]
    )


def stored(encoded: EncodedObject) -> tuple[MemoryStore, SegmentRef]:
    store = MemoryStore("test")
    store.put(KEY, encoded.data)
    return store, encoded.ref(PATH)


def test_records_come_back_run_by_run() -> None:
    """In order of topic id, partition and arrival, whichever topic came first; with their topic's name and offsets."""
    encoded = encode_object([part("b", [b"1", b"2", b"3"], [1, 0, 1]), part("a", [b"4"], [7]), part("b", [b"5"], [0])])
    assert [run[:4] for run in encoded.runs] == [("a-id", 7, 0, 1), ("b-id", 0, 1, 2), ("b-id", 1, 3, 2)]
    store, ref = stored(encoded)
    reader = JournalReader(store, cache_bytes=1 << 20)
    found = reader.read(JournalRunRef(0, ref, "b-id", 0, 40))
    assert found.column("value").to_pylist() == [b"2", b"5"]
    assert (found.column("offset").to_pylist(), found.column("partition").to_pylist()) == ([40, 41], [0, 0])
    with pytest.raises(CorruptData, match="nothing of topic b-id, partition 3"):
        reader.read(JournalRunRef(0, ref, "b-id", 3, 0))


def test_row_groups_end_at_four_mebibytes() -> None:
    """A large object is read by ranges: its footer, and the row groups of the run alone."""
    encoded = many(1_000, size_bytes=5_000)
    index = decode_index(encoded.data[encoded.footer_start :], encoded.ref(PATH))
    assert len(encoded.data) > 2 * ROW_GROUP_BYTES_MAX
    assert len(index.groups) == 3
    assert all(group.size_bytes < ROW_GROUP_BYTES_MAX * 1.1 for group in index.groups)
    store, ref = stored(encoded)
    reads: list[int] = []
    get_range = store.get_range
    store.get_range = lambda key, start, end: reads.append(end - start) or get_range(key, start, end)  # type: ignore[func-returns-value, method-assign]
    reader = JournalReader(store, cache_bytes=64 << 20)
    for run in encoded.runs:
        if run.first_row % 100 < 2:
            found = reader.read(JournalRunRef(0, ref, run.topic_id, run.partition, 5))
            expected = encoded.records.slice(run.first_row, run.record_count).column("value").to_pylist()
            assert found.column("value").to_pylist() == expected
    assert len(reads) == 1 + 3, "each once"


def test_a_run_may_span_row_groups() -> None:
    """Its records are joined."""
    values = [b"%03d" % n for n in range(300)]
    encoded = encode_object([part("a", values, [0] * 300)], row_group_bytes_max=2_000)
    index = decode_index(encoded.data[encoded.footer_start :], encoded.ref(PATH))
    assert len(index.groups) > 3
    store, ref = stored(encoded)
    found = JournalReader(store, cache_bytes=100).read(JournalRunRef(0, ref, "a-id", 0, 0))
    assert found.column("value").to_pylist() == values


def test_the_cache_keeps_to_its_bound() -> None:
    """What is read again comes from memory, and memory has its bound; what is larger is not kept."""
    encoded = many(200, size_bytes=5_000)
    assert len(encoded.data) > SEGMENT_WHOLE_BYTES_MAX
    store = MemoryStore("test")
    refs = [encoded.ref(f"segments/{n}.parquet") for n in range(5)]
    for ref in refs:
        store.put(f"system/journals/0/{ref.path}", encoded.data)
    reader = JournalReader(store, cache_bytes=5 << 20)
    for ref in refs * 2:
        reader.read(JournalRunRef(0, ref, "t0000-id", 0, 0))
        assert sum(size for _, size in reader._cached.values()) == reader._bytes <= 5 << 20
    assert reader._cached
    small = JournalReader(store, cache_bytes=10)
    small.read(JournalRunRef(0, refs[0], "t0000-id", 0, 0))
    assert small._bytes == 0
    assert not small._cached


def test_a_missing_object_is_corrupt_data() -> None:
    """It names the object."""
    encoded = many(2)
    with pytest.raises(CorruptData, match=r"segments/one\.parquet"):
        JournalReader(MemoryStore("test"), cache_bytes=1).read(JournalRunRef(0, encoded.ref(PATH), "t0000-id", 0, 0))


ENCODED = many(3)


@given(st.integers(0, len(ENCODED.data) - 1), st.integers(1, 255), st.sampled_from(["change", "cut", "drop"]))
def test_damage_is_noticed(position: int, xor: int, how: str) -> None:
    """Any changed, cut off or missing byte: only ``CorruptData``, never other records."""
    data = bytearray(ENCODED.data)
    match how:
        case "change":
            data[position] ^= xor
        case "cut":
            del data[position:]
        case _:
            del data[position]
    ref = ENCODED.ref(PATH)
    try:
        index = decode_index(bytes(data[ref.footer_start :]), ref)
        for number, group in enumerate(index.groups):
            decode_group(index, number, bytes(data[group.start : group.start + group.size_bytes]))
    except CorruptData:
        return
    assert how == "change"
    assert position < 4, "Parquet's leading magic is read by no reader of ranges"


def test_an_object_says_by_which_schemas_documents_were_judged() -> None:
    """Each run's records name theirs, in the order of the object; without such records its footer says nothing of schemas."""
    judged = part("b", [b"1", b"2", b"3"], [1, 0, 1])._replace(schemas=np.array([(7, -1), (7, 4), (8, -1)], np.int64))
    encoded = encode_object([judged, part("a", [b"4"], [0])])
    store, ref = stored(encoded)
    reader = JournalReader(store, cache_bytes=1 << 20)
    found = reader.read_judged(JournalRunRef(0, ref, "b-id", 1, 40))
    assert found.column("value").to_pylist() == [b"1", b"3"]
    assert found.column("value_document_schema").to_pylist() == [7, 8]
    assert found.column("key_document_schema").to_pylist() == [-1, -1]
    plain = reader.read_judged(JournalRunRef(0, ref, "a-id", 0, 0))
    assert plain.column("value_document_schema").to_pylist() == [-1]
    assert reader.read(JournalRunRef(0, ref, "b-id", 0, 0)).schema.equals(RECORD_SCHEMA)
    for parts in ([part("a", [b"4"], [0])], [part("a", [b"4"], [0])._replace(schemas=None)]):
        assert b"tidelog.documents" not in encode_object(parts).data


@pytest.mark.parametrize("documents", [b"[[3,7,-1]]", b"[[0,7,-1]]", b"[[-2,7,1]]", b"[[2,7]]   ", b"no JSON   "])
def test_schemas_that_are_not_those_of_the_records_are_noticed(documents: bytes) -> None:
    """Their number differs from that of the records, or the text is none."""
    schemas = np.array([(7, -1), (7, -1)], np.int64)
    encoded = encode_object([part("a", [b"1", b"2"], [0, 0])._replace(schemas=schemas)])
    footer = encoded.data[encoded.footer_start :]
    assert footer.count(b"[[2,7,-1]]") == 1
    wrong = footer.replace(b"[[2,7,-1]]", documents)
    ref = SegmentRef(PATH, len(encoded.data), encoded.footer_start, zlib.crc32(wrong))
    with pytest.raises(CorruptData, match="its footer"):
        decode_index(wrong, ref)
