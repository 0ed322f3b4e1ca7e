"""What queries cost the store, however long the topic's history is."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.support.source_bench import SourceBench

HISTORIES = (10, 10_000)


@pytest.mark.parametrize("history", HISTORIES)
def test_a_micro_batch_costs_the_same_with_any_history(history: int, bench: SourceBench) -> None:
    """One request when nothing changed, one more for each commit since; a segment with all its partitions is one request."""
    bench.age(history)
    reader = bench.stream_reader()
    bench.store.calls.clear()
    position = reader.initialOffset()
    # The hint, one listing from it on, the checkpoint, the three commits behind it.
    assert bench.store.calls == {"get": 5, "list": 1}

    bench.store.calls.clear()
    assert reader.latestOffset(position, ReadAllAvailable()) == position
    assert bench.store.calls == {"get": 1}

    bench.append()
    bench.store.calls.clear()
    end = reader.latestOffset(position, ReadAllAvailable())
    (planned,) = reader.partitions(position, end)
    assert bench.store.calls == {"get": 2}
    bench.store.calls.clear()
    assert sum(batch.num_rows for batch in reader.read(planned)) == 2
    assert bench.store.calls == {"get": 1}
    reader.stop()


@pytest.mark.parametrize("history", HISTORIES)
def test_rows_cost_the_same_with_any_history(history: int, bench: SourceBench) -> None:
    """A micro-batch of many segments takes two requests for each, one for its commit and one for its records, and one more."""
    bench.age(history)
    reader = bench.stream_reader()
    position = reader.initialOffset()
    for _ in range(10):
        bench.append(1_000)
    bench.store.calls.clear()
    end = reader.latestOffset(position, ReadAllAvailable())
    tasks = reader.partitions(position, end)
    assert sum(batch.num_rows for task in tasks for batch in reader.read(task)) == 20_000
    assert bench.store.calls == {"get": 21}
    reader.stop()
