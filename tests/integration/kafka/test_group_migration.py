"""A group's members go over to the other protocol of Kafka one by one, and back, while it reads (KIP-848, online migration)."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.kafka_gateway import KafkaGateway

PARTITIONS = 4
WAIT_SECONDS = 60


class _Member:
    """A member of librdkafka that commits what it has handled, before it gives a partition up, too."""

    def __init__(self, crew: _Crew, protocol: str, **more: str) -> None:
        config = {
            "bootstrap.servers": crew.gateway.kafka,
            "group.id": crew.group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            config |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 200}
        self._crew = crew
        self._next: dict[int, int] = {}
        self._consumer = Consumer(config | more)
        self._consumer.subscribe([crew.topic], on_revoke=self._revoked, on_lost=self._lost)

    def step(self) -> None:
        """Handle what comes."""
        for message in self._consumer.consume(10, 0.05):
            assert not message.error(), message.error()
            self._crew.handled[(message.value() or b"").decode()] += 1
            self._next[message.partition() or 0] = (message.offset() or 0) + 1

    def partitions(self) -> set[int]:
        """What it reads."""
        return {one.partition for one in self._consumer.assignment()}

    def leave(self) -> None:
        """It gives up all, and goes."""
        self._crew.members.remove(self)
        self._consumer.close()

    def _revoked(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        given_up = {one.partition: self._next.pop(one.partition, None) for one in lost}
        offsets = [TopicPartition(self._crew.topic, number, end) for number, end in given_up.items() if end is not None]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=False)

    def _lost(self, _consumer: Consumer, lost: list[TopicPartition]) -> None:
        raise AssertionError(f"{lost} went to others, and nobody asked for them")


class _Crew:
    """A group while records come. ``handled``: how often each was."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self.gateway = gateway
        self.topic = gateway.topic(f"t{secrets.token_hex(4)}", PARTITIONS)
        self.group = f"g-{secrets.token_hex(4)}"
        self.members: list[_Member] = []
        self.handled: Counter[str] = Counter()
        self._sent: set[str] = set()

    def takes_in(self, protocol: str, **more: str) -> _Member:
        """One more member; then all share the partitions, and handle what comes."""
        member = _Member(self, protocol, **more)
        self.members.append(member)
        self.works()
        return member

    def works(self) -> None:
        """The partitions are shared out, and new records of each are handled, while members come to that."""
        self._until(self._is_shared_out)
        self._send()
        self._until(lambda: self._sent == self.handled.keys())
        self._until(self._is_shared_out)

    def loses(self, member: _Member) -> None:
        """It leaves; the others go on."""
        self._send()
        member.leave()
        self.works()

    def kind(self) -> str:
        """As administrators see the group."""
        admin = AdminClient({"bootstrap.servers": self.gateway.kafka})
        listed = admin.list_consumer_groups().result().valid
        return next(str(one.type.name) for one in listed if one.group_id == self.group)

    def _send(self) -> None:
        for partition in range(PARTITIONS):
            values = [f"{partition}-{len(self._sent)}-{number}" for number in range(3)]
            self.gateway.produce(self.topic, *values, partition=partition)
            self._sent |= set(values)

    def _is_shared_out(self) -> bool:
        given = sorted(number for member in self.members for number in member.partitions())
        return given == list(range(PARTITIONS)) and all(one.partitions() for one in self.members)

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert time.monotonic() < deadline_s, [one.partitions() for one in self.members]
            for member in self.members:
                member.step()


@pytest.fixture
def crew(gateway: KafkaGateway) -> Iterator[_Crew]:
    """Without members at first; none is left."""
    crew = _Crew(gateway)
    yield crew
    for member in list(crew.members):
        member.leave()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_go_over_and_back_one_by_one(crew: _Crew, strategy: str) -> None:
    """Each record is handled once, and members of both protocols share the partitions meanwhile."""
    classic = {"partition.assignment.strategy": strategy}
    old = [crew.takes_in("classic", **classic) for _ in range(2)]
    assert crew.kind() == "CLASSIC"
    new = [crew.takes_in("consumer")]
    assert crew.kind() == "CONSUMER"
    crew.loses(old.pop())
    new.append(crew.takes_in("consumer"))
    crew.loses(old.pop())
    old = [crew.takes_in("classic", **classic) for _ in range(2)]
    assert crew.kind() == "CONSUMER"
    crew.loses(new.pop())
    crew.loses(new.pop())
    assert crew.kind() == "CLASSIC"
    old.append(crew.takes_in("classic", **classic))
    assert set(crew.handled.values()) == {1}
