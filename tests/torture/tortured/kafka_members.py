"""Members of a group by Kafka's protocol (librdkafka): they consume, process and commit, by the classic protocol or KIP-848.

Their histories are those of the members that poll over HTTP, judged by the same judge. They do not say which member
holds what: librdkafka learns of a rebalance by itself. It also repeats commits by itself, so what is not acknowledged
is in doubt, refused or not.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final, Literal

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.torture.tortured.group_history import Commit, MemberHistory
from tests.torture.tortured.kafka_clients import QUICK, messages

Protocol = Literal["classic", "consumer"]
PROTOCOLS: Final[tuple[Protocol, ...]] = ("classic", "consumer")
SESSION_MS: Final = 10_000
_OF_PROTOCOL: Final[dict[Protocol, dict[str, Any]]] = {
    "classic": {"session.timeout.ms": SESSION_MS, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


class KafkaMember(threading.Thread):
    """One consumer. It begins anew where librdkafka gives up, so it may have several histories, one for each member id."""

    def __init__(
        self, name: str, servers: str, group: str, topic: str, *, protocol: Protocol, stopping: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.group = group
        self.histories: list[MemberHistory] = []
        self._topic = topic
        self._stopping = stopping
        self._settings: dict[str, Any] = {
            **QUICK,
            **_OF_PROTOCOL[protocol],
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }

    def run(self) -> None:
        """Until it is told to stop."""
        while not self._stopping.is_set():
            consumer = Consumer(self._settings)
            # With callbacks a rebalance waits for the next poll: what is at work here is committed before it is another's.
            consumer.subscribe([self._topic], on_assign=_heard, on_revoke=_heard, on_lost=_heard)
            try:
                while not self._stopping.is_set():
                    self._turn(consumer)
            except KafkaException:
                self._stopping.wait(0.1)
            finally:
                consumer.close()

    def _turn(self, consumer: Consumer) -> None:
        """Process what has come, then commit. Raises ``KafkaException`` where this consumer can't go on."""
        found = messages(consumer, 0.3)
        if not found:
            return
        now = time.monotonic()
        offsets: dict[int, int] = {}
        history = self._history(consumer)
        for message in found:
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            history.processed.append((now, partition, offset))
            offsets[partition] = max(offset + 1, offsets.get(partition, 0))
        started = time.monotonic()
        is_done = self._commit(consumer, offsets) and self._history(consumer) is history
        history.commits.append(Commit(started=started, ended=time.monotonic() if is_done else None, offsets=offsets))

    def _commit(self, consumer: Consumer, offsets: dict[int, int]) -> bool:
        wanted = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        try:
            told = consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return False
        return told is not None and all(one.error is None for one in told)

    def _history(self, consumer: Consumer) -> MemberHistory:
        """Of the present member id."""
        member_id = str(consumer.memberid() or "")
        if not self.histories or self.histories[-1].member_id != member_id:
            self.histories.append(MemberHistory(member_id=member_id, session_seconds=SESSION_MS / 1000))
        return self.histories[-1]


def _heard(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
    """librdkafka does the rest."""
