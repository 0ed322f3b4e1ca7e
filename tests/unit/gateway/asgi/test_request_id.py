"""Request ids: echoed when fit, made when not."""

from __future__ import annotations

import pytest

from gateway.asgi.request_id import request_id_of


@pytest.mark.parametrize("sent", [b"a", b"order 66/b?", b"x" * 128, b"~"])
def test_a_fit_id_is_kept(sent: bytes) -> None:
    """Up to 128 printable ASCII characters are the client's to choose."""
    assert request_id_of({"headers": [(b"host", b"h"), (b"x-request-id", sent)]}) == sent.decode()


@pytest.mark.parametrize("sent", [b"", b"x" * 129, b"a\tb", "ä".encode(), b"a\x7f", b"a\r\nb"])
def test_an_unfit_id_is_replaced(sent: bytes) -> None:
    """What could break a header or a log line is not echoed."""
    made = request_id_of({"headers": [(b"x-request-id", sent)]})
    assert made.encode() != sent
    assert len(made) == 32


def test_absent_ids_are_made_and_differ() -> None:
    """Each request can be told from every other one."""
    assert request_id_of({"headers": []}) != request_id_of({"headers": []})
