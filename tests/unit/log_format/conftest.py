"""The fixture of tests of the format: a topic that does not exist yet."""

from __future__ import annotations

import pytest

from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.topic_bench import TopicBench


@pytest.fixture
def bench() -> TopicBench:
    """A topic that does not exist yet."""
    clock = ManualClock()
    return TopicBench(FaultyStore(MemoryStore(clock=clock)), clock)
