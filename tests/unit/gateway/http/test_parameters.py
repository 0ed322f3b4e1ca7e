"""Query parameters, headers and path parts: parsed strictly or refused by name."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from starlette.requests import Request

from gateway.asgi.path import decode_path
from gateway.http import fields
from gateway.http.parameters import (
    header_names,
    header_pairs,
    parse_parameters,
    parse_partition,
    parse_topic,
    path_text,
    query_pairs,
)
from gateway.http.producer_headers import ConditionalHeaders, ProducerHeaders
from gateway.routes.fetch_operation import FetchHeaders, FetchQuery
from gateway.routes.produce_operation import ProduceQuery
from log_format.errors import RequestRefused
from log_format.topic.producers import ProducerStamp


def request(query: bytes = b"", *, headers: dict[str, str] | None = None, **path: str) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    return Request({"type": "http", "query_string": query, "path_params": path, "headers": raw})


def parsed(query: bytes, model: type[BaseModel] = FetchQuery) -> dict[str, Any]:
    return parse_parameters(model, query_pairs(request(query)), "Query parameter").model_dump()


def test_defaults_and_values() -> None:
    """Every declared parameter has a value, its default when it is absent."""
    limits: dict[str, Any] = {"max_records": 500, "max_bytes": 1 << 20, "min_bytes": 1, "max_wait_ms": 0}
    limits |= {"header": [], "key": None, "key_base64": None, "value_contains": None}
    limits |= {"topic_id": None}
    assert parsed(b"") == {"offset": None, "timestamp": None, **limits}
    assert parsed(b"offset=7&max_records=1") == {"offset": 7, "timestamp": None, **limits, "max_records": 1}
    assert parsed(b"offset=latest")["offset"] == "latest"
    assert parsed(b"key=a%2Fb&acks=0", ProduceQuery).items() >= {"acks": "0", "key": "a/b", "partition": None}.items()
    assert parsed(b"key=", ProduceQuery)["key"] == ""
    assert parsed(b"header=a:1&key=7&header=b%3A%2A")["header"] == ["a:1", "b:*"]
    assert parsed(b"key=7")["key"] == "7"


@pytest.mark.parametrize(
    ("query", "where"),
    [
        (b"offste=1", "offste"),
        (b"offset=1&offset=1", "offset"),
        (b"key=1&header=a:1&key=1", "key"),
        (b"header=a:1&header=b", "header"),
        (b"&".join([b"header=a:1"] * 17), "header"),
        (b"key_base64=_w%3D%3D", "key_base64"),
        (b"key=a&key_base64=YQ%3D%3D", "key"),
        (b"offset=abc", "offset"),
        (b"offset=1.0", "offset"),
        (b"offset=%201", "offset"),
        (b"offset=", "offset"),
        (b"offset=-1", "offset"),
        (b"offset=1e3", "offset"),
        (b"offset=0x1", "offset"),
        (b"offset=1_000", "offset"),
        ("offset=٣".encode(), "offset"),
        (b"offset=9223372036854775808", "offset"),
        (b"offset=" + b"9" * 5000, "offset"),
        (b"offset=Latest", "offset"),
        (b"max_records=0", "max_records"),
        (b"max_records=100001", "max_records"),
        (b"max_records", "max_records"),
    ],
)
def test_typing_errors_never_pass(query: bytes, where: str) -> None:
    """An unknown, repeated, malformed or out-of-range parameter is refused by its name."""
    with pytest.raises(RequestRefused) as caught:
        parsed(query)
    assert caught.value.status == 400
    assert caught.value.fields["errors"][0]["where"] == where


@pytest.mark.parametrize("query", [b"acks=1", b"acks=", b"partition=2147483648", b"key=" + b"k" * ((1 << 20) + 1)])
def test_typing_errors_of_a_raw_body_never_pass(query: bytes) -> None:
    """The record of a raw body is described by the query."""
    with pytest.raises(RequestRefused) as caught:
        parsed(query, ProduceQuery)
    assert caught.value.fields["errors"][0]["where"] == query.partition(b"=")[0].decode()


def test_the_range_is_named() -> None:
    """A client that asked for too much learns how much there is."""
    with pytest.raises(RequestRefused) as caught:
        parsed(b"max_records=0")
    assert "1 to 100000" in caught.value.fields["errors"][0]["what"]


def test_all_mistakes_are_named_at_once() -> None:
    """Two wrong parameters are two entries."""
    with pytest.raises(RequestRefused) as caught:
        parsed(b"a=1&max_records=x")
    assert [error["where"] for error in caught.value.fields["errors"]] == ["a", "max_records"]


@pytest.mark.parametrize("query", [b"key=%ff", b"key=\xff", b"&".join(b"a%d=1" % index for index in range(101))])
def test_queries_that_are_no_text_or_too_many(query: bytes) -> None:
    """Bytes that are not UTF-8, and more parameters than the bound, are refused as a whole."""
    with pytest.raises(RequestRefused) as caught:
        parsed(query)
    assert caught.value.status == 400


@given(st.binary(max_size=200))
def test_any_query_is_parsed_or_refused(query: bytes) -> None:
    """No bytes in a query raise anything but a refusal."""
    with contextlib.suppress(RequestRefused):
        parsed(query)


@given(st.integers(min_value=0, max_value=fields.INT64_MAX))
def test_every_offset_is_read_exactly(offset: int) -> None:
    """All 63 bits of an offset survive the query."""
    assert parsed(b"offset=%d" % offset)["offset"] == offset


def test_an_encoded_slash_is_no_separator() -> None:
    """``a%2Frecords`` is one part of the path, and the part is ``a/records``."""
    path = decode_path(b"/v1/topics/a%2Frecords/x%20y")
    parts = path.split("/")
    assert len(parts) == 5
    assert path_text(request(part=parts[3]), "part") == "a/records"
    assert parts[4] == "x y"


def test_a_path_that_is_not_utf8_is_refused() -> None:
    """Bytes that are no text can't be turned into another path silently."""
    with pytest.raises(RequestRefused) as caught:
        decode_path(b"/v1/topics/%ff")
    assert caught.value.status == 400


@given(st.text(max_size=50))
def test_any_text_can_be_a_path_part(part: str) -> None:
    """Percent-encoding gives back every text, slashes and percent signs included."""
    raw = "".join(f"%{byte:02X}" for byte in part.encode()).encode()
    path = decode_path(b"/v1/" + raw)
    assert path_text(request(part=path.split("/", 2)[2]), "part") == part


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a b", "ä", "a" * 250, "%2e%2e", "a\x00", "topic:delete-records"])
def test_names_that_no_topic_can_have_are_unknown_topics(name: str) -> None:
    """A path that tries tricks is answered like one that names nothing, before any store is asked."""
    with pytest.raises(RequestRefused) as caught:
        parse_topic(name)
    assert (caught.value.status, str(caught.value.code)) == (404, "UNKNOWN_TOPIC")


def test_topic_names_pass() -> None:
    """All permitted characters, up to the longest name."""
    assert parse_topic("A.b_c-9") == "A.b_c-9"
    assert parse_topic("a" * 249) == "a" * 249


@pytest.mark.parametrize("name", ["abc", "-1", "+1", "1.0", "01", " 1", "1e1", "", "9999999999", "٣"])
def test_a_partition_that_is_no_number_does_not_exist(name: str) -> None:
    """404 UNKNOWN_PARTITION, as the contract says."""
    with pytest.raises(RequestRefused) as caught:
        parse_partition(name)
    assert (caught.value.status, str(caught.value.code)) == (404, "UNKNOWN_PARTITION")


def test_partition_numbers_pass() -> None:
    """The number itself, whether or not the topic has it."""
    assert [parse_partition(name) for name in ("0", "7", "123456")] == [0, 7, 123456]


def headers_of(model: type[fields.Headers], **headers: str) -> Any:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return parse_parameters(model, header_pairs(request(headers=given), header_names(model)), "Header")


STAMP = {
    "Tidelog_Producer_Id": "p_1-",
    "Tidelog_Producer_Epoch": "0",
    "Tidelog_Producer_Sequence": str(fields.INT64_MAX),
}


def test_a_stamp_is_read_whole() -> None:
    """All three headers, or none; other headers are not looked at."""
    assert headers_of(ProducerHeaders, **STAMP, Accept="*/*").stamp == ProducerStamp("p_1-", 0, fields.INT64_MAX)
    assert headers_of(ProducerHeaders, Accept="*/*").stamp is None
    assert headers_of(ConditionalHeaders, Tidelog_Expected_Offset="7").expected_offset == 7
    assert headers_of(FetchHeaders, Last_Event_ID="7", Tidelog_Transaction="t").goes_on == (7, None)
    assert headers_of(FetchHeaders, Last_Event_ID="7@a-1").goes_on == (7, "a-1")


@pytest.mark.parametrize(
    ("model", "headers", "wrong"),
    [
        (ProducerHeaders, {"Tidelog_Producer_Epoch": "0"}, {"Tidelog-Producer-Id", "Tidelog-Producer-Sequence"}),
        (ProducerHeaders, {"Tidelog_Transaction": "t"}, {"Tidelog-Transaction"}),
        (ProducerHeaders, {**STAMP, "Tidelog_Producer_Id": "a\n"}, {"Tidelog-Producer-Id"}),
        (ProducerHeaders, {**STAMP, "Tidelog_Producer_Id": "a" * 256}, {"Tidelog-Producer-Id"}),
        (ProducerHeaders, {**STAMP, "Tidelog_Producer_Epoch": "+1"}, {"Tidelog-Producer-Epoch"}),
        (ProducerHeaders, {**STAMP, "Tidelog_Producer_Epoch": str(1 << 63)}, {"Tidelog-Producer-Epoch"}),
        (ConditionalHeaders, {"Tidelog_Expected_Offset": "", "Tidelog_Transaction": "/"}, None),
        (ConditionalHeaders, {"Tidelog_Expected_Offset": "0", "Tidelog_Transaction": "t"}, {"Tidelog-Expected-Offset"}),
        (FetchHeaders, {"Last_Event_ID": "x"}, {"Last-Event-ID"}),
    ],
)
def test_wrong_headers_are_named(model: type[fields.Headers], headers: dict[str, str], wrong: set[str] | None) -> None:
    """Missing ones, those that the route does not read, malformed ones, and two that exclude each other."""
    with pytest.raises(RequestRefused) as caught:
        headers_of(model, **headers)
    named = {error["where"] for error in caught.value.fields["errors"]}
    assert named == (wrong or {name.replace("_", "-") for name in headers})


def test_a_header_is_given_once() -> None:
    """Which of two would count is not guessed."""
    raw = [(b"tidelog-producer-id", b"a"), (b"tidelog-producer-id", b"a")]
    twice = Request({"type": "http", "headers": raw})
    with pytest.raises(RequestRefused, match="Tidelog-Producer-Id' is given more than once"):
        parse_parameters(ProducerHeaders, header_pairs(twice, header_names(ProducerHeaders)), "Header")
