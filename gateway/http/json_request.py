"""JSON bodies of requests that are not records: parsed strictly, every fault named by its JSON pointer.

1. A member named twice, an unknown member, NaN, a number that is no integer where one is wanted: all are refused.
2. All faults of a body are found before it is refused, so that a client mends them at once (at most 20 are listed).
3. At most ``NODES_MAX`` commas and brackets, counted before anything is parsed: the parser makes objects of many times their
   size, and holds the interpreter's lock until it is done.

For small bodies: records have a decoder of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from gateway.codec.json_structure import nodes_exceed
from gateway.http.parameters import INT64_MAX
from gateway.problem import refused
from log_format.limits import REPORTED_ERRORS_MAX

NODES_MAX: Final = 131_072
"""More than twice what naming 10,000 partitions takes, with offset and metadata each. Parsing so much takes about 30 ms."""

_MISSING: Final = object()


def parse_object(data: bytes) -> Members:
    """The JSON object that the body is. Raises ``RequestRefused`` (``INVALID_REQUEST``)."""
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
    return Members(value, "", [])


class Members:
    """The members of an object, taken one by one; what is not taken by ``finish`` is unknown.

    Takers note what is wrong, and return a value of the right type all the same; ``finish`` raises.
    """

    def __init__(self, members: Mapping[str, Any], pointer: str, errors: list[tuple[str, str]]) -> None:
        self._members = members
        self._pointer = pointer
        self._errors = errors
        self._known: set[str] = set()
        self._nested: list[Members] = []

    def has(self, name: str) -> bool:
        """Whether the member is there at all."""
        self._known.add(name)
        return name in self._members

    def fault(self, name: str, what: str) -> None:
        """Note that a member is wrong, unless enough is wrong already."""
        if len(self._errors) < REPORTED_ERRORS_MAX:
            self._errors.append((f"{self._pointer}/{_token(name)}", what))

    def raw(self, name: str) -> Any:
        """The member as it is; None where it is absent."""
        self._known.add(name)
        return self._members.get(name)

    def text(self, name: str) -> str:
        """A string that must be there."""
        value = self._take(name, None)
        if isinstance(value, str):
            return value
        if value is not _MISSING:
            self.fault(name, "must be a string")
        return ""

    def integer(self, name: str, *, minimum: int, maximum: int = INT64_MAX, default: int | None = None) -> int:
        """An integer within the range; without a default it must be there."""
        value = self._take(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
            return value
        if value is not _MISSING:
            self.fault(name, f"must be an integer from {minimum} to {maximum}")
        return minimum

    def object(self, name: str) -> Mapping[str, Any]:
        """An object; empty where it is absent."""
        value = self._take(name, {})
        if isinstance(value, dict):
            return value
        self.fault(name, "must be an object")
        return {}

    def nested(self, name: str) -> Members:
        """An object whose members are taken like these; an empty one where it is absent. Its unknown members are noted here."""
        nested = Members(self.object(name), f"{self._pointer}/{_token(name)}", self._errors)
        self._nested.append(nested)
        return nested

    def texts(self, name: str, *, count_max: int) -> list[str]:
        """A list of strings that must be there."""
        value = self._take(name, None)
        if value is _MISSING:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            self.fault(name, "must be a list of strings")
            return []
        if len(value) > count_max:
            self.fault(name, f"must have at most {count_max} entries")
            return []
        return value

    def objects(self, name: str, *, count_max: int) -> list[Members]:
        """A list of objects that must be there."""
        value = self._take(name, None)
        if value is _MISSING:
            return []
        if not isinstance(value, list):
            self.fault(name, "must be a list of objects")
            return []
        if len(value) > count_max:
            self.fault(name, f"must have at most {count_max} entries")
            return []
        found = []
        for index, entry in enumerate(value):
            pointer = f"{self._pointer}/{_token(name)}/{index}"
            if isinstance(entry, dict):
                found.append(Members(entry, pointer, self._errors))
            elif len(self._errors) < REPORTED_ERRORS_MAX:
                self._errors.append((pointer, "must be an object"))
        return found

    def finish(self) -> None:
        """Raise ``RequestRefused`` (``INVALID_REQUEST``) when anything was wrong, unknown members included."""
        self.refuse_unknown()
        if self._errors:
            where, what = self._errors[0]
            raise refused(f"{where.lstrip('/') or 'The body'} {what}.", self._errors)

    def refuse_unknown(self) -> None:
        """Note the members that nobody asked for."""
        for nested in self._nested:
            nested.refuse_unknown()
        for name in self._members:
            if name not in self._known:
                self.fault(name, "is not a member that is known here")

    def _take(self, name: str, default: Any) -> Any:
        self._known.add(name)
        value = self._members.get(name, _MISSING)
        if value is _MISSING:
            if default is None:
                self.fault(name, "is missing")
                return _MISSING
            return default
        return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"member {name[:80]!r} is named twice")
            seen.add(name)
    return members


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _token(name: str) -> str:
    """A member's name as a JSON pointer's token (RFC 6901, section 3), cut, and in characters that can be encoded."""
    return name[:80].replace("~", "~0").replace("/", "~1").encode(errors="backslashreplace").decode()
