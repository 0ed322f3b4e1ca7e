"""Typed topics through Spark: columns out of one topic and into another, by streams and jobs, on the store and by a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from spark_pipeline import Way, read_topic
from tests.support.drained_stream import drain
from tests.support.gateway_process import running_gateway
from tests.support.registry import record
from tests.support.topic_writer import TopicWriter
from tests.support.typed_topic import TypedWriter

ORDER = record(
    "Order", id="long", at={"type": "long", "logicalType": "timestamp-millis"}, tags={"type": "map", "values": "int"}
)
LATER = record(
    "Order",
    id="long",
    at={"type": "long", "logicalType": "timestamp-millis"},
    tags={"type": "map", "values": "int"},
    note=(["null", "string"], None),
)


@pytest.fixture(params=["store", "gateway"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A store, and the option with which the sink writes to it."""
    store = str(tmp_path / "store")
    if request.param == "store":
        yield store, {"store": store}
        return
    with running_gateway(store, tmp_path / "gateway.log") as gateway:
        yield store, {"gateway": gateway.url}


def order(number: int) -> dict[str, object]:
    return {"id": number, "at": f"2026-01-31T00:00:{number:02}Z", "tags": {"n": number}}


def data(rows: list[Row]) -> list[dict[str, Any]]:
    found = [row["data"] and row["data"].asDict(recursive=True) for row in rows]
    return sorted((row for row in found if row is not None), key=lambda row: row["id"])


def following(spark: SparkSession, store: str) -> DataFrame:
    return spark.readStream.format("tidelog").options(store=store, subscribe="from", startingOffsets="earliest").load()


def test_a_stream_keeps_its_columns_while_the_table_widens(spark: SparkSession, tmp_path: Path) -> None:
    """It has the new member when it is started again, from the same checkpoint."""
    store = str(tmp_path / "store")
    source = TypedWriter(store, "from", ORDER)
    source.append([order(1)])
    before = following(spark, store)
    (first,) = data([row for batch in drain(before, tmp_path / "checkpoint") for row in batch])
    source.register(LATER)
    source.append([{**order(2), "note": "new"}])
    (narrow,) = data([row for batch in drain(before, tmp_path / "checkpoint") for row in batch])
    source.append([{**order(3), "note": "newer"}])
    (wide,) = data([row for batch in drain(following(spark, store), tmp_path / "checkpoint") for row in batch])
    assert [*first] == [*narrow] == ["id", "at", "tags"]
    assert (first["id"], narrow["id"], narrow["tags"]) == (1, 2, {"n": 2})
    assert (wide["id"], wide["note"]) == (3, "newer")


def test_columns_go_from_topic_to_topic(
    spark: SparkSession, target: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """As documents of the newest version, each once; rows that are not of the schema fail the write by name."""
    store, option = target
    source, sink = TypedWriter(store, "from", ORDER), TypedWriter(store, "to", ORDER)
    sink.register(LATER)
    source.append([order(1), None, order(2)])
    for numbers in ([3], []):
        source.append([order(number) for number in numbers] or [None])
        writer = (
            following(spark, store).select("key", "data").writeStream.format("tidelog").options(topic="to", **option)
        )
        writer.option("checkpointLocation", str(tmp_path / "copy")).trigger(
            availableNow=True
        ).start().awaitTermination()
    copied = spark.read.format("tidelog").options(store=store, subscribe="to").load().collect()
    assert len(copied) == 5
    assert [(row["id"], row["note"]) for row in data(copied)] == [(1, None), (2, None), (3, None)]
    values = {bytes(row["value"]) for row in copied if row["value"] is not None}
    assert b'{"id":3,"at":"2026-01-31T00:00:03.000000Z","tags":{"n":3}}' in values

    members = "'id', cast(null as bigint), 'at', current_timestamp(), 'tags', map('n', 1)"
    wrong = spark.sql(f"select 'k' as key, named_struct({members}) as data")
    for topic, message in (("to", "id: it is missing"), ("plain", "value.schema")):
        if topic == "plain":
            TopicWriter(store, topic)
        with pytest.raises(PySparkException, match=message):
            wrong.write.format("tidelog").mode("append").options(topic=topic, **option).save()
    assert spark.read.format("tidelog").options(store=store, subscribe="to").load().count() == 5


def test_values_that_are_not_stored_are_read_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """``read_topic`` takes the reader that makes them of the columns; Delta's has the columns."""
    store = str(tmp_path / "store")
    with (
        running_gateway(store, tmp_path / "gateway.log") as gateway,
        httpx.Client(base_url=gateway.url, timeout=60, trust_env=False) as http,
    ):
        schema = {"schema": record("Order", id="long")}
        assert http.post("/registry/subjects/orders-value/versions", json=schema).status_code == 200
        config = {"value.schema": "orders-value", "value.keep": "false"}
        assert http.post("/v1/topics", json={"name": "orders", "config": config}).status_code == 201
        body = {"records": [{"value": {"id": 7}}]}
        assert http.post("/v1/topics/orders/records", json=body).status_code == 200
    (row,) = read_topic(spark, store, "orders").select("value", "data").collect()
    assert (bytes(row["value"]), row["data"]["id"]) == (b'{"id":7}', 7)
    (row,) = read_topic(spark, store, "orders", way=Way.DELTA).select("value", "data").collect()
    assert (row["value"], row["data"]["id"]) == (None, 7)
