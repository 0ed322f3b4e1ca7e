"""Spark reads topics by Delta Sharing, with the client that Delta's own project has for Spark, while they are written.

Its records are those that deltalake reads in the bucket at the same version, by number and CRC-32: of each version, of a typed
topic's columns, and of a stream. It has a profile file, and no role on the bucket.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any, Final

from spark_pipeline.jars import JarSet, ensure_jars
from tests.catalogs.engines import LOOK_PAUSE_S, LOOKS, RECORDS_MIN, profile, run_program
from tests.catalogs.lake import PAUSE_S, USER, Lake, by_delta
from tests.catalogs.programs.rows import Digest
from tests.support.repeatedly import repeatedly
from tests.support.waiting import until

JARS: Final = "DELTA_SHARING_JARS"
"""Variable with a directory that has ``delta-sharing-spark`` for this project's Spark, and its ``delta-sharing-client``."""
SCHEMA: Final = '{"type": "record", "name": "R", "fields": [{"name": "amount", "type": "long"}]}'


def run(lake: Lake, directory: Path) -> None:
    """Print what was read, and raise ``AssertionError`` unless it is what deltalake reads; without ``JARS`` say so."""
    place = os.environ.get(JARS)
    if place is None:
        print(f"Spark by Delta Sharing is left out: {JARS} names no directory with its client", flush=True)
        return
    topic = _typed_topic(lake)
    with repeatedly(lambda: _produce(lake, topic), PAUSE_S):
        until(lambda: lake.sent[0] >= RECORDS_MIN)
        expected: dict[tuple[str, Any], Digest] = {}
        versions = []
        for _ in range(LOOKS):
            version, found = lake.looked()
            versions.append(version)
            time.sleep(LOOK_PAUSE_S)
            expected |= {(form, what): found for form in ("parquet", "delta") for what in (version, "stream")}
        typed_version = _version(lake, topic)
        typed = by_delta(
            lake.minio, f"{lake.store}/topics/{topic}", typed_version, lambda row: str(row["data"]["amount"]).encode()
        )
        expected |= {(form, "typed"): typed for form in ("parquet", "delta")}
        jars = [*ensure_jars(JarSet.DELTA), *sorted(Path(place).glob("*.jar"))]
        given = {"TOPIC": lake.topic, "TYPED": topic, "TYPED_VERSION": str(typed_version)}
        given |= {"PROFILE": profile(lake, directory), "JARS": ",".join(map(str, jars))}
        before = lake.sent[0]
        lines = run_program(sys.executable, "spark_sharing", versions, given)
    read = {(form, what): Digest(count, crc) for form, what, count, crc in lines}
    print(f"Spark 4.2, by Delta Sharing: {read}, {lake.sent[0] - before} records came meanwhile", flush=True)
    assert read == expected, expected


def _typed_topic(lake: Lake) -> str:
    """Return a new topic that keeps values as columns only, with some records."""
    name, admin = f"typed-{secrets.token_hex(4)}", lake.secured.admin.http
    assert admin.post(f"/registry/subjects/{name}/versions", json={"schema": SCHEMA}).is_success
    settings = {"flush.ms": 1, "value.schema": name, "value.keep": "false"}
    made = admin.post("/v1/topics", json={"name": name, "partition_count": 2, "config": settings})
    assert made.status_code == 201, made.text
    lake.secured.allow(USER, "Read", "topic", name)
    for _ in range(3):
        _produce(lake, name)
    return name


def _produce(lake: Lake, topic: str) -> None:
    records = [{"key": f"k{number}", "value": json.dumps({"amount": number})} for number in range(4)]
    answer = lake.secured.admin.http.post(f"/v1/topics/{topic}/records", json={"records": records})
    assert answer.is_success, answer.text


def _version(lake: Lake, topic: str) -> int:
    """Return the newest version of a topic's table, as a client of Delta Sharing is told it."""
    path = f"/delta-sharing/shares/tidelog/schemas/topics/tables/{topic}/version"
    answer = lake.secured.client(lake.token).get(path)
    assert answer.is_success, answer.text
    return int(answer.headers["delta-table-version"])
