"""Rendezvous hashing: balanced, the same in every process, and little moves when gateways come or go."""

from __future__ import annotations

from collections import Counter

from log_format.cluster.preferred import preferred_gateway, rank_gateways

GATEWAYS = [f"gateway-{number}" for number in range(5)]
TOPICS = [f"topic-{number}" for number in range(2_000)]
GOLDEN = ["c", "a", "b"]


def test_topics_are_spread_evenly() -> None:
    """Each of five gateways is preferred for about a fifth of the topics."""
    counts = Counter(preferred_gateway(topic, GATEWAYS) for topic in TOPICS)
    assert counts.keys() == set(GATEWAYS)
    assert all(300 < count < 500 for count in counts.values()), counts


def test_only_the_topics_of_a_lost_gateway_move() -> None:
    """Every other topic keeps its gateway; so it is when one comes, read backwards."""
    for topic in TOPICS:
        before, after = preferred_gateway(topic, GATEWAYS), preferred_gateway(topic, GATEWAYS[1:])
        assert before == after or before == GATEWAYS[0]


def test_everybody_computes_the_same() -> None:
    """The order in which gateways are known does not matter, and the values never change: clients of any version agree."""
    assert [preferred_gateway(topic, GATEWAYS) for topic in TOPICS] == [
        preferred_gateway(topic, GATEWAYS[::-1]) for topic in TOPICS
    ]
    assert rank_gateways("flights", ["a", "b", "c"], 3) == GOLDEN


def test_owners_spread_partitions() -> None:
    """Partition p belongs to number p modulo owners of the best; what is for no partition, to the best."""
    best = rank_gateways("log", GATEWAYS, 3)
    assert [preferred_gateway("log", GATEWAYS, owners=3, partition=number) for number in range(6)] == best * 2
    assert preferred_gateway("log", GATEWAYS, owners=3) == best[0]
    assert preferred_gateway("log", GATEWAYS[:1], owners=3, partition=5) == GATEWAYS[0]
    assert preferred_gateway("log", []) is None
