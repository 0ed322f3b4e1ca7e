"""Protobuf: messages of generated classes as values, and values of Protobuf schemas as dicts, lists and scalars.

A message is sent as Confluent's serializer writes it: a zero byte, the id of its schema, the indexes of its message, its bytes.
Protobuf is imported where it is needed only: who has a message has imported it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any, Final

from log_format.schemas import message_indexes
from tidelog.calls.schemas import Schemas
from tidelog.types.schema import RegisteredSchema, SchemaReference

HEADER_BYTES: Final = 5
_GOOGLES: Final = "google/protobuf/"
"""Files that every registry knows."""


def is_message(kind: object) -> bool:
    """Return whether a class is one that Protobuf generated."""
    return isinstance(kind, type) and hasattr(kind, "DESCRIPTOR") and hasattr(kind, "SerializePartialToString")


def message_schema(schemas: Schemas, kind: Any, subject: str, *, registers: bool) -> RegisteredSchema:
    """Return the version of a subject that has the file of a message's class.

    Args:
        schemas: the registry.
        kind: the class.
        subject: the subject; files that the class's file imports have their names as subjects.
        registers: whether they are registered where they are not there.

    Raises:
        UnknownSchema: it is not there.
        IncompatibleSchema: the subject's versions don't allow it.
    """
    return _file_schema(schemas, kind.DESCRIPTOR.file, subject, registers)


def _file_schema(schemas: Schemas, file: Any, subject: str, registers: bool) -> RegisteredSchema:
    references = []
    for other in file.dependencies:
        if not other.name.startswith(_GOOGLES):
            found = _file_schema(schemas, other, other.name, registers)
            references.append(SchemaReference(other.name, other.name, found.version))
    text = base64.b64encode(file.serialized_pb).decode()
    call = schemas.register if registers else schemas.look_up
    return call(subject, text, "PROTOBUF", references=references, normalize=True)


def framed(message: Any, schema_id: int) -> bytes:
    """Return a message as Confluent's serializer writes it. Raises ``ValueError`` for one that lacks a required field."""
    from google.protobuf.message import EncodeError  # noqa: PLC0415 - as all imports of it here

    indexes: list[int] = []
    kind = message.DESCRIPTOR
    while kind is not None:
        outer = kind.containing_type
        siblings = kind.file.message_types_by_name.values() if outer is None else outer.nested_types
        indexes.insert(0, [one.name for one in siblings].index(kind.name))
        kind = outer
    try:
        body: bytes = message.SerializeToString()
    except EncodeError as error:
        raise ValueError(str(error)) from error
    return b"\0" + schema_id.to_bytes(4, "big") + message_indexes.encode(indexes) + body


def message_of(kind: Any, value: bytes, *, has_header: bool) -> Any:
    """Return a value as a message of a class: what Confluent's serializers wrote, or a JSON document. Raises ``ValueError``."""
    from google.protobuf import json_format  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    body = value[HEADER_BYTES:] if has_header else value
    try:
        # The count before a message's indexes is never negative, as an opening brace would be.
        if has_header and not body.startswith(b"{"):
            return kind.FromString(body[message_indexes.decode(body, 0)[1] :])
        return json_format.Parse(body, kind())
    except (DecodeError, json_format.Error, RecursionError) as error:
        raise ValueError(f"the value is no {kind.DESCRIPTOR.full_name}: {error}") from error


def members_reader(text: str, references: Sequence[tuple[str, str]]) -> Callable[[bytes], Any]:
    """Return the reader of a schema's values without header: dicts, lists and scalars, by the names of the fields.

    Args:
        text: the schema.
        references: name and text of each schema that it refers to, those that others need first.

    Raises:
        ModuleNotFoundError: Protobuf is not installed.
        InvalidSchema: it is no schema.
    """
    from log_format.schemas.columns.protobuf_alone import message_class  # noqa: PLC0415
    from log_format.schemas.parsing_protobuf import parse_protobuf  # noqa: PLC0415

    schema = parse_protobuf(text, references)
    classes: dict[tuple[int, ...], Any] = {}

    def read(body: bytes) -> Any:
        indexes, at = message_indexes.decode(body, 0)
        if indexes not in classes:
            classes[indexes] = message_class(schema.files, schema.message_name(indexes))
        return _members(classes[indexes].FromString(body[at:]))

    return read


def _members(message: Any) -> Any:
    kind = message.DESCRIPTOR.full_name
    if kind == "google.protobuf.Timestamp":
        return message.ToDatetime(tzinfo=UTC)
    if (
        kind.startswith("google.protobuf.")
        and kind.endswith("Value")
        and [*message.DESCRIPTOR.fields_by_name] == ["value"]
    ):
        return message.value
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            item = field.message_type.fields_by_name["value"]
            found[field.name] = {_key(name): _member(item, value[name]) for name in value}
        elif field.is_repeated:
            found[field.name] = [_member(field, one) for one in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _member(field, value)
    return found


def _key(name: Any) -> str:
    return str(name).lower() if isinstance(name, bool) else str(name)


def _member(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _members(value)
    if field.enum_type is None:
        return value
    symbol = field.enum_type.values_by_number.get(value)
    return value if symbol is None else symbol.name
