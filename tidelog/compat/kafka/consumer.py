"""``KafkaConsumer``, over the SDK's consumer, which is made anew with each subscription."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tidelog.closing import Closing
from tidelog.compat.kafka.errors import IllegalStateError, KafkaConfigurationError, KafkaError, translated
from tidelog.compat.kafka.settings import CONSUMER, connection_of, renamed
from tidelog.compat.kafka.structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, theirs
from tidelog.consumer.consumer import Consumer
from tidelog.types import record as sdk
from tidelog.types.group import GroupMetadata
from tidelog.types.record import Record

_SAME = {
    "auto_commit_interval_ms": "auto_commit_interval_ms",
    "client_id": "client_id",
    "fetch_max_bytes": "fetch_max_bytes",
    "group_id": "group",
    "group_instance_id": "instance_id",
    "max_poll_records": "max_poll_records",
    "request_timeout_ms": "request_timeout_ms",
}
_RESETS = {"smallest": "earliest", "largest": "latest"}
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], object], object]


class ConsumerRebalanceListener(Protocol):
    """What is told when partitions come and go."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Before others get them."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Before they are read."""


class KafkaConsumer(Closing):
    """Reads topics, alone or in a group. Settings, methods and defaults are kafka-python's: it begins at ``latest``.

    Only committed records are read, whatever ``isolation_level`` says. A deserializer is not called for what is null.
    For one thread at a time.
    """

    def __init__(self, *topics: str, **configs: Any) -> None:
        """Raises ``KafkaConfigurationError`` for a setting that has no meaning here."""
        connection = connection_of(CONSUMER, configs)
        reset = configs.get("auto_offset_reset") or "latest"
        session_ms = configs.get("session_timeout_ms") or 45_000
        self._settings = {
            **connection,
            **renamed(configs, _SAME),
            "auto_offset_reset": _RESETS.get(reset, reset),
            "enable_auto_commit": configs.get("enable_auto_commit", True) is not False,
            # Here one time is both: how long a member may be silent, and how long between two polls.
            "session_timeout_ms": min(1_800_000, max(session_ms, configs.get("max_poll_interval_ms") or session_ms)),
            "assignor": _assignor(configs.get("partition_assignment_strategy")),
            "fetch_max_bytes": min(configs.get("fetch_max_bytes") or 16_777_216, 67_108_864),
        }
        self._deserializers = configs.get("key_deserializer"), configs.get("value_deserializer")
        timeout_ms = configs.get("consumer_timeout_ms")
        self._timeout_ms = None if timeout_ms is None or timeout_ms == float("inf") else float(timeout_ms)
        self._group_id: str | None = configs.get("group_id")
        self._topics: set[str] | None = None
        self._consumer = self._made((), None, None)
        if topics:
            self.subscribe(topics)

    # What is read

    def subscribe(
        self, topics: Sequence[str] = (), pattern: str | None = None, listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Read these topics, or those whose name ``pattern`` matches at its beginning, instead of what was read before."""
        if isinstance(topics, str):
            raise TypeError("Topics must be a list (or non-str sequence)")
        if pattern is not None and self._group_id is None:
            raise IllegalStateError("a pattern needs a group_id here")
        if self._topics is None and self._consumer.assignment():
            raise IllegalStateError("subscribe does not go with assign: unsubscribe first")
        self._consumer.close()
        self._consumer = self._made(topics, pattern, listener)
        self._topics = set(topics) if pattern is None else {pattern}

    def unsubscribe(self) -> None:
        """Read nothing."""
        self._consumer.close()
        self._topics = None
        self._consumer = self._made((), None, None)

    def subscription(self) -> set[str] | None:
        """The topics; None: there are none."""
        return None if self._topics is None else set(self._topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, outside of the group's sharing."""
        if self._topics is not None:
            raise IllegalStateError("assign does not go with subscribe: unsubscribe first")
        self._consumer.assign([_ours(place) for place in partitions])

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return {theirs(place) for place in self._consumer.assignment()}

    # Reading

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records by partition; waits up to ``timeout_ms`` for the first of them."""
        if not update_offsets:
            raise KafkaConfigurationError("poll(update_offsets=False) is not to be had: seek back instead")
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        with translated():
            for record in self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records):
                found.setdefault(TopicPartition(record.topic, record.partition), []).append(self._record(record))
        return found

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records without end, or until none came for ``consumer_timeout_ms``."""
        records = iter(self._consumer)
        while True:
            with translated():
                record = next(records, None)
            if record is None:
                return
            yield self._record(record)

    def __next__(self) -> ConsumerRecord:
        """The next record."""
        for record in self:
            return record
        raise StopIteration

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at ``offset``."""
        with self._checked():
            self._consumer.seek(_ours(partition), offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the log starts; none named: of all."""
        with self._checked():
            self._consumer.seek_to_beginning(*map(_ours, partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on at the ends; none named: of all."""
        with self._checked():
            self._consumer.seek_to_end(*map(_ours, partitions))

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The next offset that is read."""
        del timeout_ms
        with self._checked():
            return self._consumer.position(_ours(partition))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these until ``resume``."""
        with self._checked():
            self._consumer.pause(*map(_ours, partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return them again."""
        with self._checked():
            self._consumer.resume(*map(_ours, partitions))

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return {theirs(place) for place in self._consumer.paused()}

    # What the group has committed

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit these, or the positions, for the group."""
        del timeout_ms
        with translated():
            if offsets is None:
                self._consumer.commit()
                return
            for place, offset in offsets.items():
                metadata = offset.metadata or None
                self._consumer.commit({_ours(place): offset.offset}, metadata=metadata)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """As ``commit``, at once; ``callback`` gets the offsets, and the error or None."""
        positions = self._consumer.positions()
        meant = dict(offsets or {theirs(place): OffsetAndMetadata(offset) for place, offset in positions.items()})
        error: KafkaError | None = None
        try:
            self.commit(offsets)
        except KafkaError as failure:
            error = failure
        if callback is not None:
            callback(meant, error)

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """What the group has committed for a partition; None: nothing."""
        del timeout_ms
        with translated():
            offset = self._consumer.committed(_ours(partition))[_ours(partition)]
        return offset if offset is None or not metadata else OffsetAndMetadata(offset)

    def group_metadata(self) -> GroupMetadata:
        """For ``KafkaProducer.send_offsets_to_transaction``."""
        return self._consumer.group_metadata()

    # The log

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The log start of each."""
        del timeout_ms
        with translated():
            found = self._consumer.beginning_offsets([_ours(place) for place in partitions])
        return {theirs(place): offset for place, offset in found.items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each."""
        del timeout_ms
        with translated():
            found = self._consumer.end_offsets([_ours(place) for place in partitions])
        return {theirs(place): offset for place, offset in found.items()}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset behind the last record of an assigned partition, asked for now."""
        return self.end_offsets([partition])[partition] if partition in self.assignment() else None

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time. Its own time is not asked for: ``timestamp`` is the one that was given."""
        del timeout_ms
        with translated():
            found = self._consumer.offsets_for_times({_ours(place): time for place, time in timestamps.items()})
        return {
            place: None if (offset := found[_ours(place)]) is None else OffsetAndTimestamp(offset, time)
            for place, time in timestamps.items()
        }

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partitions; None: there is no such topic."""
        with contextlib.suppress(KafkaError), translated():
            return self._consumer.partitions_for_topic(topic)
        return None

    def topics(self) -> set[str]:
        """The names of all topics."""
        with translated():
            return self._consumer.topics()

    def bootstrap_connected(self) -> bool:
        """True: a client connects with its first call."""
        return True

    def metrics(self, raw: bool = False) -> dict[str, Any]:
        """Empty: the gateway has them, at ``/metrics``."""
        del raw
        return {}

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group, after a last commit where that is automatic."""
        del timeout_ms
        if autocommit or not self._settings["enable_auto_commit"]:
            self._consumer.close()
        else:
            self._consumer.__exit__(KafkaError, None, None)

    def _made(self, topics: Sequence[str], pattern: str | None, listener: ConsumerRebalanceListener | None) -> Consumer:
        key, value = self._deserializers
        told = {} if listener is None else _told(listener)
        # Of kafka-python patterns match a name's beginning; here the whole name.
        found = None if pattern is None else f"(?:{pattern}).*"
        settings = dict(self._settings)
        if self._group_id is None:
            for name in ("instance_id", "assignor", "enable_auto_commit"):
                settings.pop(name, None)
        try:
            return Consumer(
                *topics,
                topic_pattern=found,
                consumer_timeout_ms=self._timeout_ms,
                key_deserializer=None if key is None else _plain(key),
                value_deserializer=None if value is None else _plain(value),
                **told,
                **settings,
            )
        except (ValueError, TypeError) as error:
            raise KafkaConfigurationError(str(error)) from error

    def _record(self, record: Record) -> ConsumerRecord:
        return ConsumerRecord(
            record.topic,
            record.partition,
            -1,
            record.offset,
            record.timestamp_ms,
            0,
            record.key,
            record.value,
            list(record.headers),
            None,
            _size(record.key),
            _size(record.value),
            sdk.headers_bytes(record.headers) if record.headers else -1,
        )

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            with translated():
                yield
        except KeyError as error:
            raise IllegalStateError(f"{error.args[0]} is not assigned") from error


def _ours(place: TopicPartition) -> sdk.TopicPartition:
    return sdk.TopicPartition(*place[:2])


def _size(data: object) -> int:
    """Of what was stored; -1 where a deserializer has made something else of it."""
    return len(data) if isinstance(data, bytes) else -1


def _plain(deserializer: Any) -> Callable[[bytes], Any]:
    """A function of the bytes; of kafka-python's objects with an empty topic, since a value is read without its place."""
    if hasattr(deserializer, "deserialize"):
        return lambda data: deserializer.deserialize("", None, data)
    function: Callable[[bytes], Any] = deserializer
    return function


def _told(listener: ConsumerRebalanceListener) -> dict[str, Any]:
    return {
        "on_revoked": lambda places: listener.on_partitions_revoked({theirs(place) for place in places}),
        "on_lost": lambda places: listener.on_partitions_revoked({theirs(place) for place in places}),
        "on_assigned": lambda places: listener.on_partitions_assigned({theirs(place) for place in places}),
    }


def _assignor(given: Sequence[Any] | None) -> str:
    """The first of kafka-python's strategies that there is here: by its class's name."""
    for each in given or ():
        name = str(getattr(each, "name", each)).lower()
        for ours in ("range", "roundrobin", "sticky"):
            if ours in name:
                return ours
    return "range"
