"""JSON Schema: the shape of the documents that a schema describes.

A member gets a column if its schema has one type, alone or with null: ``integer`` is a long, ``number`` a double, ``string`` with
``format`` ``date-time``, ``date`` or ``decimal`` (``precision`` and ``scale``, ours) is that type. Other members are checked and
get no column.

* ``allOf``: the columns of all parts.
* ``oneOf``, ``anyOf`` of one type and null: that type. Of several types: a struct with a member for each, of which the first that
  takes the value is set. Beside ``properties`` or another type: rules for these, which bring no columns.
* ``not`` and bounds: rules.

A schema with rules needs the check of documents by the whole schema. The work of that check is bounded by the number of schemas
that one value may have to be compared with (``RULES_MAX``), and by the length of a document for that number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from log_format.records.schema import TIMESTAMP
from log_format.schemas.columns.json_keywords import BESIDE_REF, CHECKED, COVERED, NAMES, OF_THE_WHOLE, PLAIN
from log_format.schemas.columns.json_parts import SchemaDocuments, kinds, shown, together
from log_format.schemas.columns.shape import (
    DECIMAL_DIGITS_MAX,
    DEPTH_MAX,
    LEAVES_MAX,
    ListOf,
    MapOf,
    Member,
    Record,
    Scalar,
    Shape,
    Untypable,
)

__all__ = ["RULES_MAX", "Shapes"]

RULES_MAX: Final = 256
"""Most branches of choices, parts of ``allOf`` and schemas below rules: a value may be compared with all of them."""
_CHECK_BYTES_MAX: Final = 16 * 1024 * 1024
"""Length of a document times the number of rules: half a second at most, in which the process does nothing else."""
_SCALARS: Final = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
_FORMATS: Final = {"date-time": TIMESTAMP, "date": pa.date32()}


class Shapes:
    """Shapes of a schema's parts.

    Args:
        documents: the schema, and those that it refers to.
        is_of: makes the check whether a parsed value is of a schema within the documents.
    """

    def __init__(self, documents: SchemaDocuments, is_of: Callable[[Any], Callable[[Any], bool]]) -> None:
        self._documents = documents
        self._is_of = is_of
        self._open: list[str] = []
        """References that are being followed."""
        self._count = self._rule_count = 0
        self.needs_check = False
        """Whether a schema has something that a shape does not say."""

    @property
    def document_bytes_max(self) -> int | None:
        """Bytes of the largest document that is checked by the rules; None: there are none."""
        return _CHECK_BYTES_MAX // self._rule_count if self._rule_count else None

    def shape(self, schema: Any, path: str, depth: int) -> Shape | None:
        """Return the shape; None if values have no single type. Raises ``Untypable``."""
        self._spend(path, depth)
        if not isinstance(schema, dict):
            return None
        self._check_keywords(schema, path, is_root=depth == 1, is_part="allOf" in schema)
        if isinstance(schema.get("$ref"), str):
            with self._followed(schema["$ref"], path) as target:
                return self.shape(target, path, depth + 1)
        if "allOf" in schema:
            parts = (found for part in _listed(schema, "allOf") for found in self._parts(part, path, depth + 1))
            schema = together([_own(schema), *parts], path)
            self._check_keywords(schema, path, is_root=depth == 1)
        if "not" in schema:
            self._add_rules(schema["not"], path, depth + 1)
        if _choices(schema):
            return self._choice(schema, path, depth)
        if "type" not in schema:
            return None
        named = [kind for kind in kinds(schema) if kind != "null"]
        if len(named) != 1:
            return None
        match named[0]:
            case "object":
                return self._object(schema, path, depth)
            case "array":
                items = schema.get("items")
                item = self.shape(items, f"{path}[]", depth + 1)
                return None if item is None else ListOf(item, self._takes_null(items))
            case "string":
                return _text(schema, path)
        arrow = _SCALARS.get(named[0])
        return None if arrow is None else Scalar(arrow)

    def _spend(self, path: str, depth: int) -> None:
        self._count += 1
        if depth > DEPTH_MAX or self._count > 4 * LEAVES_MAX:
            raise Untypable(path, "is too large or nested too deep")

    def _spend_rule(self, path: str) -> None:
        self.needs_check = True
        self._rule_count += 1
        if self._rule_count > RULES_MAX:
            raise Untypable(
                path, f"has more than {RULES_MAX} schemas in allOf, oneOf, anyOf and not, counted where used"
            )

    @contextmanager
    def _followed(self, reference: str, path: str) -> Iterator[Any]:
        """Give the schema that a reference names, which must not be within itself."""
        if reference in self._open:
            raise Untypable(path, f"contains itself ({shown(reference)}); a column has no recursive type")
        self._open.append(reference)
        yield self._documents.target(reference, path)
        self._open.pop()

    def _parts(self, schema: Any, path: str, depth: int) -> Iterator[Mapping[str, Any]]:
        """Yield a part of an ``allOf``, without such parts of its own, and then these."""
        self._spend(path, depth)
        self._spend_rule(path)
        if schema is True:
            return
        if not isinstance(schema, dict):
            raise Untypable(path, "allows no value: one of its parts (allOf) is false")
        self._check_keywords(schema, path, is_part=True)
        if isinstance(schema.get("$ref"), str):
            with self._followed(schema["$ref"], path) as target:
                yield from self._parts(target, path, depth + 1)
            return
        yield _own(schema)
        for part in _listed(schema, "allOf"):
            yield from self._parts(part, path, depth + 1)

    def _choice(self, schema: Mapping[str, Any], path: str, depth: int) -> Shape | None:
        if "oneOf" in schema and "anyOf" in schema:
            raise Untypable(path, "has oneOf beside anyOf: put one of them into a member of its own")
        own = {keyword: value for keyword, value in schema.items() if keyword not in ("oneOf", "anyOf", "not")}
        branches = [one for one in _choices(schema) if not _is_null(one)]
        if _has_own_shape(own):
            for branch in branches:
                self._add_rules(branch, path, depth + 1, described=self._properties(own))
            return self.shape(own, path, depth + 1)
        if "type" in own:
            branches = [{"allOf": [{"type": own["type"]}, branch]} for branch in branches]
        if len(branches) == 1:
            found = self.shape(branches[0], path, depth + 1)
            self.needs_check |= len(_choices(schema)) != 2 or self._takes_null(branches[0])
            return found
        return self._union(branches, path, depth) if branches else None

    def _union(self, branches: list[Any], path: str, depth: int) -> Shape:
        """Return the shape of a choice of several types."""
        shapes: dict[str, Shape] = {}
        checks = []
        is_named_twice = ""
        for number, branch in enumerate(branches):
            self._spend_rule(path)
            name = _branch_name(branch)
            shape = self.shape(branch, path, depth + 1)
            if shape is None:
                what = f"has a choice whose branch {number + 1} ({name}) has no single type, so no column: give it one"
                raise Untypable(path, what)
            is_named_twice = name if name in shapes else is_named_twice
            shapes[name if name not in shapes else f"{name}#{number}"] = shape
            checks.append(self._is_of(branch))
        if (same := _same(list(shapes.values()))) is not None:
            return same
        if is_named_twice:
            what = (
                f"has a choice with two branches called {is_named_twice!r}: give each a title, or refer to definitions"
            )
            raise Untypable(path, what)
        pairs = zip(shapes.items(), checks, strict=True)
        members = (Member(name, one, is_required=False, is_nullable=True, is_of=check) for (name, one), check in pairs)
        return Record(tuple(members), is_union=True)

    def _add_rules(self, schema: Any, path: str, depth: int, *, described: Mapping[str, Any] | None = None) -> None:
        """Walk a schema that brings no columns, since it only restricts values that have their shape, if any, elsewhere.

        ``described``: the properties that have columns; the rules must not describe others. None: that does not matter.
        """
        self._spend(path, depth)
        self._spend_rule(path)
        if not isinstance(schema, dict):
            return
        self._check_keywords(schema, path, is_part=True)
        if isinstance(schema.get("$ref"), str):
            with self._followed(schema["$ref"], path) as target:
                self._add_rules(target, path, depth + 1, described=described)
            return
        for keyword in ("allOf", "anyOf", "oneOf", "items"):
            for part in _listed(schema, keyword):
                self._add_rules(part, path, depth + 1, described=described)
        for keyword in ("not", "items", "additionalProperties"):
            if isinstance(schema.get(keyword), dict):
                self._add_rules(schema[keyword], path, depth + 1)
        for name, part in (schema.get("properties") or {}).items():
            if described is not None and name not in described:
                what = f"describes {name!r} in a choice beside properties: describe it there, too, or give the choice a member"
                raise Untypable(path, what)
            below = None if described is None else self._properties(described[name])
            self._add_rules(part, _within(path, name), depth + 1, described=below)

    def _properties(self, schema: Any) -> Mapping[str, Any] | None:
        """Return the properties that a schema describes itself."""
        for _ in range(DEPTH_MAX):
            if not (isinstance(schema, dict) and isinstance(schema.get("$ref"), str)):
                break
            schema = self._documents.target(schema["$ref"], "")
        return schema.get("properties") or None if isinstance(schema, dict) else None

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
            where = _within(path, name)
            shape = self.shape(part, where, depth + 1)
            if shape is None:
                self._check_plain(part, where)
                left_out = True
            else:
                members.append(Member(name, shape, name in names, self._takes_null(part)))
        if not members:
            return None
        return Record(tuple(members), is_open=left_out or further is not False)

    def _check_keywords(
        self, schema: Mapping[str, Any], path: str, *, is_root: bool = False, is_part: bool = False
    ) -> None:
        """Raise ``Untypable`` for a keyword whose check is not bounded, or whose place changes what another one means.

        ``is_part``: the schema has its shape together with others, or none.
        """
        beyond = sorted(set(schema) - COVERED - CHECKED)
        if beyond:
            raise Untypable(path, f"has the keyword {beyond[0]!r}, which a typed topic's schema can't have")
        if not is_root and not NAMES.isdisjoint(schema):
            raise Untypable(path, "has a name of its own ($id, $anchor or $schema)")
        if "$ref" in schema and not set(schema) <= BESIDE_REF | ({"$schema", "$id"} if is_root else set()):
            raise Untypable(path, "has keywords beside $ref; put both into allOf")
        if isinstance(schema.get("unevaluatedProperties"), dict):
            raise Untypable(
                path, "has a schema for further properties (unevaluatedProperties); it may only be true or false"
            )
        if not is_part:
            if isinstance(schema.get("additionalProperties"), dict) and schema.get("properties"):
                raise Untypable(path, "has properties and a schema for further ones")
            if set(schema.get("required") or ()) - set(schema.get("properties") or ()) and not _choices(schema):
                raise Untypable(path, "requires a member that it does not describe")
        symbols = schema.get("enum")
        is_text = schema.get("type") == "string" and "format" not in schema
        is_said = symbols is None or (is_text and all(isinstance(symbol, str) for symbol in symbols))
        self.needs_check |= not is_said or not CHECKED.isdisjoint(schema)

    def _check_plain(self, schema: Any, path: str) -> None:
        """Raise ``Untypable`` unless a member without a column has only rules for itself, not for parts of it."""
        if schema is False or (isinstance(schema, dict) and set(schema) - PLAIN):
            raise Untypable(path, "has no single type, and rules for its parts")
        self.needs_check |= isinstance(schema, dict) and "type" in schema

    def _takes_null(self, schema: Any) -> bool:
        """Return whether null is of the schema, as far as types say."""
        for _ in range(DEPTH_MAX):
            if not isinstance(schema, dict):
                return bool(schema)
            if not isinstance(schema.get("$ref"), str):
                break
            schema = self._documents.target(schema["$ref"], "")
        if not all(self._takes_null(part) for part in _listed(schema, "allOf")):
            return False
        if "type" in schema:
            return "null" in kinds(schema)
        return not _choices(schema) or any(_is_null(one) or self._takes_null(one) for one in _choices(schema))


def _within(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _own(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a schema says beside ``allOf``."""
    return {keyword: value for keyword, value in schema.items() if keyword not in OF_THE_WHOLE}


def _listed(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    return [*_listed(schema, "anyOf"), *_listed(schema, "oneOf")]


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and (schema.get("type") in ("null", ["null"]) or schema.get("const", 0) is None)


def _has_own_shape(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema describes its values' parts or type without a choice that it has."""
    if "type" not in schema:
        return bool(schema.get("properties"))
    is_object = [kind for kind in kinds(schema) if kind != "null"] == ["object"]
    return not is_object or bool(schema.get("properties")) or isinstance(schema.get("additionalProperties"), dict)


def _branch_name(schema: Any) -> str:
    """Return the name of a choice's branch: of the definition that it refers to, its title, or its type."""
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("$ref"), str):
        return str(schema["$ref"].rpartition("/")[2])
    if list(schema) == ["allOf"]:
        names = [_branch_name(part) for part in reversed(_listed(schema, "allOf"))]
        return next((name for name in names if name != "any"), "any")
    if isinstance(schema.get("title"), str):
        return str(schema["title"])
    named = [kind for kind in kinds(schema) if kind != "null"] if "type" in schema else []
    return named[0] if named else "any"


def _same(shapes: list[Shape]) -> Shape | None:
    """Return the one shape that all of them are; None: they differ. Strings with different symbols are one of them all."""
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    scalars = [shape for shape in shapes if isinstance(shape, Scalar)]
    if len(scalars) < len(shapes) or any(shape.type != scalars[0].type for shape in scalars):
        return None
    symbols = [shape.symbols for shape in scalars if shape.symbols is not None]
    is_listed = len(symbols) == len(scalars)
    return Scalar(
        scalars[0].type, tuple(dict.fromkeys(one for listed in symbols for one in listed)) if is_listed else None
    )


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
