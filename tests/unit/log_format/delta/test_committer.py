"""The conditional PUT, one difficulty at a time; all of them together are the simulation's business."""

from __future__ import annotations

from typing import Any

import pytest

from log_format import limits
from log_format.delta.actions import CommitInfo, encode_commit
from log_format.errors import (
    BackOff,
    CorruptData,
    ObjectExists,
    ObjectMissing,
    OutcomeUnknown,
    StoreUnavailable,
    UnknownTopic,
    store_reason,
)
from log_format.topic.append import Append
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.changes import CreateTopic, DeleteTopic
from log_format.topic.config import TopicConfig
from tests.support.topic_bench import TopicBench

REFUSED = StoreUnavailable("k", "connection refused", may_have_happened=False)
TIMED_OUT = StoreUnavailable("k", "timed out", may_have_happened=True)
MINUTE_MS = 60_000


def lands_then(problem: Exception) -> Any:
    """The operation takes effect, and its answer is lost."""

    def step(real: Any, *arguments: Any) -> None:
        real(*arguments)
        raise problem

    return step


def commits(bench: TopicBench) -> list[str]:
    return [info.key for info in bench.store.list(bench.key("")) if info.key.endswith(".json")]


def test_an_append_costs_two_puts(bench: TopicBench) -> None:
    """On the way that things normally go: one put for the segment, one for the commit, and nothing else."""
    gateway = bench.create(2)
    bench.store.requests.clear()
    assert bench.append_values(gateway, {0: [b"a"]}) == (AppendedRange(0, 0, 1),)
    assert [name for name, _ in bench.store.requests] == ["put", "put_if_absent"]


@pytest.mark.parametrize("problem", [TIMED_OUT, ObjectExists("k")])
def test_ones_own_commit_is_known_again(bench: TopicBench, problem: Exception) -> None:
    """A commit that landed although its answer was lost, or although the store says that the object exists, is
    acknowledged; it is in the log once."""
    gateway = bench.create(1)
    bench.store.script["put_if_absent"] = [lands_then(problem)]
    assert bench.append_values(gateway, {0: [b"a"]}) == (AppendedRange(0, 0, 1),)
    assert bench.append_values(gateway, {0: [b"b"]}) == (AppendedRange(0, 1, 1),)
    assert len(commits(bench)) == 3


def test_a_lost_request_is_sent_again(bench: TopicBench) -> None:
    """When nothing is there after a time-out, the same bytes are put again."""
    gateway = bench.create(1)
    sent: list[bytes] = []

    def lost(real: Any, key: str, data: bytes) -> None:
        sent.append(data)
        raise TIMED_OUT

    bench.store.script["put_if_absent"] = [lost, REFUSED]
    assert bench.append_values(gateway, {0: [b"a"]}) == (AppendedRange(0, 0, 1),)
    assert bench.store.get(commits(bench)[-1]) == sent[0]
    assert bench.clock.slept == [limits.BACKOFF_FIRST_MS, 2 * limits.BACKOFF_FIRST_MS]


def test_a_foreign_commit_is_replayed(bench: TopicBench) -> None:
    """Another writer took the version and the offsets: the next version, the next offsets."""
    one, other = bench.create(1), bench.gateway()
    other.log.refresh()
    bench.append(other, {0: [b"theirs", b"theirs too"]})
    committed = bench.append(one, {0: [b"mine"]})
    assert committed.result == [(AppendedRange(0, 2, 1),)]
    assert (committed.attempts, committed.state.version) == (2, 2)
    assert bench.gateway().log.refresh().high_watermark(0) == 3


def test_a_store_that_is_down_changes_nothing(bench: TopicBench) -> None:
    """When no request ever reached the store: ``BackOff``, and nothing is there, then or later."""
    gateway = bench.create(1)
    bench.store.script["put_if_absent"] = [REFUSED] * limits.READ_BACK_ATTEMPTS_MAX
    with pytest.raises(BackOff) as caught:
        bench.append(gateway, {0: [b"a"]})
    assert REFUSED.detail in caught.value.detail, "it says why"
    assert store_reason(caught.value) is REFUSED.reason
    assert len(commits(bench)) == 1
    bench.store.script["put"] = [TIMED_OUT]
    with pytest.raises(BackOff):
        bench.append(gateway, {0: [b"b"]})
    assert bench.append_values(gateway, {0: [b"c"]}) == (AppendedRange(0, 0, 1),)


def test_nobody_knows(bench: TopicBench) -> None:
    """When a put may still arrive, that is what is said; and when it has arrived, the next commit builds on it."""
    gateway = bench.create(1)
    late: list[Any] = []

    def delayed(real: Any, *arguments: Any) -> None:
        late.append((real, arguments))
        raise TIMED_OUT

    bench.store.script["put_if_absent"] = [delayed] + [REFUSED] * limits.READ_BACK_ATTEMPTS_MAX
    with pytest.raises(OutcomeUnknown):
        bench.append(gateway, {0: [b"a"]})
    bench.store.script.clear()
    (real, arguments) = late[0]
    real(*arguments)
    assert bench.append_values(gateway, {0: [b"b"]}) == (AppendedRange(0, 1, 1),)


def test_nobody_knows_when_nothing_can_be_read_back(bench: TopicBench) -> None:
    """A store that says that the object exists and does not show whose it is leaves the outcome open."""
    gateway = bench.create(1)
    bench.store.script["put_if_absent"] = [ObjectExists("k")] * limits.READ_BACK_ATTEMPTS_MAX
    bench.store.script["get"] = [TIMED_OUT] * limits.READ_BACK_ATTEMPTS_MAX
    with pytest.raises(OutcomeUnknown):
        bench.append(gateway, {0: [b"a"]})


def test_retries_are_bounded(bench: TopicBench) -> None:
    """A committer that loses version after version steps down at last, and says that nothing happened."""
    one, other = bench.create(1), bench.gateway()

    def faster(real: Any, key: str, data: bytes) -> None:
        version = other.log.refresh().version + 1
        info = CommitInfo(
            timestamp=0, operation="X", operation_parameters={}, engine_info="tidelog-x/1", txn_id=bench.new_id()
        )
        real(bench.key(f"{version:020d}.json"), encode_commit(info, []))
        real(key, data)

    bench.store.script["put_if_absent"] = [faster] * limits.COMMIT_ATTEMPTS_MAX
    with pytest.raises(BackOff):
        bench.append(one, {0: [b"a"]})
    assert len(commits(bench)) == 1 + limits.COMMIT_ATTEMPTS_MAX
    assert bench.gateway().log.refresh().high_watermark(0) == 0


def test_a_refusal_is_up_to_date(bench: TopicBench) -> None:
    """A wish is refused, or found fulfilled, only by a head that was looked at for it."""
    one, other = bench.create(1), bench.gateway()
    other.log.refresh()
    one.committer.commit(DeleteTopic())
    made = other.committer.commit(
        CreateTopic(name="flights", partition_count=1, config=TopicConfig.parse({}), topic_id="second")
    )
    assert made.result is True
    append = Append([bench.batch(other, {0: [b"a"]})], bench.new_id)
    assert one.committer.commit(append).result == [(AppendedRange(0, 0, 1),)]


def test_a_topic_that_somebody_else_made_is_known(bench: TopicBench) -> None:
    """A committer that saw no topic does not refuse a change for a topic that was made since."""
    one = bench.gateway()
    with pytest.raises(UnknownTopic):
        one.committer.commit(DeleteTopic())
    bench.create(1)
    assert one.committer.commit(DeleteTopic()).result == ()


def test_a_segment_that_is_too_old_is_not_committed(bench: TopicBench) -> None:
    """Orphans may be collected after a while: a committer that comes so late uploads anew, under another name."""
    gateway = bench.create(1)
    append = Append([bench.batch(gateway, {0: [b"a"]})], bench.new_id)
    segment = append.stage(gateway.log.state, gateway.log.state.next_offsets)
    assert segment is not None
    gateway.committer.stage(segment)
    bench.clock.pass_ms(limits.SEGMENT_AGE_MAX_MS + 1)
    gateway.committer.commit(append)
    assert [ref.path for ref in gateway.log.state.manifest.segments()] != [segment.path]


def test_an_old_head_is_looked_at_again(bench: TopicBench) -> None:
    """What was seen long ago is not built upon without another look; what was seen just now is."""
    gateway = bench.create(1)
    bench.clock.pass_ms(limits.HEAD_TRUSTED_MS)
    bench.store.requests.clear()
    bench.append(gateway, {0: [b"a"]})
    assert [name for name, _ in bench.store.requests] == ["put", "put_if_absent"]
    bench.clock.pass_ms(limits.HEAD_TRUSTED_MS + 1)
    bench.store.requests.clear()
    bench.append(gateway, {0: [b"b"]})
    assert [name for name, _ in bench.store.requests] == ["get", "list", "put", "put_if_absent"]


def sleeps_first(bench: TopicBench, meanwhile: Any = lambda: None) -> Any:
    """The machine sleeps for hours before it sends the request, while others go on."""

    def step(real: Any, *arguments: Any) -> None:
        bench.clock.pass_ms(300 * MINUTE_MS)
        meanwhile()
        real(*arguments)

    return step


def go_on_and_clean_up(bench: TopicBench, *, keep_from: int) -> Any:
    """Others commit three records, write a checkpoint, and clean-up deletes the commits below ``keep_from``."""
    from log_format.checkpoints.checkpoint import write_checkpoint

    def act() -> None:
        other = bench.gateway()
        other.log.refresh()
        for value in (b"x", b"y", b"z"):
            bench.append(other, {0: [value]})
        write_checkpoint(bench.store, "flights", other.log.state.version, 0)
        for version in range(keep_from):
            bench.store.delete(bench.key(f"{version:020d}.json"))

    return act


def test_a_put_into_a_hole_is_no_commit(bench: TopicBench) -> None:
    """A committer does not take it for success when it slept and writes a version that clean-up has deleted.

    The records come behind the head.
    """
    gateway = bench.create(1)
    bench.store.script["put"] = [sleeps_first(bench, go_on_and_clean_up(bench, keep_from=3))]
    assert bench.append_values(gateway, {0: [b"mine"]}) == (AppendedRange(0, 3, 1),)
    assert bench.gateway().log.refresh().high_watermark(0) == 4


def test_an_answer_that_took_hours_may_mean_anything(bench: TopicBench) -> None:
    """When so long passed after the put that the commit may have been cleaned away since, the outcome is unknown."""
    gateway = bench.create(1)

    def answered_late(real: Any, *arguments: Any) -> None:
        real(*arguments)
        bench.clock.pass_ms(300 * MINUTE_MS)
        go_on_and_clean_up(bench, keep_from=4)()

    bench.store.script["put_if_absent"] = [answered_late]
    with pytest.raises(OutcomeUnknown):
        bench.append(gateway, {0: [b"mine"]})
    assert bench.gateway().log.refresh().high_watermark(0) == 4


def test_a_put_that_slept_on_its_way_may_mean_anything(bench: TopicBench) -> None:
    """When it can't be told whether the put came before or after clean-up, the outcome is unknown; readers see nothing of
    it.
    """
    gateway = bench.create(1)
    bench.store.script["put_if_absent"] = [sleeps_first(bench, go_on_and_clean_up(bench, keep_from=3))]
    with pytest.raises(OutcomeUnknown):
        bench.append(gateway, {0: [b"mine"]})
    assert bench.gateway().log.refresh().high_watermark(0) == 3
    assert bench.append_values(gateway, {0: [b"next"]}) == (AppendedRange(0, 3, 1),)


def test_a_long_sleep_alone_is_no_doubt(bench: TopicBench) -> None:
    """A committer that slept while no other process did anything is acknowledged as ever."""
    gateway = bench.create(1)
    bench.store.script["put_if_absent"] = [sleeps_first(bench)]
    assert bench.append_values(gateway, {0: [b"mine"]}) == (AppendedRange(0, 0, 1),)


def test_doubt_that_can_not_be_settled_is_told(bench: TopicBench) -> None:
    """When the store does not show whether the put landed in a hole, the outcome is unknown."""
    gateway = bench.create(1)
    bench.store.script["put_if_absent"] = [sleeps_first(bench)]
    bench.store.script["list"] = [TIMED_OUT]
    with pytest.raises(OutcomeUnknown):
        bench.append(gateway, {0: [b"mine"]})


def test_a_store_that_shows_nothing_changes_nothing(bench: TopicBench) -> None:
    """When the head can't be looked at, nothing is tried."""
    bench.store.script["get"] = [TIMED_OUT]
    with pytest.raises(BackOff):
        bench.create(1)
    assert commits(bench) == []


def test_garbage_in_the_log_is_corrupt(bench: TopicBench) -> None:
    """A version that holds no commit is no writer's: ``CorruptData``, and nothing of ours is there."""
    gateway = bench.create(1)
    bench.store.put(bench.key(f"{1:020d}.json"), b"garbage")
    with pytest.raises(CorruptData):
        bench.append(gateway, {0: [b"a"]})


def test_a_vanished_object_is_written_again(bench: TopicBench) -> None:
    """412 and then nothing there: the object that held the version is gone, and the put is repeated."""
    gateway = bench.create(1)
    bench.store.script["put_if_absent"] = [ObjectExists("k")]
    bench.store.script["get"] = [ObjectMissing("k")]
    assert bench.append_values(gateway, {0: [b"a"]}) == (AppendedRange(0, 0, 1),)
