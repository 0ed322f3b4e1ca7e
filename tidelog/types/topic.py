"""Topics and gateways as the API describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidelog.types.pin import Pin


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition whose records ``[log_start_offset, high_watermark)`` can be read; ``size_bytes``: stored, compressed size."""

    partition: int
    log_start_offset: int
    high_watermark: int
    size_bytes: int = 0


class TopicCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Destination of a topic's commits. ``mode``: ``own`` log, or ``shared`` through the ``journal`` of this number.

    Times are milliseconds since the epoch.
    """

    mode: str = "own"
    journal: int | None = None
    since: int = 0
    reason: str = ""
    """Reason for the destination, for people."""
    undrained_records: int = 0
    """Number of records that only the journal has; the topic's own table gets them within ``drain.ms``."""
    drained_until_ms: int = 0
    """Time before which every committed record is in the topic's own table."""
    flush_savings_ms: int | None = None
    """Time saved up for flushes that begin before ``flush.ms`` has passed, each of which costs ``flush.ms``. None: not
    requested, or the gateway has written nothing to the topic."""
    savings_spent: bool | None = None
    """Whether flushes wait for ``flush.ms`` because no time is saved up; None as for ``flush_savings_ms``."""


class TopicColumn(msgspec.Struct, frozen=True):
    """A typed column of a topic's table, or a member of one: its name in a query, such as ``data.amount``, and its type."""

    name: str
    type: str


class TableCommit(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a topic's table: when it was committed, by which program, and how many records it added.

    ``added`` and ``removed`` count files. None: the commit does not say.
    """

    version: int
    at: int | None = None
    operation: str | None = None
    by: str | None = None
    records: int = 0
    marked: int | None = None
    """Number of these records that are not of the topic's schema, as ``data_error`` says; None: it has no such column."""
    added: int = 0
    added_bytes: int = 0
    removed: int = 0


class TopicArchive(msgspec.Struct, frozen=True, kw_only=True):
    """The segments that are in a topic's table, but not in its log any more: how many, and their stored bytes."""

    segments: int = 0
    size_bytes: int = 0


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its partitions and all settings, defaults included."""

    name: str
    partition_count: int
    partitions: tuple[Partition, ...] = ()
    config: Mapping[str, int | str] = msgspec.field(default_factory=dict)
    table_uri: str = ""
    table_version: int = 0
    topic_id: str | None = None
    """Id of the topic; a topic recreated under the name has another. None: the gateway does not report it."""
    created_at: int = 0
    """Creation time in milliseconds since the epoch."""
    commit: TopicCommit = msgspec.field(default_factory=TopicCommit)
    archive: TopicArchive = msgspec.field(default_factory=TopicArchive)
    columns: tuple[TopicColumn, ...] = ()
    """Typed columns of the table, if the topic was described and has any; members of structs by their path."""
    pins: tuple[Pin, ...] = ()
    """Pinned versions of the table, without the bytes that they hold back."""

    def __repr__(self) -> str:
        """Show a summary without partitions and settings, of which there may be thousands."""
        records = sum(each.high_watermark - each.log_start_offset for each in self.partitions)
        return f"<Topic {self.name!r} partition_count={self.partition_count} records={records:,}>"


class TopicClone(msgspec.Struct, frozen=True, kw_only=True):
    """A clone of a topic. ``source_version``: version of the source's table that it has; None while files are copied."""

    name: str
    source: str
    topic_id: str | None = None
    source_version: int | None = None
    copied_files: int = 0
    files: int = 0
    size_bytes: int | None = None


class CloneOfTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A clone that exists, and the stored bytes of the files that its table has, log and archive together.

    Args:
        name: of the clone.
        topic_id: its id.
        size_bytes: of all its files. An object store stores all of them; a directory only those that the source's table has not.
        also_in_source_bytes: of copies of files that the source's table has, too.
        only_in_clone_bytes: of copies of files that the source's table has no more: the clone keeps them.
        own_bytes: of files that were written for the clone: appended records, and files that maintenance rewrote.
    """

    name: str
    topic_id: str
    size_bytes: int
    also_in_source_bytes: int
    only_in_clone_bytes: int
    own_bytes: int


class CloneList(msgspec.Struct, frozen=True, kw_only=True):
    """The clones of a topic, by name."""

    clones: tuple[CloneOfTopic, ...]


class DamagedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose log can't be read, and the reason. ``tidelog doctor --repair`` repairs it; it can be deleted, too."""

    name: str
    error_code: str
    detail: str


class TopicList(list[Topic]):
    """Topics, sorted by name. ``damaged``: topics of which only the name is known."""

    def __init__(self, topics: Iterable[Topic] = (), damaged: Iterable[DamagedTopic] = ()) -> None:
        """Create a list of these topics."""
        super().__init__(topics)
        self.damaged = list(damaged)


class PartitionOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Begin and end of a partition's log. ``offset``: the first at or after the requested time; None: there is none."""

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
    """Availability zone of the gateway; None if it has no such setting."""


class Journals(msgspec.Struct, frozen=True, kw_only=True):
    """Journals in use, as known to the gateway that was asked. ``held_back``: why no further topic may move to a journal."""

    in_use: int = 0
    topics: int = 0
    held_back: str | None = None


class FailingWrites(msgspec.Struct, frozen=True, kw_only=True):
    """Writes of a gateway to its store have failed since ``since``, in milliseconds since the epoch.

    ``reason``: why, in one of the HTTP API's words; ``detail``: the same for people.
    """

    since: int
    reason: str
    detail: str


class Maintenance(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of maintenance by its sign of life in the store. Times are milliseconds since the epoch.

    ``state``: ``unknown``, the store has not answered yet; ``never``, it gave no sign; ``single``, it runs when somebody starts
    it; ``regular``, at an interval; ``overdue``, so it should and does not. ``failed_topics``: of its last round.
    """

    state: str
    seen_at: int | None = None
    round_ended_at: int | None = None
    failed_topics: int = 0


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The gateways, their store and their limits. ``failing_writes``: of the gateway that answered; None if they succeed."""

    gateways: tuple[Gateway, ...]
    store: str | None
    version: str
    limits: Mapping[str, int | float | str | None] = msgspec.field(default_factory=dict)
    journals: Journals = msgspec.field(default_factory=Journals)
    failing_writes: FailingWrites | None = None
    maintenance: Maintenance | None = None
    """None unless it was asked for."""
