"""The example that keeps a year of flights: archived, ordered, read by several engines, cloned, and one passenger erased."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder

from log_format.checkpoints.archive_rows import read_archive
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.stores.local import LocalStore
from log_format.topic.live_segments import live_segments
from tests.support.gateway_process import running_gateway
from tests.support.loaded import loaded

STORY = Path(__file__).resolve().parents[2] / "examples" / "flights-archive" / "story.py"
FLIGHTS = 12_000
"""Enough to fill a file of the least size, so that the archive is laid out."""


@pytest.mark.timeout(280)
def test_the_story_is_true(tmp_path: Path) -> None:
    """Every flight but the passenger's is in the table once, in files by carrier and day; so it is in the clone, and nothing is
    lost of what is sent meanwhile."""
    story = loaded(STORY)
    store = tmp_path / "store"
    with running_gateway(store, tmp_path / "log") as gateway:
        command = [sys.executable, str(STORY), "--store", str(store), "--url", gateway.url, "--flights", str(FLIGHTS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "of which consumers lack 0" in done.stdout
    assert f"('{story.CLONE}',)" in done.stdout
    assert done.stdout.count("Nothing that was erased is in the store.") == 2
    flights = chain(story.flights(FLIGHTS), story.flights(40))
    expected = sorted(json.dumps(one) for one in flights if one["passenger"] != story.PERSON)
    for topic in (story.TOPIC, story.CLONE):
        asked = QueryBuilder().register("t", DeltaTable(str(store / "topics" / topic))).execute("select value from t")
        values = [value for batch in asked for value in batch["value"].to_pylist()]
        assert sorted(json.dumps(one) for one in map(json.loads, values) if one["passenger"] != "somebody") == expected
    opened, clock = LocalStore(store), SystemClock()
    state = TopicLog(opened, story.TOPIC, clock).refresh()
    files = read_archive(
        opened,
        story.TOPIC,
        state.version,
        clock.now_ms(),
        lambda pieces: [one for piece in pieces for one in live_segments(piece)],
    )
    assert files is not None
    assert {one.layout.columns for one in files if one.layout is not None} == {("data.carrier", "data.day")}
    assert all(one.filters is not None for one in files if one.layout is not None)
