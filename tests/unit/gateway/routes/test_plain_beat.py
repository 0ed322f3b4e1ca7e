"""A heartbeat that is read the short way is what the long way makes of it; any other goes the long way."""

from __future__ import annotations

import pytest

from gateway.http.json_request import parse_model, parse_object
from gateway.routes.groups import Beat
from log_format.errors import RequestRefused


@pytest.mark.parametrize(
    "data", [b'{"generation":0}', b' {"generation" : 9223372036854775807 }\n', b'{"generation":-0}']
)
def test_both_ways_agree(data: bytes) -> None:
    """On the generation."""
    plain = Beat.plain(data)
    assert plain is not None
    assert plain.generation == Beat.model_validate(parse_object(data)).generation == parse_model(Beat, data).generation


@pytest.mark.parametrize(
    "data",
    [
        b'{"generation":1,"generation":1}',
        b'{"generation":1,"x":1}',
        b'{"generation":-1}',
        b'{"generation":9223372036854775808}',
        b'{"generation":1.0}',
        b'{"generation":true}',
        b'{"generation":null}',
        b'{"generation":"1"}',
        b'{"generation":1}x',
        b'{"generation\xff":1}',
        b"{}",
        b"[]",
    ],
)
def test_what_is_wrong_is_refused_the_long_way(data: bytes) -> None:
    """The short way says nothing of it, so the refusal names the fault as ever."""
    assert Beat.plain(data) is None
    with pytest.raises(RequestRefused):
        parse_model(Beat, data)


def test_a_name_with_escapes_goes_the_long_way() -> None:
    """It is the same name, which may hide that it is given twice."""
    data = rb'{"gener\u0061tion":1}'
    assert parse_model(Beat, data).generation == 1
    with pytest.raises(RequestRefused):
        parse_model(Beat, rb'{"gener\u0061tion":1,"generation":2}')
