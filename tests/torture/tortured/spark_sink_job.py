"""The driver that is killed: one topic copied to four, two straight on the store and two through gateways, and those to Delta.

``spark_sink_job.py STORE GATEWAYS CHECKPOINTS BATCH``; ends when all that is in the topic is in the Delta table. Every record
goes to both topics of a way in one micro-batch of about ``BATCH`` records.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from spark_pipeline import session

SOURCE = "from"
WAYS = ("straight", "gateways")
SIDES = ("left", "right")
LAKE = "lake"
"""Beside the topics."""


def topics_of(way: str) -> list[str]:
    """Where the way's records go."""
    return [f"{way}-{side}" for side in SIDES]


def under_way(query: StreamingQuery) -> StreamingQuery:
    """The query once it has begun: Spark gives up one whose Python process does not start within ten seconds."""
    while query.isActive and query.lastProgress is None:
        time.sleep(0.05)
    return query


def main() -> None:
    store, gateways, checkpoints, batch = sys.argv[1:]
    spark = session(
        store, master="local[2]", config={"spark.driver.memory": "640m", "spark.sql.shuffle.partitions": "2"}
    )

    def read(topics: list[str], limit: int) -> DataFrame:
        options = {"subscribe": ",".join(topics), "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(limit)}
        return spark.readStream.format("tidelog").option("store", store).options(**options).load()

    def copy(way: str, option: dict[str, str]) -> StreamingQuery:
        names = ", ".join(f"'{topic}'" for topic in topics_of(way))
        rows = read([SOURCE], int(batch)).selectExpr("key", "value", f"explode(array({names})) topic")
        writer = rows.writeStream.format("tidelog").options(**option).trigger(availableNow=True)
        return writer.option("checkpointLocation", f"{checkpoints}/{way}").start()

    def fill() -> StreamingQuery:
        rows = read([topic for way in WAYS for topic in topics_of(way)], 4 * int(batch))
        writer = rows.selectExpr("topic", "cast(value as string) value").writeStream.format("delta")
        writer = writer.option("checkpointLocation", f"{checkpoints}/{LAKE}").trigger(availableNow=True)
        return writer.start(f"{store}/{LAKE}")

    running = [
        under_way(copy("straight", {"store": store})),
        under_way(copy("gateways", {"gateway": gateways})),
        fill(),
    ]
    for query in running:
        query.awaitTermination()
    fill().awaitTermination()


if __name__ == "__main__":
    main()
