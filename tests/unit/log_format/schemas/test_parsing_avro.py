"""Avro's texts: what is understood, what is the same schema, what is refused, and where it says so."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from log_format.schemas.parsed import InvalidSchema
from log_format.schemas.parsing import parse
from log_format.schemas.parsing_avro import AvroSchema
from log_format.schemas.schema import SCHEMA_BYTES_MAX, Schema


def _parsed(value: Any, *references: tuple[str, Any]) -> AvroSchema:
    texts = [(name, json.dumps(reference)) for name, reference in references]
    parsed = parse(Schema(text=value if isinstance(value, str) else json.dumps(value)), texts)
    assert isinstance(parsed, AvroSchema)
    return parsed


def _record(*fields: Any, name: str = "R", **members: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **members}


SAME = [
    ('{"type": "string"}', '"string"'),
    ('{"doc": "of a primitive, is nothing", "type": "int"}', '"int"'),
    ('{"name":"R","namespace":"a","type":"record","fields":[]}', '{"fields":[],"type":"record","name":"a.R"}'),
    ('["null", {"type": "long"}]', '["null","long"]'),
    (
        '{"type":"record","name":"a.R","fields":[{"name":"f","type":{"type":"enum","name":"a.E","symbols":["X"]},"order":"ascending"}]}',
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"f","type":{"type":"enum","name":"E","symbols":["X"]}}]}',
    ),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_what_means_the_same_is_the_same(first: str, second: str) -> None:
    """Layout, the order of attributes and ways to write a name don't make another schema."""
    assert _parsed(first).canonical == _parsed(second).canonical


DIFFERENT = [
    (_record(), _record(doc="a text")),
    (_record(), _record(aliases=["Q"])),
    (_record({"name": "f", "type": "int"}), _record({"name": "f", "type": "int", "default": 0})),
    ("int", {"type": "int", "logicalType": "date"}),
    (["null", "int"], ["int", "null"]),
    (_record({"name": "f", "type": "int"}), _record({"name": "f", "type": "int", "order": "ignore"})),
]


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_what_readers_see_makes_another_schema(first: Any, second: Any) -> None:
    """Documentation, aliases, defaults, order, properties and the order of a union count, normalized or not."""
    one, other = _parsed(json.dumps(first)), _parsed(json.dumps(second))
    assert one.canonical != other.canonical
    assert one.normalized != other.normalized


def test_a_schema_with_nothing_to_sort_is_normalized_as_it_is() -> None:
    """So it has one id with ``normalize`` and without, as in Confluent's registry, which writes both as Java does."""
    text = (
        '{"type":"record","name":"R","namespace":"a","doc":"d","fields":[{"name":"e","type":{"type":"enum","name":"E",'
        '"symbols":["X"]}},{"name":"f","type":["null","E"],"default":null}],"extra":{"a":1,"b":2}}'
    )
    parsed = _parsed(text)
    assert parsed.canonical == parsed.normalized == text
    turned = _parsed(text.replace('{"a":1,"b":2}', '{"b":2,"a":1}'))
    assert turned.canonical != turned.normalized == text


def test_normalized_is_more_alike() -> None:
    """Normalized, the order of properties and aliases means nothing; canonical, it does."""
    one = _parsed(_record({"name": "f", "type": {"type": "bytes", "b": 1, "a": {"y": 1, "x": 2}}}, aliases=["A", "B"]))
    other = _parsed(
        _record({"name": "f", "type": {"type": "bytes", "a": {"x": 2, "y": 1}, "b": 1}}, aliases=["B", "A"])
    )
    assert one.canonical != other.canonical
    assert one.normalized == other.normalized


def test_canonical_is_as_java_writes_it() -> None:
    """Attributes have Java's order, names of the namespace around them are short, and a type is written once."""
    text = _record(
        {"default": None, "doc": "d", "name": "next", "type": ["null", "a.b.R"], "x": 1},
        {"name": "size", "type": {"type": "fixed", "name": "c.F", "size": 4, "aliases": ["c.G", "H"]}},
        {"name": "again", "type": "c.F"},
        namespace="a.b",
        doc="text",
    )
    assert _parsed(text).canonical == (
        '{"type":"record","name":"R","namespace":"a.b","doc":"text","fields":['
        '{"name":"next","type":["null","R"],"doc":"d","default":null,"x":1},'
        '{"name":"size","type":{"type":"fixed","name":"F","namespace":"c","size":4,"aliases":["G","H"]}},'
        '{"name":"again","type":"c.F"}]}'
    )


def test_references_are_named_and_inlined() -> None:
    """A reference's types are known, and stay names in the canonical text; ``inlined`` can be read without the reference."""
    parsed = _parsed(_record({"name": "f", "type": "b.Q"}), ("b.Q", _record(name="b.Q")))
    assert parsed.canonical == '{"type":"record","name":"R","fields":[{"name":"f","type":"b.Q"}]}'
    assert json.loads(parsed.inlined)["fields"][0]["type"]["name"] == "Q"
    assert _parsed(parsed.inlined).inlined == parsed.inlined


INVALID = [
    ("{", "line 1, column 2", "no JSON"),
    ('{"type":"record","name":"R","fields":[NaN]}', "", "NaN"),
    ('{"type":"record","name":"R","fields":[{"name":"f","type":"double","default":1e999}]}', "", "beyond"),
    ('{"type":"int","x":"\\ud800"}', "", "surrogate"),
    ('"strin"', "/", "no type 'strin'"),
    ("3", "/", "a name, an object or an array"),
    ('{"type":["null"]}', "/", '"type"'),
    ('{"type":"array"}', "/", '"items"'),
    ('{"type":"map"}', "/", '"values"'),
    (json.dumps(_record(name="1R")), "/", "'1R' is no name"),
    (json.dumps(_record(name="a..R")), "/", "is no name"),
    (json.dumps(_record(name="string", namespace="")), "/", "defined already"),
    ('{"type":"record","fields":[]}', "/", '"name"'),
    ('{"type":"record","name":"R"}', "/", '"fields"'),
    (json.dumps(_record({"name": "f"})), "/fields/0", 'no "type"'),
    (json.dumps(_record({"name": "f", "type": "int"}, {"name": "f", "type": "int"})), "/fields/1", "twice"),
    (json.dumps(_record({"name": "f", "type": "Q"})), "/fields/0/type", "no type 'Q'"),
    (json.dumps(_record({"name": "f", "type": "int", "order": "up"})), "/fields/0/order", "ascending"),
    (json.dumps(_record({"name": "f", "type": _record()})), "/fields/0/type", "defined already"),
    (json.dumps(_record({"name": "f", "type": "int", "default": "1"})), "/fields/0/default", "no value"),
    (json.dumps(_record({"name": "f", "type": "int", "default": 2**31})), "/fields/0/default", "no value"),
    (json.dumps(_record({"name": "f", "type": ["int", "null"], "default": "x"})), "/fields/0/default", "no value"),
    (json.dumps(_record({"name": "f", "type": "int", "default": True})), "/fields/0/default", "no value"),
    (json.dumps(_record({"name": "f", "type": "bytes", "default": "\u0100"})), "/fields/0/default", "no value"),
    ('["int", ["null"]]', "/1", "directly in a union"),
    ('["int", "int"]', "/1", "twice"),
    ('[{"type":"array","items":"int"}, {"type":"array","items":"long"}]', "/1", "twice"),
    ('{"type":"enum","name":"E","symbols":["A","A"]}', "/symbols", "twice"),
    ('{"type":"enum","name":"E","symbols":["A-B"]}', "/symbols/0", "no name"),
    ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "/default", "none of its symbols"),
    ('{"type":"fixed","name":"F","size":-1}', "/", '"size"'),
    ('{"type":"fixed","name":"F","size":true}', "/", '"size"'),
    ('{"type":"record","name":"R","fields":[],"aliases":"A"}', "/aliases", "array of texts"),
]


@pytest.mark.parametrize(("text", "place", "said"), INVALID)
def test_errors_say_where_and_what(text: str, place: str, said: str) -> None:
    """A text that is no Avro schema is refused with the place and the rule that it breaks."""
    with pytest.raises(InvalidSchema) as refused:
        _parsed(text)
    assert refused.value.place == place
    assert said in refused.value.detail


def test_an_error_of_a_reference_names_it() -> None:
    """Whoever registers a schema learns which of its references is wrong."""
    with pytest.raises(InvalidSchema, match=r"reference 'b\.Q': "):
        _parsed('"int"', ("b.Q", {"type": "recor", "name": "Q"}))


def test_what_is_registered_is_read_whatever_its_defaults() -> None:
    """Registries of before did not look at defaults: such a schema is refused when it is new, and read when it is registered."""
    schema = Schema(text=json.dumps(_record({"name": "f", "type": "int", "default": "none"})))
    with pytest.raises(InvalidSchema):
        parse(schema)
    assert (
        parse(schema, is_new=False).canonical
        == '{"type":"record","name":"R","fields":[{"name":"f","type":"int","default":"none"}]}'
    )


HOSTILE = {
    "too large": '"' + "a" * SCHEMA_BYTES_MAX + '"',
    "many brackets": "[" * SCHEMA_BYTES_MAX,
    "many arrays": '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000,
    "names that multiply": json.dumps(
        _record(
            *({"name": f"f{at}", "type": {"type": "fixed", "name": f"F{at}", "size": 1}} for at in range(9_000)),
            namespace="a" * 300_000,
        )
    ),
    "aliases that multiply": json.dumps(_record(namespace="a" * 900, aliases=[f"A{at}" for at in range(90_000)])),
    "a long number": json.dumps({"type": "int", "x": 0})[:-2] + "9" * 100_000 + "}",
    "defaults that multiply": json.dumps(
        _record(
            {
                "name": "f",
                "type": {
                    "type": "array",
                    "items": _record(*({"name": f"f{i}", "type": "int", "default": 0} for i in range(5_000)), name="Q"),
                },
                "default": [{}] * 100_000,
            }
        )
    ),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_take_bounded_time(text: str) -> None:
    """A text that was made to take long is refused within seconds."""
    began = time.monotonic()
    with pytest.raises(InvalidSchema):
        parse(Schema(text=text))
    assert time.monotonic() - began < 20


def test_what_is_told_of_a_long_name_is_short() -> None:
    """A name of a megabyte is not answered with a megabyte."""
    with pytest.raises(InvalidSchema) as refused:
        parse(Schema(text='"' + "x" * 1_000_000 + '"'))
    assert len(refused.value.detail) < 1_000


def test_many_fields_are_no_harm() -> None:
    """The most fields that a text can have are understood, and written again."""
    fields = ",".join(f'{{"name":"f{index}","type":"int"}}' for index in range(33_000))
    text = f'{{"type":"record","name":"R","fields":[{fields}]}}'
    assert len(text) < SCHEMA_BYTES_MAX
    parsed = _parsed(text)
    assert len(parsed.root.fields) == 33_000
    assert parsed.canonical == text
    assert parsed.normalized == text


def test_a_lone_surrogate_is_refused() -> None:
    """A text that can't be stored as UTF-8 is no schema."""
    with pytest.raises(InvalidSchema, match="surrogate"):
        parse(Schema(text='"\ud800"'))
