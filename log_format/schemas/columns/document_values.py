"""One JSON document and its parts as Python values, by a shape. What is refused is named by its path.

A date is a ``full-date`` of RFC 3339. A timestamp is its ``date-time`` with at most microseconds, where the zone may be missing
(UTC) and a space may stand for the T. Binary is base64, a decimal is a number of JSON or a text with one, an integer has no
fraction and no exponent. Python's own parsers take more: weeks (``2026-W01-1``), ``1_0``, ``+1``, digits of other scripts.

Source: RFC 8259; RFC 3339, section 5.6; RFC 4648, section 4.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa

from log_format.schemas.columns.cursor import Fault
from log_format.schemas.columns.shape import ABSENT, ListOf, MapOf, Record, Scalar, Shape

_INT_RANGES: Final = {pa.int32(): (-(2**31), 2**31 - 1), pa.int64(): (-(2**63), 2**63 - 1)}
_NAME: Final = Scalar(pa.string())
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number of JSON."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ](?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d{1,6})?(?:[Zz]|[+-]\d\d:\d\d)?", re.ASCII
)


class Refused(Exception):
    """A document that is not of the shape."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(what)
        self.fault = Fault(_readable(path), _readable(what))


def _readable(text: str) -> str:
    """Return the text with halves of surrogate pairs written out, since an answer can't have them."""
    return text.encode("utf-8", "backslashreplace").decode()


def parsed(text: bytes) -> Any:
    """Return a document with its numbers as ``int`` or ``Decimal``. Raises ``Refused``."""
    try:
        return json.loads(
            text.decode(), object_pairs_hook=_members, parse_float=Decimal, parse_constant=_constant, strict=True
        )
    except UnicodeDecodeError as error:
        raise Refused("", "it is not UTF-8") from error
    except RecursionError as error:
        raise Refused("", "it is nested too deep") from error
    except json.JSONDecodeError as error:
        what = "there is a second document behind the first" if error.msg == "Extra data" else "it is not JSON"
        raise Refused("", f"{what} ({error.msg.lower()} at character {error.pos})") from error
    except (ValueError, InvalidOperation) as error:
        raise Refused("", "a number has too many digits") from error


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Refused(twice[:80], "there are two members of this name")
    return found


def _constant(name: str) -> Any:
    raise Refused("", f"{name} is not JSON")


def plain(document: Any) -> Any:
    """Return a parsed document with floats, as checks of JSON Schema take it."""
    if isinstance(document, Decimal):
        return float(document)
    if isinstance(document, dict):
        return {name: plain(value) for name, value in document.items()}
    return [plain(value) for value in document] if isinstance(document, list) else document


def converted(shape: Shape, value: Any, path: str) -> Any:
    """Return a parsed value as ``pa.array`` takes it. Raises ``Refused``."""
    if isinstance(shape, Record):
        return _union(shape, value, path) if shape.is_union else _record(shape, value, path)
    if isinstance(shape, ListOf):
        if not isinstance(value, list):
            raise Refused(path, f"it must be an array, not {kind_of(value)}")
        return [_part(shape.item, one, f"{path}[{index}]", shape.has_nulls) for index, one in enumerate(value)]
    if isinstance(shape, MapOf):
        if not isinstance(value, dict):
            raise Refused(path, f"it must be an object, not {kind_of(value)}")
        return [
            (_scalar(_NAME, name, path), _part(shape.value, one, within(path, name), shape.has_nulls))
            for name, one in value.items()
        ]
    return _scalar(shape, value, path)


def _part(shape: Shape, value: Any, path: str, is_nullable: bool) -> Any:
    if value is None:
        if not is_nullable:
            raise Refused(path, "it must not be null")
        return None
    return converted(shape, value, path)


def _record(shape: Record, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(path, f"it must be an object, not {kind_of(value)}")
    found = {}
    for member in shape.members:
        where = within(path, member.name)
        if member.name in value:
            found[member.name] = _part(member.shape, value[member.name], where, member.is_nullable)
        elif member.default is not ABSENT:
            default = member.default
            found[member.name] = None if default is None else converted(member.shape, default, where)
        elif member.is_required:
            raise Refused(where, "it is missing")
    if not shape.is_open:
        known = {member.name for member in shape.members}
        unknown = next((name for name in value if name not in known), None)
        if unknown is not None:
            raise Refused(within(path, unknown), "the schema has no such member")
    return found


def _union(shape: Record, value: Any, path: str) -> dict[str, Any]:
    """Return a struct with the first member that takes the value."""
    fault: Refused | None = None
    for member in shape.members:
        if member.is_of is not None and not member.is_of(value):
            continue
        try:
            return {member.name: converted(member.shape, value, path)}
        except Refused as refused:
            fault = fault or refused if member.is_of is not None else None
    if fault is not None:
        raise fault
    raise Refused(path, f"it must be one of {', '.join(member.name for member in shape.members)}, not {kind_of(value)}")


def _scalar(shape: Scalar, value: Any, path: str) -> Any:
    arrow = shape.type
    if arrow in _INT_RANGES:
        low, high = _INT_RANGES[arrow]
        if type(value) is not int:
            raise Refused(path, f"it must be an integer without fraction and exponent, not {kind_of(value)}")
        if not low <= value <= high:
            raise Refused(path, f"it must be from {low} to {high}")
        return value
    if pa.types.is_floating(arrow):
        return _real(value, path, np.float32 if arrow.bit_width == 32 else np.float64)
    if pa.types.is_boolean(arrow):
        if not isinstance(value, bool):
            raise Refused(path, f"it must be a boolean, not {kind_of(value)}")
        return value
    if pa.types.is_decimal(arrow):
        return _decimal(arrow, value, path)
    if not isinstance(value, str):
        raise Refused(path, f"it must be a string, not {kind_of(value)}")
    if pa.types.is_string(arrow):
        if shape.symbols is not None and value not in shape.symbols:
            raise Refused(path, f"it must be one of {', '.join(shape.symbols[:20])}")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Refused(path, "it has half of a surrogate pair") from error
        return value
    if pa.types.is_binary(arrow):
        return _binary(shape, value, path)
    return _time(arrow, value, path)


def _binary(shape: Scalar, value: str, path: str) -> bytes:
    try:
        found = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(path, "it must be base64") from error
    if shape.size not in (None, len(found)):
        raise Refused(path, f"it must have {shape.size} bytes, not {len(found)}")
    return found


def _real(value: Any, path: str, kind: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise Refused(path, f"it must be a number, not {kind_of(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    with np.errstate(over="ignore"):
        if not math.isfinite(kind(found)):
            raise Refused(path, "it is beyond the largest number of its type")
    return found


def _decimal(arrow: pa.Decimal128Type, value: Any, path: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise Refused(path, f"it must be a number, or a text of one, not {kind_of(value)}")
    try:
        if isinstance(value, str) and NUMBER.fullmatch(value) is None:
            raise InvalidOperation
        number = Decimal(value)
    except InvalidOperation as error:
        raise Refused(path, "it must be a number, or a text of one") from error
    if not number:
        return Decimal(0)
    what = f"it must have at most {arrow.precision - arrow.scale} digits before the point and {arrow.scale} behind it"
    if not number.is_finite() or (number.adjusted() >= arrow.precision - arrow.scale and number):
        raise Refused(path, what)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if -exponent > arrow.scale:
        raise Refused(path, what)
    return number


def _time(arrow: pa.DataType, value: str, path: str) -> date | datetime:
    try:
        if (_DATE if pa.types.is_date(arrow) else _MOMENT).fullmatch(value) is None:
            raise ValueError
        if pa.types.is_date(arrow):
            return date.fromisoformat(value)
        moment = datetime.fromisoformat(value.upper())
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        form = "2026-01-31" if pa.types.is_date(arrow) else "2026-01-31T23:59:59.123456Z"
        raise Refused(path, f"it must be a text like {form}") from error


def within(path: str, name: str) -> str:
    """Return the path of a member."""
    return f"{path}.{name[:80]}" if path else name[:80]


def kind_of(value: Any) -> str:
    """Return what a parsed value is, in words of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float() | Decimal():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"
