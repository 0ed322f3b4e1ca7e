"""JSON Schema's keywords by what a typed topic's schema does with them; one that is not here is refused."""

from __future__ import annotations

from typing import Final

COVERED: Final = frozenset(
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
            "allOf",
            "not",
            "unevaluatedProperties",
            "discriminator",
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
CHECKED: Final = frozenset(
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
NAMES: Final = frozenset({"$id", "$anchor", "$schema", "id"})
BESIDE_REF: Final = frozenset(
    {"$ref", "title", "description", "examples", "default", "$comment", "$defs", "definitions"}
)
PLAIN: Final = frozenset(
    {"type", "enum", "format", *CHECKED, "title", "description", "examples", "default", "$comment"}
)
"""Keywords of a member without a column."""
OF_THE_WHOLE: Final = frozenset(
    {"allOf", "$schema", "$id", "$defs", "definitions", "$comment", "title", "description", "examples", "default"}
)
"""Keywords that a schema put together of parts does not have."""
