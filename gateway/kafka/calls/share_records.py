"""ShareFetch and ShareAcknowledge: records of a share group, each locked for one client, and their acknowledgements.

1. A request first acknowledges, then it fetches. The answer reports both for each partition.
2. At most ``max_records`` are returned, in both acquire modes, as soon as there is one: ``min_bytes`` is ignored.
3. A partition's records are one batch, unless their timestamps are LogAppendTime. Of these records, the client holds those listed
   in ``acquired_records``, each with its delivery count.
4. Any gateway serves any partition (``gateway.kafka.shares.share_queues``), so answers never name a leader.

Source: KIP-932, KIP-1206 (acquire modes), KIP-1222 (renewal).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError
from msgspec import structs

from gateway.kafka.call import Answer, Encoded, KafkaCall, PendingAnswer
from gateway.kafka.calls.coordinator import InvalidGroup, is_name
from gateway.kafka.calls.fetch import BYTES_MAX, WAIT_MS_MAX
from gateway.kafka.calls.fetched_batches import INLINE_BYTES_MAX, has_append_time
from gateway.kafka.calls.share_acknowledgements import acknowledgements_of, renews, settle
from gateway.kafka.errors import kafka_error
from gateway.kafka.shares.sessions import (
    AcquiredRange,
    NoShareSession,
    Partition,
    ShareSession,
    ShareSessionError,
    ShareSessionLimit,
    WrongShareEpoch,
)
from gateway.kafka.wire.encoding import Parts, encode_batches
from gateway.kafka.wire.messages import encode_with_field
from gateway.queues.peer_messages import TakenPart, TakenRecords
from gateway.queues.received import ReceiveRequest
from gateway.quotas.limits import FETCH_BYTES
from log_format.errors import RequestRefused, TidelogError

OPEN_EPOCH, CLOSE_EPOCH = 0, -1
RECORDS_MAX: Final = 10_000
PAUSE_MS: Final = 500
"""Pause before the answer to a fetch that cannot be served: clients ask again immediately."""
_ACQUIRED_BYTES: Final = 19
"""Bytes of one range in an answer: two offsets, a count, no tags."""
_SESSION_ERRORS: Final[Mapping[type[ShareSessionError], KafkaError]] = {
    ShareSessionLimit: KafkaError.share_session_limit_reached,
    NoShareSession: KafkaError.share_session_not_found,
    WrongShareEpoch: KafkaError.invalid_share_session_epoch,
}
_NO_LEADER: Final = {"leader_id": -1, "leader_epoch": -1}


class InvalidShares(RequestRefused):
    """The request contradicts itself."""


@dataclass(slots=True)
class _PartitionAnswer:
    """The answer for one partition."""

    error: KafkaError = KafkaError.none
    acknowledge_error: KafkaError = KafkaError.none
    taken: list[TakenPart] = field(default_factory=list)
    batch: Parts = ()


async def share_fetch(call: KafkaCall, request: Any) -> Answer | PendingAnswer:
    """Update the session; then acknowledge, fetch and wait, concurrently with the connection's later requests."""
    acknowledged = acknowledgements_of(request.topics)
    try:
        session = _session_to_fetch(call, request, bool(acknowledged))
        _check_renewal(request, renews(acknowledged))
    except (TidelogError, ShareSessionError) as error:
        return _refused(call, error)
    return PendingAnswer(_fetch_and_answer(call, request, session, acknowledged))


def _session_to_fetch(call: KafkaCall, request: Any, acknowledges: bool) -> ShareSession:
    """Return the session of a fetch. Raise ``RequestRefused``, ``Unauthorized``, ``BackOff``, and the errors of sessions."""
    group, member_id, epoch = _parse_names(call, request)
    sessions = call.session.shares
    if epoch != OPEN_EPOCH:
        session = _session(call, request)
    else:
        if acknowledges:
            raise InvalidShares("A session that begins has nothing to acknowledge.")
        if (before := sessions.find(group, member_id)) is not None:
            _close(call, before)
        session = sessions.open(group, member_id)
    added = [(topic.topic_id, one.partition_index) for topic in request.topics for one in topic.partitions]
    gone = [(topic.topic_id, one) for topic in request.forgotten_topics_data for one in topic.partitions]
    sessions.update_partitions(session, [one for one in added if epoch != CLOSE_EPOCH], gone)
    return session


def _parse_names(call: KafkaCall, request: Any) -> tuple[str, str, int]:
    """Return group, member and epoch. Raise ``InvalidGroup``, ``InvalidShares``, ``Unauthorized``, ``BackOff``."""
    group, member_id = request.group_id or "", request.member_id or ""
    if not is_name(group):
        raise InvalidGroup("A group's name has 1 to 255 bytes and no control characters.")
    if not is_name(member_id):
        raise InvalidShares("A member's id has 1 to 255 bytes and no control characters.")
    call.require("Read", "group", group)
    return group, member_id, request.share_session_epoch


def _session(call: KafkaCall, request: Any) -> ShareSession:
    """Return a session that continues, or that this request closes. Raise as ``_session_to_fetch`` does."""
    group, member_id, epoch = _parse_names(call, request)
    if epoch != CLOSE_EPOCH:
        return call.session.shares.advance(group, member_id, epoch)
    session = call.session.shares.find(group, member_id)
    if session is None:
        raise NoShareSession
    return session


def _check_renewal(request: Any, renewing: bool) -> None:
    """Raise ``InvalidShares`` if locks are renewed by a request that does not declare it: of version 1, or by mistake."""
    if renewing and not getattr(request, "is_renew_ack", False):
        raise InvalidShares("Locks are renewed by requests that say so.")


def _close(call: KafkaCall, session: ShareSession) -> None:
    call.session.shares.close(session)
    call.shares.queues.release(session)


async def _fetch_and_answer(
    call: KafkaCall, request: Any, session: ShareSession, acknowledged: Mapping[Partition, Sequence[Any]]
) -> Answer:
    parts = {
        key: _PartitionAnswer(acknowledge_error=code)
        for key, code in (await settle(call, session, acknowledged)).items()
    }
    if request.share_session_epoch == CLOSE_EPOCH:
        _close(call, session)
        return await _answer(call, parts, 0)
    if getattr(request, "is_renew_ack", False):
        return await _answer(call, parts, await _lock_ms(call, session))
    try:
        lock_ms = await _take(call, request, session, parts)
    except TidelogError as error:
        if not acknowledged:
            await asyncio.sleep(PAUSE_MS / 1000)
            return _refused(call, error)
        lock_ms = 0  # the results of acknowledgements are answered anyway; the client fetches again
    return await _answer(call, parts, lock_ms)


async def _take(call: KafkaCall, request: Any, session: ShareSession, parts: dict[Partition, _PartitionAnswer]) -> int:
    """Acquire records, put them into ``parts``, and return how long they are locked.

    Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``.
    """
    # Results of acknowledgements are answered without waiting.
    wait_ms = 0 if parts else min(max(0, round(request.max_wait.total_seconds() * 1000)), WAIT_MS_MAX)
    ids, only = await _find_readable(call, session, parts)
    if not only or request.max_records <= 0 or request.max_bytes <= 0:
        await asyncio.sleep(min(wait_ms, PAUSE_MS) / 1000)
        return await _lock_ms(call, session)
    wish = ReceiveRequest(
        records_max=min(request.max_records, RECORDS_MAX),
        bytes_max=min(request.max_bytes, BYTES_MAX),
        wait_ms_max=wait_ms,
        lock_ms=None,
        only=only,
    )
    taken, reservation = await call.shares.queues.take(session.group, wish, call.answer_memory)
    call.reservations.append(reservation)
    taken = await _recheck_readable(call, session, taken, ids, parts)
    call.spend(FETCH_BYTES, taken.size_bytes)
    _assign(call, session, taken, ids)
    for one in taken.parts:
        parts.setdefault((ids[one.topic], one.partition), _PartitionAnswer()).taken.append(one)
    await _encode(call, taken, parts.values())
    return taken.lock_ms


async def _find_readable(
    call: KafkaCall, session: ShareSession, parts: dict[Partition, _PartitionAnswer]
) -> tuple[dict[str, Any], frozenset[tuple[str, int]]]:
    """Return the session's topic ids by name, and its readable partitions; put the errors of others into ``parts``. Raise
    ``BackOff``."""
    ids: dict[str, Any] = {}
    names: dict[Any, str | KafkaError] = {}
    only: list[tuple[str, int]] = []
    for topic_id, partition in session.partitions:
        if topic_id not in names:
            names[topic_id] = await _name(call, topic_id)
        name = names[topic_id]
        if isinstance(name, KafkaError):
            parts.setdefault((topic_id, partition), _PartitionAnswer()).error = name
        else:
            ids[name] = topic_id
            only.append((name, partition))
    return ids, frozenset(only)


async def _recheck_readable(
    call: KafkaCall,
    session: ShareSession,
    taken: TakenRecords,
    ids: Mapping[str, Any],
    parts: dict[Partition, _PartitionAnswer],
) -> TakenRecords:
    """Return the acquired records that the caller may still read after the wait. The others stay locked until their locks
    expire, and their partitions get an error in ``parts``. Raise ``Unauthorized`` for the group, ``BackOff``, ``Refused``."""
    lost = await call.find_unreadable({one.topic for one in taken.parts}, session.group)
    for one in taken.parts:
        if (error := lost.get(one.topic)) is not None:
            if error.fields.get("resource_type") == "group":
                raise error
            parts.setdefault((ids[one.topic], one.partition), _PartitionAnswer()).error = kafka_error(error)
    return structs.replace(taken, parts=[one for one in taken.parts if one.topic not in lost]) if lost else taken


async def _name(call: KafkaCall, topic_id: Any) -> str | KafkaError:
    name = await call.known_topics.name(topic_id)
    if name is None:
        return KafkaError.unknown_topic_id
    try:
        call.require("Read", "topic", name)
    except TidelogError as error:
        return kafka_error(error)
    topic = call.engine.topics.known(name)
    if topic is not None and not call.known_topics.is_id_of(topic_id, topic.state):
        return KafkaError.unknown_topic_id
    return name


def _assign(call: KafkaCall, session: ShareSession, taken: TakenRecords, ids: Mapping[str, Any]) -> None:
    """Assign the records to the session; if it was closed meanwhile, release them."""
    now_ms = call.engine.clock.monotonic_ms()
    given: dict[Partition, tuple[str, list[AcquiredRange]]] = {}
    for one in taken.parts:
        _, ranges = given.setdefault((ids[one.topic], one.partition), (one.topic, []))
        ranges += [AcquiredRange(first, last, one.lease, now_ms + taken.lock_ms) for first, last in one.ranges]
    for key, (topic, ranges) in given.items():
        call.session.shares.add_acquired(session, key, topic, ranges, now_ms)
    if call.session.shares.find(session.group, session.member_id) is not session:
        call.shares.queues.release(session)


async def _encode(call: KafkaCall, taken: TakenRecords, parts: Iterable[_PartitionAnswer]) -> None:
    some = [part for part in parts if part.taken]

    def encode() -> list[Parts]:
        return [
            encode_batches(
                [one.records for one in part.taken],
                part.taken[0].ranges[0][0],
                part.taken[-1].ranges[-1][1] + 1,
                log_append_time=has_append_time(call, part.taken[0].topic),
            )
            for part in some
        ]

    if taken.size_bytes <= INLINE_BYTES_MAX:
        batches = encode()
    else:
        batches = await asyncio.get_running_loop().run_in_executor(call.gateway.codec_pool, encode)
    for part, batch in zip(some, batches, strict=True):
        part.batch = batch


async def _lock_ms(call: KafkaCall, session: ShareSession) -> int:
    return (await call.engine.queues.settings(session.group)).lock_ms


def _refused(call: KafkaCall, error: TidelogError | ShareSessionError) -> Answer:
    code = _SESSION_ERRORS[type(error)] if isinstance(error, ShareSessionError) else _code(error)
    message = error.detail if isinstance(error, TidelogError) else None
    return call.answer(
        error_code=code, error_message=message, acquisition_lock_timeout=0, responses=(), node_endpoints=()
    )


def _code(error: TidelogError) -> KafkaError:
    return KafkaError.invalid_group_id if isinstance(error, InvalidGroup) else kafka_error(error)


async def _answer(call: KafkaCall, parts: Mapping[Partition, _PartitionAnswer], lock_ms: int) -> Answer:
    """Encode the answer without passing the records through kio."""
    by_topic: dict[Any, list[tuple[int, _PartitionAnswer]]] = {}
    for (topic_id, partition), part in parts.items():
        by_topic.setdefault(topic_id, []).append((partition, part))
    pieces: list[bytes] = []
    for topic_id, some in by_topic.items():
        inner: list[bytes] = []
        for partition, part in some:
            values = _partition(partition, part)
            one = _topic(call, topic_id, [values]).partitions[0]
            ranges = len(values["acquired_records"])
            behind = _ACQUIRED_BYTES * ranges + _varint_bytes(ranges + 1)
            inner += encode_with_field(one, sum(map(len, part.batch)), part.batch, behind=behind)
        pieces += encode_with_field(_topic(call, topic_id, []), len(some), inner)
    empty = _encode_whole(call, lock_ms, [])
    return Encoded(tuple(encode_with_field(empty, len(by_topic), pieces, behind=1)))


def _encode_whole(call: KafkaCall, lock_ms: int, responses: list[dict[str, Any]]) -> Any:
    return call.answer(
        error_code=KafkaError.none,
        error_message=None,
        acquisition_lock_timeout=lock_ms,
        responses=responses,
        node_endpoints=(),
    )


def _topic(call: KafkaCall, topic_id: Any, partitions: list[dict[str, Any]]) -> Any:
    return _encode_whole(call, 0, [{"topic_id": topic_id, "partitions": partitions}]).responses[0]


def _partition(partition: int, part: _PartitionAnswer) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": part.error,
        "error_message": None,
        "acknowledge_error_code": part.acknowledge_error.value,
        "acknowledge_error_message": None,
        "current_leader": _NO_LEADER,
        "records": b"",
        "acquired_records": [
            {"first_offset": first, "last_offset": last, "delivery_count": one.count}
            for one in part.taken
            for first, last in one.ranges
        ],
    }


def _varint_bytes(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


async def share_acknowledge(call: KafkaCall, request: Any) -> Answer | PendingAnswer:
    """Settle the acknowledgements, and close the session if the request asks for it."""
    acknowledged = acknowledgements_of(request.topics)
    try:
        if request.share_session_epoch == OPEN_EPOCH:
            raise WrongShareEpoch
        session = _session(call, request)
        _check_renewal(request, renews(acknowledged))
    except (TidelogError, ShareSessionError) as error:
        return _refused(call, error)
    return PendingAnswer(_acknowledge_and_answer(call, request, session, acknowledged))


async def _acknowledge_and_answer(
    call: KafkaCall, request: Any, session: ShareSession, acknowledged: Mapping[Partition, Sequence[Any]]
) -> Answer:
    codes = await settle(call, session, acknowledged)
    if request.share_session_epoch == CLOSE_EPOCH:
        _close(call, session)
    responses: dict[Any, list[dict[str, Any]]] = {}
    for topic in request.topics:
        for one in topic.partitions:
            code = codes.get((topic.topic_id, one.partition_index), KafkaError.none)
            responses.setdefault(topic.topic_id, []).append(
                {
                    "partition_index": one.partition_index,
                    "error_code": code,
                    "error_message": None,
                    "current_leader": _NO_LEADER,
                }
            )
    try:
        lock_ms = await _lock_ms(call, session) if getattr(request, "is_renew_ack", False) else 0
    except TidelogError:
        lock_ms = 0  # the results of the settlements are answered anyway
    return _encode_whole(call, lock_ms, [{"topic_id": key, "partitions": some} for key, some in responses.items()])
