"""Typed columns of ``format("tidelog")``: which ones a query has, and what it reads for them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from log_format.topic.config import Subjects
from spark_pipeline.data_source import TidelogDataSource
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.batch import BatchReader
from spark_pipeline.source.options import parse_options
from spark_pipeline.source.task import ColumnsContradict
from tests.support.registry import record
from tests.support.shared_bench import SharedBench
from tests.support.source_bench import SourceBench
from tests.support.topic_writer import TopicWriter
from tests.support.typed_topic import TypedWriter, register_in

ORDER = record("Order", id="long", amount=["null", "double"])
LINE = json.loads(record("Line", sku="string", count="int"))
LATER = record(
    "Order",
    id="long",
    amount=["null", "double"],
    lines=({"type": "array", "items": LINE}, []),
    by_name=({"type": "map", "values": "Line"}, {}),
)
PLAIN = [field.name for field in KAFKA_SOURCE if field.name != "headers"]


def source(store: Path, **options: str) -> TidelogDataSource:
    """The data source of a query."""
    return TidelogDataSource({"store": str(store), **options})


def rows(made: TidelogDataSource, schema: StructType | None = None) -> list[dict[str, Any]]:
    """What a batch query gives to Spark."""
    reader = made.reader(schema or made.schema())
    found = [batch for task in reader.partitions() for batch in reader.read(task)]
    return sorted(pa.Table.from_batches(found).to_pylist(), key=lambda row: row["offset"]) if found else []


def narrow(*members: tuple[str, Any], column: str = "data") -> StructType:
    """A schema of the offset and one struct with these members."""
    data = {"type": "struct", "fields": [_field(name, kind) for name, kind in members]}
    return StructType.fromJson({"type": "struct", "fields": [_field("offset", "long"), _field(column, data)]})


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def test_a_typed_topics_columns_are_those_of_its_table(tmp_path: Path) -> None:
    """Behind Kafka's columns, as they are when the query is made; an untyped topic has Kafka's only."""
    TopicWriter(str(tmp_path), "plain")
    typed = TypedWriter(str(tmp_path), "orders", ORDER)
    assert source(tmp_path, subscribe="plain").schema().names == PLAIN
    before = source(tmp_path, subscribe="orders")
    schema = before.schema()
    assert schema.names == [*PLAIN, "data", "data_error"]
    typed.append([{"id": 1, "amount": 1.5}, None])
    typed.register(LATER)
    line = {"sku": "a", "count": 2}
    typed.append([{"id": 2, "amount": None, "lines": [line], "by_name": {"x": line}}])
    narrower = [row["data"] for row in rows(before, schema)]
    assert narrower == [{"id": 1, "amount": 1.5}, None, {"id": 2, "amount": None}]
    after = [row["data"] for row in rows(source(tmp_path, assign='{"orders":[0]}'))]
    assert after[0] == {"id": 1, "amount": 1.5, "lines": None, "by_name": None}
    assert after[2] == {"id": 2, "amount": None, "lines": [line], "by_name": [("x", line)]}
    both = rows(source(tmp_path, subscribe="orders,plain"))
    assert [row["data"] for row in both] == after


def test_only_the_members_that_are_named_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A struct keeps its nulls whichever members are read, also where a segment has none of them."""
    typed = TypedWriter(str(tmp_path), "orders", ORDER)
    typed.append([{"id": 1, "amount": 1.5}, None])
    typed.register(LATER)
    typed.append([{"id": 2, "amount": 2.5, "lines": [{"sku": "a", "count": 3}], "by_name": {}}, None])
    asked: list[list[str]] = []
    read = pq.ParquetFile.read_row_groups

    def noted(file: pq.ParquetFile, groups: list[int], columns: list[str], **options: Any) -> pa.Table:
        asked.append([name for name in columns if name.startswith("data") or name == "value"])
        return read(file, groups, columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", noted)
    made = source(tmp_path, subscribe="orders")
    assert [row["data"] for row in rows(made, narrow(("amount", "double")))] == [
        {"amount": 1.5},
        None,
        {"amount": 2.5},
        None,
    ]
    assert asked == [["data.amount"]] * 2
    asked.clear()
    element = {"type": "struct", "fields": [_field("count", "integer")]}
    lines = {"type": "array", "elementType": element, "containsNull": True}
    found = [row["data"] for row in rows(made, narrow(("lines", lines)))]
    assert found == [{"lines": None}, None, {"lines": [{"count": 3}]}, None]
    assert asked == [["data.id"], ["data.lines.list.element.count"]]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (narrow(("amuont", "double")), "no data.amuont"),
        (narrow(("amount", "string")), "data.amount is double, and is asked for as string"),
        (narrow(("id", "long"), column="key_data"), "no topic has a column key_data"),
    ],
)
def test_columns_that_no_table_has_are_refused_by_name(tmp_path: Path, schema: StructType, message: str) -> None:
    """A mistyped member would be null for ever."""
    TypedWriter(str(tmp_path), "orders", ORDER)
    with pytest.raises(OptionRefused, match=message):
        source(tmp_path, subscribe="orders").reader(schema)


def test_topics_that_contradict_each_other_can_be_read_beside_each_other(tmp_path: Path) -> None:
    """With Kafka's columns; a pattern's topics, whose columns the caller names, stop the query that reads both."""
    for name, kind in (("a", "long"), ("b", "string")):
        typed = TypedWriter(str(tmp_path), name, record("Order", id=kind))
        typed.append([{"id": 1 if kind == "long" else "1"}])
    assert source(tmp_path, subscribe="a,b").schema().names == PLAIN
    assert len(rows(source(tmp_path, subscribe="a,b"))) == 2
    assert source(tmp_path, subscribePattern=".*").schema().names == PLAIN
    assert rows(source(tmp_path, subscribePattern="a"), narrow(("id", "long")))[0]["data"] == {"id": 1}
    with pytest.raises(ColumnsContradict, match=r"Topic 'b' .* data.id is string, and is asked for as int64"):
        rows(source(tmp_path, subscribePattern=".*"), narrow(("id", "long")))


def test_records_of_a_journal_have_columns_as_in_the_table(bench: SourceBench) -> None:
    """They are decoded when they are read, and what does not fit says why."""
    shared = SharedBench(bench.store)
    shared.create("s0")
    shared.flush({"s0": [b'{"id":1,"amount":2}', b"no JSON"]})
    options = parse_options({"store": "x", "subscribe": "s0"}, streaming=False)
    reader = BatchReader(options, narrow(("amount", "double")))
    register_in(bench.store, "s0-value", ORDER)
    (task,) = reader.partitions()
    plain = list(reader.read(task))
    assert pa.Table.from_batches(plain).column("data").to_pylist() == [None, None]
    task.parts = tuple(replace(part, subjects=Subjects("s0-value")) for part in task.parts)
    (typed,) = reader.read(task)
    assert typed.column("data").to_pylist() == [{"amount": 2.0}, None]


def test_documents_of_a_journal_are_judged_by_the_version_of_the_door(bench: SourceBench) -> None:
    """So a query gives the same before the drain and after it, whatever was registered meanwhile."""
    shared = SharedBench(bench.store)
    register_in(bench.store, "s0-value", record("Order", id="long"))
    shared.create("s0", value_schema="s0-value")
    shared.flush({"s0": [b'{"id":1}']})
    register_in(bench.store, "s0-value", record("Order", id="long", note=("string", "none")))
    shared.flush({"s0": [b'{"id":2}']})
    reader = BatchReader(parse_options({"store": "x", "subscribe": "s0"}, streaming=False), narrow(("note", "string")))
    found = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert [row["data"]["note"] for row in pa.Table.from_batches(found).to_pylist()] == [None, "none"]
