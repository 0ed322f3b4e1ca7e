"""Memory: what thousands of quiet topics at a journal take is counted, and fits."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Final

from gateway.engine.bounds import MANIFEST_BYTES, EngineBounds
from tests.support.engine import make_gateway

TOPICS: Final = 300
MANY: Final = 10_000
RUNS: Final = 9
"""Undrained, of each topic: on average at a record every ten seconds."""
NOT_THEIRS: Final = tuple(
    f"*/{name}"
    for name in (
        "asyncio/*", "_weakrefset.py", "tracemalloc.py", "tests/*", "log_format/stores/*", "log_format/layout.py",
        "log_format/delta/actions.py", "log_format/delta/committer.py", "log_format/journal/journal_object.py",
        "log_format/journal/reader.py", "log_format/segments/segment.py", "gateway/call.py", "gateway/engine/outcome.py",
    )
)  # fmt: skip
"""Where the test's own memory comes from; what its store keeps: objects and their keys; room of the most requests at once."""


async def test_ten_thousand_quiet_topics_fit_and_are_counted() -> None:
    """Each was drained before, and has some undrained runs: the real bytes are not more than those counted."""
    gateway = make_gateway(topics_loaded_max=MANY, tail_cache_bytes_max=1, journal_cache_bytes_max=1)
    administration = gateway.engine.administration
    config = administration.parse_config({"commit.mode": "shared"})

    async def open_all(first: int, count: int) -> None:
        names = [f"topic-{number:05d}" for number in range(first, first + count)]
        await asyncio.gather(*(administration.create(name, 1, config) for name in names))
        topics = [gateway.engine.topics.get(name) for name in names]
        await asyncio.gather(*(gateway.append(topic, [b"v"]) for topic in topics))
        for topic in topics:
            await topic.moving.drain_all()
        for _ in range(RUNS):
            await asyncio.gather(*(gateway.append(topic, [b"v"]) for topic in topics))
        for topic in topics:
            assert topic.state.undrained_count == RUNS

    await open_all(TOPICS, 20)  # what is made once is made now
    budget = gateway.engine.topics._budget
    gc.collect()
    counted = budget.total_bytes
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        await open_all(0, TOPICS)
        await asyncio.sleep(0)
        gc.collect()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    chosen = [tracemalloc.Filter(inclusive=False, filename_pattern=pattern) for pattern in NOT_THEIRS]
    grown = after.filter_traces(chosen).compare_to(before.filter_traces(chosen), "filename")
    real_bytes = sum(one.size_diff for one in grown) / TOPICS
    counted_bytes = (budget.total_bytes - counted) / TOPICS
    assert real_bytes <= counted_bytes, (real_bytes, counted_bytes)
    assert counted_bytes * MANY <= MANIFEST_BYTES, counted_bytes
    assert EngineBounds().topics_loaded_max >= MANY
    await gateway.engine.drain()
