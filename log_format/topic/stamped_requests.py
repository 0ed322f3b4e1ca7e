"""Idempotent requests in a topic's commits, and what a commit makes of the memory of producers.

A request without records is a ``txn`` ``empty-request-<producer id>-<epoch>`` whose version is the sequence; others are in the
tags of segments and commits (``segment_tags``).
"""

from __future__ import annotations

import re
from typing import Final

from log_format.delta.actions import Commit, Txn
from log_format.topic.config import TopicConfig
from log_format.topic.producer_id import is_numbered
from log_format.topic.producers import Producers, ProducerStamp, StampedBatch
from log_format.topic.segment_tags import TAG_FORGOTTEN, decode_spent_producers, decode_stamped_batches

EMPTY_REQUEST_APP_ID: Final = "empty-request-"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_TIME: Final = re.compile(r"[0-9]{1,18}")


def empty_request(stamp: ProducerStamp, now_ms: int) -> Txn:
    """Return the ``txn`` of a request without records."""
    app_id = f"{EMPTY_REQUEST_APP_ID}{stamp.producer_id}-{stamp.epoch}"
    return Txn(app_id=app_id, version=stamp.sequence, last_updated=now_ms)


def producers_after(commit: Commit, producers: Producers, config: TopicConfig) -> Producers:
    """Return the memory of producers after a commit to a topic with this ``config``. Raises ``CorruptData``."""
    stamped, spent = decode_stamped_requests(commit), decode_spent_producers(commit.tags)
    producers = producers.with_spent(spent) if spent else producers
    if stamped:
        times = [*(add.modification_time for add in commit.adds), *(txn.last_updated for txn in commit.txns)]
        used_ms = max([time for time in times if time is not None], default=commit.timestamp or 0)
        producers = producers.with_batches(stamped, used_ms, config.integer("producer.id.expiration.ms"))
    forgotten = commit.tags.get(TAG_FORGOTTEN, "")
    return producers.with_forgotten(int(forgotten)) if _TIME.fullmatch(forgotten) else producers


def decode_stamped_requests(commit: Commit) -> list[StampedBatch]:
    """Return the idempotent requests in a commit, with and without records. Raises ``CorruptData``."""
    stamped = decode_stamped_batches("", commit.tags)
    stamped += [
        batch for add in commit.adds if add.data_change for batch in decode_stamped_batches(add.path, add.tags or {})
    ]
    for txn in commit.txns:
        if txn.app_id.startswith(EMPTY_REQUEST_APP_ID):
            producer_id, _, epoch = txn.app_id.removeprefix(EMPTY_REQUEST_APP_ID).rpartition("-")
            if _NUMBER.fullmatch(epoch) and not is_numbered(producer_id):
                stamped.append(StampedBatch(ProducerStamp(producer_id, int(epoch), txn.version), ()))
    return stamped
