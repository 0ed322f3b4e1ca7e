"""The types of a Protobuf schema, as nodes that read values: which message a topic's values are, and its fields.

Source: Protocol Buffers, "Language Guide" of proto2, proto3 and editions, "Field Presence".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from log_format.schemas.columns.protobuf_documents import DOCUMENTS_OF_THEIR_OWN
from log_format.schemas.columns.protobuf_messages import Field, Form, Message, Moment, Wrapper
from log_format.schemas.columns.protobuf_scalars import (
    FIXED64,
    VARINT,
    Binary,
    Fixed,
    Flag,
    Node,
    Symbol,
    Text,
    Unsigned,
    Varint,
)
from log_format.schemas.columns.shape import DEPTH_MAX, LEAVES_MAX, Untypable, checked
from log_format.schemas.parsing_protobuf import ProtobufSchema

_Proto = FieldDescriptorProto
_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_SCALARS: Final[dict[int, Node]] = {
    _Proto.TYPE_INT32: Varint(pa.int32(), *_INT32),
    _Proto.TYPE_SINT32: Varint(pa.int32(), *_INT32, is_zigzag=True),
    _Proto.TYPE_UINT32: Varint(pa.int64(), 0, 2**32 - 1),
    _Proto.TYPE_INT64: Varint(pa.int64(), *_INT64),
    _Proto.TYPE_SINT64: Varint(pa.int64(), *_INT64, is_zigzag=True),
    _Proto.TYPE_UINT64: Unsigned(VARINT),
    _Proto.TYPE_FIXED64: Unsigned(FIXED64),
    _Proto.TYPE_FIXED32: Fixed(pa.int64(), "<u4"),
    _Proto.TYPE_SFIXED32: Fixed(pa.int32(), "<i4"),
    _Proto.TYPE_SFIXED64: Fixed(pa.int64(), "<i8"),
    _Proto.TYPE_FLOAT: Fixed(pa.float32(), "<f4"),
    _Proto.TYPE_DOUBLE: Fixed(pa.float64(), "<f8"),
    _Proto.TYPE_BOOL: Flag(),
    _Proto.TYPE_STRING: Text(),
    _Proto.TYPE_BYTES: Binary(),
}
_UNPACKABLE: Final = frozenset({_Proto.TYPE_STRING, _Proto.TYPE_BYTES, _Proto.TYPE_MESSAGE, _Proto.TYPE_GROUP})
_TIMESTAMP: Final = [(1, "seconds", _Proto.TYPE_INT64), (2, "nanos", _Proto.TYPE_INT32)]
_WRAPPED: Final = {
    f".google.protobuf.{name}Value": [(1, "value", kind)]
    for name, kind in (
        *(("Double", _Proto.TYPE_DOUBLE), ("Float", _Proto.TYPE_FLOAT), ("Bool", _Proto.TYPE_BOOL)),
        *(("Int64", _Proto.TYPE_INT64), ("UInt64", _Proto.TYPE_UINT64)),
        *(("Int32", _Proto.TYPE_INT32), ("UInt32", _Proto.TYPE_UINT32)),
        *(("String", _Proto.TYPE_STRING), ("Bytes", _Proto.TYPE_BYTES)),
    )
}


def topic_message(schema: ProtobufSchema) -> tuple[tuple[int, ...], Message]:
    """Return the message that a topic's values are, by Confluent's indexes, and its node.

    It is the first one with fields that no other message of the file has as a field; outer ones come before those within them.

    Raises:
        Untypable: columns can't have it.
    """
    messages = list(_messages(schema.file.message_type, f".{schema.file.package}".rstrip("."), ()))
    used = {
        field.type_name
        for name, _, message in messages
        for field in _with_entries(message)
        if field.type_name and not field.type_name.startswith(name)
    }
    candidates = [(name, indexes) for name, indexes, message in messages if message.field]
    if not candidates:
        raise Untypable("", "has no message with fields")
    name, indexes = next((one for one in candidates if one[0] not in used), candidates[0])
    message = _Types(schema).message(name, "")
    if not message.leaves:
        raise Untypable("", f"has no columns: its message {name[1:]} has no fields but messages without fields")
    checked(message.shape)
    return indexes, message


def _messages(
    messages: Sequence[Any], scope: str, before: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...], Any]]:
    """Yield name, indexes and descriptor of each message that is no entry of a map."""
    for index, message in enumerate(messages):
        if not message.options.map_entry:
            name = f"{scope}.{message.name}"
            yield name, (*before, index), message
            yield from _messages(message.nested_type, name, (*before, index))


def _with_entries(message: Any) -> list[Any]:
    """Return the fields of a message, and those of its maps' entries."""
    return [*message.field, *(field for one in message.nested_type if one.options.map_entry for field in one.field)]


def column_names(message: Message) -> dict[tuple[int, ...], str]:
    """Return the path of each column by the numbers of the fields that lead to it."""
    found: dict[tuple[int, ...], str] = {}

    def add(one: Node, numbers: tuple[int, ...], path: str) -> None:
        if not isinstance(one, Message) or isinstance(one, Moment | Wrapper):
            return
        for field in one.fields:
            if field.has_column:
                where = ".".join(name for name in (path, field.oneof, field.name) if name)
                found[(*numbers, field.number)] = where
                add(field.node, (*numbers, field.number), where)

    add(message, (), "")
    return found


def takes_columns(node: Node) -> bool:
    """Return whether a message's columns, as JSON, are its document."""
    if not isinstance(node, Message) or isinstance(node, Moment | Wrapper):
        return True
    return node.name not in DOCUMENTS_OF_THEIR_OWN and all(
        field.oneof is None and takes_columns(field.node) if field.has_column else field.form is not Form.REQUIRED
        for field in node.fields
    )


class _Types:
    """Messages and enums by full name, and the nodes made of them; None: a message that is being made."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._messages: dict[str, tuple[Any, bool]] = {}
        self._enums: dict[str, Any] = {}
        self._made: dict[str, Node | None] = {}
        self._depth = 0
        for file in schema.plain_files:
            self._note(file, f".{file.package}".rstrip("."), file.syntax == "proto3")

    def _note(self, scope: Any, name: str, is_proto3: bool) -> None:
        messages = scope.message_type if hasattr(scope, "message_type") else scope.nested_type
        for message in messages:
            self._messages[f"{name}.{message.name}"] = message, is_proto3
            self._note(message, f"{name}.{message.name}", is_proto3)
        for enum in scope.enum_type:
            self._enums[f"{name}.{enum.name}"] = enum

    def message(self, name: str, path: str, *, is_group: bool = False) -> Message:
        """Return the node of a message. Raises ``Untypable``."""
        made_as = f"{name} as a group" if is_group else name
        if made_as in self._made:
            known = self._made[made_as]
            if known is None:
                raise Untypable(path, f"contains itself ({name[1:]}); a column has no recursive type")
            assert isinstance(known, Message)
            return known
        if self._depth > DEPTH_MAX:
            raise Untypable(path, f"is nested more than {DEPTH_MAX} deep")
        self._made[made_as] = None
        self._depth += 1
        descriptor, is_proto3 = self._messages[name]
        if descriptor.options.message_set_wire_format:
            raise Untypable(path, f"is a message set ({name[1:]}), which can't be typed")
        fields = []
        leaves = 0
        for each in descriptor.field:
            where = f"{path}.{each.name}" if path else each.name
            field = self._field(descriptor, each, where, is_proto3)
            leaves += field.node.leaves
            # Counted before the shape is made: types that contain each other twice grow with each level.
            if leaves > LEAVES_MAX:
                raise Untypable(path, f"has more than {LEAVES_MAX:,} columns")
            fields.append(field)
        made: Message
        # A file of this name that somebody registered may say something else.
        parts = [(each.number, each.name, each.type) for each in descriptor.field]
        is_plain = all(field.form is Form.IMPLICIT for field in fields)
        if name == ".google.protobuf.Timestamp" and sorted(parts) == _TIMESTAMP and is_plain:
            made = Moment(name[1:], fields, is_group=is_group)
        elif parts == _WRAPPED.get(name) and is_plain:
            made = Wrapper(name[1:], fields, is_group=is_group)
        else:
            made = Message(name[1:], fields, is_group=is_group)
        self._made[made_as] = made
        self._depth -= 1
        return made

    def _field(self, message: Any, field: Any, path: str, is_proto3: bool) -> Field:
        node = self._node(field, path)
        made = partial(Field, field.number, field.name, field.json_name or _camel_case(field.name))
        is_map_entry = message.options.map_entry
        if field.label == _Proto.LABEL_REPEATED:
            if isinstance(node, Message) and self._messages[field.type_name][0].options.map_entry:
                if [part.number for part in node.fields] != [1, 2] or any(part.is_list for part in node.fields):
                    raise Untypable(path, "is no map")
                if not node.fields[1].has_column:
                    raise Untypable(path, "is a map of messages without fields, which no column can be")
                return made(node, Form.MAP)
            packed = field.options.packed if field.options.HasField("packed") else is_proto3
            form = Form.PACKED if packed and field.type not in _UNPACKABLE else Form.REPEATED
            return made(node, form)
        if field.label == _Proto.LABEL_REQUIRED:
            return made(node, Form.REQUIRED)
        if field.HasField("oneof_index") and not field.proto3_optional:
            return made(node, Form.OPTIONAL, message.oneof_decl[field.oneof_index].name)
        has_presence = isinstance(node, Message) or field.proto3_optional or not (is_proto3 or is_map_entry)
        if not has_presence and node.default is None:
            raise Untypable(path, "has an enum without 0, which it is when it is absent")
        return made(node, Form.OPTIONAL if has_presence else Form.IMPLICIT)

    def _node(self, field: Any, path: str) -> Node:
        if field.type in (_Proto.TYPE_MESSAGE, _Proto.TYPE_GROUP):
            return self.message(field.type_name, path, is_group=field.type == _Proto.TYPE_GROUP)
        if field.type != _Proto.TYPE_ENUM:
            return _SCALARS[field.type]
        if field.type_name not in self._made:
            values = self._enums[field.type_name].value
            self._made[field.type_name] = Symbol({value.name: value.number for value in values})
        made = self._made[field.type_name]
        assert made is not None
        return made


def _camel_case(name: str) -> str:
    first, *parts = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in parts)
