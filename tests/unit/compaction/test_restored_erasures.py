"""What was erased does not come back from a backup: what was requested after it is carried out while it is restored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compaction.job import Job
from compaction.workers import LocalWorkers
from log_format import layout
from log_format.checkpoints.erasure_notes import read_notes
from log_format.checkpoints.topic_log import TopicLog
from log_format.cluster.identity import load_cluster
from log_format.errors import RequestRefused
from log_format.ids import random_id
from log_format.inspection.backup import CopiedTopic, copy_log
from log_format.inspection.erased import verify_erased
from log_format.inspection.restored_erasures import EraseAgain
from log_format.records.erasing import Matcher, digest_of
from log_format.segments.reader import SegmentReader
from log_format.store import ObjectStore
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import AlterTopic, DeleteTopic
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure, note_key
from tests.support.collected_events import CollectedEvents
from tests.support.maintenance_bench import MaintenanceBench

HOUR_MS = 3_600_000
BEFORE = [b"anna-1", b"bo-1", b"anna-2"]
AFTER = [None, b"bo-1", None]


@pytest.fixture
def bench() -> MaintenanceBench:
    """A topic with two flushes, both with a record of ``anna``."""
    made = MaintenanceBench()
    made.create(1, compression_type="uncompressed", erase_grace_ms=0)
    load_cluster(made.store, random_id)
    made.append((0, b"anna", b"anna-1"), (0, b"bo", b"bo-1"))
    made.append((0, b"anna", b"anna-2"))
    return made


def ask(bench: MaintenanceBench, key: bytes = b"anna", name: str = "e1") -> None:
    """Ask to erase a key's values, as a gateway does that dies before it puts the note: maintenance puts it."""
    wanted = (Matcher(digest_of(load_cluster(bench.store, random_id).producer_key, key)),)
    state = bench.log.refresh()
    erasure = Erasure(erasure_id=name, requested_ms=0, wanted=wanted)
    bench.commit(RequestErasure(topic_id=state.existing_id, erasure=erasure))


def finish(bench: MaintenanceBench) -> None:
    """Carry out all requests until nothing is left of what they erased."""
    bench.job().run_round(collect=True)
    bench.clock.pass_ms(30 * HOUR_MS)
    bench.job().run_round(collect=True)
    assert not bench.log.refresh().erasures
    assert bench.read() == [(offset, value) for offset, value in enumerate(AFTER)]


def copy(bench: MaintenanceBench, source: ObjectStore, **more: Any) -> tuple[MemoryStore, list[CopiedTopic]]:
    target = MemoryStore(clock=bench.clock)
    return target, list(copy_log(source, target, bench.clock, **more))


def backup(bench: MaintenanceBench) -> MemoryStore:
    made, told = copy(bench, bench.store)
    assert [one.problems for one in told] == [()]
    return made


def erase(bench: MaintenanceBench, target: ObjectStore, *others: ObjectStore) -> EraseAgain:
    """How a copy is erased: as ``tidelog restore`` does it, in this process."""

    def carry_out(topics: Sequence[str]) -> None:
        job = Job(
            store=target,
            workers=LocalWorkers(target),
            clock=bench.clock,
            report=CollectedEvents(),
            only=topics,
            erases_only=True,
        )
        assert not job.run_round(collect=True).failed_topics

    return EraseAgain(others, carry_out, random_id)


def restore(bench: MaintenanceBench, source: ObjectStore, *others: ObjectStore, **more: Any) -> MemoryStore:
    target = MemoryStore(clock=bench.clock)
    told = list(copy_log(source, target, bench.clock, erase=erase(bench, target, *others), **more))
    assert [one.problems for one in told] == [()]
    assert not any(target.list(layout.COPYING))
    return target


def values(bench: MaintenanceBench, store: ObjectStore) -> list[bytes | None]:
    """What a reader of the topic's newest version gets."""
    state, reader = TopicLog(store, "t", bench.clock).refresh(), SegmentReader(store)
    found: list[bytes | None] = []
    while (at := state.manifest.find(0, len(found))) is not None:
        table = reader.read("t", at.segment, 0, len(found), bytes_max=1 << 30, records_max=1 << 30)
        found += table["value"].to_pylist()
    return found


@pytest.mark.parametrize("topics", [None, ["t"]])
def test_a_backup_from_before_the_request_is_erased(bench: MaintenanceBench, topics: list[str] | None) -> None:
    """By the notes of the original store, also when the request is over there; the copy's own request ends as any does."""
    old = backup(bench)
    ask(bench)
    finish(bench)
    assert values(bench, restore(bench, old, topics=topics)) == BEFORE, "nobody who was asked knows of it"
    restored = restore(bench, old, bench.store, topics=topics)
    assert values(bench, restored) == AFTER
    (again,) = TopicLog(restored, "t", bench.clock).refresh().erasures
    assert (again.erasure_id, again.record_count, again.ends) == ("e1", 2, (3,))
    (note,) = read_notes(restored, "t", "id-1")
    assert (note.erasure.erasure_id, note.gone_ms) == ("e1", None)
    bench.clock.pass_ms(30 * HOUR_MS)
    job = Job(store=restored, workers=LocalWorkers(restored), clock=bench.clock, report=CollectedEvents())
    job.run_round(collect=True)
    assert not TopicLog(restored, "t", bench.clock).refresh().erasures
    assert verify_erased(restored, "t", b"anna", bench.clock).ok


def test_the_topic_is_deleted_meanwhile(bench: MaintenanceBench) -> None:
    """Its notes stay; those of another incarnation are about other records."""
    old = backup(bench)
    ask(bench)
    bench.job().run_round(collect=True)
    bench.commit(DeleteTopic())
    assert values(bench, restore(bench, old, bench.store)) == AFTER
    bench.create(1)
    bench.append((0, b"anna", b"anna-1"), (0, b"bo", b"bo-1"), (0, b"anna", b"anna-2"))
    assert values(bench, restore(bench, bench.store)) == BEFORE


def test_a_newer_backup_knows(bench: MaintenanceBench) -> None:
    """The original is lost: the newest backup names what an older one has still got."""
    old = backup(bench)
    ask(bench)
    finish(bench)
    newer = backup(bench)
    assert values(bench, restore(bench, newer)) == AFTER
    assert values(bench, restore(bench, old, newer)) == AFTER


@pytest.mark.parametrize("topics", [None, ["t"]])
def test_an_unfinished_request_in_the_backup_is_carried_out(bench: MaintenanceBench, topics: list[str] | None) -> None:
    """Before the copy is ready, and by the key under which it names whom: a copy of one topic needs that key, too."""
    ask(bench)
    restored = restore(bench, backup(bench), topics=topics)
    assert values(bench, restored) == AFTER
    assert verify_erased(restored, "t", b"anna", bench.clock).request_count == 1


def test_a_version_from_before_the_request(bench: MaintenanceBench) -> None:
    """Of the log itself, whose files from then are still there: its own notes count from their versions on."""
    bench.commit(AlterTopic(partition_count=None, config={"erase.grace.ms": HOUR_MS}))
    version = bench.log.refresh().version
    ask(bench)
    bench.job().run_round(collect=True)
    restored = restore(bench, bench.store, topics=["t"], version=version)
    assert values(bench, restored) == AFTER


def test_a_note_of_later_than_the_copied_log(bench: MaintenanceBench) -> None:
    """A copy that took long has the request's end beside a log that does not know of it."""
    old = backup(bench)
    ask(bench)
    finish(bench)
    old.put(note_key("t", "e1"), bench.store.get(note_key("t", "e1")))
    assert values(bench, restore(bench, old)) == AFTER


def test_what_was_over_is_not_asked_again(bench: MaintenanceBench) -> None:
    """A copy of a log that has nothing of it left reads no segment for it, and its note says when that was."""
    ask(bench)
    finish(bench)
    restored = restore(bench, backup(bench), bench.store)
    assert not TopicLog(restored, "t", bench.clock).refresh().erasures
    (note,) = read_notes(restored, "t", "id-1")
    assert note.gone_ms is not None


def test_an_interrupted_restoration_goes_on(bench: MaintenanceBench) -> None:
    """Whatever it dies before while requests are made and carried out: the copy is marked until it is erased."""
    old = backup(bench)
    ask(bench)
    bench.job().run_round(collect=True)
    target = MemoryStore(clock=bench.clock)

    def die(topics: Sequence[str]) -> None:
        raise KeyboardInterrupt(*topics)

    whole = erase(bench, target, bench.store)
    with pytest.raises(KeyboardInterrupt):
        list(copy_log(old, target, bench.clock, erase=whole._replace(carry_out=die)))
    assert values(bench, target) == BEFORE
    with pytest.raises(RequestRefused, match="was interrupted: run it again"):
        list(copy_log(old, target, bench.clock))
    with pytest.raises(RequestRefused, match="was interrupted: run it again"):
        list(copy_log(old, target, bench.clock, topics=["t"], erase=whole))
    with pytest.raises(RequestRefused, match="unfinished copy"):
        list(copy_log(target, MemoryStore(), bench.clock))
    assert [one.problems for one in copy_log(old, target, bench.clock, erase=whole)] == [()]
    assert values(bench, target) == AFTER
    assert len(TopicLog(target, "t", bench.clock).refresh().erasures) == 1


def test_what_can_not_be_carried_out_is_told(bench: MaintenanceBench) -> None:
    """As a problem of the topic; stores of other clusters are refused, since they name keys otherwise."""
    old = backup(bench)
    ask(bench)
    bench.job().run_round(collect=True)
    target = MemoryStore(clock=bench.clock)
    lazy = EraseAgain([bench.store], lambda _: None, random_id)
    (told,) = copy_log(old, target, bench.clock, erase=lazy)
    assert "not carried out" in told.problems[0]
    stranger = MemoryStore()
    load_cluster(stranger, random_id)
    with pytest.raises(RequestRefused, match="another log"):
        restore(bench, old, stranger)
