"""``format("tidelog")`` over topics at a journal: every acknowledged record once, in order, also while it is drained."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from log_format.errors import CorruptData
from log_format.layout import journal_root
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.batch import BatchReader
from spark_pipeline.source.options import parse_options
from spark_pipeline.source.stream import StreamReader
from tests.support.shared_bench import SharedBench
from tests.support.source_bench import SourceBench

Place = tuple[str, int, int, bytes]


@pytest.fixture
def shared(bench: SourceBench) -> SharedBench:
    """Topics ``s0`` to ``s2`` at a journal, beside ``t``."""
    made = SharedBench(bench.store)
    made.create("s0", "s1", "s2")
    return made


def batch_reader(**options: str) -> BatchReader:
    return BatchReader(
        parse_options({"store": "x", "subscribePattern": "s.*", **options}, streaming=False), KAFKA_SOURCE
    )


def stream_reader(**options: str) -> StreamReader:
    wanted = {"store": "x", "subscribePattern": "s.*", "startingOffsets": "earliest", **options}
    return StreamReader(parse_options(wanted, streaming=True), KAFKA_SOURCE)


def places(batches: Iterable[pa.RecordBatch]) -> list[Place]:
    names = ("topic", "partition", "offset", "value")
    return [
        place for batch in batches for place in zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    ]


def micro_batch(
    reader: StreamReader, start: dict[str, dict[str, int]]
) -> tuple[dict[str, dict[str, int]], list[Place]]:
    end = reader.latestOffset(start, ReadAllAvailable())
    return end, [place for task in reader.partitions(start, end) for place in places(reader.read(task))]


def test_records_are_read_before_and_while_they_move(shared: SharedBench) -> None:
    """Produced, drained with and without the journal knowing, by turns: a stream and batches give each record once."""
    dice = random.Random(7)
    reader = stream_reader()
    position, streamed = reader.initialOffset(), list[Place]()
    sent: dict[str, int] = {"s0": 0, "s1": 0, "s2": 0}
    for _ in range(40):
        topic = dice.choice(list(sent))
        match dice.choice(["flush", "flush", "drain", "drain unnoted", "look"]):
            case "flush":
                shared.flush({name: [b"%d" % sent[name]] for name in sent})
                sent = {name: count + 1 for name, count in sent.items()}
            case "drain":
                shared.drain(topic)
            case "drain unnoted":
                shared.drain(topic, note=False)
            case _:
                position, found = micro_batch(reader, position)
                streamed += found
    position, found = micro_batch(reader, position)
    streamed += found
    reader.stop()
    expected = [(topic, 0, offset, b"%d" % offset) for topic, count in sent.items() for offset in range(count)]
    assert sorted(streamed) == expected
    assert [each for topic in sent for each in streamed if each[0] == topic] == expected
    batch = batch_reader()
    assert sorted(place for task in batch.partitions() for place in places(batch.read(task))) == expected


@pytest.mark.parametrize("noted", [True, False])
def test_a_plan_stays_readable_while_its_records_move(shared: SharedBench, noted: bool) -> None:
    """Drained between planning and reading, even with the objects gone: the records are in the table by then."""
    shared.flush({"s0": [b"0", b"1"], "s1": [b"0"]})
    reader = batch_reader()
    (task,) = reader.partitions()
    assert {part.journal for part in task.parts} == {0}
    for topic in ("s0", "s1"):
        shared.drain(topic, note=noted)
    for info in list(shared.store.list(f"{journal_root(0)}segments/")):
        shared.store.delete(info.key)
    assert sorted(places(reader.read(task))) == [("s0", 0, 0, b"0"), ("s0", 0, 1, b"1"), ("s1", 0, 0, b"0")]


def test_an_object_that_was_lost_before_it_was_drained_is_an_error(shared: SharedBench) -> None:
    """Not an empty result."""
    shared.flush({"s0": [b"0"]})
    reader = batch_reader()
    (task,) = reader.partitions()
    for info in list(shared.store.list(f"{journal_root(0)}segments/")):
        shared.store.delete(info.key)
    with pytest.raises(CorruptData, match="is missing"):
        list(reader.read(task))


def test_many_topics_of_one_object_cost_one_request(bench: SourceBench, shared: SharedBench) -> None:
    """To look, to read: as many requests with a hundred topics as with one. Small batches are joined."""
    names = [f"s{number}" for number in range(100)]
    shared.create(*names[3:])
    shared.flush({name: [b"0"] for name in names})
    reader = stream_reader()
    position, _ = micro_batch(reader, reader.initialOffset())
    for number in range(2):
        shared.flush({name: [b"%d" % number] for name in names})
    bench.store.calls.clear()
    end = reader.latestOffset(position, ReadAllAvailable())
    (task,) = reader.partitions(position, end)
    listings = bench.store.calls.pop("list_directories")
    assert (listings, bench.store.calls) == (1, {"get": 3})
    bench.store.calls.clear()
    batches = list(reader.read(task))
    assert bench.store.calls == {"get": 2}
    assert [batch.num_rows for batch in batches] == [200]
    found = places(batches)
    assert [each for name in names for each in found if each[0] == name] == [
        (name, 0, offset, b"%d" % (offset - 1)) for name in names for offset in (1, 2)
    ]
    reader.stop()


def test_timestamps_are_found_in_a_journal(shared: SharedBench) -> None:
    """Where a query by time begins and ends, in the table, in the journal, and beyond."""
    shared.append("s0", b"0", b"1", timestamps_ms=[10, 20])
    shared.drain("s0")
    shared.append("s0", b"2", b"3", timestamps_ms=[30, 40])

    def offsets(**options: str) -> list[int]:
        reader = batch_reader(subscribePattern="s0", **options)
        return sorted(place[2] for task in reader.partitions() for place in places(reader.read(task)))

    lenient = {"startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(startingTimestamp="15", **lenient) == [1, 2, 3]
    assert offsets(startingTimestamp="31", **lenient) == [3]
    assert offsets(startingTimestamp="41", **lenient) == []
    assert offsets(endingTimestamp="40") == [0, 1, 2]
