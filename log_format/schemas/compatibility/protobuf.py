"""Protobuf: whether what is written with an old schema is read with a new one, by Confluent's rules.

Fields are what their numbers are; their names mean nothing. Numbers that read each other on the wire are one kind: int32, int64,
uint32, uint64, bool and enums; sint32 and sint64; string and bytes; the fixed ones by their width. Messages and enums keep their
names; enums may change, fields may come and go unless they are required or in a oneof that stays. What was in no oneof, or in
another one, may not become exclusive.

Types of other files are compared where they are used. Extensions, services and options are not compared.

Source: Confluent's documentation, "Protobuf compatibility rules", and ``protobuf-provider``; Protobuf's "Updating A Message
Type".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf import descriptor_pb2

from log_format.schemas.compatibility.incompatibility import Finding
from log_format.schemas.compatibility.pairs import TOO_COMPLEX, Demand, Holds, Pairs
from log_format.schemas.parsing_protobuf import ProtobufSchema

SENTENCES: Final[Mapping[str, str]] = {
    "PACKAGE_CHANGED": "The package in the {reader} schema is not that in the {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema lacks the message at '{path}' of the {writer} schema",
    "FIELD_KIND_CHANGED": "The type of the field at '{path}' in the {reader} schema does not match that in the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of the scalar field at '{path}' in the {reader} schema does not match that in the"
    " {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The message type of the field at '{path}' in the {reader} schema does not match that in the"
    " {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label of the number at '{path}' in the {reader} schema is not that in the {writer} one",
    "REQUIRED_FIELD_ADDED": "The required field at '{path}' in the {reader} schema is missing in the {writer} schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema lacks the required field at '{path}' of the {writer} schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema lacks the field of a oneof at '{path}' of the {writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Several fields of the oneof at '{path}' in the {reader} schema are outside of it in the"
    " {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field of the oneof at '{path}' in the {reader} schema is outside of it in the {writer}"
    " schema, and others are in it",
    TOO_COMPLEX: "The {reader} and the {writer} schema are too complex to be compared",
}

_Field = descriptor_pb2.FieldDescriptorProto
_GROUPS: Final[Mapping[str, tuple[int, ...]]] = {
    "general number": (
        *(
            _Field.TYPE_INT32,
            _Field.TYPE_INT64,
            _Field.TYPE_UINT32,
            _Field.TYPE_UINT64,
            _Field.TYPE_BOOL,
            _Field.TYPE_ENUM,
        ),
    ),
    "signed number": (_Field.TYPE_SINT32, _Field.TYPE_SINT64),
    "string or bytes": (_Field.TYPE_STRING, _Field.TYPE_BYTES),
    "fixed 32": (_Field.TYPE_FIXED32, _Field.TYPE_SFIXED32),
    "fixed 64": (_Field.TYPE_FIXED64, _Field.TYPE_SFIXED64),
    "float": (_Field.TYPE_FLOAT,),
    "double": (_Field.TYPE_DOUBLE,),
}
_SCALAR: Final = {number: group for group, numbers in _GROUPS.items() for number in numbers}
"""By type: what reads each other on the wire."""


@dataclass(eq=False, slots=True, kw_only=True)
class _Node:
    """A message, or a file with the messages in it. ``name`` is without the package."""

    descriptor: Any
    name: str
    package: str
    is_imported: bool
    messages: dict[str, _Node] = field(default_factory=dict)
    known: Mapping[str, _Node]
    """Messages of all files, by their full names."""
    is_file: bool = False
    is_proto3: bool = False

    def members(self) -> Iterator[tuple[Any, str | None]]:
        """Yield each field, and the name of its oneof."""
        for each in self.descriptor.field:
            is_in = each.HasField("oneof_index") and not each.proto3_optional
            yield each, self.descriptor.oneof_decl[each.oneof_index].name if is_in else None


_Pair = tuple[_Node, _Node]
_Found = Finding | Demand[_Pair]


def protobuf_findings(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Finding]:
    """Return why the reader's schema can't read what was written with the writer's; empty: it can."""
    return Pairs[_Pair](_rules).findings((_file(reader), _file(writer)))


def _file(schema: ProtobufSchema) -> _Node:
    known: dict[str, _Node] = {}
    node = None
    for number, file in enumerate(schema.plain_files, 1):
        node = _Node(
            descriptor=file,
            name="",
            package=file.package,
            is_imported=number < len(schema.files),
            known=known,
            is_file=True,
            is_proto3=file.syntax == "proto3",
        )
        _add_messages(node, file.message_type, known)
    assert node is not None, "a schema has a file"
    return node


def _add_messages(parent: _Node, messages: Any, known: dict[str, _Node]) -> None:
    for message in messages:
        name = f"{parent.name}.{message.name}" if parent.name else message.name
        node = _Node(
            descriptor=message,
            name=name,
            package=parent.package,
            is_imported=parent.is_imported,
            known=known,
            is_proto3=parent.is_proto3,
        )
        known[f".{parent.package}.{name}" if parent.package else f".{name}"] = node
        if not message.options.map_entry:
            parent.messages[message.name] = node
        _add_messages(node, message.nested_type, known)


def _rules(pair: _Pair, holds: Holds[_Pair]) -> Iterator[_Found]:
    new, old = pair
    if not new.is_file:
        yield from _oneofs(new, old)
        yield from _fields(new, old, holds)
    elif new.package != old.package:
        yield Finding("PACKAGE_CHANGED")
    for name, message in old.messages.items():
        if name in new.messages:
            yield Demand((new.messages[name], message), (name,))
        else:
            yield Finding("MESSAGE_REMOVED", (name,))


def _oneofs(new: _Node, old: _Node) -> Iterator[Finding]:
    """Yield which oneofs make fields exclusive that were not."""
    was_in = {each.number: oneof for each, oneof in old.members()}
    groups: dict[str, set[str]] = {}
    moved: dict[str, int] = {}
    for each, oneof in new.members():
        if oneof is not None and each.number in was_in:
            before = was_in[each.number]
            groups.setdefault(oneof, set()).add(f"field {each.number}" if before is None else f"oneof {before}")
            moved[oneof] = moved.get(oneof, 0) + (before is None)
    for oneof, group in groups.items():
        if len(group) > 1:
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if moved[oneof] > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            yield Finding(kind, (oneof,))


def _fields(new: _Node, old: _Node, holds: Holds[_Pair]) -> Iterator[_Found]:
    fields = {each.number: (each, oneof) for each, oneof in new.members()}
    before = {each.number: (each, oneof) for each, oneof in old.members()}
    staying = {oneof for each, oneof in before.values() if each.number in fields} | {
        oneof for _, oneof in fields.values()
    }
    for number in sorted(fields.keys() | before.keys()):
        path: tuple[str, ...] = (str(number),)
        if number not in fields:
            one, oneof = before[number]
            if oneof is not None and oneof in staying:
                yield Finding("ONEOF_FIELD_REMOVED", (oneof, *path))
            elif one.label == _Field.LABEL_REQUIRED:
                yield Finding("REQUIRED_FIELD_REMOVED", path)
            continue
        one, oneof = fields[number]
        if number in before:
            where = path if oneof is None else (oneof, *path)
            yield from _field((one, new), (before[number][0], old), where, holds)
        elif one.label == _Field.LABEL_REQUIRED:
            yield Finding("REQUIRED_FIELD_ADDED", path)


def _field(
    new: tuple[Any, _Node], old: tuple[Any, _Node], path: tuple[str, ...], holds: Holds[_Pair]
) -> Iterator[_Found]:
    (one, owner), (before, owner_before) = new, old
    message, message_before = owner.known.get(one.type_name), owner_before.known.get(before.type_name)
    kind, kind_before = _kind(message), _kind(message_before)
    if kind != kind_before:
        yield Finding("FIELD_KIND_CHANGED", path)
    elif message is None or message_before is None:
        group = _SCALAR[one.type]
        labels = {_label(one, owner), _label(before, owner_before)}
        if group != _SCALAR[before.type]:
            yield Finding("FIELD_SCALAR_KIND_CHANGED", path)
        elif len(labels) > 1 and None not in labels and group != "string or bytes":
            yield Finding("FIELD_NUMERIC_LABEL_CHANGED", path)
    elif kind == "map":
        for part, part_before in zip(message.descriptor.field, message_before.descriptor.field, strict=True):
            yield from _field((part, message), (part_before, message_before), path, holds)
    elif message.name != message_before.name:
        yield Finding("FIELD_NAMED_TYPE_CHANGED", path)
    elif (message.is_imported or message_before.is_imported) and not holds((message, message_before)):
        yield Demand((message, message_before), tuple(message.name.split(".")), is_absolute=True)
        yield Finding("FIELD_NAMED_TYPE_CHANGED", path)


def _kind(message: _Node | None) -> str:
    if message is None:
        return "scalar"
    return "map" if message.descriptor.options.map_entry else "message"


def _label(one: Any, owner: _Node) -> int | None:
    """Return the label that a field has in its text; None: it has none."""
    if owner.descriptor.options.map_entry or (one.HasField("oneof_index") and not one.proto3_optional):
        return None
    is_plain = owner.is_proto3 and one.label == _Field.LABEL_OPTIONAL and not one.proto3_optional
    return None if is_plain else int(one.label)
