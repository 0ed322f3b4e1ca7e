"""JSON Schemas made of models.

1. Objects are closed (``additionalProperties`` false): a gateway refuses a misspelt member.
2. Members without a default are required.
3. A nested model is written where it is used; a model that contains itself is refused, since no column can have it.
4. A schema says types, not constraints: those of pydantic and msgspec (bounds, patterns) are checked where the model is made.

A type becomes what a gateway makes the same column of (docs/typed-topics.md).
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec

from tidelog.schemas.models import fields_of, is_model, is_pydantic

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Final[Mapping[Any, Mapping[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    UUID: {"type": "string", "format": "uuid"},
}
_BASE64: Final = {"type": "string", "format": "byte"}
"""Bytes in base64, as OpenAPI writes it. ``contentEncoding`` says the same, but makes gateways check document by document."""
_NULL: Final = {"type": "null"}
_DIGITS: Final = (38, 18)
"""Precision and scale of a decimal that says neither, as Spark has them."""


class Digits(msgspec.Struct, frozen=True):
    """Digits of a decimal: ``Annotated[Decimal, Digits(18, 2)]`` has 18 of them, 2 behind the point.

    pydantic's ``Field(max_digits=18, decimal_places=2)`` says the same.
    """

    precision: int
    scale: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.scale <= self.precision <= 38 or self.precision < 1:
            raise ValueError(f"a decimal has 1 to 38 digits, and no more behind the point: {self}")


def json_schema(model: type) -> str:
    """Return the JSON Schema of a model. Raises ``TypeError`` for a type that has none, naming the member."""
    if not is_model(model):
        raise TypeError(f"{_name(model)} is no model: a dataclass, a msgspec Struct or a pydantic model is one")
    return msgspec.json.encode({"$schema": _DRAFT} | _object(model, model.__name__, ())).decode()


def _object(model: type, path: str, outer: tuple[type, ...]) -> dict[str, Any]:
    if model in outer:
        raise TypeError(f"{path}: {_name(model)} contains itself, which no column can have")
    is_text = is_pydantic(model) and model.model_config.get("ser_json_bytes") != "base64"  # type: ignore[attr-defined]
    bytes_as = _PLAIN[str] if is_text else _BASE64
    properties, required = {}, []
    for field in fields_of(model):
        properties[field.name] = _schema(field.hint, f"{path}.{field.name}", (*outer, model), bytes_as)
        if field.required:
            required.append(field.name)
    return {
        "title": model.__name__,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _schema(hint: Any, path: str, outer: tuple[type, ...], bytes_as: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a type. ``bytes_as``: that of bytes, which pydantic's models write as text unless told otherwise."""
    annotations: Sequence[Any] = ()
    while typing.get_origin(hint) is typing.Annotated or hasattr(hint, "__supertype__"):
        if hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            hint, *more = typing.get_args(hint)
            annotations = (*annotations, *more)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        others = [each for each in arguments if each is not types.NoneType]
        if len(others) != 1:
            raise TypeError(f"{path}: a union of several types has no schema; only one type with None")
        only = typing.Annotated[others[0], *annotations] if annotations else others[0]
        return {"anyOf": [_schema(only, path, outer, bytes_as), _NULL]}
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is bytes:
        return bytes_as
    if hint is Decimal:
        precision, scale = _digits(annotations, path)
        return {"type": "string", "format": "decimal", "precision": precision, "scale": scale}
    if origin is typing.Literal:
        return _symbols(arguments, path)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _symbols([each.value for each in hint], path)
    if is_model(hint):
        return _object(hint, path, outer)
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Mapping) and len(arguments) == 2 and arguments[0] is str:
            return {"type": "object", "additionalProperties": _schema(arguments[1], f"{path}{{}}", outer, bytes_as)}
        is_list = issubclass(origin, Sequence | AbstractSet) and (
            len(arguments) == 1 or (origin is tuple and arguments[1:] == (...,))
        )
        if is_list:
            return {"type": "array", "items": _schema(arguments[0], f"{path}[]", outer, bytes_as)}
    raise TypeError(f"{path}: {_name(hint)} has no JSON Schema that a column can have")


def _symbols(values: Iterable[object], path: str) -> dict[str, Any]:
    symbols = list(values)
    for kind, name in ((str, "string"), (int, "integer")):
        if symbols and all(type(each) is kind for each in symbols):
            return {"type": name, "enum": symbols}
    raise TypeError(f"{path}: an enumeration is of text, or of whole numbers")


def _digits(annotations: Iterable[Any], path: str) -> tuple[int, int]:
    """Return precision and scale: ours, or pydantic's, which may be inside its ``Field``."""
    for each in annotations:
        if isinstance(each, Digits):
            return each.precision, each.scale
        for inner in (each, *getattr(each, "metadata", ())):
            precision, scale = getattr(inner, "max_digits", None), getattr(inner, "decimal_places", None)
            if precision is not None or scale is not None:
                try:
                    found = Digits(_DIGITS[0] if precision is None else precision, 0 if scale is None else scale)
                except ValueError as error:
                    raise TypeError(f"{path}: {error}") from None
                return found.precision, found.scale
    return _DIGITS


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
