"""Mean departure delay by hour of day and carrier, kept up to date while flights arrive in a topic.

::

    python -m spark_pipeline.jobs.flight_delays --store file:///data --topic flights --output out/delays

    spark-submit --jars "$(python -m spark_pipeline.jars --paths)" spark_pipeline/jobs/flight_delays.py \
        --store s3://bucket/prefix --topic flights --output out/delays --checkpoint s3://bucket/checkpoints/delays

The values are JSON objects with at least ``hour`` (scheduled hour of departure, local time), ``carrier`` and ``dep_delay``
(minutes; null when the flight was cancelled). The job runs until it has seen ``--records`` records, until the file ``stop``
appears in the output directory, or until SIGTERM or Ctrl-C. It writes there, each file whole or not at all:

``ready.json``                 the query runs and has looked at the topic once
``batches/<batch id>.json``    ``{"batch_id", "done_at_ms", "count", "checksum_sum", "checksum_xor", "next_offsets": {"0": n}}``:
                               what has been seen in all, as ``record_checksum`` defines it, when this micro-batch was done
``result.json``                ``[{"hour", "carrier", "flights", "departed", "mean_delay_minutes"}]``: newest result, sorted

1. The state is Structured Streaming's own: a restarted job goes on from the checkpoint and counts nothing twice. Output
   directory and checkpoint belong together.
2. A value that is no such object counts as a record and is in the checksum, but in no mean.
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
from spark_pipeline.record_checksum import checksum, summed_up
from spark_pipeline.session import LOCAL_CHECKPOINTS, session

FLIGHT: Final = StructType(
    [
        StructField("hour", IntegerType()),
        StructField("carrier", StringType()),
        StructField("dep_delay", DoubleType()),
    ]
)
"""What the job reads of a value; everything else in it is skipped."""

STATE_PARTITIONS: Final = 2
"""The state is some thousand rows. Each further partition would add a task and some files to every micro-batch."""

POLL_SECONDS: Final = 0.1
"""How often the job checks whether it may end."""

WAITING: Final = "Waiting for data to arrive"
"""What Spark reports of a query that looked and found nothing new."""


def parse_flights(records: DataFrame) -> DataFrame:
    """Kafka's columns -> ``partition, offset, checksum`` and FLIGHT's; the latter are null where the value has none."""
    return records.select(
        "partition",
        "offset",
        checksum().alias("checksum"),
        from_json(col("value").cast("string"), FLIGHT).alias("flight"),
    ).select("partition", "offset", "checksum", "flight.*")


def delays(flights: DataFrame) -> DataFrame:
    """``parse_flights``' columns -> a row for each ``partition, hour, carrier``, ready to be summed up further.

    Columns: ``partition int, hour int, carrier string, count long, checksum_sum long, checksum_xor long, next_offset long,
    flights long, departed long, delay_minutes double`` (null when none departed).
    """
    return flights.groupBy("partition", "hour", "carrier").agg(
        *summed_up(),
        (max_("offset") + lit(1)).alias("next_offset"),
        count("hour").alias("flights"),
        count("dep_delay").alias("departed"),
        sum_("dep_delay").alias("delay_minutes"),
    )


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """What all rows of ``delays`` say together: ``count, checksum_sum, checksum_xor, next_offsets``."""
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
    """Rows of ``delays`` -> one entry for each hour and carrier, sorted; ``mean_delay_minutes`` is None if none departed."""
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
    """Writes what the job knows after each micro-batch, and says when it has seen enough."""

    def __init__(self, directory: Path, records: int | None) -> None:
        self._directory = directory
        self._records = records
        self.complete = threading.Event()
        (directory / "batches").mkdir(parents=True, exist_ok=True)
        before = sorted(directory.glob("batches/[0-9]*.json"))
        if before and records is not None and json.loads(before[-1].read_bytes())["count"] >= records:
            self.complete.set()

    def ready(self) -> None:
        """Say that the query runs."""
        self._write("ready.json", {"ready_at_ms": time.time_ns() // 1_000_000})

    def stop_asked(self) -> bool:
        """Whether the file ``stop`` was put there."""
        return (self._directory / "stop").exists()

    def batch(self, state: DataFrame, batch_id: int) -> None:
        """The action of the query: the whole state (some thousand rows) -> files."""
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
    """Let SIGTERM and Ctrl-C end the job as if it had seen enough: the next run goes on from there."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: output.complete.set())


def wait(query: StreamingQuery, output: Output) -> None:
    """Return when the output is complete, the file ``stop`` appeared, or the query ended; raises what ended it."""
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
    """The command line; see the module."""
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
    """Run the job; 0 when it ended as asked."""
    chosen = parse_arguments(arguments)
    output = Output(chosen.output, chosen.records)
    end_at_signals(output)
    checkpoint = chosen.checkpoint or (chosen.output / "checkpoint").absolute().as_uri()
    config = {"spark.sql.shuffle.partitions": str(STATE_PARTITIONS)}
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
