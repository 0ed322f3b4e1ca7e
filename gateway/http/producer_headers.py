"""The request headers that make a produce request idempotent or conditional, parsed and checked.

``Tidelog-Producer-Id``, ``-Epoch`` and ``-Sequence`` come all three or not at all; ``Tidelog-Expected-Offset`` goes with a
partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from gateway.http.parameters import INT64_MAX
from gateway.problem import refused
from log_format.topic.producers import ProducerStamp

PRODUCER_ID: Final = "Tidelog-Producer-Id"
PRODUCER_EPOCH: Final = "Tidelog-Producer-Epoch"
PRODUCER_SEQUENCE: Final = "Tidelog-Producer-Sequence"
EXPECTED_OFFSET: Final = "Tidelog-Expected-Offset"
TRANSACTION: Final = "Tidelog-Transaction"
NAMES: Final = (PRODUCER_ID, PRODUCER_EPOCH, PRODUCER_SEQUENCE, EXPECTED_OFFSET, TRANSACTION)
_OF_PRODUCER: Final = (PRODUCER_ID, PRODUCER_EPOCH, PRODUCER_SEQUENCE)

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_ID_MEANING: Final = "must be 1 to 255 characters of A-Z a-z 0-9 _ -"
_NUMBER_MEANING: Final = f"must be a number from 0 to {INT64_MAX}"
_NUMBER_SCHEMA: Final = {"type": "integer", "format": "int64", "minimum": 0, "maximum": INT64_MAX}


def _parameter(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": dict(schema)}


TRANSACTION_PARAMETER: Final = _parameter(
    TRANSACTION,
    "From `POST /v1/transactions`: the records wait beside the topic until it is committed",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,255}$"},
)
PARAMETERS: Final = (
    _parameter(PRODUCER_ID, "From `POST /v1/producers`", {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,255}$"}),
    _parameter(PRODUCER_EPOCH, "From there, too", _NUMBER_SCHEMA),
    _parameter(
        PRODUCER_SEQUENCE,
        "Numbers this producer's requests to this topic, from 0; the same again appends nothing",
        _NUMBER_SCHEMA,
    ),
    _parameter(
        EXPECTED_OFFSET,
        "Append only when this is the partition's next offset",
        _NUMBER_SCHEMA,
    ),
)
"""For OpenAPI."""


@dataclass(frozen=True, slots=True)
class ProducerHeaders:
    """What the headers ask for; None: nothing."""

    stamp: ProducerStamp | None
    expected_offset: int | None
    transaction_id: str | None = None


NONE: Final = ProducerHeaders(None, None)


def producer_headers(request: Request, *, partition: int | None, acks: str) -> ProducerHeaders:
    """The headers of a request whose route names ``partition`` (None: it names none).

    Raises ``RequestRefused`` (``INVALID_REQUEST``) that names each header that is missing, malformed or out of place.
    """
    given = {name: values for name in NAMES if (values := request.headers.getlist(name))}
    if not given:
        return NONE
    errors = [(name, "must be given once") for name, values in given.items() if len(values) > 1]
    if any(name in _OF_PRODUCER for name in given):
        missing = [name for name in _OF_PRODUCER if name not in given]
        errors += [(name, "is missing: the three producer headers go together") for name in missing]
    for name, values in given.items():
        if name in (PRODUCER_ID, TRANSACTION):
            if not _ID.fullmatch(values[0]):
                errors.append((name, _ID_MEANING))
        elif not (_NUMBER.fullmatch(values[0]) and int(values[0]) <= INT64_MAX):
            errors.append((name, _NUMBER_MEANING))
    if EXPECTED_OFFSET in given and partition is None:
        errors.append((EXPECTED_OFFSET, "needs a route that names a partition"))
    if EXPECTED_OFFSET in given and TRANSACTION in given:
        errors.append((EXPECTED_OFFSET, "does not go with a transaction"))
    if acks == "0":
        errors += [(name, "does not go with acks=0") for name in given]
    if errors:
        raise refused(f"{errors[0][0]} {errors[0][1]}.", errors)
    stamp = None
    if PRODUCER_ID in given:
        stamp = ProducerStamp(given[PRODUCER_ID][0], int(given[PRODUCER_EPOCH][0]), int(given[PRODUCER_SEQUENCE][0]))
    expected_offset = int(given[EXPECTED_OFFSET][0]) if EXPECTED_OFFSET in given else None
    return ProducerHeaders(stamp, expected_offset, given[TRANSACTION][0] if TRANSACTION in given else None)
