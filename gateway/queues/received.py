"""A receive: its request, its state while it takes records, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.engine.open_topic import OpenTopic
from gateway.memory_budget import Memory, Reservation
from gateway.queues.bounds import SCANNED_BYTES_MAX
from gateway.queues.live_queue import LiveQueue
from gateway.queues.queue_partition import HeldRange, Lease, QueuePartition
from log_format.queues.row import QueueSettings
from log_format.records.filter import RecordFilter
from log_format.topic.state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveRequest:
    """A request to receive: how many records, how long to wait for them, and how long to lock them.

    ``lock_ms`` None: the queue's. ``only``: topics and partitions; None: all of the queue.
    """

    records_max: int
    bytes_max: int
    wait_ms_max: int
    lock_ms: int | None
    only: frozenset[tuple[str, int]] | None = None
    begun_max: int | None = None
    """Number of the answer's records that are begun immediately; the others count once the caller says so. None: all."""

    def wants(self, topic: str, partition: int) -> bool:
        """Return whether records of the partition are wanted."""
        return self.only is None or (topic, partition) in self.only


@dataclass(slots=True)
class Delivered:
    """Records of one partition with one delivery count (``RECORD_SCHEMA``), held until their lease is known."""

    topic: str
    records: pa.Table
    held: HeldRange
    share: QueuePartition
    offsets: npt.NDArray[np.int64] | None
    """Offsets of the records, if the range has other offsets too; None: every offset is a record."""


@dataclass(slots=True)
class Received:
    """An answer. Its memory is reserved: release it once it is sent."""

    parts: list[tuple[Delivered, Lease]]
    locked_until_ms: int
    size_bytes: int
    record_count: int
    reservation: Reservation


@dataclass(slots=True)
class TakeAttempt:
    """One try to take records: what it has taken, and what it may still take."""

    queue: LiveQueue
    settings: QueueSettings
    filter: RecordFilter | None
    records_left: int
    bytes_left: int
    memory: Memory
    reservation: Reservation
    now_ms: int
    is_for_store: bool = False
    looked_at_bytes: int = 0
    size_bytes: int = 0
    is_full: bool = False
    delivered: list[Delivered] = field(default_factory=list)

    @property
    def has_room(self) -> bool:
        """Whether more records may be taken."""
        return not self.is_full and self.records_left > 0 and self.looked_at_bytes < SCANNED_BYTES_MAX

    def drop(self) -> None:
        """Let go of all records taken, and release their memory."""
        for one in self.delivered:
            one.share.release(one.held)
        self.delivered.clear()
        self.reservation.release()


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """A partition that is read up to ``end``."""

    topic: OpenTopic
    state: TopicState
    share: QueuePartition
    end: int
