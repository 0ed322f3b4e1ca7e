"""The pipeline in one process: each record in silver or among the dead letters, once, whatever was cut off and run again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from log_format.topic.config import TopicConfig
from spark_pipeline.jobs.pipeline import dead_letters as dead_letters_module
from spark_pipeline.jobs.pipeline import run as run_module
from spark_pipeline.jobs.pipeline.run import Pipeline
from spark_pipeline.jobs.pipeline.settings import Settings
from spark_pipeline.option_refused import OptionRefused
from tests.support.flight_topic import Events, FlightTopic

Results = Callable[[Settings], tuple[list[Any], list[Any], list[Any]]]


def take_all(spark: SparkSession, settings: Settings, events: Events) -> None:
    assert Pipeline(spark, settings, events).run(trigger=None, stopping=events.stopping)


def forget_commit(settings: Settings, batch: int) -> None:
    """As if the driver had been killed between the micro-batch and Spark's note of it."""
    commits = Path(urlsplit(settings.checkpoint("silver")).path) / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


def test_every_record_is_in_silver_or_a_dead_letter_once(
    spark: SparkSession, flight_topic: FlightTopic, events: Events, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off behind silver, behind the dead letters, and before Spark's note: run again, all is there once."""
    settings = flight_topic.settings(gold={})
    flight_topic.flights(0, 60, bad_each=5)
    largest = b"x" * (TopicConfig.parse({}).integer("max.message.bytes") - 1)
    flight_topic.writer.append([(0, 1_763_683_200_000, b"k", largest)])  # with headers it is larger still
    sent = partial(dead_letters_module.send, part_bytes=600 * 1024)  # so that a batch has several parts

    def cut_off_before(*_arguments: Any, **_named: Any) -> None:
        raise ConnectionAbortedError("cut off behind silver")

    def cut_off_after(*arguments: Any, **named: Any) -> None:
        sent(*arguments, **named)
        raise ConnectionAbortedError("cut off behind the dead letters")

    for cut_off in (cut_off_before, cut_off_after):
        monkeypatch.setattr(run_module, "send", cut_off)
        with pytest.raises(StreamingQueryException, match="cut off behind"):
            take_all(spark, settings, events)
    monkeypatch.setattr(run_module, "send", sent)
    take_all(spark, settings, events)
    forget_commit(settings, 1)
    flight_topic.flights(60, 24, bad_each=6)
    take_all(spark, settings, events)

    rows, dead, _ = results(settings)
    bad = [number for number in range(84) if number % (5 if number < 60 else 6) == 0]
    assert [flight for _, _, flight in sorted(rows, key=lambda row: row[2])] == sorted(set(range(84)) - set(bad))
    places = [(partition, offset) for partition, offset, _ in rows] + [(p, offset) for p, offset, _ in dead]
    assert sorted(places) == [(0, offset) for offset in range(43)] + [(1, offset) for offset in range(42)]
    assert [reason for _, _, reason in dead] == ["is not JSON"] * (len(bad) + 1)


def test_late_and_repeated_events(
    spark: SparkSession, flight_topic: FlightTopic, events: Events, results: Results
) -> None:
    """Sent twice: twice in silver, once in gold, across a restart. Too late: in silver, and counted as such."""
    settings = flight_topic.settings(max_offsets_per_trigger=1_000)
    flight_topic.flights(0, 24, day=1)
    flight_topic.flights(0, 12, day=5)
    take_all(spark, settings, events)
    flight_topic.flights(12, 12, day=5)
    flight_topic.flights(0, 12, day=5)
    flight_topic.flights(24, 4, day=1)
    take_all(spark, settings, events)
    rows, dead, windows = results(settings)
    assert (len(rows), dead) == (64, [])
    assert [(hour, flights) for hour, _, flights, _ in windows] == [
        (f"{day:02d} {hour:02d}", 1) for day in (1, 5) for hour in range(24)
    ]
    assert events.sum("gold", "late") == 4


def test_it_catches_up_while_records_come(
    spark: SparkSession, flight_topic: FlightTopic, events: Events, results: Results
) -> None:
    """From the beginning, micro-batch by micro-batch, while a producer goes on; it ends when it is asked to."""
    settings = flight_topic.settings(max_offsets_per_trigger=60)
    flight_topic.flights(0, 100)
    events.rows_wanted = 180

    def produce() -> None:
        for number in range(4):
            flight_topic.flights(100 + 20 * number, 20)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        assert not Pipeline(spark, settings, events).run(trigger="0 seconds", stopping=events.stopping)
    finally:
        producer.join()
    rows, dead, windows = results(settings)
    assert sorted(flight for *_, flight in rows) == list(range(180))
    assert (dead, sum(flights for *_, flights, _ in windows)) == ([], 180)


def test_a_table_and_its_checkpoint_belong_together(
    spark: SparkSession, flight_topic: FlightTopic, events: Events
) -> None:
    """Rules may change, but not for a micro-batch that was cut off; another checkpoint is refused; neither writes anything."""
    settings = flight_topic.settings(gold={})
    changed = flight_topic.settings(gold={}, checks={"flight: is too high": "flight < 20"})
    flight_topic.flights(0, 20, bad_each=5)
    take_all(spark, settings, events)
    flight_topic.flights(20, 10)
    take_all(spark, changed, events)  # writes no row, and silver knows of the batch all the same
    assert (events.sum("batch", "silver"), events.sum("batch", "dead_letters")) == (16, 4 + 10)
    forget_commit(settings, 1)
    with pytest.raises(StreamingQueryException, match="Micro-batch 1 was cut off"):
        take_all(spark, settings, events)
    checkpoint = Path(urlsplit(settings.checkpoint("silver")).path)
    checkpoint.rename(checkpoint.with_name("lost"))
    with pytest.raises(StreamingQueryException, match="was filled from another checkpoint"):
        take_all(spark, settings, events)
    assert spark.read.format("delta").load(settings.silver).count() == 16


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"event_time": "dep_delay"}, "may be null"),
        ({"group_by": ["airport"]}, "gold.delays: there is no column airport"),
    ],
)
def test_an_aggregate_must_fit_the_columns(
    spark: SparkSession, flight_topic: FlightTopic, events: Events, changed: dict[str, Any], message: str
) -> None:
    """Before anything is written."""
    gold = {"event_time": "time_hour", "watermark": "1 hour", "window": "1 hour", "columns": {"n": "count(*)"}}
    with pytest.raises(OptionRefused, match=message):
        Pipeline(spark, flight_topic.settings(gold={"delays": gold | changed}), events)
