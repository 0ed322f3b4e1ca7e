"""JSON Schema: which keywords have schemas as their values, so that a walk of a schema finds all within it and nothing else."""

from __future__ import annotations

from typing import Final

ONE: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that have one schema."""
LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "items", "prefixItems"})
"""Keywords that have a list of schemas."""
MAPS: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"},
)
"""Keywords that have schemas by name."""
