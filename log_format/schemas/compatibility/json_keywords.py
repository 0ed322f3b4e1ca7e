"""JSON Schema: the keywords that compare as numbers and texts, as tables.

Each row is a keyword that bounds values. A new schema that has it where the old one did not, or more strictly, refuses values
that were valid: only these findings are told. What a new schema allows in addition is no finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from log_format.schemas.compatibility.incompatibility import Finding


class Bound(NamedTuple):
    """A keyword that bounds values from above (``is_upper``) or below, and what Confluent calls it."""

    keyword: str
    name: str
    is_upper: bool


BOUNDS: Final[Mapping[str, tuple[Bound, ...]]] = {
    "string": (Bound("maxLength", "MAX_LENGTH", True), Bound("minLength", "MIN_LENGTH", False)),
    "number": (
        Bound("maximum", "MAXIMUM", True),
        Bound("minimum", "MINIMUM", False),
        Bound("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", True),
        Bound("exclusiveMinimum", "EXCLUSIVE_MINIMUM", False),
    ),
    "object": (Bound("maxProperties", "MAX_PROPERTIES", True), Bound("minProperties", "MIN_PROPERTIES", False)),
    "array": (
        Bound("maxItems", "MAX_ITEMS", True),
        Bound("minItems", "MIN_ITEMS", False),
        Bound("maxContains", "MAX_CONTAINS", True),
        Bound("minContains", "MIN_CONTAINS", False),
    ),
}
"""By kind: its bounds."""


def keyword_findings(kind: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield which bounds of a kind a new schema added or tightened."""
    for keyword, name, is_upper in BOUNDS.get(kind, ()):
        before, after = _number(old.get(keyword)), _number(new.get(keyword))
        if after is not None and before is None:
            yield Finding(f"{name}_ADDED", (keyword,))
        elif after is not None and before is not None and (after < before if is_upper else after > before):
            yield Finding(f"{name}_{'DECREASED' if is_upper else 'INCREASED'}", (keyword,))
        elif (
            new.get(keyword) is True and old.get(keyword) is not True
        ):  # draft 4: whether the other bound belongs to it
            limit = _LIMIT[keyword]
            if new.get(limit) == old.get(limit):
                yield Finding(f"{name}_ADDED", (keyword,))
    match kind:
        case "string":
            yield from _changed("pattern", "PATTERN", new, old)
        case "number":
            yield from _multiple(_fraction(new.get("multipleOf")), _fraction(old.get("multipleOf")))
        case "array" if new.get("uniqueItems") is True and old.get("uniqueItems") is not True:
            yield Finding("UNIQUE_ITEMS_ADDED", ("uniqueItems",))


_LIMIT: Final = {"exclusiveMaximum": "maximum", "exclusiveMinimum": "minimum"}


def _changed(keyword: str, name: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Finding]:
    if keyword in new and new[keyword] != old.get(keyword):
        yield Finding(f"{name}_{'CHANGED' if keyword in old else 'ADDED'}", (keyword,))


def _multiple(after: Fraction | None, before: Fraction | None) -> Iterator[Finding]:
    if after is None or after == before:
        return
    if before is None:
        name = "ADDED"
    elif before and after % before == 0:
        name = "EXPANDED"
    elif after and before % after == 0:
        return
    else:
        name = "CHANGED"
    yield Finding(f"MULTIPLE_OF_{name}", ("multipleOf",))


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _fraction(value: Any) -> Fraction | None:
    number = _number(value)
    return None if number is None else Fraction(repr(number))  # as it is written: 0.3 is three times 0.1
