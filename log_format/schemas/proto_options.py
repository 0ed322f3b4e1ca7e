"""Protobuf: an option as it is written, into the message of options that it belongs to."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from log_format.schemas.proto_tokens import number_of
from log_format.schemas.proto_words import Words

_PLAIN: Final = frozenset(
    {
        FieldDescriptor.CPPTYPE_BOOL,
        FieldDescriptor.CPPTYPE_STRING,
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_ENUM,
    }
)


def set_option(words: Words, options: Any) -> None:
    """Take ``name = value`` and set it in a message of options, or keep it as it is written."""
    start = words.word
    parts = [_part(words)]
    while words.has("."):
        parts.append(_part(words))
    words.expect("=")
    name, is_extension = parts[0]
    field = None if is_extension else options.DESCRIPTOR.fields_by_name.get(name)
    if field is None and not is_extension:
        words.refuse(f"There is no option {name!r} here.", start)
    if field is not None and len(parts) == 1 and field.cpp_type in _PLAIN:
        _set(words, options, field)
        return
    option = options.uninterpreted_option.add()
    for name, is_extension in parts:
        option.name.add(name_part=name, is_extension=is_extension)
    _keep(words, option)


def _part(words: Words) -> tuple[str, bool]:
    if not words.has("("):
        return words.name(), False
    name = words.full_name()
    words.expect(")")
    return name, True


def _set(words: Words, options: Any, field: Any) -> None:
    start = words.word
    value: Any
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            value = words.text()
        case FieldDescriptor.CPPTYPE_BOOL:
            value = {"true": True, "false": False}.get(words.name())
        case FieldDescriptor.CPPTYPE_ENUM:
            found = field.enum_type.values_by_name.get(words.name())
            value = None if found is None else found.number
        case _:
            number = number_of(words.taken("number"))
            value = number if isinstance(number, int) and number < 2**31 else None
    if value is None:
        words.refuse(f"This is no value of the option {field.name!r}.", start)
    if field.is_repeated:
        getattr(options, field.name).append(value)
    elif options.HasField(field.name):
        words.refuse(f"The option {field.name!r} is there twice.", start)
    else:
        setattr(options, field.name, value)


def _keep(words: Words, option: Any) -> None:
    start = words.word
    if start.kind == "text":
        option.string_value = words.string()
    elif words.has("{"):
        option.aggregate_value = " ".join(_aggregate(words))
    elif start.kind == "name":
        option.identifier_value = words.name()
    else:
        is_negative = words.has("-")
        number = number_of(words.taken("number"))
        if isinstance(number, float):
            option.double_value = -number if is_negative else number
        elif number is None or number >= 2**63:
            words.refuse("This is no value of an option.", start)
        elif is_negative:
            option.negative_int_value = -number
        else:
            option.positive_int_value = number


def _aggregate(words: Words) -> list[str]:
    found: list[str] = []
    depth = 1
    while True:
        word = words.taken(words.word.kind) if words.word.kind != "end" else words.refuse("The option has no end.")
        depth += {"{": 1, "}": -1}.get(word.text, 0) if word.kind == "sign" else 0
        if depth == 0:
            return found
        found.append(word.text)
