"""Filters of records in a request: in the query, or as the member ``filter`` of a body.

A key is text, or base64 if it is not UTF-8, as in a record. A header's value is text.
"""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, PrivateAttr, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from gateway.codec.base64_text import decode_base64
from gateway.http import fields
from gateway.http.validation import faults_error
from log_format.records.filter import HEADERS_MAX, HeaderCondition, RecordFilter


def _condition(text: str) -> str:
    try:
        HeaderCondition.parse(text)
    except ValueError:
        raise PydanticCustomError("condition", "must be name:value, or name:* for any value") from None
    return text


def _utf8(text: str | None) -> str | None:
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("text", "must be text that has a UTF-8 form") from None
    return text


_Condition = Annotated[
    str,
    AfterValidator(_condition),
    WithJsonSchema({"type": "string", "pattern": "^[^:]*:", "examples": ["type:order", "trace:*"]}),
]
_Conditions = Annotated[list[_Condition], Field(max_length=HEADERS_MAX)]
_HEADERS_TEXT: Final = (
    "Only records with this header, as `name=value`; `*` matches any value, also null. Several must all match"
)
_KEY_TEXT: Final = "Only records with this key"
_VALUE_TEXT: Final = "Only records whose value contains this text, case-sensitively"
CONTAINED_CHARACTERS_MAX: Final = 1_024
"""Most characters of the text that values are searched for."""


class _Keyed(fields.Body):
    key: Annotated[str | None, fields.NotNull(), Field(description=f"{_KEY_TEXT}, as text")] = None
    key_base64: Annotated[str | None, fields.NotNull(), Field(description=f"{_KEY_TEXT}, as base64")] = None
    value_contains: Annotated[
        str | None,
        fields.NotNull(),
        Field(min_length=1, max_length=CONTAINED_CHARACTERS_MAX, description=_VALUE_TEXT),
        AfterValidator(_utf8),
    ] = None
    _key: bytes | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _decode_key(self) -> Self:
        if self.key is not None:
            self._key = self.key.encode()
        if self.key_base64 is not None:
            if self.key is not None:
                raise faults_error([(("key",), "and key_base64 exclude each other")])
            self._key = decode_base64(self.key_base64)
            if self._key is None:
                raise faults_error([(("key_base64",), "must be base64: standard alphabet, padded")])
        return self


class FilterQuery(_Keyed):
    """Filter of records; without any of these, all are returned."""

    header: _Conditions = Field(default=[], description=_HEADERS_TEXT)

    @property
    def record_filter(self) -> RecordFilter | None:
        """The filter for the engine; None: all records."""
        return RecordFilter.from_texts(self.header, self._key, self.value_contains)


class Filter(_Keyed, example={"headers": ["type:order"], "key": "user-7"}):
    """Filter of records: returns those that match all conditions."""

    headers: _Conditions = Field(default=[], description=_HEADERS_TEXT)

    @property
    def record_filter(self) -> RecordFilter | None:
        """The filter for the engine; None: all records."""
        return RecordFilter.from_texts(self.headers, self._key, self.value_contains)
