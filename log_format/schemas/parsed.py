"""What parsing gives: a schema that was understood, or an error that says where it is wrong.

1. ``canonical`` is the text by which two schemas are the same and have one id: layout, comments and the order of attributes that
   means nothing are gone. ``normalized`` goes further, as Confluent's ``normalize=true`` does: what has no order is sorted.
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


TOLD_CHARACTERS_MAX: Final = 600
"""Most characters of a path, a name or a sentence that is told of a schema."""

_CHARACTERS_OF_A_STEP: Final = 16
"""How many characters of a name that is put together count as a step: so that names take 32 MiB at most."""


class InvalidSchema(RequestRefused, code=ErrorCode.INVALID_REQUEST):
    """Error: the text is no schema of its type. ``place`` says where it is wrong: a path, or line and column."""

    def __init__(self, detail: str, *, place: str = "") -> None:
        self.place = shortened(place)
        super().__init__(f"{self.place}: {shortened(detail)}" if place else shortened(detail))


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


def shortened(text: str) -> str:
    """Return a text for people, without its middle if it is long: names in a schema may have a megabyte."""
    half = TOLD_CHARACTERS_MAX // 2
    return text if len(text) <= TOLD_CHARACTERS_MAX else f"{text[:half]}…{text[-half:]}"


class Steps:
    """The work that one parse may still do."""

    __slots__ = ("_left",)

    def __init__(self, steps_max: int = STEPS_MAX) -> None:
        self._left = steps_max

    def spend_name(self, characters: int) -> None:
        """Count the steps of putting a name together. Raises ``InvalidSchema`` when there were too many."""
        self.spend(1 + characters // _CHARACTERS_OF_A_STEP)

    def spend(self, count: int = 1) -> None:
        """Count steps. Raises ``InvalidSchema`` when there were too many."""
        self._left -= count
        if self._left < 0:
            raise InvalidSchema("The schema takes too long to understand: it, or its defaults, repeat too much.")
