"""A record that is locked for this client, and its settlements."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

from tidelog.calls.queues import ReceivedRecord, Settlement
from tidelog.errors import LeaseExpired
from tidelog.queues.settling import PendingSettlement, Settler
from tidelog.types.record import Headers


class QueueRecord:
    """A record of a queue. It is settled once: by ``accept``, ``release`` or ``reject``, from any thread.

    Each of these returns immediately. The returned future is done when the gateway has stored the settlement; concurrent
    settlements share a request. Its ``result()`` raises ``LeaseExpired`` if the lock has expired: then the record is, or has
    been, delivered again. A second settlement raises ``RuntimeError``.
    """

    __slots__ = (
        "_lock",
        "_settler",
        "_settling",
        "_told",
        "delivery_count",
        "has_begun",
        "headers",
        "key",
        "lease",
        "locked_until",
        "lost",
        "offset",
        "partition",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(self, received: ReceivedRecord, settler: Settler, locked_until: float, *, counts: bool = True) -> None:
        """Create the record. Raises ``ValueError`` for invalid base64.

        Args:
            locked_until: by this machine's monotonic clock, in seconds.
            counts: whether the gateway has counted this delivery already.
        """
        stored = received.stored()
        self.topic: str = stored.topic
        self.partition: int = stored.partition
        self.offset: int = stored.offset
        self.timestamp_ms: int = stored.timestamp_ms
        self.key: bytes | None = stored.key
        self.value: bytes | None = stored.value
        self.headers: Headers = stored.headers
        self.delivery_count: int = received.delivery_count
        """Number of this delivery, from 1. After a crash of a gateway it may be one too high."""
        self.lease: str = received.lease
        self.locked_until: float = locked_until
        self.lost: bool = False
        """Whether the lock has expired: another consumer may have the record."""
        self.has_begun: bool = False
        """Whether the program has received the record."""
        self._told = counts
        self._settler = settler
        self._settling: PendingSettlement | None = None
        self._lock = threading.Lock()

    @property
    def queue(self) -> str:
        """Name of the record's queue."""
        return self._settler.queue

    @property
    def is_settled(self) -> bool:
        """Whether the record was settled by ``accept``, ``release``, ``reject`` or a transaction."""
        return self._settling is not None

    def accept(self) -> PendingSettlement:
        """Mark the record as done."""
        return self._settle("accept")

    def release(self, delay_ms: int | None = None) -> PendingSettlement:
        """Deliver the record again after ``delay_ms`` (None: the queue's back-off); after too many deliveries it is a dead
        letter."""
        return self._settle("release", delay_ms=-1 if delay_ms is None else delay_ms)

    def reject(self, reason: str = "") -> PendingSettlement:
        """Send the record to the dead letter topic, or drop it if there is none. ``reason``: 1,000 bytes at most."""
        return self._settle("reject", reason=reason)

    def renew(self, lock_ms: int) -> PendingSettlement:
        """Keep the record locked for ``lock_ms`` from now. A ``QueueConsumer`` does so automatically."""
        asked_at = time.monotonic()
        settling = self._settler.submit(self._settlement("renew", lock_ms=lock_ms))
        settling.add_done_callback(lambda done: self._renewed(done, asked_at + lock_ms / 1000))
        return settling

    def _renewed(self, done: Future[None], locked_until: float) -> None:
        error = done.exception()
        if error is None:
            self.locked_until = locked_until
        elif isinstance(error, LeaseExpired):
            self.lost = True

    def begin(self, lock_ms: int) -> None:
        """Mark the record as received by the program, and tell the gateway, so that the delivery counts if this process dies."""
        self.has_begun = True
        if not self._told:
            self._told = True
            asked_at = time.monotonic()
            telling = self._settler.submit(self._settlement("renew", lock_ms=lock_ms, begun=True))
            telling.add_done_callback(lambda done: self._renewed(done, asked_at + lock_ms / 1000))

    def release_unsettled(self) -> None:
        """Release the record if it is not settled; immediately and uncounted if the program never received it. Thread-safe."""
        with self._lock:
            if self._settling is None and not self.lost:
                begun = None if self.has_begun else False
                self._settling = self._settler.submit(self._settlement("release", begun=begun))

    def take_settlement(self, action: str) -> Settlement:
        """Return the settlement for ``Producer.accept_in_transaction``. The lock then holds until the transaction ends."""
        with self._lock:
            self._check_unsettled()
            self._settling = PendingSettlement()
            self._settling.set_result(None)
        return self._settlement(action)

    def _check_unsettled(self) -> None:
        if self._settling is not None:
            raise RuntimeError(f"{self.topic}/{self.partition} at offset {self.offset} is already settled")

    def _settle(self, action: str, *, delay_ms: int = -1, reason: str = "") -> PendingSettlement:
        with self._lock:
            self._check_unsettled()
            self._settling = self._settler.submit(self._settlement(action, delay_ms=delay_ms, reason=reason))
            return self._settling

    def _settlement(
        self, action: str, *, delay_ms: int = -1, lock_ms: int = -1, reason: str = "", begun: bool | None = None
    ) -> Settlement:
        return Settlement(
            topic=self.topic,
            partition=self.partition,
            lease=self.lease,
            action=action,
            delay_ms=delay_ms,
            lock_ms=lock_ms,
            reason=reason,
            begun=begun,
            first_offset=self.offset,
            last_offset=self.offset,
        )

    def __repr__(self) -> str:
        """Show the record's place and delivery count."""
        return f"<QueueRecord {self.topic}/{self.partition}/{self.offset}, delivery {self.delivery_count}>"
