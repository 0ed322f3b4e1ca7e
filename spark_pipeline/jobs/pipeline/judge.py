"""Validation of records: conversion to rows, or the reasons why they are invalid.

The result depends only on the record and the schema, so a repeated micro-batch gives the same.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import array as array_
from pyspark.sql.functions import (
    array_except,
    coalesce,
    col,
    concat_ws,
    expr,
    get_json_object,
    is_valid_utf8,
    json_object_keys,
    lit,
    size,
    substring,
    try_parse_json,
    when,
)
from pyspark.sql.types import StructType

from spark_pipeline.jobs.pipeline.record_schema import RecordSchema
from spark_pipeline.jobs.pipeline.strict_json import CORRUPT, is_no_string, is_one_value, parse_columns, to_exact_type

REASON: Final = "_reason"
"""Column that is null for a valid record, else says why it is invalid."""

REASON_CHARACTERS_MAX: Final = 1_000

_TEXT: Final = "_text"
_PARSED: Final = "_parsed"


def judge(records: DataFrame, schema: RecordSchema) -> DataFrame:
    """Return Kafka's columns and headers with ``_`` before their names, the schema's columns and ``REASON`` (string).

    When ``REASON`` is null the schema's columns have the record's values; else they are meaningless.
    """
    given = [col(name).alias(f"_{name}") for name in records.columns]
    read = records.select(*given, col("value").cast("string").alias(_TEXT))
    kept = [f"_{name}" for name in records.columns]
    read = read.select(*kept, _TEXT, parse_columns(col(_TEXT), schema.columns).alias(_PARSED))
    columns = [to_exact_type(col(_PARSED)[field.name], field.dataType).alias(field.name) for field in schema.columns]
    rows = read.select(*kept, _TEXT, _PARSED, *columns)
    return rows.select(*kept, *schema.columns.fieldNames(), reason(schema).alias(REASON))


def reason(schema: RecordSchema) -> Column:
    """Return why the record is invalid: the first error of its form, else all errors of its members."""
    text, value = col(_TEXT), col(_PARSED)
    form = (
        when(text.isNull(), lit("has no value"))
        .when(~is_valid_utf8(text), lit("is not UTF-8"))
        .when(~is_one_value(text), lit("is not JSON"))
        .when(~coalesce(text.rlike(r"^\s*\{"), lit(False)), lit("is not a JSON object"))
        .when(value[CORRUPT].isNotNull() & try_parse_json(text).isNull(), lit("is not JSON"))
        .when(value[CORRUPT].isNotNull(), _misfits(text, value, schema.columns))
    )
    members = concat_ws("; ", *_wrong_strings(value, schema.columns), *_broken(text, schema))
    return substring(coalesce(form, when(members != "", members)), 1, REASON_CHARACTERS_MAX)


def _misfits(text: Column, value: Column, columns: StructType) -> Column:
    """Return the members with a wrong type: they are present and could not be read."""
    found = [
        when(
            get_json_object(text, _json_path(field.name)).isNotNull() & value[field.name].isNull(),
            lit(f"{field.name}: is no {field.dataType.simpleString()}"),
        )
        for field in columns
    ]
    named = concat_ws("; ", *found)
    return when(named != "", named).otherwise("has a member that is not of its type")


def _wrong_strings(value: Column, columns: StructType) -> list[Column]:
    wrong = [(field, is_no_string(value[field.name], field.dataType)) for field in columns]
    return [
        when(condition, lit(f"{field.name}: is no {field.dataType.simpleString()}"))
        for field, condition in wrong
        if condition is not None
    ]


def _broken(text: Column, schema: RecordSchema) -> list[Column]:
    found = [when(expr(rule.broken), lit(rule.reason)) for rule in schema.rules]
    if schema.is_closed:
        known = array_(*[lit(name) for name in schema.columns.fieldNames()])
        others = array_except(json_object_keys(text), known)
        found.append(
            when(size(others) > 0, concat_ws(" ", lit("has members that are unknown:"), concat_ws(", ", others)))
        )
    return found


def _json_path(name: str) -> str:
    return f"$['{name}']"
