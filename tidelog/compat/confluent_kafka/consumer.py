"""``Consumer``, over the SDK's consumer, which is made anew with each subscription."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from log_format.errors import TidelogError
from tidelog.closing import Closing
from tidelog.compat.confluent_kafka.errors import KafkaError, KafkaException, invalid, kafka_error, translated
from tidelog.compat.confluent_kafka.message import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    Message,
    TopicPartition,
    ours,
    theirs,
)
from tidelog.compat.confluent_kafka.metadata import ClusterMetadata, metadata_of
from tidelog.compat.confluent_kafka.settings import CONSUMER, connection_of, is_true, number, pattern_of, settings_of
from tidelog.consumer import consumer as sdk
from tidelog.types import record
from tidelog.types.group import GroupMetadata

OnRebalance = Callable[["Consumer", list[TopicPartition]], object]
OnCommit = Callable[[KafkaError | None, list[TopicPartition]], object]
_RESETS: Final = {
    **dict.fromkeys(("smallest", "beginning", "earliest"), "earliest"),
    **dict.fromkeys(("largest", "end", "latest"), "latest"),
    "error": "none",
}
_FOREVER_S: Final = 3600.0
"""One wait of a poll without a time-out; it goes on."""
_SESSION_MS: Final = 45_000
_POLL_MS: Final = 300_000
"""librdkafka's defaults."""


class Consumer(Closing):
    """Reads topics in a group. Settings and defaults are librdkafka's: it begins at ``latest``, and commits what was handed out.

    Only committed records are read, whatever ``isolation.level`` says. For one thread at a time.
    """

    def __init__(self, conf: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Raises ``KafkaException`` for a setting that has no meaning here, and without ``group.id``."""
        given = settings_of(CONSUMER, conf, more)
        if not given.get("group.id"):
            raise invalid("group.id must be set")
        if is_true(given, "enable.partition.eof", False):
            raise invalid("enable.partition.eof is not to be had: compare positions with get_watermark_offsets")
        self._connection = connection_of(given)
        self._stores_itself = is_true(given, "enable.auto.offset.store", True)
        commits = is_true(given, "enable.auto.commit", True)
        interval_ms = number(given, "auto.commit.interval.ms")
        session_ms = max(
            number(given, "session.timeout.ms") or _SESSION_MS, number(given, "max.poll.interval.ms") or _POLL_MS
        )
        self._settings: dict[str, Any] = {
            **self._connection,
            "group": given["group.id"],
            "client_id": given.get("client.id"),
            "instance_id": given.get("group.instance.id"),
            "auto_offset_reset": _RESETS.get(str(given.get("auto.offset.reset", "latest")), "?"),
            "enable_auto_commit": commits and self._stores_itself,
            "auto_commit_interval_ms": 5_000 if interval_ms is None else interval_ms,
            # Here one time is both: how long a member may be silent, and how long between two polls.
            "session_timeout_ms": int(min(session_ms, 1_800_000)),
            "assignor": _assignor(str(given.get("partition.assignment.strategy", "range"))),
        }
        self._on_commit: OnCommit | None = given.get("on_commit")
        self._stored: dict[record.TopicPartition, int] = {}
        self._commits_stored_s = (interval_ms or 5_000) / 1000 if commits and not self._stores_itself else None
        self._committed_at_s = time.monotonic()
        self._ready: deque[Message] = deque()
        self._consumer = self._made([], {})

    # What is read

    def subscribe(
        self,
        topics: list[str],
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
    ) -> None:
        """Read these topics instead of what was read before; one that begins with ``^`` is a pattern."""
        told = {"on_assigned": on_assign, "on_revoked": on_revoke, "on_lost": on_lost or on_revoke}
        self._consumer.close()
        self._ready.clear()
        self._consumer = self._made(topics, {name: self._telling(each) for name, each in told.items() if each})

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        self.subscribe([])

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these, from their offsets where they have some, outside of the group's sharing."""
        with translated():
            self._consumer.assign(ours(partitions))
            for place in partitions:
                if place.offset not in {OFFSET_INVALID, OFFSET_STORED}:
                    self._seek(place)

    def unassign(self) -> None:
        """Read nothing."""
        self.assign([])

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now."""
        return [theirs(place) for place in sorted(self._consumer.assignment())]

    def memberid(self) -> str | None:
        """The name of this member in its group."""
        return self._consumer.group_metadata().member_id

    # Reading

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next record, or what went wrong in its place; None: nothing came in ``timeout`` seconds."""
        return next(iter(self.consume(1, -1 if timeout is None else timeout)), None)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to so many records; waits until they are there, up to ``timeout`` seconds (-1: for ever)."""
        self._commit_stored()
        end_s = None if timeout < 0 else time.monotonic() + timeout
        found: list[Message] = []
        while len(found) < num_messages:
            left_s = _FOREVER_S if end_s is None else max(0.0, end_s - time.monotonic())
            try:
                records = self._consumer.poll(timeout_ms=left_s * 1000, max_records=num_messages - len(found))
            except TidelogError as error:
                found.append(_failed(error))
                break
            found += [_message(each) for each in records]
            if end_s is not None and time.monotonic() >= end_s:
                break
        return found

    def seek(self, partition: TopicPartition) -> None:
        """Go on at the partition's offset."""
        with translated():
            self._seek(partition)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Return no records of these until ``resume``."""
        with translated():
            self._consumer.pause(*ours(partitions))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Return them again."""
        with translated():
            self._consumer.resume(*ours(partitions))

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Behind the last record that was handed out; ``OFFSET_INVALID`` where there was none."""
        known = self._consumer.positions()
        return [theirs(place, known.get(place)) for place in ours(partitions)]

    # What the group has committed

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit behind a message, or these offsets, or what was handed out (or stored). Raises ``KafkaException``.

        Asynchronous or not, it is done when this returns; asynchronous, an error goes to ``on_commit``, else it is raised.
        """
        wanted = self._wanted(message, offsets)
        if not wanted:
            raise KafkaException(KafkaError(KafkaError._NO_OFFSET, "nothing to commit"))
        places = [theirs(place, offset) for place, offset in wanted.items()]
        try:
            self._consumer.commit(wanted)
        except TidelogError as failure:
            error = kafka_error(failure)
            if asynchronous and self._on_commit is not None:
                self._on_commit(error, places)
                return None
            raise KafkaException(error) from failure
        if self._on_commit is not None:
            self._on_commit(None, places)
        return None if asynchronous else places

    def committed(self, partitions: list[TopicPartition], timeout: float | None = None) -> list[TopicPartition]:
        """What the group has committed; ``OFFSET_INVALID``: nothing."""
        del timeout
        with translated():
            found = self._consumer.committed(*ours(partitions)) if partitions else {}
        return [theirs(place, found[place]) for place in ours(partitions)]

    def store_offsets(self, message: Message | None = None, offsets: list[TopicPartition] | None = None) -> None:
        """Keep offsets for the next commit; for ``enable.auto.offset.store=false``."""
        if self._stores_itself:
            raise invalid("store_offsets needs enable.auto.offset.store=false")
        self._stored |= self._wanted(message, offsets or [])

    def consumer_group_metadata(self) -> GroupMetadata:
        """For ``Producer.send_offsets_to_transaction``."""
        return self._consumer.group_metadata()

    # The log

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        """Where the log of a partition begins and ends, asked for now."""
        del timeout, cached
        with translated():
            place = partition.ours()
            low, high = self._consumer.beginning_offsets([place]), self._consumer.end_offsets([place])
            return low[place], high[place]

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float | None = None) -> list[TopicPartition]:
        """The first offset at or after a time, which stands in ``offset`` as milliseconds; ``OFFSET_END``: there is none."""
        del timeout
        with translated():
            found = self._consumer.offsets_for_times({place.ours(): place.offset for place in partitions})
        return [theirs(place, OFFSET_END if offset is None else offset) for place, offset in found.items()]

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The topics and their partitions."""
        return metadata_of(self._connection, topic, timeout)

    def close(self) -> None:
        """Leave the group, after a last commit where that is automatic."""
        self._commit_stored(at_once=True)
        self._consumer.close()

    def _made(self, topics: list[str], told: dict[str, Any]) -> sdk.Consumer:
        pattern = pattern_of(topics)
        try:
            return sdk.Consumer(*([] if pattern else topics), topic_pattern=pattern, **told, **self._settings)
        except (ValueError, TypeError) as error:
            raise invalid(str(error)) from error

    def _telling(self, callback: OnRebalance) -> Callable[[Iterable[record.TopicPartition]], object]:
        return lambda places: callback(self, [theirs(place) for place in places])

    def _seek(self, place: TopicPartition) -> None:
        try:
            if place.offset == OFFSET_BEGINNING:
                self._consumer.seek_to_beginning(place.ours())
            elif place.offset == OFFSET_END:
                self._consumer.seek_to_end(place.ours())
            elif place.offset in {OFFSET_STORED, OFFSET_INVALID}:
                self._consumer.seek_to_committed(place.ours())
            else:
                self._consumer.seek(place.ours(), place.offset)
        except KeyError as error:
            raise KafkaException(KafkaError(KafkaError._STATE, f"{place} is not assigned")) from error

    def _wanted(
        self, message: Message | None, offsets: Sequence[TopicPartition] | None
    ) -> dict[record.TopicPartition, int]:
        if message is not None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            return {record.TopicPartition(message.topic(), partition): offset + 1}
        if offsets is not None:
            return {place.ours(): place.offset for place in offsets if place.offset >= 0}
        return dict(self._consumer.positions() if self._stores_itself else self._stored)

    def _commit_stored(self, *, at_once: bool = False) -> None:
        """Where offsets are stored by hand and committed automatically."""
        if self._commits_stored_s is None or not self._stored:
            return
        if at_once or time.monotonic() - self._committed_at_s >= self._commits_stored_s:
            self._committed_at_s = time.monotonic()
            self._consumer.commit(dict(self._stored))
            self._stored.clear()


def _message(found: record.Record) -> Message:
    return Message(
        topic=found.topic,
        partition=found.partition,
        offset=found.offset,
        timestamp_ms=found.timestamp_ms,
        key=found.key,
        value=found.value,
        headers=list(found.headers) or None,
    )


def _failed(error: TidelogError) -> Message:
    topic, partition = error.fields.get("topic"), error.fields.get("partition")
    return Message(
        topic=topic if isinstance(topic, str) else "",
        partition=partition if isinstance(partition, int) else None,
        offset=None,
        timestamp_ms=None,
        key=None,
        value=str(error).encode(),
        error=kafka_error(error),
    )


def _assignor(given: str) -> str:
    if "sticky" in given:
        return "sticky"
    return "roundrobin" if given.startswith("roundrobin") else "range"
