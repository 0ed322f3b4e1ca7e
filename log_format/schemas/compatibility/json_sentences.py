"""JSON Schema: what each kind of finding means, as a sentence. Many kinds share one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from log_format.schemas.compatibility.json_keywords import BOUNDS
from log_format.schemas.compatibility.pairs import TOO_COMPLEX

_ADDED: Final = "The keyword at '{path}' in the {reader} schema is not present in the {writer} schema"
_MORE: Final = "The value at '{path}' in the {reader} schema is more than in the {writer} schema"
_LESS: Final = "The value at '{path}' in the {reader} schema is less than in the {writer} schema"
_DIFFERENT: Final = "The value at '{path}' differs in the {reader} and the {writer} schema"
_OTHER_TYPE: Final = "The type at '{path}' differs in the {reader} and the {writer} schema"
_FEWER: Final = "The type at '{path}' allows less in the {reader} schema than in the {writer} schema"
_MANY: Final = "The type at '{path}' asks for more in the {reader} schema than in the {writer} schema"
_TO_OPEN: Final = "The {writer} schema has an open content model, and '{path}' in the {reader} schema is missing in it"
_TO_UNOPEN: Final = (
    "The property at '{path}' is required in the {reader} schema and missing in the {writer} one, not open"
)
_FROM_CLOSED: Final = (
    "The {reader} schema has a closed content model and lacks what is at '{path}' in the {writer} schema"
)
_NOT_COVERED: Final = (
    "What is at '{path}' is in one schema only, and the other's partially open content model does not cover it"
)

_BY_SENTENCE: Final[Mapping[str, tuple[str, ...]]] = {
    _ADDED: (
        *(f"{bound.name}_ADDED" for bounds in BOUNDS.values() for bound in bounds),
        *("PATTERN_ADDED", "MULTIPLE_OF_ADDED", "UNIQUE_ITEMS_ADDED", "REQUIRED_ATTRIBUTE_ADDED", "SCHEMA_ADDED"),
        *(
            "DEPENDENCY_ARRAY_ADDED",
            "DEPENDENCY_SCHEMA_ADDED",
            "ADDITIONAL_PROPERTIES_REMOVED",
            "ADDITIONAL_ITEMS_REMOVED",
        ),
        *("UNEVALUATED_PROPERTIES_REMOVED", "UNEVALUATED_ITEMS_REMOVED"),
    ),
    _MORE: (
        "MULTIPLE_OF_EXPANDED",
        *(f"{bound.name}_INCREASED" for bounds in BOUNDS.values() for bound in bounds if not bound.is_upper),
    ),
    _LESS: tuple(f"{bound.name}_DECREASED" for bounds in BOUNDS.values() for bound in bounds if bound.is_upper),
    _DIFFERENT: ("PATTERN_CHANGED", "MULTIPLE_OF_CHANGED", "DEPENDENCY_ARRAY_CHANGED"),
    _OTHER_TYPE: (
        *(
            "TYPE_CHANGED",
            "TYPE_NARROWED",
            "COMBINED_TYPE_CHANGED",
            "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
            "ENUM_ARRAY_CHANGED",
        ),
    ),
    _FEWER: (
        *("ENUM_ARRAY_NARROWED", "SUM_TYPE_NARROWED", "ADDITIONAL_PROPERTIES_NARROWED", "ADDITIONAL_ITEMS_NARROWED"),
        *("UNEVALUATED_PROPERTIES_NARROWED", "UNEVALUATED_ITEMS_NARROWED"),
    ),
    _MANY: ("DEPENDENCY_ARRAY_EXTENDED", "PRODUCT_TYPE_EXTENDED", "NOT_TYPE_EXTENDED"),
    _TO_OPEN: (
        "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
    ),
    _TO_UNOPEN: ("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",),
    _FROM_CLOSED: ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    _NOT_COVERED: (
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    "The {reader} and the {writer} schema are too complex to be compared": (TOO_COMPLEX,),
}
SENTENCES: Final[Mapping[str, str]] = {kind: sentence for sentence, kinds in _BY_SENTENCE.items() for kind in kinds}
"""By kind: its sentence."""
