"""Protobuf: what the features of an edition say of a field, written as proto3 would say it.

A feature is inherited from the file to its messages, to what is within these, and to the field; each may set it anew. Whoever
reads values or compares schemas gets files of one form: labels, ``optional``, groups and ``packed`` say all of it.

* ``field_presence``: ``proto3_optional`` where a field without a value is told from its default, the label ``required``.
* ``repeated_field_encoding``: ``packed``.
* ``message_encoding``: the type of groups, also for a message that is declared elsewhere.
* ``enum_type`` and ``utf8_validation`` say nothing here: no topic takes an unknown number or a text that is not UTF-8.

Source: Protocol Buffers, "Feature Settings for Editions"; ``descriptor.proto``.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2

from log_format.schemas.parsed import InvalidSchema

EDITIONS: Final = {"2023": descriptor_pb2.EDITION_2023, "2024": descriptor_pb2.EDITION_2024}
"""Editions by their text."""

_Field = descriptor_pb2.FieldDescriptorProto
_Features = descriptor_pb2.FeatureSet
_DEFAULTS: Final = _Features(
    field_presence=_Features.EXPLICIT,
    repeated_field_encoding=_Features.PACKED,
    message_encoding=_Features.LENGTH_PREFIXED,
)
"""The same in both editions."""
_UNPACKABLE: Final = frozenset({_Field.TYPE_STRING, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE, _Field.TYPE_GROUP})
_TARGETS: Final = {
    "FileOptions": 1,
    "ExtensionRangeOptions": 2,
    "MessageOptions": 3,
    "FieldOptions": 4,
    "OneofOptions": 5,
    "EnumOptions": 6,
    "EnumValueOptions": 7,
    "ServiceOptions": 8,
    "MethodOptions": 9,
}
"""``OptionTargetType`` of each message of options."""


def feature_field(options: Any, name: str, edition: int) -> Any:
    """Return the descriptor of a feature that an entity with these options can have in an edition; None: it can't."""
    field = _Features.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return None
    known = field.GetOptions()
    is_here = _TARGETS.get(options.DESCRIPTOR.name) in known.targets
    return field if is_here and known.feature_support.edition_introduced <= edition else None


def as_proto3(file: Any) -> Any:
    """Return a linked file with what its edition's features say, as proto3 would say it; one of another syntax as it is.

    The result is for readers of descriptors: a ``required`` field or a group in it is nothing that proto3 has.
    """
    if file.syntax != "editions":
        return file
    found = descriptor_pb2.FileDescriptorProto()
    found.CopyFrom(file)
    found.syntax = "proto3"
    features = _within(_DEFAULTS, file.options)
    for message in found.message_type:
        _rewrite(message, features)
    return found


def _within(features: Any, options: Any) -> Any:
    found = _Features()
    found.CopyFrom(features)
    found.MergeFrom(options.features)
    return found


def _rewrite(message: Any, outer: Any) -> None:
    features = _within(outer, message.options)
    for field in message.field:
        _rewrite_field(field, features, message)
    for nested in message.nested_type:
        if not nested.options.map_entry:
            _rewrite(nested, features)


def _rewrite_field(field: Any, outer: Any, message: Any) -> None:
    oneof = message.oneof_decl[field.oneof_index] if field.HasField("oneof_index") else None
    features = _within(outer if oneof is None else _within(outer, oneof.options), field.options)
    if field.label == _Field.LABEL_REPEATED:
        if field.type not in _UNPACKABLE:
            field.options.packed = features.repeated_field_encoding == _Features.PACKED
    elif features.field_presence == _Features.LEGACY_REQUIRED and oneof is None:
        field.label = _Field.LABEL_REQUIRED
    elif features.field_presence == _Features.EXPLICIT and oneof is None:
        field.proto3_optional = True
    is_map = any(
        one.options.map_entry and field.type_name.endswith(f".{message.name}.{one.name}") for one in message.nested_type
    )
    if field.type == _Field.TYPE_MESSAGE and features.message_encoding == _Features.DELIMITED and not is_map:
        field.type = _Field.TYPE_GROUP


def check_features(message: Any) -> None:
    """Raise ``InvalidSchema`` for a field whose features ``protoc`` refuses in an edition, and linking does not."""
    for field in message.field:
        kind = field.type if field.HasField("type") else 0  # of a message or an enum, before names are resolved
        wrong = _wrong_feature(field, kind, field.options.features)
        if wrong:
            raise InvalidSchema(f"The field {field.name!r} has {wrong}.", place=message.name)


def _wrong_feature(field: Any, kind: int, features: Any) -> str:
    is_repeated = field.label == _Field.LABEL_REPEATED
    if features.HasField("field_presence") and (is_repeated or field.HasField("oneof_index")):
        return "field_presence, which fields that are repeated or in a oneof do not have"
    if features.field_presence == _Features.IMPLICIT and field.HasField("default_value"):
        return "implicit presence and a default"
    if features.HasField("repeated_field_encoding") and not is_repeated:
        return "repeated_field_encoding, and is not repeated"
    if features.repeated_field_encoding == _Features.PACKED and kind in _UNPACKABLE:
        return "packed encoding, which texts, bytes and messages do not have"
    if features.HasField("message_encoding") and kind not in (0, _Field.TYPE_MESSAGE):
        return "message_encoding, and is no message"
    if features.HasField("utf8_validation") and kind not in (0, _Field.TYPE_STRING, _Field.TYPE_MESSAGE):
        return "utf8_validation, and is no text"
    if field.options.HasField("packed"):
        return "the option packed: in editions it is features.repeated_field_encoding"
    return ""
