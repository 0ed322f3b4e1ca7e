"""What the headers ``Content-Type``, ``Accept`` and ``Content-Encoding`` mean."""

from __future__ import annotations

import gzip
import zlib

import pytest
import zstandard

from gateway.codec.compression import Decompressor
from gateway.codec.media_type import (
    ARROW_STREAM,
    EVENT_STREAM,
    JSON,
    NDJSON,
    OCTET_STREAM,
    TEXT_PLAIN,
    content_type,
    negotiate,
)
from log_format.errors import ErrorCode, RequestRefused


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("application/json", JSON),
        ("Application/JSON; Charset=UTF-8", JSON),
        ('application/json;charset="utf-8"', JSON),
        ("application/json; charset=utf8; x=y", JSON),
        ("application/x-ndjson ;charset=utf-8", NDJSON),
        ("application/vnd.apache.arrow.stream", ARROW_STREAM),
        ("application/octet-stream", OCTET_STREAM),
        ("text/plain; charset=iso-8859-1", TEXT_PLAIN),
    ],
)
def test_content_types(header: str, name: str) -> None:
    """Case and parameters don't matter; raw bodies may be in any charset, since the gateway does not decode them."""
    assert content_type(header) == name


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "json",
        "application/xml",
        "*/*",
        "application/json, text/plain",
        "application/json; charset=latin-1",
        "/",
        "a" * 9000,
    ],
)
def test_other_content_types_are_refused(header: str | None) -> None:
    """415, naming what would be taken."""
    with pytest.raises(RequestRefused) as refused:
        content_type(header)
    assert (refused.value.status, refused.value.code) == (415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
    assert content_type(None, default=JSON) == JSON


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/*", EVENT_STREAM),
        ("application/x-ndjson", NDJSON),
        ("text/html, application/x-ndjson;q=0.5, */*;q=0.1", NDJSON),
        ("application/json;q=0.2, application/vnd.apache.arrow.stream;q=0.9", ARROW_STREAM),
        ("application/json;q=0, */*", NDJSON),
        ('APPLICATION/JSON; q=1.0; x="a,b;q=0"', JSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("nonsense, application/x-ndjson", NDJSON),
    ],
)
def test_negotiation(header: str | None, name: str) -> None:
    """The largest weight wins, the most special range gives it, JSON wins ties."""
    assert negotiate(header) == name


@pytest.mark.parametrize(
    "header", ["text/html", "application/json;q=0", "*/*;q=0", "image/*", "application/json;q=nan", "nonsense"]
)
def test_nothing_acceptable(header: str) -> None:
    """406 when none of the types is wanted."""
    with pytest.raises(RequestRefused) as refused:
        negotiate(header)
    assert (refused.value.status, refused.value.code) == (406, ErrorCode.NOT_ACCEPTABLE)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, zstd", "", "gzip;q=1"])
def test_unknown_encodings_are_refused(encoding: str) -> None:
    """415, also for two at once."""
    with pytest.raises(RequestRefused) as refused:
        Decompressor(encoding, 10)
    assert refused.value.status == 415


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "GZIP ", "x-gzip"])
def test_nothing_is_no_stream(encoding: str) -> None:
    """An empty body is not an empty stream: it is a stream cut before its first byte."""
    with pytest.raises(RequestRefused) as refused:
        Decompressor(encoding, 10).finish()
    assert (refused.value.status, refused.value.fields["errors"][0]["where"]) == (400, "Content-Encoding")


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_refused_at_the_limit(encoding: str) -> None:
    """64 MiB of zeros in one chunk: refused with the limit in the answer, having made little more than the limit."""
    zeros = bytes(64 * 1024 * 1024)
    bomb = gzip.compress(zeros, 9) if encoding == "gzip" else zstandard.compress(zeros)
    decompressor = Decompressor(encoding, 1000)
    with pytest.raises(RequestRefused) as refused:
        decompressor.feed(bomb)
    assert (refused.value.status, refused.value.fields["limit_bytes"]) == (413, 1000)


def test_a_zstd_window_beyond_the_limit_is_refused() -> None:
    """A frame that wants 128 MiB of history to be kept gets none of it."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = compressor.compress(b"x" * 100) + compressor.flush()
    with pytest.raises(RequestRefused) as refused:
        Decompressor("zstd", 16 * 1024 * 1024).feed(data)
    assert refused.value.status == 400


def decompressed(encoding: str, stream: bytes) -> bytes:
    decompressor = Decompressor(encoding, 1000)
    return decompressor.feed(stream) + decompressor.finish()


@pytest.mark.parametrize("rest", [b"x", b"\x00" * 20, b"\x1f\x8b", b"\x28\xb5\x2f\xfd"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_what_follows_the_end_is_refused(encoding: str, rest: bytes) -> None:
    """Bytes behind a whole stream that begin no other one."""
    whole = gzip.compress(b"body") if encoding == "gzip" else zstandard.compress(b"body")
    with pytest.raises(RequestRefused) as refused:
        decompressed(encoding, whole + rest)
    assert refused.value.status == 400


def test_a_wrong_checksum_is_refused() -> None:
    """What comes out of a damaged stream must not be taken for the body."""
    data = bytearray(zlib.compress(b"body" * 100, wbits=31))
    data[-5] ^= 1
    with pytest.raises(RequestRefused):
        Decompressor("gzip", 1000).feed(bytes(data))
