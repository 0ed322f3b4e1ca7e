"""Members of consumer groups by Kafka's classic protocol: they join, sync and beat by its frames, read and commit over HTTP.

An eager one stops reading before it joins again. A cooperative one says what it reads, and joins once more when it has let go of
what it lost. Where all members are such ones, their leader assigns; a cooperative one gives nothing that another still reads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.classic.consumer_protocol import (
    assigned_partitions,
    assignment_of,
    owned_partitions,
    subscribed_topics,
    subscription_of,
)
from log_format.groups.row import Partitions
from tests.simulation.simulated.faults import SECOND_MS
from tests.simulation.simulated_groups.ledger import Key, Ledger
from tests.simulation.simulated_groups.members import Habits, Member
from tests.simulation.simulated_kafka.line import Line
from tests.simulation.simulated_service.coordinated_world import Around
from tests.simulation.simulated_service.network import Lost
from tests.simulation.simulated_service.service import Service

EAGER, COOPERATIVE = "range", "cooperative-sticky"
_OUT = frozenset({KafkaError.unknown_member_id, KafkaError.fenced_instance_id})
_REBALANCE_MS = 120 * SECOND_MS
"""Longer than a session: a member that does not come is out by that."""


class ClassicMember(Member):
    """``counts``: partitions of each topic that there is."""

    def __init__(
        self,
        around: Around[Ledger],
        group: str,
        topics: Iterable[str],
        habits: Habits,
        *,
        protocol: str,
        counts: Mapping[str, int],
        connect: Callable[[Service], Line],
    ) -> None:
        super().__init__(around, group, {}, habits)
        self._topics = sorted(topics)
        self._protocol = protocol
        self._counts = counts
        self._connect = connect
        self._line: Line | None = None
        self._is_called = False
        """It is to join again."""

    def _join(self) -> None:
        life, sent_ms = self._life, self._around.scheduler.now_ms
        if life is not None and (self._protocol == EAGER or self._is_expired()):
            self._stop_reading(set(life.keys))
        joined = self._joined("" if life is None else life.member_id)
        if joined is not None and joined.error_code is KafkaError.member_id_required:
            sent_ms = self._around.scheduler.now_ms
            joined = self._joined(joined.member_id)
        if joined is None or self._is_refused(joined.error_code):
            return
        if self._life is None:
            self._begin(joined.member_id, joined.generation_id, sent_ms)
            self._around.ledger.told["joined by the classic protocol"] += 1
        life = self._life
        assert life is not None
        life.generation, self._is_called = joined.generation_id, True
        if self._around.rng.random() < 0.5:
            self._around.think()
        plan = self._plan(joined) if joined.leader == joined.member_id else {}
        self._around.ledger.told["led" if plan else "followed"] += 1
        assignments = [{"member_id": name, "assignment": assignment_of(given)} for name, given in plan.items()]
        sent_ms = self._around.scheduler.now_ms
        names = {"protocol_type": "consumer", "protocol_name": self._protocol}
        synced = self._ask("sync_group", 5, **self._me(), **names, assignments=assignments)
        if synced is None or self._is_refused(synced.error_code):
            return
        given = {(topic, one) for topic, some in assigned_partitions(synced.assignment).items() for one in some}
        self._is_called = bool(life.keys - given)
        life.uncommitted = {key: end for key, end in life.uncommitted.items() if key in life.keys & given}
        self._reads(given, sent_ms)

    def _joined(self, member_id: str) -> Any:
        owned = set() if self._life is None else self._life.keys
        return self._ask(
            "join_group",
            9,
            group_id=self._group,
            session_timeout=self._timeout_ms,
            rebalance_timeout=_REBALANCE_MS,
            member_id=member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": self._protocol, "metadata": _reading(self._topics, owned)}],
            reason=None,
        )

    def _beat(self) -> None:
        life, sent_ms = self._life, self._around.scheduler.now_ms
        assert life is not None
        if self._is_called:
            self._join()
            return
        beaten = self._ask("heartbeat", 4, **self._me())
        if beaten is None:
            return
        code = beaten.error_code
        if code in (KafkaError.none, KafkaError.rebalance_in_progress):
            self._reads(life.keys, sent_ms)
        if code is KafkaError.rebalance_in_progress:
            self._around.ledger.told["called to join again"] += 1
            if self._around.rng.random() < 0.7:
                self._commit()
        if code is not KafkaError.none and not self._is_refused(code):
            self._join()

    def _is_refused(self, code: KafkaError) -> bool:
        """Whether there is nothing more to do now."""
        if code is KafkaError.none:
            return False
        self._around.ledger.told[code.name] += 1
        if code in _OUT:
            self._end()
        elif code is KafkaError.illegal_generation and self._life is not None:
            self._stop_reading(set(self._life.keys))
        self._is_called = self._life is not None
        return True

    def _reads(self, keys: Iterable[Key], sent_ms: int) -> None:
        self._may_read([{"topic": topic, "partition": number} for topic, number in keys], sent_ms)

    def _plan(self, joined: Any) -> dict[str, Partitions]:
        wanted = {one.member_id: subscribed_topics(one.metadata) for one in joined.members}
        owner = {
            (topic, number): one.member_id
            for one in joined.members
            for topic, some in owned_partitions(one.metadata).items()
            for number in some
        }
        plan: dict[str, Partitions] = {name: {} for name in sorted(wanted)}
        for topic, count in self._counts.items():
            readers = [name for name in plan if topic in wanted[name]]
            for number in range(count if readers else 0):
                reader = readers[number % len(readers)]
                if owner.get((topic, number), reader) == reader:
                    plan[reader][topic] = (*plan[reader].get(topic, ()), number)
        return plan

    def _me(self) -> dict[str, Any]:
        assert self._life is not None
        return {
            "group_id": self._group,
            "generation_id": self._life.generation,
            "member_id": self._life.member_id,
            "group_instance_id": None,
        }

    def _ask(self, name: str, version: int, /, **values: Any) -> Any:
        """The answer, or None: it was lost, and so is the connection."""
        service = self._around.gateway_for(self._group)
        if self._line is None or not self._line.is_open or self._line.service is not service:
            if self._line is not None:
                self._line.close()
            self._line = self._connect(service)
        answer = self._line.call(name, version, **values)
        if answer is Lost.NO_ANSWER:
            self._around.on_silence(self._group, service)
            return None
        return answer


def _reading(topics: Iterable[str], keys: Iterable[Key]) -> bytes:
    """The metadata, of version 1, of a member that subscribes to these topics and reads these partitions."""
    owned: dict[str, tuple[int, ...]] = {}
    for topic, number in sorted(keys):
        owned[topic] = (*owned.get(topic, ()), number)
    return struct.pack(">h", 1) + subscription_of(topics)[2:] + assignment_of(owned)[2:-4]
