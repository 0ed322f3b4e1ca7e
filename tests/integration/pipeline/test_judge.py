"""Which records fit, by DDL and by JSON Schema: each kind of misfit with the reason that its dead letter gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_pipeline.jobs.pipeline.json_schema import from_json_schema
from spark_pipeline.jobs.pipeline.judge import REASON, judge
from spark_pipeline.jobs.pipeline.record_schema import RecordSchema, from_ddl
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.schemas import KAFKA_SOURCE

FITS = b'{"hour": 5, "carrier": "UA", "delay": 1, "at": "2013-01-01T10:00:00Z", "legs": [{"to": "IAH", "miles": 3}], "more": 1}'


def judged(spark: SparkSession, schema: RecordSchema, values: list[bytes | None]) -> list[Row]:
    records = [
        (None, value, "t", 0, offset, datetime(2025, 1, 1, tzinfo=UTC), 0, None) for offset, value in enumerate(values)
    ]
    return judge(spark.createDataFrame(records, KAFKA_SOURCE), schema).orderBy("_offset").collect()


def assert_reasons(spark: SparkSession, schema: RecordSchema, cases: dict[bytes | None, str | None]) -> list[Row]:
    rows = judged(spark, schema, list(cases))
    assert [row[REASON] for row in rows] == list(cases.values())
    return rows


def test_ddl(spark: SparkSession) -> None:
    """Types are exact, NOT NULL is needed, one text is one object, and more members than columns are no harm."""
    schema = from_ddl(
        "hour INT NOT NULL, carrier STRING, delay DOUBLE, at TIMESTAMP, legs ARRAY<STRUCT<to: STRING, miles: INT>>, "
        "tags MAP<STRING, STRING>"
    ).with_checks({"hour: is not on the clock": "hour BETWEEN 0 AND 23"})
    cases: dict[bytes | None, str | None] = {
        FITS: None,
        b' {"hour": 5}\n': None,
        b'{"hour": 5, "carrier": null, "tags": {"a": "b"}}': None,
        None: "has no value",
        b"\xff\xfe": "is not UTF-8",
        b"": "is not JSON",
        b"hour 5": "is not JSON",
        b'{"hour": 5': "is not JSON",
        b'{"hour": 5} {"hour": 6}': "is not JSON",
        b'{"hour": 5}, {"hour": 6}': "is not JSON",
        b'{"hour": 5}] or more': "is not JSON",
        b'{"hour": 5}, {"hour": 6}] or more': "is not JSON",
        b"{'hour': 5}": "is not JSON",
        b"5": "is not a JSON object",
        b"null": "is not a JSON object",
        b'[{"hour": 5}]': "is not a JSON object",
        b"{}": "hour: is missing",
        b'{"hour": null}': "hour: is missing",
        b'{"hour": "5"}': "hour: is no int",
        b'{"hour": 5.5}': "hour: is no int",
        b'{"hour": 3000000000}': "hour: is no int",
        b'{"hour": 24}': "hour: is not on the clock",
        b'{"hour": 5, "carrier": 7}': "carrier: is no string",
        b'{"hour": 5, "carrier": {"a": 1}}': "carrier: is no string",
        b'{"hour": 24, "carrier": true}': "carrier: is no string; hour: is not on the clock",
        b'{"hour": 5, "at": "yesterday"}': "at: is no timestamp",
        b'{"hour": 5, "legs": [{"to": 5}]}': "legs: is no array<struct<to:string,miles:int>>",
        b'{"hour": 5, "tags": {"a": 1}}': "tags: is no map<string,string>",
        b'{"hour": "x", "delay": "y"}': "hour: is no int; delay: is no double",
    }
    rows = assert_reasons(spark, schema, cases)
    first = rows[0]
    assert (first["hour"], first["carrier"], first["delay"]) == (5, "UA", 1.0)
    assert first["at"].timestamp() == datetime(2013, 1, 1, 10, tzinfo=UTC).timestamp()
    assert [(leg["to"], leg["miles"]) for leg in first["legs"]] == [("IAH", 3)]
    assert (rows[2]["carrier"], rows[2]["tags"]) == (None, {"a": "b"})


def test_json_schema(spark: SparkSession) -> None:
    """Every rule that is understood lets through what fulfils it and nothing else."""
    properties: dict[str, Any] = {
        "hour": {"type": "integer", "minimum": 0, "exclusiveMaximum": 24},
        "carrier": {"type": "string", "enum": ["UA", "it's"], "pattern": "^\\w"},
        "delay": {"type": ["number", "null"], "maximum": 10},
        "name": {"type": "string", "minLength": 2, "maxLength": 3},
        "inner": {"type": "object", "properties": {"x": {"type": "string", "const": "y"}}, "required": ["x"]},
    }
    schema = from_json_schema(
        {"type": "object", "properties": properties, "required": ["hour"], "additionalProperties": False}
    )
    cases: dict[bytes | None, str | None] = {
        b'{"hour": 0, "carrier": "it\'s", "delay": 10, "name": "abc", "inner": {"x": "y"}}': None,
        b'{"hour": 23, "delay": null, "inner": null}': None,
        b'{"hour": 24}': "hour: is not below 24",
        b'{"hour": -1, "delay": 10.5}': "hour: is below 0; delay: is above 10",
        b'{"hour": 1, "carrier": "AA"}': "carrier: is none of UA, it's",
        b'{"hour": 1, "carrier": "-"}': "carrier: is none of UA, it's; carrier: does not match ^\\w",
        b'{"hour": 1, "name": "a"}': "name: is shorter than 2",
        b'{"hour": 1, "name": "abcd"}': "name: is longer than 3",
        b'{"hour": 1, "inner": {}}': "inner.x: is missing",
        b'{"hour": 1, "inner": {"x": 5}}': "inner: is no struct<x:string>; inner.x: is not y",
        b'{"hour": 1, "b": 1, "a": 2}': "has members that are unknown: b, a",
        b'{"delay": 1}': "hour: is missing",
    }
    assert_reasons(spark, schema, cases)


def test_a_reason_is_bounded(spark: SparkSession) -> None:
    """A header of a dead letter can't become larger than a topic takes."""
    schema = from_json_schema(
        {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    )
    members = b", ".join(b'"member%d": 1' % number for number in range(1_000))
    (row,) = judged(spark, schema, [b"{" + members + b"}"])
    assert len(row[REASON]) == 1_000


def test_ddl_that_is_none_is_refused(spark: SparkSession) -> None:
    """In one line, by the setting's name."""
    with pytest.raises(OptionRefused, match="schema: is no DDL: ") as refused:
        from_ddl("hour INTEGRAL NOT")
    assert "\n" not in str(refused.value)
