"""What is wrong with a value of a request or a setting, in the API's words: pydantic's own reach nobody.

A sentence is a name and one of these: ``limit`` ``must be at most 1000``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

OTHER: Final = "has a value that is not allowed here"
"""Of kinds of which none is raised by any type that the gateway has."""
_WHAT: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "is not a known member",
    "none_required": "must be null",
    "string_type": "must be a string",
    "string_too_long": "must be at most {max_length} characters",
    "string_too_short": "must be at least {min_length} characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "string_unicode": "must be Unicode text",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer of at most 64 bits",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "bytes_type": "must be a string",
    "value_error": "{error}",
    "assertion_error": "{error}",
}
"""Messages by kind of error."""
_KINDS: Final = frozenset(get_args(ErrorType))
_CHOICE: Final = re.compile(r"'([^']*)'")


def what_is_wrong(found: ErrorDetails) -> str:
    """Return what is wrong, to be read behind the value's name. Errors of the gateway's own types keep their messages."""
    kind, context = found["type"], found.get("ctx", {})
    if kind not in _KINDS:
        return found["msg"]
    if kind in ("literal_error", "enum"):
        return f"must be {one_of(_CHOICE.findall(str(context.get('expected', ''))))}"
    what = _WHAT.get(kind)
    return OTHER if what is None else _filled(what, context)


def one_of(words: Iterable[str]) -> str:
    """Return the words as a choice: ``x``, or ``one of x, y``."""
    chosen = list(words)
    return chosen[0] if len(chosen) == 1 else f"one of {', '.join(chosen)}"


def _filled(what: str, context: Mapping[str, Any]) -> str:
    try:
        return what.format(**context)
    except (KeyError, IndexError):
        return OTHER
