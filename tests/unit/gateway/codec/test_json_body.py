"""JSON and NDJSON bodies: what the contract names, case by case; the rest is in the property tests."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from gateway.codec import json_batch
from gateway.codec.incoming import NO_PARTITION, IncomingRecords
from gateway.codec.json_body import GROUP_RECORDS, decode_json
from gateway.codec.ndjson_body import PIECE_BYTES, decode_ndjson
from log_format.errors import ErrorCode, RequestRefused


def body(*records: str) -> bytes:
    return ('{"records":[' + ",".join(records) + "]}").encode()


def value_of(incoming: IncomingRecords, index: int = 0) -> bytes | None:
    value: bytes | None = incoming.records.column("value")[index].as_py()
    return value


def refusal(data: bytes) -> RequestRefused:
    with pytest.raises(RequestRefused) as refused:
        decode_json(data)
    assert refused.value.status == 400
    return refused.value


def wheres(error: RequestRefused) -> list[str]:
    return [entry["where"] for entry in error.fields["errors"]]


def test_an_empty_list_is_no_records() -> None:
    """An empty batch is good, and is nothing."""
    assert len(decode_json(b' { "records" : [ ] } ')) == 0
    assert len(decode_ndjson(b"")) == len(decode_ndjson(b"\n \r\n\n")) == 0


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ('"{\\"amount\\":3}"', b'{"amount":3}'),
        ("null", None),
        ('""', b""),
        ('{ "b" : 1.0, "a" : [ 1E5 , -0, true, null ] }', b'{"b":1.0,"a":[1E5,-0,true,null]}'),
        ("12345678901234567890123456789012345678901234567890", b"12345678901234567890123456789012345678901234567890"),
        ("9" * 10_000, b"9" * 10_000),
        ("1e999999", b"1e999999"),
        ("false", b"false"),
        ("-0", b"-0"),
        (
            '{"k\\u00e9y\\/":"\\u00e9\\ud83d\\ude00\\u0007\\u0022\\u005c\\u000A"}',
            '{"kéy/":"é\U0001f600\\u0007\\"\\\\\\n"}'.encode(),
        ),
        ('{"a":"\\\\u00e9"}', b'{"a":"\\\\u00e9"}'),
        ('{"a":"x y"}', b'{"a":"x y"}'),
        ("[]", b"[]"),
    ],
)
@pytest.mark.parametrize("more", [(), ('{"value":"x","offset":{}}',)])
def test_values_are_stored_as_the_contract_says(sent: str, stored: bytes | None, more: tuple[str, ...]) -> None:
    """Strings as their bytes, the rest as compact JSON with its numbers as sent, by the fast way and by the exact one."""
    assert value_of(decode_json(body(f'{{"value":{sent}}}', *more))) == stored
    assert value_of(decode_ndjson(f'{{"value":{sent}}}\n'.encode())) == stored


def test_a_whole_record() -> None:
    """Every member arrives where it belongs; what is absent or null is null; ``offset`` is ignored."""
    incoming = decode_json(
        body(
            '{"partition":3,"offset":41,"timestamp":1763683200000,"key":"user-7","value":"v",'
            '"headers":[{"key":"trace","value":"ab"},{"key":"trace","value_base64":"/w=="},{"key":"n","value":null}]}',
            '{"partition":null,"offset":null,"timestamp":null,"key":null,"value_base64":"/w==","headers":null}',
            '{"key_base64":"","value":"v","headers":{"b":"1","a":"2"}}',
        )
    )
    assert incoming.partitions is not None
    assert incoming.partitions.tolist() == [3, NO_PARTITION, NO_PARTITION]
    assert [row["timestamp"] and row["timestamp"].timestamp() for row in incoming.records.to_pylist()] == [
        1763683200.0,
        None,
        None,
    ]
    assert incoming.records.column("key").to_pylist() == [b"user-7", None, b""]
    assert incoming.records.column("value").to_pylist() == [b"v", b"\xff", b"v"]
    assert incoming.records.column("headers").to_pylist() == [
        [{"key": "trace", "value": b"ab"}, {"key": "trace", "value": b"\xff"}, {"key": "n", "value": None}],
        None,
        [{"key": "b", "value": b"1"}, {"key": "a", "value": b"2"}],
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"records":null}',
        b'{"records":{}}',
        b'{"records":[],"x":1}',
        b'{"records":[],"records":[]}',
        b'{"records":[],"\\u0072ecords":[]}',
        b'{"records":[]}x',
        b'{"records":[]}{"records":[]}',
        b'{"records":[],}',
        b'{"records":[{"value":"x"},]}',
        b'{"records":[{"value":NaN}]}',
        b'{"records":[{"value":Infinity}]}',
        b'{"records":[{"value":01}]}',
        b'{"records":[{"value":"\n"}]}',
        b'{"records":[{"value":"\xff"}]}',
        b'{"records":[{"value":["\xed\xa0\x80"]}]}',
        b'\xef\xbb\xbf{"records":[]}',
        b'{"records":[{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"records":' + b"[" * 100_000,
        b"\x00",
    ],
)
def test_a_wrong_envelope_is_an_invalid_request(data: bytes) -> None:
    """What is not one object with exactly the member ``records``, in UTF-8, is refused as a request."""
    error = refusal(data)
    assert error.code is ErrorCode.INVALID_REQUEST
    assert len(error.fields["errors"]) == 1


@pytest.mark.parametrize(
    ("record", "where"),
    [
        ("3", ""),
        ('"x"', ""),
        ("[]", ""),
        ("{}", "/value"),
        ('{"key":"a"}', "/value"),
        ('{"value":"a","value_base64":"YQ=="}', "/value"),
        ('{"value":null,"value_base64":null}', "/value"),
        ('{"value":"a","key":"a","key_base64":"YQ=="}', "/key"),
        ('{"value":"a","key":null,"key_base64":"YQ=="}', "/key"),
        ('{"value_base64":"YQ"}', "/value_base64"),
        ('{"value_base64":"YQ==\\n"}', "/value_base64"),
        ('{"value_base64":"-_8="}', "/value_base64"),
        ('{"value_base64":" YQ=="}', "/value_base64"),
        ('{"value_base64":"YQ==="}', "/value_base64"),
        ('{"value_base64":"é"}', "/value_base64"),
        ('{"value_base64":null}', "/value_base64"),
        ('{"value_base64":5}', "/value_base64"),
        ('{"value":"a","key":5}', "/key"),
        ('{"value":"a","key":{}}', "/key"),
        ('{"value":"a","key":true}', "/key"),
        ('{"value":"a","bogus":1}', "/bogus"),
        ('{"value":"a","Key":"x"}', "/Key"),
        ('{"value":"a","timestamp":-1}', "/timestamp"),
        ('{"value":"a","timestamp":253402300800000}', "/timestamp"),
        ('{"value":"a","timestamp":3.0}', "/timestamp"),
        ('{"value":"a","timestamp":1e3}', "/timestamp"),
        ('{"value":"a","timestamp":"3"}', "/timestamp"),
        ('{"value":"a","timestamp":true}', "/timestamp"),
        ('{"value":"a","timestamp":' + "9" * 6000 + "}", "/timestamp"),
        ('{"value":"a","expires_at":-1}', "/expires_at"),
        ('{"value":"a","expires_at":253402300800000}', "/expires_at"),
        ('{"value":"a","expires_at":"1"}', "/expires_at"),
        ('{"value":"a","expires_at":1,"expires_at":1}', "/expires_at"),
        ('{"value":"a","partition":-1}', "/partition"),
        ('{"value":"a","partition":2147483648}', "/partition"),
        ('{"value":"a","partition":1.5}', "/partition"),
        ('{"value":"a","partition":false}', "/partition"),
        ('{"value":"a","headers":3}', "/headers"),
        ('{"value":"a","headers":"x"}', "/headers"),
        ('{"value":"a","headers":[3]}', "/headers/0"),
        ('{"value":"a","headers":[{"key":"k"}]}', "/headers/0/value"),
        ('{"value":"a","headers":[{"value":"k"}]}', "/headers/0/key"),
        ('{"value":"a","headers":[{"key":null,"value":"k"}]}', "/headers/0/key"),
        ('{"value":"a","headers":[{"key":"k","value":3}]}', "/headers/0/value"),
        ('{"value":"a","headers":[{"key":"k","value":{}}]}', "/headers/0/value"),
        ('{"value":"a","headers":[{"key":"k","value":"x","x":1}]}', "/headers/0"),
        ('{"value":"a","headers":[{"key":"k","value":"x","value_base64":"eA=="}]}', "/headers/0/value"),
        ('{"value":"a","headers":[{"key":"k","value_base64":"eA"}]}', "/headers/0/value_base64"),
        ('{"value":"a","headers":{"a/b~":null}}', "/headers/a~1b~0"),
        ('{"value":"a","headers":{"a":1}}', "/headers/a"),
        ('{"value":"a","value":"a"}', "/value"),
        ('{"value":"a","timestamp":1,"timestamp":1}', "/timestamp"),
        ('{"value":"a","offset":1,"offset":1}', "/offset"),
        ('{"value":"a","v\\u0061lue":"a"}', "/value"),
        ('{"value":{"a":1,"a":1}}', ""),
        ('{"value":[[{"b":{"a":1,"\\u0061":1}}]]}', ""),
        ('{"value":"a","headers":{"a":"1","a":"1"}}', ""),
        ('{"value":"a","headers":[{"key":"a","value":"1","key":"a"}]}', ""),
        ('{"value":"a","offset":{"a":1,"a":2}}', ""),
        ('{"value":"\\ud800"}', "/value"),
        ('{"value":"\\udc00\\ud800"}', "/value"),
        ('{"value":"\\ud800\\u0041"}', "/value"),
        ('{"value":{"a":["\\uDBFF"]}}', "/value"),
        ('{"value":"a","key":"\\udfff"}', "/key"),
        ('{"value":"a","headers":{"a":"\\ud800"}}', "/headers/a"),
        ('{"value":"a","headers":[{"key":"\\ud800","value":"x"}]}', "/headers/0/key"),
    ],
)
def test_a_record_that_cannot_be_stored_is_named(record: str, where: str) -> None:
    """One bad record among good ones refuses all, and its pointer is in the answer; so is its line in NDJSON."""
    good = '{"value":"\\ud83d\\ude00"}'
    error = refusal(body(good, record, good))
    assert error.code is ErrorCode.INVALID_RECORD
    assert f"/records/1{where}" in wheres(error)
    assert all(pointer.startswith("/records/1") for pointer in wheres(error))
    with pytest.raises(RequestRefused) as refused:
        decode_ndjson("\n".join((good, "", record, good)).encode())
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert set(wheres(refused.value)) == {"line 3"}
    assert all(entry["what"].startswith("column ") for entry in refused.value.fields["errors"])


def test_every_bad_record_is_listed_up_to_twenty() -> None:
    """A refusal lists all errors of a batch, up to a bound."""
    bad = ["{}" if index % 2 else '{"value":"x"}' for index in range(30)]
    assert wheres(refusal(body(*bad))) == [f"/records/{index}/value" for index in range(1, 30, 2)]
    assert len(refusal(body(*["{}"] * 5000)).fields["errors"]) == 20


def test_malformed_json_is_named_by_line_and_column() -> None:
    """The position at which parsing stopped, columns in characters."""
    error = refusal('{"records":\n[{"value":"éé", }]}'.encode())
    assert error.fields["errors"][0]["where"] == "line 2"
    assert error.fields["errors"][0]["what"].startswith("column 17:")


def test_ndjson_names_line_and_column_of_a_bad_line_in_the_middle() -> None:
    """Blank lines count, and so does every bad line."""
    with pytest.raises(RequestRefused) as refused:
        decode_ndjson(b'{"value":"a"}\r\n\r\n{"value":"b"\n{"value":"c"}\n\xff\n{"value":"d"}{"value":"e"}')
    assert [(entry["where"], entry["what"].split(":")[0]) for entry in refused.value.fields["errors"]] == [
        ("line 3", "column 13"),
        ("line 5", "column 1"),
        ("line 6", "column 14"),
    ]


@pytest.mark.parametrize("data", [b'{"value":"a"} {"value":"b"}', b'{"value":\n"a"}', b'{"value":"a"} {"value":{\n}}'])
def test_ndjson_lines_are_records(data: bytes) -> None:
    """Two records on a line, or one on two, are refused, although a parser of consecutive values would take them."""
    with pytest.raises(RequestRefused):
        decode_ndjson(data)


def test_ndjson_in_pieces_keeps_its_line_numbers() -> None:
    """A body longer than a piece gives all its records, and positions count from its beginning."""
    lines = [json.dumps({"value": f"{index:05d}" + "x" * 200}) for index in range(3 * PIECE_BYTES // 200)]
    lines[7] = ""
    incoming = decode_ndjson("\n".join(lines).encode())
    assert [value[:5] for value in incoming.records.column("value").to_pylist()] == [
        b"%05d" % index for index in range(len(lines)) if index != 7
    ]
    assert incoming.places.lines is not None
    assert [int(incoming.places.lines[7]), int(incoming.places.lines[-1])] == [9, len(lines)]
    lines[-2] = "{}"
    with pytest.raises(RequestRefused) as refused:
        decode_ndjson("\n".join(lines).encode())
    assert wheres(refused.value) == [f"line {len(lines) - 1}"]


def test_records_in_groups_are_the_records() -> None:
    """When the whole is not taken at once, groups give the same, in order, and pointers count over all of them."""
    count = 3 * GROUP_RECORDS + 1
    texts = [f'{{"value":{index},"offset":{"{}" if index == 5 else index}}}' for index in range(count)]
    assert json_batch.decode_envelope(body(*texts)) is None
    assert decode_json(body(*texts)).records.column("value").to_pylist() == [b"%d" % index for index in range(count)]
    assert wheres(refusal(body(*texts, "{}"))) == [f"/records/{count}/value"]


@pytest.mark.parametrize(
    "unit",
    [b'{"value":[' + b"{}," * 2999 + b"{}]}", b'{"value":""}', b'{"value":{"a":[[],[],[]]}}'],
    ids=["objects", "small", "mixed"],
)
def test_dense_bodies_stay_near_their_size(unit: bytes) -> None:
    """A body that would be many times its size as Python objects takes a bounded multiple of it."""
    count = 5 * 1024 * 1024 // 2 // len(unit)
    data = b'{"records":[' + b",".join([unit] * count) + b"]}"
    tracemalloc.start()
    incoming = decode_json(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(incoming) == count
    assert peak < 10 * len(data)


def test_the_error_of_a_huge_member_name_is_short() -> None:
    """What is sent is not sent back."""
    error = refusal(body('{"value":"a","' + "n" * 100_000 + '":1}'))
    assert len(json.dumps(error.fields)) + len(error.detail) < 2_000


def errors_of(decode: Any, data: bytes) -> list[dict[str, str]]:
    with pytest.raises(RequestRefused) as refused:
        decode(data)
    found: list[dict[str, str]] = refused.value.fields["errors"]
    return found


def test_too_many_members_of_one_object_are_refused() -> None:
    """Finding a repeated name takes memory for each name, so there is a bound, and it is said."""
    members = ",".join(f'"{index}":0' for index in range(262_145))
    errors = errors_of(decode_json, body('{"value":{' + members + '},"offset":{}}'))
    assert errors[0]["where"] == "/records/0"
    assert "262144" in errors[0]["what"]
