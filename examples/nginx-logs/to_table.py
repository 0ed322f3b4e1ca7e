"""Convert a topic of nginx's log lines to a Delta table: ``python to_table.py STORE TOPIC TABLE [--once]``; Ctrl-C ends it."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, expr, regexp_extract, to_timestamp, when

from spark_pipeline import session, stream_topic

COMBINED = r'^(\S+) \S+ (\S+) \[([^\]]+)\] "(\S+) (\S+)[^"]*" (\d{3}) (\d+|-) "([^"]*)" "([^"]*)"'
FIELDS = ["address", "user", "time", "method", "path", "status", "bytes", "referrer", "agent"]


def requests(records: DataFrame) -> DataFrame:
    """Convert Kafka's columns and headers to a row for each line.

    Columns: ``time timestamp, address, method, path string, status int, bytes long, referrer, agent string``, all null for a
    line of another format; ``line string``, null for the others; ``file string, file_line long, partition int, offset long``.
    """
    text = col("value").cast("string")
    is_combined = text.rlike(COMBINED)
    fields = [
        when(is_combined, regexp_extract(text, COMBINED, place)).alias(name)
        for place, name in enumerate(FIELDS, start=1)
    ]
    header = "cast(filter(headers, header -> header.key = '{}')[0].value as string)"
    return records.select(
        *fields,
        when(~is_combined, text).alias("line"),
        expr(header.format("file")).alias("file"),
        expr(header.format("line")).cast("long").alias("file_line"),
        "partition",
        "offset",
    ).select(
        to_timestamp("time", "dd/MMM/yyyy:HH:mm:ss Z").alias("time"),
        "address",
        "method",
        "path",
        col("status").cast("int"),
        expr("try_cast(bytes as long)").alias("bytes"),
        "referrer",
        "agent",
        "line",
        "file",
        "file_line",
        "partition",
        "offset",
    )


def main() -> None:
    """Keep the table up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", help="a directory, file:///directory or s3://bucket/prefix")
    parser.add_argument("topic")
    parser.add_argument("table", help="the directory of the Delta table")
    parser.add_argument("--once", action="store_true", help="take what there is, show the busiest paths, and end")
    arguments = parser.parse_args()
    spark = session(arguments.store, app_name="nginx-logs")
    table = Path(arguments.table).absolute().as_uri() if "://" not in arguments.table else arguments.table
    writer = requests(stream_topic(spark, arguments.store, arguments.topic)).writeStream.format("delta")
    writer = writer.option("checkpointLocation", f"{table}/_checkpoint")
    if arguments.once:
        writer.trigger(availableNow=True).start(table).awaitTermination()
        spark.read.format("delta").load(table).groupBy("path").count().orderBy("count", ascending=False).show(20)
    else:
        query = writer.trigger(processingTime="5 seconds").start(table)
        stopped = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: stopped.set())  # instead of pyspark's own, which ends in a traceback
        while query.isActive and not stopped.wait(1):
            pass
        query.stop()
        query.awaitTermination()  # raises the query's failure
    spark.stop()


if __name__ == "__main__":
    main()
