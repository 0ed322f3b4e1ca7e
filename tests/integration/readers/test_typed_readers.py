"""A typed topic's columns by every reader: each gives the rows that the SDK gives, and skips files without losing a row."""

from __future__ import annotations

import functools
import io
import json
import math
import random
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

import deltalake
import duckdb
import fastavro
import polars
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import expr, lit

from spark_pipeline import Way, read_topic
from tests.support.gateway_process import running_gateway
from tests.support.spark_avro import spark_avro_jar
from tests.support.typed_topic import TypedWriter
from tidelog import Consumer

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "amount", "type": ["null", "double"], "default": None},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "name", "type": "string"},
    {
        "name": "place",
        "type": [
            "null",
            {
                "type": "record",
                "name": "Place",
                "fields": [{"name": "row", "type": "int"}, {"name": "ok", "type": "boolean"}],
            },
        ],
    },
    {"name": "nothing", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
    {"name": "counts", "type": {"type": "map", "values": "long"}},
    {"name": "code", "type": "bytes"},
]
NOTE: dict[str, Any] = {"name": "note", "type": ["null", "string"], "default": None}
SCHEMA = {"type": "record", "name": "Order", "fields": FIELDS}
LATER = {"type": "record", "name": "Order", "fields": [*FIELDS, NOTE]}
START = datetime(2026, 1, 31, 12, tzinfo=UTC)
SEGMENTS = 7
"""The last one is of a later version."""
ROWS = 60
CODE_BYTES = 500
FIRST_DAY = date(1, 1, 1)


def order(dice: random.Random, number: int) -> dict[str, Any]:
    """A value whose members grow from segment to segment, with what statistics get wrong most easily."""
    base = number // ROWS
    amount = dice.choice([None, math.nan, base * 100 + dice.random() * 50, -0.0, math.inf if base == 5 else 0.0])
    return {
        "id": number - 100,
        "amount": amount,
        "price": Decimal(base).scaleb(20) + Decimal(dice.randrange(10**6)).scaleb(-4),
        "at": START + timedelta(days=base, microseconds=dice.randrange(10**9)),
        "day": date(9999, 12, 31) if base == 5 else FIRST_DAY + timedelta(days=base * 400_000 + dice.randrange(1000)),
        "name": dice.choice("äz\U0001f600") * 40 + "abc"[base % 3] if base > 2 else f"short{base}",
        "place": None if base == 1 else {"row": base * 10 + dice.randrange(10), "ok": dice.random() < 0.5},
        "nothing": None,
        "tags": dice.choice([[], ["a", None], ["b"]]),
        "counts": {"x": number},
        "code": dice.randbytes(CODE_BYTES),
        "note": "new" if base == SEGMENTS - 1 else None,
    }


class Orders(NamedTuple):
    """A topic with columns. ``rows``: the values by the SDK, by offset; None: a tombstone, or what is not of the schema."""

    store: str
    rows: list[dict[str, Any] | None]

    @property
    def table(self) -> str:
        """Where the topic's table is."""
        return f"{self.store}/topics/orders"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """Values of Confluent's serializers in segments of rising values, one of a later version, and what has no columns."""
    folder = tmp_path_factory.mktemp("typed")
    store = str(folder / "store")
    typed = TypedWriter(store, "orders", json.dumps(SCHEMA), data_on_error="mark")
    dice = random.Random(11)
    schemas = {typed.schema_id: SCHEMA}
    for segment in range(SEGMENTS):
        if segment == SEGMENTS - 1:
            schemas[typed.register(json.dumps(LATER))] = LATER
        values = [order(dice, segment * ROWS + number) for number in range(ROWS)]
        typed.append([_framed(*list(schemas.items())[-1], value) for value in values])
    typed.append([None, b"no JSON", b"\0\0\0\0\x01"])
    with (
        running_gateway(store, folder / "log") as gateway,
        Consumer("orders", bootstrap_servers=gateway.url) as consumer,
    ):
        found = sorted((record.offset, record.value) for record in islice(consumer, SEGMENTS * ROWS + 3))
    return Orders(store, [_decoded(schemas, value) for _, value in found])


def _framed(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def _decoded(schemas: dict[int, dict[str, Any]], value: bytes | None) -> dict[str, Any] | None:
    if value is None or value[:1] != b"\0" or len(value) < 20:
        return None
    schema = schemas[int.from_bytes(value[1:5], "big")]
    found = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
    assert isinstance(found, dict)
    return {"note": None, **found}


def plain(value: Any) -> Any:
    """A value in a form that is equal for all readers: NaN as text, maps as sorted pairs, times in UTC."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case datetime():
            return (value.replace(tzinfo=UTC) if value.tzinfo is None else value).astimezone(UTC)
        case dict() if value and set(value) != MEMBERS and set(value) != {"row", "ok"}:
            return sorted(value.items())
        case dict():
            return {name: plain(one) for name, one in value.items()}
        case [{"key": _, "value": _}, *_]:  # a map of polars
            return sorted((one["key"], one["value"]) for one in value)
        case bytearray() | memoryview():
            return bytes(value)
    return list(value) if isinstance(value, list | tuple) else value


MEMBERS = {field["name"] for field in (*FIELDS, NOTE)}
Row = dict[str, Any]


def _above(value: float | None, bound: float) -> bool:
    return value is not None and (math.isnan(value) or value > bound)


PRICE = "data.price >= cast('300000000000000000000.5' as decimal(38,4))"
AT = "data.at < timestamp '2026-02-01 12:00:00.000001+00:00'"
ABOVE = "data.amount > 300"
LATE = "data.note = 'new'"
DAY = "data.day > date '9999-12-30'"
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "data.id > 150": lambda row: row["id"] > 150,
    "data.id in (-100, 259)": lambda row: row["id"] in (-100, 259),
    ABOVE: lambda row: _above(row["amount"], 300),
    "data.amount < 100": lambda row: row["amount"] is not None and row["amount"] < 100,
    "data.amount = 0": lambda row: row["amount"] == 0,
    PRICE: lambda row: row["price"] >= Decimal("300000000000000000000.5"),
    AT: lambda row: row["at"] <= START + timedelta(days=1),
    DAY: lambda row: row["day"] > date(9999, 12, 30),
    "data.name > 'short2'": lambda row: row["name"] > "short2",
    f"data.name = '{'z' * 40}b'": lambda row: row["name"] == "z" * 40 + "b",
    "data.place.row between 20 and 29": lambda row: row["place"] is not None and 20 <= row["place"]["row"] <= 29,
    "data is not null and data.place is null": lambda row: row["place"] is None,
    "data.nothing is not null": lambda _: False,
    LATE: lambda row: row["note"] == "new",
}
SKIPPING = {
    "data.id > 150": 3,
    PRICE: 4,
    AT: 1,
    DAY: 1,
    "data.name > 'short2'": 4,
    "data.place.row between 20 and 29": 1,
    "data.nothing is not null": 0,
    LATE: 7,
}
"""Files of eight that Delta's reader reads: earlier ones have no statistics of a later member."""


def expected(condition: str, orders: Orders) -> list[tuple[int, Any]]:
    """The rows that the SDK gives, by offset."""
    holds = CONDITIONS[condition]
    return [(offset, plain(row)) for offset, row in enumerate(orders.rows) if row is not None and holds(row)]


def sorted_plain(rows: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Offsets and values of a reader, in the form of ``expected``."""
    return sorted(((offset, plain(row)) for offset, row in rows), key=lambda one: one[0])


@pytest.mark.parametrize("way", Way)
def test_spark_gives_what_the_sdk_gives(spark: SparkSession, orders: Orders, way: Way) -> None:
    """By ``format("tidelog")``, by Delta and from Parquet alone, with filters pushed down to these: NaN is above all numbers."""
    records = read_topic(spark, orders.store, "orders", way=way)
    assert records.columns[-2:] == ["data", "data_error"]
    conditions = [ABOVE, *SKIPPING] if way is Way.DELTA else [*CONDITIONS]  # each takes Delta's reader a second to plan
    found: dict[str, list[tuple[int, Any]]] = {condition: [] for condition in conditions}
    if way is Way.TIDELOG:
        flags = [expr(one).alias(f"is{number}") for number, one in enumerate(conditions)]
        for row in records.select("offset", "data", *flags).where("data is not null").collect():
            for number, one in enumerate(conditions):
                if row[f"is{number}"]:
                    found[one].append((row["offset"], row["data"].asDict(recursive=True)))
    else:
        parts = [records.where(one).select(lit(one).alias("condition"), "offset", "data") for one in conditions]
        for row in functools.reduce(DataFrame.unionAll, parts).collect():
            found[row["condition"]].append((row["offset"], row["data"].asDict(recursive=True)))
    for condition, rows in found.items():
        assert sorted_plain(rows) == expected(condition, orders), condition
    errors = records.where("data_error is not null").select("offset", "data").collect()
    assert sorted(map(tuple, errors)) == [(SEGMENTS * ROWS + 1, None), (SEGMENTS * ROWS + 2, None)]


def test_spark_skips_files_by_members_and_reads_only_those_asked_for(spark: SparkSession, orders: Orders) -> None:
    """By the statistics in the log, for each kind of member that has any; the values are not read for a member."""
    records = spark.read.format("delta").load(orders.table)
    counts = {condition: len(records.where(condition).inputFiles()) for condition in SKIPPING}
    assert counts == SKIPPING
    whole, member = (bytes_read(spark, records.select(name)) for name in ("value", "data.id"))
    assert whole - member > 0.8 * ROWS * SEGMENTS * CODE_BYTES


def test_sparks_from_avro_reads_the_values_as_the_columns(spark: SparkSession, orders: Orders) -> None:
    """Behind the five bytes of Confluent's header."""
    spark.sql(f"ADD JAR '{spark_avro_jar()}'")
    records = read_topic(spark, orders.store, "orders", way=Way.PARQUET).where(f"offset < {ROWS}")
    decoded = records.select("data", from_avro(expr("substr(value, 6)"), json.dumps(SCHEMA)).alias("decoded")).collect()
    assert len(decoded) == ROWS
    for row in decoded:
        assert plain({**row["decoded"].asDict(recursive=True), "note": None}) == plain(
            row["data"].asDict(recursive=True)
        )


def bytes_read(spark: SparkSession, records: DataFrame) -> int:
    """Bytes of files that a query reads."""
    # Vectored reads of local files are not counted.
    spark.conf.set("parquet.hadoop.vectored.io.enabled", "false")
    files = spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    before = sum(one.getBytesRead() for one in files.getAllStatistics())
    records.write.format("noop").mode("overwrite").save()
    spark.conf.unset("parquet.hadoop.vectored.io.enabled")
    return int(sum(one.getBytesRead() for one in files.getAllStatistics()) - before)


def test_deltalake_gives_what_the_sdk_gives(orders: Orders) -> None:
    """Whole, and by its SQL, which skips files and row groups by their statistics."""
    table = deltalake.DeltaTable(orders.table)
    whole = table.to_pyarrow_table().sort_by("offset")
    assert [plain(row) for row in whole.column("data").to_pylist()] == [plain(row) for row in orders.rows]
    for condition in CONDITIONS:
        asked = f'select "offset", data from t where {condition}'
        found = pa.table(deltalake.QueryBuilder().register("t", table).execute(asked).read_all())
        rows = zip(found.column("offset").to_pylist(), found.column("data").to_pylist(), strict=True)
        assert sorted_plain(rows) == expected(condition, orders), condition


def test_duckdb_gives_what_the_sdk_gives(orders: Orders) -> None:
    """From the files that the log names, some of whose row groups it skips."""
    database = duckdb.connect()
    files = deltalake.DeltaTable(orders.table).file_uris()
    for condition in CONDITIONS:
        asked = f'select "offset", data from read_parquet({files}) where {condition}'
        assert sorted_plain(database.execute(asked).fetchall()) == expected(condition, orders), condition
    database.close()


def test_polars_gives_what_the_sdk_gives(orders: Orders) -> None:
    """Scanned lazily, so that it skips what statistics exclude. It has no filter on a member that earlier files lack."""
    scanned = polars.scan_delta(orders.table)
    data = polars.col("data").struct
    by_polars = {
        AT: data.field("at") < START + timedelta(days=1, microseconds=1),
        DAY: data.field("day") > date(9999, 12, 30),
    }
    for condition in CONDITIONS:
        if condition == LATE:
            with pytest.raises(polars.exceptions.StructFieldNotFoundError, match="note"):
                polars.SQLContext(t=scanned).execute(f"select data from t where {condition}").collect()
            continue
        if condition in by_polars:  # its SQL has no such literals
            found = scanned.filter(by_polars[condition]).select("offset", "data").collect()
        else:
            asked = f'select "offset", data from t where {condition}'
            found = polars.SQLContext(t=scanned).execute(asked).collect()
        assert sorted_plain(found.rows()) == expected(condition, orders), condition
