"""Records as the fake gateway answers them: in JSON, and those that pass a filter."""

from __future__ import annotations

import base64
from typing import Any

from tidelog.types.record import Record


def passes(record: Record, wanted: dict[str, Any]) -> bool:
    """Whether a record passes a filter: what a reader gets of what is read."""
    conditions = [condition.partition(":")[::2] for condition in wanted.get("headers", ())]
    return (wanted.get("key") is None or record.key == wanted["key"].encode()) and all(
        any(own == name and (value == "*" or data == value.encode()) for own, data in record.headers)
        for name, value in conditions
    )


def as_json(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {"partition": record.partition, "offset": record.offset, "timestamp": record.timestamp_ms}
    for name, value in (("key", record.key), ("value", record.value)):
        try:
            found[name] = None if value is None else value.decode()
        except UnicodeDecodeError:
            found[f"{name}_base64"] = base64.b64encode(value or b"").decode()
    found["headers"] = [{"key": name, **_header(value)} for name, value in record.headers]
    return found


def _header(value: bytes | None) -> dict[str, str | None]:
    try:
        return {"value": None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value or b"").decode()}
