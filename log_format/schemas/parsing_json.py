"""JSON Schema: from JSON text to documents whose references are resolved.

A schema is valid when the schema of its draft says so: drafts 4, 6, 7, 2019-09 and 2020-12, and draft 7 where ``$schema`` names
none of them, as in Confluent's registry. References lead into the document, by pointer, anchor or ``$id``, or to another schema
by its name. Nothing is ever fetched: ``jsonschema_rs`` would ask the network for a ``$schema`` and a ``$ref`` that it does not
know, so it is given neither.

Source: JSON Schema, "Core" and "Validation" of each draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

import jsonschema_rs

from log_format.schemas.json_subschemas import LISTS, MAPS, ONE
from log_format.schemas.json_text import decoded, encoded
from log_format.schemas.parsed import InvalidSchema, ParsedSchema, Steps
from log_format.schemas.schema import SchemaType


class Draft(StrEnum):
    """A draft of JSON Schema, by the ``$schema`` that names it."""

    DRAFT_4 = "http://json-schema.org/draft-04/schema#"
    DRAFT_6 = "http://json-schema.org/draft-06/schema#"
    DRAFT_7 = "http://json-schema.org/draft-07/schema#"
    DRAFT_2019_09 = "https://json-schema.org/draft/2019-09/schema"
    DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"

    @property
    def is_modern(self) -> bool:
        """Whether keywords beside a ``$ref`` count, and ``unevaluated…`` and ``dependent…`` are keywords."""
        return self in {Draft.DRAFT_2019_09, Draft.DRAFT_2020_12}


_DRAFTS: Final = {draft.rstrip("#").partition("://")[2]: draft for draft in Draft}
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_HOPS_MAX: Final = 100
"""Most references that lead to one another."""

PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1024 * 1024)
_STEPS_OF_A_PATTERN: Final = 100
"""How many usual steps compiling a pattern takes, about."""


class JsonSchema(ParsedSchema):
    """A parsed JSON Schema.

    ``document`` is its JSON value, ``references`` those of the schemas that it refers to, by name. ``target`` follows references.
    """

    __slots__ = ("_targets", "document", "draft", "references")

    def __init__(self, document: Any, references: Mapping[str, Any], targets: Mapping[int, Any]) -> None:
        canonical = encoded(document)
        whole = (canonical, *((name, encoded(reference)) for name, reference in references.items()))
        super().__init__(SchemaType.JSON, canonical, encoded(document, sort_keys=True), whole)
        self.document: Final = document
        self.draft: Final = draft_of(document)
        self.references: Final = references
        self._targets: Final = targets

    def target(self, value: Mapping[str, Any]) -> Any:
        """Return the schema that one of this schema's objects refers to; ``NO_TARGET``: it refers to none."""
        return self._targets.get(id(value), NO_TARGET)


NO_TARGET: Final = object()


def parse_json(text: str, references: Sequence[tuple[str, str]]) -> JsonSchema:
    """Parse a JSON Schema. Raises ``InvalidSchema``."""
    others = {}
    for name, reference in references:
        try:
            others[name] = _valid(decoded(reference))
        except InvalidSchema as error:
            raise InvalidSchema(error.detail, place=f"reference {name!r}") from error
    document = _valid(decoded(text))
    parser = _Parser()
    for name, other in others.items():
        parser.index(other, name)
    parser.index(document, "")
    return JsonSchema(document, others, parser.targets())


def draft_of(document: Any) -> Draft:
    """Return the draft that a document names, or else draft 7."""
    named = document.get("$schema") if isinstance(document, dict) else None
    return _DRAFTS.get(str(named).rstrip("#").partition("://")[2], Draft.DRAFT_7)


def _valid(document: Any) -> Any:
    if isinstance(document, bool):
        return document
    if not isinstance(document, dict):
        raise InvalidSchema("A JSON Schema is an object, true or false.", place="#")
    try:
        jsonschema_rs.meta.validate({**document, "$schema": str(draft_of(document))})
    except jsonschema_rs.ValidationError as error:
        place = "#" + "".join(f"/{part}" for part in error.instance_path)
        raise InvalidSchema(error.message[:500], place=place) from error
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(str(error)[:500], place="#") from error
    return document


class _Parser:
    """Documents by address, and the references that are to be followed."""

    def __init__(self) -> None:
        self._steps = Steps()
        self._addresses: dict[str, Any] = {}
        self._referring: list[tuple[Mapping[str, Any], str, str, str]] = []
        self._seen: set[int] = set()

    def index(self, document: Any, name: str) -> None:
        """Collect the addresses that a document defines, and its references. ``name``: the document's name in references."""
        self._addresses[name] = document
        self._walk(document, name, "id" if draft_of(document) is Draft.DRAFT_4 else "$id")

    def targets(self) -> dict[int, Any]:
        """Return what each object with a reference refers to, by the object's ``id``. Raises ``InvalidSchema``."""
        targets: dict[int, Any] = {}
        at = 0
        while at < len(self._referring):  # what is referred to may be where no keyword leads, and refer to more
            value, base, reference, id_keyword = self._referring[at]
            at += 1
            targets[id(value)] = found = self._found(base, reference)
            self._walk(found, base, id_keyword)
        for found in targets.values():
            self._check_end(found, targets)
        return targets

    def _check_end(self, found: Any, targets: Mapping[int, Any]) -> None:
        for _ in range(_HOPS_MAX):
            self._steps.spend()
            found = targets.get(id(found))
            if found is None:
                return
        raise InvalidSchema(f"References lead to each other for ever, or {_HOPS_MAX} times.", place="$ref")

    def _walk(self, start: Any, base: str, id_keyword: str) -> None:
        waiting = [(start, base)]
        while waiting:
            value, base = waiting.pop()
            self._steps.spend()
            if not isinstance(value, dict) or id(value) in self._seen:
                continue
            self._seen.add(id(value))
            base = self._named(value, base, id_keyword)
            for keyword in _REFERENCES:
                if isinstance(reference := value.get(keyword), str):
                    self._referring.append((value, base, reference, id_keyword))
                    break
            for pattern in _patterns(value):
                self._steps.spend(_STEPS_OF_A_PATTERN + len(pattern) // 10)
                matches(pattern, "")
            waiting.extend((each, base) for each in _subschemas(value))

    def _named(self, value: Mapping[str, Any], base: str, id_keyword: str) -> str:
        named = value.get(id_keyword)
        if isinstance(named, str):
            self._steps.spend_name(len(base) + len(named))
            address = _joined(base, named).rstrip("#")
            self._addresses.setdefault(address, value)
            if not named.startswith("#"):
                base = address
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := value.get(keyword), str):
                self._steps.spend_name(len(base) + len(anchor))
                self._addresses.setdefault(f"{base}#{anchor}", value)
        return base

    def _found(self, base: str, reference: str) -> Any:
        self._steps.spend_name(len(base) + len(reference))
        for whole_address in (_joined(base, reference), reference):
            address, fragment = urldefrag(whole_address)
            whole = f"{address}#{fragment}"
            if fragment and whole in self._addresses:
                return self._addresses[whole]
            if address in self._addresses and (not fragment or fragment.startswith("/")):
                return self._pointed(self._addresses[address], unquote(fragment), reference)
            if address.partition("://")[2] in _DRAFTS:
                return True  # any schema of a draft: what it says of schemas is never compared
        raise InvalidSchema(
            "It leads nowhere: neither into the schema, nor to one of its references.", place=f"$ref {reference!r}"
        )

    def _pointed(self, value: Any, pointer: str, reference: str) -> Any:
        for escaped in pointer.split("/")[1:]:
            self._steps.spend()
            part = escaped.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list) and part.isdecimal() and int(part[:9]) < len(value):
                value = value[int(part[:9])]
            else:
                raise InvalidSchema(f"There is no {part!r} on the way.", place=f"$ref {reference!r}")
        if not isinstance(value, dict | bool):
            raise InvalidSchema("What it leads to is no schema.", place=f"$ref {reference!r}")
        return value


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:  # an address that is none, such as one with half an IPv6 address
        return reference


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern occurs in a text, in bounded time. Raises ``InvalidSchema`` for what is no pattern."""
    try:
        return jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=PATTERNS).is_valid(text)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise InvalidSchema(f"{pattern[:100]!r} is no pattern, or one that takes too much.", place="pattern") from error


def _patterns(value: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(pattern := value.get("pattern"), str):
        yield pattern
    if isinstance(patterns := value.get("patternProperties"), dict):
        yield from patterns


def _subschemas(value: Mapping[str, Any]) -> Iterator[Any]:
    for keyword, each in value.items():
        if keyword in ONE and isinstance(each, dict):
            yield each
        elif keyword in LISTS and isinstance(each, list):
            yield from each
        elif keyword in MAPS and isinstance(each, dict):
            yield from each.values()
