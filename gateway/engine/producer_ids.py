"""Ids of producers, transactions and members: issued here, and recognized by the store's key whichever gateway issued them.

An id belongs to the owner that got it. Another owner's id is answered like one that was never issued. An id issued without an
owner (authentication was off) may be used by anyone, also later.
"""

from __future__ import annotations

import hmac

from gateway.engine.log_look import LogLook
from gateway.engine.pool import Pool
from log_format.clock import Clock
from log_format.cluster.identity import Cluster, load_cluster
from log_format.cluster.proof import NOBODY, prove
from log_format.errors import BackOff, ErrorCode, RequestRefused, StoreUnavailable
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic import producer_id
from log_format.topic.producers import ProducerStamp

PLAIN_EPOCH = 0
"""The only epoch of a producer without a transactional id."""
NUMBER_AHEAD_MS_MAX = 60_000
"""Maximum difference between the clocks of gateways."""


class ProducerIds:
    """Issuer of ids. Used on the event loop only. The store's key is read once, when it is first needed."""

    def __init__(self, store: ObjectStore, *, pool: Pool, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._pool = pool
        self._clock = clock
        self._new_id = new_id
        self._last_number_ms = 0
        self._cluster: Cluster | None = None
        self._look = LogLook(self._load)

    async def issue(self, kind: str = producer_id.PLAIN, owner: str = NOBODY) -> str:
        """Return a new id. Raises ``BackOff`` when the store can't be reached, ``CorruptData``."""
        cluster = await self._known_cluster()
        return producer_id.issue(kind, self._clock.now_ms(), self._new_id(), cluster.producer_key, owner)

    def issue_number(self) -> int:
        """Return a new id of a Kafka client's producer: no two ids of one gateway have the same issue time."""
        self._last_number_ms = max(self._clock.now_ms(), self._last_number_ms + 1)
        return producer_id.issue_number(self._last_number_ms, self._new_id())

    def check_number(self, stamp: ProducerStamp) -> None:
        """Raise ``RequestRefused`` (``UNKNOWN_PRODUCER``) for a number whose issue time is ahead: once such a producer was
        forgotten, all numbers issued before that time would be refused."""
        if producer_id.issued_ms(stamp.producer_id) > self._clock.now_ms() + NUMBER_AHEAD_MS_MAX:
            raise RequestRefused(
                f"Producer {stamp.producer_id} was never issued: the time in it is in the future.",
                code=ErrorCode.UNKNOWN_PRODUCER,
            )

    async def is_of_another_owner(self, issued_id: str, owner: str) -> bool:
        """Return whether the id was issued for another owner, or was never issued. Raises what ``issue`` raises."""
        return not producer_id.is_issued(issued_id, (await self._known_cluster()).producer_key, owner)

    async def prove(self, text: str, owner: str) -> str:
        """Return a proof of a text that is not an id. Raises what ``issue`` raises."""
        return prove(text, (await self._known_cluster()).producer_key, owner)

    async def key_for(self, purpose: bytes) -> bytes:
        """Return a key for proofs of one purpose, derived from the store's key. Raises what ``issue`` raises."""
        return hmac.digest((await self._known_cluster()).producer_key, purpose, "sha256")

    async def cluster_key(self) -> bytes:
        """Return the store's key. Raises what ``issue`` raises."""
        return (await self._known_cluster()).producer_key

    async def check(self, stamp: ProducerStamp, owner: str = NOBODY) -> None:
        """Raise ``RequestRefused`` (``UNKNOWN_PRODUCER``) for an id or epoch that was never issued, or not for this owner; and
        what ``issue`` raises."""
        cluster = await self._known_cluster()
        is_plain = producer_id.kind_of(stamp.producer_id) == producer_id.PLAIN
        if (
            not producer_id.is_issued(stamp.producer_id, cluster.producer_key, owner)
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
            raise BackOff(f"The store did not return its producer key: {problem.detail}.") from problem
