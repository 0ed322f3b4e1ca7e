"""Decoding of requests by kio's schemas: bytes to entities.

kio's primitives read each value. Its compiled readers of whole entities are not used: they allocate memory for as many entries as
an array claims, so that a frame of 20 bytes could end the process. Here an array may claim at most as many entries as bytes are
left, and a message has at most ``ENTRIES_MAX``.

Source: Kafka's protocol guide; KIP-482 for tagged fields, KIP-893 for nullable structs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, Final, get_origin

from kio.serial import readers
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from kio.serial._parse import get_reader
from kio.serial.errors import SerialError

from log_format.records.varints import Malformed

__all__ = ["ENTRIES_MAX", "Malformed", "make_reader", "read_entity"]

ENTRIES_MAX: Final = 50_000
"""Most entries of arrays in one message, nested ones included: each takes some hundred bytes and microseconds."""

_Reader = Callable[[memoryview, int, "_Room"], tuple[Any, int]]
"""Function that reads the bytes at a position: it returns the value, and the number of bytes read."""


class _Room:
    """Number of array entries that the message may still have."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = ENTRIES_MAX

    def take(self, count: int, bytes_left: int) -> None:
        """Count the entries of an array. Raise ``Malformed`` if there are too many."""
        self.left -= count
        if count > bytes_left or self.left < 0:
            raise Malformed(f"an array of {count} entries in {bytes_left} bytes")


def read_entity(entity_type: Any, data: memoryview, position: int = 0) -> tuple[Any, int]:
    """Return the entity at ``position``, and the number of bytes read. ``data`` is read-only. Raise ``Malformed``."""
    try:
        return _entity_reader(entity_type)(data, position, _Room())
    except (SerialError, ValueError, OverflowError) as error:
        raise Malformed(f"{entity_type.__name__}: {error}") from error


def make_reader(entity_type: Any) -> None:
    """Prepare the entity's reader, so that its first use takes no longer than later ones."""
    _entity_reader(entity_type)


@cache
def _entity_reader(entity_type: Any) -> _Reader:
    is_flexible = entity_type.__flexible__
    plain: list[tuple[str, _Reader]] = []
    tagged: dict[int, tuple[str, _Reader]] = {}
    defaults: dict[str, Any] = {}
    for field in fields(entity_type):
        tag = get_field_tag(field)
        reader = _field_reader(entity_type, field, is_flexible, is_tag=tag is not None)
        if tag is None:
            plain.append((field.name, reader))
        else:
            tagged[tag] = (field.name, reader)
            defaults[field.name] = get_tagged_field_default(field)

    def read(data: memoryview, position: int, room: _Room) -> tuple[Any, int]:
        start, values = position, dict(defaults)
        for name, reader in plain:
            values[name], size = reader(data, position, room)
            position += size
        if is_flexible:
            position += _read_tags(data, position, room, tagged, values)
        return entity_type(**values), position - start

    return read


def _read_tags(
    data: memoryview, position: int, room: _Room, tagged: dict[int, tuple[str, _Reader]], values: dict[str, Any]
) -> int:
    start = position
    count, size = readers.read_unsigned_varint(data, position)
    position += size
    room.take(count, len(data) - position)
    for _ in range(count):
        tag, size = readers.read_unsigned_varint(data, position)
        position += size
        length, size = readers.read_unsigned_varint(data, position)
        position += size
        if length > len(data) - position:
            raise Malformed("a tagged field is longer than its message")
        known = tagged.get(tag)
        if known is not None:
            name, reader = known
            values[name], _ = reader(data[: position + length], position, room)
        position += length
    return position - start


def _field_reader(entity_type: type[Any], field: Any, is_flexible: bool, *, is_tag: bool) -> _Reader:
    kind = classify_field(field)
    if isinstance(kind, EntityTupleField):
        return _array(_entity_reader(kind.type_), is_flexible, is_nullable=_may_be_null(field))
    if isinstance(kind, EntityField):
        reader = _entity_reader(kind.type_)
        return _nullable(reader) if is_optional(field) and not is_tag else reader
    kafka_type = get_schema_field_type(field)
    if kafka_type == "records":
        return _view(is_flexible)
    if isinstance(kind, PrimitiveTupleField):
        item = _primitive(get_reader(kafka_type, is_flexible, optional=False))
        return _array(item, is_flexible, is_nullable=_may_be_null(field))
    if entity_type.__name__ == "RequestHeader" and field.name == "client_id":
        return _primitive(readers.read_nullable_legacy_string)  # nullable in every version: the header's exception
    return _primitive(get_reader(kafka_type, is_flexible, is_optional(field) and not is_tag))


def _primitive(reader: Callable[[Any, int], tuple[Any, int]]) -> _Reader:
    return lambda data, position, _room: reader(data, position)


def _view(is_flexible: bool) -> _Reader:
    """Return a reader of record batches that returns a view of the message: kio would copy the bytes."""

    def read(data: memoryview, position: int, _room: _Room) -> tuple[Any, int]:
        if is_flexible:
            plus_one, size = readers.read_unsigned_varint(data, position)
            length = plus_one - 1
        else:
            length, size = readers.read_int32(data, position)
        if length < 0:
            return None, size
        start = position + size
        if length > len(data) - start:
            raise Malformed("record batches are longer than their message")
        return data[start : start + length], size + length

    return read


def _nullable(reader: _Reader) -> _Reader:
    def read(data: memoryview, position: int, room: _Room) -> tuple[Any, int]:
        marker, size = readers.read_int8(data, position)
        if marker < 0:
            return None, size
        value, more = reader(data, position + size, room)
        return value, size + more

    return read


def _may_be_null(field: Any) -> bool:
    """Return whether the array itself may be null, not only its items."""
    return get_origin(field.type) is not tuple


def _array(item: _Reader, is_flexible: bool, *, is_nullable: bool) -> _Reader:
    def read(data: memoryview, position: int, room: _Room) -> tuple[Any, int]:
        start = position
        if is_flexible:
            plus_one, size = readers.read_unsigned_varint(data, position)
            count = plus_one - 1
        else:
            count, size = readers.read_int32(data, position)
        position += size
        if count < 0:
            if not is_nullable:
                raise Malformed("an array that may not be null is")
            return None, size
        room.take(count, len(data) - position)
        items = []
        for _ in range(count):
            value, size = item(data, position, room)
            items.append(value)
            position += size
        return tuple(items), position - start

    return read
