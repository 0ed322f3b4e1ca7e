"""Cache of what a producer must know about its topics."""

from __future__ import annotations

import threading
import time

import msgspec

from log_format.limits import RECORD_BYTES_DEFAULT
from tidelog import limits
from tidelog.calls.topics import describe_for_producer
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport


class TopicFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a topic that a producer needs. ``asked_at``: monotonic seconds."""

    partition_count: int
    record_bytes_max: int
    gateway_stamps: bool
    needs_keys: bool
    is_shared: bool
    """Whether the topic commits through a journal."""
    asked_at: float


class TopicFactsCache:
    """Facts about the topics sent to, refreshed when they are stale. Thread-safe."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._facts: dict[str, TopicFacts] = {}
        self._lock = threading.Lock()

    def learn(self, topic: str, partition_count: int) -> None:
        """Drop cached facts that have fewer partitions than a gateway reported."""
        with self._lock:
            facts = self._facts.get(topic)
            if facts is not None and facts.partition_count < partition_count:
                del self._facts[topic]

    def is_shared(self, topic: str) -> bool:
        """Return whether the topic commits through a journal, as far as is cached."""
        with self._lock:
            facts = self._facts.get(topic)
        return facts is not None and facts.is_shared

    def get(self, topic: str, deadline: Deadline, *, asked_after: float = 0.0) -> TopicFacts:
        """Return the cached facts if they are newer than ``asked_after`` (monotonic seconds), else ask a gateway.

        Raises what ``describe_for_producer`` raises.
        """
        with self._lock:
            facts = self._facts.get(topic)
        oldest = time.monotonic() - limits.METADATA_AGE_MS_MAX / 1000
        if facts is not None and facts.asked_at > max(oldest, asked_after):
            return facts
        asked_at = time.monotonic()
        described = describe_for_producer(self._transport, topic, deadline)
        facts = TopicFacts(
            partition_count=described.partition_count,
            record_bytes_max=int(described.config.get("max.message.bytes", RECORD_BYTES_DEFAULT)),
            gateway_stamps=described.config.get("message.timestamp.type") == "LogAppendTime",
            needs_keys="compact" in str(described.config.get("cleanup.policy", "")),
            is_shared=described.commit.mode == "shared",
            asked_at=asked_at,
        )
        with self._lock:
            self._facts.pop(topic, None)
            self._facts[topic] = facts
            if len(self._facts) > limits.TOPICS_CACHED_MAX:
                del self._facts[next(iter(self._facts))]
        return facts
