"""Values of a typed topic, and what a schema makes of them: told by the members that they were made of, without the code under
test."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import fastavro

Members = Mapping[str, Any]
UNKNOWN_ID = 1_000_000
"""An id that no schema gets."""
KEYS = (b"k", b"l", b"m")


def schema_of(fields: Sequence[str], number: int, id_type: str = "long") -> str:
    """An Avro schema with an id, a member whose default says which schema it is, and optional texts."""
    members: list[dict[str, Any]] = [{"name": "id", "type": id_type}, {"name": "by", "type": "long", "default": number}]
    members += [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": members})


@lru_cache(maxsize=1_000)
def defaults_of(schema: str) -> Mapping[str, Any]:
    """The names of a schema's fields, and what each is where a value lacks it."""
    return {one["name"]: one.get("default") for one in json.loads(schema)["fields"]}


def texts_of(schema: str) -> list[str]:
    """The names of a schema's optional texts."""
    return [*defaults_of(schema)][2:]


@dataclass(slots=True, eq=False)
class Sent:
    """A value, and what its sender was told. ``at_least``, ``at_most``: how often it is in the topic in the end."""

    data: bytes
    members: Members | None
    """None: it is neither a document nor a framed value."""
    schema_id: int | None = None
    """The schema that it names; None: it is a document."""
    began_ms: int = 0
    at_least: int = 0
    at_most: int = 0
    is_promised: bool = False
    """It is of a transaction or delayed: it can't be refused once it is accepted."""
    is_staged: bool = False
    """It is of a transaction: no door's judgement counts."""
    key: bytes = b""
    acknowledged_ms: int | None = None
    """When its sender was told that it is stored; None: not yet, or it is not known."""
    committed_ms: list[int] = field(default_factory=list)
    """When it got an offset."""

    def row(self, schema: str) -> dict[str, Any] | None:
        """The members by a schema; None: it is not of the schema."""
        if self.members is None or type(self.members.get("id")) is not int:
            return None
        defaults = defaults_of(schema)
        if not self.members.keys() <= defaults.keys():
            return None
        return {name: self.members.get(name, default) for name, default in defaults.items()}

    def as_record(self) -> dict[str, Any]:
        """The record, in a request's body."""
        return {"key": self.key.decode(), "value_base64": base64.b64encode(self.data).decode()}


@dataclass(frozen=True, slots=True)
class Known:
    """A version that a client knows."""

    subject: str
    schema_id: int
    schema: str


class Values:
    """Makes values, each once: mostly of a version that is known, some of none."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.known: list[Known] = []
        self.sent: dict[bytes, Sent] = {}

    def make(self, now_ms: int) -> Sent:
        """One more value."""
        number, of = len(self.sent), self._rng.choice(self.known[-6:])
        optional = [name for name in texts_of(of.schema) if self._rng.random() < 0.5]
        members = {"id": number, **dict.fromkeys(optional, f"text-{number}")}
        kind = self._rng.random()
        if kind < 0.45:
            sent = Sent(json.dumps(members).encode(), members)
        elif kind < 0.75:
            sent = Sent(_framed(of.schema_id, of.schema, members), members, of.schema_id)
        else:
            sent = self._unfit(number, of)
        sent.began_ms, sent.key = now_ms, self._rng.choice(KEYS)
        assert sent.data not in self.sent
        self.sent[sent.data] = sent
        return sent

    def _unfit(self, number: int, of: Known) -> Sent:
        framed = _framed(of.schema_id, of.schema, {"id": number})
        wrong: Members = self._rng.choice(({"id": f"{number}"}, {"id": number, "unknown": 1}, {"text": number}))
        return self._rng.choice(
            (
                Sent(b"garbage-%d" % number, None),
                Sent(json.dumps(wrong).encode(), wrong),
                Sent(framed + b"behind-%d" % number, None, of.schema_id),
                Sent(_framed(UNKNOWN_ID, of.schema, {"id": number}), {"id": number}, UNKNOWN_ID),
            )
        )


def _framed(schema_id: int, schema: str, members: Members) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _parsed(schema), members)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


@lru_cache(maxsize=1_000)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))
