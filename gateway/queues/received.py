"""What a receive asks for, what it has in hand while it takes records, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.engine.open_topic import OpenTopic
from gateway.memory_budget import Memory, Reservation
from gateway.queues.bounds import LOOKED_AT_BYTES_MAX
from gateway.queues.live_queue import LiveQueue
from gateway.queues.share import Held, Lease, Share
from log_format.queues.row import QueueSettings
from log_format.records.filter import RecordFilter
from log_format.topic.state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveWish:
    """How much, how long to wait for it, and how long to lock it. ``lock_ms`` None: as the queue has it. ``only``: topics and
    partitions; None: all of the queue."""

    records_max: int
    bytes_max: int
    wait_ms_max: int
    lock_ms: int | None
    only: frozenset[tuple[str, int]] | None = None
    begun_max: int | None = None
    """So many records of the answer are begun at once; the others count once the caller says so. None: all."""

    def wants(self, topic: str, partition: int) -> bool:
        """Whether records of the partition are wanted."""
        return self.only is None or (topic, partition) in self.only


@dataclass(slots=True)
class Delivered:
    """Records of one partition with one delivery count (``RECORD_SCHEMA``), held until their lease is known."""

    topic: str
    records: pa.Table
    held: Held
    share: Share
    offsets: npt.NDArray[np.int64] | None
    """Where the range spans others; None: every offset is a record."""


@dataclass(slots=True)
class Received:
    """An answer. Its memory is reserved: release it once it is sent."""

    parts: list[tuple[Delivered, Lease]]
    locked_until_ms: int
    size_bytes: int
    record_count: int
    reservation: Reservation


@dataclass(slots=True)
class Take:
    """One try: what is in hand, and what may still be taken."""

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
        """Whether more may be taken."""
        return not self.is_full and self.records_left > 0 and self.looked_at_bytes < LOOKED_AT_BYTES_MAX

    def drop(self) -> None:
        """Let everything go."""
        for one in self.delivered:
            one.share.let_go(one.held)
        self.delivered.clear()
        self.reservation.release()


@dataclass(frozen=True, slots=True)
class At:
    """A partition that is read up to ``end``."""

    topic: OpenTopic
    state: TopicState
    share: Share
    end: int
