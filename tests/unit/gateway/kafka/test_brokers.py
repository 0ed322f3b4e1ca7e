"""What Kafka's clients are told of the gateways, and of which of them leads."""

from __future__ import annotations

import uuid

import pytest

from gateway.cluster.heartbeat import Heartbeat
from gateway.cluster.ownership import Mode, Ownership
from gateway.cluster.peers import Peers
from gateway.kafka.brokers import Advertised, brokers_of, nearest_brokers, node_id
from gateway.kafka.described_topics import DescribedTopic, EncodedTopics, Leaders
from log_format.clock import SystemClock
from log_format.topic.attachment import Attachment
from log_format.topic.config import TopicConfig
from tests.support.heartbeats import heartbeat


class State:
    """Of a topic, as far as leaders are concerned."""

    def __init__(self, topic: str, owners: int = 1, attachment: Attachment | None = None) -> None:
        self.topic = topic
        self.partition_count = 8
        self.attachment = attachment
        self.config = TopicConfig.parse({"owners": owners}, request_bytes_max=1 << 24)


def beat(name: str, kafka: str | None, zone: str | None = None) -> Heartbeat:
    return heartbeat(name, kafka=kafka, zone=zone)


def ownership(mode: Mode, *others: Heartbeat) -> Ownership:
    peers = Peers(SystemClock())
    peers.take_in(others)
    return Ownership("own", peers, mode)


OTHERS = (beat("a", "a.example:9092"), beat("b", "[::1]:9093"), beat("c", None))
BROKERS = brokers_of((beat("own", "own:1"), *OTHERS), "own")


@pytest.mark.parametrize("text", ["localhost:9092", "[::1]:9093", "10.0.0.1:1"])
def test_an_address_is_read_and_written_alike(text: str) -> None:
    """Brackets belong to the text only."""
    assert str(Advertised.of(text)) == text
    assert "[" not in Advertised.of(text).host


def test_gateways_with_a_listener_are_brokers() -> None:
    """With ids that follow from the gateway's; one that drains is left out where others are left."""
    assert {one.gateway_id: one.node_id for one in BROKERS} == {name: node_id(name) for name in ("own", "a", "b")}
    assert all(0 < one.node_id < 2**31 for one in BROKERS)
    beats = (beat("own", "own:1"), *OTHERS)
    assert {one.gateway_id for one in brokers_of(beats, "own", drains=True)} == {"a", "b"}
    assert [one.gateway_id for one in brokers_of(beats[:1], "own", drains=True)] == ["own"]


def test_the_owner_leads_where_it_has_a_listener() -> None:
    """Every gateway says the same of a topic; of one whose owner is no broker, each says itself."""
    owns = ownership("preferred", *OTHERS)
    leaders = Leaders(owns, BROKERS, node_id("own"))
    seen = set()
    for number in range(60):
        owner = owns.of_topic(f"t{number}")
        expected = "own" if owner is None or owner.id == "c" else owner.id
        assert leaders.of(State(f"t{number}")) == (node_id(expected),)  # type: ignore[arg-type]
        seen.add(expected)
    assert seen == {"own", "a", "b"}


def test_topics_of_a_journal_have_one_leader() -> None:
    """Its owner, so that one Produce carries them all."""
    owns = ownership("preferred", *OTHERS[:2])
    leaders = Leaders(owns, BROKERS, node_id("own"))
    for journal in range(16):
        told = {leaders.of(State(f"t{number}", attachment=Attachment(journal, 1, 1))) for number in range(20)}  # type: ignore[arg-type]
        owner = owns.of_journal(journal)
        assert told == {(node_id("own" if owner is None else owner.id),)}


def test_owners_share_the_partitions() -> None:
    """Each partition's owner leads it."""
    owns = ownership("preferred", *OTHERS[:2])
    told = Leaders(owns, BROKERS, node_id("own")).of(State("spread", owners=3))  # type: ignore[arg-type]
    owners = [owns.of_partition("spread", partition, 3) for partition in range(8)]
    assert told == tuple(node_id("own" if owner is None else owner.id) for owner in owners)
    assert len(set(told)) > 1


def test_without_forwarding_the_gateway_that_is_asked_leads() -> None:
    """It serves what it is asked."""
    assert Leaders(ownership("off", *OTHERS), BROKERS, node_id("own")).of(State("x", owners=3)) == (node_id("own"),)  # type: ignore[arg-type]


def test_bytes_are_kept_within_their_bound() -> None:
    """Each topic and version is encoded once; what was not asked for longest goes first."""
    kept, made = EncodedTopics(bytes_max=2_000), []

    def told(name: str, leaders: tuple[int, ...] = (1,)) -> DescribedTopic:
        return DescribedTopic(name, uuid.UUID(int=1), 4, leaders, 0)

    def ask(topic: DescribedTopic, version: int = 9) -> bytes:
        return kept.find_or_encode(version, topic, lambda: made.append(topic.name) or b"x" * 200)  # type: ignore[func-returns-value]

    for name in ("a", "a", "b", "a", "c", "a", "d"):
        assert ask(told(name)) == b"x" * 200
    assert made == ["a", "b", "c", "d"]
    ask(told("a"))
    ask(told("b"))
    ask(told("a", leaders=(2,)))
    ask(told("a"), version=12)
    assert made == ["a", "b", "c", "d", "b", "a", "a"]


def test_each_zone_has_one_broker_for_a_topic() -> None:
    """The same whichever gateway tells it, spread over the zone's brokers by topic; none where there is one zone."""
    beats = [beat(name, f"{name}:1", zone) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c", None))]
    brokers = brokers_of(beats, "a1")
    found = [nearest_brokers(f"t{number}", brokers) for number in range(30)]
    assert found == [nearest_brokers(f"t{number}", brokers[::-1]) for number in range(30)]
    assert {one["a"] for one in found} == {node_id("a1"), node_id("a2")}
    assert {(one["b"], len(one)) for one in found} == {(node_id("b1"), 2)}
    assert nearest_brokers("t", brokers_of([beats[0], beats[1], beats[3]], "a1")) == {}
    described = DescribedTopic("t", uuid.UUID(int=1), 1, (node_id("a1"),), 0, (node_id("a1"), node_id("b1")))
    assert described.replicas(0) == (node_id("a1"), node_id("b1"))
