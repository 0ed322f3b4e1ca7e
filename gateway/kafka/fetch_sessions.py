"""Fetch sessions: a client names its partitions once, then only those that change; it is told only of those with news.

1. A request with session epoch 0 begins a session, -1 is outside any, and the others follow each other by one.
2. A session is of one principal, and outlives its connection. It is forgotten once it was not used for ``IDLE_MS``, and others
   need its room. Its client then gets ``FETCH_SESSION_ID_NOT_FOUND``, and begins another one.
3. Without room for another session the client gets none (id 0), and names all its partitions in each request.
4. What has just given records goes behind the others, so that no partition is left out for ever.

Source: KIP-227. Belongs to the event loop.
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
"""Of all sessions of a listener, some 400 bytes each."""
SESSIONS_MAX: Final = 1_000
IDLE_MS: Final = 120_000
OUTSIDE: Final = -1
BEGIN: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

TopicKey = str | uuid.UUID | None
Key = tuple[TopicKey, int]
"""A topic's name, or its id where the request's version has that; and a partition."""


@dataclass(slots=True, eq=False)
class Asked:
    """A partition as a client asks for it, and what it was told last."""

    topic: TopicKey
    partition: int
    offset: int
    bytes_max: int
    told: tuple[int, int] | None = None
    """High watermark and log start; None: nothing, or an error."""

    @property
    def key(self) -> Key:
        """By which a session has it."""
        return self.topic, self.partition


@dataclass(slots=True, eq=False)
class FetchSession:
    """``id`` 0: of one request only. ``is_incremental``: only what has news is told."""

    id: int = 0
    principal: str = ""
    asked: OrderedDict[Key, Asked] = field(default_factory=OrderedDict)
    epoch: int = 1
    """Of the next request."""
    used_ms: int = 0
    is_incremental: bool = False

    def ask(self, some: Iterable[Asked]) -> None:
        """Add partitions, or change how they are asked for."""
        for one in some:
            known = self.asked.get(one.key)
            if known is None:
                self.asked[one.key] = one
            else:
                known.offset, known.bytes_max = one.offset, one.bytes_max

    def has_news(self, one: Asked, told: tuple[int, int] | None, *, has_records: bool) -> bool:
        """Whether the client has to be told; then it counts as told."""
        if has_records and one.key in self.asked:
            self.asked.move_to_end(one.key)
        is_new = has_records or told is None or told != one.told
        one.told = told
        return is_new or not self.is_incremental


class FetchSessions:
    """Those of a listener. ``new_id`` gives a positive int32."""

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
        """The least recently used one first."""

    @property
    def count(self) -> int:
        """Of sessions."""
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Of all sessions together."""
        return sum(len(session.asked) for session in self._sessions.values())

    def session(
        self, principal: str, session_id: int, epoch: int, asked: Sequence[Asked], forgotten: Sequence[Key]
    ) -> FetchSession | KafkaError:
        """The session of a request, with what it asks for now."""
        if epoch in (OUTSIDE, BEGIN):
            self._end(principal, session_id)
            session = FetchSession(principal=principal)
            session.ask(asked)
            if epoch == BEGIN:
                self._keep(session)
            return session
        known = self._sessions.get(session_id)
        if known is None or known.principal != principal:
            return KafkaError.fetch_session_id_not_found
        if epoch != known.epoch:
            return KafkaError.invalid_fetch_session_epoch
        known.epoch = epoch + 1 if epoch < _EPOCH_MAX else 1
        known.is_incremental = True
        for key in forgotten:
            known.asked.pop(key, None)
        before = len(known.asked)
        known.ask(asked)
        known.used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session_id)
        if len(known.asked) > before and not self._has_room():
            del self._sessions[session_id]
            return KafkaError.fetch_session_id_not_found
        return known

    def _keep(self, session: FetchSession) -> None:
        """Give the session an id if there is room for it."""
        session.id = self._new_id()
        session.used_ms = self._clock.monotonic_ms()
        replaced = self._sessions.pop(session.id, None)
        self._sessions[session.id] = session
        if replaced is not None or not self._has_room():
            del self._sessions[session.id]
            session.id = 0

    def _has_room(self) -> bool:
        """Whether what is kept is within the bounds, once sessions that are not used any more are gone."""
        excess = self.partition_count - self._partitions_max
        for session in list(self._sessions.values()):
            if excess <= 0 and len(self._sessions) <= self._sessions_max:
                return True
            if self._clock.monotonic_ms() - session.used_ms < IDLE_MS:
                return False
            del self._sessions[session.id]
            excess -= len(session.asked)
        return excess <= 0

    def _end(self, principal: str, session_id: int) -> None:
        known = self._sessions.get(session_id)
        if known is not None and known.principal == principal:
            del self._sessions[session_id]
