"""Reading records: ``Consumer``, with partitions assigned by hand.

How it reads: a partition that is behind is fetched in large Arrow chunks, one partition after another; when all are at
their end, one long poll waits for any of them. While an answer is handed out the next one is fetched (``fetch_ahead``), so
what is fetched and not handed out is bounded by two answers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from tidelog import limits
from tidelog.assignment import Assignment
from tidelog.deadline import Deadline
from tidelog.deserialize import Deserializer, Deserializers
from tidelog.reader import AutoOffsetReset, Reader
from tidelog.record import Record, TopicPartition
from tidelog.topic_list import list_topics
from tidelog.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa


class Consumer:
    """Reads the records of partitions in order, from wherever it is told to.

    ::

        with Consumer("orders", bootstrap_servers="http://127.0.0.1:8080") as consumer:
            for record in consumer:
                print(record.partition, record.offset, record.value)

    Promises: the records of a partition come in the order of their offsets, each once, none skipped, as long as nobody
    seeks and the log was not cut off before the position (then ``auto_offset_reset`` decides, and a warning is logged).
    Positions are in this object's memory: start where you want to with ``seek``.

    For one thread at a time: a second one that comes in meanwhile gets a ``RuntimeError``. ``close`` may come from
    any thread, and ends a poll under way with ``ClientClosed``. A forked child must make its own consumer.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Sequence[str] | None = None,
        auto_offset_reset: AutoOffsetReset = "earliest",
        max_poll_records: int = limits.POLL_RECORDS_MAX,
        fetch_max_bytes: int = limits.FETCH_BYTES_MAX,
        consumer_timeout_ms: float | None = None,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        api_timeout_ms: float = limits.API_TIMEOUT_MS,
        compression: Literal["gzip", "zstd"] | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> None:
        """Nothing is connected yet. With ``topics`` all their partitions are assigned, new ones too when they come.

        ``bootstrap_servers`` as for ``Producer``. ``auto_offset_reset``: where to begin, and to go on when the position
        is not in the log: ``"earliest"``, ``"latest"``, or ``"none"``: raise. ``max_poll_records`` (1 and up): what one
        ``poll`` returns at most. ``fetch_max_bytes`` (1 to 64 MiB): what one answer holds. ``consumer_timeout_ms``:
        iteration ends when no record came for so long; None: never. ``request_timeout_ms``: how long one answer is
        waited for, besides the time a poll waits for records. ``api_timeout_ms``: polls go on, and return nothing, while
        the gateways fail in ways that pass; after so long they raise. ``compression``: of answers.
        ``key_deserializer``, ``value_deserializer``: called with the bytes of each key and value that is not null; what they
        return is the record's. What they raise comes out of the poll, with a note that says which record it was; the
        position stays on that record: ``seek`` past it to go on.

        Raises ``ValueError`` for a value out of its range.
        """
        if auto_offset_reset not in {"earliest", "latest", "none"}:
            raise ValueError(f"auto_offset_reset is {auto_offset_reset!r}, not 'earliest', 'latest' or 'none'")
        if max_poll_records < 1:
            raise ValueError(f"max_poll_records is {max_poll_records}, below 1")
        if not 1 <= fetch_max_bytes <= limits.FETCH_BYTES_LARGEST:
            raise ValueError(f"fetch_max_bytes is {fetch_max_bytes}, not 1 to {limits.FETCH_BYTES_LARGEST}")
        self._transport = Transport(
            bootstrap_servers, request_timeout_ms=request_timeout_ms, accept_encoding=compression
        )
        self._assignment = Assignment()
        self._reader = Reader(
            self._transport,
            self._assignment,
            topics,
            reset=auto_offset_reset,
            bytes_max=fetch_max_bytes,
            api_timeout_ms=api_timeout_ms,
        )
        self._api_timeout_ms = api_timeout_ms
        self._records_max = max_poll_records
        self._deserializers = Deserializers(key_deserializer, value_deserializer)
        self._iteration_timeout_ms = consumer_timeout_ms
        self._thread_lock = threading.Lock()

    # Assignment and positions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Those that were assigned before keep their positions."""
        with self._alone():
            self._reader.forget_topics()
            self._assignment.replace(partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        with self._alone():
            self._reader.refresh_topics()
            return set(self._assignment)

    def partitions_for_topic(self, topic: str) -> set[int]:
        """The topic's partitions. Raises ``UnknownTopic``."""
        return set(range(self._reader.describe(topic).partition_count))

    def topics(self) -> set[str]:
        """The names of all topics."""
        return {topic.name for topic in list_topics(self._transport, self._api_timeout_ms)}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at ``offset`` (0 and up), which is looked for in the log by the next poll."""
        if offset < 0:
            raise ValueError(f"offset is {offset}, below 0")
        with self._alone():
            self._reader.refresh_topics()
            self._assignment[partition].seek(offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the log start of these partitions; none named: of all."""
        with self._alone():
            for place, offsets in self._reader.offsets(self._named(partitions)).items():
                self._assignment[place].seek(offsets.log_start_offset)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind what is in the log of these partitions now; none named: of all."""
        with self._alone():
            for place, offsets in self._reader.offsets(self._named(partitions)).items():
                self._assignment[place].seek(offsets.high_watermark)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that a poll returns from this partition."""
        with self._alone():
            self._reader.refresh_topics()
            self._reader.find_positions([partition])
            position = self._assignment[partition].position
            assert position is not None
            return position

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until ``resume``."""
        with self._alone():
            self._reader.refresh_topics()
            for place in partitions:
                self._assignment[place].pause()

    def resume(self, *partitions: TopicPartition) -> None:
        """Return their records again."""
        with self._alone():
            self._reader.refresh_topics()
            for place in partitions:
                self._assignment[place].paused = False

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return self._assignment.paused()

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start of each; the partitions need not be assigned."""
        return {place: offsets.log_start_offset for place, offsets in self._reader.offsets(partitions).items()}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each; the partitions need not be assigned."""
        return {place: offsets.high_watermark for place, offsets in self._reader.offsets(partitions).items()}

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of the first record, in offset order, with at least this timestamp; None: there is none."""
        return {place: self._reader.partition_offsets(place, time_ms).offset for place, time_ms in times_ms.items()}

    # Reading

    def poll(self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_records: int | None = None) -> list[Record]:
        """The next records, at most ``max_records``; waits up to ``timeout_ms`` for the first, else an empty list.

        0 does not wait, but asks the gateway once; an exchange under way may take ``request_timeout_ms`` more. Raises
        ``OffsetOutOfRange`` with ``auto_offset_reset="none"``, ``UnknownTopic``, ``UnknownPartition``, ``CorruptSegment``
        (the other partitions can be read on), and after ``api_timeout_ms`` of failures the last of them. After an
        exception no record is lost: the next poll goes on where the last one ended.
        """
        records_max = self._bounded(max_records)
        return self.ready(records_max) if self.wait(timeout_ms) else []

    def wait(self, timeout_ms: float) -> bool:
        """Wait up to ``timeout_ms`` until ``ready`` has something to return; whether it has. Raises as ``poll``."""
        with self._alone():
            return self._reader.fill(Deadline(timeout_ms))

    def has_ready(self) -> bool:
        """Whether ``ready`` has something to return now."""
        return any(progress.chunk is not None for _, progress in self._assignment.active())

    def ready(self, max_records: int | None = None) -> list[Record]:
        """As ``poll``, of what is here already: no gateway is asked."""
        records_max = self._bounded(max_records)
        with self._alone():
            records: list[Record] = []
            for place, progress in self._assignment.active():
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

    def poll_arrow(
        self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_bytes: int = limits.FETCH_BYTES_LARGEST
    ) -> pa.Table:
        """As ``poll``, as an Arrow table of up to about ``max_bytes``, one row at least if there is one.

        Columns: ``topic string, partition int32, offset int64, timestamp timestamp[ms, UTC], key binary, value binary,
        headers list<struct<key string, value binary>>``. Deserializers are not applied. Needs pyarrow.
        """
        self.wait(timeout_ms)
        return self.ready_arrow(max_bytes)

    def ready_arrow(self, max_bytes: int = limits.FETCH_BYTES_LARGEST) -> pa.Table:
        """As ``poll_arrow``, of what is here already: no gateway is asked."""
        from tidelog.fetched_table import concatenate  # noqa: PLC0415 - the SDK works without pyarrow

        with self._alone():
            parts: list[tuple[str, pa.Table]] = []
            left_bytes = max_bytes
            for place, progress in self._assignment.active():
                if progress.chunk is not None and (left_bytes > 0 or not parts):
                    table = progress.chunk.take_table(max(left_bytes, 1))
                    parts.append((place.topic, table))
                    left_bytes -= table.nbytes
                    if progress.chunk.empty:
                        self._assignment.finish(place)
            return concatenate(parts)

    def __iter__(self) -> Iterator[Record]:
        """Records without end, or until none came for ``consumer_timeout_ms``. ``position`` is behind the last one given."""
        wait_ms = limits.ITERATION_WAIT_MS if self._iteration_timeout_ms is None else self._iteration_timeout_ms
        while True:
            with self._alone():
                filled = self._reader.fill(Deadline(wait_ms))
            if not filled and self._iteration_timeout_ms is not None:
                return
            for place, progress in self._assignment.active():
                chunk = progress.chunk
                # Between two records the user may seek, pause or assign anew.
                while (
                    chunk is not None and progress.chunk is chunk and not progress.paused and place in self._assignment
                ):
                    made, error = self._deserializers.apply(chunk.take(1))
                    if error is not None:
                        chunk.put_back(1)
                        raise error
                    if chunk.empty:
                        self._assignment.finish(place)
                    yield made[0]

    def close(self) -> None:
        """Close the connections and end the thread that fetches ahead. A second call does nothing."""
        self._transport.close(abort=True)
        self._reader.ahead.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _bounded(self, max_records: int | None) -> int:
        if max_records is not None and max_records < 1:
            raise ValueError(f"max_records is {max_records}, below 1")
        return self._records_max if max_records is None else max_records

    def _named(self, partitions: tuple[TopicPartition, ...]) -> list[TopicPartition]:
        self._reader.refresh_topics()
        for place in partitions:
            _ = self._assignment[place]
        return list(partitions) or list(self._assignment)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self._transport.check_process()
        if not self._thread_lock.acquire(blocking=False):
            raise RuntimeError("a consumer is for one thread at a time, and another one is in it")
        try:
            yield
        finally:
            self._thread_lock.release()
