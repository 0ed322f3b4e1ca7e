"""Protobuf for property tests of columns: any schema, any message of it, and what a column of it has to say."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
from google.protobuf.descriptor import FieldDescriptor as Field
from hypothesis import strategies as st

KEYS: Final = (
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
)
SCALARS: Final = (*KEYS, "float", "double", "bytes", "E")
WELL_KNOWN: Final = ("google.protobuf.Timestamp", "google.protobuf.Duration")
WRAPPERS: Final = tuple(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
EDITIONS: Final = ("2023", "2024")
_FILE_FEATURES: Final = (
    *("field_presence = IMPLICIT", "repeated_field_encoding = EXPANDED", "message_encoding = DELIMITED"),
    *("utf8_validation = NONE", "json_format = LEGACY_BEST_EFFORT"),
)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@st.composite
def schemas(draw: st.DrawFn) -> str:
    """A file with a message ``Top`` that no other one has, of proto2, proto3 or an edition."""
    syntax = draw(st.sampled_from(["proto2", "proto3", *EDITIONS]))
    parts = [f'{"edition" if syntax in EDITIONS else "syntax"} = "{syntax}"; package p;']
    if syntax in EDITIONS:
        defaults = draw(st.lists(st.sampled_from(_FILE_FEATURES), max_size=3, unique_by=lambda one: one.split()[0]))
        parts += [f"option features.{one};" for one in defaults]
    parts += [f'import "google/protobuf/{name}.proto";' for name in ("timestamp", "duration", "wrappers")]
    parts += ["enum E { ZERO = 0; ONE = 1; UNO = 2; NEGATIVE = -1; LARGE = 2147483647; }", "message Empty { }"]
    for name, others in (("Low", ()), ("Middle", ("Low",)), ("Top", ("Low", "Middle"))):
        parts.append(draw(_message(name, others, syntax)))
    return "\n".join(parts)


@st.composite
def _message(draw: st.DrawFn, name: str, others: tuple[str, ...], syntax: str) -> str:
    is_proto3, is_edition = syntax == "proto3", syntax in EDITIONS
    optional = "" if is_edition else "optional "
    fields: list[str] = []
    chosen: list[str] = []
    numbers = draw(
        st.lists(
            st.integers(1, 12) | st.integers(14, 40) | st.integers(2040, 2060), min_size=1, max_size=6, unique=True
        )
    )
    kinds = st.sampled_from([*SCALARS, *WELL_KNOWN, *WRAPPERS, *others, "Empty"]) | st.sampled_from(SCALARS)
    for number in numbers:
        kind = draw(kinds)
        if is_edition:
            field = draw(_edition_field(kind, number))
            (chosen if field.startswith("oneof ") else fields).append(field.removeprefix("oneof "))
            continue
        match draw(st.sampled_from(["one", "one", "optional", "repeated", "map", "oneof", "required", "group"])):
            case "repeated":
                packed = draw(st.sampled_from(["", "", " [packed = true]", " [packed = false]"]))
                is_packable = kind in SCALARS and kind not in ("string", "bytes")
                fields.append(f"repeated {kind} f{number} = {number}{packed if is_packable else ''};")
            case "map" if kind != "Empty":
                fields.append(f"map<{draw(st.sampled_from(KEYS))}, {kind}> f{number} = {number};")
            case "oneof":
                chosen.append(f"{kind} f{number} = {number};")
            case "optional":
                fields.append(f"optional {kind} f{number} = {number};")
            case "required" if not is_proto3 and draw(st.booleans()):
                fields.append(f"required {kind} f{number} = {number};")
            case "group" if not is_proto3:
                label = draw(st.sampled_from(["optional", "repeated"]))
                fields.append(f"{label} group G{number} = {number} {{ optional int32 a = 1; }}")
            case _:
                fields.append(f"{'' if is_proto3 else 'optional '}{kind} f{number} = {number};")
    fields.append(f"{'' if is_proto3 else optional}int32 always = 13;")
    fields += [f"{optional}{other} in_{other.lower()} = {70 + len(other)};" for other in others[-1:]]
    if chosen:
        fields.append(f"oneof choice {{ {' '.join(chosen)} }}")
    return f"message {name} {{ {' '.join(draw(st.permutations(fields)))} }}"


@st.composite
def _edition_field(draw: st.DrawFn, kind: str, number: int) -> str:
    """A field of an edition, with features of its own; before it the word ``oneof`` if it is to be in one."""
    is_message = kind not in SCALARS
    features = [
        draw(st.sampled_from(["", "message_encoding = DELIMITED", "message_encoding = LENGTH_PREFIXED"]))
    ] * is_message
    before = ""
    match draw(st.sampled_from(["one", "one", "repeated", "map", "oneof"])):
        case "repeated":
            before = "repeated "
            if not is_message and kind not in ("string", "bytes"):
                features.append(
                    draw(
                        st.sampled_from(["", "repeated_field_encoding = EXPANDED", "repeated_field_encoding = PACKED"])
                    )
                )
        case "map" if kind != "Empty":
            return f"map<{draw(st.sampled_from(KEYS))}, {kind}> f{number} = {number};"
        case "oneof":
            before = "oneof "
        case _:
            presence = ["", "field_presence = EXPLICIT", "field_presence = LEGACY_REQUIRED"]
            features.append(draw(st.sampled_from(presence if is_message else [*presence, "field_presence = IMPLICIT"])))
    given = ", ".join(f"features.{one}" for one in features if one)
    return f"{before}{kind} f{number} = {number}{f' [{given}]' if given else ''};"


_VALUES: Final[dict[int, st.SearchStrategy[Any]]] = {
    Field.CPPTYPE_INT32: st.sampled_from([0, 1, -1, 127, 128, 300, -(2**31), 2**31 - 1])
    | st.integers(-(2**31), 2**31 - 1),
    Field.CPPTYPE_INT64: st.sampled_from([0, -1, 2**35, -(2**63), 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1),
    Field.CPPTYPE_UINT32: st.sampled_from([0, 1, 2**32 - 1]) | st.integers(0, 2**32 - 1),
    Field.CPPTYPE_UINT64: st.sampled_from([0, 1, 2**56, 2**64 - 1]) | st.integers(0, 2**64 - 1),
    Field.CPPTYPE_DOUBLE: st.floats(),
    Field.CPPTYPE_FLOAT: st.floats(width=32),
    Field.CPPTYPE_BOOL: st.booleans(),
}


@st.composite
def messages(draw: st.DrawFn, kind: Any) -> Any:
    """A message of the library's class, whole."""
    message = kind()
    _fill(draw, message)
    return message


def _fill(draw: st.DrawFn, message: Any) -> None:
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        message.seconds = draw(st.integers(-62_135_596_800, 253_402_300_799))
        message.nanos = draw(st.sampled_from([0, 1000, 999_999_999]))
        return
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and draw(st.integers(0, 3)) == 0:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(draw, getattr(message, field.name), field.message_type)
        elif field.is_repeated:
            items = getattr(message, field.name)
            for _ in range(draw(st.integers(0, 3))):
                if field.message_type is not None:
                    _fill(draw, items.add())
                else:
                    items.append(draw(_scalars(field)))
        elif field.message_type is not None:
            part = getattr(message, field.name)
            part.SetInParent()
            _fill(draw, part)
        else:
            setattr(message, field.name, draw(_scalars(field)))


def _fill_map(draw: st.DrawFn, entries: Any, entry: Any) -> None:
    key, value = entry.fields_by_number[1], entry.fields_by_number[2]
    for _ in range(draw(st.integers(0, 3))):
        name = draw(_scalars(key))
        if value.message_type is not None:
            _fill(draw, entries[name])
        else:
            entries[name] = draw(_scalars(value))


def _scalars(field: Any) -> st.SearchStrategy[Any]:
    if field.type == Field.TYPE_BYTES:
        return st.binary(max_size=5)
    if field.type == Field.TYPE_STRING:
        return st.text(st.characters(codec="utf-8"), max_size=5)
    if field.enum_type is not None:
        return st.sampled_from(sorted(field.enum_type.values_by_number, key=abs))
    return _VALUES[field.cpp_type]


def columns(message: Any) -> Any:
    """Return what the column of a message has, as Arrow gives it back; maps as dicts. Raises ``ValueError`` for what none has."""
    kind = message.DESCRIPTOR.full_name
    if kind == "google.protobuf.Timestamp":
        if not (-62_135_596_800 <= message.seconds <= 253_402_300_799 and 0 <= message.nanos < 10**9):
            raise ValueError("no timestamp")
        return (_EPOCH + datetime.timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)).isoformat()
    if kind in WRAPPERS:
        return _one(message.DESCRIPTOR.fields_by_name["value"], message.value)
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = _field(message, field)
        oneof = field.containing_oneof
        if oneof is not None and not (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
            if _has_fields(field):
                found.setdefault(oneof.name, None)
                if message.WhichOneof(oneof.name) is not None or found[oneof.name]:
                    found[oneof.name] = (found[oneof.name] or {}) | {field.name: value}
        elif _has_fields(field):
            found[field.name] = value
    return {
        name: None
        if isinstance(one, dict) and name == "choice" and not any(v is not None for v in one.values())
        else one
        for name, one in found.items()
    }


def _has_fields(field: Any) -> bool:
    return field.message_type is None or bool(field.message_type.fields)


def _field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_number[2]
        names = {str(key).lower() if isinstance(key, bool) else str(key): key for key in value}
        return {name: _one(inner, value[names[name]]) for name in sorted(names)}
    if field.is_repeated:
        return [_one(field, item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return columns(value)
    if field.enum_type is not None:
        if value not in field.enum_type.values_by_number:
            raise ValueError("no symbol")
        return field.enum_type.values_by_number[value].name
    if field.type in (Field.TYPE_UINT64, Field.TYPE_FIXED64):
        return Decimal(value)
    return float(np.float32(value)) if field.type == Field.TYPE_FLOAT else value


def plain(value: Any, expected: Any) -> Any:
    """Return a value of Arrow with dicts in place of maps, where ``expected`` has them, and timestamps as text."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(expected, dict):
        if isinstance(value, list):
            assert len(dict(value)) == len(value), "a map has no key twice"
            return {name: plain(one, expected.get(name)) for name, one in sorted(value, key=lambda entry: entry[0])}
        return value if value is None else {name: plain(one, expected.get(name)) for name, one in value.items()}
    if isinstance(expected, list) and isinstance(value, list) and len(value) == len(expected):
        return [plain(one, other) for one, other in zip(value, expected, strict=True)]
    return value
