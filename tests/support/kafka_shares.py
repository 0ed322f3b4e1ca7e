"""A member of a share group that speaks Kafka's protocol by hand, and the memory that share groups count."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from aiokafka.record.memory_records import MemoryRecords

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway

WAIT_SECONDS = 20
NONE, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Key = tuple[Any, int]
Batch = tuple[int, int, Sequence[int]]
"""First and last offset, and types: one, or one for each."""


class Shared(NamedTuple):
    """A record as it was acquired."""

    partition: int
    offset: int
    value: bytes
    deliveries: int
    timestamp: int
    is_append_time: bool
    """Whether the batch says that the gateway set the time, as aiokafka reads it."""


class Fetched(NamedTuple):
    """An answer to ShareFetch. ``acknowledged``: codes by partition."""

    error: int
    lock_ms: int
    records: list[Shared]
    errors: dict[int, int]
    acknowledged: dict[int, int]


class ShareMember:
    """``version``: of ShareFetch and ShareAcknowledge. ``epoch``: of its session, as it goes on by itself."""

    def __init__(self, address: str, group: str, topic_id: Any, partitions: int = 1, version: int = 2) -> None:
        self.wire = Wire(address)
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.topic_id = topic_id
        self.partitions = range(partitions)
        self.version = version
        self.epoch = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.socket.close()

    def beat(self, epoch: int, topics: Sequence[str] | None = None) -> Any:
        return self.wire.call(
            "share_group_heartbeat",
            1,
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        )

    def fetch(self, acknowledged: Mapping[int, Sequence[Batch]] | None = None, **more: Any) -> Fetched:
        """See ``ask_to_fetch``."""
        self.ask_to_fetch(acknowledged, **more)
        return self.fetched()

    def fetched(self) -> Fetched:
        """The answer to the fetch that was asked for last."""
        return _fetched(self.wire.answer("share_fetch", self.version))

    def ask_to_fetch(
        self,
        acknowledged: Mapping[int, Sequence[Batch]] | None = None,
        *,
        max_records: int = 500,
        max_wait_ms: int = 0,
        epoch: int | None = None,
        renews: bool = False,
        **more: Any,
    ) -> None:
        epoch = self._next_epoch(epoch)
        acknowledged = acknowledged or {}
        wanted = self.partitions if epoch == 0 else acknowledged
        self.wire.ask(
            "share_fetch",
            self.version,
            **{
                "group_id": self.group,
                "member_id": self.member_id,
                "share_session_epoch": epoch,
                "max_wait": max_wait_ms,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": max_records,
                "batch_size": max_records,
                "share_acquire_mode": 0,
                "is_renew_ack": renews,
                "topics": self._topics(wanted, acknowledged),
                "forgotten_topics_data": (),
            }
            | more,
        )

    def acknowledge(
        self, acknowledged: Mapping[int, Sequence[Batch]], *, epoch: int | None = None, renews: bool = False
    ) -> tuple[int, dict[int, int]]:
        """The code of the whole, and codes by partition."""
        answer = self.wire.call(
            "share_acknowledge",
            self.version,
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._next_epoch(epoch),
            is_renew_ack=renews,
            topics=self._topics(acknowledged, acknowledged),
        )
        return answer.error_code, {
            one.partition_index: one.error_code for topic in answer.responses for one in topic.partitions
        }

    def _next_epoch(self, given: int | None) -> int:
        if given is not None:
            self.epoch = given + 1
            return given
        self.epoch += 1
        return self.epoch - 1

    def _topics(self, wanted: Any, acknowledged: Mapping[int, Sequence[Batch]]) -> list[dict[str, Any]]:
        partitions = [
            {
                "partition_index": number,
                "acknowledgement_batches": [
                    {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                    for first, last, types in acknowledged.get(number, ())
                ],
            }
            for number in wanted
        ]
        return [{"topic_id": self.topic_id, "partitions": partitions}] if partitions else []


def _fetched(answer: Any) -> Fetched:
    records: list[Shared] = []
    errors, acknowledged = {}, {}
    for topic in answer.responses:
        for one in topic.partitions:
            errors[one.partition_index] = one.error_code
            acknowledged[one.partition_index] = one.acknowledge_error_code
            counts = {
                offset: ranged.delivery_count
                for ranged in one.acquired_records
                for offset in range(ranged.first_offset, ranged.last_offset + 1)
            }
            found = _records(one.partition_index, bytes(one.records or b""), counts)
            assert {record.offset for record in found} == set(counts), "every acquired offset is a record"
            records += found
    lock_ms = round(answer.acquisition_lock_timeout.total_seconds() * 1000)
    return Fetched(answer.error_code, lock_ms, records, errors, acknowledged)


def _records(partition: int, data: bytes, counts: Mapping[int, int]) -> list[Shared]:
    found = []
    batches = MemoryRecords(data)
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        found += [
            Shared(
                partition,
                record.offset,
                record.value,
                counts[record.offset],
                record.timestamp,
                record.timestamp_type == 1,
            )
            for record in batch
            if record.offset in counts
        ]
    return found


def topic_id(gateway: KafkaGateway, topic: str) -> Any:
    with Wire(gateway.kafka) as wire:
        asked = [{"name": topic, "topic_id": None}]
        answer = wire.call("metadata", 12, topics=asked, include_topic_authorized_operations=False)
        return answer.topics[0].topic_id


def until(step: Callable[[], Fetched], *, count: int = 1) -> Fetched:
    deadline_s = time.monotonic() + WAIT_SECONDS
    while len((found := step()).records) < count:
        assert time.monotonic() < deadline_s, found
    return found


class Counted:
    """Memory of so many bytes."""

    def __init__(self, bytes_max: int = 1 << 30) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def has_room(self, more: int) -> bool:
        return self.used + more <= self.bytes_max

    def count_bytes(self, more: int) -> None:
        self.used += more
        assert self.used >= 0
