"""What is known of an answer's way out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.process.gentle_transport import GentleTransport


def _transport(unsent_bytes: int) -> Any:
    noop = lambda: None  # noqa: E731
    return SimpleNamespace(
        get_write_buffer_size=lambda: unsent_bytes,
        get_extra_info=noop,
        pause_reading=noop,
        resume_reading=noop,
        set_protocol=noop,
    )


def test_what_tls_has_written_is_not_yet_sent() -> None:
    """Bytes that wait below TLS count as unsent: a connection is closed, or found to stall, by what the system has taken."""
    protocol: Any = None
    assert GentleTransport(_transport(3), protocol).unsent_bytes() == 3
    assert GentleTransport(_transport(3), protocol, _transport(5)).unsent_bytes() == 8
