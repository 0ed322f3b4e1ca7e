"""Bodies whose records are written alike: what is taken by places of quotation marks, and what is left to the parser."""

from __future__ import annotations

import json

import pytest

from gateway.codec import json_alike
from gateway.codec.json_body import decode_json
from gateway.codec.record_columns import RecordColumns
from log_format.errors import RequestRefused

COUNT = 500
RECORDS = [{"key": f"clé-{index}", "value": f"{index}: [1, 2], {{}}" + "x" * 90} for index in range(COUNT)]


def found(body: bytes) -> RecordColumns | None:
    return json_alike.decode_envelope(body, bytes_min=0)


def text_of(records: object, **form: object) -> bytes:
    return json.dumps({"records": records}, ensure_ascii=False, **form).encode()  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [{}, {"separators": (",", ":")}, {"sort_keys": True, "separators": (" , ", " : ")}])
@pytest.mark.parametrize("names", [("key", "value"), ("value", "key"), ("value",)])
def test_records_that_are_written_alike_are_taken(names: tuple[str, ...], form: dict[str, object]) -> None:
    """What programs send is taken, with its strings exact: in any order, with any spaces, with keys or without."""
    columns = found(text_of([{name: record[name] for name in names} for record in RECORDS], **form))
    assert columns is not None
    columns.values.validate(full=True)
    assert columns.values.to_pylist() == [record["value"].encode() for record in RECORDS]
    keys = None if columns.keys is None else columns.keys.to_pylist()
    assert keys == ([record["key"].encode() for record in RECORDS] if "key" in names else None)


@pytest.mark.parametrize(
    ("odd", "stored"),
    [
        ({"key": "k", "value": None}, None),
        ({"key": "k", "value": 7}, b"7"),
        ({"key": "k", "value": 'a "word"'}, b'a "word"'),
        ({"value": "v", "key": "k"}, b"v"),
        ({"key": "k", "value_base64": "YQ=="}, b"a"),
        ({"key": "k", "value": "v", "headers": []}, b"v"),
        ({"key": "k", "value": "v", "timestamp": 7}, b"v"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2, COUNT - 1])
def test_an_odd_record_leaves_the_body_to_the_parser(odd: dict[str, object], stored: bytes | None, place: int) -> None:
    """One record that is written otherwise is enough, wherever it stands; the body means what it always meant."""
    records: list[dict[str, object]] = [dict(record) for record in RECORDS]
    records[place] = odd
    body = text_of(records)
    assert found(body) is None
    assert decode_json(body).records.column("value")[place].as_py() == stored


@pytest.mark.parametrize(
    ("sent", "instead"),
    [
        (b'"value":', b'"valux":'),
        (b'"value":', b'"key":  '),
        (b'"value":', b'"value";'),
        (b'},{"key":', b'}, "key":'),
        (b"x", b"\n"),
        (b"x", b"\xff"),
    ],
)
def test_a_bad_record_among_many_is_refused(sent: bytes, instead: bytes) -> None:
    """A body that differs in one place far behind its first records is refused as before: nothing is taken on trust."""
    body = text_of(RECORDS, separators=(",", ":"))
    assert found(body) is not None
    cut = body.rindex(b"},{", 0, len(body) - 2000)
    place = body.index(sent, cut)
    bad = body[:place] + instead + body[place + len(sent) :]
    assert found(bad) is None
    with pytest.raises(RequestRefused):
        decode_json(bad)


def test_the_envelope_is_the_parsers() -> None:
    """What stands around the records is judged as before."""
    body = text_of(RECORDS)
    for bad in (body[:-1], body + b"}", body[:-1] + b',"x":1}', body.replace(b"records", b"recores", 1)):
        assert found(bad) is None
        with pytest.raises(RequestRefused):
            decode_json(bad)
