"""Topics and gateways as the API describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """``[log_start_offset, high_watermark)`` can be read; ``size_bytes`` is the stored, compressed size."""

    partition: int
    log_start_offset: int
    high_watermark: int
    size_bytes: int = 0


class TopicCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topic's commits go. ``mode``: ``own``, or ``shared`` by the ``journal`` of this number.

    Times are milliseconds since the epoch.
    """

    mode: str = "own"
    journal: int | None = None
    since: int = 0
    reason: str = ""
    """Why it is there, for people."""
    undrained_records: int = 0
    """Records that only the journal has; the topic's own table gets them within ``drain.ms``."""
    drained_until_ms: int = 0
    """The topic's own table has every record that was committed before."""
    flush_savings_ms: int | None = None
    """What is saved for flushes that begin before ``flush.ms`` is over, each of which costs ``flush.ms``. None: that
    was not asked for, or the gateway has written nothing to the topic."""
    savings_spent: bool | None = None
    """Whether flushes wait for ``flush.ms`` since nothing is saved any more; None as above."""


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, its partitions and every setting, defaults included."""

    name: str
    partition_count: int
    partitions: tuple[Partition, ...] = ()
    config: Mapping[str, int | str] = msgspec.field(default_factory=dict)
    table_uri: str = ""
    table_version: int = 0
    topic_id: str | None = None
    """One made anew under the name has another; None: the gateway does not tell it."""
    created_at: int = 0
    """Milliseconds since the epoch."""
    commit: TopicCommit = msgspec.field(default_factory=TopicCommit)

    def __repr__(self) -> str:
        """Without its partitions and settings, of which there may be thousands."""
        records = sum(each.high_watermark - each.log_start_offset for each in self.partitions)
        return f"<Topic {self.name!r} partition_count={self.partition_count} records={records:,}>"


class DamagedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose log can't be read, and why. ``tidelog doctor --repair`` makes it whole; it can be deleted, too."""

    name: str
    error_code: str
    detail: str


class TopicList(list[Topic]):
    """Topics by name. ``damaged``: those of which nothing else is known."""

    def __init__(self, topics: Iterable[Topic] = (), damaged: Iterable[DamagedTopic] = ()) -> None:
        """Of these."""
        super().__init__(topics)
        self.damaged = list(damaged)


class PartitionOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition's log begins and ends. ``offset``: the first at or after the requested time; None: there is none."""

    log_start_offset: int
    high_watermark: int
    offset: int | None = None
    topic_id: str | None = None


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """A live gateway."""

    id: str
    url: str = ""
    started_at: int = 0
    owned_topics: int | tuple[str, ...] = ()
    zone: str | None = None
    """Its availability zone; None: it was told none."""


class Journals(msgspec.Struct, frozen=True, kw_only=True):
    """Journals with topics, as the gateway that was asked knows them. ``held_back``: why no further topic may go to one."""

    in_use: int = 0
    topics: int = 0
    held_back: str | None = None


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The gateways, their store and their limits."""

    gateways: tuple[Gateway, ...]
    store: str | None
    version: str
    limits: Mapping[str, int | float | str | None] = msgspec.field(default_factory=dict)
    journals: Journals = msgspec.field(default_factory=Journals)
