"""A consumer's requests for partitions, positions and records, and its handling of gateway failures."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from log_format import limits as contract
from tidelog import limits
from tidelog.bodies.encode import arrow_available
from tidelog.calls.fetch import Fetched, FetchLimits
from tidelog.calls.topics import describe_topic
from tidelog.consumer.assignment import Assignment, Progress
from tidelog.consumer.fetch_ahead import FetchAhead, FetchOrder
from tidelog.consumer.group_session import GroupSession
from tidelog.consumer.history import History
from tidelog.consumer.settings import ConsumerSettings
from tidelog.deadline import Deadline
from tidelog.errors import GatewayError, OffsetOutOfRange, UnknownPartition
from tidelog.http.owners import RoutingKey
from tidelog.http.transport import Transport
from tidelog.types.record import TopicPartition
from tidelog.types.topic import PartitionOffsets, Topic

_logger = logging.getLogger("tidelog.consumer")


class Reader:
    """Fetcher that fills the chunks of an assignment. For one thread at a time."""

    def __init__(
        self,
        transport: Transport,
        assignment: Assignment,
        settings: ConsumerSettings,
        *,
        group: GroupSession | None,
        history: History | None,
    ) -> None:
        """Store the parts.

        Args:
            group: its committed offsets take precedence over the reset policy.
            history: reads records far behind the tail.
        """
        self._group = group
        self._history = None if settings.filter is not None else history  # only gateways filter
        self._transport = transport
        self._assignment = assignment
        self._topics: dict[str, float | None] = dict.fromkeys(() if settings.is_member else settings.topics)
        """Topics read in all their partitions -> when (monotonic seconds) they were last described."""
        self._settings = settings
        self._owner_counts: dict[str, int] = {}
        """Setting ``owners`` of each described topic."""
        self._failing_since: float | None = None
        self._ahead = FetchAhead()

    @property
    def ahead(self) -> FetchAhead:
        """Thread that fetches the next records ahead."""
        return self._ahead

    def forget_topics(self) -> None:
        """Stop assigning whole topics: from now on partitions are assigned one by one."""
        self._topics = {}

    def describe(self, topic: str, deadline: Deadline | None = None) -> Topic:
        """Return the gateway's description of the topic."""
        described = describe_topic(
            self._transport, topic, deadline or Deadline(self._settings.api_timeout_ms), patient=True
        )
        self._owner_counts[topic] = int(described.config.get("owners", 1))
        return described

    def offsets(
        self, places: Iterable[TopicPartition], deadline: Deadline | None = None
    ) -> dict[TopicPartition, PartitionOffsets]:
        """Return where the partitions' logs begin and end, by one request per topic. Raises ``UnknownPartition``."""
        found: dict[TopicPartition, PartitionOffsets] = {}
        described: dict[str, Topic] = {}
        for place in places:
            if place.topic not in described:
                described[place.topic] = self.describe(place.topic, deadline)
            topic = described[place.topic]
            partition = next((known for known in topic.partitions if known.partition == place.partition), None)
            if partition is None:
                raise UnknownPartition(f"Topic {place.topic!r} has no partition {place.partition}.", topic=place.topic)
            found[place] = PartitionOffsets(
                log_start_offset=partition.log_start_offset,
                high_watermark=partition.high_watermark,
                topic_id=topic.topic_id,
            )
        return found

    def refresh_topics(self, deadline: Deadline | None = None) -> None:
        """Assign all partitions of the topics; partitions added to a topic meanwhile are read from their beginning.

        Partitions that a recreated topic no longer has are unassigned.
        """
        now = time.monotonic()
        for topic, looked_at in self._topics.items():
            if looked_at is not None and (now - looked_at) * 1000 < limits.METADATA_AGE_MS_MAX:
                continue
            count = self.describe(topic, deadline).partition_count
            self._assignment.remove(
                [place for place in self._assignment if place.topic == topic and place.partition >= count]
            )
            for partition in range(count):
                place = TopicPartition(topic, partition)
                if place not in self._assignment:
                    self._assignment.add(place, Progress(None if looked_at is None else 0))
            self._topics[topic] = now

    def find_positions(self, places: Iterable[TopicPartition], deadline: Deadline | None = None) -> None:
        """Set the position of partitions without one, by the reset policy; a recreated topic is read from its start.

        Raises ``OffsetOutOfRange`` (in a group ``NoCommittedOffset``) when the policy is ``none``.
        """
        lost = [place for place in places if self._assignment[place].position is None]
        if self._group is not None:
            lost = self._look_up(self._group, lost, deadline or Deadline(self._settings.api_timeout_ms))
            self._group.refuse_reset(lost)
        if lost and self._settings.auto_offset_reset == "none":
            where = f"{lost[0].topic}/{lost[0].partition}"
            raise OffsetOutOfRange(f"{where} has no position: call seek, or choose another auto_offset_reset.")
        ends = self.offsets(lost, deadline)
        found = {
            place: offsets.log_start_offset
            if self._settings.auto_offset_reset == "earliest"
            or self._assignment[place].belongs_to_another(offsets.topic_id)
            else offsets.high_watermark
            for place, offsets in ends.items()
        }
        if self._group is not None and found:
            self._group.reset_to(found)
        for place, position in found.items():
            progress = self._assignment[place]
            progress.seek(position, ends[place].topic_id)
            progress.high_watermark = ends[place].high_watermark

    def _look_up(self, group: GroupSession, places: list[TopicPartition], deadline: Deadline) -> list[TopicPartition]:
        """Set positions from the group's committed offsets, and return the partitions that are still without one."""
        unasked = [place for place in places if not self._assignment[place].is_looked_up]
        known = group.committed(unasked, deadline) if unasked else {}
        for place in unasked:
            progress = self._assignment[place]
            progress.is_looked_up = True
            if place in known:
                progress.seek(known[place].offset, known[place].topic_id)
        return [place for place in places if place not in known]

    def fill(self, deadline: Deadline) -> bool:
        """Fetch a chunk of a partition that is not paused. Returns False if ``deadline`` passes first. Raises
        ``GatewayError``."""
        while True:
            if self._has_chunk():
                return True
            call_deadline = Deadline(min(deadline.remaining_ms(), self._settings.api_timeout_ms))
            try:
                self.refresh_topics(call_deadline)
                active = self._assignment.active()
                if not active:
                    raise ValueError("there is nothing to read: no partition is assigned, or all of them are paused")
                self.find_positions([place for place, _ in active], call_deadline)
                self._fetch(deadline, call_deadline)
                self.note_success()
            except GatewayError as error:
                self.tolerate(error)
                self._transport.pause(min(limits.BACKOFF_FIRST_MS, deadline.remaining_ms()))
            if self._has_chunk():
                return True
            if deadline.passed:
                return False

    def _has_chunk(self) -> bool:
        """Return whether there is a chunk; if so, start to fetch the next one while it is handed out."""
        active = self._assignment.active()
        if not any(progress.chunk is not None for _, progress in active):
            return False
        behind = [(place, progress) for place, progress in active if progress.behind]
        if behind and not self._ahead.busy:
            # One attempt: a lasting failure shows again in the poll that needs the records.
            self._ahead.start(self._order(behind, wait_ms=0), Deadline(0))
        return True

    def _fetch(self, poll_deadline: Deadline, call_deadline: Deadline) -> None:
        order = self._ahead.take(self._assignment)
        if order is None:
            active = self._assignment.active()
            behind = [(place, progress) for place, progress in active if progress.behind]
            wait_ms = 0 if behind else int(min(poll_deadline.remaining_ms(), contract.FETCH_WAIT_MS_MAX))
            order = self._order(behind or active, wait_ms)
            order.fetch(call_deadline)
        if isinstance(order.found, Exception):
            raise order.found
        failures = []
        for each in order.found:
            if not order.is_wanted(each.place, self._assignment):
                continue
            if not isinstance(each, Fetched):
                failures.append(each)
            elif (progress := self._assignment[each.place]).belongs_to_another(each.topic_id):
                self._restart_recreated(each.place, progress)
            else:
                progress.fetched(each.chunk, each.next_offset, each.high_watermark, each.topic_id)
        for failure in failures:
            if not isinstance(failure.error, OffsetOutOfRange):
                raise failure.error
            self._out_of_range(failure.place, failure.error)

    def _order(self, wanted: list[tuple[TopicPartition, Progress]], wait_ms: int) -> FetchOrder:
        """Return an order for one partition as Arrow where one is enough, else for all partitions in one request."""
        as_arrow = arrow_available() and (wait_ms == 0 or len(wanted) == 1)
        if as_arrow:
            wanted = wanted[:1]
            self._assignment.move_to_end(wanted[0][0])
        records_max = contract.FETCH_RECORDS_MAX if as_arrow else limits.JSON_FETCH_RECORDS_MAX
        bytes_max = self._settings.fetch_max_bytes
        if as_arrow and self._history is not None and wanted[0][1].high_watermark is None:
            # A small answer shows how far behind the partition is: the rest may come from the store.
            records_max, bytes_max = limits.FIRST_FETCH_RECORDS, min(bytes_max, limits.FIRST_FETCH_BYTES)
        return FetchOrder(
            self._transport,
            wanted,
            FetchLimits(records_max, bytes_max, wait_ms, self._settings.filter),
            routing_key=self._routing_key([place for place, _ in wanted]),
            as_arrow=as_arrow,
            history=self._history if as_arrow and _is_far_behind(wanted[0][1]) else None,
        )

    def _routing_key(self, places: Sequence[TopicPartition]) -> RoutingKey:
        """Return one partition's owner, or for several the best gateway of the topic with most of them."""
        if len(places) == 1:
            (place,) = places
            return RoutingKey(place.topic, place.partition, self._owner_counts.get(place.topic, 1), served_by_any=True)
        return RoutingKey(Counter(place.topic for place in places).most_common(1)[0][0], served_by_any=True)

    def _out_of_range(self, place: TopicPartition, error: OffsetOutOfRange) -> None:
        if self._settings.auto_offset_reset == "none":
            raise error
        _logger.warning("%s Continuing at the %s offset.", error.detail, self._settings.auto_offset_reset)
        self._assignment[place].reset_position()

    def _expire_descriptions(self, topics: Iterable[str]) -> None:
        """Let the next ``refresh_topics`` describe these topics, if they are read whole."""
        self._topics |= dict.fromkeys(self._topics.keys() & set(topics), -math.inf)

    def _restart_recreated(self, place: TopicPartition, progress: Progress) -> None:
        """Drop a position in a deleted topic, and the cached state of its group and segments."""
        _logger.warning(
            "Topic %r was deleted and recreated while it was read: partition %d continues in the new topic, not at offset %s.",
            *(place.topic, place.partition, progress.position),
        )
        progress.reset_position()
        progress.is_looked_up = False
        self._expire_descriptions([place.topic])
        if self._group is not None:
            self._group.committer.forget_commits()
        if self._history is not None:
            self._history.forget(place)

    def note_success(self) -> None:
        """Record a success."""
        self._failing_since = None

    def tolerate(self, error: GatewayError) -> None:
        """Raise an error that is permanent, or that has lasted too long; log any other.

        A member whose session has ended joins again with the next look at the group's news.
        """
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        is_passing = error.retryable or (self._group is not None and self._group.rejoins)
        if isinstance(error, UnknownPartition) and (self._group is not None or self._topics):
            # A topic was recreated with fewer partitions: describe it again, or let the group reassign its partitions.
            is_passing = True
            self._expire_descriptions(self._topics)
        if not is_passing or (now - self._failing_since) * 1000 >= self._settings.api_timeout_ms:
            self._failing_since = None
            raise error
        _logger.warning("fetching failed, and is retried: %s: %s", error.code, error.detail)


def _is_far_behind(progress: Progress) -> bool:
    position, end = progress.fetch_position, progress.high_watermark
    return position is not None and end is not None and end - position >= limits.HISTORY_RECORDS_MIN
