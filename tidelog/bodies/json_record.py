"""Records in the API's JSON form. UTF-8 bytes are text; other bytes are base64, in a member of their own."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from tidelog.types.record import Headers, Record, TopicPartition


class JsonHeader(msgspec.Struct, frozen=True):
    """A header in the API's JSON form."""

    key: str
    value: str | None = None
    value_base64: str | None = None


class JsonRecord(msgspec.Struct, frozen=True):
    """A record in the API's JSON form; ``…_base64`` holds bytes that are not UTF-8."""

    offset: int
    timestamp: int
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: tuple[JsonHeader, ...] = ()

    def record(self, place: TopicPartition) -> Record:
        """Return the record as bytes. Raises ``ValueError`` for invalid base64."""
        return Record(
            place.topic,
            place.partition,
            self.offset,
            self.timestamp,
            exact(self.key, self.key_base64),
            exact(self.value, self.value_base64),
            tuple((header.key, exact(header.value, header.value_base64)) for header in self.headers),
        )


def as_json_record(record: Record) -> dict[str, Any]:
    """Return a record's JSON object. It can be produced again unchanged, so it does not name the topic."""
    found: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    put_bytes(found, "key", record.key)
    put_bytes(found, "value", record.value)
    found["headers"] = as_json_headers(record.headers)
    return found


def as_json_headers(headers: Headers) -> list[dict[str, Any]]:
    """Return the JSON list of a record's headers."""
    found = []
    for name, value in headers:
        header: dict[str, Any] = {"key": name}
        put_bytes(header, "value", value)
        found.append(header)
    return found


def put_bytes(record: dict[str, Any], name: str, value: bytes | None) -> None:
    """Set ``name``, or ``name_base64`` if the bytes are not UTF-8."""
    try:
        record[name] = None if value is None else value.decode()
    except UnicodeDecodeError:
        assert value is not None
        record[f"{name}_base64"] = base64.b64encode(value).decode("ascii")


def exact(text: str | None, base64_text: str | None) -> bytes | None:
    """Return the bytes of a member or of its ``_base64`` form. Raises ``ValueError`` for invalid base64."""
    if base64_text is not None:
        return base64.b64decode(base64_text, validate=True)
    return None if text is None else text.encode()
