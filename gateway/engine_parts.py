"""What a gateway's engine is made of: the parts that are handed in, and its settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from gateway.cluster.ownership import Ownership
from gateway.engine.bounds import EngineBounds
from gateway.engine.journal_peers import JournalPeers, NoPeers
from gateway.engine.pool import MakeExecutor
from gateway.engine.threads import Threads
from gateway.groups.bounds import GroupBounds
from gateway.memory_budget import MemoryBudget
from gateway.queues.bounds import QueueBounds
from log_format.clock import Clock
from log_format.ids import NewId, random_id
from log_format.store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """What an engine works with. Simulations replace the clock, ids, jitter and executors."""

    store: ObjectStore
    """Store for writes and for looks at logs."""
    cold_store: ObjectStore
    """The same store over connections of its own, so that readers of old records and writers never wait for each other."""
    ownership: Ownership
    clock: Clock
    registry: CollectorRegistry
    request_memory: MemoryBudget
    """Budget for staged and published records."""
    journal_peers: JournalPeers = field(default_factory=NoPeers)
    new_id: NewId = random_id
    jitter: Callable[[], float] = random.random
    make_executor: MakeExecutor = Threads


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Bounds of an engine, and who has all rights."""

    bounds: EngineBounds
    groups: GroupBounds = field(default_factory=GroupBounds)
    queues: QueueBounds = field(default_factory=QueueBounds)
    super_users: Collection[str] | None = None
    """Principals with all rights; None: rights are not enforced."""
