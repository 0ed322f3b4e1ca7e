"""Requests to erase, as a topic's log has them: which records they are about, what carries them out, and when they are done."""

from __future__ import annotations

from typing import Any

import pytest

from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import Add, MetaData, Protocol, Remove, Txn
from log_format.delta.features import FEATURE, TABLE_FEATURE
from log_format.errors import BackOff, CorruptData, RequestRefused, UnknownTopic
from log_format.records.erasing import Matcher, digest_of
from log_format.segments.key_filters import hash_key
from log_format.segments.run import Run, SegmentRef
from log_format.topic.changes import AlterTopic, CreateTopic, DeleteTopic
from log_format.topic.config import TopicConfig
from log_format.topic.erasure_changes import (
    ERASURE_KEYS_MAX,
    EraseSegments,
    FinishErasures,
    ForgetErasures,
    RequestErasure,
)
from log_format.topic.erasures import ERASURES_PROPERTY, Erasure, hide_hash, parse_erasures
from log_format.topic.rewrite import NewSegment, Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.segment_tags import Rewritten
from tests.support.topic_bench import TopicBench, TopicUser

WANTED = (Matcher(digest_of(b"secret", b"user-7")),)


def request(gateway: TopicUser, name: str = "e1", wanted: tuple[Matcher, ...] = WANTED) -> Erasure:
    """Make a request; it as the log has it."""
    topic_id = gateway.log.state.existing_id
    erasure = Erasure(erasure_id=name, requested_ms=0, wanted=wanted)
    found: Erasure = gateway.committer.commit(RequestErasure(topic_id=topic_id, erasure=erasure)).result
    return found


def erase(bench: TopicBench, gateway: TopicUser, sources: list[SegmentRef], new: Run, **counts: int) -> EraseSegments:
    """A rewrite of all of the sources' records, in the store by now."""
    ref = SegmentRef("compacted/n", 100, 50, 0)
    rewrite = Rewrite(
        topic_id=gateway.log.state.existing_id,
        sources=sources,
        source_record_count=new.record_count,
        added=[NewSegment(segment=ref, run=new, modification_time_ms=1, rewritten=Rewritten(1))],
        uploaded=UploadedFile("compacted/n", bench.clock.monotonic_ms()),
        changes_records=True,
    )
    return EraseSegments(rewrite=rewrite, counts=counts, partitions=[0], size_bytes=7)


def test_a_request_is_about_what_was_there(bench: TopicBench) -> None:
    """Its commit says up to which offsets, whatever its writer knew; asked twice it is there once; nothing names the key."""
    gateway = bench.create(2)
    bench.append_values(gateway, {0: [b"a", b"b"]})
    other = bench.gateway()
    other.log.refresh()
    bench.append_values(other, {1: [b"c"]})
    assert request(gateway).ends == (2, 1)
    bench.append_values(gateway, {0: [b"later"]})
    assert request(gateway).ends == (2, 1)
    assert [one.erasure_id for one in gateway.log.state.erasures] == ["e1"]
    objects = [bench.store.get(info.key) for info in bench.store.list(f"topics/{bench.name}/_delta_log/")]
    assert not any(b"user-7" in data for data in objects)


def test_a_request_may_be_about_less(bench: TopicBench) -> None:
    """One of another log has that log's offsets: it is about what is below both."""
    gateway = bench.create(2)
    bench.append_values(gateway, {0: [b"a", b"b"], 1: [b"c"]})
    asked = Erasure(erasure_id="e1", requested_ms=1, wanted=WANTED, ends=(1, 7))
    change = RequestErasure(topic_id=gateway.log.state.existing_id, erasure=asked)
    assert gateway.committer.commit(change).result.ends == (1, 1)


def test_filters_answer_for_keys_only() -> None:
    """A request that says nothing of its keys' hashes, too few of them, or anything but keys, has no hashes to look for."""
    hidden = hide_hash(b"secret", b"user-7")
    header = Matcher(digest_of(b"secret", b"7", "user"), "user")

    def hashes(wanted: tuple[Matcher, ...], *hidden_hashes: str) -> list[int] | None:
        erasure = Erasure(erasure_id="e", requested_ms=0, wanted=wanted, hidden_hashes=hidden_hashes)
        return erasure.key_hashes(b"secret")

    assert hashes(WANTED, hidden) == [hash_key(b"user-7")]
    for unknown in (hashes(WANTED), hashes((*WANTED, header), hidden, hidden), hashes((header,), hidden), hashes(())):
        assert unknown is None


def test_a_table_with_a_request_stops_older_releases_for_good(bench: TopicBench) -> None:
    """Its protocol has the feature, also after the settings changed, the topic was made anew, or a checkpoint was loaded."""
    gateway = bench.create(1)
    assert not gateway.log.state.has_table_feature
    request(gateway)
    gateway.committer.commit(AlterTopic(partition_count=2, config={"retention.ms": 5}))
    write_checkpoint(bench.store, bench.name, gateway.log.state.version, bench.clock.now_ms())
    loaded = bench.gateway().log.refresh()
    for state in (gateway.log.state, loaded):
        assert (state.has_table_feature, state.is_guarded) == (True, True)
        assert [one.erasure_id for one in state.erasures] == ["e1"]
    gateway.committer.commit(DeleteTopic())
    new = CreateTopic(name=bench.name, partition_count=1, config=TopicConfig.parse({}), topic_id="new")
    proposal = new.propose(gateway.log.state, 1)
    assert [one.writer_features for one in proposal.actions if isinstance(one, Protocol)] == [[FEATURE, TABLE_FEATURE]]
    gateway.committer.commit(new)
    assert gateway.log.state.erasures == ()


def test_a_rewrite_counts_and_ends_memory(bench: TopicBench) -> None:
    """One commit replaces the segments, counts, and says up to where memory is no answer; streams see that records changed."""
    gateway = bench.create(1)
    bench.append_values(gateway, {0: [b"a"]})
    bench.append_values(gateway, {0: [b"b"]})
    request(gateway)
    bench.append_values(gateway, {0: [b"c"]})
    first = gateway.log.state.manifest.segments()[0]
    change = erase(bench, gateway, [first], Run(0, 0, 1, 1, 10, 0, 0), e1=1)
    kinds = change.propose(gateway.log.state, 5)
    assert [type(action) for action in kinds.actions] == [MetaData, Remove, Add, Txn]
    assert [one.data_change for one in kinds.actions if isinstance(one, Remove | Add)] == [True, False]
    assert gateway.committer.commit(change).result is RewriteOutcome.COMMITTED
    write_checkpoint(bench.store, bench.name, gateway.log.state.version, bench.clock.now_ms())
    for state in (gateway.log.state, bench.gateway().log.refresh()):
        assert (state.table_end(0), int(state.keys_compacted[0])) == (2, 0)
        assert [(one.record_count, one.size_bytes) for one in state.erasures] == [(1, 7)]
    again = change.propose(gateway.log.state, 6)
    assert (again.result, again.actions) == (RewriteOutcome.OVERTAKEN, ())


def test_a_request_is_done_when_every_segment_was_looked_at(bench: TopicBench) -> None:
    """A segment that came meanwhile with records of before the request, as from a merge, refutes it; one of later does not."""
    gateway = bench.create(1)
    bench.append_values(gateway, {0: [b"a"]})
    bench.append_values(gateway, {0: [b"b"]})
    request(gateway)
    first, second = (one.path for one in gateway.log.state.manifest.segments())
    bench.append_values(gateway, {0: [b"later"]})
    topic_id = gateway.log.state.existing_id

    def finish(*clean: str) -> bool:
        done: bool = gateway.committer.commit(FinishErasures(topic_id=topic_id, erasure_ids=["e1"], clean=clean)).result
        return done

    assert not finish(first)
    assert not gateway.log.state.erasures[0].is_rewritten
    gateway.committer.commit(ForgetErasures(erasure_ids=["e1"]))
    assert gateway.log.state.erasures
    assert finish(first, second)
    (done,) = gateway.log.state.erasures
    assert done.rewritten_version == gateway.log.state.version
    gateway.committer.commit(ForgetErasures(erasure_ids=["e1"]))
    assert bench.gateway().log.refresh().erasures == ()


def test_a_topic_that_was_erased_is_made_anew(bench: TopicBench) -> None:
    """Nothing of the old incarnation's offsets is left: a checkpoint alone gives its state."""
    gateway = bench.create(1)
    bench.append_values(gateway, {0: [b"a"]})
    request(gateway)
    gateway.committer.commit(
        erase(bench, gateway, gateway.log.state.manifest.segments(), Run(0, 0, 1, 1, 10, 0, 0), e1=1)
    )
    gateway.committer.commit(DeleteTopic())
    bench.create(1, topic_id="new")
    gateway.log.refresh()
    write_checkpoint(bench.store, bench.name, gateway.log.state.version, bench.clock.now_ms())
    for info in list(bench.store.list(f"topics/{bench.name}/_delta_log/")):
        if info.key.endswith(".json"):
            bench.store.delete(info.key)
    state = TopicLog(bench.store, bench.name, bench.clock).refresh()
    assert (state.topic_id, state.table_end(0), state.erasures) == ("new", 0, ())


@pytest.mark.parametrize("count", [0, ERASURE_KEYS_MAX + 1])
def test_a_request_has_a_bound(bench: TopicBench, count: int) -> None:
    """Nothing and too much are refused before anything is committed."""
    gateway = bench.create(1)
    with pytest.raises(RequestRefused):
        request(gateway, wanted=WANTED * count)


def test_requests_that_nobody_carries_out_have_a_bound(bench: TopicBench) -> None:
    """The property that every change of settings repeats stays small: further ones are refused, those there stay."""
    gateway = bench.create(1)

    def ask() -> None:
        for number in range(100):
            request(gateway, f"e{number}", WANTED * ERASURE_KEYS_MAX)

    with pytest.raises(BackOff, match="tidelog maintain"):
        ask()
    assert 10 < len(gateway.log.state.erasures) < 100


def test_requests_of_another_incarnation_are_refused(bench: TopicBench) -> None:
    """Nothing is recorded, and a rewrite or an end that comes late does nothing."""
    gateway = bench.create(1)
    change: Any = RequestErasure(topic_id="other", erasure=Erasure(erasure_id="e", requested_ms=0, wanted=WANTED))
    with pytest.raises(UnknownTopic):
        gateway.committer.commit(change)
    late = FinishErasures(topic_id="other", erasure_ids=["e"], clean=())
    assert gateway.committer.commit(late).attempts == 0


def test_what_can_not_be_read_is_damage(bench: TopicBench) -> None:
    """A request is never forgotten in silence."""
    with pytest.raises(CorruptData, match=ERASURES_PROPERTY):
        parse_erasures(bench.name, {ERASURES_PROPERTY: "[{}]"})
