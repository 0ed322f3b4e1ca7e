"""A journal's knowledge of each topic whose appends it accepts or accepted: the part of its state that a checkpoint keeps.

1. At most one of a topic's numbers is open. Appends count only under the open number.
2. A closed number is never opened again. The journal remembers a topic's closed number until long after the topic is released.
   ``floor`` is the largest number ever forgotten; for an unknown topic no number up to it is opened.
3. Next offsets never go back during a topic's stay (``first``).

All this follows from the commits; no clock takes part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from log_format.journal.entries import Attach, Close, Drained, EmptyRequest, Entry, Release
from log_format.journal.object_tags import CommittedObject, TopicRuns
from log_format.limits import JOURNAL_CLOSED_REMEMBERED
from log_format.topic.applied_transactions import AppliedTransactions, decode_applied
from log_format.topic.partition_offsets import Offsets
from log_format.topic.producers import Producers, ProducerStamp, StampedBatch, decode_producers

_TOPIC_BYTES: Final = 600
"""Memory in bytes of a topic without its producers and transactions: measured, rounded up."""


class JournalTopic(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One topic's state in a journal. Immutable. ``next_offsets`` and ``drained`` have one number for each partition."""

    topic_id: str
    name: str
    number: int
    first: int
    is_open: bool
    settings: tuple[int, int, int]
    next_offsets: Offsets
    drained: Offsets
    """Offsets below which the topic's own table has the records."""
    producers: Producers
    transactions: AppliedTransactions
    undrained_since_ms: int | None = None
    """Time not after the first commit with records that the topic's table lacks; None if it lacks none."""

    @property
    def drain_ms(self) -> int:
        """Setting ``drain.ms`` of the topic."""
        return self.settings[1]

    @property
    def drain_bytes(self) -> int:
        """Setting ``flush.bytes`` of the topic: undrained bytes from which a drain is due."""
        return self.settings[2]

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return _TOPIC_BYTES + 16 * len(self.next_offsets) + self.producers.memory_bytes + self.transactions.memory_bytes

    def has_equal_size(self, other: JournalTopic) -> bool:
        """Return True if a cheap comparison shows that both take the same memory."""
        return (
            self.producers is other.producers
            and self.transactions is other.transactions
            and len(self.next_offsets) == len(other.next_offsets)
        )

    def with_runs(self, content: TopicRuns, commit_ms: int) -> JournalTopic:
        """Return the topic after an object with its records. Raises ``ValueError`` if the records don't continue the topic."""
        if not self.is_open:
            raise ValueError(f"topic {self.name!r} is closed")
        next_offsets = self.next_offsets.copy()
        for run in content.runs:
            if run.partition >= len(next_offsets) or run.base_offset != next_offsets[run.partition]:
                raise ValueError(f"{run} does not continue topic {self.name!r}")
            next_offsets[run.partition] = run.end_offset
        next_offsets.flags.writeable = False
        since_ms = commit_ms if self.undrained_since_ms is None and content.runs else self.undrained_since_ms
        topic = replace(self, next_offsets=next_offsets, undrained_since_ms=since_ms)
        if content.applied:
            topic = replace(topic, transactions=self.transactions.with_applied(content.applied))
        return topic.with_stamped(content.stamped, commit_ms) if content.stamped else topic

    def with_stamped(self, stamped: Sequence[StampedBatch], commit_ms: int) -> JournalTopic:
        """Return the topic after these idempotent requests."""
        if not stamped:
            return self
        return replace(self, producers=self.producers.with_batches(stamped, commit_ms, self.settings[0]))

    def is_applicable(self, entry: Drained) -> bool:
        """Return whether the entry is consistent and says something new. An entry of another stay may name offsets that this one
        lacks."""
        return all(
            partition < len(self.drained) and offset <= self.next_offsets[partition]
            for partition, offset in entry.offsets
        ) and any(offset > self.drained[partition] for partition, offset in entry.offsets)

    def with_drained(self, entry: Drained) -> JournalTopic:
        """Return the topic after its own table has its records below these offsets. Raises ``ValueError``."""
        drained = self.drained.copy()
        for partition, offset in entry.offsets:
            if partition >= len(drained) or offset > self.next_offsets[partition]:
                raise ValueError(f"topic {self.name!r} can't be drained up to {offset} of partition {partition}")
            drained[partition] = max(offset, drained[partition])
        drained.flags.writeable = False
        is_all = np.array_equal(drained, self.next_offsets)
        drained = self.next_offsets if is_all else drained
        since_ms = None if is_all or self.undrained_since_ms is None else max(entry.up_to_ms, self.undrained_since_ms)
        return replace(self, drained=drained, undrained_since_ms=since_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalTopics:
    """All topics of a journal, by id. Immutable."""

    by_id: Mapping[str, JournalTopic]
    closed: Mapping[str, int]
    """Topics that the journal has no more, or never had: id -> the largest closed number. Oldest first."""
    floor: int = 0
    memory_bytes: int = 0
    """Estimated memory in bytes."""

    def closed_number(self, topic_id: str) -> int:
        """Return the largest number that is closed for the topic. A number above it may be open, or not attached yet."""
        return _closed_number(self.by_id.get(topic_id), self.closed.get(topic_id, self.floor))

    def next_number(self, topic_id: str) -> int:
        """Return a number under which the topic can be attached."""
        topic = self.by_id.get(topic_id)
        return 1 + max(self.floor, self.closed.get(topic_id, 0), 0 if topic is None else topic.number)

    def after(self, entries: Sequence[Entry], objects: Sequence[CommittedObject], commit_ms: int) -> JournalTopics:
        """Return the topics after a commit with this content. Raises ``ValueError`` if the content contradicts them."""
        edit = TopicsEdit(self)
        edit.apply(entries, commit_ms)
        for one in objects:
            for content in one.topics:
                topic = edit.by_id.get(content.topic_id)
                if topic is None:
                    raise ValueError(f"it has records of topic {content.topic_id}, which is not attached")
                edit.put(topic.with_runs(content, commit_ms))
        return edit.topics()

    def encoded(self) -> bytes:
        """Return the topics as JSON, for a checkpoint."""
        rows = [_row(topic) for topic in self.by_id.values()]
        return msgspec.json.encode(_Encoded(floor=self.floor, closed=dict(self.closed), topics=rows))


NO_TOPICS: Final = JournalTopics(by_id=MappingProxyType({}), closed=MappingProxyType({}))


class TopicsEdit:
    """A change to ``JournalTopics`` in progress."""

    def __init__(self, before: JournalTopics) -> None:
        self.by_id = dict(before.by_id)
        self._before = before
        self._closed: dict[str, int] | None = None
        self._floor = before.floor
        self._memory_bytes = before.memory_bytes

    def put(self, topic: JournalTopic) -> None:
        """Set the topic's present state."""
        before = self.by_id.get(topic.topic_id)
        if before is None or not before.has_equal_size(topic):
            self._memory_bytes += topic.memory_bytes - (0 if before is None else before.memory_bytes)
        self.by_id[topic.topic_id] = topic

    def topics(self) -> JournalTopics:
        """Return the changed topics."""
        closed = self._before.closed if self._closed is None else MappingProxyType(self._closed)
        by_id = MappingProxyType(self.by_id)
        return JournalTopics(by_id=by_id, closed=closed, floor=self._floor, memory_bytes=self._memory_bytes)

    def closed_number(self, topic_id: str) -> int:
        """Return the largest closed number, as ``JournalTopics.closed_number`` does."""
        return _closed_number(self.by_id.get(topic_id), self._closed_now().get(topic_id, self._floor))

    def apply(self, entries: Iterable[Entry], commit_ms: int) -> None:
        """Apply these entries. Raises ``ValueError``."""
        for entry in entries:
            topic = self.by_id.get(entry.topic_id)
            match entry:
                case Attach():
                    self.put(self._attach(entry, topic))
                case Close():
                    self._close(entry, topic)
                case Drained() if topic is not None:
                    self.put(topic.with_drained(entry))
                case Release() if topic is not None and topic.number == entry.number and not topic.is_open:
                    del self.by_id[entry.topic_id]
                    self._memory_bytes -= topic.memory_bytes
                    self._remember(entry.topic_id, entry.number)
                case EmptyRequest() if topic is not None and topic.is_open:
                    stamp = ProducerStamp(entry.producer_id, entry.epoch, entry.sequence)
                    self.put(topic.with_stamped([StampedBatch(stamp, ())], commit_ms))
                case _:
                    raise ValueError(f"{entry} contradicts what the journal knows of that topic")

    def _attach(self, entry: Attach, topic: JournalTopic | None) -> JournalTopic:
        if topic is None and entry.number <= self.closed_number(entry.topic_id):
            raise ValueError(f"topic {entry.name!r} is attached under {entry.number}, which is closed")
        if topic is not None and (topic.is_open or entry.number <= topic.number):
            raise ValueError(f"topic {entry.name!r} is attached under {entry.number} after {topic.number}")
        if topic is None and entry.topic_id in self._closed_now():
            self._changed_closed().pop(entry.topic_id)
        if topic is not None and topic.first == entry.first:
            return replace(
                topic,
                number=entry.number,
                is_open=True,
                settings=_intern_settings(entry.settings),
                next_offsets=_extend_offsets(topic.next_offsets, entry.partition_count),
                drained=_extend_offsets(topic.drained, entry.partition_count),
            )
        if len(entry.next_offsets) > entry.partition_count:
            raise ValueError(f"topic {entry.name!r} has {entry.partition_count} partitions, and offsets of more")
        offsets = _extend_offsets(np.array(entry.next_offsets, np.int64), entry.partition_count)
        return JournalTopic(
            topic_id=entry.topic_id,
            name=entry.name,
            number=entry.number,
            first=entry.first,
            is_open=True,
            settings=_intern_settings(entry.settings),
            next_offsets=offsets,
            drained=offsets,
            producers=decode_producers(bytes(entry.producers)),
            transactions=decode_applied(bytes(entry.transactions)),
        )

    def _close(self, entry: Close, topic: JournalTopic | None) -> None:
        if topic is None:
            self._remember(entry.topic_id, entry.number)
        elif entry.number >= topic.number:
            self.put(replace(topic, number=entry.number, is_open=False))

    def _remember(self, topic_id: str, number: int) -> None:
        closed = self._changed_closed()
        closed[topic_id] = max(number, closed.pop(topic_id, self._floor))
        while len(closed) > JOURNAL_CLOSED_REMEMBERED:
            self._floor = max(self._floor, closed.pop(next(iter(closed))))

    def _closed_now(self) -> Mapping[str, int]:
        return self._before.closed if self._closed is None else self._closed

    def _changed_closed(self) -> dict[str, int]:
        if self._closed is None:
            self._closed = dict(self._before.closed)
        return self._closed


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Row(msgspec.Struct, array_like=True):
    """A topic in a checkpoint."""

    topic_id: str
    name: str
    number: _Count
    first: _Count
    is_open: bool
    settings: tuple[_Count, _Count, _Count]
    next_offsets: list[_Count]
    drained: list[_Count]
    undrained_since_ms: int | None
    producers: msgspec.Raw
    transactions: msgspec.Raw


class _Encoded(msgspec.Struct):
    """The topics in a checkpoint."""

    floor: _Count
    closed: dict[str, _Count]
    topics: list[_Row]


_DECODER: Final = msgspec.json.Decoder(_Encoded)


def decode_topics(data: bytes) -> JournalTopics:
    """Decode the result of ``JournalTopics.encoded``. Raises ``ValueError`` for anything else."""
    try:
        found = _DECODER.decode(data)
        by_id = {topic.topic_id: topic for topic in map(_topic, found.topics)}
    except RecursionError as problem:
        raise ValueError(f"a journal's topics are damaged: {problem!r}") from problem
    return JournalTopics(
        by_id=MappingProxyType(by_id),
        closed=MappingProxyType(found.closed),
        floor=found.floor,
        memory_bytes=sum(topic.memory_bytes for topic in by_id.values()),
    )


def _row(topic: JournalTopic) -> _Row:
    return _Row(
        topic.topic_id,
        topic.name,
        topic.number,
        topic.first,
        topic.is_open,
        topic.settings,
        topic.next_offsets.tolist(),
        topic.drained.tolist(),
        topic.undrained_since_ms,
        msgspec.Raw(topic.producers.encoded()),
        msgspec.Raw(topic.transactions.encoded()),
    )


def _topic(row: _Row) -> JournalTopic:
    next_offsets, drained = (np.array(offsets, np.int64) for offsets in (row.next_offsets, row.drained))
    if len(next_offsets) != len(drained) or (drained > next_offsets).any():
        raise ValueError(f"topic {row.name!r} is drained up to {row.drained} of {row.next_offsets}")
    return JournalTopic(
        topic_id=row.topic_id,
        name=row.name,
        number=row.number,
        first=row.first,
        is_open=row.is_open,
        settings=_intern_settings(row.settings),
        next_offsets=_extend_offsets(next_offsets, 0),
        drained=_extend_offsets(drained, 0),
        producers=decode_producers(bytes(row.producers)),
        transactions=decode_applied(bytes(row.transactions)),
        undrained_since_ms=row.undrained_since_ms,
    )


@lru_cache(maxsize=1_000)
def _intern_settings(settings: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return one object for all topics with these settings."""
    return settings


def _closed_number(topic: JournalTopic | None, closed: int) -> int:
    if topic is None:
        return closed
    return topic.number - 1 if topic.is_open else topic.number


def _extend_offsets(offsets: Offsets, count: int) -> Offsets:
    """Return the offsets of ``count`` partitions, new ones at 0; read-only."""
    grown = np.concatenate([offsets, np.zeros(max(0, count - len(offsets)), np.int64)])
    grown.flags.writeable = False
    return grown
