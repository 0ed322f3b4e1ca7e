"""What a head says of its body: only a length that nothing contradicts takes a body past the parser."""

from __future__ import annotations

import pytest

from gateway.process.request_head import LONG_BODY_BYTES, head_without_upgrade, long_body_bytes


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"content-length", b"%d" % LONG_BODY_BYTES)], LONG_BODY_BYTES),
        ([(b"host", b"h"), (b"content-length", b"16777216")], 16 * 1024 * 1024),
        ([(b"content-length", b"%d" % (LONG_BODY_BYTES - 1))], 0),
        ([], 0),
        ([(b"content-length", b"70000"), (b"content-length", b"70000")], 0),
        ([(b"content-length", b"70000"), (b"transfer-encoding", b"chunked")], 0),
        ([(b"content-length", b"+70000")], 0),
        ([(b"content-length", b"70_000")], 0),
        ([(b"content-length", b"9" * 19)], 0),
    ],
)
def test_only_one_plain_length_counts(headers: list[tuple[bytes, bytes]], expected: int) -> None:
    """Where two headers could mean two ends, or a number could be read in two ways, the parser finds the end."""
    assert long_body_bytes(headers) == expected


def test_an_offer_is_left_out_and_the_rest_is_kept() -> None:
    """Without the headers of the offer it is the same request, and the connection ends where the client said so."""
    headers = [
        (b"host", b"h"),
        (b"connection", b"Upgrade, close"),
        (b"upgrade", b"h2c"),
        (b"content-length", b"2"),
    ]
    head = head_without_upgrade(b"POST", b"/v1/echo", "1.1", headers)
    assert head == b"POST /v1/echo HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\nconnection: close\r\n\r\n"
