"""A topic that gateways write for themselves (``layout.OWN_TOPICS``): creates it if missing, and appends as a producer does.

Each append has a producer's stamp. After an error the caller appends the same records again: they get the same stamp, so they are
in the log once, whatever the outcome of the first try was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.engine.administration import Administration
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.producer_ids import PLAIN_EPOCH, ProducerIds
from gateway.problem import refused
from log_format.clock import Clock
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.records.schema import BATCH_SCHEMA, TIMESTAMP
from log_format.topic.append import Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.producers import ProducerStamp

_ALTERED: Final = frozenset({"retention.ms", "retention.bytes", "commit.mode"})
"""Settings that callers may alter: others could make the topic unwritable, or rewrite its records."""
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER, ErrorCode.SEQUENCE_OUT_OF_ORDER, ErrorCode.FENCED_PRODUCER})


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecord:
    """A record: time in milliseconds since the epoch, key, value, partition."""

    time_ms: int
    value: bytes
    key: bytes | None = None
    partition: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of key and value."""
        return len(self.value) + len(self.key or b"")


class OwnTopic:
    """One of the gateways' own topics. ``config``: the settings with which it is created. Used on the event loop only."""

    def __init__(
        self,
        name: str,
        topics: OpenTopics,
        administration: Administration,
        producer_ids: ProducerIds,
        *,
        clock: Clock,
        partition_count: int = 1,
        config: Mapping[str, object],
    ) -> None:
        self._name = name
        self._topics = topics
        self._administration = administration
        self._producer_ids = producer_ids
        self._clock = clock
        self._partition_count = partition_count
        self._config = config
        self._stamp: ProducerStamp | None = None
        """Stamp of the next append."""

    async def open(self) -> OpenTopic:
        """Return the topic, created if it is missing. Raise ``TidelogError``."""
        now_ms = self._clock.monotonic_ms()
        try:
            return await self._topics.for_append(self._name, now_ms)
        except UnknownTopic:
            config = self._administration.parse_config(self._config)
            with suppress(RequestRefused):  # another gateway created it, with another release's settings
                await self._administration.create(self._name, self._partition_count, config)
            return await self._topics.for_append(self._name, now_ms)

    async def append(self, records: list[OwnRecord]) -> bool:
        """Append the records, at least one, in one commit; return once they are in the log: False if an earlier try has appended
        them. Raise ``TidelogError``."""
        topic = await self.open()
        state = topic.require_state()
        if self._stamp is None:
            self._stamp = ProducerStamp(await self._producer_ids.issue(), PLAIN_EPOCH, 0)
        batch = Batch(
            topic_id=state.existing_id,
            records=_table(records),
            partitions=_partitions(records),
            record_bytes_max=max(record.size_bytes for record in records),
            partition_count=state.partition_count,
            stamp=self._stamp,
        )
        try:
            # Bypasses the check for draining: what the last requests did is written, too.
            done = await topic.appending.await_acknowledgement(topic.appending.submit(batch))
        except RequestRefused as refusal:
            if refusal.code in _FORGOTTEN:
                self._stamp = None
            raise
        self._stamp = self._stamp._replace(sequence=self._stamp.sequence + 1)
        return not isinstance(done, Duplicate)


def check_change(topic: str, config: Iterable[str]) -> None:
    """Raise ``RequestRefused`` (``INVALID_CONFIG``) for a setting of a gateways' own topic that callers may not alter."""
    for name in config:
        if name not in _ALTERED:
            what = f"is not altered for {topic}; {', '.join(sorted(_ALTERED))} are"
            raise refused(f"{name} {what}.", [(f"/config/{name}", what)], code=ErrorCode.INVALID_CONFIG)


def _partitions(records: list[OwnRecord]) -> npt.NDArray[np.int32]:
    return np.array([record.partition for record in records], np.int32)


def _table(records: list[OwnRecord]) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "timestamp": pa.array([record.time_ms * 1000 for record in records], TIMESTAMP),
        "key": pa.array([record.key for record in records], BATCH_SCHEMA.field("key").type),
        "value": pa.array([record.value for record in records], BATCH_SCHEMA.field("value").type),
        "headers": pa.nulls(len(records), BATCH_SCHEMA.field("headers").type),
    }
    return pa.table([columns[name] for name in BATCH_SCHEMA.names], schema=BATCH_SCHEMA)
