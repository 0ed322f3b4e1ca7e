"""``fetch.min.bytes`` is met by batches as they are sent: not later than by them, and never before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engine.fetch_answer import Fetched, FetchFrom
from gateway.engine.tail_cache import Original
from gateway.kafka.calls.fetched_batches import PartitionRead, encode_partitions, sent_bytes
from gateway.kafka.encoded_batches import EncodedBatches
from log_format.errors import UnknownTopic
from tests.support.engine import Gateway

ASKED = FetchFrom(topic="t", partition=0, offset=0)
READ = PartitionRead(ASKED, 1 << 20)
RECORD_BYTES = 12
"""Two varints have a byte more where a record has more than 63 bytes; times and offsets far apart have some."""


def _call(gateway: Gateway, originals: list[Original]) -> Any:
    """What ``encode_partitions`` needs of a call."""
    reading = SimpleNamespace(originals=lambda *_: originals)
    return SimpleNamespace(
        engine=SimpleNamespace(reader=reading, topics=gateway.engine.topics),
        caches=SimpleNamespace(encoded_batches=EncodedBatches()),
        version=12,
    )


@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("size", [1, 3, 63, 64, 200])
async def test_bytes_of_batches_that_are_encoded(gateway: Gateway, count: int, size: int) -> None:
    """At most as many as are sent, and few less."""
    topic = await gateway.topic(flush_ms=0)
    if count:
        await gateway.append(topic, [b"x" * size] * count)
    (part,) = (await gateway.fetch_all([ASKED])).parts
    call = _call(gateway, [])
    (batch,) = await encode_partitions(call, [READ], [part])
    sent = sum(map(len, batch))
    counted = sent_bytes(call, [READ], [part])
    assert counted <= sent <= counted + RECORD_BYTES * count


async def test_bytes_of_producers_batches_and_of_errors(gateway: Gateway) -> None:
    """A producer's compressed batch counts as it is; a partition that failed has none."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"x" * 1000] * 5)
    (part,) = (await gateway.fetch_all([ASKED])).parts
    assert isinstance(part, Fetched)
    call = _call(gateway, [Original(0, 5, bytes(100))])
    assert sent_bytes(call, [READ, READ], [part, UnknownTopic("t")]) == 100
