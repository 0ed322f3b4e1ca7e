"""Metadata and DescribeTopicPartitions: brokers, topics, partitions, and each partition's leader.

1. A missing topic that a request names is created, if the gateway's ``auto_create_topics`` and the request allow it.
2. Information about a topic is at most ``AGE_MS`` old. A topic that seems not to exist is looked up each time.
3. Large answers are encoded in steps, between which the event loop is yielded; each topic's encoded bytes are cached.

Source: KIP-4, KIP-430 (operations), KIP-516 (topic ids), KIP-966 (DescribeTopicPartitions).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.open_topic import OpenTopic
from gateway.kafka.brokers import Broker, brokers_of, node_id
from gateway.kafka.call import Answer, CloseConnection, Encoded, KafkaCall
from gateway.kafka.calls.topic_creation import create_missing
from gateway.kafka.described_topics import DescribedTopic, Leaders, partitions_of
from gateway.kafka.errors import kafka_error
from gateway.kafka.topic_lookup import look_up_topics
from gateway.kafka.wire.messages import encode_body, encode_with_field
from log_format.access.acls import CLUSTER, Operation
from log_format.errors import BackOff, RequestRefused, TidelogError, UnknownTopic
from log_format.topic.config import check_topic_name
from log_format.topic.state import TopicState

CLUSTER_ID: Final = "tidelog"
"""Cluster id that is answered until the gateway has read the store's."""
PAGE: Final = 1_000
AGE_MS: Final = 3_000
STEP_PARTITIONS: Final = 500
"""Number of partitions that are encoded before the event loop is yielded."""
MEMORY_WAIT_MS: Final = 10_000
PARTITIONS_MAX: Final = 2_000
"""Most partitions in one answer of DescribeTopicPartitions, like a broker's ``max.request.partition.size.limit``."""
_OPERATIONS: Final[dict[int, tuple[Operation, ...]]] = {
    3: ("Read",),
    4: ("Write",),
    5: ("Create",),
    6: ("Delete",),
    7: ("Alter",),
    8: ("Describe",),
    10: ("Describe",),
    11: ("Alter",),
}
"""Kafka's codes of operations on a topic, each with the Tidelog rights that allow it."""
_CLUSTER_OPERATIONS: Final[tuple[tuple[int, Operation], ...]] = ((7, "Alter"), (8, "Describe"), (10, "Describe"))
"""Kafka's bits of operations on the cluster, each with the Tidelog right that allows it: Alter, Describe, DescribeConfigs."""
_ALL_CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
"""Operations that a broker without an authorizer reports."""
_NO_OPERATIONS: Final = -(2**31)
_BYTES_BEHIND_TOPICS: Final = {8: 4, 9: 4, 10: 4, 13: 2}
"""Bytes of plain fields after the topics, by version."""
_TopicEntry = DescribedTopic | dict[str, Any]
"""A described topic, or the answer fields of an error in its place."""


async def metadata(call: KafkaCall, request: Any) -> Answer:
    """Answer with the named topics, or all topics that the caller may describe."""
    wants_operations = getattr(request, "include_topic_authorized_operations", False)
    leaders = Leaders(call.engine.groups.ownership, brokers := advertised_brokers(call), _leaders(call))
    if request.topics is None or (call.version == 0 and not request.topics):
        try:
            states = await _all(call)
        except BackOff as problem:  # the answer has no field for the error
            raise CloseConnection(f"topics can't be listed: {problem.detail}") from problem
        told: list[_TopicEntry] = [_describe(call, state, leaders, operations=wants_operations) for state in states]
    else:
        # Java sends an empty name with an id, where other clients send none: the id is used.
        ids = [getattr(one, "topic_id", None) for one in request.topics]
        names = dict.fromkeys(  # a broker tells each once, too
            (topic_id, one.name if topic_id is None else None)
            for topic_id, one in zip(ids, request.topics, strict=True)
        )
        creates = getattr(request, "allow_auto_topic_creation", True) and call.gateway.settings.auto_create_topics > 0
        told = await _named(call, [*names], leaders, operations=wants_operations, creates=creates)
    empty = call.answer(
        brokers=[
            {"node_id": one.node_id, "host": one.address.host, "port": one.address.port, "rack": one.zone}
            for one in brokers
        ],
        cluster_id=cluster_id(call),
        controller_id=brokers[0].node_id,
        topics=(),
        error_code=KafkaError.none,
        cluster_authorized_operations=cluster_operations(call, request),
    )
    topics = await _encode_topics(call, told)
    return Encoded(
        tuple(encode_with_field(empty, len(topics), topics, behind=_BYTES_BEHIND_TOPICS.get(call.version, 0)))
    )


def advertised_brokers(call: KafkaCall) -> list[Broker]:
    """Return the gateways that clients are told of, at least one."""
    gateway = call.gateway
    own_id = gateway.settings.gateway_id
    found = brokers_of(gateway.membership.heartbeats(), own_id, drains=call.engine.draining)
    return found or [Broker(node_id(own_id), own_id, call.advertised)]


def cluster_id(call: KafkaCall) -> str:
    """Return the store's cluster id."""
    keys = call.gateway.peers.keys
    return CLUSTER_ID if keys is None else keys.cluster_id


def cluster_operations(call: KafkaCall, request: Any) -> int:
    """Return the bits of what the caller may do with the cluster, if the request asks for them."""
    if not getattr(request, "include_cluster_authorized_operations", False):
        return _NO_OPERATIONS
    if not call.gateway.rights.enforced:
        return _ALL_CLUSTER_OPERATIONS
    return sum(1 << bit for bit, operation in _CLUSTER_OPERATIONS if call.allows(operation, "cluster", CLUSTER))


def _leaders(call: KafkaCall) -> int:
    return node_id(call.gateway.settings.gateway_id)


async def _all(call: KafkaCall) -> list[TopicState]:
    found: list[TopicState] = []
    after: str | None = ""
    while after is not None:
        page = await call.engine.administration.page(
            "", after, PAGE, lambda name: call.allows("Describe", "topic", name)
        )
        found += page.topics
        after = page.next_after
    return found


async def _named(
    call: KafkaCall,
    asked: Sequence[tuple[uuid.UUID | None, str | None]],
    leaders: Leaders,
    *,
    operations: bool,
    creates: bool = False,
) -> list[_TopicEntry]:
    names = [await call.known_topics.name(topic_id) if name is None else name for topic_id, name in asked]
    known = [name for name in names if name is not None]
    looked = await look_up_topics(call, known, call.engine.clock.monotonic_ms() - AGE_MS)
    if creates:
        looked = await create_missing(call, looked)
    return [
        _missing(KafkaError.unknown_topic_id, None, topic_id)
        if name is None
        else _one(call, name, topic_id, looked[name], leaders, operations=operations)
        for name, (topic_id, _) in zip(names, asked, strict=True)
    ]


def _one(
    call: KafkaCall,
    name: str,
    topic_id: uuid.UUID | None,
    found: OpenTopic | TidelogError,
    leaders: Leaders,
    *,
    operations: bool,
) -> _TopicEntry:
    try:
        call.require("Describe", "topic", name)
        check_topic_name(name)
        if isinstance(found, TidelogError):
            raise found
        state = found.require_state()
    except UnknownTopic:
        return _missing(KafkaError.unknown_topic_or_partition, name, topic_id)
    except RequestRefused as error:
        return _missing(kafka_error(error), name, topic_id)
    except TidelogError:
        return _missing(KafkaError.leader_not_available, name, topic_id)
    if topic_id is not None and topic_id != uuid.UUID(state.topic_id):
        return _missing(KafkaError.unknown_topic_id, None, topic_id)
    return _describe(call, state, leaders, operations=operations)


def _missing(error: KafkaError, name: str | None, topic_id: uuid.UUID | None) -> dict[str, Any]:
    return {"error_code": error, "name": name, "topic_id": topic_id, "partitions": ()}


def _describe(call: KafkaCall, state: TopicState, leaders: Leaders, *, operations: bool) -> DescribedTopic:
    topic_id = call.known_topics.remember_id(state)
    assert topic_id is not None
    bits = _operations(call, state.topic) if operations else _NO_OPERATIONS
    near = leaders.near(state.topic)
    return DescribedTopic(state.topic, topic_id, state.partition_count, leaders.of(state), bits, near)


def _operations(call: KafkaCall, topic: str) -> int:
    return sum(
        1 << code for code, needs in _OPERATIONS.items() if all(call.allows(one, "topic", topic) for one in needs)
    )


async def _encode_topics(call: KafkaCall, told: Sequence[_TopicEntry]) -> list[bytes]:
    """Return each topic's bytes, and reserve their memory for the answer."""
    made, left = [], STEP_PARTITIONS
    for topic in told:
        if isinstance(topic, DescribedTopic):
            make = partial(_topic_bytes, call, topic)
            made.append(call.caches.encoded_topics.find_or_encode(call.version, topic, make))
            left -= topic.partition_count
        else:
            made.append(_topic_bytes(call, topic))
            left -= 1
        if left <= 0:
            left = STEP_PARTITIONS
            await asyncio.sleep(0)
    try:
        size = sum(map(len, made))
        call.reservations.append(
            await call.answer_memory.reserve_in_turn(size, wait_ms=MEMORY_WAIT_MS, waiting_max=10_000)
        )
    except BackOff as error:
        raise CloseConnection("no memory for metadata") from error
    return made


def _topic_bytes(call: KafkaCall, topic: _TopicEntry) -> bytes:
    if isinstance(topic, DescribedTopic):
        topic = {
            "error_code": KafkaError.none,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": False,
            "partitions": partitions_of(topic),
            "topic_authorized_operations": topic.operations,
        }
    whole = call.answer(brokers=(), cluster_id=None, controller_id=-1, topics=[topic], error_code=KafkaError.none)
    return encode_body(whole.topics[0])


async def describe_topic_partitions(call: KafkaCall, request: Any) -> Answer:
    """Answer with topics by name, up to a number of partitions. The cursor of the answer says where the next request
    continues."""
    leaders = Leaders(call.engine.groups.ownership, advertised_brokers(call), _leaders(call))
    cursor = request.cursor
    names = sorted({one.name for one in request.topics}) or [state.topic for state in await _all(call)]
    start = (cursor.topic_name, cursor.partition_index) if cursor is not None else ("", 0)
    left = min(max(1, request.response_partition_limit), PARTITIONS_MAX)
    topics: list[dict[str, Any]] = []
    for name in names:
        if name < start[0]:
            continue
        if not left:
            return call.answer(topics=topics, next_cursor={"topic_name": name, "partition_index": 0})
        (topic,) = await _named(call, [(None, name)], leaders, operations=True)
        if not isinstance(topic, DescribedTopic):
            topics.append(topic)
            continue
        first = start[1] if name == start[0] else 0
        last = min(topic.partition_count, first + left)
        left -= max(0, last - first)
        topics.append(
            {
                "error_code": KafkaError.none,
                "name": name,
                "topic_id": topic.topic_id,
                # Java's tools fail on null.
                "partitions": [
                    one | {"eligible_leader_replicas": (), "last_known_elr": ()}
                    for one in partitions_of(topic, first, last)
                ],
                "topic_authorized_operations": topic.operations,
            }
        )
        if last < topic.partition_count:
            return call.answer(topics=topics, next_cursor={"topic_name": name, "partition_index": last})
    return call.answer(topics=topics, next_cursor=None)
