"""Spark reads topics by Delta Sharing, with its own client and a profile file (``PROFILE``), in each format of that protocol.

It prints what it read, a line of JSON each: format, what, number of rows, CRC-32. Hints and streams it judges itself.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, unix_millis
from rows import Digest, digest

LIMIT = 3
OFFSET_MIN = 5
STREAM_SECONDS_MAX = 240


def _session() -> SparkSession:
    """Return a session with Delta and its client of Delta Sharing (``JARS``)."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.jars": os.environ["JARS"],
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",  # else a plan does not tell how many files it read
        "spark.delta.sharing.network.never.use.https": "true",  # else http://… is asked by https
        "spark.delta.sharing.driver.refreshThresholdMs": "300000",  # else URLs of 15 minutes are never made anew
        "spark.delta.sharing.query.includeEndStreamAction": "true",  # an answer that is cut is an error
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _table(topic: str) -> str:
    return f"{os.environ['PROFILE']}#tidelog.topics.{topic}"


def _rows(frame: DataFrame, value: str = "value") -> list[Any]:
    return frame.select("partition", "offset", unix_millis(col("timestamp")), "key", value).collect()


def _file_count(frame: DataFrame) -> int:
    """Return how many files a frame's scan read, after it ran."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return sum(int(leaves.apply(number).metrics().apply("numFiles").value()) for number in range(leaves.size()))


def _check_hints(table: DataFrame, rows: list[Any]) -> None:
    """Raise ``AssertionError`` unless a limit and a condition leave out files, and no row that counts."""
    all_files = _file_count(table)
    limited = table.limit(LIMIT)
    assert len(limited.collect()) == LIMIT
    assert _file_count(limited) < all_files, "limit"
    later = table.filter(f"partition = 0 AND offset >= {OFFSET_MIN}")
    assert digest(_rows(later)) == digest(row for row in rows if row[0] == 0 and row[1] >= OFFSET_MIN)
    selected = later.select("offset")
    selected.collect()
    assert _file_count(selected) < all_files, "condition"


def _streamed(session: SparkSession, topic: str, form: str, rows: Iterable[Any]) -> Digest:
    """Return what a stream from the first version has of these rows' places, once it has as many rows."""
    ends: dict[int, int] = {}
    for row in rows:
        ends[row[0]] = max(row[1], ends.get(row[0], -1))
    found: list[Any] = []

    def kept() -> list[Any]:
        return [row for row in found if row[1] <= ends.get(row[0], -1)]

    reader = session.readStream.format("deltaSharing").options(responseFormat=form, startingVersion=0)
    writer = reader.load(_table(topic)).writeStream.foreachBatch(lambda frame, _: found.extend(_rows(frame)))
    query = writer.start()
    ends_at = time.monotonic() + STREAM_SECONDS_MAX
    while len(kept()) < sum(end + 1 for end in ends.values()) and time.monotonic() < ends_at:
        query.awaitTermination(1)
    query.stop()
    return digest(kept())


def main() -> None:
    """Read the versions that the command line names of ``TOPIC``, and ``TYPED_VERSION`` of ``TYPED``."""
    session, topic, versions = _session(), os.environ["TOPIC"], list(map(int, sys.argv[1:]))
    for form in ("parquet", "delta"):
        reader = session.read.format("deltaSharing").option("responseFormat", form)

        def say(what: object, found: Digest, form: str = form) -> None:
            print(json.dumps([form, what, *found]), flush=True)

        for version in versions:
            table = reader.option("versionAsOf", version).load(_table(topic))
            rows = _rows(table)
            say(version, digest(rows))
        table.collect()
        _check_hints(table, rows)
        say("stream", _streamed(session, topic, form, rows))
        typed = reader.option("versionAsOf", os.environ["TYPED_VERSION"]).load(_table(os.environ["TYPED"]))
        amounts = typed.withColumn("amount", col("data.amount").cast("string").cast("binary"))
        say("typed", digest(_rows(amounts, "amount")))
    session.stop()


main()
