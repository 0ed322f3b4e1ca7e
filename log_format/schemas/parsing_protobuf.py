"""Protobuf: from text, or a descriptor in base64, to files whose names are resolved.

``proto_parser`` makes descriptors of texts, and Google's library links them, in memory: it resolves names and refuses what does
not fit together. What it leaves to ``protoc`` is checked here: reserved numbers and names, ranges, aliases of enums.

A descriptor, which is what Confluent's client for Python registers, is written as text first, so that both ways give the same
schema. Values of options that are not Protobuf's own are lost on that way.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from log_format.schemas.google_types import GOOGLE_TYPES
from log_format.schemas.parsed import DEPTH_MAX, InvalidSchema, ParsedSchema, Steps
from log_format.schemas.proto_features import EDITIONS, as_proto3, check_features
from log_format.schemas.proto_parser import file_of
from log_format.schemas.proto_text import text_of
from log_format.schemas.schema import SchemaType

_GOOGLE: Final = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        *(any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2, struct_pb2),
        *(timestamp_pb2, type_pb2, wrappers_pb2),
    )
}
_META: Final = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL: Final = """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_VARIANT: Final = """
syntax = "proto3";
package confluent.type;
message Variant { bytes metadata = 1; bytes value = 2; }
"""
_KNOWN: Final[Mapping[str, str]] = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": _VARIANT,
    **GOOGLE_TYPES,
}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_MAIN: Final = "registered.proto"


class ProtobufSchema(ParsedSchema):
    """A parsed Protobuf schema.

    ``file`` is its linked ``FileDescriptorProto``, ``files`` those that it imports, what others import first, and itself last.
    ``descriptor_set`` is all of them as the bytes of a ``FileDescriptorSet``.
    """

    __slots__ = ("descriptor_set", "file", "files")

    def __init__(self, canonical: str, files: Sequence[Any]) -> None:
        self.files: Final = tuple(files)
        self.file: Final = files[-1]
        self.descriptor_set: Final = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString(deterministic=True)
        super().__init__(SchemaType.PROTOBUF, canonical, text_of(self.file, is_sorted=True), self.descriptor_set)

    @property
    def plain_files(self) -> tuple[Any, ...]:
        """The files in the terms of proto2 and proto3 (``proto_features``), of which the last is the schema's own."""
        return tuple(map(as_proto3, self.files))

    def message_name(self, indexes: Sequence[int]) -> str:
        """Return the full name of a message by Confluent's indexes, the first among the file's messages, each next one within it.

        Raises ``LookupError`` when there is none.
        """
        if not indexes or min(indexes) < 0:
            raise LookupError("a message has at least one index, and none is negative")
        message = self.file.message_type[indexes[0]]
        names = [self.file.package, message.name]
        for index in indexes[1:]:
            message = message.nested_type[index]
            names.append(message.name)
        return ".".join(name for name in names if name)


def parse_protobuf(text: str, references: Sequence[tuple[str, str]]) -> ProtobufSchema:
    """Parse a Protobuf schema. Raises ``InvalidSchema``."""
    linker = _Linker()
    others = {name: _parsed(name, other, f"reference {name!r}") for name, other in references}
    main = _MAIN
    while main in others:
        main = f"_{main}"
    file = _parsed(main, text, "")
    linker.link(file, others)
    return ProtobufSchema(text_of(file), linker.linked())


def _parsed(name: str, text: str, place: str) -> Any:
    try:
        if _BASE64.fullmatch(text.strip()):
            text = _decoded(text.strip())
        if not text.strip():
            raise InvalidSchema("The schema is empty.")
        if (depth := text.count("{")) > DEPTH_MAX and _nesting(text) > DEPTH_MAX:
            raise InvalidSchema(
                f"The schema nests too deep: {depth} brackets, more than {DEPTH_MAX} of them open at once."
            )
        return file_of(name, text)
    except InvalidSchema as error:
        if not place:
            raise
        raise InvalidSchema(error.detail, place=place) from error


def _nesting(text: str) -> int:
    depth = deepest = 0
    for bracket in re.finditer("[{}]", text):
        depth += 1 if bracket.group() == "{" else -1
        deepest = max(deepest, depth)
    return deepest


def _decoded(text: str) -> str:
    """Return the text of a descriptor in base64."""
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise InvalidSchema("This is neither a text of Protobuf nor a descriptor in base64.") from error
    if file.syntax not in {"", "proto2", "proto3"} and (file.syntax, file.edition in EDITIONS.values()) != (
        "editions",
        True,
    ):
        known = f"proto2, proto3 nor one of the editions {' and '.join(EDITIONS)}"
        raise InvalidSchema(f"The syntax {file.syntax[:50]!r} is neither {known}.")
    try:
        return text_of(file)
    except (LookupError, TypeError, ValueError, RecursionError) as error:  # no order of bytes is a file by itself
        raise InvalidSchema("The descriptor is damaged: it refers to what it has not.") from error


class _Linker:
    """The files of one parse, in the order in which they are linked."""

    def __init__(self) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._names: list[str] = []
        self._steps = Steps()
        self._longest = 0

    def link(self, file: Any, others: Mapping[str, Any]) -> None:
        """Link a file after those that it imports."""
        waiting = [(file, False)]
        begun = set()
        while waiting:
            each, is_ready = waiting.pop()
            if is_ready:
                self._add(each)
            elif each.name not in begun:
                begun.add(each.name)
                waiting.append((each, True))
                for name in reversed(each.dependency):
                    if (
                        name in begun
                        and name not in self._names
                        and any(ready and one.name == name for one, ready in waiting)
                    ):
                        raise InvalidSchema("Files import each other in a circle.", place=f"import {name!r}")
                    waiting.append((_imported(name, others), False))

    def linked(self) -> list[Any]:
        """Return the linked files, with the full names of types."""
        found = []
        for name in self._names:
            file = descriptor_pb2.FileDescriptorProto()
            self._pool.FindFileByName(name).CopyToProto(file)
            found.append(file)
        return found

    def _add(self, file: Any) -> None:
        if file.name not in _GOOGLE:
            self._check(file)
        try:
            self._pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as error:
            detail = str(error).partition("descriptor pool: ")[2] or str(error)
            raise InvalidSchema(
                f"{detail}.", place="" if file.name.endswith(_MAIN) else f"import {file.name!r}"
            ) from error
        self._names.append(file.name)

    def _check(self, file: Any) -> None:
        """Check what linking leaves to ``protoc``, and that full names are not so long that they take the memory."""
        waiting = [(message, len(file.package)) for message in file.message_type]
        enums = [(enum, len(file.package)) for enum in file.enum_type]
        for message, before in waiting:  # grows
            length = before + len(message.name)
            self._longest = max(self._longest, length)
            self._steps.spend_name(length * (1 + len(message.field) + len(message.oneof_decl) + len(message.extension)))
            waiting.extend((nested, length) for nested in message.nested_type)
            enums.extend((enum, length) for enum in message.enum_type)
            _check_message(message)
            if file.syntax == "editions":
                check_features(message)
        for enum, before in enums:
            self._longest = max(self._longest, before + len(enum.name))
            self._steps.spend_name((before + len(enum.name)) * (1 + len(enum.value)))
            _check_enum(enum)
        for service in file.service:
            self._steps.spend_name((len(file.package) + len(service.name) + self._longest) * (1 + len(service.method)))
        fields = sum(1 for message, _ in waiting for field in message.field if field.type_name)
        self._steps.spend_name(self._longest * (fields + len(file.extension)))


def _imported(name: str, others: Mapping[str, Any]) -> Any:
    if name in others:
        return others[name]
    if name in _GOOGLE:
        return descriptor_pb2.FileDescriptorProto.FromString(_GOOGLE[name])
    if name in _KNOWN:
        return _known(name)
    raise InvalidSchema(
        "There is no such file: neither a reference, nor one of Protobuf itself.", place=f"import {name!r}"
    )


@cache
def _known(name: str) -> Any:
    return file_of(name, _KNOWN[name])


def _check_message(message: Any) -> None:
    reserved = [range(each.start, each.end) for each in message.reserved_range]
    extensions = [range(each.start, each.end) for each in message.extension_range]
    _check_ranges(message.name, [*reserved, *extensions])
    taken_by = _finder([*reserved, *extensions])
    names = set(message.reserved_name)
    for field in message.field:
        if field.name in names:
            raise InvalidSchema(f"The name of the field {field.name!r} is reserved.", place=message.name)
        if taken_by(field.number):
            raise InvalidSchema(
                f"The number {field.number} of the field {field.name!r} is reserved.", place=message.name
            )


def _check_enum(enum: Any) -> None:
    reserved = [range(each.start, each.end + 1) for each in enum.reserved_range]
    _check_ranges(enum.name, reserved)
    taken_by = _finder(reserved)
    numbers = set()
    names = set(enum.reserved_name)
    for value in enum.value:
        if value.number in numbers and not enum.options.allow_alias:
            raise InvalidSchema(f"The number {value.number} is there twice, without allow_alias.", place=enum.name)
        if value.name in names or taken_by(value.number):
            raise InvalidSchema(f"The name or the number of {value.name!r} is reserved.", place=enum.name)
        numbers.add(value.number)


def _check_ranges(name: str, ranges: Iterable[range]) -> None:
    last = None
    for each in sorted(ranges, key=lambda one: one.start):
        if last is not None and each.start < last.stop:
            raise InvalidSchema(f"Reserved ranges or extensions overlap at {each.start}.", place=name)
        last = each


def _finder(ranges: Sequence[range]) -> Callable[[int], bool]:
    """Return what tells whether a number is in one of some ranges that do not overlap."""
    ordered = sorted(ranges, key=lambda each: each.start)
    starts = [each.start for each in ordered]

    def find(number: int) -> bool:
        at = bisect.bisect_right(starts, number)
        return at > 0 and number in ordered[at - 1]

    return find
