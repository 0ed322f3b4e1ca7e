"""A JSON document as a message's value, by Protobuf's JSON: what is refused is named by its path.

Names are in lowerCamelCase or as declared; null is an absent field. An integer is a number without fraction and exponent, or a
text of one; an enum is a name or a number, bytes are base64 of either alphabet. A ``google.protobuf.Any`` is only taken as bytes.

Google's own parser is not used: it takes an array for a message without fields, and skips what is no base64.

Source: Protocol Buffers, "ProtoJSON Format".
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from log_format.schemas.columns.document_values import NUMBER, Refused, kind_of, within
from log_format.schemas.columns.protobuf_messages import Field, Form, Message, Moment, Wrapper
from log_format.schemas.columns.protobuf_scalars import (
    Binary,
    Budget,
    Fixed,
    Flag,
    Node,
    Symbol,
    Text,
    Unsigned,
    Varint,
)

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,30})")
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_DURATION: Final = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,9}))?s", re.ASCII)
_DURATION_SECONDS_MAX: Final = 315_576_000_000
_MASK: Final = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9]*(?:[.,][a-zA-Z][a-zA-Z0-9]*)*)?")
_UPPER: Final = re.compile(r"[A-Z]")
SINGLE_END: Final = float(2**128 - 2**103)
"""Least number that is rounded to infinity as a ``float``."""
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


DOCUMENTS_OF_THEIR_OWN: Final = frozenset(f"google.protobuf.{name}" for name in ("Duration", "FieldMask", "Any"))
"""Messages that are no objects with their fields in a document."""


def message_value(node: Message, value: Any, path: str, budget: Budget) -> Any:
    """Return a parsed document, or a part of it, as ``pa.array`` takes it. Raises ``Refused``."""
    if type(node) is Moment:
        return _moment(value, path)
    if type(node) is Wrapper:
        return _value(node.fields[0].node, value, path, budget)
    if node.name in DOCUMENTS_OF_THEIR_OWN:
        return _of_its_own(node.name, value, path)
    if not isinstance(value, dict):
        raise Refused(path, f"it must be an object, not {kind_of(value)}")
    given: dict[int, Any] = {}
    for name, one in value.items():
        field = node.by_document_name.get(name)
        if field is None:
            raise Refused(within(path, name), "the schema has no such member")
        if field.number in given:
            raise Refused(within(path, name), "there are two members of this field")
        given[field.number] = one
    return _fields(node, given, path, budget)


def _of_its_own(name: str, value: Any, path: str) -> Any:
    if name.endswith("Any"):
        raise Refused(path, "an Any can't be part of a document; send the value as bytes")
    return _duration(value, path) if name.endswith("Duration") else _mask(value, path)


def _fields(node: Message, given: dict[int, Any], path: str, budget: Budget) -> dict[str, Any]:
    found: dict[str, Any] = {}
    chosen: set[str] = set()
    for field in node.fields:
        where = within(path, field.name)
        part = given.get(field.number)
        if part is None:
            if field.form is Form.REQUIRED:
                raise Refused(where, "it is missing")
            if field.oneof is not None:
                continue
            value = [] if field.is_list else field.node.default if field.form is Form.IMPLICIT else None
        else:
            value = _list(field, part, where, budget) if field.is_list else _value(field.node, part, where, budget)
        if field.oneof is not None:
            if field.oneof in chosen:
                raise Refused(where, f"another member of {field.oneof!r} is set, too")
            chosen.add(field.oneof)
        if field.has_column:
            found[field.oneof or field.name] = value if field.oneof is None else {field.name: value}
    return found


def _list(field: Field, value: Any, path: str, budget: Budget) -> list[Any]:
    node = field.node
    if field.form is not Form.MAP:
        if not isinstance(value, list):
            raise Refused(path, f"it must be an array, not {kind_of(value)}")
        if isinstance(node, Message):
            budget.spend(len(value) * node.leaves, path)
        return [_present(node, one, f"{path}[{index}]", budget) for index, one in enumerate(value)]
    if not isinstance(value, dict):
        raise Refused(path, f"it must be an object, not {kind_of(value)}")
    budget.spend(len(value) * node.leaves, path)
    key, item = node.fields  # type: ignore[attr-defined]
    entries = {}
    for name, one in value.items():
        where = within(path, name)
        known = _key(key.node, name, where)
        if known in entries:
            raise Refused(where, "there are two entries of this key")
        entries[known] = _present(item.node, one, where, budget)
    return list(entries.items())


def _present(node: Node, value: Any, path: str, budget: Budget) -> Any:
    if value is None:
        raise Refused(path, "it must not be null")
    return _value(node, value, path, budget)


def _key(node: Node, name: str, path: str) -> str:
    if isinstance(node, Flag):
        if name not in ("true", "false"):
            raise Refused(path, "its name must be true or false")
        return name
    return str(_text(node, name, path) if isinstance(node, Text) else _integer(node, name, path))


def _value(node: Node, value: Any, path: str, budget: Budget) -> Any:
    read = _READERS.get(type(node))
    return message_value(node, value, path, budget) if read is None else read(node, value, path)  # type: ignore[arg-type]


def _flag(_node: Node, value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise Refused(path, f"it must be a boolean, not {kind_of(value)}")
    return value


def _fixed(node: Any, value: Any, path: str) -> float:
    return _real(node, value, path) if node.is_real else _integer(node, value, path)


def _integer(node: Any, value: Any, path: str) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is not int:
        raise Refused(
            path, f"it must be an integer without fraction and exponent, or a text of one, not {kind_of(value)}"
        )
    low, high = node.bounds
    if not low <= value <= high:
        raise Refused(path, f"it must be from {low} to {high}")
    return value


def _real(node: Any, value: Any, path: str) -> float:
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        if NUMBER.fullmatch(value):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise Refused(path, f"it must be a number, or a text of one, not {kind_of(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found) or (node.is_single and abs(found) >= SINGLE_END):
        raise Refused(path, "it is beyond the largest number of its type")
    return found


def _symbol(node: Symbol, value: Any, path: str) -> Any:
    if isinstance(value, str):
        if value not in node.numbers:
            raise Refused(path, f"it must be one of {', '.join(list(node.numbers)[:20])}")
        value = node.numbers[value]
    if type(value) is not int:
        raise Refused(path, f"it must be the name of a symbol, or its number, not {kind_of(value)}")
    return node.value(value, path, _NO_LISTS)


_NO_LISTS: Final = Budget(0)


def _text(_node: Node, value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise Refused(path, f"it must be a string, not {kind_of(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Refused(path, "it has half of a surrogate pair") from error
    return value


def _binary(_node: Node, value: Any, path: str) -> bytes:
    if not isinstance(value, str):
        raise Refused(path, f"it must be a string, not {kind_of(value)}")
    text = value.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(path, "it must be base64") from error


_READERS: Final[Mapping[type, Callable[[Any, Any, str], Any]]] = {
    Varint: _integer,
    Unsigned: _integer,
    Flag: _flag,
    Fixed: _fixed,
    Symbol: _symbol,
    Text: _text,
    Binary: _binary,
}
"""How a value of each type without parts is read."""


def _moment(value: Any, path: str) -> int:
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    try:
        if found is None:
            raise ValueError
        zone = "+00:00" if found[3] == "Z" else found[3]
        since = datetime.fromisoformat(found[1] + zone).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise Refused(path, "it must be a text like 2026-01-31T23:59:59.123456Z") from error
    return (since.days * 86_400 + since.seconds) * 10**6 + int((found[2] or "").ljust(9, "0")) // 1000


def _duration(value: Any, path: str) -> dict[str, int]:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[2]) > _DURATION_SECONDS_MAX:
        raise Refused(path, "it must be a text like 1.5s")
    sign = -1 if found[1] else 1
    return {"seconds": sign * int(found[2]), "nanos": sign * int((found[3] or "").ljust(9, "0"))}


def _mask(value: Any, path: str) -> dict[str, list[str]]:
    if not isinstance(value, str) or not _MASK.fullmatch(value):
        raise Refused(path, "it must be a text of names with commas between them")
    names = [_UPPER.sub(lambda letter: f"_{letter[0].lower()}", name) for name in value.split(",") if name]
    return {"paths": names}
