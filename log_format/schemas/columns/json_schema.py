"""JSON Schema: the shape of the documents that it describes, and the check of what a shape can't say.

A member gets a column if its schema has one type, alone or with null: ``integer`` is a long, ``number`` a double, ``string`` with
``format`` ``date-time``, ``date`` or ``decimal`` (``precision`` and ``scale``, ours) is that type. Other members are checked and
get no column. Keywords that a shape has no room for (bounds, patterns, ``oneOf``, ``if`` …) are checked document by document.

Source: JSON Schema 2020-12 Core and Validation, and the drafts before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from log_format.records.schema import TIMESTAMP
from log_format.schemas.columns.cursor import Fault
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.shape import (
    DECIMAL_DIGITS_MAX,
    DEPTH_MAX,
    LEAVES_MAX,
    LibraryNeeded,
    ListOf,
    MapOf,
    Member,
    Record,
    Scalar,
    Shape,
    Untypable,
    checked,
)

try:
    import jsonschema_rs
except ImportError:  # only schemas whose keywords a shape covers can be typed without it
    jsonschema_rs = None  # type: ignore[assignment]

_SCALARS: Final = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
_FORMATS: Final = {"date-time": TIMESTAMP, "date": pa.date32()}
_COVERED: Final = frozenset(
    {
        *(
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "$ref",
            "anyOf",
            "oneOf",
            "enum",
            "format",
        ),
        *(
            "$schema",
            "$id",
            "$anchor",
            "$comment",
            "$defs",
            "definitions",
            "title",
            "description",
            "examples",
            "default",
        ),
        *(
            "deprecated",
            "readOnly",
            "writeOnly",
            "precision",
            "scale",
            "connect.type",
            "connect.index",
            "connect.version",
        ),
    }
)
"""Keywords that the shape says, or that say nothing about validity."""
_CHECKED: Final = frozenset(
    {
        *(
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "pattern",
        ),
        *("minItems", "maxItems", "minProperties", "maxProperties", "const", "contentEncoding", "contentMediaType"),
    }
)
"""Keywords that are checked besides, in time that grows with the document and the schema only one by one."""
_NAMES: Final = frozenset({"$id", "$anchor", "$schema", "id"})
_BESIDE_REF: Final = frozenset(
    {"$ref", "title", "description", "examples", "default", "$comment", "$defs", "definitions"}
)
_PLAIN: Final = frozenset(
    {"type", "enum", "format", *_CHECKED, "title", "description", "examples", "default", "$comment"}
)
"""Keywords of a member without a column."""


def json_documents(text: str, references: Mapping[str, str] | None = None) -> Documents:
    """Return the reader of the documents of a schema.

    Args:
        text: the schema.
        references: the texts of other schemas by the name that a ``$ref`` gives them.

    Raises:
        Untypable: columns can't have it, or it is no schema.
    """
    schema = _json(text)
    resolver = _Resolver(schema, {name: _json(other) for name, other in (references or {}).items()})
    shapes = _Shapes(resolver)
    shape = shapes.shape(schema, "", 1)
    if not isinstance(shape, Record):
        raise Untypable("", "describes no object with properties")
    checked(shape)
    return Documents(shape, _check(schema, resolver) if shapes.needs_check else None)


class _Resolver:
    """Schemas by reference: a pointer within the schema, or the name of another schema."""

    def __init__(self, schema: Any, others: Mapping[str, Any]) -> None:
        self._schema = schema
        self.others = others

    def target(self, reference: str, path: str) -> Any:
        """Return the schema that a ``$ref`` names. Raises ``Untypable``."""
        name, _, pointer = reference.partition("#")
        if pointer and not pointer.startswith("/"):
            raise Untypable(path, f"refers to {reference!r} by an anchor, which a typed topic's schema can't")
        found = self.others.get(name) if name else self._schema
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            raise Untypable(path, f"refers to {reference!r}, which is not there")
        return found


class _Shapes:
    """Shapes of a schema's parts. ``_open``: references that are being followed."""

    def __init__(self, resolver: _Resolver) -> None:
        self._resolver = resolver
        self._open: list[str] = []
        self._count = 0
        self.needs_check = False
        """Whether a schema has something that a shape does not say."""

    def shape(self, schema: Any, path: str, depth: int) -> Shape | None:
        """Return the shape; None if values have no single type."""
        self._count += 1
        if depth > DEPTH_MAX or self._count > 4 * LEAVES_MAX:
            raise Untypable(path, "is too large or nested too deep")
        if not isinstance(schema, dict):
            return None
        self._check_keywords(schema, path, is_root=depth == 1)
        if isinstance(schema.get("$ref"), str):
            reference = schema["$ref"]
            if reference in self._open:
                raise Untypable(path, f"contains itself ({reference}); a column has no recursive type")
            self._open.append(reference)
            found = self.shape(self._resolver.target(reference, path), path, depth + 1)
            self._open.pop()
            return found
        if "type" not in schema:
            if not _choices(schema):
                return None
            others = [one for one in _choices(schema) if not _is_null(one)]
            if len(others) != 1 or len(_choices(schema)) != 2 or self._takes_null(others[0]):
                raise Untypable(path, "is a choice; a typed topic takes only that of one type and null")
            return self.shape(others[0], path, depth + 1)
        kinds = [kind for kind in _kinds(schema) if kind != "null"]
        if _choices(schema):
            raise Untypable(path, "has a type beside a choice")
        if len(kinds) != 1:
            return None
        match kinds[0]:
            case "object":
                return self._object(schema, path, depth)
            case "array":
                items = schema.get("items")
                item = self.shape(items, f"{path}[]", depth + 1)
                return None if item is None else ListOf(item, self._takes_null(items))
            case "string":
                return _text(schema, path)
        arrow = _SCALARS.get(kinds[0])
        return None if arrow is None else Scalar(arrow)

    def _object(self, schema: Mapping[str, Any], path: str, depth: int) -> Shape | None:
        properties = schema.get("properties") or {}
        further = schema.get("additionalProperties", True)
        if not properties:
            value = self.shape(further, f"{path}{{}}", depth + 1)
            return None if value is None else MapOf(value, self._takes_null(further))
        required = schema.get("required")
        names = set(required) if isinstance(required, list) else set()
        members = []
        left_out = False
        for name, part in properties.items():
            where = f"{path}.{name}" if path else name
            shape = self.shape(part, where, depth + 1)
            if shape is None:
                self._check_plain(part, where)
                left_out = True
            else:
                members.append(Member(name, shape, name in names, self._takes_null(part)))
        if not members:
            return None
        return Record(tuple(members), is_open=left_out or further is not False)

    def _check_keywords(self, schema: Mapping[str, Any], path: str, *, is_root: bool) -> None:
        """Raise ``Untypable`` for a keyword whose check is not bounded, or whose place changes what another one means."""
        beyond = sorted(set(schema) - _COVERED - _CHECKED)
        if beyond:
            raise Untypable(path, f"has the keyword {beyond[0]!r}, which a typed topic's schema can't have")
        if not is_root and not _NAMES.isdisjoint(schema):
            raise Untypable(path, "has a name of its own ($id, $anchor or $schema)")
        if "$ref" in schema and not set(schema) <= _BESIDE_REF | ({"$schema", "$id"} if is_root else set()):
            raise Untypable(path, "has keywords beside $ref")
        if isinstance(schema.get("additionalProperties"), dict) and schema.get("properties"):
            raise Untypable(path, "has properties and a schema for further ones")
        if set(schema.get("required") or ()) - set(schema.get("properties") or ()):
            raise Untypable(path, "requires a member that it does not describe")
        symbols = schema.get("enum")
        is_text = schema.get("type") == "string" and "format" not in schema
        is_said = symbols is None or (is_text and all(isinstance(symbol, str) for symbol in symbols))
        self.needs_check |= not is_said or not _CHECKED.isdisjoint(schema)

    def _check_plain(self, schema: Any, path: str) -> None:
        """Raise ``Untypable`` unless a member without a column has only rules for itself, not for parts of it."""
        if schema is False or (isinstance(schema, dict) and set(schema) - _PLAIN):
            raise Untypable(path, "has no single type, and rules for its parts")
        self.needs_check |= isinstance(schema, dict) and "type" in schema

    def _takes_null(self, schema: Any) -> bool:
        """Return whether null is of the schema."""
        for _ in range(DEPTH_MAX):
            if not isinstance(schema, dict):
                return bool(schema)
            if not isinstance(schema.get("$ref"), str):
                break
            schema = self._resolver.target(schema["$ref"], "")
        if "type" in schema:
            return "null" in _kinds(schema)
        return any(self._takes_null(one) for one in _choices(schema))


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kind = schema["type"]
    return [one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)]


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    return [one for name in ("anyOf", "oneOf") if isinstance(schema.get(name), list) for one in schema[name]]


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _text(schema: Mapping[str, Any], path: str) -> Shape:
    form = schema.get("format")
    if form == "decimal":
        precision, scale = schema.get("precision", DECIMAL_DIGITS_MAX), schema.get("scale", 0)
        if not (
            isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= DECIMAL_DIGITS_MAX
        ):
            raise Untypable(path, f"is a decimal whose precision is not from its scale to {DECIMAL_DIGITS_MAX}")
        return Scalar(pa.decimal128(precision, scale))
    if isinstance(form, str) and form in _FORMATS:
        return Scalar(_FORMATS[form])
    symbols = schema.get("enum")
    if isinstance(symbols, list) and symbols and all(isinstance(symbol, str) for symbol in symbols):
        return Scalar(pa.string(), tuple(symbols))
    return Scalar(pa.string())


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Untypable("", "is not JSON") from error


def _check(schema: Any, resolver: _Resolver) -> Callable[[Any], Fault | None]:
    """Return the check of documents by the whole schema."""
    if jsonschema_rs is None:
        raise LibraryNeeded("", "has keywords that need the package jsonschema-rs: pip install 'tidelog[registry]'")
    from log_format.schemas.parsing_json import PATTERNS, draft_of  # noqa: PLC0415 - needs the package, too

    try:
        registry = jsonschema_rs.Registry(list(resolver.others.items())) if resolver.others else None
        # Without a retriever, and by an unknown ``$schema``, the package would ask the network.
        validator = jsonschema_rs.validator_for(
            {**schema, "$schema": str(draft_of(schema))},
            registry=registry,
            retriever=_fetch_nothing,
            pattern_options=PATTERNS,
        )
    except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError) as error:
        raise Untypable("", f"is no JSON Schema: {str(error)[:200]}") from error

    def check(document: Any) -> Fault | None:
        if validator.is_valid(document):
            return None
        for error in validator.iter_errors(document):
            path = ".".join(str(token) for token in error.instance_path)
            return Fault(path[:200], str(error.message)[:200])
        return None

    return check


def _fetch_nothing(address: str) -> Any:
    raise ValueError(f"{address} is no schema that is registered")
