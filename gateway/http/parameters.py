"""A request's query, headers and path parts: text that becomes the values of a model, or is refused by name.

1. A parameter that the model does not declare, or given twice, or outside its range is refused (400): a typing error never passes
   silently.
2. A path part that can't be a name is answered like an unknown name (404), without access to the store.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from gateway.http.validation import UNKNOWN_PARAMETER, parameter_faults
from gateway.problem import refused
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.topic.config import check_topic_name

PARAMETERS_MAX: Final = 100
"""Most parameters of a query: one with more is refused before its parameters are parsed."""

ENCODED_SLASH: Final = "\udc2f"
"""Substitute for an encoded ``/`` inside a path part, so that routing does not treat it as a separator: a lone surrogate,
which no decoded path can otherwise contain."""

OWN_PREFIX: Final = b"tidelog-"
"""Prefix of headers that a route may not ignore if it reads headers."""
_GIVEN_TWICE: Final = "is given more than once"
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,8}")

M = TypeVar("M", bound=BaseModel)
Pairs = Sequence[tuple[str, str]]
"""Names and values, in order."""


def parse_parameters(model: type[M], pairs: Pairs, kind: str) -> M:
    """Return the model of a query or of headers. Raise ``RequestRefused`` that names each wrong one; ``kind``: what they are
    called.

    A parameter that the model declares as a list may be given more than once.
    """
    given: dict[str, Any] = dict(pairs)
    errors: list[tuple[str, str]] = []
    for name in _list_names(model):
        if name in given:
            given[name] = [value for one, value in pairs if one == name]
            pairs = [(name, ""), *(pair for pair in pairs if pair[0] != name)]
    if len(given) < len(pairs):
        errors = [(name, _GIVEN_TWICE) for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    try:
        values: M = model.__pydantic_validator__.validate_python(given)
        if not errors:
            return values
    except ValidationError as error:
        errors += parameter_faults(error)
    in_order = list(given)
    errors.sort(key=lambda fault: in_order.index(fault[0]) if fault[0] in given else len(in_order))
    raise parameters_refusal(errors, kind, [field.alias or name for name, field in model.model_fields.items()])


@cache
def _list_names(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name, field in model.model_fields.items() if get_origin(field.annotation) is list)


def parameters_refusal(
    errors: Pairs, kind: str = "Query parameter", known: Sequence[str] | None = None
) -> RequestRefused:
    """Return the refusal of parameters, given their names and what is wrong with each. ``known``: names of those that the route
    takes, if they are to be told."""
    listed = [(name[:100], what) for name, what in errors]
    where, what = listed[0]
    is_told = what == UNKNOWN_PARAMETER and known is not None
    hint = f", which takes {', '.join(known or ()) or 'none'}" if is_told else ""
    return refused(f"{kind} {where!r} {what}{hint}.", listed)


def query_pairs(request: Request) -> Pairs:
    """Return the query's parameters. Raise ``RequestRefused`` if the query is not UTF-8, or has too many."""
    raw: bytes = request.scope["query_string"]
    if not raw:
        return ()
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
    except UnicodeDecodeError:
        raise refused("The query is not UTF-8.") from None
    except ValueError:
        raise refused(f"The query has more than {PARAMETERS_MAX} parameters.") from None


def header_names(model: type[BaseModel]) -> dict[bytes, str]:
    """Return the headers that a model declares, by their names in ASGI."""
    aliases = [field.alias or name for name, field in model.model_fields.items()]
    return {alias.lower().encode(): alias for alias in aliases}


def header_pairs(request: Request, names: Mapping[bytes, str]) -> Pairs:
    """Return the request's headers of these names, and all that begin with ``OWN_PREFIX``."""
    return [
        (names.get(name) or name.decode("latin-1").title(), value.decode("latin-1"))
        for name, value in request.scope["headers"]
        if name in names or name.startswith(OWN_PREFIX)
    ]


def header_text(request: Request, name: bytes) -> str | None:
    """Return the first of the request's headers of this name, in lower case; None if there is none."""
    for one, value in request.scope["headers"]:
        if one == name:
            text: str = value.decode("latin-1")
            return text
    return None


def accept_header(request: Request) -> str:
    """Return all of the request's ``Accept`` headers as one; empty if there are none."""
    return ",".join(request.headers.getlist("accept"))


def path_text(request: Request, name: str) -> str:
    """Return a path part, percent-decoded, encoded slashes included."""
    value: str = request.path_params[name]
    return value.replace(ENCODED_SLASH, "/") if ENCODED_SLASH in value else value


def parse_topic(name: str) -> str:
    """Return the name of a topic. Raise ``UnknownTopic`` (404) for an impossible name."""
    try:
        return check_topic_name(name)
    except RequestRefused:
        raise UnknownTopic(name) from None


def parse_partition(name: str) -> int:
    """Return the number of a partition. Raise ``RequestRefused`` (404 ``UNKNOWN_PARTITION``) for any other text."""
    if not _PARTITION.fullmatch(name):
        raise RequestRefused(
            f"There is no partition {name!r}: partitions are numbered from 0.", code=ErrorCode.UNKNOWN_PARTITION
        )
    return int(name)
