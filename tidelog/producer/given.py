"""Arguments of a producer: validated immediately, and converted to bytes."""

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
    """A transactional id with its timeouts.

    ``timeout_ms``: age at which gateways abort a transaction; ``call_timeout_ms``: limit of each call about one.
    """

    transactional_id: str
    timeout_ms: int
    call_timeout_ms: float
    check_after_ms: int | None = None


def check_at_least(least: float, **given: float) -> None:
    """Raise ``ValueError`` if a value is below ``least``."""
    for name, value in given.items():
        if value < least:
            raise ValueError(f"{name} is {value}, below {least}")


def check_words(compression: str | None, transactional_id: str | None, *, enable_idempotence: bool) -> None:
    """Raise ``ValueError`` for an invalid value or combination; ``ModuleNotFoundError`` if a compression's library is missing."""
    check_compression(compression)
    if transactional_id is not None and not enable_idempotence:
        raise ValueError("transactions need enable_idempotence")


def identity_of(
    transactional_id: str | None, timeout_ms: int | None, call_timeout_ms: float, check_after_ms: int | None
) -> Identity | None:
    """Return the identity, or None without an id. With ``check_after_ms`` the default timeout is the longest allowed.

    Raises ``ValueError``, also for a timeout that nothing uses.
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
    """Return the value as bytes, text as UTF-8. Raises ``TypeError``."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"a {what} is bytes, text or None, not {type(value).__name__}: give the producer a {what}_serializer"
    )


def pairs_of(headers: HeadersArgument) -> Headers:
    """Return the headers as pairs, in order. Raises ``TypeError``."""
    pairs = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {type(name).__name__}")
        pairs.append((name, None if value is None else as_bytes(value, "header")))
    return tuple(pairs)
