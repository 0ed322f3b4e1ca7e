"""Protobuf: from a file's descriptor to text, in one form: no comments, one statement a line, two spaces a level.

Messages stand before enums, since a descriptor does not say how they were mixed; among themselves they keep their order, by which
programs count them. Sorted, fields stand by number, imports and options by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FieldDescriptor

from log_format.schemas.proto_features import EDITIONS
from log_format.schemas.proto_parser import FIELD_NUMBER_MAX, SCALARS

_Field = descriptor_pb2.FieldDescriptorProto
_SCALAR_NAMES: Final = {number: name for name, number in SCALARS.items()}
_LABELS: Final = {
    _Field.LABEL_OPTIONAL: "optional ",
    _Field.LABEL_REQUIRED: "required ",
    _Field.LABEL_REPEATED: "repeated ",
}
_ENUM_NUMBER_MAX: Final = 2**31 - 1


def text_of(file: Any, *, is_sorted: bool = False) -> str:
    """Return the text of a ``FileDescriptorProto``. Names of types are written as it has them."""
    return "\n".join(_Writer(file.syntax, is_sorted=is_sorted).file(file)) + "\n"


class _Writer:
    def __init__(self, syntax: str, *, is_sorted: bool) -> None:
        self._has_labels = syntax not in ("proto3", "editions")
        self._is_edition = syntax == "editions"
        self._is_sorted = is_sorted

    def file(self, file: Any) -> Iterator[str]:
        if self._is_edition:
            yield f'edition = "{next(text for text, number in EDITIONS.items() if number == file.edition)}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        imports = [
            f"import {self._import_kind(file, index)}{quoted(name)};" for index, name in enumerate(file.dependency)
        ]
        if self._is_edition and "option_dependency" in file.DESCRIPTOR.fields_by_name:
            imports += [f"import option {quoted(name)};" for name in file.option_dependency]
        for group in (self._ordered(imports), [f"option {option};" for option in self._options(file.options)]):
            if group:
                yield ""
                yield from group
        for message in file.message_type:
            yield ""
            yield from self._message(message)
        for enum in file.enum_type:
            yield ""
            yield from self._enum(enum)
        if file.extension:
            yield ""
            yield from self._extend(file.extension, _by_name(file.message_type))
        for service in file.service:
            yield ""
            yield from self._service(service)

    @staticmethod
    def _import_kind(file: Any, index: int) -> str:
        if index in file.public_dependency:
            return "public "
        return "weak " if index in file.weak_dependency else ""

    def _ordered(self, lines: Iterable[str]) -> list[str]:
        return sorted(lines) if self._is_sorted else list(lines)

    def _message(self, message: Any) -> Iterator[str]:
        yield f"{_visibility(message)}message {message.name} {{"
        yield from self._body(message)
        yield "}"

    def _body(self, message: Any) -> Iterator[str]:
        nested = _by_name(message.nested_type)
        inner: set[str] = set()
        yield from _indented(f"option {option};" for option in self._options(message.options))
        yield from _indented(self._reserved(message, FIELD_NUMBER_MAX, 1))
        yield from _indented(
            f"extensions {_range(each.start, each.end - 1, FIELD_NUMBER_MAX)};" for each in message.extension_range
        )
        yield from _indented(self._fields(message, nested, inner))
        for extension in message.extension:
            if extension.type == _Field.TYPE_GROUP:
                inner.add(extension.type_name.rpartition(".")[2])
        for each in message.nested_type:
            if each.name not in inner:
                yield from _indented(self._message(each))
        for enum in message.enum_type:
            yield from _indented(self._enum(enum))
        if message.extension:
            yield from _indented(self._extend(message.extension, nested))

    def _fields(self, message: Any, nested: dict[str, Any], inner: set[str]) -> Iterator[str]:
        fields = sorted(message.field, key=lambda field: field.number) if self._is_sorted else message.field
        written: set[int] = set()
        for field in fields:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, nested, inner)
            elif field.oneof_index not in written:
                written.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                yield f"oneof {oneof.name} {{"
                yield from _indented(f"option {option};" for option in self._options(oneof.options))
                for each in fields:
                    if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                        yield from _indented(self._field(each, nested, inner, label=""))
                yield "}"

    def _field(self, field: Any, nested: dict[str, Any], inner: set[str], label: str | None = None) -> Iterator[str]:
        if label is None:
            is_plain = not self._has_labels and field.label == _Field.LABEL_OPTIONAL and not field.proto3_optional
            label = "" if is_plain else _LABELS[field.label]
        kind = nested.get(field.type_name.rpartition(".")[2])
        options = self._field_options(field)
        more = f" [{', '.join(options)}]" if options else ""
        if kind is not None and kind.options.map_entry and field.label == _Field.LABEL_REPEATED:
            inner.add(kind.name)
            yield f"map<{_type(kind.field[0])}, {_type(kind.field[1])}> {field.name} = {field.number}{more};"
        elif field.type == _Field.TYPE_GROUP and kind is not None:
            inner.add(kind.name)
            yield f"{label}group {kind.name} = {field.number}{more} {{"
            yield from self._body(kind)
            yield "}"
        else:
            yield f"{label}{_type(field)} {field.name} = {field.number}{more};"

    def _field_options(self, field: Any) -> list[str]:
        options = self._options(field.options)
        if field.HasField("default_value"):
            options.append(f"default = {_default(field)}")
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            options.append(f"json_name = {quoted(field.json_name)}")
        return self._ordered(options)

    def _enum(self, enum: Any) -> Iterator[str]:
        yield f"{_visibility(enum)}enum {enum.name} {{"
        yield from _indented(f"option {option};" for option in self._options(enum.options))
        yield from _indented(self._reserved(enum, _ENUM_NUMBER_MAX, 0))
        for value in enum.value:
            options = self._options(value.options)
            more = f" [{', '.join(options)}]" if options else ""
            yield f"  {value.name} = {value.number}{more};"
        yield "}"

    def _reserved(self, owner: Any, largest: int, beyond: int) -> Iterator[str]:
        for each in owner.reserved_range:
            yield f"reserved {_range(each.start, each.end - beyond, largest)};"
        for name in self._ordered(owner.reserved_name):
            yield f"reserved {name if self._is_edition else quoted(name)};"

    def _extend(self, extensions: Sequence[Any], nested: dict[str, Any]) -> Iterator[str]:
        for extendee in dict.fromkeys(field.extendee for field in extensions):
            yield f"extend {extendee} {{"
            for field in extensions:
                if field.extendee == extendee:
                    yield from _indented(self._field(field, nested, set()))
            yield "}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indented(f"option {option};" for option in self._options(service.options))
        for method in service.method:
            sent = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            returned = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = self._options(method.options)
            yield f"  rpc {method.name} ({sent}) returns ({returned})" + (" {" if options else ";")
            if options:
                yield from (f"    option {option};" for option in options)
                yield "  }"
        yield "}"

    def _options(self, options: Any) -> list[str]:
        found = []
        for field, value in options.ListFields():
            if field.is_extension or field.name in {"map_entry", "uninterpreted_option"}:
                continue
            if field.name == "features":
                found += [
                    f"features.{one.name} = {_plain(one, each)}"
                    for one, each in value.ListFields()
                    if not one.is_extension
                ]
            elif field.type != FieldDescriptor.TYPE_MESSAGE:
                found += [f"{field.name} = {_plain(field, each)}" for each in (value if field.is_repeated else [value])]
        found += [_uninterpreted(option) for option in options.uninterpreted_option]
        return self._ordered(found)


def _visibility(owner: Any) -> str:
    """Return the word before a message or an enum that says which files may use it."""
    return {1: "local ", 2: "export "}.get(getattr(owner, "visibility", 0), "")


def quoted(text: str) -> str:
    """Return a text between quotes, with escapes for what could end it, and for control characters."""
    return f'"{"".join(_ESCAPED.get(character, character) for character in text)}"'


_ESCAPED: Final = {
    **{chr(code): f"\\{code:03o}" for code in (*range(32), 127)},
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
}


def _by_name(messages: Iterable[Any]) -> dict[str, Any]:
    return {message.name: message for message in messages}


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _type(field: Any) -> str:
    return str(field.type_name) if field.type_name else _SCALAR_NAMES[field.type]


def _range(start: int, end: int, largest: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end == largest else end}"


def _json_name(name: str) -> str:
    first, *parts = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in parts)


def _default(field: Any) -> str:
    if field.type == _Field.TYPE_STRING:
        return quoted(field.default_value)
    return f'"{field.default_value}"' if field.type == _Field.TYPE_BYTES else str(field.default_value)


def _plain(field: Any, value: Any) -> str:
    if field.type == FieldDescriptor.TYPE_ENUM:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else str(value)


def _uninterpreted(option: Any) -> str:
    name = ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)
    if option.HasField("string_value"):
        text = "".join(
            _ESCAPED.get(chr(byte), chr(byte)) if byte < 128 else f"\\{byte:03o}" for byte in option.string_value
        )
        return f'{name} = "{text}"'
    if option.HasField("aggregate_value"):
        return f"{name} = {{ {option.aggregate_value} }}"
    for member in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(member):
            return f"{name} = {getattr(option, member)}"
    return f"{name} = 0"
