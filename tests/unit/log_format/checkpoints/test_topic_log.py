"""Loading a log and keeping it fresh: the right state, with few requests, whatever clean-up has taken away."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from log_format import layout, limits
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData, ObjectMissing, StoreUnavailable
from log_format.inspection.verify import verify_topic
from log_format.topic.changes import DeleteTopic
from tests.support.topic_bench import TopicBench

DOWN = StoreUnavailable("k", "down", may_have_happened=False)


def grow(bench: TopicBench, count: int) -> Any:
    """A topic with ``count`` records in as many commits."""
    gateway = bench.create(1)
    for number in range(count):
        bench.append(gateway, {0: [b"%d" % number]})
    return gateway


def clean(bench: TopicBench, below: int) -> None:
    for version in range(below):
        bench.store.delete(bench.key(f"{version:020d}.json"))


def test_a_topic_that_never_was(bench: TopicBench) -> None:
    """An empty log gives a topic that does not exist; when it is made, the next look sees it."""
    log = bench.gateway().log
    assert (log.state.version, log.refresh().exists, log.refresh().version) == (NO_LOG, False, NO_LOG)
    bench.create(1)
    assert log.refresh().exists


def test_a_look_without_news_is_one_request(bench: TopicBench) -> None:
    """Keeping fresh probes the next version, and reads only what is new."""
    gateway = grow(bench, 2)
    other = bench.gateway()
    other.log.refresh()
    bench.store.requests.clear()
    other.log.refresh()
    assert [name for name, _ in bench.store.requests] == ["get"]
    bench.append(gateway, {0: [b"new"]})
    bench.store.requests.clear()
    assert other.log.refresh().high_watermark(0) == 3
    assert [name for name, _ in bench.store.requests] == ["get", "get"]


def test_loading_reads_the_newest_checkpoint_and_what_follows(bench: TopicBench) -> None:
    """A start-up does not read what a checkpoint covers."""
    gateway = grow(bench, 6)
    write_checkpoint(bench.store, "flights", 2, 0)
    write_checkpoint(bench.store, "flights", 5, 0)
    bench.store.requests.clear()
    state = bench.gateway().log.refresh()
    assert [key.rpartition("/")[2] for name, key in bench.store.requests if name == "get"] == [
        "_last_checkpoint",
        f"{5:020d}.checkpoint.parquet",
        f"{6:020d}.json",
    ]
    assert state.next_offsets.tolist() == gateway.log.state.next_offsets.tolist()


@pytest.mark.parametrize(
    "hint",
    [
        b'{"version":2,"size":1}',
        b'{"version":99,"size":1}',
        b"garbage",
        b'{"version":"x"}',
        b'{"version":2,"x":' + b"[" * 1500 + b"]" * 1500 + b"}",
        None,
    ],
    ids=range(6),
)
def test_the_hint_is_only_a_hint(bench: TopicBench, hint: bytes | None) -> None:
    """An old, wrong, damaged or missing hint costs time, never the right answer."""
    grow(bench, 6)
    write_checkpoint(bench.store, "flights", 2, 0)
    write_checkpoint(bench.store, "flights", 5, 0)
    clean(bench, 5)
    bench.store.delete(bench.key("_last_checkpoint"))
    if hint is not None:
        bench.store.put(bench.key("_last_checkpoint"), hint)
    state = bench.gateway().log.refresh()
    assert (state.version, state.high_watermark(0)) == (6, 6)


def test_a_sleeper_finds_the_head(bench: TopicBench) -> None:
    """A reader that slept while the commits behind its version were cleaned away does not take the hole for the log's end."""
    gateway = grow(bench, 2)
    sleeper = bench.gateway()
    sleeper.log.refresh()
    for number in range(4):
        bench.append(gateway, {0: [b"%d" % number]})
    write_checkpoint(bench.store, "flights", 6, 0)
    clean(bench, 6)
    bench.clock.pass_ms(limits.LOG_KEPT_MS_MIN)
    assert sleeper.log.refresh().version == 6


def test_a_sleeper_does_not_believe_what_landed_in_a_hole(bench: TopicBench) -> None:
    """A put that arrives after clean-up is no commit: no reader's state ever holds it, not for a moment."""
    gateway = grow(bench, 2)
    seen: list[int] = []
    sleeper = TopicLog(
        bench.store, "flights", bench.clock, on_change=lambda state: seen.append(int(state.next_offsets[0]))
    )
    sleeper.refresh()
    ghost = bench.store.get(bench.key(f"{1:020d}.json"))
    for number in range(4):
        bench.append(gateway, {0: [b"%d" % number]})
    write_checkpoint(bench.store, "flights", 6, 0)
    clean(bench, 6)
    bench.store.put(bench.key(f"{3:020d}.json"), ghost)
    bench.clock.pass_ms(limits.LOG_KEPT_MS_MIN)
    assert sleeper.refresh().version == 6
    assert seen == [2, 6]


def test_a_sleep_in_the_middle_of_a_look_counts(bench: TopicBench) -> None:
    """The look began in time, but the machine slept until the answer came: the answer is doubted all the same."""
    gateway = grow(bench, 2)
    sleeper = bench.gateway()
    sleeper.log.refresh()

    def sleeps(real: Any, key: str) -> Any:
        for number in range(4):
            bench.append(gateway, {0: [b"%d" % number]})
        write_checkpoint(bench.store, "flights", 6, 0)
        clean(bench, 6)
        bench.clock.pass_ms(limits.LOG_KEPT_MS_MIN)
        return real(key)

    bench.store.script["get"] = [sleeps]
    assert sleeper.log.refresh().version == 6


def test_clean_up_while_loading_starts_it_again(bench: TopicBench) -> None:
    """What was listed and then cleaned away is covered by a newer checkpoint: loading begins anew, so often and no more."""
    gateway = grow(bench, 3)

    def cleaned(real: Any, key: str) -> Any:
        write_checkpoint(bench.store, "flights", 3, 0)
        clean(bench, 3)
        return real(key)

    bench.store.script["get"] = [None, None, cleaned]
    assert bench.gateway().log.refresh().version == gateway.log.state.version
    bench.store.script["get"] = [None, ObjectMissing("k")] * limits.LOAD_ATTEMPTS_MAX
    with pytest.raises(CorruptData):
        bench.gateway().log.refresh()


def test_a_load_that_takes_too_long_is_not_trusted(bench: TopicBench) -> None:
    """When clean-up may have overtaken it, a load begins anew; and when that never ends, the store is to blame."""
    grow(bench, 1)

    def slow(real: Any, key: str) -> Any:
        bench.clock.pass_ms(limits.LOAD_MS_MAX + 1)
        return real(key)

    bench.store.script["get"] = [slow]
    assert bench.gateway().log.refresh().version == 1
    bench.store.script["get"] = [slow, None, None] * limits.LOAD_ATTEMPTS_MAX
    with pytest.raises(StoreUnavailable):
        bench.gateway().log.refresh()


def test_what_a_slow_load_misses_is_no_damage(bench: TopicBench) -> None:
    """Objects that vanish while the machine sleeps were cleaned away; only what vanishes at once is damage."""
    grow(bench, 1)

    def asleep(real: Any, key: str) -> Any:
        bench.clock.pass_ms(limits.LOAD_MS_MAX + 1)
        raise ObjectMissing(key)

    bench.store.script["get"] = [None, asleep] * limits.LOAD_ATTEMPTS_MAX
    with pytest.raises(StoreUnavailable):
        bench.gateway().log.refresh()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_commit_is_found_out(bench: TopicBench, missing: int) -> None:
    """A log with a hole behind its newest checkpoint is damaged, and says which version it lacks."""
    grow(bench, 3)
    bench.store.delete(bench.key(f"{missing:020d}.json"))
    with pytest.raises(CorruptData, match=f"lacks version {missing}"):
        bench.gateway().log.refresh()


@pytest.mark.parametrize("unlisted", [[1], [2, 3], [4], [1, 3]])
@pytest.mark.parametrize("load", ["a reader", "verify"])
def test_a_commit_that_a_listing_lacks_is_asked_for(bench: TopicBench, unlisted: list[int], load: str) -> None:
    """A listing beside writers may lack a version and have the one behind it: nothing is concluded from that."""
    gateway = grow(bench, 5)

    def holey(real: Any, key: str) -> Any:
        return (info for info in real(key) if layout.commit_version(info.key) not in unlisted)

    bench.store.script["list"] = [holey] * 20
    if load == "verify":
        assert verify_topic(bench.store, bench.name, clock=bench.clock).problems == ()
    else:
        assert bench.gateway().log.refresh().next_offsets.tolist() == gateway.log.state.next_offsets.tolist()


def test_a_version_far_away_is_not_searched_for(bench: TopicBench) -> None:
    """However far ahead of the log an object is named, few versions in between are asked for."""
    grow(bench, 2)
    bench.store.put(bench.key(f"{10**19:020d}.json"), b"{}")
    bench.store.requests.clear()
    with pytest.raises(CorruptData, match="lacks version 3"):
        bench.gateway().log.refresh()
    assert len(bench.store.requests) < 100


def test_a_store_that_fails_leaves_the_state(bench: TopicBench) -> None:
    """A look that fails changes nothing; the next one goes on."""
    gateway = grow(bench, 2)
    other = bench.gateway()
    other.log.refresh()
    bench.append(gateway, {0: [b"new"]})
    bench.store.script["get"] = [DOWN]
    with pytest.raises(StoreUnavailable):
        other.log.refresh()
    assert other.log.state.version == 2
    assert other.log.refresh().version == 3


def test_a_listing_comes_in_pages(bench: TopicBench) -> None:
    """A covered version is found behind many others."""
    gateway = grow(bench, 5)
    assert not gateway.log.may_be_cleaned(0)
    write_checkpoint(bench.store, "flights", 3, 0)
    assert [gateway.log.may_be_cleaned(version) for version in range(5)] == [True, True, True, True, False]


def test_deletion_and_creation_are_seen(bench: TopicBench) -> None:
    """A log kept fresh follows its topic through deletion and re-creation, and so does one loaded anew."""
    gateway = grow(bench, 2)
    other = bench.gateway()
    first = other.log.refresh().topic_id
    gateway.committer.commit(DeleteTopic())
    assert not other.log.refresh().exists
    bench.create(3)
    assert other.log.refresh().topic_id not in {None, first}
    assert bench.gateway().log.refresh().topic_id == other.log.state.topic_id
    assert other.log.reload().partition_count == 3


def test_many_threads_apply_each_commit_once(bench: TopicBench) -> None:
    """Looks and commits at the same time from many threads: each commit is taken once, in order."""
    gateway = grow(bench, 1)
    versions: list[int] = []
    lock = threading.Lock()

    def note(state: Any) -> None:
        with lock:
            versions.append(state.version)

    log = TopicLog(bench.store, "flights", bench.clock, on_change=note)
    log.refresh()
    with ThreadPoolExecutor(8) as pool:
        looks = [pool.submit(log.refresh) for _ in range(50)]
        for number in range(20):
            bench.append(gateway, {0: [b"%d" % number]})
        looks += [pool.submit(log.refresh) for _ in range(50)]
        for look in looks:
            look.result()
    assert log.refresh().high_watermark(0) == 21
    assert sorted(versions) == sorted(set(versions))
    assert log.state.manifest.segment_count() == 21
