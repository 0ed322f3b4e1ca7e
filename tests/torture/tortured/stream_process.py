"""A process of its own with Spark's streams over the topics under torture: ``python stream_process.py --help``.

The native ones are followed by Delta's own source with ``ignoreDeletes``, all topics by one stream of ``format("tidelog")``. What
a micro-batch had is written whole to ``<output>/<stream>/<batch>.json`` as ``[[topic, partition, offset, value], …]``. Started
again, the streams go on from their checkpoints; a micro-batch that comes again with other rows is noted in
``<output>/<stream>.differs``. Once Java has started there is ``<output>/session``; the streams begin when ``<output>/begin`` is
there. The process runs until ``<output>/stop`` is there, and fails as soon as one stream does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_pipeline import session, stream_topic

TRIGGER = "500 milliseconds"
LOOK_SECONDS = 0.2


def _start(records: DataFrame, name: str, output: Path) -> StreamingQuery:
    directory = output / name
    directory.mkdir(exist_ok=True)

    def keep(batch: DataFrame, number: int) -> None:
        found = batch.select("topic", "partition", "offset", F.col("value").cast("string")).collect()
        rows, kept = [list(row) for row in found], directory / f"{number:06d}.json"
        if kept.exists() and sorted(json.loads(kept.read_text())) != sorted(rows):
            (output / f"{name}.differs").write_text(f"{name} read other rows when micro-batch {number} came again")
        whole = kept.with_suffix(".partial")
        whole.write_text(json.dumps(rows))
        whole.rename(kept)

    return (
        records.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(output / "checkpoints" / name))
        .trigger(processingTime=TRIGGER)
        .start()
    )


def main() -> int:
    """Run; 0 when every stream ran until it was told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--topics", required=True, help="separated by commas")
    parser.add_argument("--native", required=True, help="some of them, separated by commas")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    spark = session(options.store, app_name="tortured streams", config={"spark.driver.memory": "1g"})
    (options.output / "session").touch()
    while not (options.output / "begin").exists():
        time.sleep(LOOK_SECONDS)
    names = options.native.split(",")
    tidelog = spark.readStream.format("tidelog").options(
        store=options.store, subscribe=options.topics, startingOffsets="earliest"
    )
    queries = [_start(stream_topic(spark, options.store, name), f"delta-{name}", options.output) for name in names]
    queries.append(_start(tidelog.load(), "tidelog", options.output))
    (options.output / "ready").touch()
    failed = None
    while failed is None and not (options.output / "stop").exists():
        time.sleep(LOOK_SECONDS)
        failed = next((found for query in queries if (found := query.exception()) is not None), None)
    for query in queries:
        query.stop()
    spark.stop()
    if failed is not None:
        sys.stderr.write(f"{failed}\n")
    return 0 if failed is None else 1


if __name__ == "__main__":
    sys.exit(main())
