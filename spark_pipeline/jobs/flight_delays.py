"""Mean departure delay by hour of day and carrier, kept up to date while flights arrive in a topic.

::

    python -m spark_pipeline.jobs.flight_delays --store file:///data --topic flights --output out/delays

    spark-submit --jars "$(python -m spark_pipeline.jars --paths)" spark_pipeline/jobs/flight_delays.py \
        --store s3://bucket/prefix --topic flights --output out/delays --checkpoint s3://bucket/checkpoints/delays

The values are JSON objects with at least ``hour`` (scheduled hour of departure, local time), ``carrier`` and ``dep_delay``
(minutes; null when the flight was cancelled). The job runs until it has seen ``--records`` records, until the file ``stop``
appears in the output directory, or until SIGTERM or Ctrl-C. It writes these files to that directory, each atomically:

``ready.json``                 the query runs and has read the topic's state once
``batches/<batch id>.json``    ``{"batch_id", "done_at_ms", "count", "checksum_sum", "checksum_xor", "next_offsets": {"0": n}}``:
                               totals at the end of this micro-batch, as ``record_checksum`` defines them
``result.json``                ``[{"hour", "carrier", "flights", "departed", "mean_delay_minutes"}]``: newest result, sorted

1. The state is Structured Streaming's own: a restarted job continues at the checkpoint and counts nothing twice. Output
   directory and checkpoint belong together.
2. A value of another form counts as a record and is in the checksum, but in no mean.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import col, count, from_json, lit
from pyspark.sql.functions import max as max_
from pyspark.sql.functions import sum as sum_
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructField, StructType

from spark_pipeline.read import stream_topic
from spark_pipeline.record_checksum import checksum, checksum_aggregates
from spark_pipeline.session import LOCAL_CHECKPOINTS, session

FLIGHT: Final = StructType(
    [
        StructField("hour", IntegerType()),
        StructField("carrier", StringType()),
        StructField("dep_delay", DoubleType()),
    ]
)
"""Members of a value that the job reads; all others are ignored."""

STATE_PARTITIONS: Final = 2
"""Partitions of the state, which has some thousand rows. Each further one would add a task and some files to every
micro-batch."""

STORE_THREADS: Final = {
    "spark.hadoop.fs.s3a.threads.max": "8",
    "spark.hadoop.fs.s3a.analytics.accelerator.physicalio.thread.pool.size": "8",
}
"""For S3A, whose two pools grow to 96 threads each and never shrink: a micro-batch reads a few small objects."""

POLL_SECONDS: Final = 0.1
"""Interval at which the job checks whether it may end."""

WAITING: Final = "Waiting for data to arrive"
"""Spark's status of a query that found no new data."""


def parse_flights(records: DataFrame) -> DataFrame:
    """Convert Kafka's columns to ``partition, offset, checksum`` and FLIGHT's; the latter are null where the value lacks them."""
    return records.select(
        "partition",
        "offset",
        checksum().alias("checksum"),
        from_json(col("value").cast("string"), FLIGHT).alias("flight"),
    ).select("partition", "offset", "checksum", "flight.*")


def delays(flights: DataFrame) -> DataFrame:
    """Aggregate ``parse_flights``' columns to a row for each ``partition, hour, carrier``, which can be summed up further.

    Columns: ``partition int, hour int, carrier string, count long, checksum_sum long, checksum_xor long, next_offset long,
    flights long, departed long, delay_minutes double`` (null when none departed).
    """
    return flights.groupBy("partition", "hour", "carrier").agg(
        *checksum_aggregates(),
        (max_("offset") + lit(1)).alias("next_offset"),
        count("hour").alias("flights"),
        count("dep_delay").alias("departed"),
        sum_("dep_delay").alias("delay_minutes"),
    )


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the totals of all rows of ``delays``: ``count, checksum_sum, checksum_xor, next_offsets``."""
    checksum_xor = 0
    next_offsets: dict[str, int] = {}
    for row in rows:
        checksum_xor ^= row["checksum_xor"]
        partition = str(row["partition"])
        next_offsets[partition] = max(next_offsets.get(partition, 0), row["next_offset"])
    return {
        "count": sum(row["count"] for row in rows),
        "checksum_sum": sum(row["checksum_sum"] for row in rows),
        "checksum_xor": checksum_xor,
        "next_offsets": next_offsets,
    }


def mean_delays(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return one entry per hour and carrier of the rows of ``delays``, sorted; ``mean_delay_minutes`` is None if none
    departed."""
    groups: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        if row["hour"] is not None and row["carrier"] is not None:
            totals = groups.setdefault((row["hour"], row["carrier"]), [0, 0, 0.0])
            totals[0] += row["flights"]
            totals[1] += row["departed"]
            totals[2] += row["delay_minutes"] or 0.0
    return [
        {
            "hour": hour,
            "carrier": carrier,
            "flights": flights,
            "departed": departed,
            "mean_delay_minutes": minutes / departed if departed else None,
        }
        for (hour, carrier), (flights, departed, minutes) in sorted(groups.items())
    ]


class Output:
    """Writer of the results of each micro-batch, which detects when the job has seen enough."""

    def __init__(self, directory: Path, records: int | None) -> None:
        self._directory = directory
        self._records = records
        self.complete = threading.Event()
        (directory / "batches").mkdir(parents=True, exist_ok=True)
        before = sorted(directory.glob("batches/[0-9]*.json"))
        if before and records is not None and json.loads(before[-1].read_bytes())["count"] >= records:
            self.complete.set()

    def ready(self) -> None:
        """Record that the query runs."""
        self._write("ready.json", {"ready_at_ms": time.time_ns() // 1_000_000})

    def stop_asked(self) -> bool:
        """Return whether the file ``stop`` exists."""
        return (self._directory / "stop").exists()

    def batch(self, state: DataFrame, batch_id: int) -> None:
        """Write the whole state (some thousand rows) to files: the query's action."""
        rows = state.collect()
        seen = summarize(rows)
        done_at_ms = time.time_ns() // 1_000_000
        self._write("result.json", mean_delays(rows))
        self._write(f"batches/{batch_id:06d}.json", {"batch_id": batch_id, "done_at_ms": done_at_ms, **seen})
        if self._records is not None and seen["count"] >= self._records:
            self.complete.set()

    def _write(self, name: str, content: object) -> None:
        target = self._directory / name
        unfinished = target.with_name(f".{target.name}.new")
        unfinished.write_text(json.dumps(content) + "\n", encoding="utf-8")
        unfinished.replace(target)


def end_at_signals(output: Output) -> None:
    """Let SIGTERM and Ctrl-C end the job as if it had seen enough: the next run continues there."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: output.complete.set())


def wait(query: StreamingQuery, output: Output) -> None:
    """Wait until the output is complete, the file ``stop`` exists, or the query ended; raise the query's failure."""
    said_ready = False
    while not output.stop_asked() and not output.complete.wait(POLL_SECONDS):
        if not query.isActive:
            failure = query.exception()
            if failure is not None:
                raise failure
            return
        if not said_ready and (query.lastProgress is not None or query.status["message"] == WAITING):
            output.ready()
            said_ready = True
    query.stop()


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line; see the module."""
    parser = argparse.ArgumentParser(
        prog="flight_delays", description="Mean departure delay by hour of day and carrier."
    )
    parser.add_argument("--store", required=True, help="s3://bucket/prefix, file:///directory or a directory")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--output", type=Path, required=True, help="a local directory for progress and result")
    parser.add_argument("--checkpoint", help="where the query keeps its progress (default: in the output directory)")
    parser.add_argument("--records", type=int, help="end when so many records have been seen (default: run on)")
    parser.add_argument("--trigger-ms", type=int, default=100, help="least time between two looks at the topic")
    parser.add_argument("--master", help="a Spark master (default: what spark-submit says, else local[*])")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the job, and return the exit status: 0 when it ended as requested."""
    chosen = parse_arguments(arguments)
    output = Output(chosen.output, chosen.records)
    end_at_signals(output)
    checkpoint = chosen.checkpoint or (chosen.output / "checkpoint").absolute().as_uri()
    config = {"spark.sql.shuffle.partitions": str(STATE_PARTITIONS), **STORE_THREADS}
    if chosen.checkpoint is None:
        config |= LOCAL_CHECKPOINTS
    spark = session(chosen.store, app_name="flight_delays", master=chosen.master, config=config)
    try:
        state = delays(parse_flights(stream_topic(spark, chosen.store, chosen.topic)))
        query = (
            state.writeStream.queryName("flight_delays")
            .outputMode("complete")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{chosen.trigger_ms} milliseconds")
            .foreachBatch(output.batch)
            .start()
        )
        wait(query, output)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
