"""Keys, values and headers as a caller gives them, and their conversion to bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidelog.types.record import Headers

Serializer = Callable[[Any], bytes | str | None]
HeadersArgument = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


def as_bytes(value: object, what: str) -> bytes:
    """Return the value as bytes, text as UTF-8. Raises ``TypeError``."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"a {what} is bytes, text{', a model' if what == 'value' else ''} or None, not {type(value).__name__}: "
        f"give the producer a {what}_serializer"
    )


def header_pairs(headers: HeadersArgument) -> Headers:
    """Return the headers as pairs, in order. Raises ``TypeError``."""
    pairs = []
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {type(name).__name__}")
        pairs.append((name, None if value is None else as_bytes(value, "header")))
    return tuple(pairs)
