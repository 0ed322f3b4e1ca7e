"""A Spark program that uses Kafka's source and sink. Arguments: servers, folder of the connector's jars, directory."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(servers: str, jars: str, directory: str) -> None:
    """A batch to the sink, a batch from the source, and a stream from one to the other in two runs."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(str(jar) for jar in Path(jars).glob("*.jar")))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )

    def write(start: int, end: int) -> None:
        rows = spark.range(start, end).selectExpr("cast(id as string) key", "concat('v', id) value")
        rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "spark.in").save()

    def read(topic: str) -> list[tuple[str, str]]:
        rows = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
        return sorted(
            (row.k, row.v) for row in rows.selectExpr("cast(key as string) k", "cast(value as string) v").collect()
        )

    def stream() -> None:
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        rows = source.option("subscribe", "spark.in").option("startingOffsets", "earliest").load()
        sink = rows.selectExpr("key", "value").writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
        sink = sink.option("topic", "spark.out").option("checkpointLocation", f"{directory}/checkpoint")
        sink.trigger(availableNow=True).start().awaitTermination()

    wanted = sorted((str(number), f"v{number}") for number in range(3000))
    write(0, 2000)
    stream()
    write(2000, 3000)
    stream()
    assert read("spark.in") == wanted, "spark.in"
    assert read("spark.out") == wanted, "spark.out"
    print("spark is done")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
