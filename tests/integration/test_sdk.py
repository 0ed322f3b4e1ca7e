"""The SDK and the command line over a real gateway process, on a directory and on MinIO."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from log_format.topic.config import SETTINGS, SHOWN_WHERE_SET
from tests.support.gateway_process import GatewayProcess, running_gateway
from tidelog import Admin, Consumer, Producer, Record, TopicPartition
from tidelog.admin import END
from tidelog.errors import (
    InvalidConfig,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicAlreadyExists,
    UnknownPartition,
    UnknownTopic,
)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """One on a directory."""
    with running_gateway(tmp_path / "store", tmp_path / "gateway.log") as started:
        yield started


@pytest.fixture
def any_gateway(tmp_path: Path, store_uri: str) -> Iterator[GatewayProcess]:
    """The test runs once on a directory and once on MinIO."""
    with running_gateway(store_uri, tmp_path / "gateway.log") as started:
        yield started


@pytest.fixture
def url(gateway: GatewayProcess) -> str:
    return gateway.url


def read(url: str, topic: str) -> list[Record]:
    """All that is in the topic now."""
    records: list[Record] = []
    with Consumer(topic, bootstrap_servers=url) as consumer:
        places = consumer.assignment()
        ends = consumer.end_offsets(places)
        deadline = time.monotonic() + 30
        while any(consumer.position(place) < ends[place] for place in places) and time.monotonic() < deadline:
            records += consumer.poll(1_000, 1_000)
        assert consumer.poll(0) == []
    return records


def test_every_record_is_where_its_future_says(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent as JSON and as Arrow, compressed and not, read as JSON and as Arrow: the same bytes at the same offsets."""
    with Admin(url) as admin:
        admin.create_topic("t", 4, {"flush.ms": 5})
    odd = b"\xff\x00\xfe"
    sent: dict[tuple[int, int], tuple[bytes | None, bytes | None, int | None, Any]] = {}
    for compression in (None, "gzip", "zstd"):
        with Producer(url, compression=compression) as producer:
            for count in (1, 700):
                futures = []
                for number in range(count):
                    key = None if number % 5 == 0 else odd if number % 5 == 1 else b"key-%d" % (number % 40)
                    value = None if number % 7 == 0 else odd if number % 7 == 1 else b"value-%d" % number
                    headers = (("a", b"1"), ("a", None), ("b", odd)) if number % 11 == 0 else ()
                    future = producer.send("t", value, key=key, headers=headers, timestamp_ms=number)
                    futures.append((future, key, value, number, headers))
                producer.flush()
                for future, key, value, number, headers in futures:
                    metadata = future.result()
                    sent[metadata.partition, metadata.offset] = (key, value, number, headers)
    assert len(sent) == 3 * 701
    for arrow in (True, False):
        monkeypatch.setattr("tidelog.consumer.reader.arrow_available", lambda arrow=arrow: arrow)
        found = {(r.partition, r.offset): (r.key, r.value, r.timestamp_ms, r.headers) for r in read(url, "t")}
        assert found == sent


def test_tables_out_and_in(url: str) -> None:
    """What ``poll_arrow`` gives can be sent as it is, larger than a request may be, and nothing is lost or changed."""
    rows = 60_000
    table = pa.table(
        {
            "key": pa.array([b"k%d" % (number % 100) for number in range(rows)]),
            "value": pa.array([(b"%08d" % number) * 40 for number in range(rows)]),
            "timestamp": pa.array(range(rows), pa.timestamp("ms", tz="UTC")),
        }
    )
    assert table.nbytes > 16 * 1024 * 1024
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("from", 3)
        admin.create_topic("to", 3)
        result = producer.send_table("from", table).result(timeout=60)
        assert result.count == rows
        parts: list[Any] = []
        with Consumer("from", bootstrap_servers=url) as consumer:
            while sum(part.num_rows for part in parts) < rows:
                parts.append(consumer.poll_arrow(5_000))
        producer.send_table("to", pa.concat_tables(parts)).result(timeout=60)
        with Consumer("to", bootstrap_servers=url) as consumer:
            copies: list[Any] = []
            while sum(part.num_rows for part in copies) < rows:
                copies.append(consumer.poll_arrow(5_000))
    columns = ["partition", "offset", "timestamp", "key", "value"]
    order = [("partition", "ascending"), ("offset", "ascending")]
    original = pa.concat_tables(parts).select(columns).sort_by(order)
    assert pa.concat_tables(copies).select(columns).sort_by(order).equals(original)
    assert sorted(original.column("value").to_pylist()) == sorted(table.column("value").to_pylist())


def test_topics_and_offsets(url: str) -> None:
    """``Admin`` against the real thing: every call, and the errors that it promises."""
    with Admin(url) as admin, Producer(url) as producer:
        topic = admin.create_topic("t", 2, {"flush.ms": 1})
        assert set(topic.config) == set(SETTINGS) - SHOWN_WHERE_SET
        assert admin.create_topic("t", 2, {"flush.ms": 1}, exist_ok=True).name == "t"
        with pytest.raises(TopicAlreadyExists):
            admin.create_topic("t", 2, {"flush.ms": 1})
        with pytest.raises(InvalidConfig) as caught:
            admin.alter_topic("t", config={"no.such": 1})
        assert caught.value.fields["errors"][0]["where"] == "/config/no.such"
        assert admin.alter_topic("t", partition_count=3, config={"max.message.bytes": 1_000}).partition_count == 3
        for number in range(10):
            producer.send("t", b"x", partition=1, timestamp_ms=number * 10)
        with pytest.raises(RecordTooLarge):
            producer.send("t", b"x" * 1_001).result(timeout=30)
        with pytest.raises(UnknownPartition):
            producer.send("t", b"x", partition=3).result(timeout=30)
        with pytest.raises(UnknownTopic):
            producer.send("nowhere", b"x").result(timeout=30)
        offsets = admin.offsets("t", timestamp_ms=35)
        assert (offsets[1].log_start_offset, offsets[1].high_watermark, offsets[1].offset) == (0, 10, 4)
        assert offsets[0].offset is None
        assert admin.delete_records("t", {1: 4}) == {1: 4}
        with pytest.raises(OffsetOutOfRange):
            admin.delete_records("t", {1: 11})
        place = TopicPartition("t", 1)
        with Consumer(bootstrap_servers=url, auto_offset_reset="none") as consumer:
            consumer.assign([place])
            for offset, status in ((3, 410), (11, 416)):
                consumer.seek(place, offset)
                with pytest.raises(OffsetOutOfRange) as out:
                    consumer.poll(1_000)
                assert (out.value.status, out.value.fields["high_watermark"]) == (status, 10)
            consumer.seek_to_beginning()
            assert consumer.poll(1_000)[0].offset == 4
            assert consumer.offsets_for_times({place: 75}) == {place: 8}
        assert admin.delete_records("t", {1: END}) == {1: 10}
        assert [each.name for each in admin.list_topics()] == ["t"]
        assert admin.cluster().limits["request_bytes_max"] == 16 * 1024 * 1024
        admin.delete_topic("t")
        with pytest.raises(UnknownTopic):
            admin.describe_topic("t")
        with pytest.raises(UnknownTopic):
            producer.send("t", b"x", partition=0).result(timeout=30)
        producer_error = pytest.raises(Exception, match="not acknowledged")
        with producer_error:
            producer.flush()


def test_following_while_it_is_written(url: str) -> None:
    """A consumer that waits gets each record soon after it is acknowledged, once, in order."""
    with Admin(url) as admin:
        admin.create_topic("t", 3, {"flush.ms": 5})
    found: list[Record] = []

    def follow() -> None:
        with Consumer("t", bootstrap_servers=url) as consumer:
            while len(found) < 300:
                found.extend(consumer.poll(20_000))

    thread = threading.Thread(target=follow)
    thread.start()
    with Producer(url, linger_ms=0) as producer:
        for number in range(300):
            producer.send("t", str(number), partition=number % 3)
            if number % 30 == 0:
                time.sleep(0.05)
    thread.join(timeout=30)
    assert not thread.is_alive()
    for partition in range(3):
        own = [record for record in found if record.partition == partition]
        assert [record.offset for record in own] == list(range(100))
        assert [int(record.value or b"") for record in own] == list(range(partition, 300, 3))


def test_nothing_acknowledged_is_lost_when_the_gateway_is_killed(any_gateway: GatewayProcess) -> None:
    """Killed twice while a producer sends, and started again: acknowledged records are there at their offsets, nothing is there
    twice, in order; what is in doubt said so; and a consumer follows through both ends without a gap."""
    with Admin(any_gateway.url) as admin:
        admin.create_topic("t", 2, {"flush.ms": 5})
    stop = threading.Event()
    futures = []
    followed: list[Record] = []

    def send() -> None:
        with Producer(any_gateway.url, linger_ms=1, on_delivery=lambda error, record: None) as producer:
            number = 0
            while not stop.is_set():
                futures.append(producer.send("t", str(number), partition=number % 2))
                number += 1
                time.sleep(0.0005)

    def follow() -> None:
        with Consumer("t", bootstrap_servers=any_gateway.url) as consumer:
            found: list[Record] = []
            while not any(record.value == b"end" for record in found):
                found = consumer.poll(1_000)
                followed.extend(found)

    sender, follower = threading.Thread(target=send), threading.Thread(target=follow, daemon=True)
    sender.start()
    follower.start()
    for _ in range(2):
        time.sleep(0.7)
        any_gateway.kill()
        time.sleep(0.3)
        any_gateway.start()
    time.sleep(0.7)
    stop.set()
    sender.join(timeout=60)
    assert not sender.is_alive()
    acknowledged, in_doubt = {}, set()
    for number, future in enumerate(futures):
        error = future.exception(timeout=0)
        if error is None:
            metadata = future.result()
            acknowledged[number] = (metadata.partition, metadata.offset)
        else:
            assert error.may_have_happened  # type: ignore[attr-defined]
            in_doubt.add(number)
    records = read(any_gateway.url, "t")
    with Producer(any_gateway.url) as producer:
        producer.send("t", b"end", partition=0)
    follower.join(timeout=60)
    assert not follower.is_alive()
    for partition in range(2):
        own = [each for each in records if each.partition == partition]
        seen = [each for each in followed if each.partition == partition and each.value != b"end"]
        assert seen == own[: len(seen)]
        assert partition == 1 or len(seen) == len(own)
    stored = {int(record.value or b""): (record.partition, record.offset) for record in records}
    assert len(stored) == len(records)
    assert len(acknowledged) > 500
    assert {number: place for number, place in stored.items() if number not in in_doubt} == acknowledged
    for partition in range(2):
        numbers = [int(record.value or b"") for record in records if record.partition == partition]
        assert numbers == sorted(numbers)


def test_the_command_line_in_a_pipe(gateway: GatewayProcess, tmp_path: Path) -> None:
    """Create, produce from a file, copy from topic to topic through a pipe, verify: the same lines come out."""
    environment = {**os.environ, "TIDELOG_URL": gateway.url}

    def run(command: str) -> bytes:
        function = f'tidelog() {{ {shlex.quote(sys.executable)} -m tidelog "$@"; }}; '
        return subprocess.run(
            ["/bin/sh", "-ec", function + command], env=environment, capture_output=True, check=True
        ).stdout

    lines = b"".join(b"user-%d:%d \xff\n" % (number % 7, number) for number in range(5_000))
    (tmp_path / "lines").write_bytes(lines)
    run("tidelog topic create one -p 4 && tidelog topic create two -p 4")
    run(f"tidelog produce one -k : {shlex.quote(str(tmp_path / 'lines'))}")
    run("tidelog consume one --json | tidelog produce two -f ndjson")
    copied = run("tidelog consume two -f raw -k :")
    assert sorted(copied.splitlines()) == sorted(lines.splitlines())
    assert gateway.end() == 0
    assert b"is intact" in run(f"tidelog verify two --store {shlex.quote(gateway.store)}")


@pytest.mark.parametrize("name", ["sdk_first_steps.py", "sdk_arrow.py"])
def test_the_examples_run(url: str, name: str) -> None:
    """What the documentation shows works as it stands."""
    example = Path(__file__).parents[2] / "examples" / name
    environment = {**os.environ, "TIDELOG_URL": url}
    ended = subprocess.run([sys.executable, example], env=environment, capture_output=True, check=False, timeout=90)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout
