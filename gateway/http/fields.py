"""Fields of bodies, queries, headers, paths and answers: each range and form is defined here, once.

pydantic parses with these types, FastAPI documents them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from fastapi import Path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from gateway.http.parameters import parse_partition, parse_topic
from gateway.http.validation import Fault, faults_error
from gateway.problem import refused
from log_format import limits
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
IDENTIFIER_BYTES_MAX: Final = 255
_IDENTIFIER_WHAT: Final = f"must be 1 to {IDENTIFIER_BYTES_MAX} bytes without control characters"
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,19}|[0-9]{20}")

T = TypeVar("T")


class Body(BaseModel):
    """A JSON object of a request: undeclared members are refused, and no value is converted to another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def __init_subclass__(cls, *, example: Mapping[str, Any] | None = None) -> None:
        if example is not None:
            cls.model_config = ConfigDict(**cls.model_config, json_schema_extra={"examples": [dict(example)]})

    @classmethod
    def plain(cls, data: bytes) -> Any:
        """Return an object with the model's members if ``data`` is simple enough to be decoded cheaply; else None.

        This method never reports errors of a body.
        """
        del data
        return None


class Parameters(BaseModel):
    """The query of a route; undeclared parameters are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Headers(Parameters):
    """The headers that a route reads, each with its name as alias; other ``Tidelog-`` headers are refused."""


@dataclass(frozen=True, slots=True)
class Between:
    """An integer of a range, ends included."""

    minimum: int
    maximum: int = INT64_MAX

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema with one message for all values that are not such an integer."""
        number = core_schema.int_schema(strict=True, ge=self.minimum, le=self.maximum)
        return _with_message(number, f"must be an integer from {self.minimum} to {self.maximum}")

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema with the integer's width."""
        return {**handler(schema), "format": "int32" if self.maximum <= INT32_MAX else "int64"}


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """One message for all values that do not fit the type."""

    what: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the type's own schema, with this message."""
        return _with_message(handler(source), self.what)


class OneOf:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema with one message for any other word."""
        return _with_message(core_schema.literal_schema(list(self._words)), f"must be one of {', '.join(self._words)}")


class NotNull:
    """A member of type ``X | None`` that may be absent, and then is None, but may not be null."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of ``X``."""
        schema = handler(source)
        assert schema["type"] == "nullable"
        inner: CoreSchema = schema["schema"]
        return inner


def is_identifier(text: str) -> bool:
    """Return whether the text is an identifier: 1 to 255 bytes of UTF-8 without control characters."""
    if text.isascii():
        return 1 <= len(text) <= IDENTIFIER_BYTES_MAX and text.isprintable()
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    return 1 <= size <= IDENTIFIER_BYTES_MAX and not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text)


def check_unique(entries: list[T], keys: Iterable[Hashable], what: str) -> list[T]:
    """Return the entries of a list, unless two have the same key. Raise ``PydanticCustomError``."""
    seen: set[Hashable] = set()
    twice: list[Fault] = []
    for index, key in enumerate(keys):
        if key in seen:
            twice.append(((index, "partition"), what))
        seen.add(key)
    if twice:
        raise faults_error(twice)
    return entries


def _with_message(schema: CoreSchema, what: str) -> CoreSchema:
    return core_schema.custom_error_schema(schema, "said", custom_error_message=what)


def _identifier(text: str) -> str:
    if not is_identifier(text):
        raise faults_error([((), _IDENTIFIER_WHAT)])
    return text


def _group(name: str) -> str:
    if not is_identifier(name):
        raise refused(f"A group's name {_IDENTIFIER_WHAT}.", [("group", _IDENTIFIER_WHAT)])
    return name


def _queue(name: str) -> str:
    if not is_identifier(name):
        raise refused(f"A queue's name {_IDENTIFIER_WHAT}.", [("queue", _IDENTIFIER_WHAT)])
    return name


def parse_number(text: str) -> int | str:
    """Return the integer of a query's text, ASCII digits with an optional sign; any other text unchanged."""
    return int(text) if _DIGITS.fullmatch(text) else text


_OPAQUE: Final[Mapping[str, Any]] = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
IDENTIFIER_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": IDENTIFIER_BYTES_MAX,
    "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
}
"""Schema of an identifier, in JSON schema's terms, which count characters rather than bytes."""
TOPIC_NAME_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9._-]+$",
    "minLength": 1,
    "maxLength": limits.TOPIC_NAME_CHARACTERS_MAX,
}

Digits: Final = BeforeValidator(parse_number)
"""Validator for integers in a query."""
TopicName = Annotated[str, WithJsonSchema(dict(TOPIC_NAME_SCHEMA))]
"""A topic's name, as any text: a name that no topic can have names no topic, which the engine reports."""
Identifier = Annotated[str, AfterValidator(_identifier), WithJsonSchema(dict(IDENTIFIER_SCHEMA))]
"""A name that a client chooses: a group, a member's client or instance id, a transactional id."""
Opaque = Annotated[str, WithJsonSchema(dict(_OPAQUE))]
"""An id that the gateway issued: an unknown one names nothing."""
Partition = Annotated[int, Between(0, INT32_MAX)]
Offset = Annotated[int, Between(0)]
Count = Annotated[int, Between(0)]
Timestamp = Annotated[int, Between(TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX)]
"""Milliseconds since the epoch."""

LIST_LIMIT: Final = 1_000
"""The API's default of ``limit``."""
Limit = Annotated[int, Between(1, 10_000), Digits, Field(description="Maximum number of entries in a page")]


class PartitionKey(Body):
    """A partition of a topic."""

    topic: TopicName
    partition: Partition

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition, as the engine has them."""
        return (self.topic, self.partition)


def check_unique_partitions(entries: list[Any]) -> list[Any]:
    """Return the entries, each a ``PartitionKey``. Raise ``PydanticCustomError`` if two name the same partition."""
    return check_unique(entries, [entry.key for entry in entries], "is given twice")


TopicPath = Annotated[
    str,
    AfterValidator(parse_topic),
    WithJsonSchema({**TOPIC_NAME_SCHEMA, "examples": ["flights"]}),
    Path(description="The topic's name"),
]
PartitionPath = Annotated[
    int,
    Between(0, INT32_MAX),
    BeforeValidator(parse_partition),
    Path(description="The partition's number, from 0", examples=[0]),
]
GroupPath = Annotated[
    str,
    AfterValidator(_group),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": IDENTIFIER_BYTES_MAX, "examples": ["billing"]}),
    Path(description="The consumer group, percent-encoded"),
]
QueuePath = Annotated[
    str,
    AfterValidator(_queue),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": IDENTIFIER_BYTES_MAX, "examples": ["orders"]}),
    Path(description="The queue, percent-encoded"),
]
MemberPath = Annotated[
    str,
    WithJsonSchema({**_OPAQUE, "examples": ["m01763683200000-5b0f3c52-9c0e-4a2f-8d3a-0c5f6f1f9f10"]}),
    Path(description="The member's id"),
]
TransactionPath = Annotated[
    str,
    WithJsonSchema({**_OPAQUE, "examples": ["t019aa7d9b4003f2a9c0d1e5b7f6a8c0d_91b3c5d7e9f0a2b4c6d8"]}),
    Path(description="The transaction's id"),
]
