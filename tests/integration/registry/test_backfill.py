"""``tidelog topic alter --backfill`` and ``tidelog maintain``, beside a gateway that goes on: what was there gets columns."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable

from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from tests.support.command_runs import runner
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.registry import Registry, record

ORDER = record("Order", id="long", note=(["null", "string"], None))
GROUPS = 5
NOW_MS = int(time.time() * 1000)

pytestmark = pytest.mark.timeout(120)


def by_kafka(gateway: KafkaGateway, topic: str) -> list[tuple[Any, ...]]:
    """Every record as a Kafka client reads it: offset, timestamp, key, value, headers."""
    consumer = Consumer({"bootstrap.servers": gateway.kafka, "group.id": "none", "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[Any, ...]] = []
    deadline = time.monotonic() + 20
    while len(found) < end:
        assert time.monotonic() < deadline, f"{len(found)} of {end} records were read"
        for message in consumer.consume(max(1, end - len(found)), timeout=1):
            assert message.error() is None
            found.append(
                (message.offset(), message.timestamp(), message.key(), message.value(), tuple(message.headers() or ()))
            )
    consumer.close()
    return found


def by_http(gateway: KafkaGateway, topic: str) -> list[Any]:
    """Every record as the SDK's calls get it."""
    fields = {"offset": "0", "max_records": "10000"}
    answer = httpx.get(f"{gateway.url}/v1/topics/{topic}/partitions/0/records", params=fields, trust_env=False)
    records: list[Any] = answer.json()["records"]
    return records


def send(gateway: KafkaGateway, topic: str, first: int) -> None:
    """Ten records of Kafka's client, of which the last is no order."""
    producer = Producer({"bootstrap.servers": gateway.kafka})
    for number in range(first, first + 10):
        value = json.dumps({"id": number, "note": f"n{number}"}) if number % 10 != 9 else "no order"
        producer.produce(
            topic, value, key=f"k{number % 3}", headers=[("h", bytes([number % 256]))], timestamp=NOW_MS + number
        )
    assert producer.flush(30) == 0


def maintain(gateway: KafkaGateway, output: Path, *, kill: bool) -> list[dict[str, Any]]:
    """Run maintenance once, or kill it after its first commit; its events."""
    command = [sys.executable, "-m", "compaction", "--store", str(gateway.store), "--workers", "local", "--json"]
    with output.open("wb") as file:
        process = subprocess.Popen([*command, "--topic", "t"], stdout=file, stderr=subprocess.DEVNULL)
    if kill:
        while b'"committed"' not in output.read_bytes() and process.poll() is None:
            time.sleep(0.002)
        process.kill()
    assert process.wait(120) in ({0, -9} if kill else {0})
    return [json.loads(line) for line in output.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def test_a_killed_backfill_goes_on_and_readers_notice_nothing(tmp_path: Path) -> None:
    """Bytes, keys, headers, times and offsets are as before for every reader; a Delta reader sees typed columns and reasons."""
    with kafka_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        run, registry = runner(gateway.url), Registry(f"{gateway.url}/registry")
        registry.register("t-value", ORDER)
        made = run("topic", "create", "t", "-c", "commit.mode=own", "-c", "data.on.error=mark")
        assert made.exit_code == 0, made.stderr
        for group in range(GROUPS):
            send(gateway, "t", 20 * group)
            assert run("topic", "alter", "t", "--value-schema", "t-value").exit_code == 0
            send(gateway, "t", 20 * group + 10)
            assert run("topic", "alter", "t", "--reset-config", "value.schema").exit_code == 0
        before = by_kafka(gateway, "t"), by_http(gateway, "t")
        altered = run("topic", "alter", "t", "--value-schema", "t-value", "--backfill", "--json")
        assert json.loads(altered.stdout)["config"]["data.backfill"] == "on"

        first = maintain(gateway, tmp_path / "first", kill=True)
        assert (by_kafka(gateway, "t"), by_http(gateway, "t")) == before
        send(gateway, "t", 20 * GROUPS)
        before = by_kafka(gateway, "t"), by_http(gateway, "t")
        last = maintain(gateway, tmp_path / "last", kill=False)
        assert last[-1]["untyped_segments"] == 0
        left = [event["segments_left"] for event in [*first, *last] if event["event"] == "backfill"]
        assert left[0] == GROUPS
        assert left[-1] == 0
        assert (by_kafka(gateway, "t"), by_http(gateway, "t")) == before

        table: pa.Table = DeltaTable(f"{gateway.store}/topics/t").to_pyarrow_table().sort_by("offset")
        assert [row and row["id"] for row in table.column("data").to_pylist()] == [
            number if number % 10 != 9 else None for number in range(20 * GROUPS + 10)
        ]
        assert table.column("data_error").null_count == 18 * GROUPS + 9
        few = DeltaTable(f"{gateway.store}/topics/t").get_add_actions(flatten=True)
        assert min(few.column("min.data.id").to_pylist()) == 0
        assert verify_topic(open_store(str(gateway.store)), "t").problems == ()
        registry.close()
