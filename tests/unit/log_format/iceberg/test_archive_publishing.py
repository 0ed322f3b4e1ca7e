"""Files of the archive are files of the table: they stay named when they leave the log, and when erasures replace them."""

from __future__ import annotations

from log_format.checkpoints.table_files import files_at
from log_format.cluster.identity import load_cluster
from log_format.delta.actions import plain_path
from log_format.iceberg.manifest import Catalogued, decode_manifest
from log_format.iceberg.place import Place
from log_format.iceberg.publishing import publish
from log_format.ids import random_id
from log_format.records.erasing import Matcher, digest_of
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure
from tests.support.clocks import HOUR_MS
from tests.support.maintenance_bench import MaintenanceBench


def published(bench: MaintenanceBench, known: Catalogued | None) -> Catalogued:
    """Publish the newest version; it must have exactly the table's files."""
    state = bench.log.refresh()
    found = publish(Place(bench.store, state, bench.clock.now_ms(), bench.new_id), known)
    named = [
        entry["data_file"]["file_path"].removeprefix(found.root_uri)
        for manifest in found.manifests
        for entry in decode_manifest(bench.store.get(manifest.key), manifest.key)
    ]
    adds = files_at(bench.store, state, state.version, bench.clock.now_ms()).adds()
    assert sorted(named) == sorted(plain_path(add["path"]) for piece in adds for add in piece.to_pylist())
    return found


def test_archiving_and_erasing_keep_manifests_right() -> None:
    """Each step is published by a gateway that knows the one before, and by one that knows nothing."""
    bench = MaintenanceBench()
    bench.create(1, retention_ms=HOUR_MS, table_retention_ms=-1)
    for number in range(4):
        bench.append((0, b"anna", b"v%d" % number), (0, b"bo", b"w"))
    known = published(bench, None)
    bench.clock.pass_ms(2 * HOUR_MS)
    bench.append((0, b"anna", b"last"))
    assert bench.job().run_round(collect=False).failed_topics == 0
    state = bench.log.refresh()
    assert state.archive.segment_count
    known = published(bench, known)
    secret = load_cluster(bench.store, random_id).producer_key
    erasure = Erasure(erasure_id="e", requested_ms=0, wanted=(Matcher(digest_of(secret, b"anna"), None),))
    bench.commit(RequestErasure(topic_id=state.existing_id, erasure=erasure))
    known = published(bench, known)
    archived = {entry.key for entry in known.manifests}
    assert bench.job().run_round(collect=False).failed_topics == 0
    known = published(bench, known)
    assert archived.isdisjoint(entry.key for entry in known.manifests)
    assert known.history
    bench.clock.pass_ms(HOUR_MS)
    assert bench.job().run_round(collect=True).failed_topics == 0
    for info in bench.store.list("topics/t/_iceberg/"):
        bench.store.delete(info.key)
    published(bench, known)


def test_files_that_are_laid_out_replace_archived_ones() -> None:
    """Maintenance writes the archive in another order: no manifest claims that its files are in that of offsets."""
    bench = MaintenanceBench()
    bench.create(1, retention_ms=HOUR_MS, table_retention_ms=-1, table_cluster_by="key")
    for number in range(8):
        bench.append((0, b"k%d" % (7 - number), b"v"))
    known = published(bench, None)
    bench.clock.pass_ms(2 * HOUR_MS)
    bench.append((0, b"last", b"v"))
    for _ in range(6):
        before = bench.log.refresh().version
        assert bench.job().run_round(collect=False).failed_topics == 0
        known = published(bench, known)
        bench.clock.pass_ms(HOUR_MS)
        if bench.log.refresh().version == before and bench.events("layout"):
            break
    orders = {
        entry["data_file"]["file_path"].removeprefix(known.root_uri).partition("/")[0]: entry["data_file"][
            "sort_order_id"
        ]
        for manifest in known.manifests
        for entry in decode_manifest(bench.store.get(manifest.key), manifest.key)
    }
    assert orders == {"segments": 1, "compacted": None}
    assert bench.log.state.archive.segment_count < 8
