"""A writer of the bucket does not fill a reader's memory: no object is read that has more bytes than it can have."""

from __future__ import annotations

import pytest

from log_format import layout, limits
from log_format.checkpoints.checkpoint import reconcile_log, write_checkpoint
from log_format.cluster.identity import load_cluster
from log_format.delta.committer import Committer
from log_format.errors import BackOff, CorruptData
from log_format.inspection.verify import verify_topic
from log_format.store import read_bounded
from log_format.topic.append import Append
from log_format.transactions.staged_records import staged_key, staged_name, staged_prefix
from tests.support.topic_bench import TopicBench


def replace(bench: TopicBench, key: str, size_bytes: int) -> None:
    bench.store.put(key, bytes(size_bytes))


def test_a_huge_commit(bench: TopicBench) -> None:
    """Of a gateway that follows, of one that loads, of checkpoints and of the verifier: corrupt, with the object's name."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"x"]})
    key = layout.commit_key(bench.name, gateway.log.state.version + 1)
    replace(bench, key, limits.COMMIT_BYTES_MAX + 1)
    for read in (
        gateway.log.refresh,
        bench.gateway().log.refresh,
        lambda: bench.append(gateway, {0: [b"y"]}),
        lambda: reconcile_log(bench.store, bench.name, gateway.log.state.version + 1, bench.clock.now_ms()),
    ):
        with pytest.raises(CorruptData, match="it was replaced") as raised:
            read()
        assert raised.value.fields["object"] == key
    assert not verify_topic(bench.store, bench.name, clock=bench.clock).ok


def test_a_huge_checkpoint_and_a_huge_hint(bench: TopicBench) -> None:
    """A hint that is none is done without, and so is a checkpoint while all commits are there; then it is corrupt."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"x"]})
    version = gateway.log.state.version
    write_checkpoint(bench.store, bench.name, version, bench.clock.now_ms())
    replace(bench, layout.last_checkpoint_key(bench.name), limits.CLUSTER_BYTES_MAX + 1)
    assert bench.gateway().log.refresh().version == version
    replace(bench, layout.checkpoint_key(bench.name, version), limits.CHECKPOINT_BYTES_MAX + 1)
    assert bench.gateway().log.refresh().version == version
    bench.store.delete(layout.commit_key(bench.name, 0))
    with pytest.raises(CorruptData, match="it was replaced"):
        bench.gateway().log.refresh()


def test_nothing_is_written_that_nobody_would_read(bench: TopicBench) -> None:
    """A commit above the bound is refused before it is there, for certain."""
    gateway = bench.create(1)
    committer = Committer(gateway.log, new_id=bench.new_id, commit_bytes_max=100)
    with pytest.raises(BackOff, match="more than readers accept") as refused:
        committer.commit(Append([bench.batch(gateway, {0: [b"x"]})], bench.new_id))
    assert refused.value.may_have_happened is False
    assert bench.gateway().log.refresh().version == gateway.log.state.version


def test_a_huge_cluster_object(bench: TopicBench) -> None:
    """The keys' object is read by every gateway."""
    replace(bench, layout.CLUSTER_KEY, limits.CLUSTER_BYTES_MAX + 1)
    with pytest.raises(CorruptData, match="it was replaced"):
        load_cluster(bench.store, bench.new_id)


def test_what_fits_is_read(bench: TopicBench) -> None:
    """To the last byte."""
    bench.store.put("a", b"12345")
    assert read_bounded(bench.store, "a", 5) == b"12345"


@pytest.mark.parametrize(
    ("transaction_id", "name"),
    [
        ("t1", "../../../system/cluster.json"),
        ("t1", "00000000-0123456789abcdef0123-x-u.arrow/../../x"),
        ("../t1", staged_name(0, "orders", None, "u")),
        ("", staged_name(0, "orders", None, "u")),
        ("t1", "a" * 1_000_000),
    ],
    ids=range(5),
)
def test_a_decision_names_nothing_but_what_was_staged_for_it(transaction_id: str, name: str) -> None:
    """Whatever its row says, no other object is read for a transaction: its row is corrupt, and the message is short."""
    with pytest.raises(CorruptData, match="no staged object") as raised:
        staged_key(transaction_id, name)
    assert len(raised.value.detail) < 500
    known = staged_name(7, "orders", 3, "u")
    assert staged_key("p0123_4f", known) == f"{staged_prefix('p0123_4f')}{known}"
