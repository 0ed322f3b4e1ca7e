"""Members of groups by Kafka's protocol, a gateway killed amid them: each record comes to them, no committed offset goes back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from log_format.stores import open_store
from tests.support.kafka_gateway import kafka_gateway
from tests.support.waiting import until
from tests.torture.tortured.group_history import MemberHistory, contradictions, unlike_the_table
from tests.torture.tortured.group_offsets import committed_offsets, ever_committed
from tests.torture.tortured.kafka_members import PROTOCOLS, KafkaMember

PARTITIONS = 3
RECORDS = 40
"""Of each partition, before the kill and after it."""
AT_ONCE = 8
WAIT_SECONDS_MAX = 90

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]


def _known(url: str, group: str) -> dict[int, int]:
    try:
        return committed_offsets(url, group)
    except AssertionError:
        return {}


def _histories(members: Sequence[KafkaMember], group: str) -> list[MemberHistory]:
    return [history for member in members if member.group == group for history in member.histories]


def test_members_of_both_protocols_bear_a_kill(tmp_path: Path) -> None:
    """In the end each group has committed all; a member had processed each record before. The judge sees one that is left out."""
    store, stopping = tmp_path / "store", threading.Event()
    with kafka_gateway(store, tmp_path / "a.log") as first, kafka_gateway(store, tmp_path / "b.log") as other:
        topic = other.topic("t", PARTITIONS)
        servers = f"{first.kafka},{other.kafka}"
        members = [
            KafkaMember(f"{one}-{number}", servers, one, topic, protocol=one, stopping=stopping)
            for one in PROTOCOLS
            for number in range(2)
        ]

        def all_committed(count: int) -> bool:
            end = dict.fromkeys(range(PARTITIONS), count)
            return all(_known(other.url, group) == end for group in PROTOCOLS)

        def send() -> None:
            for _ in range(RECORDS // AT_ONCE):
                for partition in range(PARTITIONS):
                    other.produce(topic, *map(str, range(AT_ONCE)), partition=partition)

        try:
            for member in members:
                member.start()
            send()
            until(lambda: all_committed(RECORDS), WAIT_SECONDS_MAX)
            first.kill()
            send()
            first.start()
            until(lambda: all_committed(2 * RECORDS), WAIT_SECONDS_MAX)
        finally:
            stopping.set()
            for member in members:
                member.join(60)
        for group in PROTOCOLS:
            histories = _histories(members, group)
            assert contradictions(histories, committed_offsets(other.url, group)) == []
            assert unlike_the_table(histories, ever_committed(open_store(str(store)), group)) == []
            for history in histories:
                history.processed = [one for one in history.processed if one[1:] != (0, 7)]
            assert "0/7 is below" in contradictions(histories, committed_offsets(other.url, group))[0]
