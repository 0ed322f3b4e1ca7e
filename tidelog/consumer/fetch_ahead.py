"""Fetching of the next records while a consumer hands out the current ones.

1. At most one answer of at most ``fetch_max_bytes`` is fetched ahead, which bounds the memory.
2. A partition's answer is dropped if the consumer sought, paused or lost the partition meanwhile.
3. An error is kept until the consumer needs the records, and is raised by that poll.
4. The thread lives only during a fetch, so an abandoned consumer leaves none behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog import limits
from tidelog.calls.fetch import Fetched, FetchFailed, FetchLimits, fetch_arrow, fetch_many
from tidelog.consumer.assignment import Assignment, Progress
from tidelog.consumer.history import History
from tidelog.deadline import Deadline
from tidelog.errors import OffsetOutOfRange
from tidelog.http.owners import RoutingKey
from tidelog.http.transport import Transport
from tidelog.types.record import TopicPartition
from tidelog.worker_thread import WorkerThread

Found = Sequence[Fetched | FetchFailed] | Exception
"""Answers by partition, or the error."""


class FetchOrder:
    """One request for records, with the partitions' state at its creation."""

    def __init__(
        self,
        transport: Transport,
        wanted: Sequence[tuple[TopicPartition, Progress]],
        fetch_limits: FetchLimits,
        *,
        routing_key: RoutingKey,
        as_arrow: bool,
        history: History | None = None,
    ) -> None:
        """Create the order.

        Args:
            wanted: partitions that have positions; exactly one with ``as_arrow``.
            routing_key: whose owner is asked.
            as_arrow: fetch Arrow instead of JSON.
            history: asked before the gateways.
        """
        self._routing_key = routing_key
        self._history = history
        self.found: Found = ()
        self._transport = transport
        self._limits = fetch_limits
        self._as_arrow = as_arrow
        self._positions = [
            (place, progress.fetch_position) for place, progress in wanted if progress.fetch_position is not None
        ]
        self._turns = {place: (progress, progress.turn) for place, progress in wanted}

    def fetch(self, deadline: Deadline) -> None:
        """Ask the gateways, and store the answer or error in ``found``."""
        try:
            if self._as_arrow:
                self.found = [self._fetch_arrow(deadline)]
            else:
                self.found = fetch_many(
                    self._transport, self._positions, self._limits, deadline, routing_key=self._routing_key
                )
        except Exception as error:  # noqa: BLE001 - unseen in a thread: the poll raises it
            self.found = error

    def _fetch_arrow(self, deadline: Deadline) -> Fetched | FetchFailed:
        ((place, position),) = self._positions
        try:
            if self._history is not None:
                found = self._history.read(place, position, self._limits, deadline, routing_key=self._routing_key)
                if found is not None:
                    return found
            return fetch_arrow(self._transport, place, position, self._limits, deadline, routing_key=self._routing_key)
        except OffsetOutOfRange as error:
            return FetchFailed(place, error)

    def is_wanted(self, place: TopicPartition, assignment: Assignment) -> bool:
        """Return whether the partition is still to be read from the order's position."""
        progress, turn = self._turns[place]
        return place in assignment and assignment[place] is progress and progress.turn == turn

    def wanted(self, assignment: Assignment) -> bool:
        """Return whether any of the order's partitions is still wanted."""
        return any(self.is_wanted(place, assignment) for place in self._turns)


class FetchAhead:
    """One order under way in a thread of its own. For one thread at a time; ``close`` may come from any."""

    def __init__(self) -> None:
        self._order: FetchOrder | None = None
        self._thread: WorkerThread | None = None

    @property
    def busy(self) -> bool:
        """Whether there is an order, or a thread that still fetches unwanted records."""
        return self._order is not None or (self._thread is not None and self._thread.is_alive())

    def start(self, order: FetchOrder, deadline: Deadline) -> None:
        """Start fetching the order. Must not be called while ``busy``."""
        assert not self.busy
        self._order = order
        self._thread = WorkerThread(order.fetch, deadline, name="tidelog-fetch-ahead")
        self._thread.start()

    def take(self, assignment: Assignment) -> FetchOrder | None:
        """Wait for the order, and return it fetched; None if no partition of it is wanted any more."""
        order, self._order = self._order, None
        if order is None or self._thread is None or not order.wanted(assignment):
            return None
        self._thread.ended()
        return order

    def close(self) -> None:
        """Wait up to ``PREFETCH_END_MS`` for the thread, whose connection the caller has cut."""
        thread = self._thread
        if thread is not None:
            thread.ended(limits.PREFETCH_END_MS / 1000)
