"""Rows for a typed topic: judged by its schemas before anything is staged, whether values are bytes or columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from log_format.errors import ErrorCode, RequestRefused
from log_format.schemas.schema import SchemaType
from log_format.stores import open_store
from log_format.transactions.staged_records import STAGED
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.sink import stage
from spark_pipeline.sink.columns import check_columns
from spark_pipeline.sink.commit import commit_staged, open_transactions
from spark_pipeline.sink.options import SinkOptions
from tests.support.registry import record
from tests.support.topic_writer import TopicWriter
from tests.support.typed_topic import TypedWriter

ORDER = record(
    "Order",
    id="long",
    amount=["null", "double"],
    price={"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    at={"type": "long", "logicalType": "timestamp-micros"},
    day={"type": "int", "logicalType": "date"},
    tags={"type": "array", "items": "string"},
)
AT = datetime(2026, 1, 31, 23, 59, 59, 123456, tzinfo=UTC)
ROW: dict[str, Any] = {"id": 1, "amount": 1.5, "price": Decimal("2.50"), "at": AT, "day": AT.date(), "tags": ["a"]}
DOCUMENT = b'{"id":1,"amount":1.5,"price":"2.50","at":"2026-01-31T23:59:59.123456Z","day":"2026-01-31","tags":["a"]}'
STRUCT = pa.struct(
    [
        ("id", pa.int64()),
        ("amount", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
    ]
)
BOUNDED = json.dumps({"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}, "required": ["id"]})


@pytest.fixture
def uri(tmp_path: Path) -> Iterator[str]:
    """A store; what processes of Spark's keep of it is dropped."""
    yield str(tmp_path)
    for cached in (stage.topic_log, stage.producer_key, stage.schema_readers, open_transactions):
        cached.cache_clear()


def write(uri: str, rows: pa.RecordBatch) -> None:
    """One job with one task."""
    options = SinkOptions(store=uri, topic="orders")
    commit_staged([stage.stage([rows], options, stage.new_attempt(), None)], options)


def table(uri: str) -> pa.Table:
    """The topic's table, by offset."""
    return deltalake.DeltaTable(f"{uri}/topics/orders").to_pyarrow_table().sort_by("offset")


@pytest.mark.parametrize("column", ["data", "value"])
def test_a_struct_becomes_columns_and_a_canonical_document(uri: str, column: str) -> None:
    """Of the newest version; null is a tombstone."""
    TypedWriter(uri, "orders", ORDER)
    write(uri, pa.record_batch({column: pa.array([ROW, None], STRUCT), "partition": pa.array([0, 0], pa.int32())}))
    found = table(uri)
    assert found.column("value").to_pylist() == [DOCUMENT, None]
    assert found.column("data").to_pylist() == [ROW, None]
    assert found.column("data_error").null_count == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            {"value": [b"{}", DOCUMENT]},
            "A row is not of the schemas of topic 'orders'.*key b'k0': value.id: it is missing",
        ),
        (
            {"value": [DOCUMENT, b"\0\0\0\0\x09x"]},
            "key b'k1': value: its schema 9 is not one of subject 'orders-value'",
        ),
        ({"data": pa.array([ROW, {**ROW, "id": None}], STRUCT)}, "key b'k1': value.id"),
        ({"data": pa.array([{"id": "1"}] * 2)}, "column data.*id"),
        ({"data": pa.array([{"other": 1}] * 2)}, "column data.*other"),
    ],
)
def test_wrong_rows_fail_the_task_and_nothing_is_staged(uri: str, rows: dict[str, Any], message: str) -> None:
    """By the same rules as at a gateway; the message names the first rows by their keys."""
    TypedWriter(uri, "orders", ORDER)
    with pytest.raises(RequestRefused, match=message) as refused:
        write(uri, pa.record_batch({"key": [b"k0", b"k1"], **rows}))
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert list(open_store(uri).list(STAGED)) == []
    assert table(uri).num_rows == 0


def test_wrong_rows_are_marked_where_the_topic_says_so(uri: str) -> None:
    """They keep their values, or a document of what was given."""
    TypedWriter(uri, "orders", BOUNDED, SchemaType.JSON, data_on_error="mark")
    zero = pa.array([0, 0, 0], pa.int32())
    write(uri, pa.record_batch({"value": [b"no JSON", b'{"id":5}', None], "partition": zero}))
    write(uri, pa.record_batch({"data": pa.array([{"id": 0}, {"id": 6}, None]), "partition": zero}))
    found = table(uri)
    assert found.column("value").to_pylist() == [b"no JSON", b'{"id":5}', None, b'{"id":0}', b'{"id":6}', None]
    assert found.column("data").to_pylist() == [None, {"id": 5}, None, None, {"id": 6}, None]
    assert [None if text is None else text[:5] for text in found.column("data_error").to_pylist()] == [
        "value",
        None,
        None,
        "value",
        None,
        None,
    ]


def test_a_version_registered_since_the_last_task_judges(uri: str) -> None:
    """A process of Spark's lives long; the registry is looked at for each batch."""
    typed = TypedWriter(uri, "orders", record("Order", id="long"))
    write(uri, pa.record_batch({"data": pa.array([{"id": 1}])}))
    typed.register(record("Order", id="long", note=(["null", "string"], None)))
    write(uri, pa.record_batch({"data": pa.array([{"id": 2, "note": "n"}])}))
    found = sorted(table(uri).column("data").to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 1, "note": None}, {"id": 2, "note": "n"}]


def test_a_topic_without_a_schema_takes_no_structs(uri: str) -> None:
    """By name, before anything is staged."""
    TopicWriter(uri, "orders")
    with pytest.raises(RequestRefused, match="Topic 'orders' has no schema of values"):
        write(uri, pa.record_batch({"data": pa.array([{"id": 1}])}))


@pytest.mark.parametrize(
    ("ddl", "message"),
    [("key string, data string", "has no column value, nor data"), ("key struct<a: int>, value binary", "column key")],
)
def test_columns_that_are_no_records_are_refused(ddl: str, message: str) -> None:
    """Before any task runs."""
    fields = [part.split(" ", 1) for part in ddl.split(", ")]
    schema = StructType()
    for name, kind in fields:
        schema = schema.add(name, StructType().add("a", "integer") if kind.startswith("struct") else kind)
    with pytest.raises(OptionRefused, match=message):
        check_columns(schema, "orders")
