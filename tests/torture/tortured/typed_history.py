"""What producers of typed topics sent and were told, and the judgement on what a Delta reader finds in the tables."""

from __future__ import annotations

import io
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import fastavro
import pyarrow as pa

HEADER_BYTES: Final = 5
SHOWN_MAX: Final = 20

Outcome = Literal["acknowledged", "refused", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A value with a number of its own, and the outcome that its producer was told. ``members``: None if no schema allows it."""

    number: int
    topic: str
    kind: str
    value: bytes
    members: Mapping[str, Any] | None
    outcome: Outcome


class TypedHistory:
    """Safe from any thread. ``schemas``: text by id, as registrations were answered."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.schemas: dict[int, str] = {}
        self.faults: Counter[str] = Counter()
        self.refused_wrongly: list[str] = []
        """Refusals of records that a registered schema allows."""
        self._lock = threading.Lock()
        self._number = 0

    def next_number(self) -> int:
        """A number that no other value has."""
        with self._lock:
            self._number += 1
            return self._number

    def add(self, *sent: Sent) -> None:
        """Remember values and their outcome."""
        with self._lock:
            self.sent += sent

    def fault(self, what: str) -> None:
        """Something is done to the service now."""
        self.faults[what] += 1

    def registered(self, schema_id: int, schema: str) -> None:
        """A schema has this id."""
        with self._lock:
            self.schemas[schema_id] = schema

    def newest(self, count: int) -> list[tuple[int, str]]:
        """The schemas that were registered last."""
        with self._lock:
            return sorted(self.schemas.items())[-count:]

    def counts(self) -> dict[str, int]:
        """What was sent, by kind and outcome."""
        fits = Counter(
            f"{one.kind}{'' if one.members is not None else ', unfit'}: {one.outcome}" for one in list(self.sent)
        )
        return dict(sorted((fits + self.faults).items())) | {"schemas": len(self.schemas)}


@dataclass(frozen=True, slots=True)
class TypedTopic:
    """``is_marking``: unfit records are stored. ``is_compacted``: superseded records of a key may be gone."""

    is_marking: bool = False
    is_compacted: bool = False


def contradictions(
    history: TypedHistory, topics: Mapping[str, TypedTopic], tables: Mapping[str, pa.Table]
) -> list[str]:
    """What contradicts the promises: a value that is missing, doubled, or there although it was refused; columns that are not the
    value's; a mark without a reason for it, or none where it must be; an unfit record where such are refused."""
    sent = {(one.topic, one.value): one for one in history.sent}
    found = [f"refused, though a schema allows it: {one}" for one in history.refused_wrongly]
    seen: Counter[tuple[str, bytes]] = Counter()
    for topic, kind in topics.items():
        names = {"value", "data", "data_error"} & set(tables[topic].column_names)
        for row in tables[topic].select(sorted(names)).to_pylist():
            value = row["value"]
            seen[topic, value] += 1
            one = sent.get((topic, value))
            if one is None:
                found.append(f"{topic} has {value!r}, which nobody sent")
            else:
                found += _row(one, kind, row.get("data"), row.get("data_error"), history.schemas)
    for key, one in sent.items():
        count, kind = seen[key], topics[one.topic]
        if count > 1 or (count and one.outcome == "refused"):
            found.append(f"{one} is there {count} times")
        if not count and one.outcome == "acknowledged" and not kind.is_compacted:
            found.append(f"{one} is not there")
    return found


def _row(one: Sent, topic: TypedTopic, data: Any, error: str | None, schemas: Mapping[int, str]) -> Sequence[str]:
    if one.members is None:
        is_right = topic.is_marking and data is None and error is not None
        return [] if is_right else [f"{one} is in {one.topic} with {data} and {error!r}"]
    found = None if data is None else {name: value for name, value in data.items() if value is not None}
    wanted = {name: value for name, value in decoded(one.value, schemas).items() if value is not None}
    return [] if (found, error) == (wanted, None) else [f"{one} has {data} and {error!r}, not {wanted}"]


def decoded(value: bytes, schemas: Mapping[int, str]) -> dict[str, Any]:
    """The members of a value, by another reader than the gateway's."""
    if value[:1] != b"\0":
        found: dict[str, Any] = json.loads(value)
        return found
    text = schemas[int.from_bytes(value[1:HEADER_BYTES], "big")]
    schema = fastavro.parse_schema(json.loads(text))
    read: Any = fastavro.schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), schema, None)
    return dict(read)
