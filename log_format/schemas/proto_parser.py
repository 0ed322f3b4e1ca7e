"""Protobuf: from the words of a file to its descriptor, as ``protoc`` makes it, before names are resolved.

proto2, proto3 and the editions 2023 and 2024 are understood: messages, enums, oneofs, maps, groups, extensions, services and
options. Options of Protobuf itself are set, features among them; those of others stay as they are written
(``uninterpreted_option``), since nobody here reads them. Nothing is read but the text, and nothing is executed.

Source: Protobuf's language specifications for proto2, proto3 and editions, and ``descriptor.proto``.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2

from log_format.schemas.proto_features import EDITIONS
from log_format.schemas.proto_options import set_option
from log_format.schemas.proto_tokens import Word, number_of
from log_format.schemas.proto_words import INT_MAX, Words

NESTING_MAX: Final = 32
"""Most messages within each other, ``protoc``'s own bound."""

FIELD_NUMBER_MAX: Final = 2**29 - 1
_RESERVED_NUMBERS: Final = range(19_000, 20_000)

_Field = descriptor_pb2.FieldDescriptorProto
SCALARS: Final = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
}
_LABELS: Final = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}

_VISIBILITIES: Final = {"local": 1, "export": 2}
"""``SymbolVisibility`` by the word before a message or an enum, from edition 2024 on."""


def file_of(name: str, text: str) -> Any:
    """Return the ``FileDescriptorProto`` of a text. Names of types are as they are written. Raises ``InvalidSchema``."""
    return _Parser(text).file(name)


class _Parser(Words):
    """The words of one file, and what is known of it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._is_proto3 = False

    def file(self, name: str) -> Any:
        """Take a whole file."""
        file = descriptor_pb2.FileDescriptorProto(name=name)
        if self.has("syntax"):
            self.expect("=")
            word = self.word
            syntax = self.text()
            if syntax not in {"proto2", "proto3"}:
                self.refuse(f"The syntax {syntax[:50]!r} is neither proto2 nor proto3.", word)
            self.expect(";")
            self._is_proto3 = syntax == "proto3"
            if self._is_proto3:
                file.syntax = syntax
        elif self.has("edition"):
            self.expect("=")
            word = self.word
            edition = EDITIONS.get(self.text())
            if edition is None:
                self.refuse(f"Editions are {' and '.join(EDITIONS)}, and no other is known.", word)
            self.expect(";")
            file.syntax, file.edition, self.edition = "editions", edition, edition
        while self.word.kind != "end":
            self._statement(file)
        return file

    def _statement(self, file: Any) -> None:
        if self.has(";"):
            return
        if self.has("import"):
            self._import(file)
        elif self.has("package"):
            if file.package:
                self.refuse("The file has a package already.")
            file.package = self.full_name()
            self.expect(";")
        elif self.has("option"):
            set_option(self, file.options)
            self.expect(";")
        elif self._is_shown_or_not():
            self._visible(file, file.message_type, 1)
        elif self.has("message"):
            self._message(file.message_type.add(), 1)
        elif self.has("enum"):
            self._enum(file.enum_type.add())
        elif self.has("extend"):
            self._extend(file.extension, file.message_type, 1)
        elif self.has("service"):
            self._service(file.service.add())
        else:
            self.refuse(f"{self.word.text[:50]!r} begins nothing that a file has.")

    def _is_shown_or_not(self) -> bool:
        is_word = self.word.text in _VISIBILITIES and self.following.text in ("message", "enum")
        return self.edition >= descriptor_pb2.EDITION_2024 and is_word

    def _visible(self, owner: Any, messages: Any, depth: int) -> None:
        """Take a message or an enum that says whether other files may use it."""
        visibility = _VISIBILITIES[self.name()]
        made = messages.add() if self.word.text == "message" else owner.enum_type.add()
        if "visibility" not in made.DESCRIPTOR.fields_by_name:
            self.refuse("This gateway's package protobuf is older than edition 2024.")
        made.visibility = visibility
        if self.has("message"):
            self._message(made, depth)
        elif self.has("enum"):
            self._enum(made)

    def _import(self, file: Any) -> None:
        if self.edition >= descriptor_pb2.EDITION_2024 and self.has("option"):
            if "option_dependency" not in file.DESCRIPTOR.fields_by_name:
                self.refuse("This gateway's package protobuf is older than edition 2024.")
            file.option_dependency.append(self.text())
            self.expect(";")
            return
        kept = {"public": file.public_dependency, "weak": file.weak_dependency}.get(self.word.text)
        if self.word.kind == "name" and kept is not None:
            self.at += 1
            kept.append(len(file.dependency))
        word = self.word
        imported = self.text()
        if imported in file.dependency:
            self.refuse(f"{imported!r} is imported twice.", word)
        file.dependency.append(imported)
        self.expect(";")

    def _message(self, message: Any, depth: int) -> None:
        message.name = self.name()
        self._body(message, depth)

    def _body(self, message: Any, depth: int) -> None:
        if depth > NESTING_MAX:
            self.refuse(f"Messages nest deeper than {NESTING_MAX}.")
        self.expect("{")
        optional: list[Any] = []
        while not self.has("}"):
            self._member(message, depth, optional)
        for field in optional:  # proto3's optional fields: each is in a oneof of its own, after those that are written
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _member(self, message: Any, depth: int, optional: list[Any]) -> None:
        following = self.following
        if self.has(";"):
            return
        if self._is_shown_or_not():
            self._visible(message, message.nested_type, depth + 1)
        elif self.has("message"):
            self._message(message.nested_type.add(), depth + 1)
        elif self.has("enum"):
            self._enum(message.enum_type.add())
        elif self.has("extend"):
            self._extend(message.extension, message.nested_type, depth)
        elif self.has("oneof"):
            self._oneof(message, depth)
        elif self.has("option"):
            set_option(self, message.options)
            self.expect(";")
        elif self.has("extensions"):
            self._extensions(message)
        elif self.word.text == "reserved" and following.kind in self._reserved_kinds:
            self.at += 1
            self._reserved(message, FIELD_NUMBER_MAX, least=1, is_half_open=True)
        else:
            label = self._label()
            field = self._field(message.field, message.nested_type, label or "optional", depth)
            if label == "optional" and self._is_proto3:
                field.proto3_optional = True
                optional.append(field)

    @property
    def _reserved_kinds(self) -> tuple[str, str]:
        """Kinds of words after ``reserved``: names are texts, in editions plain names."""
        return ("number", "name") if self.edition else ("number", "text")

    def _label(self) -> str | None:
        label = self.word.text
        if self.word.kind == "name" and label in _LABELS:
            if self.edition and label != "repeated":
                self.refuse(f"Editions have no label {label!r}: say features.field_presence.")
            self.at += 1
            return label
        return None

    def _field(self, fields: Any, nested: Any, label: str, depth: int) -> Any:
        field = fields.add(label=_LABELS[label])
        start = self.word
        following = self.following
        if self.word.text == "map" and following.text == "<":
            self._map(field, nested, label, start)
        else:
            if self.word.text == "group" and following.kind == "name":
                if self.edition:
                    self.refuse(
                        "Editions have no groups: say features.message_encoding = DELIMITED of a message's field."
                    )
                self.at += 1
                field.type = _Field.TYPE_GROUP
            else:
                self._type(field)
            field.name = self.name()
        self.expect("=")
        number = self.word
        field.number = self.integer(FIELD_NUMBER_MAX, least=1)
        if field.number in _RESERVED_NUMBERS:
            self.refuse("The numbers from 19000 to 19999 belong to Protobuf itself.", number)
        if self.has("["):
            self._options(field)
        if field.type == _Field.TYPE_GROUP:
            group = nested.add(name=field.name)
            field.type_name, field.name = field.name, field.name.lower()
            self._body(group, depth + 1)
        else:
            self.expect(";")
        return field

    def _type(self, field: Any) -> None:
        name = self.full_name()
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _map(self, field: Any, nested: Any, label: str, start: Word) -> None:
        self.at += 2
        if self.words[self.at - 3].text in _LABELS or label == "repeated":
            self.refuse("A map has no label.", start)
        key = self.word
        entry = nested.add()
        entry.options.map_entry = True
        keys = entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL)
        self._type(keys)
        if keys.type_name or keys.type in {_Field.TYPE_DOUBLE, _Field.TYPE_FLOAT, _Field.TYPE_BYTES}:
            self.refuse("The keys of a map are integers, bool or string.", key)
        self.expect(",")
        self._type(entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL))
        self.expect(">")
        field.name = self.name()
        field.label = _Field.LABEL_REPEATED
        field.type = _Field.TYPE_MESSAGE
        field.type_name = entry.name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"

    def _oneof(self, message: Any, depth: int) -> None:
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=self.name())
        self.expect("{")
        while not self.has("}"):
            if self.has("option"):
                set_option(self, oneof.options)
                self.expect(";")
            elif not self.has(";"):
                if self.word.text in {*_LABELS, "map"} and self.following.text != ".":
                    self.refuse("A field of a oneof has no label, and is no map.")
                self._field(message.field, message.nested_type, "optional", depth).oneof_index = index

    def _options(self, owner: Any) -> None:
        while True:
            if isinstance(owner, _Field) and self.word.text in {"default", "json_name"}:
                self._pseudo_option(owner, self.name())
            else:
                set_option(self, owner.options)
            if self.has("]"):
                return
            self.expect(",")

    def _pseudo_option(self, field: Any, option: str) -> None:
        self.expect("=")
        word = self.word
        if option == "json_name":
            field.json_name = self.text()
        elif self.word.kind == "text":
            value = self.string()
            try:
                field.default_value = _escaped(value) if field.type == _Field.TYPE_BYTES else value.decode()
            except UnicodeDecodeError:
                self.refuse("The default is no UTF-8.", word)
        else:
            sign = "-" if self.has("-") else ""
            value_word = self.taken("number" if self.word.kind == "number" else "name")
            number = number_of(value_word)
            if value_word.kind == "number" and number is None:
                self.refuse("The default is no number.", word)
            field.default_value = f"{sign}{value_word.text if number is None else number}"

    def _enum(self, enum: Any) -> None:
        enum.name = self.name()
        self.expect("{")
        while not self.has("}"):
            following = self.following
            if self.has(";"):
                continue
            if self.word.text == "option" and following.text != "=":
                self.at += 1
                set_option(self, enum.options)
            elif self.word.text == "reserved" and (following.kind in self._reserved_kinds or following.text == "-"):
                self.at += 1
                self._reserved(enum, INT_MAX, least=-INT_MAX - 1, is_half_open=False)
                continue
            else:
                value = enum.value.add(name=self.name())
                self.expect("=")
                value.number = self.integer(least=-INT_MAX - 1)
                if self.has("["):
                    self._options(value)
            self.expect(";")

    def _reserved(self, owner: Any, largest: int, *, least: int, is_half_open: bool) -> None:
        while True:
            if self.word.kind == self._reserved_kinds[1]:
                owner.reserved_name.append(self.name() if self.edition else self.text())
            else:
                start, end = self._range(largest, least)
                owner.reserved_range.add(start=start, end=end + 1 if is_half_open else end)
            if self.has(";"):
                return
            self.expect(",")

    def _range(self, largest: int, least: int) -> tuple[int, int]:
        word = self.word
        start = self.integer(largest, least)
        end = start
        if self.has("to"):
            end = largest if self.has("max") else self.integer(largest, least)
        if end < start:
            self.refuse("The range ends before it begins.", word)
        return start, end

    def _extensions(self, message: Any) -> None:
        first = len(message.extension_range)
        while True:
            start, end = self._range(FIELD_NUMBER_MAX, 1)
            message.extension_range.add(start=start, end=end + 1)
            if self.has("["):
                for each in message.extension_range[first:]:
                    at = self.at
                    self._options(each)
                    self.at, after = at, self.at
                self.at = after
            if self.has(";"):
                return
            self.expect(",")

    def _extend(self, extensions: Any, nested: Any, depth: int) -> None:
        extended = self.full_name()
        self.expect("{")
        while not self.has("}"):
            if not self.has(";"):
                self._field(extensions, nested, self._label() or "optional", depth).extendee = extended

    def _service(self, service: Any) -> None:
        service.name = self.name()
        self.expect("{")
        while not self.has("}"):
            if self.has(";"):
                continue
            if self.has("option"):
                set_option(self, service.options)
                self.expect(";")
                continue
            self.expect("rpc")
            method = service.method.add(name=self.name())
            method.input_type, method.client_streaming = self._parameter()
            self.expect("returns")
            method.output_type, method.server_streaming = self._parameter()
            if not self.has("{"):
                self.expect(";")
                continue
            while not self.has("}"):
                if self.has("option"):
                    set_option(self, method.options)
                    self.expect(";")
                else:
                    self.expect(";")

    def _parameter(self) -> tuple[str, bool]:
        self.expect("(")
        is_stream = self.word.text == "stream" and self.following.text != ")" and self.has("stream")
        name = self.full_name()
        self.expect(")")
        return name, is_stream


def _escaped(value: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 and chr(byte) not in "\\\"'" else f"\\{byte:03o}" for byte in value)
