"""A consumer's positions in its partitions, and the calls that move them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping

from tidelog.arguments import check_offset, check_partitions
from tidelog.calls.topics import list_topics, partition_offsets
from tidelog.consumer.parts import ConsumerParts
from tidelog.consumer.settings import ConsumerSettings
from tidelog.deadline import Deadline
from tidelog.types.record import TopicPartition


class Positions:
    """Positions of a consumer, used by one thread at a time: a concurrent call by a second thread raises ``RuntimeError``."""

    def __init__(self, parts: ConsumerParts, settings: ConsumerSettings) -> None:
        self._transport = parts.transport
        self._assignment = parts.assignment
        self._reader = parts.reader
        self._settings = settings
        self._thread_lock = threading.RLock()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Partitions that were assigned before keep their positions.

        Raises ``RuntimeError`` where a group assigns the partitions.
        """
        if self._settings.is_member:
            raise RuntimeError(
                "the group assigns this consumer's partitions: use a consumer without topics to assign them by hand"
            )
        places = list(partitions)
        check_partitions(places, "assign([{}])")
        with self._alone():
            self._reader.forget_topics()
            self._assignment.replace(places)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions; in a group, as of the last poll."""
        with self._alone():
            self._reader.refresh_topics()
            return set(self._assignment)

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the topic's partitions. Raises ``UnknownTopic``."""
        return set(range(self._reader.describe(topic).partition_count))

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        return {topic.name for topic in list_topics(self._transport, self._settings.api_timeout_ms)}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue the partition at ``offset`` (0 and up); only the next poll checks that the log has it."""
        check_partitions([partition], "seek({}, 0)")
        check_offset(offset)
        if offset < 0:
            raise ValueError(f"offset is {offset}, below 0")
        with self._alone():
            self._reader.refresh_topics()
            self._assignment[partition].seek(offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue these partitions (none given: all assigned) at their log start."""
        check_partitions(partitions, "seek_to_beginning({})")
        with self._alone():
            for place, offsets in self._reader.offsets(self._named(partitions)).items():
                self._assignment[place].seek(offsets.log_start_offset)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue these partitions (none given: all assigned) at their current end."""
        check_partitions(partitions, "seek_to_end({})")
        with self._alone():
            for place, offsets in self._reader.offsets(self._named(partitions)).items():
                self._assignment[place].seek(offsets.high_watermark)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to be polled from this partition."""
        with self._alone():
            self._reader.refresh_topics()
            self._reader.find_positions([partition])
            position = self._assignment[partition].position
            assert position is not None
            return position

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return an assigned partition's high watermark as of the last answer; None if there was none since a ``seek``."""
        check_partitions([partition], "highwater({})")
        return self._assignment[partition].high_watermark

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until ``resume``."""
        check_partitions(partitions, "pause({})")
        with self._alone():
            self._reader.refresh_topics()
            for place in partitions:
                self._assignment[place].pause()

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        check_partitions(partitions, "resume({})")
        with self._alone():
            self._reader.refresh_topics()
            for place in partitions:
                self._assignment[place].paused = False

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._assignment.paused()

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start of each partition; the partitions need not be assigned."""
        return {place: offsets.log_start_offset for place, offsets in self._reader.offsets(partitions).items()}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition; the partitions need not be assigned."""
        return {place: offsets.high_watermark for place, offsets in self._reader.offsets(partitions).items()}

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record, in offset order, with at least this timestamp, per partition; None if there is
        none."""
        return {
            place: partition_offsets(self._transport, place, time_ms, Deadline(self._settings.api_timeout_ms)).offset
            for place, time_ms in times_ms.items()
        }

    def _named(self, partitions: tuple[TopicPartition, ...]) -> list[TopicPartition]:
        self._reader.refresh_topics()
        for place in partitions:
            _ = self._assignment[place]
        return list(partitions) or list(self._assignment)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self._transport.check_process()
        if not self._thread_lock.acquire(blocking=False):
            raise RuntimeError("a consumer is for one thread at a time: another thread is using it")
        try:
            yield
        finally:
            self._thread_lock.release()
