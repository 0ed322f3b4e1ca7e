"""A backfill has a share of each round: other topics are merged and expire meanwhile; in the end each segment is done once."""

from __future__ import annotations

import secrets
from argparse import Namespace
from dataclasses import replace

import pytest

from compaction.__main__ import RoundReporter, _run
from compaction.policy import Policy
from compaction.report import Totals
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.topic.append import Append
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from tests.support.backfill_bench import BackfillBench
from tests.support.records import batch_of
from tests.support.registry import record

SEGMENTS = 7
HOUR_MS = 3_600_000
MERGES = Policy(flushed_min=4, flushed_bytes_min=1 << 40)


class OtherTopic:
    """A topic beside the large one, maintained after it since it has fewer segments."""

    def __init__(self, bench: BackfillBench) -> None:
        self._bench = bench
        self.log = TopicLog(bench.store, "u", bench.clock)
        self._committer = Committer(self.log, new_id=bench.new_id, jitter=lambda: 1.0)
        config = TopicConfig.parse({"retention.ms": str(24 * HOUR_MS)})
        self._commit(CreateTopic(name="u", partition_count=1, config=config, topic_id=bench.new_id()))

    def append(self, count: int, age_ms: int = 0) -> None:
        """Flushes of one record each."""
        for number in range(count):
            time_ms = self._bench.clock.now_ms() - age_ms
            values = [f"{number}".encode()]
            batch = batch_of(self.log.state.topic_id or "", values, 0, timestamps_ms=time_ms, record_bytes_max=10)
            self._commit(Append([batch], self._bench.new_id))

    def _commit(self, change: CreateTopic | Append) -> None:
        self._committer.commit(change)


@pytest.fixture
def bench() -> BackfillBench:
    """A topic whose segments from before its schema are more than two rounds' shares."""
    made = BackfillBench()
    made.register(record("Order", id="long"))
    made.create(1)
    for number in range(SEGMENTS):
        made.produce({"id": number}, keys=[secrets.token_bytes(8_000)])
    made.alter()
    return made


def share_of(bench: BackfillBench, segments: int) -> Policy:
    """Each segment is rewritten alone, and so many a round."""
    sizes = [segment.size_bytes for segment in bench.log.refresh().manifest.segments()]
    return replace(MERGES, target_bytes=max(sizes), backfill_bytes_max=segments * max(sizes))


def test_another_topic_is_maintained_in_the_same_round(bench: BackfillBench) -> None:
    """Its old segments expire and its new ones are merged, while the large topic's backfill takes three rounds."""
    other = OtherTopic(bench)
    other.append(2, age_ms=48 * HOUR_MS)
    other.append(4)
    job = bench.job(share_of(bench, 3))
    left: list[int] = []
    for _ in range(3):
        totals = job.run_round(collect=False)
        left.append(totals.untyped_segments)
        assert totals.unfinished_backfills == (totals.untyped_segments > 0)
        (segment,) = other.log.refresh().manifest.segments()
        assert (segment.path.startswith("compacted/"), other.log.state.log_start(0)) == (True, 2)
        if len(left) == 1:
            assert [event["reason"] for event in bench.events("rewrite") if event["topic"] == "t"] == ["backfill"] * 3
    assert left == [4, 1, 0]
    assert [row["data"]["id"] for row in bench.columns()] == list(range(SEGMENTS))
    bench.assert_whole()


def test_a_share_that_is_smaller_than_a_segment_still_does_one(bench: BackfillBench) -> None:
    """So that each round comes nearer to the end."""
    job = bench.job(replace(share_of(bench, 1), backfill_bytes_max=1))
    assert [job.run_round(collect=False).untyped_segments for _ in range(SEGMENTS)] == [*range(SEGMENTS - 1, -1, -1)]


@pytest.mark.parametrize("every", [None, 3_600_000])
def test_rounds_follow_at_once_until_it_is_done(bench: BackfillBench, every: int | None) -> None:
    """With --once the program ends when nothing is left; with --every it sleeps only then."""
    signals: list[int] = []
    started_ms = bench.clock.monotonic_ms()
    asked = Namespace(every=every, json=True)
    job = bench.job(share_of(bench, 2))
    sleep_ms = bench.clock.sleep_ms

    def sleep(duration_ms: int) -> None:
        sleep_ms(duration_ms)
        signals.append(15)

    bench.clock.sleep_ms = sleep  # type: ignore[method-assign]
    assert _run(job, RoundReporter(bench.report, lambda: None), asked, signals) == 0
    rounds = bench.events("round")
    assert [one["untyped_segments"] for one in rounds] == [5, 3, 1, 0]
    assert {*Totals().as_dict()} <= rounds[0].keys()
    assert (bench.clock.monotonic_ms() - started_ms > 0) == (every is not None)
