"""What callers give to a producer: checked at once, and brought to bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from log_format import limits as contract
from tidelog.arguments import check_compression
from tidelog.types.record import Headers

Serializer = Callable[[Any], bytes | str | None]
HeadersArgument = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


class Identity(msgspec.Struct, frozen=True):
    """``timeout_ms``: after so long the gateways abort a transaction; ``call_timeout_ms`` bounds each call about one."""

    transactional_id: str
    timeout_ms: int
    call_timeout_ms: float
    check_after_ms: int | None = None


def check_at_least(least: float, **given: float) -> None:
    """Raises ``ValueError``."""
    for name, value in given.items():
        if value < least:
            raise ValueError(f"{name} is {value}, below {least}")


def check_words(compression: str | None, transactional_id: str | None, *, enable_idempotence: bool) -> None:
    """Raises ``ValueError``; ``ModuleNotFoundError`` for a compression whose library is missing."""
    check_compression(compression)
    if transactional_id is not None and not enable_idempotence:
        raise ValueError("transactions need enable_idempotence")


def identity_of(
    transactional_id: str | None, timeout_ms: int | None, call_timeout_ms: float, check_after_ms: int | None
) -> Identity | None:
    """None without an id. The default time-out is the longest where gateways offer transactions to checkers.

    Raises ``ValueError``, also for a time-out that nothing uses.
    """
    if timeout_ms is None:
        is_checked = check_after_ms is not None
        timeout_ms = contract.TRANSACTION_TIMEOUT_MS_MAX if is_checked else contract.TRANSACTION_TIMEOUT_MS_DEFAULT
    least, most = contract.TRANSACTION_TIMEOUT_MS_MIN, contract.TRANSACTION_TIMEOUT_MS_MAX
    if not least <= timeout_ms <= most:
        raise ValueError(f"transaction_timeout_ms is {timeout_ms}, not {least} to {most}")
    if transactional_id is None:
        return None
    return Identity(transactional_id, timeout_ms, call_timeout_ms, check_after_ms)


def as_bytes(value: object, what: str) -> bytes:
    """Text as UTF-8. Raises ``TypeError``."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"a {what} is bytes, text or None, not {type(value).__name__}: give the producer a {what}_serializer"
    )


def pairs_of(headers: HeadersArgument) -> Headers:
    """Headers in order. Raises ``TypeError``."""
    pairs = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {type(name).__name__}")
        pairs.append((name, None if value is None else as_bytes(value, "header")))
    return tuple(pairs)
