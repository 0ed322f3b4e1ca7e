"""Maintenance beside two gateways and their readers, killed again and again: gateways and readers notice nothing."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import urllib3

from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from tests.support.gateway_process import StartGateway

PARTITIONS = 2
KILLS = 2
SECONDS_MAX = 150

pytestmark = pytest.mark.timeout(400)


@dataclass(slots=True)
class Seen:
    """What one producer had acknowledged (value -> place), or one reader read (in order)."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    read: list[tuple[int, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def produce(url: str, partition: int, seen: Seen, stopping: threading.Event) -> None:
    number = 0
    with urllib3.PoolManager(retries=False, timeout=30) as http:
        while not stopping.is_set():
            values = [f"{partition}-{number + i}" for i in range(3)]
            answer = http.request(
                "POST",
                f"{url}/v1/topics/t/partitions/{partition}/records",
                body=json.dumps({"records": [{"key": value[-1], "value": value} for value in values]}),
                headers={"Content-Type": "application/json"},
            )
            if answer.status != 200:
                seen.problems.append(answer.data.decode())
                return
            base = answer.json()["partitions"][0]["base_offset"]
            seen.acknowledged |= {value: base + i for i, value in enumerate(values)}
            number += len(values)


def read(url: str, partition: int, seen: Seen, end: threading.Event) -> None:
    """From the beginning, over and over to where it ends, so that old segments are read while they are replaced."""
    with urllib3.PoolManager(retries=False, timeout=60) as http:
        while True:
            is_last = end.is_set()
            offset, found = 0, []
            while True:
                fields = {"offset": str(offset), "max_records": "500"}
                answer = http.request("GET", f"{url}/v1/topics/t/partitions/{partition}/records", fields=fields)
                if answer.status != 200:
                    seen.problems.append(answer.data.decode())
                    return
                body = answer.json()
                found += [(record["offset"], record["value"]) for record in body["records"]]
                if body["next_offset"] == offset:
                    break
                offset = body["next_offset"]
            if [place for place, _ in found] != list(range(len(found))) or found[: len(seen.read)] != seen.read:
                seen.problems.append(f"partition {partition} was read as something else")
                return
            seen.read = found
            if is_last:
                return


@contextlib.contextmanager
def clients(urls: list[str], producers: list[Seen], readers: list[Seen]) -> Iterator[None]:
    """A producer and a reader of each partition; readers end after they have read what producers wrote last."""
    stopping, end = threading.Event(), threading.Event()
    writing = [
        threading.Thread(target=produce, args=(urls[number % 2], number, seen, stopping))
        for number, seen in enumerate(producers)
    ]
    reading = [
        threading.Thread(target=read, args=(urls[1 - number % 2], number, seen, end))
        for number, seen in enumerate(readers)
    ]
    for thread in [*writing, *reading]:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in writing:
            thread.join(60)
        end.set()
        for thread in reading:
            thread.join(120)


def maintain_and_kill(store_uri: str, output: Path, deadline: float) -> None:
    """Run maintenance, and kill it in the middle of what follows its first commit."""
    command = [
        sys.executable,
        "-m",
        "compaction",
        "--store",
        store_uri,
        "--workers",
        "local",
        "--every",
        "1s",
        "--json",
    ]
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
    try:
        while b'"committed"' not in output.read_bytes():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, "maintenance found nothing to do"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    events = [json.loads(line) for line in output.read_bytes().splitlines()[:-1]]
    assert not [event for event in events if event["event"] == "failed"]


def test_killed_maintenance_is_noticed_by_nobody(s3_uri: str, tmp_path: Path, start_gateway: StartGateway) -> None:
    """Every acknowledged record is read at its offset by every reader, all the time; and the topic verifies."""
    producers, readers = [Seen() for _ in range(PARTITIONS)], [Seen() for _ in range(PARTITIONS)]
    gateways = [start_gateway(s3_uri) for _ in range(2)]
    config = {"flush.ms": 0, "deleted.file.retention.ms": 0}
    body = {"name": "t", "partition_count": PARTITIONS, "config": config}
    created = gateways[0].http.post("/v1/topics", json=body)
    assert created.status_code == 201, created.text
    with clients([gateway.url for gateway in gateways], producers, readers):
        deadline = time.monotonic() + SECONDS_MAX
        for number in range(KILLS):
            maintain_and_kill(s3_uri, tmp_path / f"maintenance-{number}.json", deadline)
    assert [seen.problems for seen in [*producers, *readers]] == [[]] * (2 * PARTITIONS)
    for written, found in zip(producers, readers, strict=True):
        assert {value: offset for offset, value in found.read} == written.acknowledged
    report = verify_topic(open_store(s3_uri), "t")
    assert report.problems == ()
    assert report.record_count == sum(len(seen.acknowledged) for seen in producers)
