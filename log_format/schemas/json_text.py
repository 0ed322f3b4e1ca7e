"""JSON documents in which schemas are written: from text to values and back, bounded, without what JSON does not have."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from log_format.schemas.parsed import DEPTH_MAX, InvalidSchema

_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SORTED: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)


def decoded(text: str) -> Any:
    """Return the value of a JSON document. Of members with one name the last counts.

    Raises:
        InvalidSchema: The text is no JSON, nests too deep, or has numbers or characters that do not exist.
    """
    depth = deepest = 0
    for found in _BRACKETS.finditer(text):
        bracket = found.group()
        if bracket in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif bracket in "]}":
            depth -= 1
    if deepest > DEPTH_MAX:
        raise InvalidSchema(f"The schema nests {deepest} deep, more than {DEPTH_MAX}.")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if "\\" in text:
            encoded(value).encode()
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"This is no JSON: {error.msg}.", place=f"line {error.lineno}, column {error.colno}"
        ) from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number beyond what is read; a lone surrogate; brackets outside of JSON
        raise InvalidSchema(f"This is no JSON that can be kept: {error}.") from error
    return value


def encoded(value: Any, *, sort_keys: bool = False) -> str:
    """Return a value as JSON without white space. Raises ``ValueError`` for a number that is infinite or none."""
    return (_SORTED if sort_keys else _COMPACT).encode(value)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is beyond every number that is kept")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
