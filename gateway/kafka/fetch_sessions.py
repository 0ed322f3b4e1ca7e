"""Fetch sessions: a client names its partitions once, later only changes; an answer has only partitions with news.

1. A request with session epoch 0 begins a session, one with -1 has no session, and the epochs of later requests increase by one.
2. A session belongs to one principal, and outlives its connection. Once it was idle for ``IDLE_MS``, it is dropped when other
   sessions need its room. Its client then gets ``FETCH_SESSION_ID_NOT_FOUND``, and begins another one.
3. If there is no room for another session, the client gets none (id 0), and names all its partitions in each request.
4. A partition that has just returned records moves behind the others, so that no partition starves.

Source: KIP-227. Used on the event loop only.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode as KafkaError

from log_format.clock import Clock

PARTITIONS_MAX: Final = 20_000
"""Most partitions in all sessions of a listener, at some 400 bytes each."""
SESSIONS_MAX: Final = 1_000
IDLE_MS: Final = 120_000
NO_SESSION_EPOCH: Final = -1
NEW_SESSION_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

TopicKey = str | uuid.UUID | None
PartitionKey = tuple[TopicKey, int]
"""A topic's name, or its id in versions of the request that have it; and a partition."""


@dataclass(slots=True, eq=False)
class SessionPartition:
    """A partition as a client asks for it, and what the client was told last."""

    topic: TopicKey
    partition: int
    offset: int
    bytes_max: int
    last_answer: tuple[int, int] | None = None
    """High watermark and log start of the last answer; None if there was none, or an error."""

    @property
    def key(self) -> PartitionKey:
        """Key of the partition in a session."""
        return self.topic, self.partition


@dataclass(slots=True, eq=False)
class FetchSession:
    """A client's fetch session. ``id`` 0: it serves one request only. ``is_incremental``: answers have only partitions with
    news."""

    id: int = 0
    principal: str = ""
    partitions: OrderedDict[PartitionKey, SessionPartition] = field(default_factory=OrderedDict)
    epoch: int = 1
    """Session epoch that the next request has to name."""
    used_ms: int = 0
    is_incremental: bool = False

    def add(self, some: Iterable[SessionPartition]) -> None:
        """Add partitions, or change the offset and the limit of known ones."""
        for one in some:
            known = self.partitions.get(one.key)
            if known is None:
                self.partitions[one.key] = one
            else:
                known.offset, known.bytes_max = one.offset, one.bytes_max

    def has_news(self, one: SessionPartition, told: tuple[int, int] | None, *, has_records: bool) -> bool:
        """Return whether the answer must include the partition, and remember ``told`` as its last answer.

        Args:
            one: The partition.
            told: High watermark and log start in this answer; None for an error.
            has_records: Whether this answer has records of the partition.
        """
        if has_records and one.key in self.partitions:
            self.partitions.move_to_end(one.key)
        is_new = has_records or told is None or told != one.last_answer
        one.last_answer = told
        return is_new or not self.is_incremental


class FetchSessions:
    """The sessions of a listener. ``new_id`` returns a positive int32."""

    def __init__(
        self,
        clock: Clock,
        new_id: Callable[[], int],
        *,
        partitions_max: int = PARTITIONS_MAX,
        sessions_max: int = SESSIONS_MAX,
    ) -> None:
        self._clock = clock
        self._new_id = new_id
        self._partitions_max = partitions_max
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """Sessions by id, least recently used first."""

    @property
    def count(self) -> int:
        """Number of sessions."""
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def update_session(
        self,
        principal: str,
        session_id: int,
        epoch: int,
        partitions: Sequence[SessionPartition],
        forgotten: Sequence[PartitionKey],
    ) -> FetchSession | KafkaError:
        """Return the session of a request, updated by it.

        Args:
            principal: Of the caller.
            session_id: As the request names it.
            epoch: ``NEW_SESSION_EPOCH``, ``NO_SESSION_EPOCH``, or the epoch that the session expects.
            asked: Partitions that are added or changed.
            forgotten: Partitions that are removed from the session.

        Returns:
            The session, or Kafka's error code.
        """
        if epoch in (NO_SESSION_EPOCH, NEW_SESSION_EPOCH):
            self._end(principal, session_id)
            session = FetchSession(principal=principal)
            session.add(partitions)
            if epoch == NEW_SESSION_EPOCH:
                self._register(session)
            return session
        known = self._sessions.get(session_id)
        if known is None or known.principal != principal:
            return KafkaError.fetch_session_id_not_found
        if epoch != known.epoch:
            return KafkaError.invalid_fetch_session_epoch
        known.epoch = epoch + 1 if epoch < _EPOCH_MAX else 1
        known.is_incremental = True
        for key in forgotten:
            known.partitions.pop(key, None)
        before = len(known.partitions)
        known.add(partitions)
        known.used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session_id)
        if len(known.partitions) > before and not self._has_room():
            del self._sessions[session_id]
            return KafkaError.fetch_session_id_not_found
        return known

    def _register(self, session: FetchSession) -> None:
        """Give the session an id if there is room for it."""
        session.id = self._new_id()
        session.used_ms = self._clock.monotonic_ms()
        replaced = self._sessions.pop(session.id, None)
        self._sessions[session.id] = session
        if replaced is not None or not self._has_room():
            del self._sessions[session.id]
            session.id = 0

    def _has_room(self) -> bool:
        """Drop idle sessions as far as necessary, and return whether the remaining ones are within the bounds."""
        excess = self.partition_count - self._partitions_max
        for session in list(self._sessions.values()):
            if excess <= 0 and len(self._sessions) <= self._sessions_max:
                return True
            if self._clock.monotonic_ms() - session.used_ms < IDLE_MS:
                return False
            del self._sessions[session.id]
            excess -= len(session.partitions)
        return excess <= 0

    def _end(self, principal: str, session_id: int) -> None:
        known = self._sessions.get(session_id)
        if known is not None and known.principal == principal:
            del self._sessions[session_id]
