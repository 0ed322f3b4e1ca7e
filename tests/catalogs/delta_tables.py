"""Programs read a topic's Delta table in a bucket by its files alone: each the same records as deltalake, by number and CRC-32.

Two tables: a topic whose older rows are in its archive, and of which an old version is pinned, in a gap of the log; and a clone.
Maintenance has run for days: it merged, archived, cleaned the log and collected files. Trino is also asked to write, and refuses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.cloning import TableVersion, clone_topic
from log_format.checkpoints.pinned_versions import keep_version
from log_format.topic.pin_changes import CreatePin
from tests.catalogs.engines import Found, program
from tests.catalogs.lake import by_delta
from tests.catalogs.trino import is_there, s3_settings, trino
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.minio import Minio

HOUR_MS: Final = 3_600_000
DAYS: Final = 4
FLUSHES: Final = 6
"""On each day."""
SOURCE, CLONE = "t", "copy"


def compare(directory: Path) -> None:
    """Print what each program reads, and raise ``AssertionError`` unless all agree."""
    bench, versions = _made()
    minio = Minio(directory)
    try:
        bucket = minio.create_bucket()
        client = minio.s3()
        for info in bench.store.list(layout.TOPICS):
            client.put_object(Bucket=bucket, Key=info.key, Body=bench.store.get(info.key))
        client.close()
        tables = {topic: f"s3://{bucket}/{layout.topic_root(topic)}".rstrip("/") for topic in versions}
        expected = {
            topic: {version: by_delta(minio, tables[topic], version) for version in versions[topic]}
            for topic in versions
        }
        print(
            f"deltalake, rows by versions: { {topic: _counts(found) for topic, found in expected.items()} }", flush=True
        )
        read = {"DuckDB 1.5.5, by its Delta extension": _by_duckdb(minio, tables, versions)}
        if is_there():
            read["Trino 476, by its Delta Lake connector"] = _by_trino(minio, directory, tables, versions)
        for name, found in read.items():
            print(f"{name}: {'equal' if found == expected else f'NOT EQUAL: {found}'}", flush=True)
        assert all(found == expected for found in read.values())
    finally:
        minio.kill()


def _made() -> tuple[MaintenanceBench, dict[str, list[int]]]:
    """Return a store with both topics, and the versions to read of each."""
    bench = MaintenanceBench()
    bench.create(2, retention_ms=HOUR_MS, table_retention_ms=-1)
    _fill(bench)
    pin, _ = bench.commit(CreatePin(name="pinned", expires_at_ms=None, topic_id=bench.log.refresh().existing_id))
    keep_version(bench.store, SOURCE, pin.version, bench.clock.now_ms())
    for _ in range(DAYS):
        _fill(bench)
        write_checkpoint(bench.store, SOURCE, bench.log.refresh().version, bench.clock.now_ms())
        bench.clock.pass_ms(24 * HOUR_MS)
        assert bench.job().run_round(collect=True).failed_topics == 0, bench.report.events[-5:]
    _fill(bench)
    state = bench.log.refresh()
    assert layout.table_commit_key(layout.topic_root(SOURCE), pin.version + 1) not in bench.stored("_delta_log/")
    assert state.archive.segment_count > 0
    clone_topic(bench.store, SOURCE, CLONE, bench.clock, bench.new_id, config={}, at=TableVersion(), copies_at_once=1)
    return bench, {SOURCE: [pin.version, state.version], CLONE: [0]}


def _fill(bench: MaintenanceBench) -> None:
    for number in range(FLUSHES):
        key = f"k{number}".encode()
        bench.append((0, key, b"one"), (1, None, b"two"), (0, key, None))
        bench.clock.pass_ms(1_000)


def _by_duckdb(minio: Minio, tables: dict[str, str], versions: dict[str, list[int]]) -> dict[str, Found]:
    secret = {
        "KEY_ID": minio.access_key,
        "SECRET": minio.secret_key,
        "REGION": "us-east-1",
        "ENDPOINT": minio.url.removeprefix("http://"),
        "URL_STYLE": "path",
    }
    given = ", ".join([f"{name} '{value}'" for name, value in secret.items()] + ["USE_SSL false"])
    return {
        topic: program("duckdb_delta", "duckdb-delta", TABLE=table, S3=given)(versions[topic])
        for topic, table in tables.items()
    }


def _by_trino(
    minio: Minio, directory: Path, tables: dict[str, str], versions: dict[str, list[int]]
) -> dict[str, Found]:
    """Trino has a metastore of files, in which the tables are registered by where they are."""
    catalog = {
        "connector.name": "delta_lake",
        "hive.metastore": "file",
        "hive.metastore.catalog.dir": "local:///metastore",
        "fs.native-local.enabled": "true",
        "local.location": str(directory),
        "delta.register-table-procedure.enabled": "true",
        **s3_settings(minio.url),
        "s3.aws-access-key": minio.access_key,
        "s3.aws-secret-key": minio.secret_key,
    }
    found = {}
    with trino(directory, {"tidelog": catalog}) as server:
        for topic, table in tables.items():
            first = [
                "CREATE SCHEMA IF NOT EXISTS tidelog.topics WITH (location = 'local:///topics')",
                f"CALL tidelog.system.register_table('topics', '{topic}', '{table}')",
            ]
            found[topic] = program("trino", None, TRINO=server.url, TOPIC=topic, FIRST=json.dumps(first))(
                versions[topic]
            )
    return found


def _counts(found: Found) -> dict[int, int]:
    return {version: one.row_count for version, one in found.items()}
