"""Query the same records as tables: the number of images of each kind, and their outcomes.

python examples/thumbnails/count.py ./data
"""

from __future__ import annotations

import argparse

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from spark_pipeline.session import session


def header(name: str) -> Column:
    """Return the text of a header; null if it is missing."""
    return F.element_at(F.filter("headers", lambda each: each["key"] == name), 1)["value"].cast("string")


def counted(spark: SparkSession, store: str) -> DataFrame:
    """Return a row per kind: images, those with a thumbnail, and dead letters, where redriven ones count again."""

    def topic(name: str) -> DataFrame:
        return spark.read.format("tidelog").options(store=store, subscribe=name, includeHeaders=True).load()

    images = topic("images").groupBy("key").agg(F.first(header("kind")).alias("kind"))
    made = topic("thumbnails").select("key").distinct().withColumn("is_made", F.lit(1))
    dead = topic("images-dead").groupBy("key").agg(F.count("*").alias("dead"))
    return (
        images.join(made, on="key", how="left")
        .join(dead, on="key", how="left")
        .groupBy("kind")
        .agg(F.count("*").alias("images"), F.count("is_made").alias("thumbnails"), F.sum("dead").alias("dead_letters"))
        .orderBy("kind")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store")
    given = parser.parse_args()
    counted(session(given.store, app_name="thumbnails"), given.store).show()


if __name__ == "__main__":
    main()
