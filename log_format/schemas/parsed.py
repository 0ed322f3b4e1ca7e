"""What parsing gives: a schema that was understood, or an error that says where it is wrong.

1. ``canonical`` is the text by which two schemas are the same and have one id: layout, comments and the order of attributes that
   means nothing are gone. ``normalized`` goes further, as Confluent's ``normalize=true`` does: names are full, order is fixed.
2. Both are schemas themselves, and their own canonical and normalized texts: writing them again changes nothing. A normalized
   text may be longer than a new schema may be; parsed as one that is registered, it is understood.
3. A schema is text from a stranger. Its size, its depth and the work that it takes are bounded, and whatever it is, parsing
   raises ``InvalidSchema`` or returns.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from log_format.errors import ErrorCode, RequestRefused
from log_format.schemas.schema import SchemaType

TEXTS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Largest sum of a schema's text and those of its references. All are parsed together, at some 1 to 10 MiB/s."""

DEPTH_MAX: Final = 200
"""Most brackets that may be open at once in a text. Parsers take about two of Python's 1,000 frames for each."""

STEPS_MAX: Final = 2_000_000
"""Most elements that parsing one schema looks at: a few seconds. A text of 1 MiB has a tenth of that, unless it is made to take
long."""


class InvalidSchema(RequestRefused, code=ErrorCode.INVALID_REQUEST):
    """Error: the text is no schema of its type. ``place`` says where it is wrong: a path, or line and column."""

    def __init__(self, detail: str, *, place: str = "") -> None:
        super().__init__(f"{place}: {detail}" if place else detail)
        self.place = place


class ParsedSchema:
    """A schema that was understood. Each type of schema has a class of its own, which says what else is known of it.

    Args:
        schema_type: Type of the schema.
        canonical: Text by which it is the same as another one.
        normalized: The same for registrations with ``normalize=true``.
        whole: What readers understand it by, its references included: two schemas with the same are compatible.
    """

    __slots__ = ("canonical", "normalized", "type", "whole")

    def __init__(self, schema_type: SchemaType, canonical: str, normalized: str, whole: Hashable) -> None:
        self.type: Final = schema_type
        self.whole: Final = whole
        self.canonical: Final = canonical
        self.normalized: Final = normalized


class Steps:
    """The work that one parse may still do."""

    __slots__ = ("_left",)

    def __init__(self, steps_max: int = STEPS_MAX) -> None:
        self._left = steps_max

    def spend(self, count: int = 1) -> None:
        """Count steps. Raises ``InvalidSchema`` when there were too many."""
        self._left -= count
        if self._left < 0:
            raise InvalidSchema("The schema takes too long to understand: it, or its defaults, repeat too much.")
