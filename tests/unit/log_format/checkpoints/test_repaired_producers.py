"""Which idempotent producers a topic takes behind a repair: those whose ids can't be in what is lost."""

from __future__ import annotations

from typing import Any

import pytest

from log_format import layout
from log_format.checkpoints.repair import repair_topic
from log_format.errors import ErrorCode, TidelogError
from log_format.topic import producer_id
from log_format.topic.append import Append
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.producers import ProducerStamp
from tests.support.clocks import HOUR_MS
from tests.support.topic_bench import TopicBench, TopicUser

FIRST_MS = 61_000
"""Behind the last lost commit: clocks differ by a minute at most."""


def issued(bench: TopicBench, number: int) -> str:
    """An id of now."""
    return producer_id.issue(producer_id.PLAIN, bench.clock.now_ms(), f"{number:020x}", b"key")


def send(bench: TopicBench, gateway: TopicUser, producer: str) -> Any:
    """What becomes of a producer's first request: its places, or why it is refused."""
    batch = bench.batch(gateway, {0: [b"numbered"]})
    batch.stamp = ProducerStamp(producer, 0, 0)
    return gateway.committer.commit(Append([batch], bench.new_id)).result[0]


@pytest.mark.parametrize("damage", ["lost", "garbled", "garbled at the head", "lost beginning"])
def test_producers_go_on_behind_a_repair(bench: TopicBench, damage: str) -> None:
    """What is lost was made before the commit behind it, or before its object's own time. Ids of producers that were issued a
    minute later were not used in it: they are taken at once, and older ones refused, since their records could be there twice."""
    gateway = bench.create(1)
    for number in range(1, 4):
        bench.append(gateway, {0: [b"%d" % number]})
    bench.clock.pass_ms(HOUR_MS)
    used = issued(bench, 1)
    assert isinstance(send(bench, gateway, used)[0], AppendedRange)
    key = layout.commit_key(bench.name, gateway.log.state.version)
    if damage != "garbled at the head":
        bench.append(gateway, {0: [b"5"]})
    if damage == "lost":
        bench.store.delete(key)
    else:
        bench.store.put(key, bench.store.get(key)[:100])
    for version in range(4) if damage == "lost beginning" else ():
        bench.store.delete(layout.commit_key(bench.name, version))
    bench.clock.pass_ms(FIRST_MS)
    new = issued(bench, 2)
    assert repair_topic(bench.store, bench.name, bench.clock, bench.new_id).version is not None
    after = bench.gateway()
    after.log.refresh()
    refused = send(bench, after, used)
    assert isinstance(refused, TidelogError)
    assert refused.code is ErrorCode.UNKNOWN_PRODUCER
    assert isinstance(send(bench, after, new)[0], AppendedRange)
