"""Conversion of a JSON Schema to the columns and rules of a table.

Types: ``object`` with ``properties``, ``array`` with ``items``, ``string`` (with ``format`` ``date-time`` or ``date``:
TIMESTAMP, DATE), ``integer`` (BIGINT), ``number`` (DOUBLE), ``boolean``; a list of one of them and ``null`` is that type.
Rules: ``required``, ``enum``, ``const``, ``minimum``, ``maximum``, ``exclusiveMinimum``, ``exclusiveMaximum``, ``minLength``,
``maxLength``, ``pattern``; ``additionalProperties: false`` for the whole record. Annotations are ignored. Every other keyword
is refused: a rule that is not understood would not hold. Within ``items`` only types are supported.

Null counts as absent, so ``required`` requires a value, except where ``null`` is among the types: there it requires nothing.

Source: JSON Schema 2020-12, validation vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_pipeline.jobs.pipeline.record_schema import RecordSchema, Rule, is_missing, quote_column
from spark_pipeline.option_refused import OptionRefused

_ANNOTATIONS: Final = frozenset(
    ("$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
)
_SIMPLE: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
_FORMATS: Final[Mapping[str, DataType]] = {"date-time": TimestampType(), "date": DateType()}

_RULES: Final[Mapping[str, Callable[[str, Any], tuple[str, str]]]] = {
    "enum": lambda column, values: (f"is none of {_shown(values)}", f"{column} NOT IN ({_literals(values)})"),
    "const": lambda column, value: (f"is not {_shown([value])}", f"{column} <> {_literal(value)}"),
    "minimum": lambda column, bound: (f"is below {bound}", f"{column} < {_literal(bound)}"),
    "maximum": lambda column, bound: (f"is above {bound}", f"{column} > {_literal(bound)}"),
    "exclusiveMinimum": lambda column, bound: (f"is not above {bound}", f"{column} <= {_literal(bound)}"),
    "exclusiveMaximum": lambda column, bound: (f"is not below {bound}", f"{column} >= {_literal(bound)}"),
    "minLength": lambda column, size: (f"is shorter than {size}", f"char_length({column}) < {_literal(size)}"),
    "maxLength": lambda column, size: (f"is longer than {size}", f"char_length({column}) > {_literal(size)}"),
    "pattern": lambda column, text: (f"does not match {text}", f"NOT {column} RLIKE {_literal(text)}"),
}
"""Keyword -> the reason for a value that breaks it, and the SQL condition of a break."""

_SHOWN_MAX: Final = 200
"""Characters of an enumeration shown in a reason."""


def from_json_schema(schema: object) -> RecordSchema:
    """Return the schema of a record, a JSON object. Raises ``OptionRefused`` that names the position in the schema."""
    rules: list[Rule] = []
    root = _object(schema, "")
    closed = root.get("additionalProperties", True)
    if not isinstance(closed, bool):
        raise _refused("/additionalProperties", "is true or false here")
    columns = _type({name: value for name, value in root.items() if name != "additionalProperties"}, "", (), rules)
    if not isinstance(columns, StructType):
        raise _refused("/type", "is not object, and a record's value is one")
    return RecordSchema(columns=columns, rules=tuple(rules), is_closed=not closed)


def _type(schema: Mapping[str, Any], at: str, path: tuple[str, ...], rules: list[Rule] | None) -> DataType:
    """Return the column's type, and add its rules to ``rules``, which is None within arrays."""
    name, _ = _type_name(schema, at)
    known = {"type", *_ANNOTATIONS}
    if name == "object":
        found: DataType = _struct(schema, at, path, rules)
        known |= {"properties", "required"}
    elif name == "array":
        found = ArrayType(_type(_object(schema.get("items"), f"{at}/items"), f"{at}/items", path, None))
        known |= {"items"}
    else:
        found = _FORMATS.get(schema.get("format", ""), _SIMPLE[name]) if name == "string" else _SIMPLE[name]
        known |= {"format"}
        if rules is not None:
            known |= _RULES.keys()
            rules += _rules(schema, at, path)
    for keyword in schema:
        if keyword not in known:
            where = " within items" if rules is None else ""
            raise _refused(f"{at}/{keyword}", f"is not understood{where}; put what it asks for under checks")
    return found


def _struct(schema: Mapping[str, Any], at: str, path: tuple[str, ...], rules: list[Rule] | None) -> StructType:
    properties = _object(schema.get("properties"), f"{at}/properties")
    fields: list[StructField] = []
    optional: set[str] = set()
    for name, inner in properties.items():
        place = f"{at}/properties/{name}"
        below = _object(inner, place)
        fields.append(StructField(name, _type(below, place, (*path, name), rules)))
        if _type_name(below, place)[1]:
            optional.add(name)
    required = schema.get("required", [])
    if not isinstance(required, list):
        raise _refused(f"{at}/required", "is a list of names")
    for name in required:
        if name not in properties:
            raise _refused(f"{at}/required", f"{name} is not among the properties")
        if rules is None:
            raise _refused(f"{at}/required", "is not understood within items")
        if name not in optional:
            rules.append(Rule(reason=f"{'.'.join((*path, name))}: is missing", broken=is_missing(*path, name)))
    return StructType(fields)


def _rules(schema: Mapping[str, Any], at: str, path: tuple[str, ...]) -> list[Rule]:
    found: list[Rule] = []
    for keyword, rule in _RULES.items():
        if keyword in schema:
            try:
                reason, broken = rule(quote_column(*path), schema[keyword])
            except TypeError as problem:
                raise _refused(f"{at}/{keyword}", f"can't be {schema[keyword]!r}") from problem
            found.append(Rule(reason=f"{'.'.join(path)}: {reason}", broken=broken))
    return found


def _type_name(schema: Mapping[str, Any], at: str) -> tuple[str, bool]:
    """Return the type's name, and whether null is allowed."""
    given = schema.get("type")
    names = given if isinstance(given, list) else [given]
    others = [name for name in names if name != "null"]
    if len(others) != 1 or others[0] not in {"object", "array", *_SIMPLE}:
        raise _refused(f"{at}/type", f"is {given!r}: one of object, array, {', '.join(_SIMPLE)}, or that and null")
    return others[0], len(others) != len(names)


def _object(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _refused(at or "/", "is not an object")
    return value


def _literals(values: Any) -> str:
    if not isinstance(values, list) or not values:
        raise TypeError
    return ", ".join(_literal(value) for value in values if value is not None)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    raise TypeError


def _shown(values: list[Any]) -> str:
    return ", ".join(str(value) for value in values)[:_SHOWN_MAX]


def _refused(at: str, what: str) -> OptionRefused:
    return OptionRefused("schema", f"{at} {what}")
