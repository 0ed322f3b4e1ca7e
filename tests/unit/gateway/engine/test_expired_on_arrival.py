"""Records that have expired as they come are taken, counted, and told to the operator."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support import records
from tests.support.engine import Gateway

DAY_MS = 86_400_000


def _batch(topic: Any, *times_ms: int) -> Any:
    return records.batch_of(topic.state.topic_id, [b"x"] * len(times_ms), 0, timestamps_ms=list(times_ms))


async def _send(gateway: Gateway, topic: Any, *times_ms: int) -> None:
    await topic.appending.await_acknowledgement(topic.submit(_batch(topic, *times_ms)))


def _counted(gateway: Gateway) -> float | None:
    return gateway.registry.get_sample_value("tidelog_expired_records_total")


@pytest.mark.parametrize("mode", ["own", "shared"])
async def test_seconds_are_counted_and_told_once_a_minute(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    """With the topic, the time and its retention; what is young enough is not, nor a batch that ends with such."""
    topic = await gateway.topic(flush_ms=0, commit_mode=mode)
    now_ms = gateway.engine.clock.now_ms()
    with caplog.at_level(logging.WARNING, "gateway.topic"):
        await _send(gateway, topic, now_ms, now_ms - 6 * DAY_MS)
        await _send(gateway, topic, 1_763_683_200, now_ms)
        assert (_counted(gateway), caplog.text) == (0, "")
        for _ in range(3):
            await _send(gateway, topic, 1_763_683_200, 1_763_683_201)
    assert _counted(gateway) == 6
    assert len(caplog.records) == 1
    assert "records of topic t have expired as they come: timestamp 1763683201, retention.ms 604800000" in caplog.text


@pytest.mark.parametrize(
    "config",
    [
        {"retention_ms": -1},
        {"retention_ms": 10**15},
        {"cleanup_policy": "compact"},
        {"message_timestamp_type": "LogAppendTime"},
    ],
)
async def test_topics_that_keep_any_time(gateway: Gateway, config: dict[str, Any]) -> None:
    """Nothing is counted where nothing expires by these times."""
    topic = await gateway.topic(flush_ms=0, **config)
    batch = records.batch_of(topic.state.topic_id, [b"x"], 0, keys=[b"k"], timestamps_ms=[5])
    await topic.appending.await_acknowledgement(topic.submit(batch))
    assert _counted(gateway) == 0
