"""Compressing answers: when, with what, and the same bytes at the other end."""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard
from starlette.types import Receive, Scope, Send

from gateway.asgi.compression import NO_COMPRESSION, CompressionMiddleware
from gateway.codec.answer_compression import choose_encoding
from tests.support.awaited import Sent, run, unread


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        (b"gzip", "gzip"),
        (b"zstd", "zstd"),
        (b"gzip, deflate, br, zstd", "zstd"),
        (b"GZIP", "gzip"),
        (b"gzip;q=0", None),
        (b"zstd;q=0, gzip", "gzip"),
        (b"zstd;q=0.0,gzip;q=0.000", None),
        (b"gzip;q=1.0, zstd;q=0.5", "gzip"),
        (b"gzip;q=0.5, zstd;q=0.5", "zstd"),
        (b"gzip;q=0.5, identity", None),
        (b"gzip ; q=0.3", "gzip"),
        (b"br", None),
        (b"identity", None),
        (b"*", None),
        (b"", None),
        (b"gzip;q=nonsense", None),
        (b"gzip;q=nan", None),
        (b"\xff\xfe", None),
    ],
)
def test_the_encoding_that_the_client_asks_for(accepted: bytes, chosen: str | None) -> None:
    """zstd when both are equally welcome, the heavier one else, none that is refused."""
    assert choose_encoding(accepted) == chosen


def answer(
    pieces: Sequence[bytes], accepted: bytes | None, content_type: bytes = b"application/json", **headers: bytes
) -> tuple[dict[bytes, bytes], list[bytes]]:
    raw = [
        (b"content-type", content_type),
        *((name.replace("_", "-").encode(), value) for name, value in headers.items()),
    ]
    if len(pieces) == 1:
        raw.append((b"content-length", str(len(pieces[0])).encode()))

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        for index, piece in enumerate(pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": index + 1 < len(pieces)})

    sent = Sent()
    scope = {"type": "http", "headers": [] if accepted is None else [(b"accept-encoding", accepted)]}
    with ThreadPoolExecutor(1) as pool:
        run(CompressionMiddleware(app, pool=pool)(scope, unread, sent.add))
    assert sent[-1]["more_body"] is False
    return dict(sent[0]["headers"]), [message["body"] for message in sent[1:]]


def unpacked(headers: dict[bytes, bytes], body: bytes) -> bytes:
    match headers.get(b"content-encoding"):
        case b"gzip":
            return gzip.decompress(body)
        case b"zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    return body


@pytest.mark.parametrize("accepted", [b"gzip", b"zstd"])
@pytest.mark.parametrize("size", [1025, 32 * 1024, 32 * 1024 + 1, 3 * 1024 * 1024 + 5])
def test_large_answers_are_compressed_exactly(accepted: bytes, size: int) -> None:
    """Inline or in the pool, in one piece or several: the same bytes come out, with their length and Vary."""
    data = (os.urandom(64) * (size // 64 + 1))[:size]
    headers, bodies = answer([data], accepted)
    body = b"".join(bodies)
    assert headers[b"content-encoding"] == accepted
    assert headers[b"vary"] == b"Accept-Encoding"
    assert int(headers[b"content-length"]) == len(body) < size
    assert unpacked(headers, body) == data


@pytest.mark.parametrize(
    ("pieces", "content_type"),
    [
        ([b"x" * 1024], b"application/json"),
        ([b"data: 1\n\n" * 1000, b"data: 2\n\n"], b"text/event-stream; charset=utf-8"),
    ],
    ids=["up to 1 KiB, inclusive", "event streams: each event leaves at once"],
)
def test_what_stays_as_it_is(pieces: list[bytes], content_type: bytes) -> None:
    """Small answers and event streams are never compressed."""
    headers, bodies = answer(pieces, b"gzip, zstd", content_type)
    assert b"content-encoding" not in headers
    assert bodies == pieces


def test_who_does_not_ask_gets_the_plain_answer_and_vary() -> None:
    """A cache between must know that another client could get another form."""
    headers, bodies = answer([b"x" * 5000], None)
    assert b"content-encoding" not in headers
    assert headers[b"vary"] == b"Accept-Encoding"
    assert headers[b"content-length"] == b"5000"
    assert bodies == [b"x" * 5000]


def test_nothing_is_compressed_twice() -> None:
    """An answer with an encoding of its own passes."""
    headers, bodies = answer([b"x" * 5000], b"gzip", content_encoding=b"br")
    assert headers[b"content-encoding"] == b"br"
    assert bodies == [b"x" * 5000]


def test_another_gateways_answer_begins_at_once() -> None:
    """The start of what was made elsewhere leaves before there is any body: of an event stream that may be a long time."""
    sent = Sent()
    begun: list[list[str]] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [], NO_COMPRESSION: True})
        begun.append([message["type"] for message in sent])
        await send({"type": "http.response.body", "body": b"x" * 5000, "more_body": False})

    with ThreadPoolExecutor(1) as pool:
        scope = {"type": "http", "headers": [(b"accept-encoding", b"gzip")]}
        run(CompressionMiddleware(app, pool=pool)(scope, unread, sent.add))
    assert begun == [["http.response.start"]]
    assert sent[0] == {"type": "http.response.start", "status": 200, "headers": []}
    assert sent[1]["body"] == b"x" * 5000


@pytest.mark.parametrize("accepted", [b"gzip", b"zstd"])
def test_streamed_answers_are_compressed_as_they_come(accepted: bytes) -> None:
    """Pieces without a length become one compressed stream without a length."""
    pieces = [os.urandom(50_000), b"", b"x" * 100_000, b"end"]
    headers, bodies = answer(pieces, accepted)
    assert b"content-length" not in headers
    assert unpacked(headers, b"".join(bodies)) == b"".join(pieces)


def test_what_gains_little_is_sent_as_it_is() -> None:
    """Large answers of random or compressed values: the client would pay for inflating them. Small ones are not looked at."""
    for accepted in (b"gzip", b"gzip, zstd"):
        random = base64.b64encode(os.urandom(300_000))
        headers, sent = answer([random], accepted)
        assert b"content-encoding" not in headers
        assert headers[b"vary"] == b"Accept-Encoding"
        assert headers[b"content-length"] == str(len(random)).encode()
        assert sent == [random]
        headers, sent = answer([os.urandom(100_000), b"x" * 100_000], accepted)
        assert b"content-encoding" not in headers
        assert b"content-encoding" in answer([os.urandom(2_000)], accepted)[0]


def test_a_sample_is_taken_from_more_than_the_beginning() -> None:
    """An answer that begins with a few random values may shrink to nothing all the same."""
    body = os.urandom(5_000) + b"a line of a log\n" * 20_000
    headers, sent = answer([body], b"gzip")
    assert len(sent[0]) < len(body) / 10
    assert unpacked(headers, sent[0]) == body
