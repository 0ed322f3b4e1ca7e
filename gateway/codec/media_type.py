"""Media types (RFC 9110): the type of a body, and the offered type that the client prefers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from log_format.errors import ErrorCode, RequestRefused

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
PARQUET: Final = "application/vnd.apache.parquet"
OCTET_STREAM: Final = "application/octet-stream"
TEXT_PLAIN: Final = "text/plain"
EVENT_STREAM: Final = "text/event-stream"

PRODUCE_TYPES: Final = (JSON, NDJSON, ARROW_STREAM, OCTET_STREAM, TEXT_PLAIN)
FETCH_TYPES: Final = (JSON, NDJSON, ARROW_STREAM, EVENT_STREAM, PARQUET)
"""Types of fetch answers; the first is the default."""

_HEADER_CHARACTERS_MAX: Final = 4096
_UTF8: Final = frozenset(("utf-8", "utf8"))
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class MediaType:
    """A media type or range: ``name`` in lower case (``*/*`` and ``type/*`` in ranges), parameters by lower-case name."""

    name: str
    parameters: dict[str, str] = field(default_factory=dict)


@lru_cache(maxsize=256)
def content_type(header: str | None, allowed: tuple[str, ...] = PRODUCE_TYPES, default: str | None = None) -> str:
    """Return the type that a ``Content-Type`` header names, one of ``allowed``; ``default`` if there is no header.

    Raises ``RequestRefused`` (415 ``UNSUPPORTED_MEDIA_TYPE``) for another type, a malformed one, or a charset that is not UTF-8.
    ``OCTET_STREAM`` and ``TEXT_PLAIN`` may have any charset: their bytes are stored unchanged.
    """
    if header is None or not header.strip():
        if default is None:
            raise _unsupported("The request has a body but no Content-Type", allowed)
        return default
    media_type = _parse(header) if len(header) <= _HEADER_CHARACTERS_MAX else None
    if media_type is None or media_type.name not in allowed:
        raise _unsupported(f"The content type {header[:100]!r} is not supported", allowed)
    charset = media_type.parameters.get("charset", "utf-8").lower()
    if charset not in _UTF8 and media_type.name not in (OCTET_STREAM, TEXT_PLAIN):
        raise _unsupported(f"The charset {charset[:100]!r} is not supported: bodies are UTF-8", allowed)
    return media_type.name


@lru_cache(maxsize=256)
def negotiate(accept: str | None, offered: tuple[str, ...] = FETCH_TYPES) -> str:
    """Return the type of ``offered`` that ``Accept`` prefers; the first one on a tie and without a header.

    ``accept`` has all ``Accept`` headers, joined by commas.

    The most specific range that matches a type gives its weight. Parts that can't be parsed are ignored. Raises
    ``RequestRefused`` (406 ``NOT_ACCEPTABLE``) if the client accepts none.
    """
    if accept is None or not accept.strip():
        return offered[0]
    ranges = [media_range for item in _split(accept[:_HEADER_CHARACTERS_MAX], ",") if (media_range := _parse(item))]
    best, best_weight = "", 0.0
    for name in offered:
        weight = _weight_of(name, ranges)
        if weight > best_weight:
            best, best_weight = name, weight
    if not best:
        raise RequestRefused(
            f"None of the accepted types can be served; these can: {', '.join(offered)}.",
            code=ErrorCode.NOT_ACCEPTABLE,
            errors=[{"where": "Accept", "what": f"must include one of {', '.join(offered)}"}],
        )
    return best


def _weight_of(name: str, ranges: Sequence[MediaType]) -> float:
    # Exact, then type/*, then */*: the first kind that matches decides, with the largest of its weights.
    for pattern in (name, f"{name.partition('/')[0]}/*", "*/*"):
        weights = [_weight(media_range) for media_range in ranges if media_range.name == pattern]
        if weights:
            return max(weights)
    return 0.0


def _weight(media_range: MediaType) -> float:
    try:
        weight = float(media_range.parameters.get("q", "1"))
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0


def _parse(text: str) -> MediaType | None:
    """Return a media type with its parameters; None if the text is not one."""
    first, *rest = _split(text, ";")
    kind, slash, subtype = first.strip().lower().partition("/")
    if not (slash and _is_token(kind) and _is_token(subtype)):
        return None
    parameters: dict[str, str] = {}
    for item in rest:
        name, equals, value = item.strip().partition("=")
        if equals:
            parameters.setdefault(name.strip().lower(), _unquoted(value.strip()))
    return MediaType(f"{kind}/{subtype}", parameters)


def _is_token(text: str) -> bool:
    return bool(text) and _TOKEN.issuperset(text)


def _unquoted(value: str) -> str:
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    characters = iter(value[1:-1])
    return "".join(next(characters, "") if character == "\\" else character for character in characters)


def _split(text: str, separator: str) -> list[str]:
    """Return the parts between separators that are not inside a quoted string."""
    if '"' not in text:
        return text.split(separator)
    parts: list[str] = []
    start = 0
    quoted = escaped = False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character == separator and not quoted:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return parts


def _unsupported(problem: str, allowed: Sequence[str]) -> RequestRefused:
    return RequestRefused(
        f"{problem}. These are: {', '.join(allowed)}.",
        code=ErrorCode.UNSUPPORTED_MEDIA_TYPE,
        errors=[{"where": "Content-Type", "what": f"must be one of {', '.join(allowed)}"}],
    )
