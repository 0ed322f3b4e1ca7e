"""Spark reads a topic by the Iceberg catalog: with the credentials that come with the table, or none, each request signed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, unix_millis
from rows import answer


def main() -> None:
    """Answer each version that the command line names."""
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": f"{os.environ['URL']}/iceberg",
        ".token": os.environ["TOKEN"],
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        ".header.X-Iceberg-Access-Delegation": os.environ["DELEGATION"],
    }
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.jars", os.environ["JARS"]).config("spark.driver.memory", "1g")
    for name, value in settings.items():
        builder = builder.config(f"spark.sql.catalog.tidelog{name}", value)
    session = builder.getOrCreate()

    def read(version: int) -> Iterable[Any]:
        rows = session.sql(f"SELECT * FROM tidelog.topics.`{os.environ['TOPIC']}` VERSION AS OF {version}")
        return rows.select("partition", "offset", unix_millis(col("timestamp")), "key", "value").collect()

    answer(read)
    session.stop()


main()
