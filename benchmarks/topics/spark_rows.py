"""``spark_rows.py STORE TOPIC,…``: a micro-batch stream over topics that prints when it had each row.

For each micro-batch it prints a line of JSON: its monotonic time, and the topic and offset of each row. Behind the first one it
prints ``ready``. It ends when its standard input does. It is run as a file, with the ``spark_pipeline`` that Python finds: that
of the measured commit.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time

from pyspark.sql import DataFrame

from spark_pipeline.session import session

READY_SECONDS_MAX = 120


def main() -> None:
    """Print until the end of the input."""
    store, topics = sys.argv[1:3]
    spark = session(store, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    options = {"store": store, "subscribe": topics, "startingOffsets": "earliest"}
    is_ready = threading.Event()

    def take(batch: DataFrame, _number: int) -> None:
        rows = [[row["topic"], row["offset"]] for row in batch.select("topic", "offset").collect()]
        print(json.dumps([time.monotonic(), rows]), flush=True)
        is_ready.set()

    with tempfile.TemporaryDirectory(prefix="tidelog-bench-spark-") as checkpoint:
        reader = spark.readStream.format("tidelog").options(**options).load()
        query = reader.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
        is_ready.wait(READY_SECONDS_MAX)
        print("ready", flush=True)
        sys.stdin.read()
        query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
