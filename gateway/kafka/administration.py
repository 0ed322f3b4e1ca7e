"""Administrative changes by Kafka requests: authorized by the same rights, and audited in the same trail, as HTTP's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.bounds import PARALLEL_LIST_LOADS_MAX
from gateway.kafka.call import Encoded, KafkaCall
from gateway.kafka.errors import kafka_error
from gateway.kafka.wire.messages import encode_body, encode_with_field
from gateway.problem import as_tidelog_error
from gateway.schemas.needed_rights import rights_of_settings
from log_format.access.acls import Operation, ResourceType
from log_format.errors import BackOff, TidelogError

CONCURRENT_MAX: Final = PARALLEL_LIST_LOADS_MAX
"""Number of resources of one request that are changed concurrently."""
T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger("gateway.kafka")


class Right(NamedTuple):
    """The permission that a change needs."""

    operation: Operation
    resource_type: ResourceType
    resource: str


async def require_rights_of_settings(call: KafkaCall, topic: str, config: Mapping[str, object]) -> None:
    """Raise ``Unauthorized`` unless the caller has the rights of ``rights_of_settings``."""
    if call.gateway.rights.enforced:
        for right in await rights_of_settings(call.engine.schemas, topic, config):
            call.require(*right)


async def administer(call: KafkaCall, right: Right, change: Callable[[], Awaitable[T]]) -> T:
    """Authorize and make a change, and record it in the audit trail.

    Args:
        call: The request.
        right: The permission that the change needs.
        change: Makes the change.

    Returns:
        The result of ``change``.

    Raises:
        Unauthorized: The caller lacks the right.
        BackOff: Auditing is required and the event could not be recorded; nothing was changed.
        TidelogError: As ``change`` raises it.
    """
    call.require(*right)
    recording = call.gateway.recording
    if recording is None:
        return await change()
    if recording.is_required:
        await recording.record_durably(call.event("administration", *right))
        return await change()
    try:
        made = await change()
    except Exception as error:
        if as_tidelog_error(error).may_have_happened:
            recording.note(call.event("administration", *right))
        raise
    recording.note(call.event("administration", *right))
    return made


def error_fields(call: KafkaCall, error: BaseException) -> dict[str, Any]:
    """Return the answer fields of an error: Kafka's code and Tidelog's message."""
    if not isinstance(error, TidelogError):
        _log.error("%s failed", call.name, exc_info=error)
    known = as_tidelog_error(error)
    return {"error_code": kafka_error(known), "error_message": known.detail}


NO_ERROR: Final[dict[str, Any]] = {"error_code": KafkaError.none, "error_message": None}


async def answer_each(
    call: KafkaCall, wanted: Sequence[R], apply: Callable[[R], Awaitable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Call ``apply`` on each item, at most ``CONCURRENT_MAX`` concurrently.

    Args:
        call: The request, named in the log when ``apply`` fails unexpectedly.
        wanted: The items.
        done: Returns the answer fields of one item.

    Returns:
        The answer fields of each item, in the order of ``wanted``. An exception becomes its error code and message.
    """
    return [answer async for answer in _answers(call, wanted, apply)]


async def encode_each(
    call: KafkaCall,
    array: str,
    wanted: Sequence[R],
    apply: Callable[[R], Awaitable[dict[str, Any]]],
    identify: Callable[[R], dict[str, Any]],
) -> Encoded:
    """Call ``apply`` on each item as ``answer_each``, and encode the answer item by item.

    For answers that are much longer than their requests: only the encoded bytes are held, in the caller's memory for answers, and
    the event loop serves others after each item.

    Args:
        call: The request.
        array: The name of the answer's last field, an array with an entry for each item.
        wanted: The items.
        done: Returns the answer fields of one item.
        named: Returns the answer fields of an item that are told in any case. Once the memory is exhausted, an entry has only
            these and the error.
    """
    room = call.answer_memory.reserve()
    call.reservations.append(room)
    pieces: list[bytes] = []

    def encoded(values: dict[str, Any]) -> bytes:
        return encode_body(getattr(call.answer(**{array: [values]}), array)[0])

    async for answer in _answers(call, wanted, apply):
        name = identify(wanted[len(pieces)])
        piece = encoded(name | answer)
        try:
            room.grow(len(piece))
        except BackOff as problem:
            piece = encoded(name | error_fields(call, problem))
        pieces.append(piece)
        await asyncio.sleep(0)
    return Encoded(tuple(encode_with_field(call.answer(**{array: ()}), len(pieces), pieces)))


async def _answers(
    call: KafkaCall, wanted: Sequence[R], apply: Callable[[R], Awaitable[dict[str, Any]]]
) -> AsyncIterator[dict[str, Any]]:
    """Yield the answer fields of each item, in order."""

    async def one(item: R) -> dict[str, Any]:
        try:
            return NO_ERROR | await apply(item)
        except Exception as error:  # noqa: BLE001 - one item's failure must not stop the others
            return error_fields(call, error)

    for start in range(0, len(wanted), CONCURRENT_MAX):
        for answer in await asyncio.gather(*(one(item) for item in wanted[start : start + CONCURRENT_MAX])):
            yield answer
