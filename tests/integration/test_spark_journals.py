"""Topics at a journal through Spark: every acknowledged record once, while drains move them into the topics' tables."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from log_format.inspection.journal import verify_journal
from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from spark_pipeline import Way, read_topic
from tests.support.shared_bench import SharedBench

Place = tuple[str, int, int, bytes]
TOPICS = tuple(f"shared-{number}" for number in range(20))


def places(rows: list[Row]) -> list[Place]:
    return [(row["topic"], row["partition"], row["offset"], bytes(row["value"])) for row in rows]


def loaded(spark: SparkSession, store: str, **options: str) -> DataFrame:
    return spark.read.format("tidelog").options(store=store, **options).load()


class Produced:
    """Flushes and drains of a bench, and what readers have to find."""

    def __init__(self, bench: SharedBench, seed: int) -> None:
        self._bench = bench
        self._dice = random.Random(seed)
        self._sent = dict.fromkeys(TOPICS, 0)

    def flush(self) -> None:
        """A record to some of the topics, in one object."""
        chosen = self._dice.sample(TOPICS, 12)
        self._bench.flush({topic: [b"%d" % self._sent[topic]] for topic in chosen})
        for topic in chosen:
            self._sent[topic] += 1

    def drain(self) -> None:
        """A few topics; sometimes the journal does not learn of it."""
        for topic in self._dice.sample(TOPICS, 3):
            self._bench.drain(topic, note=self._dice.random() < 0.7)

    def expected(self) -> list[Place]:
        """Every record that was acknowledged."""
        return sorted(
            (topic, 0, offset, b"%d" % offset) for topic, count in self._sent.items() for offset in range(count)
        )


def test_a_stream_gives_each_record_once_while_drains_happen(spark: SparkSession, tmp_path: Path) -> None:
    """In order within each partition; also when it is stopped and goes on from its checkpoint."""
    store = str(tmp_path / "log")
    bench = SharedBench(open_store(store))
    bench.create(*TOPICS)
    produced = Produced(bench, seed=11)
    produced.flush()
    batches: dict[int, list[Place]] = {}
    has_begun = threading.Event()
    records = spark.readStream.format("tidelog").options(store=store, startingOffsets="earliest")

    def take(batch: DataFrame, number: int) -> None:
        found = places(batch.collect())
        # A batch that a stop interrupted is run again: it has the same records, wherever they are by now.
        assert sorted(batches.get(number, found)) == sorted(found)
        batches[number] = found
        has_begun.set()

    def count() -> int:
        return sum(map(len, batches.values()))

    def run(until: Callable[[], bool]) -> None:
        stream = records.option("subscribePattern", "shared-.*").load()
        query = (
            stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="50 milliseconds")
            .start()
        )
        try:
            deadline = time.monotonic() + 90
            while not until() and time.monotonic() < deadline:
                assert query.exception() is None
                time.sleep(0.05)
        finally:
            query.stop()

    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce, produced, 80, has_begun)
        run(until=lambda: count() > 300)
        run(until=lambda: producing.done() and count() >= len(produced.expected()))
        producing.result()
    in_order = [place for number in sorted(batches) for place in batches[number]]
    assert sorted(in_order) == produced.expected()
    for topic in TOPICS:
        offsets = [offset for name, _, offset, _ in in_order if name == topic]
        assert offsets == sorted(offsets)
    assert len(batches) > 5
    assert sorted(places(loaded(spark, store, subscribePattern="shared-.*").collect())) == produced.expected()
    assert verify_journal(bench.store, 0).ok


def produce(produced: Produced, flushes: int, has_begun: threading.Event) -> None:
    """Flushes and drains, from the first micro-batch on."""
    assert has_begun.wait(60)
    for number in range(flushes):
        produced.flush()
        if number % 3 == 0:
            produced.drain()
        time.sleep(0.1)


@pytest.mark.parametrize("way", [None, *Way])
def test_read_topic_has_what_only_the_journal_has(spark: SparkSession, tmp_path: Path, way: Way | None) -> None:
    """Some in the table, some in both, some in the journal alone; and what comes between the call and the query."""
    store = str(tmp_path / "log")
    bench = SharedBench(open_store(store))
    bench.create("t")

    def offsets(records: DataFrame) -> list[tuple[int, int]]:
        return sorted((row["partition"], row["offset"]) for row in records.collect())

    assert offsets(read_topic(spark, store, "t", way=way)) == []
    bench.append("t", b"0", b"1")
    assert offsets(read_topic(spark, store, "t", way=way)) == [(0, 0), (0, 1)]
    bench.drain("t")
    bench.append("t", b"2")
    bench.append("t", b"3", partition=1)
    bench.drain("t", note=False)
    bench.append("t", b"4")
    records = read_topic(spark, store, "t", way=way)
    expected = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    assert offsets(read_topic(spark, store, "t", way=way)) == expected
    bench.append("t", b"5")
    bench.drain("t")
    bench.append("t", b"6")
    later = [] if way is Way.PARQUET else [(0, 4), (0, 5)]
    assert offsets(records) == sorted([*expected, *later])


def test_a_batch_for_shared_topics_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    """Written again under its name it changes nothing."""
    store = str(tmp_path / "log")
    bench = SharedBench(open_store(store))
    bench.create("a", "b")
    bench.append("a", b"first")
    values = [(topic, b"%d" % number) for topic in "ab" for number in range(50)]
    rows = spark.createDataFrame(values, "topic string, value binary")
    for _ in range(2):
        named = rows.write.format("tidelog").mode("append").options(store=store, txnAppId="job", txnVersion="1")
        named.save()
    assert (bench.own("a"), bench.own("b")) == ([0, 0], [0, 0])
    found = places(loaded(spark, store, subscribe="a,b").collect())
    assert len(found) == 101
    assert {value for topic, _, _, value in found if topic == "b"} == {b"%d" % number for number in range(50)}
    for topic in "ab":
        bench.drain(topic)
        assert verify_topic(bench.store, topic).ok
