"""A history of topics that go to a journal and back, through Spark: what HTTP gives, before the drain and after it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_pipeline import read_topic
from tests.support.moded_history import MOVING, TOPICS, History, Row

SEED = 1


def rows_of(found: DataFrame) -> list[Row]:
    """All rows, in order."""
    rows = found.select("partition", "offset", "timestamp", "value").collect()
    return sorted(
        (row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000), bytes(row["value"]).decode())
        for row in rows
    )


def test_spark_reads_what_http_gives_while_modes_change(spark: SparkSession, tmp_path: Path) -> None:
    """By a batch of the source and by ``read_topic``, before the drain and after it."""
    store = str(tmp_path)

    def by_spark() -> dict[str, list[Row]]:
        found = {}
        for topic in TOPICS:
            options = {"store": store, "subscribe": topic}
            found[topic] = rows_of(spark.read.format("tidelog").options(**options).load())
            assert rows_of(read_topic(spark, store, topic)) == found[topic]
        return found

    async def lived() -> None:
        history = History(tmp_path, MOVING, SEED)
        try:
            await history.run()
            rows = {topic: await history.read(topic) for topic in TOPICS}
            assert sum(map(len, rows.values())) > 20
            assert await asyncio.to_thread(by_spark) == rows
            await history.drain()
            assert await asyncio.to_thread(by_spark) == rows
        finally:
            await history.end()

    asyncio.run(lived())
