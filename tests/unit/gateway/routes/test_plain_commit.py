"""A commit of offsets that is read the short way is what the long way makes of it; any other goes the long way."""

from __future__ import annotations

import json

import pytest

from gateway.groups.bounds import OFFSETS_PER_REQUEST_MAX
from gateway.http.json_request import parse_model, parse_object
from gateway.routes.group_offsets import OffsetsToCommit
from log_format.errors import RequestRefused

ONE = '{"topic":"t.1","partition":0,"offset":5}'
TWO = '{"offset": 9223372036854775807, "partition":1 ,"topic":"t.1"}'


def body(offsets: str, more: str = '"member_id":"m-1","generation":3') -> bytes:
    return f'{{"offsets":[{offsets}],{more}}}'.encode()


@pytest.mark.parametrize("offsets", ["", ONE, f"{ONE},{TWO}"])
def test_both_ways_agree(offsets: str) -> None:
    """Offsets, member and generation."""
    data = body(offsets)
    plain = OffsetsToCommit.plain(data)
    assert plain is not None
    long = OffsetsToCommit.model_validate(parse_object(data))
    assert (plain.member_id, plain.generation) == (long.member_id, long.generation)
    assert plain.next_offsets() == long.next_offsets()
    assert str(parse_model(OffsetsToCommit, data)) == str(plain)


@pytest.mark.parametrize(
    "data",
    [
        body(ONE, more='"member_id":"m-1","generation":3,"generation":3'),
        body('{"topic":"t","topic":"t","partition":0,"offset":5}'),
        body('{"topic":"t","partition":0,"offset":5,"offset":6}'),
        body(f"{ONE},{ONE}"),
        body('{"topic":"t","partition":-1,"offset":5}'),
        body('{"topic":"t","partition":0,"offset":9223372036854775808}'),
        body('{"topic":"t","partition":0,"offset":5.0}'),
        body('{"topic":"t","partition":true,"offset":5}'),
        body('{"topic":"t","partition":0,"offset":5,"x":1}'),
        body('{"topic":"t\x01","partition":0,"offset":5}'),
        body(ONE, more='"member_id":"m-1"'),
        body(ONE)[:-1],
        body(ONE) + b"x",
        body(ONE).replace(b"m-1", b"\xff"),
        b'[]',
        json.dumps(
            {"offsets": [{"topic": "t", "partition": number, "offset": 0} for number in range(OFFSETS_PER_REQUEST_MAX + 1)],
             "member_id": "m", "generation": 0}
        ).encode(),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_the_long_way(data: bytes) -> None:
    """The short way says nothing of it, so the refusal names the fault as ever."""
    if data.startswith(b"{"):
        assert OffsetsToCommit.plain(data) is None
    with pytest.raises(RequestRefused):
        parse_model(OffsetsToCommit, data)


@pytest.mark.parametrize(
    "data",
    [
        body('{"topic":"t","partition":0,"offset":5,"metadata":"x"}'),
        body('{"topic":"t","partition":0,"offset":5,"metadata":null}'),
        body(ONE.replace("t.1", "\\u0074")),
        body(ONE, more='"member_id":null,"generation":null'),
        f'{{"offsets":[{ONE}]}}'.encode(),
    ],
)
def test_what_is_not_plain_goes_the_long_way(data: bytes) -> None:
    """Metadata, escapes, and groups without members."""
    assert OffsetsToCommit.plain(data) is None
    assert isinstance(parse_model(OffsetsToCommit, data), OffsetsToCommit)
