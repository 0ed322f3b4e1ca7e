"""JSON bodies other than records: parsed strictly, then validated by a model.

1. Repeated and unknown members, NaN, and other numbers where an integer is needed are refused.
2. At most ``NODES_MAX`` commas and brackets are allowed, counted before parsing: the parser makes objects of many times their
   size, and holds the interpreter's lock until it is done.

Records have decoders of their own.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from gateway.codec.json_structure import nodes_exceed
from gateway.http.fields import Body
from gateway.http.validation import body_refusal
from gateway.problem import refused

NODES_MAX: Final = 131_072
"""More than twice what 10,000 partitions with offset and metadata take. Parsing so much takes about 30 ms."""

M = TypeVar("M", bound=BaseModel)


def parse_model(model: type[M], data: bytes) -> M:
    """Return the object in ``data`` as the model. Raise ``RequestRefused``, and errors of the model's validators."""
    if issubclass(model, Body) and (found := model.plain(data)) is not None:
        plain: M = found
        return plain
    members = parse_object(data)
    try:
        return model.model_validate(members)
    except ValidationError as error:
        raise body_refusal(error, members, [one.alias or name for name, one in model.model_fields.items()]) from None


def parse_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object in ``data``. Raise ``RequestRefused`` (``INVALID_REQUEST``)."""
    if nodes_exceed(data, NODES_MAX):
        what = f"has more than {NODES_MAX} commas and brackets: send it as several requests"
        raise refused(f"The body {what}.", [("", what)])
    try:
        value = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise refused(
            "The body is not usable JSON: half of a surrogate pair.", [("", "has a lone surrogate")]
        ) from None
    except UnicodeDecodeError as error:
        raise refused("The body is not UTF-8.", [("", f"byte {error.start} is not UTF-8")]) from None
    except json.JSONDecodeError as error:
        what = f"{error.msg} at line {error.lineno} column {error.colno}"
        raise refused(f"The body is not JSON: {what}.", [("", what)]) from None
    except RecursionError:
        raise refused("The body is not usable JSON: it is nested too deeply.", [("", "is nested too deeply")]) from None
    except ValueError as error:
        raise refused(f"The body is not usable JSON: {error}.", [("", str(error))]) from None
    if not isinstance(value, dict):
        raise refused("The body must be a JSON object.", [("", "must be an object")])
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"member {name[:80]!r} is given twice")
            seen.add(name)
    return members


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
