"""Fetch: read several partitions as record batches, and wait for records as the request asks.

1. A client with a fetch session names its partitions once (``fetch_sessions``); other clients name all of them in each request.
2. Visible records are always committed, so the last stable offset is the high watermark, and both isolation levels are the same.
3. A partition's last batch ends at the offset where the client goes on, also behind compacted records (``fetched_batches``).
4. A client in another zone is referred to a broker in its own zone, and reads there (KIP-392).
5. A client that lost the right to a topic while its request waited gets none of the topic's records.
6. A partition returns at most its ``partition_max_bytes``, the answer at most ``max_bytes``. As a broker returns the first batch
   whole, the first record is returned whatever its size, and records without a producer's batch up to ``SMALL_BATCH_BYTES``.

Source: KIP-98, KIP-227, KIP-392, KIP-516.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.fetch_answer import Fetched, FetchFrom, FetchLimits
from gateway.kafka.brokers import nearest_brokers
from gateway.kafka.call import Answer, Encoded, KafkaCall, PendingAnswer, yield_to_loop
from gateway.kafka.calls.fetch_answers import TOPIC_ID_VERSION_MIN, PartitionResult, encode_answer
from gateway.kafka.calls.fetched_batches import PartitionRead, encode_partitions, sent_bytes
from gateway.kafka.calls.metadata import advertised_brokers
from gateway.kafka.calls.produce import ORIGINAL_BYTES_MIN
from gateway.kafka.encoded_batches import Parts
from gateway.kafka.errors import kafka_error
from gateway.kafka.fetch_sessions import NO_SESSION_EPOCH, FetchSession, PartitionKey, SessionPartition, TopicKey
from gateway.quotas.limits import FETCH_BYTES
from log_format.errors import OffsetOutOfRange, TidelogError

RECORDS_MAX: Final = 1_000_000
WAIT_MS_MAX: Final = 60_000
BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes of one answer, whatever the client allows: the next answer is made while the client processes this one."""


SMALL_BATCH_BYTES: Final = ORIGINAL_BYTES_MIN
"""Bytes of records that a partition returns although the client allows fewer: small batches are encoded anew, and a client with
such a limit expects a batch whole."""


class Referral(NamedTuple):
    """Referral of the client to a broker in the client's zone."""

    topic: str
    node_id: int


_PlannedRead = FetchFrom | KafkaError | Referral
_Outcome = Fetched | TidelogError | KafkaError | Referral


async def fetch(call: KafkaCall, request: Any) -> Answer | PendingAnswer:
    """Find the session and the topics; then read, and wait, concurrently with the connection's later requests."""
    session = await _session(call, request)
    if isinstance(session, KafkaError):
        return call.answer(error_code=session, session_id=0, responses=())
    asked = list(session.partitions.values())
    wanted = await _plan_reads(call, asked, _other_zone(call, request))
    reads = _reads(asked, wanted)
    has_errors = len(reads) < len(wanted)
    limits = FetchLimits(
        records_max=RECORDS_MAX,
        bytes_max=min(max(1, request.max_bytes), BYTES_MAX),
        bytes_min=0 if has_errors else max(0, request.min_bytes),
        wait_ms_max=0 if has_errors else min(max(0, round(request.max_wait.total_seconds() * 1000)), WAIT_MS_MAX),
        sent_bytes=lambda parts: sent_bytes(call, reads, parts),
    )
    return PendingAnswer(_read_and_answer(call, session, asked, wanted, reads=reads, limits=limits))


async def _session(call: KafkaCall, request: Any) -> FetchSession | KafkaError:
    asked, number = [], 0
    for topic in request.topics:
        key = _topic_key(call, topic)
        for partition in topic.partitions:
            number += 1
            await yield_to_loop(number)
            asked.append(
                SessionPartition(
                    key, partition.partition, partition.fetch_offset, max(1, partition.partition_max_bytes)
                )
            )
    forgotten: list[PartitionKey] = []
    for topic in getattr(request, "forgotten_topics_data", ()):
        forgotten += [(_topic_key(call, topic), partition) for partition in topic.partitions]
    session_id, epoch = getattr(request, "session_id", 0), getattr(request, "session_epoch", NO_SESSION_EPOCH)
    return call.caches.fetch_sessions.update_session(call.caller.principal, session_id, epoch, asked, forgotten)


def _topic_key(call: KafkaCall, topic: Any) -> TopicKey:
    key: TopicKey = topic.topic if call.version < TOPIC_ID_VERSION_MIN else topic.topic_id
    return key


def _other_zone(call: KafkaCall, request: Any) -> str | None:
    """Return the client's zone if it is not this gateway's."""
    zone: str = getattr(request, "rack_id", "")
    own = call.gateway.settings.zone
    return zone if zone and own is not None and zone != own else None


async def _plan_reads(call: KafkaCall, asked: Sequence[SessionPartition], other_zone: str | None) -> list[_PlannedRead]:
    """Return what to read of each partition, or why nothing is read."""
    topics: dict[TopicKey, str | KafkaError | Referral] = {}
    brokers = [] if other_zone is None else advertised_brokers(call)
    wanted: list[_PlannedRead] = []
    for number, one in enumerate(asked, 1):
        topic = topics.get(one.topic)
        if topic is None:
            topic = await _readable_name(call, one.topic)
            if isinstance(topic, str) and other_zone is not None:
                near = nearest_brokers(topic, brokers).get(other_zone)
                topic = topic if near is None else Referral(topic, near)
            topics[one.topic] = topic
        if isinstance(topic, KafkaError | Referral):
            wanted.append(topic)
        elif one.partition < 0:
            wanted.append(KafkaError.unknown_topic_or_partition)
        elif one.offset < 0:
            wanted.append(KafkaError.offset_out_of_range)
        else:
            bytes_max = max(one.bytes_max, SMALL_BATCH_BYTES)
            wanted.append(FetchFrom(topic=topic, partition=one.partition, offset=one.offset, bytes_max=bytes_max))
        await yield_to_loop(number)
    return wanted


def _reads(asked: Sequence[SessionPartition], wanted: Sequence[_PlannedRead]) -> list[PartitionRead]:
    """Return the partitions that are read, each with the client's ``partition_max_bytes``."""
    return [
        PartitionRead(what, one.bytes_max)
        for one, what in zip(asked, wanted, strict=True)
        if isinstance(what, FetchFrom)
    ]


async def _readable_name(call: KafkaCall, key: TopicKey) -> str | KafkaError:
    """Return the name of a topic that the caller may read, or the error."""
    name = key if isinstance(key, str) else await call.known_topics.name(key)
    if name is None:
        return KafkaError.unknown_topic_id
    try:
        call.require("Read", "topic", name)
    except TidelogError as error:
        return kafka_error(error)
    return name


async def _read_and_answer(
    call: KafkaCall,
    session: FetchSession,
    asked: list[SessionPartition],
    wanted: list[_PlannedRead],
    *,
    reads: list[PartitionRead],
    limits: FetchLimits,
) -> Answer:
    engine = call.engine
    found_from = [one.start for one in reads]
    try:
        found = await engine.fetcher.fetch(found_from, limits, call.answer_memory, engine.clock.monotonic_ms())
        call.reservations.append(found.reservation)
        lost = await call.find_unreadable([one.topic for one in found_from])
    except TidelogError as error:
        if call.version >= 7:
            return call.answer(error_code=kafka_error(error), session_id=0, responses=())
        whole_error = kafka_error(error)
        return await _answer(call, session, asked, [whole_error] * len(asked), [()] * len(asked))
    call.spend(FETCH_BYTES, found.size_bytes)
    parts = [lost.get(one.topic) or part for one, part in zip(found_from, found.parts, strict=True)]
    results = iter(zip(parts, await encode_partitions(call, reads, parts), strict=True))
    outcomes: list[_Outcome] = []
    batches: list[Parts] = []
    for one, what in zip(asked, wanted, strict=True):
        outcome, batch = next(results) if isinstance(what, FetchFrom) else (what, ())
        outcomes.append(_check_topic_id(call, one.topic, outcome))
        batches.append(batch)
    return await _answer(call, session, asked, outcomes, batches)


def _check_topic_id(call: KafkaCall, key: TopicKey, outcome: _Outcome) -> _Outcome:
    """Return the outcome; ``unknown_topic_id`` if it was read from a topic other than the one with the requested id."""
    if not isinstance(key, uuid.UUID) or not isinstance(outcome, Fetched):
        return outcome
    topic = call.engine.topics.known(outcome.topic)
    if topic is None or not call.known_topics.is_id_of(key, topic.state):
        return KafkaError.unknown_topic_id
    return outcome


async def _answer(
    call: KafkaCall,
    session: FetchSession,
    asked: Sequence[SessionPartition],
    outcomes: Sequence[_Outcome],
    batches: Sequence[Parts],
) -> Answer:
    """Encode all partitions; in a session only those that have news."""
    by_topic: dict[TopicKey, list[PartitionResult]] = {}
    for number, (one, outcome, batch) in enumerate(zip(asked, outcomes, batches, strict=True), 1):
        answered = _refer(call, one, outcome) if isinstance(outcome, Referral) else _to_result(one, outcome, batch)
        told = None if answered.error is not KafkaError.none else (answered.high_watermark, answered.log_start)
        if answered.preferred_node_id >= 0 or session.has_news(one, told, has_records=bool(answered.batches)):
            by_topic.setdefault(one.topic, []).append(answered)
        await yield_to_loop(number)
    return Encoded(tuple(encode_answer(call, session.id, list(by_topic.items()))))


def _refer(call: KafkaCall, one: SessionPartition, outcome: Referral) -> PartitionResult:
    known = call.engine.topics.known(outcome.topic)
    bounds = (-1, -1)
    if known is not None and known.state.exists and one.partition < known.state.partition_count:
        bounds = (known.state.high_watermark(one.partition), known.state.log_start(one.partition))
    return PartitionResult(one.partition, KafkaError.none, *bounds, preferred_node_id=outcome.node_id)


def _to_result(one: SessionPartition, outcome: Fetched | TidelogError | KafkaError, batches: Parts) -> PartitionResult:
    partition = one.partition
    if isinstance(outcome, Fetched):
        return PartitionResult(partition, KafkaError.none, outcome.high_watermark, outcome.log_start_offset, batches)
    if isinstance(outcome, KafkaError):
        return PartitionResult(partition, outcome, -1, -1)
    bounds = outcome.fields if isinstance(outcome, OffsetOutOfRange) else {}
    high_watermark, log_start = bounds.get("high_watermark", -1), bounds.get("log_start_offset", -1)
    return PartitionResult(partition, kafka_error(outcome), high_watermark, log_start)
