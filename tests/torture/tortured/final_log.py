"""The final topics as every kind of reader sees them: over HTTP, by deltalake, by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import urllib3

from tests.torture.tortured.checker import Log
from tests.torture.tortured.service import STORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def by_http(url: str, topics: dict[str, int], headers: dict[str, str] | None = None) -> Log:
    """Read with plain fetches. ``headers``: of each."""
    log: Log = {}
    with urllib3.PoolManager(retries=urllib3.Retry(10, backoff_factor=0.3, status_forcelist=[503]), timeout=60) as http:
        for topic, count in topics.items():
            for partition in range(count):
                values: list[str] = []
                while True:
                    path = f"/v1/topics/{topic}/partitions/{partition}/records?offset={len(values)}&max_records=10000"
                    body = msgspec.json.decode(http.request("GET", url + path, headers=headers).data)
                    values += [record["value"] for record in body["records"]]
                    if body["next_offset"] != len(values):
                        raise AssertionError(f"{topic}/{partition} has a gap before {body['next_offset']}")
                    if body["next_offset"] == body["high_watermark"]:
                        break
                log[topic, partition] = values
    return log


def by_deltalake(topics: dict[str, int], environment: dict[str, str]) -> Log:
    """Read as any Delta reader would, without Tidelog."""
    import deltalake

    log: Log = {}
    for topic, count in topics.items():
        table = deltalake.DeltaTable(f"{STORE}/topics/{topic}", storage_options=environment)
        columns = table.to_pyarrow_table(columns=["partition", "offset", "value"])
        log |= _split(topic, count, columns.sort_by([("partition", "ascending"), ("offset", "ascending")]))
    return log


def by_spark(spark: SparkSession, topics: dict[str, int]) -> Log:
    """Read with Spark's Delta source."""
    from spark_pipeline import Way, read_topic

    log: Log = {}
    for topic, count in topics.items():
        columns = read_topic(spark, STORE, topic, way=Way.DELTA).select("partition", "offset", "value")
        log |= _split(topic, count, columns.orderBy("partition", "offset").toArrow())
    return log


def _split(topic: str, count: int, records: pa.Table) -> Log:
    log: Log = {(topic, partition): [] for partition in range(count)}
    for partition, offset, value in zip(*(column.to_pylist() for column in records.columns), strict=True):
        held = log[topic, partition]
        if offset != len(held):
            raise AssertionError(f"{topic}/{partition} has {offset} where {len(held)} should be")
        held.append(value.decode())
    return log
