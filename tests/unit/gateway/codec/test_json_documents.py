"""Bodies whose values are objects of one form: what is cut out of the text, and what is left to the parser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.codec import json_documents
from gateway.codec.json_body import decode_json
from gateway.codec.ndjson_body import decode_ndjson
from gateway.codec.record_columns import RecordColumns
from log_format.errors import RequestRefused

COUNT = 500


def record(index: int) -> dict[str, Any]:
    """Return a record with each kind of value, text that looks like JSON, and names longer than eight bytes."""
    items = [{"id": index, "quantity": None}, {"id": index + 1, "quantity": 1e300}]
    at = {"identification": f"é: {index}", "identificatiom": 'a "word", {} \\'[: index % 17]}
    return {
        "key": f"clé {index}",
        "value": {"id": index, "items": items, "at": at, "flag": index % 2 == 0, "none": [], "x": {}},
    }


RECORDS = [record(index) for index in range(COUNT)]
PLAIN = [{"key": one["key"], "value": one["value"] | {"at": {}}} for one in RECORDS]
VALUE = PLAIN[0]["value"]


def found(body: bytes) -> RecordColumns | None:
    return json_documents.decode_envelope(body)


def text_of(records: object, **form: Any) -> bytes:
    return json.dumps({"records": records}, ensure_ascii=False, **form).encode()


def stored(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize("form", [{}, {"separators": (",", ":")}, {"separators": (" , ", ": ")}, {"indent": 1}])
@pytest.mark.parametrize("names", [("key", "value"), ("value", "key"), ("value",)])
def test_documents_of_one_form_are_cut_out(names: tuple[str, ...], form: dict[str, Any]) -> None:
    """What programs send is taken, compact and with its strings exact: in any order, with any spaces, with keys or without."""
    records = [
        {name: one[name] for name in names} for one in RECORDS if "{" not in one["value"]["at"]["identificatiom"]
    ]
    columns = found(text_of(records, **form))
    assert columns is not None
    columns.values.validate(full=True)
    assert columns.values.to_pylist() == [stored(one["value"]) for one in records]
    keys = None if columns.keys is None else columns.keys.to_pylist()
    assert keys == ([one["key"].encode() for one in records] if "key" in names else None)


def test_lines_and_lists_are_cut_out_as_bodies_are() -> None:
    """NDJSON and the groups of a large body take the same way, to the same records."""
    records = [one for one in RECORDS if "{" not in one["value"]["at"]["identificatiom"]]
    lines = [json.dumps(one, ensure_ascii=False).encode() for one in records]
    whole = found(text_of(records))
    assert whole is not None
    for columns in (
        json_documents.decode_lines(b"\n".join(lines)),
        json_documents.decode_lines(b"\r\n".join(lines) + b"\r\n"),
        json_documents.decode_list(b"[" + b" , ".join(lines) + b" ]"),
    ):
        assert columns is not None
        assert columns.values.equals(whole.values)
        assert columns.keys == whole.keys
    assert decode_ndjson(b"\n".join(lines)).records.column("value").to_pylist() == whole.values.to_pylist()


@pytest.mark.parametrize(
    ("odd", "value"),
    [
        ({"key": "k", "value": None}, None),
        ({"key": "k", "value": [VALUE]}, stored([VALUE])),
        ({"key": "k", "value": VALUE | {"more": 1}}, stored(VALUE | {"more": 1})),
        ({"key": "k", "value": {"idx": 1} | VALUE}, stored({"idx": 1} | VALUE)),
        ({"value": VALUE, "key": "k"}, stored(VALUE)),
        ({"key": "k", "value": VALUE, "headers": {}}, stored(VALUE)),
        ({"key": "k", "value": VALUE, "timestamp": 7}, stored(VALUE)),
        ({"key": 'k"', "value": VALUE}, stored(VALUE)),
        ({"value": VALUE}, stored(VALUE)),
    ],
)
@pytest.mark.parametrize("place", [0, 1, COUNT - 1])
def test_an_odd_record_leaves_the_body_to_the_parser(odd: dict[str, Any], value: bytes | None, place: int) -> None:
    """One record of another form is enough, wherever it stands; the body means what it always meant."""
    records = list(PLAIN)
    assert found(text_of(records)) is not None
    records[place] = odd
    body = text_of(records)
    assert found(body) is None
    assert decode_json(body).records.column("value")[place].as_py() == value


@pytest.mark.parametrize(
    "names", [("id", "ie"), ("identification", "identificatiom"), ("identification", "identificatiox")]
)
def test_a_repeated_member_is_found_in_any_record(names: tuple[str, str]) -> None:
    """One record among many that names a member twice is refused, though each of the others has two; so are all that do."""
    wanted, other = names
    records = [{"key": "k", "value": {"a": {wanted: index, other: index}, "text": "x" * 60}} for index in range(COUNT)]
    body = text_of(records)
    assert found(body) is not None
    place = body.rindex(f'"{other}"'.encode())
    for bad in (
        body[:place] + f'"{wanted}"'.encode() + body[place + len(other) + 2 :],
        body.replace(other.encode(), wanted.encode()),
    ):
        assert found(bad) is None
        with pytest.raises(RequestRefused, match="more than once"):
            decode_json(bad)


@pytest.mark.parametrize("odd", [{"headers": {}}, {"timestamp": 7}, {"key": 'a "word"'}])
@pytest.mark.parametrize("first", ["key", "value"])
def test_records_of_another_form_are_left_to_the_parser(first: str, odd: dict[str, Any]) -> None:
    """A member behind the value is no part of it, and an escape in a key is none of its bytes, though all records have them."""
    records = [{first: one[first], **one, **odd} for one in PLAIN]
    body = text_of(records)
    assert found(body) is None
    decoded = decode_json(body).records
    assert decoded.column("value").to_pylist() == [stored(one["value"]) for one in records]
    assert decoded.column("key").to_pylist() == [one["key"].encode() for one in records]


@pytest.mark.parametrize("space", [b" ", b"\n"])
def test_names_are_found_before_spaces(space: bytes) -> None:
    """A member that has white space before its colon is a member."""
    body = text_of(
        [{"key": "k", "value": {"a": index, "b": "x" * 60}} for index in range(COUNT)], separators=(",", ":")
    )
    bad = body[:-20_000] + body[-20_000:].replace(b'"b":', b'"a"' + space + b":", 1)
    assert found(bad) is None
    with pytest.raises(RequestRefused):
        decode_json(bad)


@pytest.mark.parametrize("escape", ["\\u0041", "\\/", "\\ud800"])
def test_longer_forms_of_characters_are_left_to_the_parser(escape: str) -> None:
    """What is stored in a shorter form than it is sent in is not cut out."""
    records = ",".join(f'{{"value":{{"a":"{escape}{index}{"x" * 70}"}}}}' for index in range(COUNT))
    assert found(f'{{"records":[{records}]}}'.encode()) is None


@pytest.mark.parametrize("token", ["{", "}", "\\n"])
def test_a_text_with_very_many_places_is_left_to_the_parser(token: str) -> None:
    """Braces and escapes in strings have places, too: their number is bounded as that of quotation marks is."""
    record = f'{{"value":{{"a":"{token * 2000}"}}}}'
    for count, is_cut in ((20, True), (json_documents.PLACES_MAX // 2000 + 1, False)):
        body = f'{{"records":[{",".join([record] * count)}]}}'.encode()
        assert (found(body) is not None) is is_cut
        assert len(decode_json(body).records) == count


def test_the_envelope_is_the_parsers() -> None:
    """What stands around the records, a list in the list, or a second list, is judged as before."""
    body = text_of(PLAIN)
    assert found(body) is not None
    text = body[body.index(b"[") : -1]
    for bad in (
        body[:-1],
        body + b"}",
        body[:-1] + b',"x":1}',
        body[:-2] + b",1]}",
        body.replace(b"records", b"recores", 1),
        b'{"records":[' + text + b"]}",
        b'{"records":' + text + b',"records":' + text + b"}",
        body.replace(b"true", b"\xff", 1),
        body.replace("clé".encode(), b"cl\xff\xff", 1),
    ):
        assert found(bad) is None
        with pytest.raises(RequestRefused):
            decode_json(bad)
