"""The fixture of tests of the source: a topic, in the store that every process of Spark's opens."""

from __future__ import annotations

import pytest

from log_format.journal.reader import JournalReader
from log_format.segments.reader import SegmentReader
from spark_pipeline import store_access
from spark_pipeline.source import batch, reading, stream
from tests.support.source_bench import SourceBench


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SourceBench:
    """A new topic; every process of Spark's would open this store."""
    made = SourceBench()
    segments = SegmentReader(made.store)
    for module in (batch, stream, store_access):
        monkeypatch.setattr(module, "cached_store", lambda _uri: made.store)
    journals = JournalReader(made.store, cache_bytes=store_access.JOURNAL_CACHE_BYTES)
    monkeypatch.setattr(reading, "segment_reader", lambda _uri: segments)
    monkeypatch.setattr(reading, "journal_reader", lambda _uri: journals)
    store_access.topic_log.cache_clear()
    store_access.stored_readers.cache_clear()
    return made
