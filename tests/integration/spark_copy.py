"""A job that tests kill: copies one topic to another as a stream. ``spark_copy.py STORE CHECKPOINT``; ends when all is there."""

from __future__ import annotations

import sys

from spark_pipeline import session


def main() -> None:
    store, checkpoint = sys.argv[1:]
    spark = session(store, master="local[2]", config={"spark.driver.memory": "512m"})
    options = {"store": store, "subscribe": "from", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"}
    records = spark.readStream.format("tidelog").options(**options).load()
    writer = records.select("key", "value").writeStream.format("tidelog").options(store=store, topic="to")
    print("started", flush=True)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    print("finished", flush=True)


if __name__ == "__main__":
    main()
