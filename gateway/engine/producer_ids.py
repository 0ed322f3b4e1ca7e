"""Issues producer ids, and recognizes those of every gateway of the store, by the key that lies in the store."""

from __future__ import annotations

from gateway.engine.log_look import LogLook
from gateway.engine.pool import Pool
from log_format.clock import Clock
from log_format.cluster.identity import Cluster, load_cluster
from log_format.errors import BackOff, ErrorCode, RequestRefused, StoreUnavailable
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic import producer_id
from log_format.topic.producers import ProducerStamp

PLAIN_EPOCH = 0
"""The only epoch of a producer without a transactional id."""


class ProducerIds:
    """Belongs to the event loop. The key is read once, when it is first needed."""

    def __init__(self, store: ObjectStore, *, pool: Pool, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._pool = pool
        self._clock = clock
        self._new_id = new_id
        self._cluster: Cluster | None = None
        self._look = LogLook(self._load)

    async def issue(self, kind: str = producer_id.PLAIN) -> str:
        """A new id. Raises ``BackOff`` when the store can't be reached, ``CorruptData``."""
        cluster = await self._known_cluster()
        return producer_id.issue(kind, self._clock.now_ms(), self._new_id(), cluster.producer_key)

    async def check(self, stamp: ProducerStamp) -> None:
        """Raise ``RequestRefused`` (``UNKNOWN_PRODUCER``) for an id or epoch that was never issued; and as ``issue``."""
        cluster = await self._known_cluster()
        is_plain = producer_id.kind_of(stamp.producer_id) == producer_id.PLAIN
        if (
            not producer_id.is_issued(stamp.producer_id, cluster.producer_key)
            or not is_plain
            or stamp.epoch != PLAIN_EPOCH
        ):
            raise RequestRefused(
                f"Epoch {stamp.epoch} of producer {stamp.producer_id[:100]!r} was never issued. "
                "Get a producer with POST /v1/producers.",
                code=ErrorCode.UNKNOWN_PRODUCER,
            )

    async def _known_cluster(self) -> Cluster:
        if self._cluster is None:
            await self._look.after_now()
        assert self._cluster is not None
        return self._cluster

    async def _load(self) -> None:
        try:
            self._cluster = await self._pool.run(load_cluster, self._store, self._new_id)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not show its producer key: {problem.detail}.") from problem
