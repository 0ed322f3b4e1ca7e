"""Answers to Produce. kio encodes the answer of one partition without an error, the usual one, once; later only numbers
change."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

from gateway.kafka.call import Encoded
from gateway.kafka.calls.produce_stages import PartitionAnswer, RequestedPartition
from gateway.kafka.wire.entities import make_entity
from gateway.kafka.wire.messages import encode_body, response_type

PRODUCE: Final = 0
TEMPLATES_MAX: Final = 4_096
"""Most cached templates, of some hundred bytes each."""
_INT64: Final = struct.Struct(">q")
_BASE_OFFSET: Final = 0x1F2E3D4C5B6A7988
_LOG_START: Final = 0x1817161514131211
"""Placeholders of the numbers in a template. After the first, an answer has no byte that a client chose."""


def answer_fields(part: PartitionAnswer) -> dict[str, Any]:
    """Return one partition's answer, by the field names of the newest version."""
    told = {} if part.refused is None else part.refused.records
    return {
        "index": part.partition.index,
        "error_code": part.error,
        "base_offset": part.base_offset,
        "log_append_time": part.append_time_ms,
        "log_start_offset": part.log_start,
        "record_errors": [
            {"batch_index": partition, "batch_index_error_message": what} for partition, what in told.items()
        ],
        "error_message": None if part.refused is None else part.refused.message,
    }


def encode_single_answer(version: int, part: PartitionAnswer) -> Encoded:
    """Return the answer of a request with one partition that has no error and no append time. The client need not pause."""
    template, at, log_start_at = _template(version, part.partition)
    body = bytearray(template)
    _INT64.pack_into(body, at, part.base_offset)
    if log_start_at > 0:
        _INT64.pack_into(body, log_start_at, part.log_start)
    return Encoded((bytes(body),))


@lru_cache(TEMPLATES_MAX)
def _template(version: int, partition: RequestedPartition) -> tuple[bytes, int, int]:
    """Return the body, the index of its base offset, and that of its log start (-1 for older versions, which have none)."""
    answered = PartitionAnswer(partition, base_offset=_BASE_OFFSET, log_start=_LOG_START)
    partitions = [answer_fields(answered)]
    responses = [{"name": partition.topic, "topic_id": partition.topic_id, "partition_responses": partitions}]
    body = encode_body(make_entity(response_type(PRODUCE, version), {"responses": responses, "throttle_time": 0}))
    at = body.rindex(_INT64.pack(_BASE_OFFSET))
    return body, at, body.find(_INT64.pack(_LOG_START), at + _INT64.size)
