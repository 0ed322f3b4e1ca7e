"""What is published of a topic names exactly the files of a version, whatever was published before, or is left of it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.table_files import files_at
from log_format.delta.actions import plain_path
from log_format.errors import ObjectMissing
from log_format.iceberg.manifest import Catalogued, decode_catalogued, decode_manifest
from log_format.iceberg.metadata import table_metadata
from log_format.iceberg.pinned import publish_pins
from log_format.iceberg.place import Place
from log_format.iceberg.publishing import GRACE_MS, STRAY_MS, offered, publish, seen_at
from log_format.topic.changes import DeleteRecords, DeleteTopic
from log_format.topic.pin_changes import CreatePin
from tests.support.clocks import HOUR_MS
from tests.support.collected_events import CollectedEvents
from tests.support.topic_bench import TopicBench, TopicUser

MINUTE_MS = 60_000
KEPT_MS = HOUR_MS // 2
"""Half of the least time for which a version stays."""


class Catalog:
    """One process that publishes a topic."""

    def __init__(self, bench: TopicBench) -> None:
        self.bench = bench
        self.known: Catalogued | None = None

    def place(self, user: TopicUser) -> Place:
        return Place(self.bench.store, user.log.refresh(), self.bench.clock.now_ms(), self.bench.new_id)

    def load(self, user: TopicUser) -> Catalogued:
        self.known = publish(self.place(user), self.known)
        return self.known


def named(bench: TopicBench, published: Catalogued) -> dict[str, int]:
    """The files that a snapshot names, with their numbers of records, as a reader finds them in the store."""
    listed = decode_catalogued(bench.store.get(published.snapshot.key), published.snapshot.key)
    found: dict[str, int] = {}
    for manifest in listed.manifests:
        entries = decode_manifest(bench.store.get(manifest.key), manifest.key)
        assert len(entries) == manifest.file_count
        assert sum(entry["data_file"]["record_count"] for entry in entries) == manifest.row_count
        for entry in entries:
            path = entry["data_file"]["file_path"].removeprefix(published.root_uri)
            assert path not in found
            found[path] = entry["data_file"]["record_count"]
    return found


def wanted(bench: TopicBench, user: TopicUser) -> set[str]:
    """The files of the newest version, as Delta's log names them."""
    state = user.log.refresh()
    files = files_at(bench.store, state, state.version, bench.clock.now_ms())
    return {plain_path(add["path"]) for piece in files.adds() for add in piece.to_pylist()}


def maintain(bench: TopicBench) -> None:
    """A round that merges what two flushes have written."""
    policy = Policy(flushed_min=2, sources_max=9, fan_in=9, dirty_ratio=0.01)
    parts: dict[str, Any] = {
        "clock": bench.clock,
        "new_id": bench.new_id,
        "policy": policy,
        "report": CollectedEvents(),
    }
    job = Job(store=bench.store, workers=LocalWorkers(bench.store), **parts)
    assert not job.run_round(collect=False).failed_topics


def objects(bench: TopicBench) -> set[str]:
    return {info.key for info in bench.store.list(f"topics/{bench.name}/_iceberg/")}


def test_a_snapshot_has_the_files_and_records_of_its_version(bench: TopicBench) -> None:
    """One load after several commits puts one manifest and one list; its id is the version."""
    user, catalog = bench.create(), Catalog(bench)
    for count in (1, 2, 3):
        bench.append_values(user, {0: [b"v"] * count})
    published = catalog.load(user)
    assert published.snapshot.version == user.log.state.version == 3
    assert sorted(named(bench, published).values()) == [1, 2, 3]
    segments = sum(info.size_bytes for info in bench.store.list(f"topics/{bench.name}/segments/"))
    totals = {"total-data-files": 3, "total-records": 6, "total-files-size": segments}
    assert published.snapshot.totals == totals
    assert len(objects(bench)) == 2


@pytest.mark.parametrize("seed", range(12))
def test_any_history_gives_exactly_the_files_of_the_version(bench: TopicBench, seed: int) -> None:
    """Appends, removals, merges, archiving, checkpoints; two gateways that publish by turns, forget, and find parts gone."""
    chance = random.Random(seed)
    user = bench.create(table_retention_ms="-1" if seed % 2 else "log")
    catalogs = [Catalog(bench), Catalog(bench)]
    for _ in range(40):
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                bench.append_values(user, {chance.randrange(2): [b"v"] * chance.randrange(1, 4)})
            case 4:
                ends = user.log.refresh().next_offsets
                user.committer.commit(DeleteRecords(before={0: chance.randrange(int(ends[0]) + 1)}))
            case 5:
                write_checkpoint(bench.store, bench.name, user.log.refresh().version, bench.clock.now_ms())
            case 6:
                chance.choice(catalogs).known = None
            case 7:
                if (kept := sorted(objects(bench))) and chance.random() < 0.5:
                    for key in chance.sample(kept, chance.randrange(1, len(kept) + 1)):
                        bench.store.delete(key)
            case 8:
                bench.clock.pass_ms(chance.choice([1_000, MINUTE_MS, 3 * HOUR_MS]))
            case 9:
                maintain(bench)
        if chance.random() < 0.4:
            published = chance.choice(catalogs).load(user)
            assert named(bench, published).keys() == wanted(bench, user), seed


def test_few_objects_for_a_busy_topic(bench: TopicBench) -> None:
    """However many commits there are between two loads: two objects a load, and few manifests in a list."""
    user, catalog = bench.create(partition_count=1), Catalog(bench)
    catalog.load(user)
    made: set[str] = set()
    for _ in range(12):
        for _ in range(15):
            bench.append_values(user, {0: [b"v"]})
        bench.clock.pass_ms(MINUTE_MS)
        published = catalog.load(user)
        made |= objects(bench)
        assert len(published.manifests) <= 4
    assert len(made) <= 12 * 2 + 2
    assert len(named(bench, published)) == 12 * 15


def test_an_earlier_snapshot_stays_readable_for_as_long_as_it_is_offered(bench: TopicBench) -> None:
    """And an hour more for who got it last; then its objects are deleted."""
    user, catalog = bench.create(partition_count=1), Catalog(bench)
    bench.append_values(user, {0: [b"v"]})
    first = catalog.load(user)
    begun_ms = bench.clock.now_ms()
    files = named(bench, first)
    while bench.clock.now_ms() < begun_ms + KEPT_MS + GRACE_MS:
        bench.append_values(user, {0: [b"v"]})
        bench.clock.pass_ms(5 * MINUTE_MS)
        published = catalog.load(user)
        is_offered = bench.clock.now_ms() - begun_ms < KEPT_MS
        versions = [one.version for one in offered(published, user.log.state, bench.clock.now_ms())]
        assert (first.snapshot.version in versions) == is_offered
        assert named(bench, first) == files
    bench.clock.pass_ms(KEPT_MS + GRACE_MS)
    bench.append_values(user, {0: [b"v"]})
    catalog.load(user)
    with pytest.raises(ObjectMissing):
        bench.store.get(first.snapshot.key)


def test_a_version_that_is_still_the_newest_is_offered_on(bench: TopicBench) -> None:
    """Its time begins when it was last seen to be that."""
    user, catalog = bench.create(partition_count=1), Catalog(bench)
    bench.append_values(user, {0: [b"v"]})
    catalog.load(user)
    bench.clock.pass_ms(HOUR_MS)
    again = catalog.load(user)
    assert again.snapshot.head_seen_ms == bench.clock.now_ms()
    bench.append_values(user, {0: [b"v"]})
    published = catalog.load(user)
    assert [one.version for one in published.history] == [again.snapshot.version]
    assert seen_at(published, 7).snapshot.head_seen_ms == 7


def test_no_snapshot_outlives_half_of_the_time_for_which_files_stay(bench: TopicBench) -> None:
    """A topic whose removed files are deleted at once offers the newest version only."""
    user, catalog = bench.create(partition_count=1, deleted_file_retention_ms="0"), Catalog(bench)
    for _ in range(2):
        bench.append_values(user, {0: [b"v"]})
        published = catalog.load(user)
    assert [one.version for one in offered(published, user.log.state, bench.clock.now_ms())] == [2]


def test_a_topic_whose_versions_stay_longer_offers_them_longer(bench: TopicBench) -> None:
    """Half of ``commit.retention.ms``."""
    user, catalog = bench.create(partition_count=1, commit_retention_ms=str(20 * HOUR_MS)), Catalog(bench)
    bench.append_values(user, {0: [b"v"]})
    first = catalog.load(user)
    for passed_ms, versions in ((9 * HOUR_MS, [1, 2]), (2 * HOUR_MS, [2, 3])):
        bench.clock.pass_ms(passed_ms)
        bench.append_values(user, {0: [b"v"]})
        published = catalog.load(user)
        assert [one.version for one in offered(published, user.log.state, bench.clock.now_ms())] == versions
        assert named(bench, first)


def test_what_no_publication_knows_is_deleted_after_a_day(bench: TopicBench) -> None:
    """A publisher that died leaves manifests without a list."""
    user, catalog = bench.create(partition_count=1), Catalog(bench)
    bench.append_values(user, {0: [b"v"]})
    stray = f"{catalog.place(user).prefix}m-stray.avro"
    bench.store.put(stray, b"")
    for passed_ms, is_kept in ((0, True), (STRAY_MS // 2, True), (STRAY_MS, False)):
        bench.clock.pass_ms(passed_ms)
        bench.append_values(user, {0: [b"v"]})
        catalog.load(user)
        assert (stray in objects(bench)) == is_kept


def test_a_topic_that_is_made_anew_begins_anew(bench: TopicBench) -> None:
    """Nothing of the deleted one is in its table, and its table has another UUID."""
    user, catalog = bench.create(partition_count=1), Catalog(bench)
    bench.append_values(user, {0: [b"v"]})
    first = catalog.load(user)
    user.committer.commit(DeleteTopic(topic_id=user.log.state.existing_id))
    again = bench.create(partition_count=1)
    published = catalog.load(again)
    assert named(bench, published) == {}
    assert published.topic_id != first.topic_id
    assert published.history == ()


def test_a_pinned_version_has_a_list_until_its_pin_ends(bench: TopicBench) -> None:
    """The tag names the version, whose files have left the table since."""
    user, catalog = bench.create(partition_count=1), Catalog(bench)
    bench.append_values(user, {0: [b"v"] * 3})
    pin = CreatePin(
        name="before", expires_at_ms=bench.clock.now_ms() + 2 * HOUR_MS, topic_id=user.log.state.existing_id
    )
    user.committer.commit(pin)
    write_checkpoint(bench.store, bench.name, 1, bench.clock.now_ms())
    bench.append_values(user, {0: [b"w"]})
    bench.append_values(user, {0: [b"w"]})
    user.committer.commit(DeleteRecords(before={0: 4}))
    published = catalog.load(user)
    pinned = publish_pins(catalog.place(user))
    assert pinned.keys() == {1}
    assert publish_pins(catalog.place(user)) == pinned
    listed = decode_catalogued(bench.store.get(pinned[1]), pinned[1])
    assert sum(manifest.row_count for manifest in listed.manifests) == 3

    def refs() -> Any:
        snapshots, now_ms = offered(published, user.log.state, bench.clock.now_ms()), bench.clock.now_ms()
        made = table_metadata(user.log.state, "memory:///", snapshots, pinned, properties={}, now_ms=now_ms)
        ids = {one["snapshot-id"] for one in made["snapshots"]}
        assert {one["snapshot-id"] for one in made["refs"].values()} <= ids
        return {name: one["snapshot-id"] for name, one in made["refs"].items()}

    assert refs() == {"main": user.log.state.version, "before": 1}
    bench.clock.pass_ms(3 * HOUR_MS)
    assert refs() == {"main": user.log.state.version}
