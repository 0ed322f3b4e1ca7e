"""JSON Schema as columns and rules: what is understood, and that the rest is refused."""

from __future__ import annotations

from typing import Any

import pytest

from spark_pipeline.jobs.pipeline.json_schema import from_json_schema
from spark_pipeline.jobs.pipeline.record_schema import RecordSchema
from spark_pipeline.option_refused import OptionRefused


def of(**properties: Any) -> RecordSchema:
    return from_json_schema({"type": "object", "properties": properties})


def broken(schema: RecordSchema) -> dict[str, str]:
    return {rule.reason: rule.broken for rule in schema.rules}


def test_types_become_columns() -> None:
    """Each type of JSON Schema has one column type, at every depth."""
    schema = of(
        s={"type": "string"},
        i={"type": ["integer", "null"]},
        n={"type": "number"},
        b={"type": "boolean"},
        t={"type": "string", "format": "date-time"},
        d={"type": "string", "format": "date"},
        u={"type": "string", "format": "uuid"},
        a={"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
        o={"type": "object", "properties": {"y": {"type": "integer"}}},
    )
    assert schema.columns.simpleString() == (
        "struct<s:string,i:bigint,n:double,b:boolean,t:timestamp,d:date,u:string,a:array<struct<x:string>>,o:struct<y:bigint>>"
    )
    assert schema.rules == ()
    assert not schema.is_closed


def test_keywords_become_rules() -> None:
    """A rule says what is wrong, and its SQL quotes names and texts whatever they hold."""
    inner = {"type": "object", "properties": {"x": {"type": "string", "maxLength": 3}}, "required": ["x"]}
    schema = from_json_schema(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": False,
            "required": ["hour", "maybe"],
            "properties": {
                "hour": {"type": "integer", "minimum": 0, "exclusiveMaximum": 24},
                "it's`": {"type": "string", "enum": ["a'b", "c\\d"], "pattern": "^\\w"},
                "maybe": {"type": ["number", "null"]},
                "inner": inner,
            },
        }
    )
    assert schema.is_closed
    assert broken(schema) == {
        "hour: is below 0": "`hour` < 0",
        "hour: is not below 24": "`hour` >= 24",
        "it's`: is none of a'b, c\\d": "`it's``` NOT IN ('a\\'b', 'c\\\\d')",
        "it's`: does not match ^\\w": "NOT `it's``` RLIKE '^\\\\w'",
        "inner.x: is longer than 3": "char_length(`inner`.`x`) > 3",
        "inner.x: is missing": "`inner` IS NOT NULL AND `inner`.`x` IS NULL",
        "hour: is missing": "`hour` IS NULL",
    }


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "/ is not an object"),
        ({"type": "string"}, "/type is not object"),
        ({"type": "object"}, "/properties is not an object"),
        ({"type": "object", "properties": {}}, "has no column"),
        ({"type": "object", "properties": {"a": {}}}, "/properties/a/type is None"),
        ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, "/properties/a/type is"),
        ({"type": "object", "properties": {"a": {"type": "string", "oneOf": []}}}, "/properties/a/oneOf is not understood"),
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": []}}}, "/properties/a/minimum can't be"),
        ({"type": "object", "properties": {"a": {"type": "integer", "enum": []}}}, "/properties/a/enum can't be"),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "pattern": "x"}}}},
            "/properties/a/items/pattern is not understood within items",
        ),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}, "/required b is not among"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "dependentRequired": {}}, "/dependentRequired is not"),
        ({"type": "object", "properties": {"_a": {"type": "string"}}}, "column _a: names with _ first"),
        ({"type": "object", "properties": {"a": {"type": "string"}, "A": {"type": "string"}}}, "column A is there twice"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(schema: object, message: str) -> None:
    """A keyword that would be passed over would let records through that the schema forbids."""
    with pytest.raises(OptionRefused) as refused:
        from_json_schema(schema)
    assert str(refused.value).startswith("schema: ")
    assert message in str(refused.value)


def test_schemas_that_decide_otherwise_have_another_fingerprint() -> None:
    """A cut-off micro-batch is ended by the rules with which it began: another rule must be seen to be one."""
    schema = of(a={"type": "integer"})
    others = [
        of(a={"type": "string"}),
        of(a={"type": "integer", "minimum": 1}),
        schema.with_checks({"a: is odd": "a % 2 = 0"}),
    ]
    assert schema.fingerprint() == of(a={"type": "integer", "title": "A"}).fingerprint()
    assert len({each.fingerprint() for each in [schema, *others]}) == 4
