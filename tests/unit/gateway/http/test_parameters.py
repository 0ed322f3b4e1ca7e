"""Query parameters and path parts: parsed strictly or refused by name."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from gateway.asgi.path import decoded
from gateway.http.parameters import (
    INT64_MAX,
    QueryParameters,
    choice,
    integer,
    integer_or_word,
    path_partition,
    path_text,
    path_topic,
    text,
)
from log_format.errors import RequestRefused

FETCH = QueryParameters(
    integer_or_word("offset", "Where", words=("earliest", "latest")),
    integer("max_records", "How many", minimum=1, maximum=100_000, default=500),
    text("prefix", "Which", length_max=5),
    choice("acks", "When", words=("0", "all"), default="all"),
)


def request(query: bytes = b"", **path: str) -> Request:
    return Request({"type": "http", "query_string": query, "path_params": path, "headers": []})


def parsed(query: bytes) -> dict[str, Any]:
    return FETCH.parse(request(query))


def test_defaults_and_values() -> None:
    """Every declared parameter has a value, its default when it is absent."""
    assert parsed(b"") == {"offset": None, "max_records": 500, "prefix": None, "acks": "all"}
    assert parsed(b"offset=7&max_records=1&prefix=a%2Fb&acks=0") == {
        "offset": 7,
        "max_records": 1,
        "prefix": "a/b",
        "acks": "0",
    }
    assert parsed(b"offset=latest")["offset"] == "latest"
    assert parsed(b"prefix=")["prefix"] == ""


@pytest.mark.parametrize(
    ("query", "where"),
    [
        (b"offste=1", "offste"),
        (b"offset=1&offset=1", "offset"),
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
        (b"prefix=123456", "prefix"),
        (b"acks=1", "acks"),
        (b"max_records", "max_records"),
    ],
)
def test_typing_errors_never_pass(query: bytes, where: str) -> None:
    """An unknown, repeated, malformed or out-of-range parameter is refused by its name."""
    with pytest.raises(RequestRefused) as caught:
        parsed(query)
    assert caught.value.status == 400
    assert caught.value.fields["errors"][0]["where"] == where


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


@pytest.mark.parametrize("query", [b"prefix=%ff", b"prefix=\xff", b"&".join(b"a%d=1" % index for index in range(101))])
def test_queries_that_are_no_text_or_too_many(query: bytes) -> None:
    """Bytes that are not UTF-8, and more parameters than the bound, are refused as a whole."""
    with pytest.raises(RequestRefused) as caught:
        parsed(query)
    assert caught.value.status == 400


@given(st.binary(max_size=200))
def test_any_query_is_parsed_or_refused(query: bytes) -> None:
    """No bytes in a query raise anything but a refusal."""
    with contextlib.suppress(RequestRefused):
        FETCH.parse(request(query))


@given(st.integers(min_value=0, max_value=INT64_MAX))
def test_every_offset_is_read_exactly(offset: int) -> None:
    """All 63 bits of an offset survive the query."""
    assert parsed(b"offset=%d" % offset)["offset"] == offset


def test_an_encoded_slash_is_no_separator() -> None:
    """``a%2Frecords`` is one part of the path, and the part is ``a/records``."""
    path = decoded(b"/v1/topics/a%2Frecords/x%20y")
    parts = path.split("/")
    assert len(parts) == 5
    assert path_text(request(part=parts[3]), "part") == "a/records"
    assert parts[4] == "x y"


def test_a_path_that_is_not_utf8_is_refused() -> None:
    """Bytes that are no text can't be turned into another path silently."""
    with pytest.raises(RequestRefused) as caught:
        decoded(b"/v1/topics/%ff")
    assert caught.value.status == 400


@given(st.text(max_size=50))
def test_any_text_can_be_a_path_part(part: str) -> None:
    """Percent-encoding gives back every text, slashes and percent signs included."""
    raw = "".join(f"%{byte:02X}" for byte in part.encode()).encode()
    path = decoded(b"/v1/" + raw)
    assert path_text(request(part=path.split("/", 2)[2]), "part") == part


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a b", "ä", "a" * 250, "%2e%2e", "a\x00", "topic:delete-records"])
def test_names_that_no_topic_can_have_are_unknown_topics(name: str) -> None:
    """A path that tries tricks is answered like one that names nothing, before any store is asked."""
    with pytest.raises(RequestRefused) as caught:
        path_topic(request(topic=name))
    assert (caught.value.status, str(caught.value.code)) == (404, "UNKNOWN_TOPIC")


def test_topic_names_pass() -> None:
    """All permitted characters, up to the longest name."""
    assert path_topic(request(topic="A.b_c-9")) == "A.b_c-9"
    assert path_topic(request(topic="a" * 249)) == "a" * 249


@pytest.mark.parametrize("name", ["abc", "-1", "+1", "1.0", "01", " 1", "1e1", "", "9999999999", "٣"])
def test_a_partition_that_is_no_number_does_not_exist(name: str) -> None:
    """404 UNKNOWN_PARTITION, as the contract says."""
    with pytest.raises(RequestRefused) as caught:
        path_partition(request(partition=name))
    assert (caught.value.status, str(caught.value.code)) == (404, "UNKNOWN_PARTITION")


def test_partition_numbers_pass() -> None:
    """The number itself, whether or not the topic has it."""
    assert [path_partition(request(partition=name)) for name in ("0", "7", "123456")] == [0, 7, 123456]
