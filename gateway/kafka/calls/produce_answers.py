"""Answers to Produce. That of one partition with which all is well, as most are, kio writes once; then only numbers change."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import Encoded
from gateway.kafka.calls.refused_records import RefusedRecords
from gateway.kafka.wire.made import made
from gateway.kafka.wire.messages import encoded_body, response_type

PRODUCE: Final = 0
TEMPLATES_MAX: Final = 4_096
"""Some hundred bytes each."""
NO_TIME: Final = -1
_INT64: Final = struct.Struct(">q")
_BASE_OFFSET: Final = 0x1F2E3D4C5B6A7988
_LOG_START: Final = 0x1817161514131211
"""They stand where the numbers go. Behind the first an answer has no byte that a client chose."""


def partition_answer(
    index: int,
    error: KafkaError,
    base_offset: int,
    append_time_ms: int,
    log_start: int,
    *,
    refused: RefusedRecords | None = None,
) -> dict[str, Any]:
    """Of one partition, by the names of the newest version."""
    return {
        "index": index,
        "error_code": error,
        "base_offset": base_offset,
        "log_append_time": append_time_ms,
        "log_start_offset": log_start,
        "record_errors": [
            {"batch_index": place, "batch_index_error_message": what}
            for place, what in (() if refused is None else refused.records.items())
        ],
        "error_message": None if refused is None else refused.message,
    }


def lone_answer(
    version: int, topic: str | None, topic_id: UUID | None, index: int, *, base_offset: int, log_start: int
) -> Encoded:
    """Of one partition, without an error, a time of the log and a pause."""
    template, at, log_start_at = _template(version, topic, topic_id, index)
    body = bytearray(template)
    _INT64.pack_into(body, at, base_offset)
    if log_start_at > 0:
        _INT64.pack_into(body, log_start_at, log_start)
    return Encoded((bytes(body),))


@lru_cache(TEMPLATES_MAX)
def _template(version: int, topic: str | None, topic_id: UUID | None, index: int) -> tuple[bytes, int, int]:
    """The body, where its first offset is, and where its log start; -1: older versions have none."""
    partition = partition_answer(index, KafkaError.none, _BASE_OFFSET, NO_TIME, _LOG_START)
    responses = [{"name": topic, "topic_id": topic_id, "partition_responses": [partition]}]
    body = encoded_body(made(response_type(PRODUCE, version), {"responses": responses, "throttle_time": 0}))
    at = body.rindex(_INT64.pack(_BASE_OFFSET))
    return body, at, body.find(_INT64.pack(_LOG_START), at + _INT64.size)
