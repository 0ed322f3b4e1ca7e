"""Protobuf: an option as it is written, into the message of options that it belongs to."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from log_format.schemas.proto_features import feature_field
from log_format.schemas.proto_tokens import Word, number_of
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
    if name == "features" and not is_extension and all(not other for _, other in parts):
        _set_feature(words, options, [part for part, _ in parts[1:]], start)
        return
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


def _set_feature(words: Words, options: Any, names: list[str], start: Word) -> None:
    """Take the value of one feature, or of several between braces."""
    if not words.edition:
        words.refuse("Only editions have features.", start)
    if len(names) == 1:
        _set(words, options.features, _feature(words, options, names[0], start))
        return
    if names or not words.has("{"):
        words.refuse(f"There is no feature {'.'.join(names)!r}.", start)
    while not words.has("}"):
        name_word = words.word
        field = _feature(words, options, words.name(), name_word)
        words.expect(":")
        _set(words, options.features, field)
        if not words.has(","):
            words.has(";")


def _feature(words: Words, options: Any, name: str, start: Word) -> Any:
    field = feature_field(options, name, words.edition)
    if field is None:
        words.refuse(f"There is no feature {name!r} here.", start)
    return field


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
            is_unknown = found is None or (found.number == 0 and field.containing_type.name == "FeatureSet")
            value = None if is_unknown else found.number
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
