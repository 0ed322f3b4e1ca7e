"""Where a body is decoded: on the event loop, or in a thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.routes.batch import INLINE_BYTES_MAX, SPARSE_BYTES_MAX, SPARSE_NODES_MAX, CodecWork

RECORD = b'{"key":"key-1","value":"%b"}' % (b"x" * 100)


@pytest.mark.parametrize(
    ("body", "is_json", "is_inline"),
    [
        (b"," * INLINE_BYTES_MAX, True, True),
        (b'{"records":[%b]}' % b",".join([RECORD] * 1000), True, True),
        (b'{"records":[%b]}' % b",".join([RECORD] * 1000), False, False),
        (b"," * SPARSE_NODES_MAX + b"x" * INLINE_BYTES_MAX, True, True),
        *((mark * (SPARSE_NODES_MAX + 1) + b"x" * INLINE_BYTES_MAX, True, False) for mark in (b",", b"{", b"[", b"\\")),
        (b"x" * (SPARSE_BYTES_MAX + 1), True, False),
    ],
)
def test_what_may_take_long_goes_to_a_thread(body: bytes, is_json: bool, is_inline: bool) -> None:
    """Of more than 64 KiB only sparse JSON stays on the event loop: neither long, nor of many values or escapes."""
    with ThreadPoolExecutor(1) as pool:
        assert CodecWork.of(body, pool, is_json=is_json).is_inline == is_inline
