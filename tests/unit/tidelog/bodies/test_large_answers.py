"""Answers that are longer than they may be, as they come or once decompressed: given up, and said so."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from tests.support.fake_gateway import FakeGateway
from tidelog import limits
from tidelog.deadline import Deadline
from tidelog.errors import OutcomeUnknown, UnexpectedAnswer
from tidelog.http.answer import AnswerLost, AnswerTooLarge
from tidelog.http.connection import Address
from tidelog.http.transport import Request, Transport

MEBIBYTE = 1024 * 1024
BOMB = bytes(200 * MEBIBYTE)
READ = Request(method="GET", target="/v1/bomb", repeatable=True, reads=True)
WRITE = Request(method="POST", target="/v1/bomb", body=b"{}", content_type="application/json", repeatable=False)
COMPRESSORS = [("gzip", lambda data: gzip.compress(data, 1)), ("zstd", zstandard.compress)]


def answering(body: bytes, encoding: str | None) -> Callable[[Any], None]:
    headers = {"Content-Type": "application/json"} | ({} if encoding is None else {"Content-Encoding": encoding})
    return lambda exchange: exchange.answer(200, body, headers)


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS)
def test_an_answer_that_inflates_costs_its_bound(
    gateway: FakeGateway, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    """A few kilobytes that would become 200 MiB end at the bound, at the first try; a change's outcome is unknown then."""
    body = compress(BOMB)
    gateway.misbehave(".*bomb", *[answering(body, encoding)] * 2)
    transport = Transport(gateway.url)
    tracemalloc.start()
    try:
        with pytest.raises(UnexpectedAnswer, match=f"limit of {limits.ANSWER_BYTES_MAX} bytes") as refused:
            transport.call(READ, Deadline(30_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not refused.value.retryable
    assert gateway.count(".*bomb") == 1
    assert peak < 3 * limits.ANSWER_BYTES_MAX
    with pytest.raises(OutcomeUnknown, match="longer than"):
        transport.call(WRITE, Deadline(30_000))
    transport.close()


@pytest.mark.parametrize(("encoding", "compress"), [*COMPRESSORS, (None, bytes)])
def test_an_answer_of_exactly_the_bound_is_read(
    gateway: FakeGateway, encoding: str | None, compress: Callable[[bytes], bytes]
) -> None:
    """The bound itself is allowed; one byte more is not; and what is cut is no answer."""
    body = compress(b"x" * 1000)
    gateway.misbehave(".*", *[answering(body, encoding)] * 2, answering(body[:-9], encoding))
    address = Address(gateway.url)
    ask: dict[str, Any] = {"body": None, "headers": {}, "timeout_ms": 10_000}
    assert address.exchange("GET", "/", **ask, answer_bytes_max=1000).body == b"x" * 1000
    with pytest.raises(AnswerTooLarge):
        address.exchange("GET", "/", **ask, answer_bytes_max=999)
    if encoding == "gzip":
        with pytest.raises(AnswerLost):
            address.exchange("GET", "/", **ask)
    address.close()


def test_every_fetch_fits_its_bound() -> None:
    """The largest answer that a gateway may give: each byte escaped as JSON does at worst, and a record above the limit."""
    for bytes_max, records_max in ((1, 1), (limits.FETCH_BYTES, limits.JSON_FETCH_RECORDS_MAX)):
        largest = 6 * max(bytes_max, 16 * MEBIBYTE) + 300 * records_max
        assert largest <= limits.fetched_bytes_max(bytes_max, records_max, as_json=True) < 300 * MEBIBYTE
