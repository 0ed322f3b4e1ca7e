"""Control bodies: what is too much is refused before it is parsed, and what is only long is not."""

from __future__ import annotations

import json
import time

import pytest

from gateway.http.json_request import NODES_MAX, parse_object
from log_format.errors import RequestRefused

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":[' + b"[]," * (4 * MEBIBYTE) + b"[]]}",
        b"{" + b'"a":0,' * (2 * MEBIBYTE) + b'"a":0}',
        b"[" * (8 * MEBIBYTE),
        b'{"x":"' + b'\\"' * MEBIBYTE + b'",' + b"[" * (2 * NODES_MAX),
    ],
)
def test_dense_bodies_are_not_parsed(body: bytes) -> None:
    """400 in a moment: parsing holds the interpreter's lock, and takes many times the body's size."""
    begun = time.process_time()
    with pytest.raises(RequestRefused, match="commas and brackets") as refused:
        parse_object(body)
    assert (refused.value.status, str(refused.value.code)) == (400, "INVALID_REQUEST")
    assert time.process_time() - begun < 0.5


def test_long_bodies_are_parsed() -> None:
    """Ten thousand offsets with metadata, and texts of nothing but commas and brackets, are no such bodies."""
    offset = {"topic": "t", "partition": 1, "offset": 2, "metadata": 'a,"[{\\' * 20}
    body = {"offsets": [offset] * 10_000, "text": "[{,\\" * MEBIBYTE}
    members = parse_object(json.dumps(body).encode())
    assert members.raw("offsets") == body["offsets"]
    assert members.text("text") == body["text"]


def test_enough_faults_are_noted() -> None:
    """Of a hundred thousand unknown members twenty are named, and no work is done for the others."""
    members = parse_object(json.dumps({f"m{number}": 0 for number in range(100_000)}).encode())
    begun = time.process_time()
    with pytest.raises(RequestRefused) as refused:
        members.finish()
    assert time.process_time() - begun < 0.2
    assert len(refused.value.fields["errors"]) == 20
