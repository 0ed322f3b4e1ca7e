"""History read past the gateway: plans, segments by URL and by path, and what happens when that fails."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.clock import SystemClock
from log_format.stores import open_store
from tests.support.collected_events import CollectedEvents
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.minio import Minio
from tests.support.waiting import until
from tidelog import Admin, Consumer, Filter, Producer, TopicPartition

COUNT = 30_000
VALUE_BYTES = 300


@pytest.fixture(scope="module", params=["directory", pytest.param("bucket", marks=pytest.mark.minio)])
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """On a directory, and on MinIO: of all tests that leave the topic ``t`` as it is."""
    directory = tmp_path_factory.mktemp("history")
    store_uri = (directory / "store").as_uri()
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "bucket":
            minio: Minio = request.getfixturevalue("minio")
            store_uri = minio.store_uri(patch)
        with running_gateway(store_uri, directory / "gateway.log") as started:
            yield started


@pytest.fixture(scope="module")
def values(gateway: GatewayProcess) -> list[bytes]:
    """Of the topic ``t``."""
    return filled(gateway)


@pytest.fixture
def own_gateway(tmp_path: Path, store_uri: str) -> Iterator[GatewayProcess]:
    """Of a test that changes the topic."""
    with running_gateway(store_uri, tmp_path / "gateway.log") as started:
        yield started


def filled(gateway: GatewayProcess) -> list[bytes]:
    """Make the topic ``t``. Returns its values by offset: nine megabytes that don't shrink, in some ten segments."""
    with Admin(gateway.url) as admin:
        admin.create_topic("t", 1, {"flush.bytes": 1024 * 1024, "commit.mode": "own"})
    made = [os.urandom(VALUE_BYTES) for _ in range(COUNT)]
    with Producer(gateway.url) as producer:
        for value in made:
            producer.send("t", value)
    return made


def own_store(gateway: GatewayProcess) -> str | None:
    """As a client on this machine reaches it by itself; None: URLs are enough."""
    return gateway.store if gateway.store.startswith("file:") else None


def plan(gateway: GatewayProcess, topic: str = "t", **query: Any) -> dict[str, Any]:
    answer = gateway.http.get(f"/v1/topics/{topic}/partitions/0/segments", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def read(consumer: Consumer, count: int) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    while len(found) < count:
        records = consumer.poll(10_000)
        assert records, f"{len(found)} of {count} came"
        found += [(record.offset, record.value) for record in records]
    return found


def read_records(gateway: GatewayProcess) -> float:
    """That the gateway read, from memory or from the store."""
    lines = gateway.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("tidelog_read_records_total"))


def test_old_records_do_not_pass_through_the_gateway(gateway: GatewayProcess, values: list[bytes]) -> None:
    """The same records at the same offsets, and only those near the tail come from the gateway."""
    before = read_records(gateway)
    with Consumer("t", bootstrap_servers=gateway.url, store=own_store(gateway)) as consumer:
        assert read(consumer, COUNT) == list(enumerate(values))
    by_plan = read_records(gateway)
    with Consumer("t", bootstrap_servers=gateway.url, history="gateway") as consumer:
        assert read(consumer, COUNT) == list(enumerate(values))
    assert read_records(gateway) - by_plan >= COUNT
    assert by_plan - before < COUNT * 0.6


@pytest.mark.parametrize(
    "command",
    [("consume", "t", "--format", "json"), ("sql", "select count(*) from t", "--json")],
    ids=["consume", "sql"],
)
def test_commands_read_old_records_past_the_gateway(
    gateway: GatewayProcess, values: list[bytes], command: tuple[str, ...]
) -> None:
    """Where the gateway signs URLs: what is near the tail comes from the gateway, and a first few records; the rest does not."""
    before = read_records(gateway)
    program = [sys.executable, "-m", "tidelog", *command, "--url", gateway.url]
    done = subprocess.run(program, capture_output=True, check=True)
    lines = done.stdout.splitlines()
    if command[0] == "consume":
        assert [json.loads(line)["offset"] for line in lines] == list(range(COUNT))
    else:
        assert b"30000" in lines[0]
    by_gateway = read_records(gateway) - before
    assert by_gateway >= COUNT if gateway.store.startswith("file:") else by_gateway < COUNT * 0.6


def test_a_member_of_a_group_that_is_far_behind_reads_past_the_gateway(
    gateway: GatewayProcess, values: list[bytes]
) -> None:
    """It goes on at the committed offset, so it learns how far behind it is by a small fetch."""
    with Consumer(bootstrap_servers=gateway.url, group="g") as consumer:
        consumer.commit({TopicPartition("t", 0): 100})
    before = read_records(gateway)
    with Consumer("t", bootstrap_servers=gateway.url, store=own_store(gateway), group="g") as consumer:
        assert read(consumer, COUNT - 100) == list(enumerate(values))[100:]
    assert read_records(gateway) - before < COUNT * 0.6


def test_merged_segments_are_read_by_plan_and_a_journals_records_by_the_gateway(
    own_gateway: GatewayProcess,
) -> None:
    """Maintenance has replaced the first segments, and the topic went to a journal, whose records are not in its table yet."""
    gateway, values = own_gateway, filled(own_gateway)
    store = open_store(gateway.store)
    policy = Policy(flushed_min=2, sources_max=4, fan_in=4)
    job = Job(
        store=store,
        workers=LocalWorkers(store),
        clock=SystemClock(),
        report=CollectedEvents(),
        policy=policy,
        new_id=lambda: uuid.uuid4().hex,
    )
    assert job.run_round(collect=False).failed_topics == 0
    with Admin(gateway.url) as admin:
        admin.alter_topic("t", config={"commit.mode": "shared", "drain.ms": 86_400_000})
        until(lambda: admin.describe_topic("t").commit.mode == "shared")
    more = [os.urandom(VALUE_BYTES) for _ in range(1_000)]
    with Producer(gateway.url) as producer:
        for value in more:
            producer.send("t", value)
    keys = [segment["key"] for segment in plan(gateway, max_bytes=1 << 30)["segments"]]
    assert any("/compacted/" in key for key in keys), keys
    assert plan(gateway, offset=COUNT)["segments"] == []
    before = read_records(gateway)
    with Consumer("t", bootstrap_servers=gateway.url, store=own_store(gateway)) as consumer:
        assert read(consumer, COUNT + 1_000) == list(enumerate(values + more))
    assert read_records(gateway) - before < COUNT * 0.6


def test_a_plan_leads_through_all_segments(gateway: GatewayProcess, values: list[bytes]) -> None:
    """From ``next_offset`` to ``next_offset`` each offset is in one segment; a URL gives its Parquet without credentials."""
    offset, spans = 0, []
    while (found := plan(gateway, offset=offset, max_bytes=2_000_000))["segments"]:
        sizes = [segment["stored_bytes"] for segment in found["segments"]]
        assert len(sizes) == 1 or sum(sizes) <= 2_000_000
        spans += [(segment["start_offset"], segment["end_offset"]) for segment in found["segments"]]
        offset = found["next_offset"]
    assert (offset, found["high_watermark"], found["log_start_offset"]) == (COUNT, COUNT, 0)
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    segment = plan(gateway, offset=100, max_bytes=1)["segments"][0]
    assert segment["start_offset"] == 100
    if segment["url"] is None:
        assert gateway.store.startswith("file:")
        data = (Path(gateway.store.removeprefix("file://")) / segment["key"]).read_bytes()
    else:
        with urllib.request.urlopen(segment["url"]) as answer:
            data = answer.read()
    rows = pq.read_table(io.BytesIO(data), columns=["offset", "value"]).to_pydict()
    stored = dict(zip(rows["offset"], rows["value"], strict=True))
    wanted = range(segment["start_offset"], segment["end_offset"])
    assert [stored[at] for at in wanted] == values[wanted.start : wanted.stop]


def test_plans_are_refused_as_fetches_are(gateway: GatewayProcess) -> None:
    """Below the log start 410, beyond the end 416, and nothing is planned at the end. Of a topic of its own."""
    gateway.topic("short", commit_mode="own")
    gateway.produce("short", *map(str, range(100)))
    assert plan(gateway, "short", offset=100)["segments"] == []
    assert plan(gateway, "short", offset="latest")["next_offset"] == 100
    gateway.http.post("/v1/topics/short:delete-records", json={"before": [{"partition": 0, "offset": 50}]})
    at = "/v1/topics/short/partitions/0/segments"
    for path, status, code in [
        (f"{at}?offset=49", 410, "OFFSET_OUT_OF_RANGE"),
        (f"{at}?offset=101", 416, "OFFSET_OUT_OF_RANGE"),
        (f"{at}?offset=-1", 400, "INVALID_REQUEST"),
        (f"{at}?max_bytes=0", 400, "INVALID_REQUEST"),
        (f"{at}?max=1", 400, "INVALID_REQUEST"),
        ("/v1/topics/short/partitions/1/segments", 404, "UNKNOWN_PARTITION"),
        ("/v1/topics/u/partitions/0/segments", 404, "UNKNOWN_TOPIC"),
    ]:
        answer = gateway.http.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (status, code), path


def test_a_store_that_is_not_reached_is_the_gateways_work(
    gateway: GatewayProcess, values: list[bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No record is lost and none comes twice; one line says why it is slow."""
    from log_format.errors import StoreUnavailable
    from log_format.segments.reader import SegmentReader

    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("a key", "no route to it", may_have_happened=False)

    monkeypatch.setattr(SegmentReader, "read", fail)
    with (
        caplog.at_level(logging.WARNING, "tidelog.consumer"),
        Consumer("t", bootstrap_servers=gateway.url, store=own_store(gateway)) as consumer,
    ):
        assert read(consumer, COUNT) == list(enumerate(values))
    warned = [record for record in caplog.records if "old records are read through the gateway" in record.getMessage()]
    assert bool(warned) == (len(warned) == 1)


def test_a_damaged_segment_is_read_by_the_gateway(tmp_path: Path) -> None:
    """The CRC tells; what the gateway still has in memory it gives, and for the rest it answers with its own error."""
    with running_gateway((tmp_path / "store").as_uri(), tmp_path / "gateway.log") as gateway:
        values = filled(gateway)
        segments = plan(gateway, max_bytes=1 << 30)["segments"]
        path = tmp_path / "store" / segments[len(segments) // 2]["key"]
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
        with Consumer("t", bootstrap_servers=gateway.url, store=gateway.store) as consumer:
            assert read(consumer, COUNT) == list(enumerate(values))


def test_a_filter_is_for_gateways(own_gateway: GatewayProcess) -> None:
    """A consumer that is far behind and filters gets what passes, though a plan would give it all."""
    gateway, values = own_gateway, filled(own_gateway)
    with Producer(gateway.url) as producer:
        producer.send("t", b"wanted", key="k")
    with Consumer(
        "t",
        bootstrap_servers=gateway.url,
        store=own_store(gateway),
        filter=Filter(key="k"),
        consumer_timeout_ms=1_000,
    ) as consumer:
        assert [(record.offset, record.value) for record in consumer] == [(len(values), b"wanted")]


def test_a_plan_says_nothing_of_records_before_it(gateway: GatewayProcess, values: list[bytes]) -> None:
    """A reader of history that seeks backwards while its plan is young misses nothing."""
    place = TopicPartition("t", 0)
    with Consumer(bootstrap_servers=gateway.url, store=own_store(gateway)) as consumer:
        consumer.assign([place])
        for start in (COUNT // 2, 0):
            consumer.seek(place, start)
            offset = start
            while offset < COUNT:
                found = consumer.poll_arrow(timeout_ms=10_000).column("offset").to_pylist()
                assert found == list(range(offset, offset + len(found)))
                offset += len(found)
    assert offset == len(values)
