"""Query parameters and path parts, parsed strictly.

1. A parameter that is unknown to the route, given twice, or outside its range is refused (400) by name: a typing error never
   passes silently.
2. A route declares its parameters once, as values; parsing and the OpenAPI document both follow from that.
3. A path part that can't be a name is answered like an unknown name (404), without asking the store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from gateway.problem import refused
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.topic.config import check_topic_name

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
PARAMETERS_MAX: Final = 100
"""A query with more is refused before its parameters are looked at."""

ENCODED_SLASH: Final = "\udc2f"
"""Stands for an encoded ``/`` inside a path part, so that routing does not take it for a separator. It is a lone surrogate, which
no decoded path can hold otherwise."""

UNKNOWN_PARAMETER: Final = "is not a parameter of this route"
GIVEN_TWICE: Final = "is given more than once"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One query parameter. ``parse`` makes its value from the text, or raises ``ValueError`` saying what is allowed."""

    name: str
    description: str
    schema: Mapping[str, Any]
    parse: Callable[[str], Any]
    default: Any = None


def integer(
    name: str, description: str, *, minimum: int, maximum: int = INT64_MAX, default: int | None = None
) -> Parameter:
    """A whole number within ``[minimum, maximum]``; absent: ``default``."""
    schema = {"type": "integer", "format": "int64", "minimum": minimum, "maximum": maximum}
    if default is not None:
        schema["default"] = default

    def parse(value: str) -> int:
        return parse_integer(value, minimum, maximum)

    return Parameter(name=name, description=description, schema=schema, parse=parse, default=default)


def integer_or_word(
    name: str, description: str, *, words: Sequence[str], minimum: int = 0, maximum: int = INT64_MAX
) -> Parameter:
    """A whole number within the range, or one of ``words``, returned unchanged; absent: None."""
    number = {"type": "integer", "format": "int64", "minimum": minimum, "maximum": maximum}
    schema = {"anyOf": [number, {"type": "string", "enum": list(words)}]}

    def parse(value: str) -> int | str:
        if value in words:
            return value
        try:
            return parse_integer(value, minimum, maximum)
        except ValueError as error:
            raise ValueError(f"{error}, or one of {', '.join(words)}") from None

    return Parameter(name=name, description=description, schema=schema, parse=parse)


def text(name: str, description: str, *, length_max: int) -> Parameter:
    """Any text of at most ``length_max`` characters; absent: None."""

    def parse(value: str) -> str:
        if len(value) > length_max:
            raise ValueError(f"must be at most {length_max} characters")
        return value

    schema = {"type": "string", "maxLength": length_max}
    return Parameter(name=name, description=description, schema=schema, parse=parse)


def choice(name: str, description: str, *, words: Sequence[str], default: str | None = None) -> Parameter:
    """One of ``words``; absent: ``default``."""
    schema = {"type": "string", "enum": list(words)} | ({} if default is None else {"default": default})

    def parse(value: str) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return value

    return Parameter(name=name, description=description, schema=schema, parse=parse, default=default)


class QueryParameters:
    """The parameters that one route's query may have."""

    def __init__(self, *parameters: Parameter) -> None:
        self.parameters = parameters
        self._by_name = {parameter.name: parameter for parameter in parameters}
        self._defaults = {parameter.name: parameter.default for parameter in parameters}
        assert len(self._by_name) == len(parameters), "a parameter is declared twice"

    def parse(self, request: Request) -> dict[str, Any]:
        """The value of each declared parameter, defaults included. Raises ``RequestRefused`` naming each wrong one."""
        values = dict(self._defaults)
        raw: bytes = request.scope["query_string"]
        if not raw:
            return values
        errors: list[tuple[str, str]] = []
        seen: set[str] = set()
        for name, value in query_pairs(request):
            parameter = self._by_name.get(name)
            if parameter is None:
                errors.append((name, UNKNOWN_PARAMETER))
            elif name in seen:
                errors.append((name, GIVEN_TWICE))
            else:
                seen.add(name)
                try:
                    values[name] = parameter.parse(value)
                except ValueError as error:
                    errors.append((name, str(error)))
        if errors:
            raise query_refused(errors)
        return values


NO_PARAMETERS: Final = QueryParameters()


def parse_integer(value: str, minimum: int, maximum: int) -> int:
    """ASCII digits with an optional sign, within the range. Raises ``ValueError`` naming the range."""
    if _INTEGER.fullmatch(value) and len(value) <= 20:
        number = int(value)
        if minimum <= number <= maximum:
            return number
    raise ValueError(f"must be an integer from {minimum} to {maximum}")


def accepted(request: Request) -> str:
    """All of the request's ``Accept`` headers as one; empty without any."""
    return ",".join(request.headers.getlist("accept"))


def path_text(request: Request, name: str) -> str:
    """A path part, percent-decoded, encoded slashes included."""
    value: str = request.path_params[name]
    return value.replace(ENCODED_SLASH, "/") if ENCODED_SLASH in value else value


def path_topic(request: Request) -> str:
    """The topic named in the path. Raises ``UnknownTopic`` (404), also for an impossible name."""
    return topic_named(path_text(request, "topic"))


def topic_named(name: str) -> str:
    """The name of a topic. Raises ``UnknownTopic`` (404) for an impossible name."""
    try:
        return check_topic_name(name)
    except RequestRefused:
        raise UnknownTopic(name) from None


def path_partition(request: Request) -> int:
    """The partition named in the path, not compared with the topic's. Raises as ``partition_named``."""
    return partition_named(path_text(request, "partition"))


def partition_named(name: str) -> int:
    """The number of a partition. Raises ``RequestRefused`` (404 ``UNKNOWN_PARTITION``) for any other text."""
    if not _PARTITION.fullmatch(name):
        raise RequestRefused(
            f"There is no partition {name!r}: partitions are numbered from 0.", code=ErrorCode.UNKNOWN_PARTITION
        )
    return int(name)


def query_pairs(request: Request) -> list[tuple[str, str]]:
    """The query's parameters, in order. Raises ``RequestRefused`` where it is not UTF-8, or has too many."""
    raw: bytes = request.scope["query_string"]
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
    except UnicodeDecodeError:
        raise refused("The query is not UTF-8.") from None
    except ValueError:
        raise refused(f"The query has more than {PARAMETERS_MAX} parameters.") from None


def query_refused(errors: Sequence[tuple[str, str]]) -> RequestRefused:
    """The refusal of a query with ``errors``: names, and what is wrong with each."""
    listed = [(name[:100], what) for name, what in errors]
    where, what = listed[0]
    return refused(f"Query parameter {where!r} {what}.", listed)
