"""A queue at the in-process gateway, and a consumer of it."""

from __future__ import annotations

from typing import Any

from tests.support.fake_gateway import FakeGateway
from tidelog import Admin, QueueConsumer, Record


def fill(gateway: FakeGateway, count: int = 20, partition_count: int = 1, **settings: Any) -> None:
    """A topic ``t``, and a queue ``q`` over it."""
    topic = gateway.create("t", partition_count)
    for number in range(partition_count):
        topic.records[number] = [Record("t", number, at, at, b"k", b"%d" % at, (("h", None),)) for at in range(count)]
    with Admin(gateway.url) as admin:
        admin.create_queue("q", ["t"], start="earliest", **settings)


def consumer(gateway: FakeGateway, **settings: Any) -> QueueConsumer:
    return QueueConsumer("q", bootstrap_servers=gateway.url, **{"consumer_timeout_ms": 200, **settings})


def actions(gateway: FakeGateway) -> dict[int, str]:
    """What became of each record of partition 0 that is settled."""
    return {place[2]: action for place, action in gateway.queues["q"].settled.items() if place[1] == 0}
