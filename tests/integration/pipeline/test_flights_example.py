"""The example on real flights, every tenth damaged: its tables are what pandas makes of the flights that were not."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from spark_pipeline.jobs.pipeline.run import Pipeline
from spark_pipeline.jobs.pipeline.settings import read_settings
from tests.support.flight_topic import Events
from tests.support.loaded import loaded
from tests.support.topic_writer import TopicWriter

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "flights-pipeline"
RECORDS = 4_000
DAMAGED_EACH = 10


def test_the_example(spark: SparkSession, tmp_path: Path, events: Events) -> None:
    """As copied: each way of damage is told by its reason, and the aggregates are those of the flights that are whole."""
    writer = TopicWriter(str(tmp_path / "store"), "flights")
    send = loaded(EXAMPLE / "send.py")
    sent = enumerate(send.records(RECORDS, DAMAGED_EACH))
    writer.append([(number % 2, 1_763_683_200_000, key, value) for number, (key, value) in sent])
    options = {"store": str(tmp_path / "store"), "output": str(tmp_path / "lake")}
    settings = read_settings(str(EXAMPLE / "pipeline.toml"), options)
    assert Pipeline(spark, settings, events).run(trigger=None, stopping=events.stopping)
    (batch,) = [fields for name, fields in events.told if name == "batch"]
    damaged = RECORDS // DAMAGED_EACH
    assert (batch["silver"], batch["dead_letters"]) == (RECORDS - damaged, damaged)
    assert batch["reasons"]["is not JSON"] == damaged / 8 * 2
    assert len(batch["reasons"]) == 5

    first = send.flights.sort_values("time_hour", kind="stable").head(RECORDS).reset_index(drop=True)
    whole = first[(first.index + 1) % DAMAGED_EACH != 0]
    by_carrier = whole.groupby("carrier").agg(
        flights=("flight", "size"), departed=("dep_delay", "count"), delay=("dep_delay", "sum")
    )
    delays = spark.read.format("delta").load(settings.gold_table(settings.gold[0]))
    summed = delays.groupBy("carrier").agg({"flights": "sum", "departed": "sum", "delay_minutes": "sum"})
    found = {
        row["carrier"]: (row["sum(flights)"], row["sum(departed)"], row["sum(delay_minutes)"])
        for row in summed.collect()
    }
    assert found == {carrier: tuple(row) for carrier, row in by_carrier.iterrows()}
    by_origin = whole.groupby("origin").size().to_dict()
    airports = spark.read.format("delta").load(settings.gold_table(settings.gold[1]))
    assert {
        row["origin"]: row["n"]
        for row in airports.groupBy("origin").agg({"flights": "sum"}).toDF("origin", "n").collect()
    } == by_origin
