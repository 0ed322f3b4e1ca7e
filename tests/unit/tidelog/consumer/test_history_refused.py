"""A gateway that makes no plans of history: one before plans, or a proxy that does not let them through."""

from __future__ import annotations

from tests.support.fake_gateway import FakeGateway
from tidelog import Consumer, Record, TopicPartition

COUNT = 40_000


def test_a_gateway_without_plans_serves_history_itself(gateway: FakeGateway) -> None:
    """A reader that is far behind asks for a plan once, and then goes on by fetches."""
    gateway.create("t", 1)
    gateway.topics["t"].records[0] = [Record("t", 0, offset, 0, None, b"x" * 100) for offset in range(COUNT)]
    read = 0
    with Consumer(bootstrap_servers=gateway.url) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        while read < COUNT:
            read += consumer.poll_arrow(timeout_ms=10_000).num_rows
    assert read == COUNT
    assert gateway.count("GET /v1/topics/t/partitions/0/segments") == 1
