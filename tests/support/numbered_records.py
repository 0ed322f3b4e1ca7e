"""Records of a fake gateway."""

from __future__ import annotations

from tests.support.fake_gateway import FakeGateway
from tidelog import Record


def add(gateway: FakeGateway, topic: str, count: int) -> None:
    """Append so many records to each partition."""
    for partition, records in enumerate(gateway.topics[topic].records):
        for offset in range(len(records), len(records) + count):
            records.append(Record(topic, partition, offset, 1_700_000_000_000, b"k", b"%d" % offset))
