"""A topic that the format's own committer writes, without a gateway."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.records.schema import BATCH_SCHEMA
from log_format.topic.append import Append, Batch
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.state import TopicState

PARTITIONS = 8


def new_id() -> str:
    """Return a random id."""
    return uuid.uuid4().hex


class WrittenTopic:
    """A new topic; ``log`` reads it.

    Args:
        store: an object store.
        name: of the topic.
        partitions: their number.
        clock: of its commits; None: the system's.
        config: settings of the topic; defaults for all others.
    """

    def __init__(
        self,
        store: Any,
        name: str,
        *,
        partitions: int = PARTITIONS,
        clock: Any = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        self.log = TopicLog(store, name, SystemClock() if clock is None else clock)
        self._committer = Committer(self.log, new_id=new_id)
        created = TopicConfig.parse(dict(config or {}))
        self._committer.commit(CreateTopic(name=name, partition_count=partitions, config=created, topic_id=new_id()))

    def append(self, records: pa.Table, partitions: npt.NDArray[np.int32], record_bytes_max: int) -> TopicState:
        """Commit one flush, and return the state behind it.

        Args:
            records: as ``records_of`` makes them.
            partitions: of each record.
            record_bytes_max: the size of the largest record, in bytes.
        """
        batch = Batch(
            topic_id=self.log.state.topic_id or "",
            records=records,
            partitions=partitions,
            record_bytes_max=record_bytes_max,
        )
        return self._committer.commit(Append([batch], new_id)).state

    def alter(self, change: Any) -> None:
        """Commit another change of the topic."""
        self.log.refresh()
        self._committer.commit(change)


def records_of(
    values: Sequence[bytes] | pa.Array, keys: Sequence[bytes] | None = None, timestamp_ms: int = 0
) -> pa.Table:
    """Return records without headers, of these values."""
    count = len(values)
    columns = [
        pa.array([timestamp_ms * 1000] * count, BATCH_SCHEMA.field("timestamp").type),
        pa.nulls(count, pa.binary()) if keys is None else pa.array(keys, pa.binary()),
        values if isinstance(values, pa.Array) else pa.array(values, pa.binary()),
        pa.nulls(count, BATCH_SCHEMA.field("headers").type),
    ]
    return pa.table(columns, schema=BATCH_SCHEMA)
