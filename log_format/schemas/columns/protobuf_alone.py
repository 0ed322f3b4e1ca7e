"""Types by which Google's library reads one value without losing anything: the topic's types, with wider ones in place of those
that it would cut off or judge without a path.

1. On the wire they are the same, so the library's rules for order, repetition, merging and ``oneof`` hold.
2. Integers, enums and booleans have 64 bits, strings are bytes, maps are lists of their entries, and nothing is required.
   Extensions are unknown fields.
3. No name of a schema is a name here, since the library's methods are attributes beside the fields: a field is ``f`` and its
   number (``attribute``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

_WIDER: Final = {
    FieldDescriptorProto.TYPE_INT32: FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_UINT32: FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_SINT32: FieldDescriptorProto.TYPE_SINT64,
    FieldDescriptorProto.TYPE_ENUM: FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_BOOL: FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_STRING: FieldDescriptorProto.TYPE_BYTES,
}


def lossless_class(files: Iterable[Any], name: str) -> Any:
    """Return the library's class for a message of linked files, in whose fields nothing is lost.

    Args:
        files: ``FileDescriptorProto`` of each, with those before it that it imports.
        name: full name of the message.
    """
    pool = descriptor_pool.DescriptorPool()
    names = _Names()
    for file in files:
        pool.AddSerializedFile(_widened(file, names).SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(names.of(f".{name}")[1:]))


def attribute(number: int) -> str:
    """Return the name of a field by its number."""
    return f"f{number}"


class _Names:
    """Names of messages in place of their own, by full name; each is declared before it is used."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def declare(self, message: Any, scope: str, new_scope: str) -> None:
        """Rename a message and those within it."""
        old = f"{scope}.{message.name}"
        message.name = f"m{len(self._names)}"
        self._names[old] = f"{new_scope}.{message.name}"
        for nested in message.nested_type:
            self.declare(nested, old, self._names[old])

    def of(self, name: str) -> str:
        """Return the new name of a message."""
        return self._names[name]


def message_class(files: Iterable[Any], name: str) -> Any:
    """Return the library's class for a message of linked files."""
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _widened(file: Any, names: _Names) -> Any:
    found = descriptor_pb2.FileDescriptorProto()
    found.CopyFrom(file)
    for part in ("extension", "service", "options", "package", "enum_type", "edition"):
        found.ClearField(part)
    if file.edition:  # its fields are told apart by their labels; proto2 has all of these, and groups
        found.ClearField("syntax")
    for message in found.message_type:
        names.declare(message, f".{file.package}".rstrip("."), "")
    waiting = list(found.message_type)
    for message in waiting:  # grows
        waiting.extend(message.nested_type)
        for part in ("extension", "options", "enum_type", "reserved_name"):
            message.ClearField(part)
        for index, oneof in enumerate(message.oneof_decl):
            oneof.Clear()
            oneof.name = f"o{index}"
        for field in message.field:
            _widen(field, names)
            if file.edition:
                field.ClearField("proto3_optional")
    return found


def _widen(field: Any, names: _Names) -> None:
    field.name = attribute(field.number)
    packed = field.options.packed if field.options.HasField("packed") else None
    for part in ("default_value", "options", "json_name"):
        field.ClearField(part)
    if packed is not None and field.type not in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES):
        field.options.packed = packed
    if field.type in _WIDER:
        field.type = _WIDER[field.type]
        field.ClearField("type_name")
    elif field.type_name:
        field.type_name = names.of(field.type_name)
    if field.label == FieldDescriptorProto.LABEL_REQUIRED:
        field.label = FieldDescriptorProto.LABEL_OPTIONAL
