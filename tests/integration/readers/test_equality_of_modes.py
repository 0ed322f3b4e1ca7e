"""One history with own commits, at a journal, and going to and fro: the same offsets and records by every reader."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from log_format.inspection.verify import verify_topic
from tests.support.moded_history import MOVING, TOPICS, History, in_table


async def _outcome(root: Path, modes: tuple[str, ...], seed: int) -> Any:
    history = History(root, modes, seed)
    try:
        await history.run()
        await history.drain()
        found: dict[str, Any] = {"told": history.told}
        for topic in TOPICS:
            rows = await history.read(topic)
            assert await history.polled(topic) == rows
            report = await asyncio.to_thread(verify_topic, history.store, topic)
            assert report.ok, report.problems
            starts = {part.partition: part.log_start_offset for part in report.partitions}
            assert await asyncio.to_thread(in_table, root, topic, starts) == rows
            found[topic] = rows
        return found
    finally:
        await history.end()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_mode_gives_the_same(tmp_path: Path, seed: int) -> None:
    """By HTTP, by a group, by verify, and after the drain by a Delta reader that knows nothing of journals."""
    ways = {"own": ("own",), "shared": ("shared",), "moving": MOVING}
    found = {}
    for name, modes in ways.items():
        (tmp_path / name).mkdir()
        found[name] = asyncio.run(_outcome(tmp_path / name, modes, seed))
    assert sum(len(found["own"][topic]) for topic in TOPICS) > 20
    assert found["shared"] == found["own"]
    assert found["moving"] == found["own"]
