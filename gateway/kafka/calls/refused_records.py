"""Refusal of records by a topic's settings, with a message for each record (KIP-467), so that a producer learns which are at
fault.

Source: Kafka's ``LogValidator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from kio.schema.errors import ErrorCode as KafkaError

from log_format.records.single import SingleRecord
from log_format.records.timestamps import timestamps_ms
from log_format.topic.config import AcceptedTimes, TopicConfig

RECORD_ERRORS_MAX: Final = 1_000
"""Most records of a batch that are named. Clients report the others as records that failed only because of their batch."""


class RefusedRecords(NamedTuple):
    """Why a batch is refused; ``records``: messages by the record's index in the batch."""

    error: KafkaError
    message: str
    records: Mapping[int, str] = MappingProxyType({})


def check_records(
    records: pa.Table | SingleRecord, config: TopicConfig, largest_bytes: int, now_ms: int
) -> RefusedRecords | None:
    """Check the records against the topic's settings.

    Args:
        records: Of one batch.
        config: The topic's settings.
        largest_bytes: Size of the largest record.
        now_ms: Time of day, also the timestamp of records without one.

    Returns:
        Why the batch is refused; None if it is accepted.
    """
    limit = config.integer("max.message.bytes")
    if largest_bytes > limit:
        return RefusedRecords(KafkaError.message_too_large, f"A record is larger than max.message.bytes, {limit}.")
    if config.needs_keys and len(lacking := _find_missing_keys(records)):
        what = "A record without a key can't be in a topic whose cleanup.policy has compact."
        return refuse_some(KafkaError.invalid_record, what, {int(index): what for index in lacking[:RECORD_ERRORS_MAX]})
    accepted = config.accepted_times(now_ms)
    if accepted is None:
        return None
    times = _times(records, now_ms)
    outside = accepted.outside(times)
    if not len(outside):
        return None
    told = {int(index): _time_error(int(times[index]), accepted) for index in outside[:RECORD_ERRORS_MAX]}
    return refuse_some(KafkaError.invalid_timestamp, "A record's timestamp is out of range.", told)


def refuse_some(error: KafkaError, what: str, records: Mapping[int, str]) -> RefusedRecords:
    """Return the refusal of a batch for some of its records: messages by their index."""
    return RefusedRecords(error, f"The batch was refused for some of its records. {what}", records)


def _time_error(time_ms: int, accepted: AcceptedTimes) -> str:
    return f"The timestamp {time_ms} is out of range: {accepted}."


def _find_missing_keys(records: pa.Table | SingleRecord) -> np.ndarray:
    if isinstance(records, SingleRecord):
        return np.zeros(int(records.key is None), np.int64)
    keys = records.column("key")
    if not keys.null_count:
        return np.zeros(0, np.int64)
    return np.flatnonzero(keys.is_null().to_numpy())


def _times(records: pa.Table | SingleRecord, now_ms: int) -> np.ndarray:
    if isinstance(records, SingleRecord):
        return np.array([now_ms if records.timestamp_ms is None else records.timestamp_ms], np.int64)
    return timestamps_ms(records, now_ms)
