"""The bytes of a fetch's answer, encoded by hand: an answer may have thousands of partitions, and kio takes 50 us for each.

The bytes that are the same in all partitions (no aborted transactions, no preferred replica, no tagged fields) are cut out of
kio's encoding of one partition. Source: Kafka's ``FetchResponse.json``.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import KafkaCall
from gateway.kafka.encoded_batches import Parts
from gateway.kafka.fetch_sessions import TopicKey
from gateway.kafka.wire.entities import make_entity
from gateway.kafka.wire.messages import encode_body, encode_count, encode_with_field, response_type

FETCH: Final = 1
TOPIC_ID_VERSION_MIN: Final = 13
FLEXIBLE_VERSION_MIN: Final = 12
_JOINED_BYTES_MAX: Final = 4 * 1024
"""Size up to which parts of an answer are joined; larger ones are sent as they are."""
_WITHOUT_LOG_START: Final = struct.Struct(">ihqq")
_NODE: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihqqq")
"""Partition, error, high watermark, last stable offset, log start."""


class PartitionResult(NamedTuple):
    """A partition's result."""

    partition: int
    error: KafkaError
    high_watermark: int
    log_start: int
    batches: Parts = ()
    preferred_node_id: int = -1
    """Node id of another broker from which the client should read; -1 if there is none."""


def encode_answer(
    call: KafkaCall, session_id: int, topics: Sequence[tuple[TopicKey, Sequence[PartitionResult]]]
) -> Parts:
    """Encode the whole answer, in parts."""
    version = call.version
    pieces: list[bytes | memoryview] = []
    for topic, partitions in topics:
        pieces.append(
            _topic(version, topic) + encode_count(len(partitions), is_flexible=version >= FLEXIBLE_VERSION_MIN)
        )
        for one in partitions:
            pieces.append(_partition(version, one))
            pieces += one.batches
            pieces.append(_no_tags(version))
        pieces.append(_no_tags(version))
    empty = call.answer(error_code=KafkaError.none, session_id=session_id, responses=())
    return _join_small(encode_with_field(empty, len(topics), pieces))


def _topic(version: int, topic: TopicKey) -> bytes:
    if version >= TOPIC_ID_VERSION_MIN:
        return topic.bytes if isinstance(topic, uuid.UUID) else bytes(16)
    name = str(topic).encode()
    if version >= FLEXIBLE_VERSION_MIN:
        return encode_count(len(name), is_flexible=True) + name
    return struct.pack(">h", len(name)) + name


def _partition(version: int, one: PartitionResult) -> bytes:
    """Encode a partition up to its records."""
    stable = -1 if one.error is not KafkaError.none else one.high_watermark
    fields = (one.partition, one.error.value, one.high_watermark, stable)
    head = _WITHOUT_LOG_START.pack(*fields) if version < 5 else _HEAD.pack(*fields, one.log_start)
    size = sum(map(len, one.batches))
    middle = _fields_before_records(version)
    if one.preferred_node_id >= 0:
        middle = middle[: -_NODE.size] + _NODE.pack(one.preferred_node_id)
    return head + middle + encode_count(size, is_flexible=version >= FLEXIBLE_VERSION_MIN)


def _no_tags(version: int) -> bytes:
    """Encode an empty list of tagged fields."""
    return b"\0" if version >= FLEXIBLE_VERSION_MIN else b""


@cache
def _fields_before_records(version: int) -> bytes:
    """Return the bytes between the log start and the records."""
    values = {"partition_index": 0, "error_code": KafkaError.none, "high_watermark": 0, "aborted_transactions": None}
    topic = {"topic": "", "topic_id": None, "partitions": [values | {"records": b"", "preferred_read_replica": -1}]}
    whole = {"throttle_time": 0, "error_code": KafkaError.none, "session_id": 0, "responses": [topic]}
    partition = make_entity(response_type(FETCH, version), whole).responses[0].partitions[0]
    head = _WITHOUT_LOG_START if version < 5 else _HEAD
    behind = len(encode_count(0, is_flexible=version >= FLEXIBLE_VERSION_MIN)) + len(_no_tags(version))
    return encode_body(partition)[head.size : -behind]


def _join_small(parts: Parts) -> Parts:
    found: list[bytes | memoryview] = []
    small: list[bytes | memoryview] = []
    for part in parts:
        if len(part) <= _JOINED_BYTES_MAX:
            small.append(part)
            continue
        if small:
            found.append(b"".join(small))
            small = []
        found.append(part)
    if small:
        found.append(b"".join(small))
    return found
