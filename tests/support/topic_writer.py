"""A topic that the format's own committer writes, as a gateway would."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.stores import open_store
from log_format.topic.append import Append, Batch
from log_format.topic.changes import CreateTopic, DeleteRecords, DeleteTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producers import ProducerStamp
from tests.support.records import records_of

Sent = tuple[int, int, bytes | None, bytes | None]
"""partition, timestamp in milliseconds, key, value"""


class TopicWriter:
    """One topic, as a gateway would write it: each ``append`` is one segment and one commit."""

    def __init__(self, store_uri: str, topic: str, *, partition_count: int = 2, config: dict[str, str] | None = None):
        self.log = TopicLog(open_store(store_uri), topic, SystemClock())
        self.committer = Committer(self.log, new_id=new_id)
        self.committer.commit(
            CreateTopic(
                name=topic, partition_count=partition_count, config=TopicConfig.parse(config or {}), topic_id=new_id()
            )
        )

    def append(self, records: Sequence[Sent], *, stamp: ProducerStamp | None = None) -> None:
        """One commit with these records, as the request of a producer if there is a stamp."""
        table = records_of([sent[3] for sent in records], [sent[2] for sent in records], [sent[1] for sent in records])
        self.append_table(table, [sent[0] for sent in records], stamp=stamp)

    def append_table(self, table: pa.Table, partitions: Sequence[int], *, stamp: ProducerStamp | None = None) -> None:
        """One commit with a table of ``BATCH_SCHEMA``."""
        topic_id = self.log.state.topic_id
        assert topic_id is not None
        batch = Batch(
            topic_id=topic_id,
            records=table,
            partitions=np.array(partitions, dtype=np.int32),
            record_bytes_max=1,
            stamp=stamp,
        )
        committed = self.committer.commit(Append([batch], new_id))
        assert not isinstance(committed.result[0], Exception)

    def delete_records(self, before: dict[int, int]) -> None:
        """One commit that moves log starts, and removes the segments that hold nothing to read any more."""
        self.committer.commit(DeleteRecords(before=before))

    def delete(self) -> None:
        """One commit that deletes the topic."""
        self.committer.commit(DeleteTopic())


def new_id() -> str:
    return uuid.uuid4().hex
