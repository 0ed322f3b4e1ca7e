"""Prediction of how many records a change of a topic's settings removes with the next round of maintenance."""

from __future__ import annotations

import time
from collections.abc import Mapping

from log_format.errors import RequestRefused
from log_format.topic.config import SETTINGS, TopicConfig
from log_format.words import counted
from tidelog.admin import Admin
from tidelog.cli.terminal.units import in_words
from tidelog.types.topic import Topic

_RETENTION = ("retention.ms", "retention.bytes", "cleanup.policy")


def expiry_warning(admin: Admin, topic: str, changes: Mapping[str, int | str | None]) -> str | None:
    """Return a description of the records that these settings remove, if that is half of the topic's records or more; else
    None.

    Raises ``UnknownTopic``. Settings that the gateway will refuse remove nothing.
    """
    if not any(name in changes for name in _RETENTION):
        return None
    found = admin.describe_topic(topic)
    known = {name: value for name, value in found.config.items() if name in SETTINGS}
    try:
        before = TopicConfig.parse(known)
        after = before.altered(changes)
    except RequestRefused:
        return None
    if not after.deletes_old:
        return None
    records = sum(each.high_watermark - each.log_start_offset for each in found.partitions)
    for name in ("retention.ms", "retention.bytes"):
        limit, limit_before = after.integer(name), before.integer(name)
        if limit < 0 or (0 <= limit_before <= limit and before.deletes_old):
            continue
        removed = _older(admin, found, limit) if name == "retention.ms" else _beyond(found, limit)
        if removed and removed * 2 >= records:
            return (
                f"{name}={in_words(name, limit)} would remove about {removed:,} of {counted(records, 'record')} of topic {topic} "
                "at the next round of maintenance"
            )
    return None


def _older(admin: Admin, topic: Topic, retention_ms: int) -> int:
    """Return the number of records before the first one within the retention time."""
    since_ms = max(0, int(time.time() * 1000) - retention_ms)
    found = admin.offsets(topic.name, range(topic.partition_count), timestamp_ms=since_ms)
    return sum(
        (each.high_watermark if each.offset is None else each.offset) - each.log_start_offset for each in found.values()
    )


def _beyond(topic: Topic, retention_bytes: int) -> int:
    """Return the number of records above the size limit, assuming that all records of a partition have the same size."""
    removed = 0
    for each in topic.partitions:
        if each.size_bytes > retention_bytes:
            share = 1 - retention_bytes / each.size_bytes
            removed += int((each.high_watermark - each.log_start_offset) * share)
    return removed
