"""Strict JSON parsing with Spark's reader.

``from_json`` alone accepts ``{"a":1} and more`` as ``{"a":1}``, single quotes as double ones, and a number as a string. Here a
text is one JSON object and nothing else, and a STRING column accepts a JSON string only. Strings are read as VARIANT, which
keeps the JSON type, and become strings once the type is checked. All of it is done by Spark's own expressions.

A column of another type is null where the text has a value of the wrong type, and ``CORRUPT`` is then not null.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import (
    coalesce,
    concat,
    exists,
    from_json,
    json_array_length,
    lit,
    map_values,
    schema_of_variant,
    struct,
    transform,
    transform_values,
    when,
)
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, VariantType

CORRUPT: Final = "_corrupt"
"""Field of ``parse_columns`` that is not null when a value has the wrong type."""

_OPTIONS: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "allowSingleQuotes": "false"}


def is_one_value(text: Column) -> Column:
    """Return whether the text is exactly one JSON value (boolean, never null for a text that is not null).

    In brackets one value makes an array of one, and with something appended an array of two. A text that closes the array
    itself and continues makes two arrays of the same length.
    """
    alone = json_array_length(concat(lit("["), text, lit("]")))
    followed = json_array_length(concat(lit("["), text, lit(",0]")))
    return coalesce((alone == 1) & (followed == 2), lit(False))


def parse_columns(text: Column, columns: StructType) -> Column:
    """Return a struct of ``columns``, with VARIANT for STRING at every depth, and of ``CORRUPT``. Null for an empty text."""
    wire = _wire(columns)
    assert isinstance(wire, StructType)
    return from_json(text, StructType([*wire.fields, StructField(CORRUPT, StringType())]), _OPTIONS)


def is_no_string(value: Column, type_: DataType) -> Column | None:
    """Return whether ``value`` (as in ``parse_columns``) lacks a string where ``type_`` has one; None when ``type_`` has none."""
    if isinstance(type_, StringType):
        # VOID is the type of JSON's null.
        return value.isNotNull() & ~schema_of_variant(value).isin("STRING", "VOID")
    if isinstance(type_, StructType):
        found = [is_no_string(value[field.name], field.dataType) for field in type_]
        wrong = [each for each in found if each is not None]
        return reduce(or_, wrong) if wrong else None
    if isinstance(type_, ArrayType | MapType):
        inner = type_.elementType if isinstance(type_, ArrayType) else type_.valueType
        if not _has_string(inner):
            return None
        values = value if isinstance(type_, ArrayType) else map_values(value)
        return exists(values, lambda element: _or_false(is_no_string(element, inner)))
    return None


def to_exact_type(value: Column, type_: DataType) -> Column:
    """Return ``value`` (as in ``parse_columns``) converted to exactly ``type_``."""
    if not _has_string(type_):
        return value
    if isinstance(type_, StructType):
        fields = [to_exact_type(value[field.name], field.dataType).alias(field.name) for field in type_]
        return when(value.isNotNull(), struct(*fields))
    if isinstance(type_, ArrayType):
        return transform(value, lambda element: to_exact_type(element, type_.elementType))
    if isinstance(type_, MapType):
        return transform_values(value, lambda _, element: to_exact_type(element, type_.valueType))
    return value.cast(StringType())


def _or_false(condition: Column | None) -> Column:
    return lit(False) if condition is None else coalesce(condition, lit(False))


def _wire(type_: DataType) -> DataType:
    if isinstance(type_, StringType):
        return VariantType()
    if isinstance(type_, StructType):
        return StructType([StructField(field.name, _wire(field.dataType)) for field in type_])
    if isinstance(type_, ArrayType):
        return ArrayType(_wire(type_.elementType))
    if isinstance(type_, MapType):
        return MapType(type_.keyType, _wire(type_.valueType))
    return type_


def _has_string(type_: DataType) -> bool:
    if isinstance(type_, StructType):
        return any(_has_string(field.dataType) for field in type_)
    if isinstance(type_, ArrayType):
        return _has_string(type_.elementType)
    if isinstance(type_, MapType):
        return _has_string(type_.valueType)
    return isinstance(type_, StringType)
