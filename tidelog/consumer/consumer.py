"""Reading of records: ``Consumer``, with partitions assigned by hand, by topic or by a group.

Partitions that are behind are fetched one after another, in large Arrow chunks. When all are at their end, one long poll waits
for any of them. While one answer is handed out the next is fetched (``fetch_ahead``), so two answers bound the memory. In a
group, the group's requests are served before records are handed out (``group_session``).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Unpack

from log_format import limits as contract
from tidelog import limits
from tidelog.arguments import require_pyarrow
from tidelog.bodies.deserialize import Deserializer
from tidelog.closing import Closing
from tidelog.consumer.assignment import Progress
from tidelog.consumer.group_positions import GroupPositions
from tidelog.consumer.group_session import GroupSession
from tidelog.consumer.membership import Membership
from tidelog.consumer.parts import assemble
from tidelog.consumer.settings import Assignor, AutoOffsetReset, ConsumerSettings, HistoryMode, OnRebalance
from tidelog.deadline import Deadline
from tidelog.errors import GatewayError
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport
from tidelog.kafka_names import CONSUMER, KnowsKafkaNames, takes_kafka_names
from tidelog.types.filter import Filter
from tidelog.types.record import Record, TopicPartition
from tidelog.types.sealing import Sealing
from tidelog.units_of_time import in_milliseconds

if TYPE_CHECKING:
    import pyarrow as pa


class Consumer(GroupPositions, KnowsKafkaNames, Closing):
    """Reader of partitions in order, from any position, alone or in a group.

    ::

        with Consumer("orders", group="billing", bootstrap_servers="http://127.0.0.1:8080") as consumer:
            for record in consumer:
                print(record.partition, record.offset, record.value)

    Promises: a partition's records come in the order of their offsets, each once and none skipped, unless the caller seeks. If
    the log was truncated beyond the position, ``auto_offset_reset`` decides, and a warning is logged. Without a group,
    positions are only in this object's memory.

    A group shares its topics' partitions among its members, each starting at the committed offset. Partitions change owner only
    while this consumer asks for records: before one goes to another member, no more of its records are handed out here, and
    ``commit`` still works for it. While the group waits for this member, ask often. An automatic commit covers what was handed
    out before the last call for records: after a crash the rest comes again. A process that ends or hangs loses its partitions
    after ``session_timeout_ms``.

    For one thread at a time: a concurrent call by a second thread raises ``RuntimeError``. ``close`` may come from any thread,
    and ends a running poll with ``ClientClosed``. A forked child must create its own consumer.

    Args:
        topics: read in all their partitions, also later ones; in a group, in the member's share of them.
        auto_offset_reset: where to start without a position in the log: ``"earliest"``, ``"latest"``, or ``"none"`` to raise.
        filter: the wanted records; positions, and so commits, move past the others.
        max_poll_records: most records of one ``poll`` (1 and up). fetch_max_bytes: most bytes of one answer (1 to 64 MiB).
        consumer_timeout_ms: iteration ends after this long without a record; None: never.
        request_timeout_ms: limit of one answer, besides the time a poll waits for records.
        api_timeout_ms: during temporary failures polls return nothing; after this long they raise.
        compression: of answers.
        key_deserializer, value_deserializer: called with the bytes of each non-null key and value. Their exceptions are raised
            by the poll, with a note that names the record, and the position stays there: ``seek`` past it.
        value: a dataclass, a msgspec Struct, a pydantic model or a class that Protobuf generated: values are of this class. They
            are JSON documents, or have Confluent's header; those of Avro need fastavro, those of Protobuf protobuf. A value
            that is not of the class raises as deserializers do.
        envelope: decrypts each value first (``tidelog.encryption``); failures are raised likewise, as ``EnvelopeError``.
        group: without ``topics`` and ``topic_pattern`` it is only committed for, and ``assign`` says what is read.
        topic_pattern: regular expression for whole topic names, instead of ``topics``.
        assignor: ``"range"``, ``"roundrobin"`` or ``"sticky"``, the same for all members.
        session_timeout_ms: a member without a sign of life for this long is removed (1 s to 30 min).
        max_poll_interval_ms: after this long without a call for records the member leaves, or with an ``instance_id`` stops its
            heartbeats; the next call rejoins (above 0).
        enable_auto_commit: commit every ``auto_commit_interval_ms``, and when partitions are revoked.
        client_id: text by which operators recognize the member.
        instance_id: a member restarted within its session gets its partitions back. It does not leave when it is closed, and it
            replaces another member with this id.
        on_revoked, on_assigned, on_lost: called with partitions being revoked, while commits for them still work; with
            partitions gained, before they are read; with partitions that others may be reading already. Called by the thread
            that asks for records. They may use the consumer, but not ask for records; the poll raises their exceptions.
        history: ``"auto"`` reads records far behind the tail from the store, by URLs that the gateway signs, if pyarrow is
            installed and the store signs; ``"gateway"`` never does.
        store: the store as this process reaches it, a directory or ``s3://bucket/prefix``, instead of such URLs.
        bootstrap_servers, connection: as for ``Producer``.
    """

    @takes_kafka_names(CONSUMER)
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Sequence[str] | None = None,
        group: str | None = None,
        topic_pattern: str | None = None,
        auto_offset_reset: AutoOffsetReset = "earliest",
        filter: Filter | None = None,  # noqa: A002 - as the HTTP API has it
        max_poll_records: int = limits.POLL_RECORDS_MAX,
        fetch_max_bytes: int = limits.FETCH_BYTES,
        consumer_timeout_ms: float | None = None,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        api_timeout_ms: float = limits.API_TIMEOUT_MS,
        compression: Literal["gzip", "zstd"] | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        value: type | None = None,
        envelope: Sealing | None = None,
        assignor: Assignor = "range",
        session_timeout_ms: int = contract.SESSION_TIMEOUT_MS_DEFAULT,
        max_poll_interval_ms: float = limits.MAX_POLL_INTERVAL_MS,
        client_id: str | None = None,
        instance_id: str | None = None,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = limits.AUTO_COMMIT_INTERVAL_MS,
        on_revoked: OnRebalance | None = None,
        on_assigned: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
        history: HistoryMode = "auto",
        store: str | None = None,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        """Create the consumer without connecting yet. Raises ``TypeError``, and ``ValueError`` for an invalid or useless
        value."""
        settings = ConsumerSettings(
            topics=topics,
            group=group,
            topic_pattern=topic_pattern,
            auto_offset_reset=auto_offset_reset,
            filter=filter,
            max_poll_records=max_poll_records,
            fetch_max_bytes=fetch_max_bytes,
            consumer_timeout_ms=consumer_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            api_timeout_ms=api_timeout_ms,
            compression=compression,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            value=value,
            envelope=envelope,
            assignor=assignor,
            session_timeout_ms=session_timeout_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            client_id=client_id,
            instance_id=instance_id,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            on_revoked=on_revoked,
            on_assigned=on_assigned,
            on_lost=on_lost,
            history=history,
            store=store,
        )
        parts = assemble(bootstrap_servers, settings, connection)
        super().__init__(parts, settings)
        self._history, self._group_transport, self._closed = parts.history, parts.group_transport, False
        self.typed_values, self._deserializers = parts.typed, parts.deserializers
        if parts.group is not None:
            weakref.finalize(self, _end, parts.group.membership, parts.transport, parts.group_transport)

    # Reading

    @in_milliseconds
    def poll(self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_records: int | None = None) -> list[Record]:
        """Return the next records, at most ``max_records``; wait up to ``timeout_ms`` for the first, else return an empty list.

        0 asks the gateway once without waiting; a request under way may take ``request_timeout_ms`` longer. Raises
        ``OffsetOutOfRange`` with ``auto_offset_reset="none"``, ``UnknownTopic``, ``UnknownPartition``, ``CorruptSegment``
        (other partitions remain readable), and after ``api_timeout_ms`` of failures the last of them. After an exception no
        record is lost: the next poll continues where the last one ended.
        """
        records_max = self._bounded(max_records)
        return self.ready(records_max) if self.wait(timeout_ms) else []

    def wait(self, timeout_ms: float) -> bool:
        """Wait up to ``timeout_ms`` until ``ready`` has records, and return whether it has. Raises as ``poll``."""
        with self._alone():
            return self._fill(Deadline(timeout_ms))

    def has_ready(self) -> bool:
        """Return whether ``ready`` has records now, with no request of the group to serve first."""
        return not self._needs_attention() and any(
            progress.chunk is not None for _, progress in self._assignment.active()
        )

    def ready(self, max_records: int | None = None) -> list[Record]:
        """Return records as ``poll``, but only fetched ones: no gateway is asked."""
        records_max = self._bounded(max_records)
        with self._alone():
            records: list[Record] = []
            for place, progress in self._readable():
                while progress.chunk is not None and len(records) < records_max:
                    raw = progress.chunk.take(records_max - len(records))
                    made, error = self._deserializers.apply(raw)
                    records += made
                    if error is not None:
                        progress.chunk.put_back(len(raw) - len(made))
                        if not records:
                            raise error
                        return records
                    if progress.chunk.empty:
                        self._assignment.finish(place)
            return records

    @in_milliseconds
    def poll_arrow(
        self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_bytes: int = contract.FETCH_BYTES_MAX
    ) -> pa.Table:
        """Return records as ``poll``, as an Arrow table of up to about ``max_bytes``, with at least one row if there is one.

        Columns: ``topic string, partition int32, offset int64, timestamp timestamp[ms, UTC], key binary, value binary, headers
        list<struct<key string, value binary>>``. Deserializers are not applied, and values stay encrypted. Raises
        ``ModuleNotFoundError`` without pyarrow.
        """
        require_pyarrow("poll_arrow")
        self.wait(timeout_ms)
        return self.ready_arrow(max_bytes)

    def ready_arrow(self, max_bytes: int = contract.FETCH_BYTES_MAX) -> pa.Table:
        """Return records as ``poll_arrow``, but only fetched ones: no gateway is asked."""
        from tidelog.bodies.fetched_table import concatenate  # noqa: PLC0415 - the SDK works without pyarrow

        with self._alone():
            parts: list[tuple[str, pa.Table]] = []
            left_bytes = max_bytes
            for place, progress in self._readable():
                if progress.chunk is not None and (left_bytes > 0 or not parts):
                    table = progress.chunk.take_table(max(left_bytes, 1))
                    parts.append((place.topic, table))
                    left_bytes -= table.nbytes
                    if progress.chunk.empty:
                        self._assignment.finish(place)
            return concatenate(parts)

    def __iter__(self) -> Iterator[Record]:
        """Yield records without end, or until none came for ``consumer_timeout_ms``.

        ``position`` is the offset behind the last record yielded.
        """
        idle_ms = self._settings.consumer_timeout_ms
        wait_ms = limits.ITERATION_WAIT_MS if idle_ms is None else idle_ms
        while True:
            with self._alone():
                filled = self._fill(Deadline(wait_ms))
            if not filled and idle_ms is not None:
                return
            is_first = True
            for place, progress in self._readable():
                chunk = progress.chunk
                # Between two records the user may seek, pause or reassign, and the group may have news.
                while (
                    chunk is not None
                    and progress.chunk is chunk
                    and not progress.paused
                    and place in self._assignment
                    and (is_first or not self._needs_attention())
                ):
                    is_first = False
                    made, error = self._deserializers.apply(chunk.take(1))
                    if error is not None:
                        chunk.put_back(1)
                        raise error
                    if chunk.empty:
                        self._assignment.finish(place)
                    yield made[0]

    def close(self, *, leave: bool | None = None) -> None:
        """Commit, if commits are automatic, leave the group, close the connections, and end the threads. A second call does
        nothing.

        The commit counts the last records handed out as handled; leaving a ``with`` block by an exception commits nothing.
        ``leave``: give the partitions up immediately, not when the session ends; None: yes, unless there is an ``instance_id``.
        """
        self._close(commit=True, leave=self._leaves if leave is None else leave)

    def __repr__(self) -> str:
        """Show the topics, group and gateways, without the token."""
        topics, group = self._settings.topics, self._settings.group
        parts = [*topics, *([] if group is None else [f"group={group!r}"]), f"at {','.join(self._transport.urls)}"]
        return f"<Consumer {' '.join(parts)}>"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close. If the block raised, there is no further automatic commit."""
        self._close(commit=error is None, leave=self._leaves)

    @property
    def _leaves(self) -> bool:
        return self._settings.instance_id is None

    def _close(self, *, commit: bool, leave: bool) -> None:
        self._transport.close(abort=True)
        if self._history is not None:
            self._history.close()
        self._reader.ahead.close()
        if self._group is None or self._closed or not self._transport.is_own_process:
            return
        self._closed = True
        self._group.stop()
        # A poll running in another thread ends now; after that no other thread moves the positions.
        is_alone = self._thread_lock.acquire(timeout=limits.CLOSE_MS / 1000)
        try:
            if is_alone:
                self._group.close(Deadline(limits.CLOSE_MS), commit=commit, leave=leave)
        finally:
            self._group_transport.close(abort=True)
            self._group.membership.stop(limits.CLOSE_MS)
            if is_alone:
                self._thread_lock.release()

    def _fill(self, deadline: Deadline) -> bool:
        """Fetch until there are records. Returns False if ``deadline`` passed first. Raises as ``poll``."""
        if self._group is None:
            return self._reader.fill(deadline)
        with self._group.membership.polling():
            return self._fill_as_member(self._group, deadline)

    def _fill_as_member(self, group: GroupSession, deadline: Deadline) -> bool:
        while True:
            slice_ms = min(deadline.remaining_ms(), limits.GROUP_WAIT_MS)
            try:
                group.handle_news(Deadline(min(deadline.remaining_ms(), self._settings.api_timeout_ms)))
            except GatewayError as error:
                self._reader.tolerate(error)
                self._group_transport.pause(min(limits.BACKOFF_FIRST_MS, deadline.remaining_ms()))
            else:
                if not self._settings.is_member or self._assignment.active():
                    if self._reader.fill(Deadline(slice_ms)):
                        return True
                else:
                    self._reader.note_success()
                    group.membership.wait(slice_ms)
            if deadline.passed:
                return False

    def _needs_attention(self) -> bool:
        return (group := self._group_polled()) is not None and group.needs_attention

    def _readable(self) -> list[tuple[TopicPartition, Progress]]:
        """Return the partitions with their progress; none while other members may be reading them."""
        return self._assignment.active() if (group := self._group_polled()) is None or group.may_hand_out else []

    def _group_polled(self) -> GroupSession | None:
        if self._group is not None:
            self._group.membership.note_poll()
        return self._group

    def _bounded(self, max_records: int | None) -> int:
        if max_records is not None and max_records < 1:
            raise ValueError(f"max_records is {max_records}, below 1")
        return self._settings.max_poll_records if max_records is None else max_records


def _end(membership: Membership, *transports: Transport) -> None:
    """Stop the heartbeats and connections of a garbage-collected consumer."""
    membership.stop()
    for transport in transports:
        transport.close(abort=True)
